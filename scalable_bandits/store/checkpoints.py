"""Checkpoints: a policy's state beside the observations, so that resuming a long run does not replay all of it.

A checkpoint is a cache: it can be computed again from the observations. A run has one, a file of numpy's zip format,
whose members have checksums; the next one replaces it as a whole. A damaged one is set aside with a warning, and the
observations are used instead.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.store.errors import one_line
from scalable_bandits.store.locations import COMMITTED, Location

KEY = f"{COMMITTED}/checkpoint.npz"
MISSING = "it is missing"
HEADER = "__checkpoint__"  # member with the rounds, the run and the version, or what else describes the arrays

State = dict[str, NDArray[Any]]


class Header(NamedTuple):
    """What a checkpoint says of itself."""

    rounds: int  # number of rounds in the state
    stamp: str  # version of the policy that can read the state
    run: str  # name of the run
    problem: str = ""  # `MISSING`, or its damage; empty if it can be read


def save_arrays(location: Location, key: str, header: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays (...,) of any shape and plain data as one file, in place of what the key has."""
    encoded = np.frombuffer(json.dumps(header).encode(), np.uint8)
    location.put(key, lambda file: np.savez(file, **{HEADER: encoded, **arrays}))  # type: ignore[arg-type]


def load_arrays(location: Location, key: str, header_alone: bool = False) -> tuple[Any, State]:
    """Return what `save_arrays` wrote.

    Raises
    ------
    ValueError
        If it is missing, cannot be read, or does not match its checksums.
    """
    opened = location.get_file(key)
    if opened is None:
        raise ValueError(MISSING)
    with opened:
        try:
            with zipfile.ZipFile(opened) as inside:
                if any(member.compress_type != zipfile.ZIP_STORED for member in inside.infolist()):
                    raise ValueError("it has members of another kind")  # which could become of any size
            opened.seek(0)
            with np.load(opened, allow_pickle=False) as arrays:
                header = json.loads(arrays[HEADER].tobytes())
                names = [] if header_alone else [name for name in arrays.files if name != HEADER]
                return header, {name: arrays[name] for name in names}
        except Exception as error:  # damaged bytes raise errors of any class
            raise ValueError(one_line(error)) from error


def save(location: Location, rounds: int, state: Mapping[str, NDArray[Any]], stamp: str = "", run: str = "") -> None:
    """Write the state after so many rounds of a named run, in place of an earlier one.

    The state is arrays (...,) of any shape by name; `stamp` is the version of the policy that can read it.
    """
    save_arrays(location, KEY, [rounds, stamp, run], state)


def read_header(location: Location) -> Header:
    """Return what the checkpoint of a run says of itself."""
    try:
        return Header(*load_arrays(location, KEY, header_alone=True)[0])
    except (ValueError, TypeError) as error:
        return Header(0, "", "", str(error))


class Restorable(Protocol):
    """Interface of objects with a state of arrays."""

    def state(self) -> State:
        """Return the state: arrays (...,) of any shape by name."""

    def restore(self, state: State) -> None:
        """Restore from the arrays (...,) returned by `state`."""


def restore(location: Location, most: int, stamp: str, run: str, target: Restorable) -> int:
    """Restore a new policy from the checkpoint if it fits; return the checkpoint's number of rounds, 0 if it does not.

    The run has `most` rounds, and a name; `stamp` is the version of the policy that can read the checkpoint.
    """
    held = read_header(location)
    why = held.problem or ("" if held.run == run else "it is another run's")
    if why == MISSING or (not why and (held.stamp != stamp or held.rounds > most)):
        return 0
    if not why:
        fresh = {name: array.copy() for name, array in target.state().items()}  # they may be the policy's own
        try:
            target.restore(load_arrays(location, KEY)[1])
            return held.rounds
        except Exception as error:  # damaged arrays, or those of another policy: any error is possible
            target.restore(fresh)
            why = one_line(error)
    text = f"the checkpoint {KEY} cannot be used ({why}) and was {location.set_aside(KEY)}"
    checks.warn(f"store {location.name}: {text}; the observations are used")
    return 0
