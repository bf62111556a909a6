"""Checkpoints: a policy's state beside the observations, so that a long run need not be replayed from its beginning.

A checkpoint is a cache. It can be made again from the observations, it is checked when it is read, and one that is
damaged is passed over. Two take turns, so that one is whole while the other is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec

from scalable_bandits.store.layout import WHOLE
from scalable_bandits.store.locations import Location

GROUP = "checkpoints"
NAMES = ("a", "b")
PIECE = 2**24  # bytes written at a time


def save(location: Location, rounds: int, state: Mapping[str, NDArray[Any]], stamp: str = "") -> None:
    """Keep a state after so many rounds, in the place of the older of the two kept; `stamp` says who can read it."""
    inside = location.group("r+").require_group(GROUP)
    kept = _kept(location)
    name = next((n for n in NAMES if n not in kept), None) or min(NAMES, key=lambda n: kept[n]["rounds"])
    index: dict[str, Any] = {}
    size = 0
    for key, array in state.items():
        index[key] = [array.dtype.str, list(array.shape), size]
        size += array.nbytes
    target = inside.create_array(
        name,
        shape=(size,),
        chunks=(min(PIECE, max(size, 1)),),
        dtype="uint8",
        overwrite=True,
        compressors=Crc32cCodec(),
        config=WHOLE,
    )
    start = 0
    for piece in _pieces(state):
        target[start : start + len(piece)] = np.frombuffer(piece, np.uint8)
        start += len(piece)
    target.update_attributes(
        {"index": index, "rounds": rounds, "stamp": stamp}
    )  # last: without it there is no checkpoint
    location.settle()


def _pieces(state: Mapping[str, NDArray[Any]]) -> Iterator[bytearray]:
    """All bytes of a state, PIECE at a time."""
    held = bytearray()
    for array in state.values():
        view = memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        while len(view):
            room = PIECE - len(held)
            held += view[:room]
            view = view[room:]
            if len(held) == PIECE:
                yield held
                held = bytearray()
    if held:
        yield held


def load(location: Location, most: int, stamp: str = "") -> tuple[int, dict[str, NDArray[Any]]] | None:
    """Latest checkpoint of this stamp, of at most so many rounds, that is whole, and its rounds; None if none is."""
    kept = {
        name: held for name, held in _kept(location).items() if held.get("stamp") == stamp and held["rounds"] <= most
    }
    for name in sorted(kept, key=lambda n: kept[n]["rounds"], reverse=True):
        try:
            array: Any = location.complete()[f"{GROUP}/{name}"]
            return kept[name]["rounds"], _state(array)
        except Exception:  # a checksum is wrong, a piece is missing
            continue
    return None


def remove(location: Location) -> None:
    """Forget all checkpoints."""
    group = location.group("r+")
    if GROUP in group:
        del group[GROUP]
    location.settle()


def _kept(location: Location) -> dict[str, dict[str, Any]]:
    """Attributes of the checkpoints that were written to their end."""
    group: Any = location.complete()
    kept = {}
    for name in NAMES:
        try:
            attributes = dict(group[f"{GROUP}/{name}"].attrs)
        except Exception:  # there is none, or its metadata is damaged
            continue
        if "rounds" in attributes:
            kept[name] = attributes
    return kept


def _state(array: zarr.Array[Any]) -> dict[str, NDArray[Any]]:
    state = {}
    index: Any = array.attrs["index"]
    for key, (kind, shape, offset) in index.items():
        dtype = np.dtype(kind)
        size = dtype.itemsize * math.prod(shape)
        data: Any = np.asarray(array[offset : offset + size]) if size else np.empty(0, np.uint8)
        state[key] = data.view(dtype).reshape(shape)
    return state
