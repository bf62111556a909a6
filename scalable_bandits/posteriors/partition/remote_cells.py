"""The cells of a partition in shards, for executors on a cluster or threads.

The posterior of a cell follows from the cell and its observations. Every task contains the cell, and observations are
sent once: a shard is a cache, made again from all observations wherever it is missing. The seeded hash of a cell
determines its shard.

A round is one message to the shards of the cells that hold the observation, and one message whenever a maximizer is
missing. With the missing maximizer, those of cells that are likely to be needed next are prefetched; how many follows
from how many of the last prefetched ones were used. Unused ones are dropped, so that the numbers are the same as
without prefetching.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.partition.argmax_tree import ArgmaxTree
from scalable_bandits.posteriors.partition.box_cells import BoxCells, CubeIndex
from scalable_bandits.posteriors.partition.cell import Cell
from scalable_bandits.posteriors.partition.cell_posteriors import CellPosteriors
from scalable_bandits.posteriors.partition.cover import BoxCover, Cover, FiniteCover, Place, make_cover
from scalable_bandits.posteriors.partition.finite_cells import FiniteCells
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.posteriors.placement import Executor, Shards
from scalable_bandits.posteriors.state import State, arrays
from scalable_bandits.spaces import Box, FiniteSpace, Indices

SHARDS = 16  # number of shards

PointsAt = Callable[[Indices | None], Floats]
MakeCells = Callable[[PointsAt, ObservationLog, ArgmaxTree], CellPosteriors[Any]]


def make_finite_cells(
    space: FiniteSpace, kernel: Kernel, prior_mean: float, noise_variance: float, salt: int, points: PointsAt,
    log: ObservationLog, tree: ArgmaxTree,
) -> FiniteCells:  # fmt: skip
    """Return the posteriors of cells of a finite space."""
    return FiniteCells(space, kernel, prior_mean, make_cover(space), log, tree, noise_variance, salt)


def make_box_cells(
    box: Box, kernel: Kernel, prior_mean: float, index: CubeIndex, points: PointsAt, log: ObservationLog,
    tree: ArgmaxTree,
) -> BoxCells:  # fmt: skip
    """Return the posteriors of cells of a box."""
    return BoxCells(points, kernel, prior_mean, BoxCover(box, points), log, tree, index)


class CellTask(NamedTuple):
    """Call of a method of the posteriors in a shard."""

    method: Callable[..., Any]  # method of `CellPosteriors`, which the shard's posteriors override
    cell: Cell  # copy of the cell
    given: dict[str, Any]  # arguments beside the cell, by name; "pending" (tuple of int) stands for "posterior"
    new: list[int]  # numbers of the observations that the method adds to the cell


class Result(NamedTuple):
    """Result of a task."""

    value: Any  # value that the method returned
    gain: float  # information gain of the cell, in nats
    maximizer: Any  # candidate of largest index, or point of a box; None if unknown
    leaf: Floats  # (5,) leaf of the cell in the shard's tree
    evaluations: int  # number of points of a box at which the method computed an index


class CellsShard:
    """Shard with the posteriors of some cells.

    Parameters
    ----------
    make
        Function that makes the posteriors.
    dimension
        Dimension of the space.
    norm, noise
        B and R of the confidence width.
    number
        Number of the shard.
    observed
        All observations and points; see `RemoteCells._data_since`.
    """

    def __init__(self, make: MakeCells, dimension: int, norm: float, noise: float, number: int, observed: State):
        self._number, self._log, self._tree = number, ObservationLog(), ArgmaxTree(norm, noise)
        self._known_points = np.empty((0, dimension))  # points by candidate, NaN where none is known
        self._posteriors = make(self._points, self._log, self._tree)
        self._posteriors.cache_share = 1.0 / SHARDS
        self._cells: dict[tuple[int, Place], Cell] = {}
        self.add_data(observed)

    def _points(self, candidates: Indices | None) -> Floats:
        return self._known_points if candidates is None else self._known_points[candidates]

    def add_data(self, data: State) -> None:
        """Add observations and points; see `RemoteCells._data_since`."""
        for observation in zip(*(data[name].tolist() for name in ("candidates", "ys", "noises")), strict=True):
            self._log.add(*observation)
        numbers, known = data["numbers"], len(self._known_points)
        missing = int(numbers.max(initial=-1)) + 1 - known
        if missing > 0:
            self._known_points = np.pad(self._known_points, ((0, known + missing), (0, 0)), constant_values=np.nan)
        if len(numbers):
            self._known_points[numbers] = data["points"]

    def remove(self, divisions: int, place: Place) -> None:
        """Remove a cell that was split."""
        cell = self._cells.pop((divisions, place), None)
        if cell is not None:
            self._posteriors.drop(cell)
            self._tree.remove(cell)

    def work(self, tasks: dict[int, list[CellTask]]) -> list[Result]:
        """Return the results of the tasks for this shard."""
        return [self._result(task) for task in tasks[self._number]]

    def _result(self, task: CellTask) -> Result:
        posteriors, cell, given = self._posteriors, self._cell(task.cell), dict(task.given)
        before = posteriors.evaluations
        if "pending" in given:
            pending = given.pop("pending")
            given["posterior"] = posteriors.build(cell, pending) if pending else posteriors.posterior(cell)
        value = getattr(posteriors, task.method.__name__)(cell=cell, **given)
        cell.data += task.new
        leaf = self._tree.leaf(cell).copy()
        return Result(value, cell.gain, cell.maximizer, leaf, posteriors.evaluations - before)

    def _cell(self, sent: Cell) -> Cell:
        """Return the shard's cell, set to the sent one; its posterior is kept if the observations are the same."""
        key = (sent.divisions, sent.place)
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = _copied(sent)
            self._tree.add(cell)
        elif cell.data != sent.data:
            self._posteriors.drop(cell)
            cell.data = list(sent.data)
        cell.gain, cell.parent_index = sent.gain, sent.parent_index
        return cell


def _copied(cell: Cell) -> Cell:
    copied = copy.copy(cell)
    copied.data = list(cell.data)
    return copied


class RemoteCells(CellPosteriors[tuple[int, ...]]):
    """Posteriors of cells in the shards of an executor.

    In this process, a tuple of the pending candidates given which a posterior is asked for stands for the posterior.

    Parameters
    ----------
    make
        Function that makes the posteriors, in this process and in shards.
    norm, noise
        B and R of the confidence width.
    cover
        Cubes of the partition.
    points
        Function from numbers (k,) of visited points to the points (k, d); None on a finite space.
    log
        Observations, to which cells refer by number.
    tree
        Tree of maxima.
    executor
        Executor that holds the shards.
    """

    def __init__(
        self, make: MakeCells, norm: float, noise: float, cover: Cover, points: PointsAt | None, log: ObservationLog,
        tree: ArgmaxTree, executor: Executor,
    ):  # fmt: skip
        self._local = make(points or _no_points, log, tree)  # answers where no posterior is needed
        super().__init__(self._local.kernel, self._local.prior_mean, self._local.prior_std, log, tree)
        self._log, self._tree, self._cover, self._points = log, tree, cover, points
        self._shard_arguments = make, cover.dimension, norm, noise
        self._begin()
        self._shards: Shards[CellsShard] = executor.shards(self._maker, SHARDS, "cells of PiGPUCB")

    def _begin(self) -> None:
        self._queue: list[tuple[Cell, CellTask]] = []  # tasks of observations that are not sent yet
        self._sent = self._log.count  # number of observations that the shards have
        self._pending: list[int] = []  # pending candidates whose points the shards have
        self._prefetched: dict[int, Result] = {}  # results of `evaluate` not needed yet, by number of the cell
        self._prefetched_count = 0  # number of results that were prefetched the last time
        self._prefetch_count = 1  # number of results to prefetch the next time
        self._pending_in: dict[int, tuple[int, ...]] = {}  # pending candidates by number of the cell

    def _maker(self, number: int) -> functools.partial[CellsShard]:
        """Return the function that makes a shard, with all observations."""
        return functools.partial(CellsShard, *self._shard_arguments, number, self._data_since(0, self._pending))

    def clear(self) -> None:
        self._begin()
        self._shards.renew()

    # ---- messages

    def _task(self, method: Callable[..., Any], cell: Cell, new: Sequence[int] = (), **given: Any) -> CellTask:
        sent = _copied(cell)
        if not self._local.needs_ancestors:
            sent.parent = None
        return CellTask(method, sent, given, list(new))

    def _ask(self, tasks: Sequence[CellTask]) -> list[Result]:
        """Return the results in the order of the tasks, by one message to every shard concerned."""
        if not tasks:
            return []
        groups: dict[int, list[CellTask]] = {}
        for task in tasks:
            groups.setdefault(task.cell.seeded_hash % SHARDS, []).append(task)
        pending = sorted({p for task in tasks for p in task.given.get("pending", ())})
        fresh = bool(pending) and self._points is not None and pending != self._pending
        if self._log.count > self._sent or fresh:
            self._shards.tell(None, CellsShard.add_data, self._data_since(self._sent, pending if fresh else []))
            self._sent = self._log.count
            self._pending = pending if fresh else self._pending
        answers = self._shards.ask(sorted(groups), CellsShard.work, groups)
        results = {number: iter(answer) for number, answer in zip(sorted(groups), answers, strict=True)}
        return [next(results[task.cell.seeded_hash % SHARDS]) for task in tasks]

    def _data_since(self, first: int, pending: Sequence[int]) -> State:
        """Return the observations from number `first` on: candidates, ys and noises, three (k,) arrays.

        On a box, the result also has the numbers (p,) of the observed and pending candidates and their points (p, d).
        """
        candidates, ys, noises = self._log.since(first)
        numbers, points = np.empty(0, dtype=np.int64), np.empty((0, 0))
        if self._points is not None:
            numbers = np.unique(np.append(candidates, np.array(pending, dtype=np.int64)))
            points = self._points(numbers)
        return arrays(candidates=candidates, ys=ys, noises=noises, numbers=numbers, points=points)

    def _adapt_prefetching(self) -> None:
        """Prefetch twice as many results if all of the last ones were used, half as many if most were not."""
        if self._prefetched_count and not self._prefetched:
            self._prefetch_count = min(2 * self._prefetch_count, SHARDS)
        elif 2 * len(self._prefetched) > self._prefetched_count:
            self._prefetch_count = max(self._prefetch_count // 2, 1)
        self._prefetched, self._prefetched_count = {}, 0

    def flush(self) -> None:
        self._adapt_prefetching()
        self._pending_in = {}
        results = self._ask([task for _, task in self._queue])
        for (cell, _), result in zip(self._queue, results, strict=True):
            cell.gain, cell.maximizer = result.gain, result.maximizer
            if cell.slot >= 0:
                self._tree.set_leaf(cell, result.leaf)
        self._queue = []

    # ---- the interface

    def build(self, cell: Cell, pending: Sequence[int] = ()) -> tuple[int, ...]:
        self._pending_in[cell.number] = tuple(pending)
        return tuple(pending)

    def posterior(self, cell: Cell) -> tuple[int, ...]:
        return ()

    def observe(self, cell: Cell, candidate: int, y: float, noise_variance: float, log_term: float | None) -> None:
        if any(cell is queued for queued, _ in self._queue):
            self.flush()
        given: dict[str, Any] = {"candidate": candidate, "y": y, "noise_variance": noise_variance, "log_term": log_term}
        self._queue.append((cell, self._task(CellPosteriors.observe, cell, [self._log.count - 1], **given)))
        if log_term is None:
            self.flush()

    def evaluate(self, cell: Cell, posterior: tuple[int, ...], log_term: float) -> None:
        result = self._prefetched.pop(cell.number, None)
        if result is None:
            self._adapt_prefetching()
            others = [other for other in self._tree.likely(log_term, self._prefetch_count) if other is not cell]
            pending = {**self._pending_in, cell.number: posterior}
            result, *more = self._ask([
                self._task(CellPosteriors.evaluate, each, log_term=log_term, pending=pending.get(each.number, ()))
                for each in (cell, *others)
            ])  # fmt: skip
            self._prefetched = {other.number: each for other, each in zip(others, more, strict=True)}
            self._prefetched_count = len(others)
        cell.maximizer = result.maximizer
        self.evaluations += result.evaluations
        self._tree.set_leaf(cell, result.leaf)

    def divide(self, cell: Cell, children: Sequence[Cell], log_term: float | None) -> list[Cell]:
        cover = self._cover
        if isinstance(cover, FiniteCover):
            members = {child.place: cover.members(child.divisions, child.place) for child in children}
            children = [child for child in children if len(members[child.place])]
            if log_term is not None:
                (parent_index,) = self._ask([self._task(CellPosteriors.index, cell, log_term=log_term, pending=())])
                numbers = cover.members(cell.divisions, cell.place)
                for child in children:
                    child.parent_index = parent_index.value[numbers.searchsorted(members[child.place])]
        for child in children:
            places = (cover.places(child.divisions, int(self._log.candidates[i])) for i in cell.data)
            child.data = [i for i, holding in zip(cell.data, places, strict=True) if child.place in holding]
        self._shards.tell([cell.seeded_hash % SHARDS], CellsShard.remove, cell.divisions, cell.place)
        filled = [child for child in children if child.data]
        results = self._ask([self._task(CellPosteriors.build_and_keep, child) for child in filled])
        for child, result in zip(filled, results, strict=True):
            child.gain = result.value
        return list(children)

    def tied_maximizer(self, cell: Cell) -> Any:
        return self._local.tied_maximizer(cell)

    def has_constant_index(self, cell: Cell) -> bool:
        return self._local.has_constant_index(cell)

    def build_and_keep(self, cell: Cell) -> float:
        return float(self._ask([self._task(CellPosteriors.build_and_keep, cell)])[0].value)

    def best(self, cell: Cell) -> tuple[float, int, float]:
        return self.bests([cell])[0]

    def bests(self, cells: Sequence[Cell]) -> list[tuple[float, int, float]]:
        self.flush()
        return [result.value for result in self._ask([self._task(CellPosteriors.best, cell) for cell in cells])]

    def best_among(
        self, cell: Cell, posterior: tuple[int, ...], candidates: Sequence[int], log_term: float
    ) -> tuple[float, int]:
        task = self._task(CellPosteriors.best_among, cell, candidates=candidates, log_term=log_term, pending=posterior)
        best: tuple[float, int] = self._ask([task])[0].value
        return best


def _no_points(candidates: Indices | None) -> Floats:
    """Stand in for the function `points`, which cells of a finite space do not call."""
    raise NotImplementedError
