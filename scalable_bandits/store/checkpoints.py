"""Checkpoints: a policy's state beside the observations, so that resuming a long run does not replay all of it.

A checkpoint is a cache: it can be computed again from the observations. It is one file of numpy's zip format, whose
members have checksums. A damaged one is set aside with a warning, and the other one or the observations are used
instead. Two are overwritten in turn, so that one is always whole.
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

KEYS = tuple(f"{COMMITTED}/checkpoint-{name}.npz" for name in "ab")
HEADER = "__checkpoint__"  # member with the rounds, the run and the version, or what else describes the arrays

State = dict[str, NDArray[Any]]


class Header(NamedTuple):
    """What a checkpoint says of itself."""

    rounds: int  # number of rounds in the state
    stamp: str  # version of the policy that can read the state
    run: str  # name of the run
    problem: str = ""  # damage; empty if it can be read

    def fits(self, stamp: str, run: str, most: int) -> bool:
        """Whether a policy of this version can go on with it in a run of so many rounds."""
        return (self.problem, self.stamp, self.run) == ("", stamp, run) and self.rounds <= most


def save_arrays(location: Location, key: str, header: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays (...,) of any shape and plain data as one file, in place of what the key has."""
    encoded = np.frombuffer(json.dumps(header).encode(), np.uint8)
    location.put_file(key, lambda file: np.savez(file, **{HEADER: encoded, **arrays}))  # type: ignore[arg-type]


def load_arrays(location: Location, key: str, header_alone: bool = False) -> tuple[Any, State]:
    """Return what `save_arrays` wrote.

    Raises
    ------
    ValueError
        If it is missing, cannot be read, or does not match its checksums.
    """
    opened = location.get_file(key)
    if opened is None:
        raise ValueError("it is missing")
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
    """Write the state after so many rounds of a named run, in the place of a useless checkpoint or of the older one.

    The state is arrays (...,) of any shape by name; `stamp` is the version of the policy that can read it.
    """
    headers = read_headers(location)
    useful = {key: held.rounds for key, held in headers.items() if held.fits(stamp, run, rounds)}
    save_arrays(location, min(KEYS, key=lambda key: useful.get(key, -1)), [rounds, stamp, run], state)


def read_headers(location: Location) -> dict[str, Header]:
    """Return what the checkpoints say of themselves, by key."""
    found = {}
    for key in KEYS:
        try:
            found[key] = Header(*load_arrays(location, key, header_alone=True)[0])
        except (ValueError, TypeError) as error:
            if str(error) != "it is missing":
                found[key] = Header(0, "", "", str(error))
    return found


class Restorable(Protocol):
    """Interface of objects with a state of arrays."""

    def state(self) -> State:
        """Return the state: arrays (...,) of any shape by name."""

    def restore(self, state: State) -> None:
        """Restore from the arrays (...,) returned by `state`."""


def restore(location: Location, most: int, stamp: str, run: str, target: Restorable) -> int:
    """Restore a new policy from the latest checkpoint that fits it; return the checkpoint's rounds, 0 if none fits.

    The run has `most` rounds, and a name; `stamp` is the version of the policy that can read the checkpoint.
    """
    headers, damage, found = read_headers(location), dict[str, str](), 0
    fresh: State | None = None
    for key, held in sorted(headers.items(), key=lambda item: item[1].rounds, reverse=True):
        if held.problem or held.run != run:
            damage[key] = held.problem or "it is another run's"
        elif not found and held.fits(stamp, run, most):
            try:
                state = load_arrays(location, key)[1]
            except ValueError as error:
                damage[key] = str(error)
                continue
            if fresh is None:  # copies, since the arrays may be the policy's own
                fresh = {name: array.copy() for name, array in target.state().items()}
            try:
                target.restore(state)
                found = held.rounds
            except Exception as error:  # a whole checkpoint of another policy: any error is possible
                target.restore(fresh)
                damage[key] = f"the policy does not fit it: {error!r}"
    for key, why in damage.items():
        text = f"the checkpoint {key} cannot be used ({why}) and was {location.set_aside(key)}"
        checks.warn(f"store {location.name}: {text}; the other one or the observations are used")
    return found
