"""A shard of the partition whose posteriors are held elsewhere, and what holds them there.

A cell's posterior follows from the cell and the observations in it. Every question brings the cell, and observations
are told as they come: what a part holds is a cache, made anew wherever it is missing. Cells are shared out by their
seeded hashes.

A round is one message to the workers that hold the cells which the observation fell into, and one for every time that
summits have to be found again: of several cells that are likely to be looked at, at once; of how many, follows from how
many of the last ones were. What was found and then not looked at is thrown away, so that the numbers are those of one
cell after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.box.surface import SmoothIndex
from scalable_bandits.posteriors.partition.argmax_tree import ArgmaxTree
from scalable_bandits.posteriors.partition.box_cells import BoxCells, CubeIndex
from scalable_bandits.posteriors.partition.cell import Cell
from scalable_bandits.posteriors.partition.cover import BoxCover, Cover, FiniteCover, Place, make_cover
from scalable_bandits.posteriors.partition.finite_cells import FiniteCells, Shard
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.posteriors.placement import Executor
from scalable_bandits.posteriors.state import State
from scalable_bandits.spaces import Box, FiniteSpace, Indices

PARTS = 16

PointsAt = Callable[[Indices | None], Floats]
MakeCells = Callable[[PointsAt, ObservationLog, ArgmaxTree], Shard[Any]]


def make_finite_cells(
    space: FiniteSpace, kernel: Kernel, prior_mean: float, noise_variance: float, salt: int, points: PointsAt,
    log: ObservationLog, tree: ArgmaxTree,
) -> FiniteCells:  # fmt: skip
    """Shard of a finite space."""
    return FiniteCells(space, kernel, prior_mean, make_cover(space), log, tree, noise_variance, salt)


def make_box_cells(
    box: Box, kernel: Kernel, prior_mean: float, noise_variance: float, salt: int,
    upper: Callable[[float], SmoothIndex], tightening: bool, points: PointsAt, log: ObservationLog, tree: ArgmaxTree,
) -> BoxCells:  # fmt: skip
    """Shard of a box."""
    cover = BoxCover(box, points)
    index = CubeIndex(upper, tightening, noise_variance, salt)
    return BoxCells(points, kernel, prior_mean, cover, log, tree, index)


class Above(NamedTuple):
    """A cell that another one came from."""

    number: int
    divisions: int
    place: Place
    split: int
    width: float


class Task(NamedTuple):
    """What to do with one cell."""

    what: str  # observe, evaluate, born, best, among or index
    divisions: int
    place: Place
    order: int
    data: list[int]  # observations in it
    gain: float
    caps: Floats
    above: tuple[Above, ...]  # the nearest first
    new: int = -1  # an observation that comes to them
    log_term: float | None = None
    pending: tuple[int, ...] = ()
    candidates: Sequence[int] = ()


class Found(NamedTuple):
    """What came of it."""

    gain: float
    summit: Any
    known: Floats  # (5,), of the contest
    evaluations: int
    value: Any


class News(NamedTuple):
    """Observations, and points that candidates stand for."""

    candidates: Indices  # (k,)
    ys: Floats  # (k,)
    noises: Floats  # (k,)
    numbers: Indices  # (p,)
    points: Floats  # (p, d)


class CellsShard:
    """Posteriors of some cells, made from their specification.

    Parameters
    ----------
    make
        The shard of a partition in which they are computed.
    dimension
        Of the space.
    norm, noise
        B and R of the contest's widths.
    part
        Number of this one.
    """

    CHANGING: ClassVar[frozenset[str]] = frozenset({"learn", "visit", "leave"})  # questions bring the cells they need
    ASKING: ClassVar[frozenset[str]] = frozenset()
    ask_is_stateful: ClassVar[bool] = False

    def __init__(self, make: MakeCells, dimension: int, norm: float, noise: float, part: int):
        self._make, self._dimension, self._widths, self._part = make, dimension, (norm, noise), part
        self._begin()

    def _begin(self) -> None:
        """Know nothing."""
        self._told, self._contest = ObservationLog(), ArgmaxTree(*self._widths)
        self._table = np.empty((0, self._dimension))  # points by candidate, NaN where none is known
        self._shard = self._make(self._points, self._told, self._contest)
        self._shard.share = 1.0 / PARTS
        self._cells: dict[tuple[int, Place], Cell] = {}

    def learn(self, news: News) -> None:
        """Take in observations."""
        for candidate, y, noise in zip(news.candidates.tolist(), news.ys.tolist(), news.noises.tolist(), strict=True):
            self._told.add(candidate, y, noise)
        self.visit(news.numbers, news.points)

    def visit(self, numbers: Indices, points: Floats) -> None:
        """Take in points (k, d) that candidates of some numbers (k,) stand for."""
        if not len(numbers):
            return
        size = int(numbers.max()) + 1
        if size > len(self._table):
            grown = np.full((2 * size, points.shape[1]), np.nan)
            grown[: len(self._table)] = self._table
            self._table = grown
        self._table[numbers] = points

    def leave(self, divisions: int, place: Place) -> None:
        """Forget a cell that was split."""
        cell = self._cells.pop((divisions, place), None)
        if cell is not None:
            self._shard.forget(cell)
            self._contest.leave(cell)

    def work(self, tasks: dict[int, list[Task]]) -> list[Found]:
        """Answers to the tasks of this part."""
        return [self._done(task) for task in tasks[self._part]]

    def restore(self, state: State) -> None:
        """Know the observations of a state and nothing else."""
        self._begin()
        self.learn(News(**state))

    def _points(self, candidates: Indices | None) -> Floats:
        return self._table if candidates is None else self._table[candidates]

    def _cell(self, task: Task) -> Cell:
        """The cell as the task says it is; its posterior is that of these data, or none."""
        key = (task.divisions, task.place)
        cell = self._cells.get(key)
        if cell is None:
            parent: Cell | None = None
            for above in reversed(task.above):
                parent = Cell(above.number, above.divisions, above.place, parent, 0, 0)
                parent.split, parent.width = above.split, above.width
            cell = self._cells[key] = Cell(-1, *key, parent, 0, task.order)
            self._contest.enter(cell)
        if cell.data != task.data:
            self._shard.forget(cell)
            cell.data = list(task.data)
        cell.gain, cell.caps = task.gain, task.caps
        return cell

    def _done(self, task: Task) -> Found:
        shard, cell = self._shard, self._cell(task)
        value: Any = None
        before = shard.evaluations
        if task.new >= 0:
            shard.observe(cell, *self._told.at(task.new), task.log_term)
            cell.data.append(task.new)
        elif task.what == "born":
            cell.gain = shard.born(cell)
        elif task.what == "best":
            value = shard.best(cell)
        else:
            assert task.log_term is not None
            posterior = shard.build(cell, task.pending) if task.pending else shard.posterior(cell)
            if task.what == "evaluate":
                shard.evaluate(cell, posterior, task.log_term)
            elif task.what == "among":
                value = shard.best_among(cell, posterior, task.candidates, task.log_term)
            else:
                value = shard.index(posterior, cell, task.log_term)
        known = self._contest.known(cell).copy()
        return Found(cell.gain, cell.summit, known, shard.evaluations - before, value)


class RemoteCells(Shard[tuple[int, ...]]):
    """Posteriors of cells in parts, each held where a place puts it; a posterior is here but what is pending in it.

    Parameters
    ----------
    make
        A shard as it would be in this process.
    norm, noise
        B and R of the contest's widths.
    cover
        The cubes.
    points
        From numbers (k,) of points that were visited to the points (k, d); None on a finite space.
    executor
        Where the parts live.

    Other parameters are those of `Shard`.
    """

    def __init__(
        self, make: MakeCells, norm: float, noise: float, cover: Cover, points: PointsAt | None, log: ObservationLog,
        tree: ArgmaxTree, executor: Executor,
    ):  # fmt: skip
        self._near = make(points or _nowhere, log, tree)  # answers what takes no posterior
        super().__init__(self._near.kernel, self._near.prior_mean, self._near.prior_std, log, tree)
        self._cover, self._points = cover, points
        self._parts = executor.shards(
            [functools.partial(CellsShard, make, cover.dimension, norm, noise, n) for n in range(PARTS)],
            "cells of PiGPUCB", self._state,
        )  # fmt: skip
        self.clear()

    def clear(self) -> None:
        self._queue: list[tuple[Cell, Task]] = []  # observations that are not sent yet
        self._pending: list[int] = []  # whose points the parts were told
        self._said = self._log.count  # observations that they were told
        self._parts.restore(dict.fromkeys(range(PARTS), self._state(0)))
        self._early: dict[int, Found] = {}  # summits that nobody asked for yet, by number of the cell
        self._guessed, self._more = 0, 1  # how many of them were found at once, and how many will be the next time
        self._imagined: dict[int, tuple[int, ...]] = {}  # what is pending in a cell, by its number

    # ---- messages

    def _task(self, what: str, cell: Cell, **given: Any) -> Task:
        above, parent = [], cell.parent
        while parent is not None and self._near.looks_up:
            above.append(Above(parent.number, parent.divisions, parent.place, parent.split, parent.width))
            parent = parent.parent
        return Task(what, cell.divisions, cell.place, cell.order, list(cell.data), cell.gain, cell.caps, tuple(above),
                    **given)  # fmt: skip

    def _ask(self, asked: Sequence[tuple[Cell, Task]]) -> list[Found]:
        """Answers, in the order of the tasks: one message to every part that has some."""
        groups: dict[int, list[int]] = {}
        for i, (cell, _) in enumerate(asked):
            groups.setdefault(cell.order % PARTS, []).append(i)
        tasks = {part: [asked[i][1] for i in which] for part, which in groups.items()}
        parts = sorted(groups)
        log = self._log.count
        if log > self._said:
            self._parts.tell(None, "learn", self._news(self._said))
            self._said = log
        pending = sorted({p for _, task in asked for p in task.pending})
        if self._points is not None and pending and pending != self._pending:
            numbers = np.array(pending, dtype=np.int64)
            self._parts.tell(None, "visit", numbers, self._points(numbers))
            self._pending = pending
        found = dict(zip(parts, self._parts.ask(parts, "work", tasks), strict=True))
        answers: list[Found | None] = [None] * len(asked)
        for part, which in groups.items():
            for i, answer in zip(which, found[part], strict=True):
                answers[i] = answer
        return [answer for answer in answers if answer is not None]

    def _news(self, first: int, pending: Sequence[int] = ()) -> News:
        """Observations from some number on, with the points where they were made and those of pending candidates."""
        log, since = self._log, slice(first, self._log.count)
        numbers, points = np.empty(0, dtype=np.int64), np.empty((0, 0))
        if self._points is not None:
            numbers = np.unique(np.append(log.candidates[since], np.array(pending, dtype=np.int64)))
            points = self._points(numbers)
        return News(log.candidates[since].copy(), log.ys[since].copy(), log.noises[since].copy(), numbers, points)

    def _state(self, part: int) -> State:
        """What a part that is made anew has to know."""
        return self._news(0, self._pending)._asdict()

    def _look_back(self) -> None:
        """Find twice as many summits at once if all of the last were asked for, half as many if most were not."""
        if self._guessed and not self._early:
            self._more = min(2 * self._more, PARTS)
        elif 2 * len(self._early) > self._guessed:
            self._more = max(self._more // 2, 1)
        self._early, self._guessed = {}, 0

    def settle(self) -> None:
        self._look_back()
        self._imagined = {}
        if not self._queue:
            return
        for (cell, _), found in zip(self._queue, self._ask(self._queue), strict=True):
            cell.gain, cell.summit = found.gain, found.summit
            if cell.slot >= 0:
                self._tree.put_back(cell, found.known)
        self._queue = []

    # ---- what a shard does

    def build(self, cell: Cell, pending: Sequence[int] = ()) -> tuple[int, ...]:
        self._imagined[cell.number] = tuple(pending)
        return tuple(pending)

    def posterior(self, cell: Cell) -> tuple[int, ...]:
        return ()

    def observe(self, cell: Cell, candidate: int, y: float, noise_variance: float, log_term: float | None) -> None:
        if any(cell is queued for queued, _ in self._queue):
            self.settle()
        number = self._log.count - 1
        self._queue.append((cell, self._task("observe", cell, new=number, log_term=log_term)))
        if log_term is None:
            self.settle()

    def evaluate(self, cell: Cell, posterior: tuple[int, ...], log_term: float) -> None:
        found = self._early.pop(cell.number, None)
        if found is None:
            self._look_back()
            others = [other for other in self._tree.likely(log_term, self._more) if other is not cell]
            self._guessed = len(others)
            tasks = [(cell, self._task("evaluate", cell, log_term=log_term, pending=posterior))]
            for other in others:
                pending = self._imagined.get(other.number, ())
                tasks.append((other, self._task("evaluate", other, log_term=log_term, pending=pending)))
            found, *more = self._ask(tasks)
            self._early = {other.number: each for other, each in zip(others, more, strict=True)}
        cell.summit = found.summit
        self.evaluations += found.evaluations
        self._tree.put_back(cell, found.known)

    def divide(self, cell: Cell, children: Sequence[Cell], log_term: float | None) -> list[Cell]:
        cover = self._cover
        members: dict[Place, Indices] = {}
        if isinstance(cover, FiniteCover):
            members = {child.place: cover.members(child.divisions, child.place) for child in children}
            children = [child for child in children if len(members[child.place])]
            if log_term is not None:
                under = self._ask([(cell, self._task("index", cell, log_term=log_term))])[0].value
                numbers = cover.members(cell.divisions, cell.place)
                for child in children:
                    child.caps = under[numbers.searchsorted(members[child.place])]
        for child in children:
            places = (cover.places(child.divisions, int(self._log.candidates[i])) for i in cell.data)
            child.data = [i for i, held in zip(cell.data, places, strict=True) if child.place in held]
        born = [(child, self._task("born", child)) for child in children if child.data]
        self._parts.tell([cell.order % PARTS], "leave", cell.divisions, cell.place)
        for (child, _), found in zip(born, self._ask(born) if born else [], strict=True):
            child.gain = found.gain
        return list(children)

    def anywhere(self, cell: Cell) -> Any:
        return self._near.anywhere(cell)

    def level(self, cell: Cell) -> bool:
        return self._near.level(cell)

    def born(self, cell: Cell) -> float:
        return self._ask([(cell, self._task("born", cell))])[0].gain

    def best(self, cell: Cell) -> tuple[float, int, float]:
        return self.bests([cell])[0]

    def bests(self, cells: Sequence[Cell]) -> list[tuple[float, int, float]]:
        self.settle()
        asked = [(cell, self._task("best", cell)) for cell in cells]
        return [found.value for found in self._ask(asked)] if asked else []

    def best_among(
        self, cell: Cell, posterior: tuple[int, ...], candidates: Sequence[int], log_term: float
    ) -> tuple[float, int]:
        given = {"candidates": candidates, "log_term": log_term, "pending": posterior}
        found: tuple[float, int] = self._ask([(cell, self._task("among", cell, **given))])[0].value
        return found


def _nowhere(candidates: Indices | None) -> Floats:
    """Points of a finite space are the space's own."""
    raise NotImplementedError
