"""Posteriors of the cells of a finite space."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors import _numba_choice as numba_choice
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.posteriors.partition import _numba_cells as numba_cells
from scalable_bandits.posteriors.partition.argmax_tree import ArgmaxTree
from scalable_bandits.posteriors.partition.cell import Cell
from scalable_bandits.posteriors.partition.cell_posteriors import CellPosteriors
from scalable_bandits.posteriors.partition.cover import FiniteCover
from scalable_bandits.posteriors.partition.empty_cubes import EmptyCubes
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.posteriors.regression import covariances
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
            self._prior = covariances(self.kernel, self.points, self.points)
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
        new = np.array([*dict.fromkeys(positions[self._row_of[positions] < 0].tolist())], dtype=np.int64)
        self._row_of[new] = np.arange(self.rank, self.rank + len(new))
        rows_at = self._row_of[positions]
        columns = covariances(self.kernel, self.points[new], self.points)
        if self.rank + len(new) > len(self._rows):
            self._reserve(max(2 * len(self._rows), self.rank + len(new)))
        self.rank, gain = numba_cells.observe_all(
            positions, rows_at, ys, noise_variances, columns, self._matrices, self._vectors, self._rows, self.rank,
            self.fields,
        )  # fmt: skip
        return float(gain)


class FiniteCells(CellPosteriors[FinitePosterior]):
    """Posteriors of cells of a finite space.

    Parameters
    ----------
    noise_variance
        Noise variance of pending values, in squared units of y.
    salt
        Seed of the tie-breaking hash.

    See `CellPosteriors` for the other parameters.
    """

    cover: FiniteCover

    def __init__(
        self, kernel: Kernel, prior_mean: float, noise_variance: float, salt: int, cover: FiniteCover,
        log: ObservationLog, tree: ArgmaxTree,
    ):  # fmt: skip
        prior = kernel.diagonal(cover.space.points(np.zeros(1, dtype=np.int64)))
        super().__init__(kernel, prior_mean, math.sqrt(prior[0]), cover, log, tree)
        self._noise, self._salt = np.array([noise_variance]), np.uint64(salt)

    def build(self, cell: Cell, pending: Sequence[int] = ()) -> tuple[FinitePosterior, float]:
        numbers, data, gain = self.cover.members(cell.divisions, cell.place), np.array(cell.data, dtype=np.int64), 0.0
        built = FinitePosterior(self.kernel, self.cover.space.points(numbers), numbers, self.prior_mean)
        if len(data):
            positions = numbers.searchsorted(self.log.candidates[data])
            gain = built.observe(positions, self.log.ys[data], self.log.noises[data])
        for p in numbers.searchsorted(pending):
            built.observe(np.array([p]), built.mean[[p]], self._noise)
        return built, gain

    def _with_pending(self, cell: Cell) -> FinitePosterior:
        """Return the posterior of a cell given its pending candidates too."""
        pending = self.pending.get(cell.number)
        return self.build(cell, pending)[0] if pending else self.posterior(cell)

    def observe(self, cell: Cell, candidate: int, y: float, noise_variance: float, log_term: float | None) -> None:
        posterior = self.posterior(cell)
        before = posterior.nbytes
        cell.gain += posterior.observe_one(candidate, y, noise_variance)
        self._bytes += posterior.nbytes - before
        if log_term is not None:  # now, since the posterior is in memory and the next round needs the maximizer
            self.tree.evaluate(cell, posterior.fields, posterior.numbers, log_term, self._salt)

    def evaluate(self, cell: Cell, log_term: float) -> None:
        posterior = self._with_pending(cell)
        self.tree.evaluate(cell, posterior.fields, posterior.numbers, log_term, self._salt)

    def last_index(self, cell: Cell, log_term: float) -> Floats:
        return self._index(cell, self.posterior(cell), log_term)

    def _index(self, cell: Cell, posterior: FinitePosterior, log_term: float) -> Floats:
        """Return the indices (n,) of a cell's candidates, in units of y."""
        index = posterior.mean + self.tree.width(cell.gain, log_term) * np.sqrt(posterior.variance)
        return np.minimum(index, cell.parent_index) if len(cell.parent_index) else index

    def tied_maximizer(self, group: EmptyCubes) -> int:
        assert group.place is not None
        members = self.cover.members(group.divisions, group.place)
        return int(members[numba_choice.tie_hashes(members, self._salt).argmin()])  # of equal hashes the first number

    def best(self, cell: Cell) -> tuple[float, int, float]:
        posterior = self.posterior(cell)
        p = max(posterior.distinct.tolist(), key=posterior.mean.item)
        return float(posterior.mean[p]), int(posterior.numbers[p]), float(posterior.variance[p] ** 0.5)

    def best_among(self, cell: Cell, candidates: Sequence[int], log_term: float) -> tuple[float, int]:
        posterior = self._with_pending(cell)
        index = self._index(cell, posterior, log_term)[posterior.numbers.searchsorted(candidates)]
        position, largest = choose(index, int(self._salt), None, np.array(candidates))
        return largest, candidates[position]
