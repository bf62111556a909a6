"""Posteriors of a partition's cells, in limited memory: what those of finite spaces, boxes and shards have in common.

A cell's posterior depends on the cell and the observations alone. The posteriors that were not used for the longest
time are dropped when memory is full, and computed again by the same arithmetic when they are needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.partition.argmax_tree import ArgmaxTree
from scalable_bandits.posteriors.partition.cell import Cell
from scalable_bandits.posteriors.partition.cover import Cover
from scalable_bandits.posteriors.partition.empty_cubes import EmptyCubes
from scalable_bandits.posteriors.partition.observation_log import ObservationLog

CACHE_BYTES = 2**30  # size of the posteriors in memory above which some are dropped

Posterior = TypeVar("Posterior", bound=Any)


class CellPosteriors(ABC, Generic[Posterior]):
    """Posteriors of cells, and the computation of their maximizers.

    Parameters
    ----------
    kernel
        Prior covariance, in squared units of y.
    prior_mean
        Prior mean, in units of y.
    prior_std
        Prior standard deviation in units of y, the same at all points if the kernel is stationary.
    cover
        Cubes of the space.
    log
        Observations; cells refer to them by number.
    tree
        Tree of maxima, whose leaves are set when a maximizer is found.

    Attributes
    ----------
    pending : Mapping
        Pending candidates by number of the cell that holds them; the caller sets and removes them. `evaluate` and
        `best_among` take their values to be the means.
    evaluations : int
        Number of points of a box at which an index was computed; 0 on a finite space.
    cache_share : float
        Fraction of `CACHE_BYTES` that these posteriors may use.
    needs_ancestors : bool
        Whether a cell's index depends on the cells it came from.
    """

    evaluations = 0
    cache_share = 1.0
    needs_ancestors = False

    def __init__(
        self, kernel: Kernel, prior_mean: float, prior_std: float, cover: Cover, log: ObservationLog, tree: ArgmaxTree
    ):
        self.kernel, self.prior_mean, self.prior_std = kernel, prior_mean, prior_std
        self.cover, self.log, self.tree = cover, log, tree
        self.pending: Mapping[int, Sequence[int]] = {}
        self._in_memory: OrderedDict[Cell, None] = OrderedDict()  # from the cell that was not used for the longest time
        self._bytes = 0

    def build(self, cell: Cell) -> tuple[Posterior, float]:
        """Compute the posterior of a cell, which is not kept in memory, and its information gain in nats."""
        raise NotImplementedError

    @abstractmethod
    def observe(self, cell: Cell, candidate: int, y: float, noise_variance: float, log_term: float | None) -> None:
        """Condition a cell's posterior on an observation, and update its information gain and the tree.

        Without a log term, the cell is about to split, and its leaf in the tree stays as it is.
        """

    @abstractmethod
    def evaluate(self, cell: Cell, log_term: float) -> None:
        """Compute a cell's maximizer and set its leaf in the tree.

        The maximizer is None if the index has reached an upper bound that is the same at all points.
        """

    def maximizer(self, cell: Cell, log_term: float) -> Any:
        """Compute the maximizer of a cell whose index has reached its upper bound."""
        raise NotImplementedError

    @abstractmethod
    def tied_maximizer(self, group: EmptyCubes) -> Any:
        """Return the candidate, or point of a box, that is chosen in the first cube of a group of empty ones."""

    def best(self, cell: Cell) -> tuple[float, int, float]:
        """Return the largest posterior mean at an observed candidate of a cell, the candidate, and its std."""
        raise NotImplementedError

    def bests(self, cells: Sequence[Cell]) -> list[tuple[float, int, float]]:
        """Return `best` of some cells."""
        return [self.best(cell) for cell in cells]

    def best_among(self, cell: Cell, candidates: Sequence[int], log_term: float) -> tuple[float, int]:
        """Return the largest index among some candidates of a cell of a finite space, and the candidate."""
        raise NotImplementedError

    @abstractmethod
    def last_index(self, cell: Cell, log_term: float) -> Floats:
        """Return the indices of a cell that splits, in units of y: (n,) of its candidates.

        Where only visited points have numbers: the largest (1,), or none (0,) if no group is bounded by it.
        """

    def build_and_keep(self, cell: Cell) -> None:
        """Compute posterior and information gain of a cell, and keep the posterior in memory."""
        posterior, cell.gain = self.build(cell)
        self._keep(cell, posterior)

    def build_and_keep_all(self, cells: Sequence[Cell]) -> None:
        """Do what `build_and_keep` does for some cells."""
        for cell in cells:
            self.build_and_keep(cell)

    def flush(self) -> None:
        """Apply all queued observations to the posteriors and the tree; only those of shards are queued."""

    def posterior(self, cell: Cell) -> Posterior:
        """Return the posterior of a cell, computed from its observations if it is not in memory."""
        posterior: Posterior = cell.posterior
        if posterior is None:
            posterior, _ = self.build(cell)
            self._keep(cell, posterior)
        else:
            self._in_memory.move_to_end(cell)
        return posterior

    def mark_used(self, cells: Sequence[Cell]) -> None:
        """Mark the posteriors of cells as used, in this order; all of them are in memory."""
        move = self._in_memory.move_to_end
        for cell in cells:
            move(cell)

    def _keep(self, cell: Cell, posterior: Posterior) -> None:
        """Keep a posterior in memory, and drop those that do not fit any more."""
        cell.posterior = posterior
        self._in_memory[cell] = None
        self._bytes += posterior.nbytes
        while self._bytes > self.cache_share * CACHE_BYTES and len(self._in_memory) > 1:
            self.drop(next(iter(self._in_memory)))

    def drop(self, cell: Cell) -> None:
        """Drop a cell's posterior from memory."""
        if cell.posterior is not None:
            if cell.slot >= 0:
                self.tree.loop_cells.drop(cell.slot)
            del self._in_memory[cell]
            self._bytes -= cell.posterior.nbytes
            cell.posterior = None

    def clear(self) -> None:
        """Drop all posteriors from memory."""
        for cell in list(self._in_memory):
            self.drop(cell)
