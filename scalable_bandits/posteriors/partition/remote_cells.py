"""The cells of a partition in shards, for executors on a cluster or threads.

The posterior of a cell follows from the cell and its observations. Every task contains the cell, and observations are
sent once: a shard is a cache, made again from all observations wherever it is missing. The seeded hash of a cell
determines its shard.

A round is one message to the shards of the cells that hold the observation, and one message whenever a maximizer is
missing. With the missing maximizer, those of cells that are likely to be needed next are prefetched. Unused ones are
dropped, so that the numbers are the same as without prefetching.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import attrs
import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.partition.argmax_tree import ArgmaxTree
from scalable_bandits.posteriors.partition.cell import NO_PARENT_INDEX, Cell
from scalable_bandits.posteriors.partition.cell_posteriors import CellPosteriors
from scalable_bandits.posteriors.partition.cover import Cover, Place, make_cover
from scalable_bandits.posteriors.partition.empty_cubes import EmptyCubes
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.posteriors.placement import Executor, Shards
from scalable_bandits.spaces import Box, FiniteSpace, Indices

SHARDS = 16  # number of shards

Data = tuple[Indices, Floats, Floats, int, Floats]  # arguments of `CellsShard.add_data`
MakeCells = Callable[[Any, ObservationLog, ArgmaxTree], CellPosteriors[Any]]  # the first argument is the cover


class CellTask(NamedTuple):
    """Call of a method of the posteriors in a shard."""

    method: Callable[..., Any]  # method of `CellPosteriors`, which the shard's posteriors override
    cell: Cell  # copy of the cell
    given: dict[str, Any]  # arguments beside the cell, by name
    pending: Sequence[int]  # pending candidates in the cell
    new: Sequence[int]  # numbers of the observations that the method adds to the cell


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
    space
        Space of the partition.
    norm, noise
        B and R of the confidence width.
    visited
        Whether candidates are numbers of visited points.
    number
        Number of the shard.
    data
        All observations, and the points visited on a box; see `add_data`.
    """

    def __init__(
        self, make: MakeCells, space: FiniteSpace | Box, norm: float, noise: float, visited: bool, number: int,
        data: Data,
    ):  # fmt: skip
        self._number, self._log, self._tree = number, ObservationLog(), ArgmaxTree(norm, noise)
        self._visited = np.empty((0, space.dimension))  # points of a box by number
        self._posteriors = make(make_cover(space, self._points if visited else None), self._log, self._tree)
        self._posteriors.cache_share = 1.0 / SHARDS
        self._cells: dict[tuple[int, Place], Cell] = {}
        self.add_data(*data)

    def _points(self, candidates: Indices | None) -> Floats:
        return self._visited if candidates is None else self._visited[candidates]

    def add_data(self, candidates: Indices, ys: Floats, noises: Floats, first: int, points: Floats) -> None:
        """Add observations (k,), and on a box the points (p, d) of numbers from `first` on, in the place of others."""
        self._log.extend(candidates, ys, noises)
        self._visited = np.concatenate([self._visited[:first], points.reshape(-1, self._visited.shape[1])])

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
        posteriors, cell = self._posteriors, self._cell(task.cell)
        before = posteriors.evaluations
        posteriors.pending = {cell.number: task.pending}
        value = getattr(posteriors, task.method.__name__)(cell=cell, **task.given)
        cell.data += task.new
        leaf = self._tree.leaf(cell).copy()
        return Result(value, cell.gain, cell.maximizer, leaf, posteriors.evaluations - before)

    def _cell(self, sent: Cell) -> Cell:
        """Return the shard's cell, set to the sent one; its posterior is kept if the observations are the same."""
        key = (sent.divisions, sent.place)
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = attrs.evolve(sent, data=list(sent.data))
            self._tree.add(cell)
        elif cell.data != sent.data:
            self._posteriors.drop(cell)
            cell.data = list(sent.data)
        cell.gain, cell.parent_index = sent.gain, sent.parent_index
        return cell


class RemoteCells(CellPosteriors[Any]):
    """Posteriors of cells in the shards of an executor.

    Parameters
    ----------
    make
        Function that makes the posteriors, in this process and in shards.
    cover, log, tree
        Cubes, observations and tree of maxima; see `CellPosteriors`.
    executor
        Executor that holds the shards.
    """

    def __init__(self, make: MakeCells, cover: Cover, log: ObservationLog, tree: ArgmaxTree, executor: Executor):
        local = self._local = make(cover, log, tree)  # answers where no posterior is needed
        super().__init__(local.kernel, local.prior_mean, local.prior_std, cover, log, tree)
        self.needs_ancestors = local.needs_ancestors
        self._shard_arguments = make, cover.space, tree.norm, tree.noise, cover.visited
        self._begin()
        self._shards: Shards[CellsShard] = executor.shards(self._maker, SHARDS, "cells of PiGPUCB")

    def _begin(self) -> None:
        self._queue: list[tuple[Cell, CellTask]] = []  # tasks of observations that are not sent yet
        self._sent = self.log.count  # number of observations that the shards have
        self._settled = 0  # number of points that the shards have and that stay as they are
        self._pending: list[int] = []  # pending candidates whose points the shards have
        self._prefetched: dict[int, Result] = {}  # results of `evaluate` not needed yet, by number of the cell

    def _maker(self, number: int) -> functools.partial[CellsShard]:
        """Return the function that makes a shard, with all observations."""
        return functools.partial(CellsShard, *self._shard_arguments, number, self._data_since(0, 0))

    def clear(self) -> None:
        self._begin()
        self._shards.renew()

    # ---- messages

    def _task(self, method: Callable[..., Any], cell: Cell, new: Sequence[int] = (), **given: Any) -> CellTask:
        parent = cell.parent if self.needs_ancestors else None
        sent = attrs.evolve(cell, data=list(cell.data), parent=parent)
        return CellTask(method, sent, given, self.pending.get(cell.number, ()), new)

    def _results(self, method: Callable[..., Any], cells: Sequence[Cell], **given: Any) -> list[Result]:
        """Return the results of a method for some cells."""
        return self._ask([self._task(method, cell, **given) for cell in cells])

    def _ask(self, tasks: Sequence[CellTask]) -> list[Result]:
        """Return the results in the order of the tasks, by one message to every shard concerned."""
        if not tasks:
            return []
        groups: dict[int, list[CellTask]] = {}
        for task in tasks:
            groups.setdefault(task.cell.seeded_hash % SHARDS, []).append(task)
        pending = sorted({p for task in tasks for p in task.pending})
        new_points = bool(pending) and self.cover.visited and pending != self._pending
        if self.log.count > self._sent or new_points:
            self._shards.tell(None, CellsShard.add_data, *self._data_since(self._sent, self._settled))
            self._settled = max(self._settled, int(self.log.since(self._sent)[0].max(initial=-1)) + 1)
            self._sent, self._pending = self.log.count, pending if new_points else self._pending
        answers = self._shards.ask(sorted(groups), CellsShard.work, groups)
        results = {number: iter(answer) for number, answer in zip(sorted(groups), answers, strict=True)}
        return [next(results[task.cell.seeded_hash % SHARDS]) for task in tasks]

    def _data_since(self, observation: int, point: int) -> Data:
        """Return observations and points from these numbers on; see `CellsShard.add_data`.

        The points of observations stay as they are; others, which are pending, may be replaced after a failed `ask`.
        """
        points = self.cover.points(None)[point:].copy() if self.cover.visited else np.empty(0)
        return *self.log.since(observation), point, points

    def flush(self) -> None:
        self._prefetched = {}
        results = self._ask([task for _, task in self._queue])
        for (cell, _), result in zip(self._queue, results, strict=True):
            cell.gain, cell.maximizer = result.gain, result.maximizer
            if cell.slot >= 0:
                self.tree.set_leaf(cell, result.leaf)
        self._queue = []

    # ---- the interface

    def observe(self, cell: Cell, candidate: int, y: float, noise_variance: float, log_term: float | None) -> None:
        if any(cell is queued for queued, _ in self._queue):
            self.flush()
        given: dict[str, Any] = {"candidate": candidate, "y": y, "noise_variance": noise_variance, "log_term": log_term}
        self._queue.append((cell, self._task(CellPosteriors.observe, cell, [self.log.count - 1], **given)))
        if log_term is None:
            self.flush()

    def evaluate(self, cell: Cell, log_term: float) -> None:
        result = self._prefetched.pop(cell.number, None)
        if result is None:
            likely = self.tree.likely(log_term)
            others = [other for other in likely if isinstance(other, Cell) and other is not cell]
            result, *more = self._results(CellPosteriors.evaluate, [cell, *others], log_term=log_term)
            self._prefetched = {other.number: each for other, each in zip(others, more, strict=True)}
        cell.maximizer = result.maximizer
        self.evaluations += result.evaluations
        self.tree.set_leaf(cell, result.leaf)

    def maximizer(self, cell: Cell, log_term: float) -> Any:
        return self._value(CellPosteriors.maximizer, cell, log_term)

    def _value(self, method: Callable[..., Any], cell: Cell, log_term: float) -> Any:
        """Return what a method returns for a cell at a log term, and count its evaluations."""
        result = self._results(method, [cell], log_term=log_term)[0]
        self.evaluations += result.evaluations
        return result.value

    def last_index(self, cell: Cell, log_term: float) -> Floats:
        if self.needs_ancestors:  # shards compute that of an ancestor when they need it
            return NO_PARENT_INDEX
        index: Floats = self._value(CellPosteriors.last_index, cell, log_term)
        return index

    def drop(self, cell: Cell) -> None:
        self._shards.tell([cell.seeded_hash % SHARDS], CellsShard.remove, cell.divisions, cell.place)

    def build_and_keep_all(self, cells: Sequence[Cell]) -> None:
        for cell, result in zip(cells, self._results(CellPosteriors.build_and_keep, cells), strict=True):
            cell.gain = result.gain

    def tied_maximizer(self, group: EmptyCubes) -> Any:
        return self._local.tied_maximizer(group)

    def bests(self, cells: Sequence[Cell]) -> list[tuple[float, int, float]]:
        self.flush()
        return [result.value for result in self._results(CellPosteriors.best, cells)]

    def best_among(self, cell: Cell, candidates: Sequence[int], log_term: float) -> tuple[float, int]:
        given: dict[str, Any] = {"candidates": candidates, "log_term": log_term}
        best: tuple[float, int] = self._results(CellPosteriors.best_among, [cell], **given)[0].value
        return best
