"""Posterior of a cell's candidates, while it is in memory."""

from __future__ import annotations

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.partition import _numba_cells as numba_cells
from scalable_bandits.spaces import Indices

FEW = 16  # candidates up to which compiled loops have the prior covariance of a cell


class CellPosterior:
    """Exact posterior of a cell's candidates, by recursive updates in a window that is never folded (`window.py`).

    Parameters
    ----------
    kernel
        Prior covariance.
    points
        (n, d) candidates in the cell.
    numbers
        (n,) numbers of the candidates, ascending.
    prior_mean
        Prior mean, in units of y.

    Attributes
    ----------
    fields : ndarray
        (3, n) posterior mean, variance, and covariance with the point observed last.
    rank : int
        Number of rows: of distinct points observed.
    nbytes : int
        Memory used, approximately.
    """

    def __init__(self, kernel: Kernel, points: Floats, numbers: Indices, prior_mean: float):
        self.kernel, self.points, self.numbers = kernel, points, numbers
        self.fields = np.empty((3, len(numbers)))
        self.fields[0], self.fields[1] = prior_mean, kernel.diagonal(points)
        self._row_of = np.full(len(numbers), -1)  # rows of the positions observed
        self.rank = 0
        room = _capacity(len(numbers))
        self._rows, self._small = np.empty((room, len(numbers))), _small(room)
        self._prior: Floats | None = None  # (n, n) prior covariance, once compiled loops need it
        self.nbytes = self._size()

    @property
    def mean(self) -> Floats:
        """Posterior mean (n,)."""
        return self.fields[0]

    @property
    def variance(self) -> Floats:
        """Posterior variance (n,)."""
        return self.fields[1]

    @property
    def distinct(self) -> Indices:
        """Positions (r,) of the distinct points observed."""
        observed = np.flatnonzero(self._row_of >= 0)
        return observed[np.argsort(self._row_of[observed])]

    @property
    def addresses(self) -> tuple[int, ...]:
        """Addresses of fields, rows, small arrays, numbers, rows by position, and prior covariance.

        They are valid until there are more rows. The last is 0, no address, where there are many candidates.
        """
        if self._prior is None and len(self.numbers) <= FEW:
            self._prior = np.empty((len(self.numbers), len(self.numbers)))
            self.kernel.fill(self.points, self.points, self._prior)
        held = (self.fields, self._rows, self._small, self.numbers, self._row_of)
        return *(array.ctypes.data for array in held), 0 if self._prior is None else self._prior.ctypes.data

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of candidates, of rows that there is room for, and of rows."""
        return len(self.numbers), len(self._rows), self.rank

    def _make_room(self, capacity: int) -> None:
        """Make room for `capacity` distinct points."""
        r, room = self.rank, len(self._rows)
        rows, small = np.empty((capacity, len(self.numbers))), _small(capacity)
        rows[:r] = self._rows[:r]
        for new, old in zip(_squares(small, capacity), _squares(self._small, room), strict=True):
            new[:r, :r] = old[:r, :r]
        for new, old in zip(_lines(small, capacity), _lines(self._small, room), strict=True):
            new[:r] = old[:r]
        self._rows, self._small = rows, small
        self.nbytes = self._size()

    def _size(self) -> int:
        held = (self._rows, self.points, self.fields, self._small, self._row_of)
        return sum(array.nbytes for array in held) + 2000

    def observe_one(self, candidate: int, y: float, noise_variance: float) -> float:
        """Condition on one observation of a candidate and return the information gain it adds, in nats."""
        p = int(self.numbers.searchsorted(candidate))
        slot = self._row_of.item(p)
        if slot < 0:
            self._row_of[p] = self.rank
            if self.rank == len(self._rows):
                self._make_room(2 * self.rank)
            self.kernel.fill(self.points[p : p + 1], self.points, self.fields[2:])
        gain: float = numba_cells.observe(p, slot, y, noise_variance, self._small, self._rows, self.rank, self.fields)
        self.rank += slot < 0
        return gain

    def position(self, candidate: int) -> int:
        """Return the position of a candidate in the cell."""
        return int(self.numbers.searchsorted(candidate))

    def observe(self, positions: list[int], ys: Floats, noise_variances: Floats) -> float:
        """Condition on observations (k,) at positions, in order, and return the information gain they add, in nats."""
        at = np.array(positions, dtype=np.int64)
        slots, new = numba_cells.rows_of(at, self._row_of, self.rank)
        columns = np.empty((len(new), len(self.numbers)))
        if len(new):
            self.kernel.fill(self.points[new], self.points, columns)
            if self.rank + len(new) > len(self._rows):
                self._make_room(max(2 * len(self._rows), self.rank + len(new)))
        self.rank, gain = numba_cells.observe_all(
            at, slots, ys, noise_variances, columns, self._small, self._rows, self.rank,
            self.fields,
        )  # fmt: skip
        return float(gain)


def _capacity(count: int) -> int:
    """Return the number of distinct points that there is room for at first."""
    return 8 if count <= 512 else 2


def _small(room: int) -> Floats:
    """Return the window's small arrays for `room` distinct points, in one array as for `numba_cells.observe`."""
    return np.zeros(2 * room * room + 3 * room)


def _squares(small: Floats, room: int) -> Floats:
    """Return the two square ones of the small arrays, (2, room, room)."""
    return small[: 2 * room * room].reshape(2, room, room)


def _lines(small: Floats, room: int) -> Floats:
    """Return the others of the small arrays, (3, room)."""
    return small[2 * room * room :].reshape(3, room)
