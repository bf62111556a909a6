"""Posteriors of the cells of a finite space."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors import _numba_choice as numba_choice
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.posteriors.partition.argmax_tree import ArgmaxTree
from scalable_bandits.posteriors.partition.cell import Cell
from scalable_bandits.posteriors.partition.cell_posteriors import CellPosteriors
from scalable_bandits.posteriors.partition.cover import FiniteCover
from scalable_bandits.posteriors.partition.finite_posterior import FinitePosterior
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.spaces import Indices


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

    def _members(self, cell: Cell) -> Indices:
        """Return the numbers (n,) of the candidates in a cell, ascending."""
        return self.cover.members(cell.divisions, cell.place)

    def build(self, cell: Cell, pending: Sequence[int] = ()) -> tuple[FinitePosterior, float]:
        numbers, data, gain = self._members(cell), np.array(cell.data, dtype=np.int64), 0.0
        built = FinitePosterior(self.kernel, self.cover.space.points(numbers), numbers, self.prior_mean)
        if len(data):
            positions = numbers.searchsorted(self.log.candidates[data])
            gain = built.observe(positions, self.log.ys[data], self.log.noises[data])
        for p in numbers.searchsorted(pending):
            built.observe(np.array([p]), built.mean[[p]], self._noise)
        return built, gain

    def observe(self, cell: Cell, candidate: int, y: float, noise_variance: float, log_term: float | None) -> None:
        posterior = self.posterior(cell)
        before = posterior.nbytes
        cell.gain += posterior.observe_one(candidate, y, noise_variance)
        self._bytes += posterior.nbytes - before
        if log_term is not None:  # now, since the posterior is in memory and the next round needs the maximizer
            self.tree.evaluate(cell, posterior, log_term, self._salt)

    def evaluate(self, cell: Cell, log_term: float) -> None:
        self.tree.evaluate(cell, self.posterior_with_pending(cell), log_term, self._salt)

    def last_index(self, cell: Cell, log_term: float) -> Floats:
        return self._index(cell, self.posterior(cell), log_term)

    def _index(self, cell: Cell, posterior: FinitePosterior, log_term: float) -> Floats:
        """Return the indices (n,) of a cell's candidates, in units of y."""
        index = posterior.mean + self.tree.width(cell.gain, log_term) * np.sqrt(posterior.variance)
        return np.minimum(index, cell.parent_index) if len(cell.parent_index) else index

    def tied_maximizer(self, cell: Cell) -> int:
        members = self._members(cell)
        return int(members[numba_choice.tie_hashes(members, self._salt).argmin()])  # of equal hashes the first number

    def best(self, cell: Cell) -> tuple[float, int, float]:
        posterior = self.posterior(cell)
        p = max(posterior.distinct.tolist(), key=posterior.mean.item)
        return float(posterior.mean[p]), int(posterior.numbers[p]), float(posterior.variance[p] ** 0.5)

    def best_among(self, cell: Cell, candidates: Sequence[int], log_term: float) -> tuple[float, int]:
        posterior = self.posterior_with_pending(cell)
        index = self._index(cell, posterior, log_term)[posterior.numbers.searchsorted(candidates)]
        position, largest = choose(index, int(self._salt), None, np.array(candidates))
        return largest, candidates[position]
