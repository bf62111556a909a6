"""Spaces that are a list of points: given ones, or those of a box that came up."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces.base import FiniteSpace, Indices


class Listed(FiniteSpace):
    """Candidates that are the rows of an array.

    Attributes
    ----------
    array : ndarray
        (n, d), read only. It never changes: `grown` gives a longer list.
    """

    __slots__ = ()
    _called: ClassVar[str]
    array: Floats

    @property
    def dimension(self) -> int:
        return int(self.array.shape[1])

    @property
    def size(self) -> int:
        return len(self.array)

    def points(self, candidates: ArrayLike | None = None) -> Floats:
        return self.array if candidates is None else self.array[np.asarray(candidates, dtype=np.int64)]

    @abstractmethod
    def find(self, points: Floats) -> Indices:
        """Numbers (k,) of the candidates equal to the rows of `points`; -1 for those that are none."""

    @abstractmethod
    def grown(self, points: Floats) -> Listed:
        """These candidates, and more points (k, d) after them."""

    def index(self, x: ArrayLike) -> Indices:
        points, _ = self.parse(x)
        found = self.find(points)
        if (found < 0).any():
            checks.refuse("x", points[found < 0][0].tolist(), f"one of the {self.size} {self._called}, exactly")
        return found


def _frozen_points(value: ArrayLike) -> Floats:
    array = checks.finite("array", value)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or not array.size:
        checks.refuse("array", f"shape {array.shape}", "(n, d) with n >= 1 and d >= 1")
    array = np.ascontiguousarray(array) + 0.0  # a copy, and -0.0 becomes 0.0: rows compare by their bytes
    array.flags.writeable = False
    return array


@attrs.frozen(eq=False, slots=False)
class Points(Listed):
    """Explicit candidates.

    Parameters
    ----------
    array
        (n, d) coordinates; (n,) is n points of dimension 1. Equal rows are one and the same point.

    Raises
    ------
    ValueError
        If the array is empty, not finite, or not of one or two dimensions.
    """

    _called = "candidates of the space"

    array: Floats = attrs.field(converter=_frozen_points, repr=False)
    _rows: dict[bytes, int] = attrs.field(init=False, factory=dict, repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Points) and np.array_equal(self.array, other.array)

    def __hash__(self) -> int:
        return hash((self.array.shape, self.array.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.array,)  # unpickled arrays would be writable

    def __repr__(self) -> str:
        return f"Points(size={self.size}, dimension={self.dimension})"

    def find(self, points: Floats) -> Indices:
        if not self._rows:
            for i in range(self.size - 1, -1, -1):
                self._rows[self.array[i].tobytes()] = i
        return np.array([self._rows.get(row.tobytes(), -1) for row in points + 0.0], dtype=np.int64)

    def grown(self, points: Floats) -> Points:
        return Points(np.concatenate([self.array, points]))

    def canonical(self, candidate: int) -> int:
        return int(self.find(self.array[[candidate]])[0])

    def equal_to(self, candidate: int) -> Indices:
        return np.flatnonzero((self.array == self.array[candidate]).all(axis=1))


class Visited(Listed):
    """The points of a box that were asked for or told, numbered as they came: none at first.

    Parameters
    ----------
    array
        (n, d); a row of NaN is a number whose point is not known here.
    rows
        Numbers that lists grown from the same beginning have given out, by the points' bytes.
    """

    _called = "points visited"

    def __init__(self, array: Floats, rows: dict[bytes, int] | None = None):
        self.array = array
        self.array.flags.writeable = False
        self._rows = {} if rows is None else rows

    def find(self, points: Floats) -> Indices:
        rows = points + 0.0
        found = np.array([self._rows.get(row.tobytes(), -1) for row in rows], dtype=np.int64)
        for i, number in enumerate(found.tolist()):  # it may be a number that another list has given out
            if number >= self.size or (number >= 0 and (self.array[number] != rows[i]).any()):
                found[i] = -1
        return found

    def placed(self, numbers: Indices, points: Floats) -> Visited:
        """These points, and more (k, d) under given numbers (k,); numbers left out in between are rows of NaN."""
        array = np.full((max(self.size, int(np.max(numbers, initial=-1)) + 1), self.dimension), np.nan)
        array[: self.size] = self.array
        array[numbers] = points + 0.0
        for number in numbers.tolist():
            if not np.isnan(array[number]).any():
                self._rows[array[number].tobytes()] = number
        return Visited(array, self._rows)

    def grown(self, points: Floats) -> Visited:
        return self.placed(np.arange(self.size, self.size + len(points)), points)
