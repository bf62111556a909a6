"""Encoding of pending candidates as bytes: their numbers; on a box also their points, which no other file has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats


class Proposals(NamedTuple):
    """Points that a policy proposed and that no round has yet."""

    points: dict[int, Floats]  # points (d,) by candidate number, pending or abandoned
    given: int  # count of candidate numbers assigned so far


NO_PROPOSALS = Proposals({}, 0)


def remaining(pending: Sequence[int], candidates: Iterable[int]) -> list[int]:
    """Return the pending candidates without those that observations were told of, each of which settles one."""
    left = list(pending)
    for candidate in candidates if left else ():
        if candidate in left:
            left.remove(candidate)
    return left


def encode(pending: Sequence[int], proposals: Proposals, dimension: int) -> bytes:
    """Return the numbers of the pending candidates (int64) as bytes.

    On a box (`dimension` > 0) two counts come before the numbers and the points after them.
    """
    numbers = np.asarray(pending, dtype="<i8").tobytes()
    if not dimension:
        return numbers
    table = np.empty((len(proposals.points), 1 + dimension), dtype="<i8")
    for row, (number, point) in zip(table, proposals.points.items(), strict=True):
        row[0], row[1:] = number, point.astype("<f8").view("<i8")
    return np.array([proposals.given, len(pending)], dtype="<i8").tobytes() + numbers + table.tobytes()


def decode(data: bytes, dimension: int) -> tuple[list[int], Proposals]:
    """Return the numbers and proposals in bytes of `encode`."""
    numbers = np.frombuffer(data, "<i8")
    if not dimension or not len(numbers):
        return numbers.tolist(), NO_PROPOSALS
    given, count = numbers[:2].tolist()
    table = numbers[2 + count :].reshape(-1, 1 + dimension)
    points = np.ascontiguousarray(table[:, 1:]).view("<f8").astype(np.float64)
    return numbers[2 : 2 + count].tolist(), Proposals(dict(zip(table[:, 0].tolist(), points, strict=True)), given)
