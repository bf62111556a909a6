"""A shard of the partition: the posteriors of a group of cells, held while memory lasts.

A cell's posterior follows from the cell and the observations alone: one that was not needed for long is dropped and,
when it is, computed again by the same arithmetic.
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
from scalable_bandits.posteriors.partition.cell import Cell, CellPosterior
from scalable_bandits.posteriors.partition.cover import FiniteCover
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.spaces import FiniteSpace, Indices

CACHE_BYTES = 2**30  # of posteriors held

Posterior = TypeVar("Posterior", bound=Any)


class Shard(ABC, Generic[Posterior]):
    """Posteriors of cells.

    Parameters
    ----------
    kernel, prior_mean
        As in the policy; the prior mean is a number.
    prior_std
        Standard deviation before the first observation, of a stationary kernel.
    log
        The observations that cells name by number.
    contest
        Of the cells, to which their summits are given.

    Attributes
    ----------
    evaluations : int
        Points of a box at which an index was computed.
    """

    evaluations = 0
    share = 1.0  # of CACHE_BYTES, of the shards that hold a partition together
    looks_up = False  # whether a cell's index depends on the cells it came from

    def __init__(self, kernel: Kernel, prior_mean: float, prior_std: float, log: ObservationLog, tree: ArgmaxTree):
        self.kernel, self.prior_mean, self.prior_std = kernel, prior_mean, prior_std
        self._told, self._contest = log, tree
        self._awake: OrderedDict[Cell, None] = OrderedDict()  # the one that was needed last at the end
        self._bytes = 0

    @abstractmethod
    def build(self, cell: Cell, pending: Sequence[int] = ()) -> Posterior:
        """A posterior of its own of a cell, given candidates pending too."""

    @abstractmethod
    def observe(self, cell: Cell, candidate: int, y: float, noise_variance: float, log_term: float | None) -> None:
        """Condition a cell's posterior, add to its information gain, and tell the contest; without a log term only that
        the cell will split.
        """

    @abstractmethod
    def evaluate(self, cell: Cell, posterior: Posterior, log_term: float) -> None:
        """Find a cell's summit, and tell the contest."""

    @abstractmethod
    def divide(self, cell: Cell, children: Sequence[Cell], log_term: float | None) -> list[Cell]:
        """Give the children of a cell, those that can be played, what fell into them, and drop the cell.

        With a log term, they stay under the index that the cell has at it.
        """

    @abstractmethod
    def anywhere(self, cell: Cell) -> Any:
        """What is played in a cell in which all is tied."""

    @abstractmethod
    def born(self, cell: Cell) -> float:
        """Hold the posterior of a cell that a split made; its information gain, in nats."""

    @abstractmethod
    def best(self, cell: Cell) -> tuple[float, int, float]:
        """Largest posterior mean at what was queried in a cell, the candidate, and its std."""

    def bests(self, cells: Sequence[Cell]) -> list[tuple[float, int, float]]:
        """`best` of some cells."""
        return [self.best(cell) for cell in cells]

    def best_among(
        self, cell: Cell, posterior: Posterior, candidates: Sequence[int], log_term: float
    ) -> tuple[float, int]:
        """Largest index among some candidates of a cell of a finite space, and the candidate."""
        raise NotImplementedError

    def index(self, posterior: Posterior, cell: Cell, log_term: float) -> Floats:
        """Index of a cell's candidates on a finite space, (n,)."""
        raise NotImplementedError

    def settle(self) -> None:
        """Have everything that was observed taken in, and the contest told."""

    def level(self, cell: Cell) -> bool:
        """Whether the index is the same all over a cell."""
        return not cell.data and not len(cell.caps) and self.kernel.stationary

    def posterior(self, cell: Cell) -> Posterior:
        """Posterior of a cell, computed from its observations if it is not held."""
        held: Posterior = cell.posterior
        if held is None:
            held = self.build(cell)
            self._hold(cell, held)
        else:
            self._awake.move_to_end(cell)
        return held

    def _hold(self, cell: Cell, posterior: Posterior) -> None:
        cell.posterior = posterior
        self._awake[cell] = None
        self._bytes += posterior.nbytes
        while self._bytes > self.share * CACHE_BYTES and len(self._awake) > 1:
            self.forget(next(iter(self._awake)))

    def forget(self, cell: Cell) -> None:
        """Drop a cell's posterior."""
        if cell.posterior is not None:
            del self._awake[cell]
            self._bytes -= cell.posterior.nbytes
            cell.posterior = None

    def clear(self) -> None:
        """Drop all."""
        for cell in list(self._awake):
            self.forget(cell)


class FiniteCells(Shard[CellPosterior]):
    """Posteriors on the candidates of cells of a finite space.

    Parameters
    ----------
    space, cover
        Candidates, and the cubes that hold them.
    noise_variance
        That a pending value is taken to have.
    salt
        Seed of the hash by which ties are broken.

    Other parameters are those of `Shard`.
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
            self._learn(built, chosen, numbers.searchsorted(self._told.candidates[chosen]))
        for p in map(built.position, pending):
            built.observe([p], built.mean[[p]], self._noise)
        return built

    def _learn(self, posterior: CellPosterior, data: Indices, positions: Indices) -> float:
        return posterior.observe(positions.tolist(), self._told.ys[data], self._told.noises[data])

    def observe(self, cell: Cell, candidate: int, y: float, noise_variance: float, log_term: float | None) -> None:
        posterior = self.posterior(cell)
        before = posterior.nbytes
        cell.gain += posterior.observe_one(candidate, y, noise_variance)
        self._bytes += posterior.nbytes - before
        if log_term is not None:  # at hand: its summit will be asked for
            self._contest.evaluate(cell, posterior, log_term, self._salt)

    def evaluate(self, cell: Cell, posterior: CellPosterior, log_term: float) -> None:
        self._contest.evaluate(cell, posterior, log_term, self._salt)

    def divide(self, cell: Cell, children: Sequence[Cell], log_term: float | None) -> list[Cell]:
        parent = self.posterior(cell)
        under = None if log_term is None else self.index(parent, cell, log_term)
        data = np.array(cell.data)
        fell = parent.numbers.searchsorted(self._told.candidates[data])  # where, by position in the cell
        position = np.empty(len(parent.numbers), dtype=np.int64)  # of the cell's candidates in the child
        made = []
        for child in children:
            numbers = self._cover.members(child.divisions, child.place)
            if not len(numbers):
                continue
            made.append(child)
            here = parent.numbers.searchsorted(numbers)
            position.fill(-1)
            position[here] = np.arange(len(here))
            at = position[fell]
            own = data[at >= 0]
            child.data = own.tolist()
            if under is not None:
                child.caps = under[here]
            if child.data:
                posterior = CellPosterior(self.kernel, parent.points[here], numbers, self.prior_mean)
                child.gain = self._learn(posterior, own, at[at >= 0])
                self._hold(child, posterior)
        self.forget(cell)
        return made

    def index(self, posterior: CellPosterior, cell: Cell, log_term: float) -> Floats:
        """Index of a cell's candidates, (n,)."""
        index = posterior.mean + self._contest.width(cell.gain, log_term) * np.sqrt(posterior.variance)
        return np.minimum(index, cell.caps) if len(cell.caps) else index

    def born(self, cell: Cell) -> float:
        numbers, data = self._cover.members(cell.divisions, cell.place), np.array(cell.data)
        posterior = CellPosterior(self.kernel, self._space.points(numbers), numbers, self.prior_mean)
        gain = self._learn(posterior, data, numbers.searchsorted(self._told.candidates[data]))
        self._hold(cell, posterior)
        return gain

    def anywhere(self, cell: Cell) -> int:
        return self._first(self._cover.members(cell.divisions, cell.place))

    def _first(self, numbers: Indices) -> int:
        """Of tied candidates the one that is played."""
        return int(numbers[numba_cells.first_by_hash(numbers, self._salt)])

    def best(self, cell: Cell) -> tuple[float, int, float]:
        posterior = self.posterior(cell)
        p = max(posterior.distinct.tolist(), key=posterior.mean.item)
        return float(posterior.mean[p]), int(posterior.numbers[p]), float(posterior.variance[p] ** 0.5)

    def best_among(
        self, cell: Cell, posterior: CellPosterior, candidates: Sequence[int], log_term: float
    ) -> tuple[float, int]:
        """Largest index among some candidates of a cell, and the candidate."""
        index = self.index(posterior, cell, log_term)[posterior.numbers.searchsorted(candidates)]
        largest = float(index.max())
        return largest, self._first(np.array(candidates)[index >= largest - TIE_TOLERANCE * abs(largest)])
