"""Posteriors of the cells of a finite space."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import TIE_TOLERANCE
from scalable_bandits.posteriors.partition import _numba_cells as numba_cells
from scalable_bandits.posteriors.partition.argmax_tree import ArgmaxTree
from scalable_bandits.posteriors.partition.cell import Cell
from scalable_bandits.posteriors.partition.cell_posteriors import CellPosteriors
from scalable_bandits.posteriors.partition.cover import FiniteCover
from scalable_bandits.posteriors.partition.finite_posterior import FinitePosterior
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.spaces import FiniteSpace, Indices


class FiniteCells(CellPosteriors[FinitePosterior]):
    """Posteriors of cells of a finite space.

    Parameters
    ----------
    space, cover
        Space with the candidates, and its cubes.
    noise_variance
        Noise variance of pending values, in squared units of y.
    salt
        Seed of the tie-breaking hash.

    See `CellPosteriors` for the other parameters.
    """

    def __init__(
        self, space: FiniteSpace, kernel: Kernel, prior_mean: float, cover: FiniteCover, log: ObservationLog,
        tree: ArgmaxTree, noise_variance: float, salt: int,
    ):  # fmt: skip
        prior = kernel.diagonal(space.points(np.zeros(1, dtype=np.int64)))
        super().__init__(kernel, prior_mean, math.sqrt(prior[0]), log, tree)
        self._space, self._cover = space, cover
        self._noise, self._salt = np.array([noise_variance]), np.uint64(salt)

    def build(self, cell: Cell, pending: Sequence[int] = ()) -> FinitePosterior:
        numbers = self._cover.members(cell.divisions, cell.place)
        built = FinitePosterior(self.kernel, self._space.points(numbers), numbers, self.prior_mean)
        if cell.data:
            chosen = np.array(cell.data)
            self._condition(built, chosen, numbers.searchsorted(self._log.candidates[chosen]))
        for p in map(built.position, pending):
            built.observe([p], built.mean[[p]], self._noise)
        return built

    def _condition(self, posterior: FinitePosterior, data: Indices, positions: Indices) -> float:
        return posterior.observe(positions.tolist(), self._log.ys[data], self._log.noises[data])

    def observe(self, cell: Cell, candidate: int, y: float, noise_variance: float, log_term: float | None) -> None:
        posterior = self.posterior(cell)
        before = posterior.nbytes
        cell.gain += posterior.observe_one(candidate, y, noise_variance)
        self._bytes += posterior.nbytes - before
        if log_term is not None:  # now, since the posterior is in memory and the next round needs the maximizer
            self._tree.evaluate(cell, posterior, log_term, self._salt)

    def evaluate(self, cell: Cell, posterior: FinitePosterior, log_term: float) -> None:
        self._tree.evaluate(cell, posterior, log_term, self._salt)

    def divide(self, cell: Cell, children: Sequence[Cell], log_term: float | None) -> list[Cell]:
        parent = self.posterior(cell)
        parent_index = None if log_term is None else self.index(parent, cell, log_term)
        data = np.array(cell.data)
        observed = parent.numbers.searchsorted(self._log.candidates[data])  # positions in the parent
        position = np.empty(len(parent.numbers), dtype=np.int64)  # positions in the child of the parent's candidates
        made = []
        for child in children:
            numbers = self._cover.members(child.divisions, child.place)
            if not len(numbers):
                continue
            made.append(child)
            here = parent.numbers.searchsorted(numbers)
            position.fill(-1)
            position[here] = np.arange(len(here))
            at = position[observed]
            own = data[at >= 0]
            child.data = own.tolist()
            if parent_index is not None:
                child.parent_index = parent_index[here]
            if child.data:
                posterior = FinitePosterior(self.kernel, parent.points[here], numbers, self.prior_mean)
                child.gain = self._condition(posterior, own, at[at >= 0])
                self._keep(child, posterior)
        self.drop(cell)
        return made

    def index(self, posterior: FinitePosterior, cell: Cell, log_term: float) -> Floats:
        index = posterior.mean + self._tree.width(cell.gain, log_term) * np.sqrt(posterior.variance)
        return np.minimum(index, cell.parent_index) if len(cell.parent_index) else index

    def build_and_keep(self, cell: Cell) -> float:
        numbers, data = self._cover.members(cell.divisions, cell.place), np.array(cell.data)
        posterior = FinitePosterior(self.kernel, self._space.points(numbers), numbers, self.prior_mean)
        gain = self._condition(posterior, data, numbers.searchsorted(self._log.candidates[data]))
        self._keep(cell, posterior)
        return gain

    def tied_maximizer(self, cell: Cell) -> int:
        return self._first(self._cover.members(cell.divisions, cell.place))

    def _first(self, numbers: Indices) -> int:
        """Return the candidate that is chosen among tied ones."""
        return int(numbers[numba_cells.first_by_hash(numbers, self._salt)])

    def best(self, cell: Cell) -> tuple[float, int, float]:
        posterior = self.posterior(cell)
        p = max(posterior.distinct.tolist(), key=posterior.mean.item)
        return float(posterior.mean[p]), int(posterior.numbers[p]), float(posterior.variance[p] ** 0.5)

    def best_among(
        self, cell: Cell, posterior: FinitePosterior, candidates: Sequence[int], log_term: float
    ) -> tuple[float, int]:
        index = self.index(posterior, cell, log_term)[posterior.numbers.searchsorted(candidates)]
        largest = float(index.max())
        return largest, self._first(np.array(candidates)[index >= largest - TIE_TOLERANCE * abs(largest)])
