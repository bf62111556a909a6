"""The partition: cells with a posterior each, and the contest for the largest index over all of them.

What makes it fast, all of it exact:

- A cube that nothing fell into is no object: its index is the prior's, the same in all of them, and only the first in
  the order of the seeded hash can be played.
- The cells compete for the largest index by what is known of their summits (`contest.py`).
- Posteriors that were not needed for long are dropped and, when they are, computed again (`shard.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors import _numba_cells as numba_cells
from scalable_bandits.posteriors.cell import NO_CAPS, Cell, CellPosterior, cells_of, state_of
from scalable_bandits.posteriors.contest import Contest, better, orders
from scalable_bandits.posteriors.cover import Place, make_cover
from scalable_bandits.posteriors.engine import TIE_TOLERANCE
from scalable_bandits.posteriors.observations import Observations
from scalable_bandits.posteriors.shard import Shard, Told
from scalable_bandits.posteriors.state import State, arrays
from scalable_bandits.posteriors.untouched import Untouched
from scalable_bandits.spaces import FiniteSpace, Indices

_MASK = 2**63 - 1


class Winner(NamedTuple):
    """What is played next."""

    candidate: int
    value: float  # of its index
    gain: float  # information gain (nats) of its cell
    width: float  # of its cell


class Partition:
    """Cells over a finite space, for one policy.

    Parameters
    ----------
    space, kernel, prior_mean
        As in the policy; the prior mean is a number.
    divisions
        Cubes along each side of the first cover.
    room
        From the divisions of a cell to how many observations, plus one, it may hold: with more it splits.
    norm, noise, regularization
        B and R of the width, and the variance that a pending value is taken to have.
    tightening
        Whether children stay under their parent's index.
    salt
        Seed of the hash by which ties are broken.
    """

    def __init__(
        self, space: FiniteSpace, kernel: Kernel, prior_mean: float, divisions: int, room: Callable[[int], float],
        norm: float, noise: float, regularization: float, tightening: bool, salt: int,
    ):  # fmt: skip
        self.space, self.kernel, self.prior_mean, self.divisions = space, kernel, prior_mean, divisions
        self.cover = make_cover(space)
        self._room, self._norm, self._noise, self._tightening = room, norm, noise, tightening
        self._salt, self._pending_noise = np.uint64(salt), np.array([regularization])
        self.cells: list[Cell] = []  # all that were ever made, by number
        self._made: dict[tuple[int, Place], Cell] = {}
        self._homes: dict[int, list[Cell]] = {}  # of a candidate, the cells it is in
        self._told = Told()
        self._shard = Shard(space, kernel, prior_mean, self.cover, self._told)
        self._winner: Winner | None = None  # of the contest at `_asked`
        self._asked: tuple[float, list[int]] = (0.0, [])  # log term and pending candidates
        self._contest = Contest(norm, noise)
        self._begin()

    # ---- the cover

    def _begin(self) -> None:
        """The first cover."""
        places = np.flatnonzero(self.cover.filled(self.divisions).ravel())
        self._untouched = Untouched(places, self._salt, lambda n: (self.divisions, self._place(n)) in self._made)
        sample = self.space.points(np.zeros(1, dtype=np.int64))
        self.prior_std = float(np.sqrt(self.kernel.diagonal(sample)[0]))
        if not self.kernel.stationary:  # the prior differs from point to point: every cube is evaluated
            for number in places.tolist():
                self._first_cell(self._place(number))

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
            cell = self._add(
                Cell(len(self.cells), self.divisions, place, None, self._told.count, self._order_of(number))
            )
        return cell

    def _order_of(self, number: int) -> int:
        """By which ties between cells are broken: a hash of the number, then the number."""
        return int(orders(np.array([number]), self._salt)[0])

    def _enter(self, cell: Cell) -> None:
        cell.room = self._room(cell.divisions)
        self.cells.append(cell)
        self._made[cell.divisions, cell.place] = cell

    def _add(self, cell: Cell) -> Cell:
        self._enter(cell)
        self._contest.enter(cell)
        self._renew(cell)
        return cell

    def homes(self, candidate: int) -> list[Cell]:
        """Cells that a candidate is in."""
        held = self._homes.get(candidate)
        if held is None:
            held = [self._first_cell(place) for place in self.cover.places(self.divisions, candidate)]
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
        number = self._told.add(candidate, y, noise_variance)
        self._winner = None
        for cell in self.homes(candidate):
            posterior = self._shard.observe(cell, candidate, y, noise_variance)
            cell.data.append(number)
            cell.held += 1
            if cell.room < cell.held + 1:
                self._split(cell, log_term)
            else:
                self._contest.evaluate(cell, posterior, log_term, self._salt)

    def _split(self, cell: Cell, log_term: float) -> None:
        """Put 2^d halves in the place of a cell, each conditioned on the data in its cube alone."""
        parent = self._shard.posterior(cell)
        under = self._index(parent, cell, log_term) if self._tightening else None
        cell.split = self._told.count
        self._contest.leave(cell)
        data = np.array(cell.data)
        fell = self._told.candidates[data]
        for half in np.ndindex((2,) * self.cover.dimension):
            place = tuple(2 * k + h for k, h in zip(cell.place, half, strict=True))
            numbers = self.cover.members(2 * cell.divisions, place)
            if not len(numbers):
                continue
            code = int(np.ravel_multi_index(half, (2,) * self.cover.dimension)) + 1
            order = self._order_of((cell.order ^ code) & _MASK)
            child = Cell(len(self.cells), 2 * cell.divisions, place, cell, self._told.count, order)
            child.data = data[numbers.take(numbers.searchsorted(fell), mode="clip") == fell].tolist()
            here = parent.numbers.searchsorted(numbers)
            if under is not None:
                child.caps = under[here]
            child.held = len(child.data)
            if child.data:
                child.gain = self._shard.condition(child, parent.points[here], numbers)
            self._add(child)
        self._shard.forget(cell)
        cell.data, cell.caps = [], NO_CAPS

    # ---- asked about

    def width(self, gain: float, log_term: float) -> float:
        """B + R sqrt(2 (g + 1 + log(N_t / delta)))."""
        return self._contest.width(gain, log_term)

    def cells_at(self, point: Floats) -> list[Cell | None]:
        """Cells of the present cover that hold any point (d,); None for a cube that nothing fell into."""
        found: list[Cell | None] = []
        for place in self.cover.places_at(self.divisions, point):
            cell = self._made.get((self.divisions, place))
            stack = [] if cell is None else [cell]
            found += [None] * (cell is None)
            while stack:
                top = stack.pop()
                if top.split < 0:
                    found.append(top)
                    continue
                below = self.cover.places_at(2 * top.divisions, point)
                halves = [p for p in below if tuple(k // 2 for k in p) == top.place]
                stack += [self._made[2 * top.divisions, p] for p in halves if (2 * top.divisions, p) in self._made]
        return found

    def collapsed(self, data: Sequence[int]) -> tuple[Indices, Floats, Floats]:
        """Distinct points of some observations, their averages and the noise variances of these."""
        observed = Observations()
        for i in data:
            observed.add(*self._told.at(i))
        return observed.collapsed()

    def best_queried(self) -> tuple[int, float, float]:
        """Candidate of largest posterior mean among those queried, its mean and std; candidate -1 before the first."""
        best = (-math.inf, -1, 0.0)
        for cell in self.leaves:
            if cell.data:
                posterior = self._shard.posterior(cell)
                p = max(posterior.distinct.tolist(), key=posterior.mean.item)
                best = max(
                    best, (float(posterior.mean[p]), int(posterior.numbers[p]), float(posterior.variance[p] ** 0.5))
                )
        return best[1], best[0], best[2]

    # ---- kept and taken up again

    def state(self) -> State:
        """All that is known, as arrays; posteriors are computed again from the observations when they are needed."""
        leaf = np.array([self._contest.known(cell) for cell in self.cells])
        known = state_of(self.cells, leaf.reshape(-1, 5))
        return {**self._told.state(), **arrays(last=self._contest.last), **known}

    def restore(self, state: State) -> None:
        """Know what `state` gave; of the same space, kernel and settings."""
        self._told.restore(state)
        self.cells, self._made, self._homes, self._winner = [], {}, {}, None
        self._shard.clear()
        self._contest = Contest(self._norm, self._noise)
        self._contest.last = float(state["last"])
        for cell, known in cells_of(state):
            self._enter(cell)
            if cell.split < 0:
                self._contest.enter(cell)
                self._contest.put_back(cell, known)

    # ---- the largest index

    def _renew(self, cell: Cell) -> None:
        """A cell's data changed."""
        cell.summit = -1
        if cell.data or len(cell.caps) or not self.kernel.stationary:
            self._contest.unknown(cell)
        else:
            self._contest.level(cell, self.prior_mean, self.prior_std)

    def _index(self, posterior: CellPosterior, cell: Cell, log_term: float) -> Floats:
        """Index of a cell's candidates, (n,)."""
        index = posterior.mean + self.width(cell.gain, log_term) * np.sqrt(posterior.variance)
        return np.minimum(index, cell.caps) if len(cell.caps) else index

    def maximize(self, log_term: float, pending: Sequence[int] = ()) -> Winner:
        """Candidate of largest index over all cells.

        Parameters
        ----------
        log_term
            log(N_t / delta) of the round.
        pending
            Candidates whose values are on their way: taken to be the mean (Desautels, Krause & Burdick 2014).
        """
        if self._winner is not None and self._asked == (log_term, pending):
            return self._winner
        if log_term < self._contest.last:  # pending points were given up: the summits are those of larger widths
            for cell in self.leaves:
                self._renew(cell)
        imagined = self._imagine(pending) if pending else {}

        def evaluate(cell: Cell) -> None:
            self._contest.evaluate(cell, imagined.get(cell.number) or self._shard.posterior(cell), log_term, self._salt)

        free, order = self._untouched.first()
        elsewhere = self.prior_mean + self.width(0.0, log_term) * self.prior_std if free >= 0 else -math.inf
        found, index = self._contest.winner(log_term, elsewhere, evaluate)
        if found is not None and (free < 0 or index > elsewhere + TIE_TOLERANCE * abs(index) or found.order < order):
            cell = found
        else:
            cell = self._first_cell(self._place(free))
        candidate = cell.summit if cell.summit >= 0 else self._first_of(cell)
        self._forget_pending(imagined)
        self._asked = log_term, list(pending)
        self._winner = Winner(candidate, index, cell.gain, self.width(cell.gain, log_term))
        return self._winner

    def _imagine(self, pending: Sequence[int]) -> dict[int, CellPosterior]:
        """Posteriors, by cell number, given pending points too."""
        touched: dict[int, list[int]] = {}
        for candidate in pending:
            for cell in self.homes(candidate):
                touched.setdefault(cell.number, []).append(candidate)
        imagined = {}
        for number, candidates in touched.items():
            cell = self.cells[number]
            copy = self._shard.build(cell)
            for p in map(copy.position, candidates):
                copy.observe([p], copy.mean[[p]], self._pending_noise)
            imagined[number] = copy
            self._contest.unknown(cell)
        return imagined

    def _forget_pending(self, imagined: dict[int, CellPosterior]) -> None:
        for number in imagined:
            self._renew(self.cells[number])

    def _first_of(self, cell: Cell) -> int:
        """The candidate that is played in a cell without data, where all are tied."""
        numbers = self.cover.members(cell.divisions, cell.place)
        cell.summit = int(numbers[numba_cells.first_by_hash(numbers, self._salt)])
        return cell.summit

    def maximize_among(self, allowed: Indices, log_term: float, pending: Sequence[int] = ()) -> tuple[int, float]:
        """The same among some candidates, by looking at each of them."""
        imagined = self._imagine(pending)
        groups: dict[int, list[int]] = {}
        for candidate in allowed.tolist():
            for cell in self.homes(candidate):
                groups.setdefault(cell.number, []).append(candidate)
        best: tuple[float, int, int] | None = None
        for number, candidates in groups.items():
            cell = self.cells[number]
            posterior = imagined.get(number) or self._shard.posterior(cell)
            index = self._index(posterior, cell, log_term)[np.searchsorted(posterior.numbers, candidates)]
            floor = index.max() - TIE_TOLERANCE * abs(index.max())
            tied = np.array(candidates)[index >= floor]
            first = int(tied[numba_cells.first_by_hash(tied, self._salt)])
            best = better(best, (float(index.max()), cell.order, first))
        self._forget_pending(imagined)
        assert best is not None
        return best[2], best[0]
