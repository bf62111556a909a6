"""Posteriors of a partition's cells, in limited memory; those of a finite space.

A cell's posterior depends on the cell and the observations alone. The posteriors that were not used for the longest
time are dropped when memory is full, and computed again by the same arithmetic when they are needed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import TIE_TOLERANCE
from scalable_bandits.posteriors.partition import _numba_cells as numba_cells
from scalable_bandits.posteriors.partition.argmax_tree import ArgmaxTree
from scalable_bandits.posteriors.partition.cell import Cell
from scalable_bandits.posteriors.partition.cell_posterior import CellPosterior
from scalable_bandits.posteriors.partition.cover import FiniteCover
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.spaces import FiniteSpace, Indices

CACHE_BYTES = 2**30  # of posteriors in memory

Posterior = TypeVar("Posterior", bound=Any)


class Shard(ABC, Generic[Posterior]):
    """Posteriors of cells, and the computation of their summits.

    Parameters
    ----------
    kernel, prior_mean
        Prior covariance, and prior mean: a number, in units of y.
    prior_std
        Prior standard deviation, of a stationary kernel.
    log
        Observations; cells refer to them by number.
    tree
        Tree of maxima, to which the summits are written.

    Attributes
    ----------
    evaluations : int
        Number of points of a box at which an index was computed.
    share : float
        Share of `CACHE_BYTES` that these posteriors may use.
    looks_up : bool
        Whether a cell's index depends on the cells it came from.
    """

    evaluations = 0
    share = 1.0
    looks_up = False

    def __init__(self, kernel: Kernel, prior_mean: float, prior_std: float, log: ObservationLog, tree: ArgmaxTree):
        self.kernel, self.prior_mean, self.prior_std = kernel, prior_mean, prior_std
        self._log, self._tree = log, tree
        self._in_memory: OrderedDict[Cell, None] = OrderedDict()  # the cell used last at the end
        self._bytes = 0

    @abstractmethod
    def build(self, cell: Cell, pending: Sequence[int] = ()) -> Posterior:
        """Compute a posterior of a cell that is not stored, given pending candidates too."""

    @abstractmethod
    def observe(self, cell: Cell, candidate: int, y: float, noise_variance: float, log_term: float | None) -> None:
        """Condition a cell's posterior on an observation, and update its information gain and the tree.

        Without a log term the cell is about to split, and the tree is left alone.
        """

    @abstractmethod
    def evaluate(self, cell: Cell, posterior: Posterior, log_term: float) -> None:
        """Compute a cell's summit and write it to the tree."""

    @abstractmethod
    def divide(self, cell: Cell, children: Sequence[Cell], log_term: float | None) -> list[Cell]:
        """Divide a cell's observations among its children, drop its posterior, and return the children with candidates.

        With a log term, the cell's index at this log term becomes an upper bound of the children's.
        """

    @abstractmethod
    def anywhere(self, cell: Cell) -> Any:
        """Return the candidate, or point of a box, that is chosen in a cell of equal indices."""

    @abstractmethod
    def born(self, cell: Cell) -> float:
        """Compute and store the posterior of a cell that a split made; returns its information gain, in nats."""

    @abstractmethod
    def best(self, cell: Cell) -> tuple[float, int, float]:
        """Return the largest posterior mean at an observed candidate of a cell, the candidate, and its std."""

    def bests(self, cells: Sequence[Cell]) -> list[tuple[float, int, float]]:
        """Return `best` of some cells."""
        return [self.best(cell) for cell in cells]

    def best_among(
        self, cell: Cell, posterior: Posterior, candidates: Sequence[int], log_term: float
    ) -> tuple[float, int]:
        """Return the largest index among some candidates of a cell of a finite space, and the candidate."""
        raise NotImplementedError

    def index(self, posterior: Posterior, cell: Cell, log_term: float) -> Floats:
        """Return the index of a cell's candidates on a finite space, (n,)."""
        raise NotImplementedError

    def settle(self) -> None:
        """Wait until all observations are part of the posteriors and the tree."""

    def level(self, cell: Cell) -> bool:
        """Return whether all candidates of a cell have the same index."""
        return not cell.data and not len(cell.caps) and self.kernel.stationary

    def posterior(self, cell: Cell) -> Posterior:
        """Return the posterior of a cell, computed from its observations if it is not in memory."""
        held: Posterior = cell.posterior
        if held is None:
            held = self.build(cell)
            self._store(cell, held)
        else:
            self._in_memory.move_to_end(cell)
        return held

    def use(self, cells: Sequence[Cell]) -> None:
        """Take note that the posteriors of cells, which are in memory, were used in this order."""
        move = self._in_memory.move_to_end
        for cell in cells:
            move(cell)

    def _store(self, cell: Cell, posterior: Posterior) -> None:
        cell.posterior = posterior
        self._in_memory[cell] = None
        self._bytes += posterior.nbytes
        while self._bytes > self.share * CACHE_BYTES and len(self._in_memory) > 1:
            self.forget(next(iter(self._in_memory)))

    def forget(self, cell: Cell) -> None:
        """Drop a cell's posterior from memory."""
        if cell.posterior is not None:
            if cell.slot >= 0:
                self._tree.hot.drop(cell.slot)
            del self._in_memory[cell]
            self._bytes -= cell.posterior.nbytes
            cell.posterior = None

    def clear(self) -> None:
        """Drop all posteriors from memory."""
        for cell in list(self._in_memory):
            self.forget(cell)


class FiniteCells(Shard[CellPosterior]):
    """Posteriors of cells of a finite space.

    Parameters
    ----------
    space, cover
        Space with the candidates, and its cubes.
    noise_variance
        Noise variance of pending values, in squared units of y.
    salt
        Seed of the tie-breaking hash.

    See `Shard` for the other parameters.
    """

    def __init__(
        self, space: FiniteSpace, kernel: Kernel, prior_mean: float, cover: FiniteCover, log: ObservationLog,
        tree: ArgmaxTree, noise_variance: float, salt: int,
    ):  # fmt: skip
        prior = kernel.diagonal(space.points(np.zeros(1, dtype=np.int64)))
        super().__init__(kernel, prior_mean, math.sqrt(prior[0]), log, tree)
        self._space, self._cover = space, cover
        self._noise, self._salt = np.array([noise_variance]), np.uint64(salt)

    def build(self, cell: Cell, pending: Sequence[int] = ()) -> CellPosterior:
        numbers = self._cover.members(cell.divisions, cell.place)
        built = CellPosterior(self.kernel, self._space.points(numbers), numbers, self.prior_mean)
        if cell.data:
            chosen = np.array(cell.data)
            self._condition(built, chosen, numbers.searchsorted(self._log.candidates[chosen]))
        for p in map(built.position, pending):
            built.observe([p], built.mean[[p]], self._noise)
        return built

    def _condition(self, posterior: CellPosterior, data: Indices, positions: Indices) -> float:
        return posterior.observe(positions.tolist(), self._log.ys[data], self._log.noises[data])

    def observe(self, cell: Cell, candidate: int, y: float, noise_variance: float, log_term: float | None) -> None:
        posterior = self.posterior(cell)
        before = posterior.nbytes
        cell.gain += posterior.observe_one(candidate, y, noise_variance)
        self._bytes += posterior.nbytes - before
        if log_term is not None:  # its posterior is in memory, and its summit will be needed
            self._tree.evaluate(cell, posterior, log_term, self._salt)

    def evaluate(self, cell: Cell, posterior: CellPosterior, log_term: float) -> None:
        self._tree.evaluate(cell, posterior, log_term, self._salt)

    def divide(self, cell: Cell, children: Sequence[Cell], log_term: float | None) -> list[Cell]:
        parent = self.posterior(cell)
        under = None if log_term is None else self.index(parent, cell, log_term)
        data = np.array(cell.data)
        observed = parent.numbers.searchsorted(self._log.candidates[data])  # positions in the cell
        position = np.empty(len(parent.numbers), dtype=np.int64)  # positions of the cell's candidates in the child
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
            if under is not None:
                child.caps = under[here]
            if child.data:
                posterior = CellPosterior(self.kernel, parent.points[here], numbers, self.prior_mean)
                child.gain = self._condition(posterior, own, at[at >= 0])
                self._store(child, posterior)
        self.forget(cell)
        return made

    def index(self, posterior: CellPosterior, cell: Cell, log_term: float) -> Floats:
        index = posterior.mean + self._tree.width(cell.gain, log_term) * np.sqrt(posterior.variance)
        return np.minimum(index, cell.caps) if len(cell.caps) else index

    def born(self, cell: Cell) -> float:
        numbers, data = self._cover.members(cell.divisions, cell.place), np.array(cell.data)
        posterior = CellPosterior(self.kernel, self._space.points(numbers), numbers, self.prior_mean)
        gain = self._condition(posterior, data, numbers.searchsorted(self._log.candidates[data]))
        self._store(cell, posterior)
        return gain

    def anywhere(self, cell: Cell) -> int:
        return self._first(self._cover.members(cell.divisions, cell.place))

    def _first(self, numbers: Indices) -> int:
        """Return the candidate that is chosen among tied ones."""
        return int(numbers[numba_cells.first_by_hash(numbers, self._salt)])

    def best(self, cell: Cell) -> tuple[float, int, float]:
        posterior = self.posterior(cell)
        p = max(posterior.distinct.tolist(), key=posterior.mean.item)
        return float(posterior.mean[p]), int(posterior.numbers[p]), float(posterior.variance[p] ** 0.5)

    def best_among(
        self, cell: Cell, posterior: CellPosterior, candidates: Sequence[int], log_term: float
    ) -> tuple[float, int]:
        index = self.index(posterior, cell, log_term)[posterior.numbers.searchsorted(candidates)]
        largest = float(index.max())
        return largest, self._first(np.array(candidates)[index >= largest - TIE_TOLERANCE * abs(largest)])
