"""What is pending, as bytes: candidates' numbers; of a whole box also the points that nothing else would tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats


class Proposals(NamedTuple):
    """Points that a policy made and that no round has."""

    points: dict[int, Floats]  # (d,) by candidate: pending, or given up
    given: int  # numbers given out so far


NO_PROPOSALS = Proposals({}, 0)


def encode(pending: Sequence[int], proposals: Proposals, dimension: int) -> bytes:
    """Bytes of the numbers pending (int64); of a box of some dimension, behind two counts and before the points."""
    numbers = np.asarray(pending, dtype="<i8").tobytes()
    if not dimension:
        return numbers
    table = np.empty((len(proposals.points), 1 + dimension), dtype="<i8")
    for row, (number, point) in zip(table, proposals.points.items(), strict=True):
        row[0], row[1:] = number, point.astype("<f8").view("<i8")
    return np.array([proposals.given, len(pending)], dtype="<i8").tobytes() + numbers + table.tobytes()


def decode(data: bytes, dimension: int) -> tuple[list[int], Proposals]:
    """What was encoded."""
    numbers = np.frombuffer(data, "<i8")
    if not dimension or not len(numbers):
        return numbers.tolist(), NO_PROPOSALS
    given, count = numbers[:2].tolist()
    table = numbers[2 + count :].reshape(-1, 1 + dimension)
    points = np.ascontiguousarray(table[:, 1:]).view("<f8").astype(np.float64)
    return numbers[2 : 2 + count].tolist(), Proposals(dict(zip(table[:, 0].tolist(), points, strict=True)), given)
