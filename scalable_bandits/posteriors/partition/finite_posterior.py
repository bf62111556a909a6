"""Posterior of the candidates in a cell of a finite space, while it is in memory."""

from __future__ import annotations

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.partition import _numba_cells as numba_cells
from scalable_bandits.spaces import Indices

FEW = 16  # number of candidates up to which compiled loops have the prior covariance of a cell


class FinitePosterior:
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
        Number of rows, which is the number of distinct points observed.
    nbytes : int
        Memory used, approximately.
    """

    def __init__(self, kernel: Kernel, points: Floats, numbers: Indices, prior_mean: float):
        self.kernel, self.points, self.numbers = kernel, points, numbers
        self.fields = np.empty((3, len(numbers)))
        self.fields[0], self.fields[1] = prior_mean, kernel.diagonal(points)
        self._row_of = np.full(len(numbers), -1)  # (n,) row of each position, -1 if it was not observed
        self.rank = 0
        capacity = 8 if len(numbers) <= 512 else 2  # number of distinct points that fit at first
        self._rows = np.empty((capacity, len(numbers)))
        self._matrices, self._vectors = np.zeros((2, capacity, capacity)), np.zeros((3, capacity))
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
        """Addresses of fields, rows, matrices, vectors, numbers, rows by position, and prior covariance.

        They are valid until the capacity grows. The last is 0, which is no address, if there are many candidates.
        """
        if self._prior is None and len(self.numbers) <= FEW:
            self._prior = np.empty((len(self.numbers), len(self.numbers)))
            self.kernel.fill(self.points, self.points, self._prior)
        addressed = (self.fields, self._rows, self._matrices, self._vectors, self.numbers, self._row_of)
        return *(array.ctypes.data for array in addressed), 0 if self._prior is None else self._prior.ctypes.data

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of candidates, of rows that fit in the arrays, and of rows."""
        return len(self.numbers), len(self._rows), self.rank

    def _reserve(self, capacity: int) -> None:
        """Enlarge the arrays so that `capacity` distinct points fit."""
        r, rows, matrices, vectors = self.rank, self._rows, self._matrices, self._vectors
        self._rows = np.empty((capacity, len(self.numbers)))
        self._matrices, self._vectors = np.zeros((2, capacity, capacity)), np.zeros((3, capacity))
        self._rows[:r], self._matrices[:, :r, :r], self._vectors[:, :r] = rows[:r], matrices[:, :r, :r], vectors[:, :r]
        self.nbytes = self._size()

    def _size(self) -> int:
        arrays = (self._rows, self.points, self.fields, self._matrices, self._vectors, self._row_of)
        return sum(array.nbytes for array in arrays) + 2000

    def observe_one(self, candidate: int, y: float, noise_variance: float) -> float:
        """Condition on one observation of a candidate and return the information gain it adds, in nats."""
        p = int(self.numbers.searchsorted(candidate))
        row = self._row_of.item(p)
        if row < 0:
            self._row_of[p] = self.rank
            if self.rank == len(self._rows):
                self._reserve(2 * self.rank)
            self.kernel.fill(self.points[p : p + 1], self.points, self.fields[2:])
        gain: float = numba_cells.observe(
            p, row, y, noise_variance, self._matrices, self._vectors, self._rows, self.rank, self.fields
        )
        self.rank += row < 0
        return gain

    def observe(self, positions: Indices, ys: Floats, noise_variances: Floats) -> float:
        """Condition on observations (k,) at positions, in order, and return the information gain they add, in nats."""
        rows_at, new = numba_cells.rows_of(positions, self._row_of, self.rank)
        columns = np.empty((len(new), len(self.numbers)))
        if len(new):
            self.kernel.fill(self.points[new], self.points, columns)
            if self.rank + len(new) > len(self._rows):
                self._reserve(max(2 * len(self._rows), self.rank + len(new)))
        self.rank, gain = numba_cells.observe_all(
            positions, rows_at, ys, noise_variances, columns, self._matrices, self._vectors, self._rows, self.rank,
            self.fields,
        )  # fmt: skip
        return float(gain)
