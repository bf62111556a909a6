"""The cells of a partition in shards, for executors on a cluster or threads.

The posterior of a cell follows from the cell and its observations. Every task brings the cell, and observations are
sent once: a shard is a cache, made again from all observations wherever it is missing. The seeded hash of a cell
determines its shard.

A round is one message to the workers whose cells the observation fell into, and one whenever a summit (the candidate of
largest index in a cell) has to be found: those of several cells that are likely to be next are found together. How many
follows from how many of the last ones were used. Unused ones are dropped, so that the numbers are those of one cell
after the other.
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
from scalable_bandits.posteriors.partition.cover import BoxCover, Cover, FiniteCover, Place, make_cover
from scalable_bandits.posteriors.partition.finite_cells import FiniteCells, Shard
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.posteriors.placement import Executor, Shards
from scalable_bandits.posteriors.state import State, arrays
from scalable_bandits.spaces import Box, FiniteSpace, Indices

SHARDS = 16

PointsAt = Callable[[Indices | None], Floats]
MakeCells = Callable[[PointsAt, ObservationLog, ArgmaxTree], Shard[Any]]


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

    method: Callable[..., Any]  # of `finite_cells.Shard`, which the posteriors override
    cell: Cell  # copy of the cell
    given: dict[str, Any]  # arguments beside the cell, by name; "pending" (tuple of int) stands for "posterior"
    new: list[int]  # numbers of the observations that the method adds to the cell


class Result(NamedTuple):
    """Result of a task."""

    value: Any  # value that the method returned
    gain: float  # information gain of the cell, in nats
    summit: Any
    known: Floats  # (5,) entry of the cell in the tree
    evaluations: int


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
        All observations and points; see `RemoteCells._news`.
    """

    def __init__(self, make: MakeCells, dimension: int, norm: float, noise: float, number: int, observed: State):
        self._number, self._log, self._tree = number, ObservationLog(), ArgmaxTree(norm, noise)
        self._known_points = np.empty((0, dimension))  # points by candidate, NaN where none is known
        self._posteriors = make(self._points, self._log, self._tree)
        self._posteriors.share = 1.0 / SHARDS
        self._cells: dict[tuple[int, Place], Cell] = {}
        self.learn(observed)

    def _points(self, candidates: Indices | None) -> Floats:
        return self._known_points if candidates is None else self._known_points[candidates]

    def learn(self, news: State) -> None:
        """Add observations and points; see `RemoteCells._news`."""
        for observation in zip(*(news[name].tolist() for name in ("candidates", "ys", "noises")), strict=True):
            self._log.add(*observation)
        numbers, known = news["numbers"], len(self._known_points)
        missing = int(numbers.max(initial=-1)) + 1 - known
        if missing > 0:
            self._known_points = np.pad(self._known_points, ((0, known + missing), (0, 0)), constant_values=np.nan)
        if len(numbers):
            self._known_points[numbers] = news["points"]

    def leave(self, divisions: int, place: Place) -> None:
        """Forget a cell that was split."""
        cell = self._cells.pop((divisions, place), None)
        if cell is not None:
            self._posteriors.forget(cell)
            self._tree.leave(cell)

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
        known = self._tree.known(cell).copy()
        return Result(value, cell.gain, cell.summit, known, posteriors.evaluations - before)

    def _cell(self, sent: Cell) -> Cell:
        """Return the cell as it was sent; its posterior is kept if the observations are the same."""
        key = (sent.divisions, sent.place)
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = _copied(sent)
            self._tree.enter(cell)
        elif cell.data != sent.data:
            self._posteriors.forget(cell)
            cell.data = list(sent.data)
        cell.gain, cell.caps = sent.gain, sent.caps
        return cell


def _copied(cell: Cell) -> Cell:
    found = copy.copy(cell)
    found.data = list(cell.data)
    return found


class RemoteCells(Shard[tuple[int, ...]]):
    """Posteriors of cells in the shards of an executor; in this process a posterior is the pending points in it.

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
        Tree of the cells' indices.
    executor
        Executor that holds the shards.
    """

    def __init__(
        self, make: MakeCells, norm: float, noise: float, cover: Cover, points: PointsAt | None, log: ObservationLog,
        tree: ArgmaxTree, executor: Executor,
    ):  # fmt: skip
        self._local = make(points or _no_points, log, tree)  # answers what needs no posterior
        super().__init__(self._local.kernel, self._local.prior_mean, self._local.prior_std, log, tree)
        self._log, self._tree, self._cover, self._points = log, tree, cover, points
        self._given = make, cover.dimension, norm, noise
        self._begin()
        self._shards: Shards[CellsShard] = executor.shards(self._maker, SHARDS, "cells of PiGPUCB")

    def _begin(self) -> None:
        self._queue: list[tuple[Cell, CellTask]] = []  # tasks of observations that are not sent yet
        self._sent = self._log.count  # number of observations that the shards have
        self._pending: list[int] = []  # pending candidates whose points they have
        self._early: dict[int, Result] = {}  # summits that were found before they are needed, by number of the cell
        self._found, self._next = 0, 1  # numbers of summits found early the last time, and to be found the next time
        self._pending_in: dict[int, tuple[int, ...]] = {}  # pending candidates by number of the cell

    def _maker(self, number: int) -> functools.partial[CellsShard]:
        """Return the function that makes a shard, with all observations."""
        return functools.partial(CellsShard, *self._given, number, self._news(0, self._pending))

    def clear(self) -> None:
        self._begin()
        self._shards.renew()

    # ---- messages

    def _task(self, method: Callable[..., Any], cell: Cell, new: Sequence[int] = (), **given: Any) -> CellTask:
        sent = _copied(cell)
        if not self._local.looks_up:
            sent.parent = None
        return CellTask(method, sent, given, list(new))

    def _ask(self, tasks: Sequence[CellTask]) -> list[Result]:
        """Return the results in the order of the tasks, by one message to every shard concerned."""
        if not tasks:
            return []
        groups: dict[int, list[CellTask]] = {}
        for task in tasks:
            groups.setdefault(task.cell.order % SHARDS, []).append(task)
        pending = sorted({p for task in tasks for p in task.given.get("pending", ())})
        fresh = bool(pending) and self._points is not None and pending != self._pending
        if self._log.count > self._sent or fresh:
            self._shards.tell(None, CellsShard.learn, self._news(self._sent, pending if fresh else []))
            self._sent = self._log.count
            self._pending = pending if fresh else self._pending
        answers = self._shards.ask(sorted(groups), CellsShard.work, groups)
        results = {number: iter(found) for number, found in zip(sorted(groups), answers, strict=True)}
        return [next(results[task.cell.order % SHARDS]) for task in tasks]

    def _news(self, first: int, pending: Sequence[int]) -> State:
        """Return the observations from a number on: candidates, ys and noises, three (k,) arrays.

        On a box, also the numbers (p,) of their candidates and of the pending ones, and the points (p, d) of these.
        """
        candidates, ys, noises = self._log.since(first)
        numbers, points = np.empty(0, dtype=np.int64), np.empty((0, 0))
        if self._points is not None:
            numbers = np.unique(np.append(candidates, np.array(pending, dtype=np.int64)))
            points = self._points(numbers)
        return arrays(candidates=candidates, ys=ys, noises=noises, numbers=numbers, points=points)

    def _adapt(self) -> None:
        """Find twice as many summits early if all of the last were used, half as many if most were not."""
        if self._found and not self._early:
            self._next = min(2 * self._next, SHARDS)
        elif 2 * len(self._early) > self._found:
            self._next = max(self._next // 2, 1)
        self._early, self._found = {}, 0

    def settle(self) -> None:
        self._adapt()
        self._pending_in = {}
        results = self._ask([task for _, task in self._queue])
        for (cell, _), result in zip(self._queue, results, strict=True):
            cell.gain, cell.summit = result.gain, result.summit
            if cell.slot >= 0:
                self._tree.put_back(cell, result.known)
        self._queue = []

    # ---- the interface

    def build(self, cell: Cell, pending: Sequence[int] = ()) -> tuple[int, ...]:
        self._pending_in[cell.number] = tuple(pending)
        return tuple(pending)

    def posterior(self, cell: Cell) -> tuple[int, ...]:
        return ()

    def observe(self, cell: Cell, candidate: int, y: float, noise_variance: float, log_term: float | None) -> None:
        if any(cell is queued for queued, _ in self._queue):
            self.settle()
        given: dict[str, Any] = {"candidate": candidate, "y": y, "noise_variance": noise_variance, "log_term": log_term}
        self._queue.append((cell, self._task(Shard.observe, cell, [self._log.count - 1], **given)))
        if log_term is None:
            self.settle()

    def evaluate(self, cell: Cell, posterior: tuple[int, ...], log_term: float) -> None:
        result = self._early.pop(cell.number, None)
        if result is None:
            self._adapt()
            others = [other for other in self._tree.likely(log_term, self._next) if other is not cell]
            pending = {**self._pending_in, cell.number: posterior}
            result, *more = self._ask([
                self._task(Shard.evaluate, each, log_term=log_term, pending=pending.get(each.number, ()))
                for each in (cell, *others)
            ])  # fmt: skip
            self._early = {other.number: each for other, each in zip(others, more, strict=True)}
            self._found = len(others)
        cell.summit = result.summit
        self.evaluations += result.evaluations
        self._tree.put_back(cell, result.known)

    def divide(self, cell: Cell, children: Sequence[Cell], log_term: float | None) -> list[Cell]:
        cover = self._cover
        if isinstance(cover, FiniteCover):
            members = {child.place: cover.members(child.divisions, child.place) for child in children}
            children = [child for child in children if len(members[child.place])]
            if log_term is not None:
                (under,) = self._ask([self._task(Shard.index, cell, log_term=log_term, pending=())])
                numbers = cover.members(cell.divisions, cell.place)
                for child in children:
                    child.caps = under.value[numbers.searchsorted(members[child.place])]
        for child in children:
            places = (cover.places(child.divisions, int(self._log.candidates[i])) for i in cell.data)
            child.data = [i for i, held in zip(cell.data, places, strict=True) if child.place in held]
        self._shards.tell([cell.order % SHARDS], CellsShard.leave, cell.divisions, cell.place)
        filled = [child for child in children if child.data]
        for child, result in zip(filled, self._ask([self._task(Shard.born, child) for child in filled]), strict=True):
            child.gain = result.value
        return list(children)

    def anywhere(self, cell: Cell) -> Any:
        return self._local.anywhere(cell)

    def level(self, cell: Cell) -> bool:
        return self._local.level(cell)

    def born(self, cell: Cell) -> float:
        return float(self._ask([self._task(Shard.born, cell)])[0].value)

    def best(self, cell: Cell) -> tuple[float, int, float]:
        return self.bests([cell])[0]

    def bests(self, cells: Sequence[Cell]) -> list[tuple[float, int, float]]:
        self.settle()
        return [result.value for result in self._ask([self._task(Shard.best, cell) for cell in cells])]

    def best_among(
        self, cell: Cell, posterior: tuple[int, ...], candidates: Sequence[int], log_term: float
    ) -> tuple[float, int]:
        task = self._task(Shard.best_among, cell, candidates=candidates, log_term=log_term, pending=posterior)
        found: tuple[float, int] = self._ask([task])[0].value
        return found


def _no_points(candidates: Indices | None) -> Floats:
    """Stand in for the points of a finite space, which has its own."""
    raise NotImplementedError
