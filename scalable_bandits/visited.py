"""The space of a policy that plays a whole box: the points that came up."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces import FiniteSpace, Indices


class Visited(FiniteSpace):
    """The points of a box that were asked for or told, numbered as they came: none at first.

    It is never changed: `grown` gives a longer one.

    Parameters
    ----------
    array
        (n, d); a row of NaN is a number whose point is not known here.
    rows
        Numbers that lists grown from the same beginning have given out, by the points' bytes.
    """

    def __init__(self, array: Floats, rows: dict[bytes, int] | None = None):
        self.array = array
        self.array.flags.writeable = False
        self._rows = {} if rows is None else rows

    @property
    def dimension(self) -> int:
        return int(self.array.shape[1])

    @property
    def size(self) -> int:
        return len(self.array)

    def points(self, candidates: ArrayLike | None = None) -> Floats:
        return self.array if candidates is None else self.array[np.asarray(candidates, dtype=np.int64)]

    def find(self, points: Floats) -> Indices:
        """Numbers (k,) of the rows of `points`; -1 for those that have none."""
        rows = points + 0.0
        found = np.array([self._rows.get(row.tobytes(), -1) for row in rows], dtype=np.int64)
        for i, number in enumerate(found.tolist()):  # it may be a number that another list has given out
            if number >= self.size or (number >= 0 and (self.array[number] != rows[i]).any()):
                found[i] = -1
        return found

    def index(self, x: ArrayLike) -> Indices:
        points, _ = self.parse(x)
        found = self.find(points)
        if (found < 0).any():
            checks.refuse("x", points[found < 0][0].tolist(), f"one of the {self.size} points visited, exactly")
        return found

    def placed(self, numbers: Indices, points: Floats) -> Visited:
        """These points, and more under given numbers; numbers left out in between are rows of NaN."""
        array = np.full((max(self.size, int(np.max(numbers, initial=-1)) + 1), self.dimension), np.nan)
        array[: self.size] = self.array
        array[numbers] = points + 0.0
        for number in numbers.tolist():
            if not np.isnan(array[number]).any():
                self._rows[array[number].tobytes()] = number
        return Visited(array, self._rows)

    def grown(self, points: Floats) -> Visited:
        """These points, and more after them."""
        return self.placed(np.arange(self.size, self.size + len(points)), points)
