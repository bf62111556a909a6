"""Checkpoints: a policy's state beside the observations, so that resuming a long run does not replay all of it.

A checkpoint is a cache: it can be computed again from the observations. It is used only if its digest over names,
shapes, types, attributes and bytes matches. A damaged checkpoint is set aside with a warning, and the other one or the
observations are used instead. Two checkpoints are overwritten in turn, so that one is always whole.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.store.errors import one_line
from scalable_bandits.store.layout import WHOLE, bytes_document, group_document
from scalable_bandits.store.locations import METADATA, Location
from scalable_bandits.store.record import is_signed, sign

GROUP = "checkpoints"
NAMES = ("a", "b")
PIECE = 2**24  # number of bytes written at a time


class Header(NamedTuple):
    """Metadata of a checkpoint."""

    attributes: dict[str, Any]  # empty if the metadata are damaged
    problem: str  # damage of the metadata; empty if they are whole


def save(location: Location, rounds: int, state: Mapping[str, NDArray[Any]], stamp: str = "", run: str = "") -> None:
    """Write a checkpoint in the place of one that is of no use, or of the older of the two.

    Parameters
    ----------
    location
        Location of the run.
    rounds
        Number of rounds in the state.
    state
        Arrays (...,) of any shape by name.
    stamp
        Version of the policy that can read the state.
    run
        Name of the run.
    """
    headers = read_headers(location)
    useful = {
        name: held["rounds"]
        for name, (held, problem) in headers.items()
        if not problem and (held["run"], held["stamp"]) == (run, stamp) and held["rounds"] <= rounds
    }
    name = next((n for n in NAMES if n not in useful), None) or min(NAMES, key=lambda n: useful[n])
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
    # Last, because the attributes mark a complete checkpoint.
    location.put_document(path, bytes_document(size, PIECE, sign(attributes)))
    location.commit_transaction()


def _pieces(state: Mapping[str, NDArray[Any]]) -> Iterator[bytearray]:
    """Iterate over the bytes of a state in pieces of PIECE bytes."""
    buffer = bytearray()
    for array in state.values():
        view = memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        while len(view):
            room = PIECE - len(buffer)
            buffer += view[:room]
            view = view[room:]
            if len(buffer) == PIECE:
                yield buffer
                buffer = bytearray()
    if buffer:
        yield buffer


State = dict[str, NDArray[Any]]


def load(location: Location, most: int, stamp: str = "", run: str = "") -> tuple[int, State] | None:
    """Return the rounds and state of the latest whole checkpoint of this run and stamp with at most `most` rounds.

    None if no checkpoint fits. Damaged checkpoints are set aside with a warning.
    """
    headers = read_headers(location)
    for name, header in headers.items():
        if header.problem or header.attributes["run"] != run:
            set_aside(location, name, header.problem or "it is another run's")
    fitting = {
        name: header.attributes
        for name, header in headers.items()
        if not header.problem and (header.attributes["run"], header.attributes["stamp"]) == (run, stamp)
        if header.attributes["rounds"] <= most
    }
    for name in sorted(fitting, key=lambda n: int(fitting[n]["rounds"]), reverse=True):
        try:
            return fitting[name]["rounds"], read(location, name, fitting[name])
        except ValueError as error:
            set_aside(location, name, str(error))
    return None


def set_aside(location: Location, name: str, why: str) -> None:
    """Set a damaged checkpoint aside, with a warning."""
    where = location.set_aside(f"{GROUP}/{name}")
    text = f"the checkpoint {GROUP}/{name} cannot be used ({why}) and was {where}"
    checks.warn(f"store {location.name}: {text}; the other one or the observations are used")


class Restorable(Protocol):
    """Interface of objects with a state of arrays."""

    def state(self) -> State:
        """Return the state: arrays (...,) of any shape by name."""

    def restore(self, state: State) -> None:
        """Restore from the arrays (...,) returned by `state`."""


def restore(location: Location, most: int, stamp: str, run: str, target: Restorable) -> int:
    """Restore a policy from the latest checkpoint that fits it; return the checkpoint's rounds, 0 if none fits.

    Parameters
    ----------
    location
        Location of the run.
    most
        Number of rounds of the run.
    stamp
        Version of the policy that can read the checkpoint.
    run
        Name of the run.
    target
        New policy without observations.
    """
    fresh: State | None = None
    for _ in NAMES:
        found = load(location, most, stamp, run)
        if found is None:
            return 0
        if fresh is None:  # copies, since the arrays may be the policy's own
            fresh = {name: held.copy() for name, held in target.state().items()}
        rounds, state = found
        try:
            target.restore(state)
        except Exception as error:  # a whole checkpoint of another policy: any error is possible
            target.restore(fresh)
            headers = read_headers(location)
            name = next(n for n in NAMES if n in headers and headers[n].attributes.get("rounds") == rounds)
            set_aside(location, name, f"the policy does not fit it: {error!r}")
            continue
        return rounds
    return 0


def read_headers(location: Location) -> dict[str, Header]:
    """Return the metadata of the completely written checkpoints by name."""
    headers = {}
    for name in NAMES:
        file = f"{GROUP}/{name}/{METADATA}"
        try:
            document = location.document(f"{GROUP}/{name}")
        except ValueError as error:
            headers[name] = Header({}, f"{file} is not JSON: {error}")
            continue
        attributes: Any = {} if document is None else document.get("attributes")
        if attributes == {}:  # its writing was interrupted
            continue
        if not is_signed(attributes):
            headers[name] = Header({}, f"the attributes in {file} do not match their digest")
        else:
            headers[name] = Header(attributes, "")
    return headers


def read(location: Location, name: str, attributes: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a checkpoint by name.

    Raises
    ------
    ValueError
        If its bytes cannot be read or do not match their digest.
    """
    size = attributes["size"]
    array: Any = location.column(f"{GROUP}/{name}", bytes_document(size, PIECE, {}), strict=True)
    data, checksum = np.empty(size, np.uint8), 0
    for start in range(0, size, PIECE):
        piece = data[start : start + PIECE]
        try:
            piece[:] = array[start : start + PIECE]
        except Exception as error:  # codecs raise errors of any class
            raise ValueError(f"{GROUP}/{name}/c/{start // PIECE} cannot be read: {one_line(error)}") from error
        checksum = zlib.crc32(piece.data, checksum)
    if checksum != attributes["checksum"]:
        raise ValueError(f"the bytes in {GROUP}/{name}/c do not match their digest")
    state = {}
    for key, (kind, shape, offset) in attributes["index"].items():
        dtype = np.dtype(kind)
        state[key] = data[offset : offset + dtype.itemsize * math.prod(shape)].view(dtype).reshape(shape)
    return state
