"""The partition: cells with a posterior each, and the contest for the largest index over all of them.

What makes it fast, all of it exact:

- A cube that nothing fell into is no object: its index is the prior's, the same in all of them, and only the first in
  the order of the seeded hash can be played.
- The cells compete for the largest index by what is known of their summits (`argmax_tree.py`).
- Posteriors that were not needed for long are dropped and, when they are, computed again (`finite_cells.py`).
"""

from __future__ import annotations

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
from scalable_bandits.posteriors.partition.empty_cells import EmptyCells
from scalable_bandits.posteriors.partition.finite_cells import Shard
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.posteriors.state import State, arrays
from scalable_bandits.spaces import Indices

_MASK = 2**63 - 1


class Winner(NamedTuple):
    """What is played next."""

    candidate: Any  # its number, or a point of a box
    value: float  # of its index
    gain: float  # information gain (nats) of its cell
    width: float  # of its cell


class Partition:
    """Cells over a space, for one policy.

    Parameters
    ----------
    cover
        The cubes.
    shard, told, contest
        Posteriors of cells, the observations, and what is known of the cells' indices.
    divisions
        Cubes along each side of the first cover.
    room
        From the divisions of a cell to how many observations, plus one, it may hold: with more it splits.
    tightening
        Whether children stay under their parent's index.
    salt
        Seed of the hash by which ties are broken.
    """

    def __init__(
        self, cover: Cover, shard: Shard[Any], log: ObservationLog, tree: ArgmaxTree, divisions: int,
        room: Callable[[int], float], tightening: bool, salt: int,
    ):  # fmt: skip
        self.cover, self.divisions = cover, divisions
        self._shard, self.log, self._contest = shard, log, tree
        self._room, self._tightening, self._salt = room, tightening, np.uint64(salt)
        self.cells: list[Cell] = []  # all that were ever made, by number
        self._made: dict[tuple[int, Place], Cell] = {}
        self._homes: dict[int, list[Cell]] = {}  # of a candidate, the cells it is in
        self._winner: Winner | None = None  # of the contest at `_asked`
        self._asked: list[int] = []  # the candidates pending then
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
        """The first cover."""
        places = np.flatnonzero(self.cover.filled(self.divisions).ravel())
        self._untouched = EmptyCells(places, self._salt, self._touched)
        if not self._shard.kernel.stationary:  # the prior differs from point to point: every cube is evaluated
            for number in places.tolist():
                self._first_cell(self._place(number))

    def _touched(self, number: int) -> bool:
        """Whether something fell into a cube of the first cover."""
        return (self.divisions, self._place(number)) in self._made

    def _place(self, number: int) -> Place:
        place = []
        for _ in range(self.cover.dimension):
            number, k = divmod(number, self.divisions)
            place.append(k)
        return tuple(place[::-1])

    def _first_cell(self, place: Place) -> Cell:
        """Cell of a cube of the first cover, made when it is first needed."""
        cell = self._made.get((self.divisions, place))
        if cell is None:
            number = 0
            for k in place:
                number = number * self.divisions + k
            order = int(orders(np.array([number]), self._salt)[0])  # by which ties between cells are broken
            cell = self._add(Cell(len(self.cells), self.divisions, place, None, self.log.count, order))
        return cell

    def _enter(self, cell: Cell) -> None:
        cell.number = len(self.cells)
        cell.room = self._room(cell.divisions)
        self.cells.append(cell)
        self._made[cell.divisions, cell.place] = cell
        if cell.parent is None:
            self._untouched.look()

    def _add(self, cell: Cell) -> Cell:
        self._enter(cell)
        self._contest.enter(cell)
        self._renew(cell)
        return cell

    def homes(self, candidate: int) -> list[Cell]:
        """Cells that a candidate is in."""
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
        """The cell, or the children that hold a candidate."""
        if cell.split < 0:
            yield cell
            return
        for place in self.cover.places(2 * cell.divisions, candidate):
            if tuple(k // 2 for k in place) == cell.place:
                yield self._made[2 * cell.divisions, place]

    @property
    def leaves(self) -> Iterable[Cell]:
        """Cells of the present cover that something fell into, or that a split made."""
        return (cell for cell in self.cells if cell.split < 0)

    # ---- observing

    def observe(self, candidate: int, y: float, noise_variance: float, log_term: float) -> None:
        """Take in an observation; cells that hold too many then split. `log_term` is log(N_t / delta) of the round."""
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
        """Put 2^d halves in the place of a cell, each conditioned on the data in its cube alone."""
        cell.split, cell.width = self.log.count, self.width(cell.gain, log_term)
        self._contest.leave(cell)
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

    # ---- asked about

    def width(self, gain: float, log_term: float) -> float:
        """B + R sqrt(2 (g + 1 + log(N_t / delta)))."""
        return self._contest.width(gain, log_term)

    def cells_at(self, point: Floats) -> list[Cell | None]:
        """Cells of the present cover that hold any point (d,); None for a cube that nothing fell into, or can."""
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
        """Distinct points observed in a cell, averages there, and the noise variances of these."""
        return self.log.collapsed([] if cell is None else cell.data)

    def best_queried(self) -> tuple[int, float, float]:
        """Candidate of largest posterior mean among those queried, its mean and std; candidate -1 before the first."""
        none = (-math.inf, -1, 0.0)
        mean, candidate, std = max(self._shard.bests([cell for cell in self.leaves if cell.data]), default=none)
        return candidate, mean, std

    # ---- kept and taken up again

    def state(self) -> State:
        """All that is known, as arrays; posteriors are computed again from the observations when they are needed."""
        self._shard.settle()
        leaf = np.array([self._contest.known(cell) for cell in self.cells])
        known = state_of(self.cells, leaf.reshape(-1, 5))
        return {**self.log.state(), **arrays(last=self._contest.last), **known}

    def restore(self, state: State) -> None:
        """Know what `state` gave; of the same space, kernel and settings."""
        self.log.restore(state)
        self.cells, self._made, self._homes, self._winner = [], {}, {}, None
        self._shard.clear()
        self._contest.clear(float(state["last"]))
        for cell, known in cells_of(state):
            self._enter(cell)
            if cell.split < 0:
                self._contest.enter(cell)
                self._contest.put_back(cell, known)

    # ---- the largest index

    def _renew(self, cell: Cell) -> None:
        """A cell's data changed."""
        cell.summit = None
        if self._shard.level(cell):
            self._contest.level(cell, self._shard.prior_mean, self._shard.prior_std)
        else:
            self._contest.unknown(cell)

    def winner(self, pending: list[int]) -> Winner | None:
        """What `maximize` gave, if nothing was told and the same candidates are pending since."""
        return self._winner if self._asked == pending else None

    def maximize(self, log_term: float, pending: Sequence[int] = ()) -> Winner:
        """Candidate of largest index over all cells.

        Parameters
        ----------
        log_term
            log(N_t / delta) of the round.
        pending
            Candidates whose values are on their way: taken to be the mean (Desautels, Krause & Burdick 2014).
        """
        self._shard.settle()
        if log_term < self._contest.last:  # pending points were given up: the summits are those of larger widths
            for cell in self.leaves:
                self._renew(cell)
        imagined = self._imagine(pending) if pending else {}

        def evaluate(cell: Cell) -> None:
            self._shard.evaluate(cell, imagined.get(cell.number) or self._shard.posterior(cell), log_term)

        free, order = self._untouched.first()
        shard = self._shard
        elsewhere = shard.prior_mean + self.width(0.0, log_term) * shard.prior_std if free >= 0 else -math.inf
        found, index = self._contest.winner(log_term, elsewhere, evaluate)
        if found is not None and (free < 0 or index > elsewhere + TIE_TOLERANCE * abs(index) or found.order < order):
            cell = found
        else:
            cell = self._first_cell(self._place(free))
        if cell.summit is None:
            cell.summit = self._shard.anywhere(cell)
        candidate = cell.summit
        self._forget_pending(imagined)
        self._asked = list(pending)
        self._winner = Winner(candidate, index, cell.gain, self.width(cell.gain, log_term))
        return self._winner

    def _imagine(self, pending: Sequence[int]) -> dict[int, Any]:
        """Posteriors, by cell number, given pending points too."""
        touched: dict[int, list[int]] = {}
        for candidate in pending:
            for cell in self.homes(candidate):
                touched.setdefault(cell.number, []).append(candidate)
        for number in touched:
            self._contest.unknown(self.cells[number])
        return {number: self._shard.build(self.cells[number], among) for number, among in touched.items()}

    def _forget_pending(self, imagined: Iterable[int]) -> None:
        for number in imagined:
            self._renew(self.cells[number])

    def forget_candidates(self, size: int) -> None:
        """Candidates from this number on are no more, or will be others."""
        self._homes = {candidate: cells for candidate, cells in self._homes.items() if candidate < size}
        self._winner = None

    def maximize_among(self, allowed: Indices, log_term: float, pending: Sequence[int] = ()) -> tuple[int, float]:
        """The same among some candidates of a finite space, by looking at each of them."""
        shard = self._shard
        shard.settle()
        imagined = self._imagine(pending)
        groups: dict[int, list[int]] = {}
        for candidate in allowed.tolist():
            for cell in self.homes(candidate):
                groups.setdefault(cell.number, []).append(candidate)
        best: tuple[float, int, int] | None = None
        for number, candidates in groups.items():
            cell = self.cells[number]
            posterior = imagined.get(number) or shard.posterior(cell)
            index, first = shard.best_among(cell, posterior, candidates, log_term)
            best = better(best, (index, cell.order, first))
        self._forget_pending(imagined)
        assert best is not None
        return best[2], best[0]
