"""Checkpoints: a policy's state beside the observations, so that a long run need not be replayed from its beginning.

A checkpoint is a cache. It can be made again from the observations. It is believed only if the digest over its names,
shapes, types, attributes and bytes holds; one that is damaged is set aside, with a warning, and the other one, or the
observations, take its place. Two take turns, so that one is whole while the other is written.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.store.errors import one_line
from scalable_bandits.store.layout import WHOLE, bytes_document, group_document
from scalable_bandits.store.locations import METADATA, Location
from scalable_bandits.store.record import is_signed, sign

GROUP = "checkpoints"
NAMES = ("a", "b")
PIECE = 2**24  # bytes written at a time


class Header(NamedTuple):
    """What the metadata of a checkpoint say."""

    attributes: dict[str, Any]  # empty, if the metadata are damaged
    why: str  # what is wrong with them; empty if they are whole


def save(location: Location, rounds: int, state: Mapping[str, NDArray[Any]], stamp: str = "", run: str = "") -> None:
    """Keep a state after so many rounds, in the place of the older of the two kept.

    Parameters
    ----------
    location
        Location of the run.
    rounds
        Rounds that the state has learned.
    state
        Arrays (...,) of any shape by name.
    stamp
        Version that can read it.
    run
        Name of the run.
    """
    kept = read_headers(location)
    whole = {name: held.attributes["rounds"] for name, held in kept.items() if not held.why}
    name = next((n for n in NAMES if n not in whole), None) or min(NAMES, key=lambda n: whole[n])
    path = f"{GROUP}/{name}"
    location.delete(path)
    index: dict[str, Any] = {}
    size = 0
    for key, array in state.items():
        index[key] = [array.dtype.str, list(array.shape), size]
        size += array.nbytes
    location.put_document(GROUP, group_document({}))
    location.put_document(path, bytes_document(size, PIECE, {}))
    target = location.column(path, bytes_document(size, PIECE, {})).with_config(WHOLE)
    start = checksum = 0
    for piece in _pieces(state):
        target[start : start + len(piece)] = np.frombuffer(piece, np.uint8)
        start, checksum = start + len(piece), zlib.crc32(piece, checksum)
    attributes = {"index": index, "rounds": rounds, "stamp": stamp, "run": run, "size": size, "checksum": checksum}
    # Last: without its attributes it is no checkpoint.
    location.put_document(path, bytes_document(size, PIECE, sign(attributes)))
    location.commit_transaction()


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


State = dict[str, NDArray[Any]]


def load(location: Location, most: int, stamp: str = "", run: str = "") -> tuple[int, State] | None:
    """Latest whole checkpoint of this run and stamp, of at most so many rounds, and its rounds; None if there is none.

    Those that are damaged are set aside, with a warning.
    """
    kept = read_headers(location)
    for name, held in kept.items():
        if held.why or held.attributes["run"] != run:
            set_aside(location, name, held.why or "it is another run's")
    fitting = {
        name: held.attributes
        for name, held in kept.items()
        if not held.why and (held.attributes["run"], held.attributes["stamp"]) == (run, stamp)
        if held.attributes["rounds"] <= most
    }
    for name in sorted(fitting, key=lambda n: int(fitting[n]["rounds"]), reverse=True):
        try:
            return fitting[name]["rounds"], read(location, name, fitting[name])
        except ValueError as error:
            set_aside(location, name, str(error))
    return None


def set_aside(location: Location, name: str, why: str) -> None:
    """Put a checkpoint out of the way, and warn."""
    where = location.set_aside(f"{GROUP}/{name}")
    text = f"the checkpoint {GROUP}/{name} is damaged and was not used, but {where} ({why})"
    warnings.warn(f"store {location.name}: {text}; the state is made again from what else there is", stacklevel=5)


class Restorable(Protocol):
    """What has a state of arrays."""

    def state(self) -> State:
        """Arrays (...,) of any shape by name."""

    def restore(self, state: State) -> None:
        """Be as these arrays (...,) say."""


def restore(location: Location, most: int, stamp: str, run: str, target: Restorable) -> int:
    """Bring a policy to the latest checkpoint that it takes; tells after how many rounds that was, 0 if it takes none.

    Parameters
    ----------
    location
        Location of the run.
    most
        Rounds of the run.
    stamp
        Version that can read the checkpoint.
    run
        Name of the run.
    target
        The fresh policy.
    """
    fresh: State | None = None
    for _ in NAMES:
        found = load(location, most, stamp, run)
        if found is None:
            return 0
        fresh = target.state() if fresh is None else fresh
        rounds, state = found
        try:
            target.restore(state)
        except Exception as error:  # it is whole, but another policy's: whatever that makes of it
            target.restore(fresh)
            held = read_headers(location)
            name = next(n for n in NAMES if n in held and held[n].attributes.get("rounds") == rounds)
            set_aside(location, name, f"the policy does not fit it: {error!r}")
            continue
        return rounds
    return 0


def remove(location: Location) -> None:
    """Forget all checkpoints."""
    location.delete(GROUP)
    location.commit_transaction()


def read_headers(location: Location) -> dict[str, Header]:
    """The checkpoints that were written to their end, by name."""
    kept = {}
    for name in NAMES:
        file = f"{GROUP}/{name}/{METADATA}"
        try:
            document = location.document(f"{GROUP}/{name}")
        except ValueError as error:
            kept[name] = Header({}, f"{file} is no JSON: {error}")
            continue
        attributes: Any = {} if document is None else document.get("attributes")
        if attributes == {}:  # it was not written to its end
            continue
        if not is_signed(attributes):
            kept[name] = Header({}, f"the attributes in {file} do not match their digest")
        else:
            kept[name] = Header(attributes, "")
    return kept


def read(location: Location, name: str, attributes: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Arrays of a checkpoint by name.

    Raises
    ------
    ValueError
        If its bytes are not those of its digest.
    """
    size = attributes["size"]
    array: Any = location.column(f"{GROUP}/{name}", bytes_document(size, PIECE, {}), strict=True)
    data, checksum = np.empty(size, np.uint8), 0
    for start in range(0, size, PIECE):
        piece = data[start : start + PIECE]
        try:
            piece[:] = array[start : start + PIECE]
        except Exception as error:  # codecs raise what they like
            raise ValueError(f"{GROUP}/{name}/c/{start // PIECE} cannot be read: {one_line(error)}") from error
        checksum = zlib.crc32(piece.data, checksum)
    if checksum != attributes["checksum"]:
        raise ValueError(f"the bytes in {GROUP}/{name}/c do not match their digest")
    state = {}
    for key, (kind, shape, offset) in attributes["index"].items():
        dtype = np.dtype(kind)
        state[key] = data[offset : offset + dtype.itemsize * math.prod(shape)].view(dtype).reshape(shape)
    return state
