"""Partition of a space: cells with a posterior each, and the largest index over all of them.

What makes it fast, all of it exact:

- A cube without observations is no object: its index is the prior's, which is the same in all such cubes, so that only
  the first in the order of the seeded hash can be chosen.
- A tree of bounds finds the cell of largest index without computing those of all cells (`argmax_tree.py`).
- Posteriors that were not used for long are dropped, and computed again when they are needed (`finite_cells.py`).
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.engine import TIE_TOLERANCE
from scalable_bandits.posteriors.partition.argmax_tree import ArgmaxTree, better, orders
from scalable_bandits.posteriors.partition.cell import NO_CAPS, Cell, cells_of, state_of
from scalable_bandits.posteriors.partition.cover import Cover, Place
from scalable_bandits.posteriors.partition.finite_cells import Shard
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.posteriors.state import State, Stateful, group, member, value
from scalable_bandits.spaces import Indices


class EmptyCells:
    """Numbers of cubes, in the order in which ties between them are broken.

    Parameters
    ----------
    numbers
        (k,) numbers of the cubes that hold a candidate.
    salt
        Seed of the tie-breaking hash.
    is_cell
        Function that returns whether the cube of a number has become a cell.
    """

    def __init__(self, numbers: Indices, salt: np.uint64, is_cell: Callable[[int], bool]):
        hashed = orders(numbers, salt)
        ranked = np.argsort(hashed, kind="stable")
        self._numbers, self._orders, self._is_cell = numbers[ranked], hashed[ranked], is_cell
        self._next, self._first = 0, (-1, 0)
        self.update()

    def first(self) -> tuple[int, int]:
        """Return the number and the order of the first cube that is no cell, as of the last update; -1 without one."""
        return self._first

    def update(self) -> None:
        """Find the first cube that is no cell; the caller does this after every new cell."""
        while self._next < len(self._numbers):
            number = int(self._numbers[self._next])
            if not self._is_cell(number):
                self._first = number, int(self._orders[self._next])
                return
            self._next += 1
        self._first = -1, 0


_MASK = 2**63 - 1


class Winner(NamedTuple):
    """Choice of the next point."""

    candidate: Any  # number of the candidate, or point of a box
    value: float  # largest index
    gain: float  # information gain of the candidate's cell, in nats
    width: float  # confidence width of the candidate's cell


class Partition(Stateful):
    """Cells over a space, for one policy.

    Parameters
    ----------
    cover
        Cubes over the space.
    shard
        Posteriors of the cells.
    log
        Log of the observations.
    tree
        Tree of maxima.
    divisions
        Number of cubes along each side of the first cover.
    room
        Function from the divisions of a cell to the bound on its number of observations plus one; with more it splits.
    tightening
        Whether the index of a cell is bounded by that of the cell it came from.
    salt
        Seed of the tie-breaking hash.
    """

    def __init__(
        self, cover: Cover, shard: Shard[Any], log: ObservationLog, tree: ArgmaxTree, divisions: int,
        room: Callable[[int], float], tightening: bool, salt: int,
    ):  # fmt: skip
        self.cover, self.divisions = cover, divisions
        self._shard, self.log, self._tree = shard, log, tree
        self._room, self._tightening, self._salt = room, tightening, np.uint64(salt)
        self.cells: list[Cell] = []  # all cells ever made, by number
        self._made: dict[tuple[int, Place], Cell] = {}
        self._homes: dict[int, list[Cell]] = {}  # by candidate, the cells it is in
        self._winner: Winner | None = None  # result of the last `maximize`
        self._winner_pending: list[int] = []  # candidates pending then
        self._begin()

    # ---- the cover

    @property
    def evaluations(self) -> int:
        """Number of points of a box at which an index was computed; 0 on a finite space."""
        return self._shard.evaluations

    @property
    def prior_std(self) -> float:
        """Prior standard deviation of the first candidate played, in units of y."""
        return self._shard.prior_std

    def _begin(self) -> None:
        """Begin with the first cover."""
        places = np.flatnonzero(self.cover.filled(self.divisions).ravel())
        self._empty = EmptyCells(places, self._salt, self._is_cell)
        if not self._shard.kernel.stationary:  # the prior differs from point to point: every cube is evaluated
            for number in places.tolist():
                self._first_cell(self._place(number))

    def _is_cell(self, number: int) -> bool:
        """Return whether the cube of a number in the first cover has become a cell."""
        return (self.divisions, self._place(number)) in self._made

    def _place(self, number: int) -> Place:
        """Return the place of the cube of a number in the first cover."""
        place = []
        for _ in range(self.cover.dimension):
            number, k = divmod(number, self.divisions)
            place.append(k)
        return tuple(place[::-1])

    def _first_cell(self, place: Place) -> Cell:
        """Return the cell of a cube of the first cover, made when it is first needed."""
        cell = self._made.get((self.divisions, place))
        if cell is None:
            number = 0
            for k in place:
                number = number * self.divisions + k
            order = int(orders(np.array([number]), self._salt)[0])  # ties between cells are broken by it
            cell = self._add(Cell(len(self.cells), self.divisions, place, None, self.log.count, order))
        return cell

    def _enter(self, cell: Cell) -> None:
        cell.number = len(self.cells)
        cell.room = self._room(cell.divisions)
        self.cells.append(cell)
        self._made[cell.divisions, cell.place] = cell
        if cell.parent is None:
            self._empty.update()

    def _add(self, cell: Cell) -> Cell:
        self._enter(cell)
        self._tree.enter(cell)
        self._renew(cell)
        return cell

    def homes(self, candidate: int) -> list[Cell]:
        """Return the cells that a candidate is in."""
        held = self._homes.get(candidate)
        if held is None:
            made, side = self._made, self.divisions
            held = [made.get((side, place)) or self._first_cell(place) for place in self.cover.places(side, candidate)]
            self._homes[candidate] = held
        for cell in held:
            if cell.split >= 0:
                break
        else:
            return held
        while any(cell.split >= 0 for cell in held):
            held = [leaf for cell in held for leaf in self._below(cell, candidate)]
        self._homes[candidate] = held
        return held

    def _below(self, cell: Cell, candidate: int) -> Iterator[Cell]:
        """Yield the cell or, if it has split, the children that hold a candidate."""
        if cell.split < 0:
            yield cell
            return
        for place in self.cover.places(2 * cell.divisions, candidate):
            if tuple(k // 2 for k in place) == cell.place:
                yield self._made[2 * cell.divisions, place]

    @property
    def leaves(self) -> Iterable[Cell]:
        """Cells of the present cover; cubes of the first cover without observations are left out."""
        return (cell for cell in self.cells if cell.split < 0)

    # ---- observing

    def observe(self, candidate: int, y: float, noise_variance: float, log_term: float) -> None:
        """Add an observation, and split the cells that have too many; `log_term` is log(N_t / delta) of the round."""
        number = self.log.add(candidate, y, noise_variance)
        self._winner = None
        for cell in self.homes(candidate):
            splits = cell.room < cell.held + 2
            self._shard.observe(cell, candidate, y, noise_variance, None if splits else log_term)
            cell.data.append(number)
            cell.held += 1
            if splits:
                self._split(cell, log_term)

    def _split(self, cell: Cell, log_term: float) -> None:
        """Replace a cell by 2^d cells of half its side, each conditioned on the observations in its cube alone."""
        cell.split, cell.width = self.log.count, self.width(cell.gain, log_term)
        self._tree.leave(cell)
        places = list(itertools.product(*((2 * k, 2 * k + 1) for k in cell.place)))
        hashed = orders(np.array([(cell.order ^ code) & _MASK for code in range(1, len(places) + 1)]), self._salt)
        halves = [
            Cell(-1, 2 * cell.divisions, place, cell, self.log.count, order)
            for place, order in zip(places, hashed.tolist(), strict=True)
        ]
        for child in self._shard.divide(cell, halves, log_term if self._tightening else None):
            child.held = len(child.data)
            self._add(child)
        cell.data, cell.caps = [], NO_CAPS

    # ---- queries

    def width(self, gain: float, log_term: float) -> float:
        """Return the width B + R sqrt(2 (g + 1 + log(N_t / delta)))."""
        return self._tree.width(gain, log_term)

    def cells_at(self, point: Floats) -> list[Cell | None]:
        """Return the cells of the present cover that hold a point (d,); None for a cube without observations."""
        self._shard.settle()
        found: list[Cell | None] = []
        stack = [self._made.get((self.divisions, place)) for place in self.cover.places_at(self.divisions, point)]
        while stack:
            top = stack.pop()
            if top is None or top.split < 0:
                found.append(top)
                continue
            below = self.cover.places_at(2 * top.divisions, point)
            halves = [place for place in below if tuple(k // 2 for k in place) == top.place]
            stack += [self._made.get((2 * top.divisions, place)) for place in halves]
        return found

    def collapsed(self, cell: Cell | None) -> tuple[Indices, Floats, Floats]:
        """Return the distinct points observed in a cell, their averages and the averages' noise variances, all (m,)."""
        return self.log.collapsed([] if cell is None else cell.data)

    def best_queried(self) -> tuple[int, float, float]:
        """Return the observed candidate of largest posterior mean, its mean and std; candidate -1 without any."""
        none = (-math.inf, -1, 0.0)
        mean, candidate, std = max(self._shard.bests([cell for cell in self.leaves if cell.data]), default=none)
        return candidate, mean, std

    # ---- state; the posteriors follow from the observations

    def _state_of_cells(self) -> State:
        self._shard.settle()
        leaves = np.array([self._tree.known(cell) for cell in self.cells])
        return state_of(self.cells, leaves.reshape(-1, 5))

    def _restore_cells(self, state: State) -> None:
        self.cells, self._made, self._homes, self._winner = [], {}, {}, None
        self._shard.clear()
        for cell, leaf in cells_of(state):
            self._enter(cell)
            if cell.split < 0:
                self._tree.enter(cell)
                self._tree.put_back(cell, leaf)

    STATE = (
        member("log", prefix=False),
        value("last", "()", np.float64, lambda own: own._tree.last, lambda own, last: own._tree.clear(float(last))),
        group("", _state_of_cells, _restore_cells),
    )

    # ---- the largest index

    def _renew(self, cell: Cell) -> None:
        """Discard a cell's summit after its observations changed."""
        cell.summit = None
        if self._shard.level(cell):
            self._tree.level(cell, self._shard.prior_mean, self._shard.prior_std)
        else:
            self._tree.unknown(cell)

    def winner(self, pending: list[int]) -> Winner | None:
        """Return the result of the last `maximize` if no observation came since and the same candidates are pending."""
        return self._winner if self._winner_pending == pending else None

    def maximize(self, log_term: float, pending: Sequence[int] = ()) -> Winner:
        """Find the candidate of largest index over all cells.

        Parameters
        ----------
        log_term
            log(N_t / delta) of the round.
        pending
            Pending candidates, whose values are taken to be the means (Desautels, Krause & Burdick 2014).
        """
        self._shard.settle()
        if log_term < self._tree.last:  # pending points were abandoned: the summits are those of larger widths
            for cell in self.leaves:
                self._renew(cell)
        hallucinated = self._hallucinate(pending) if pending else {}

        def evaluate(cell: Cell) -> None:
            self._shard.evaluate(cell, hallucinated.get(cell.number) or self._shard.posterior(cell), log_term)

        free, order = self._empty.first()
        shard = self._shard
        elsewhere = shard.prior_mean + self.width(0.0, log_term) * shard.prior_std if free >= 0 else -math.inf
        found, index = self._tree.winner(log_term, elsewhere, evaluate)
        if found is not None and (free < 0 or index > elsewhere + TIE_TOLERANCE * abs(index) or found.order < order):
            cell = found
        else:
            cell = self._first_cell(self._place(free))
        if cell.summit is None:
            cell.summit = self._shard.anywhere(cell)
        candidate = cell.summit
        self._forget_pending(hallucinated)
        self._winner_pending = list(pending)
        self._winner = Winner(candidate, index, cell.gain, self.width(cell.gain, log_term))
        return self._winner

    def copied(self, owner: Any) -> Partition:
        """Return a copy in which `maximize` changes nothing here; the posteriors and the observations are shared.

        Parameters
        ----------
        owner
            Object whose methods the partition has as functions, which is not copied.
        """
        posteriors = [cell.posterior for cell in self.cells if cell.posterior is not None]
        shared = (owner, self.cover, self.log, self._shard.kernel, *posteriors, *(cell.data for cell in self.cells))
        return copy.deepcopy(self, {id(each): each for each in shared})

    def _hallucinate(self, pending: Sequence[int]) -> dict[int, Any]:
        """Compute the posteriors given pending points too, by number of the cell."""
        touched: dict[int, list[int]] = {}
        for candidate in pending:
            for cell in self.homes(candidate):
                touched.setdefault(cell.number, []).append(candidate)
        for number in touched:
            self._tree.unknown(self.cells[number])
        return {number: self._shard.build(self.cells[number], among) for number, among in touched.items()}

    def _forget_pending(self, hallucinated: Iterable[int]) -> None:
        for number in hallucinated:
            self._renew(self.cells[number])

    def forget_candidates(self, size: int) -> None:
        """Forget the candidates from a number on, which are gone or will be others."""
        self._homes = {candidate: cells for candidate, cells in self._homes.items() if candidate < size}
        self._winner = None

    def maximize_among(self, allowed: Indices, log_term: float, pending: Sequence[int] = ()) -> tuple[int, float]:
        """Find the largest index among some candidates (k,) of a finite space; returns the candidate and the index."""
        shard = self._shard
        shard.settle()
        hallucinated = self._hallucinate(pending)
        groups: dict[int, list[int]] = {}
        for candidate in allowed.tolist():
            for cell in self.homes(candidate):
                groups.setdefault(cell.number, []).append(candidate)
        best: tuple[float, int, int] | None = None
        for number, candidates in groups.items():
            cell = self.cells[number]
            posterior = hallucinated.get(number) or shard.posterior(cell)
            index, first = shard.best_among(cell, posterior, candidates, log_term)
            best = better(best, (index, cell.order, first))
        self._forget_pending(hallucinated)
        assert best is not None
        return best[2], best[0]
