"""Partition of a space: cells with a posterior each, and the largest index over all of them.

The words of this folder:

    cube           closed cube of the space, which is mapped to [0, 1]^d; a point on a shared face is in several cubes
    divisions      number of cubes along each side of the space; the side of a cube is 1 / divisions
    place          position of a cube among those of its size: d integers from 0 to divisions - 1
    cover          cubes that together are the space
    first cover    cover at the start, by cubes of one size
    cell           cube with the observations in it and a posterior given these alone; it may have none yet
    filled cube    cube that holds a candidate; others are of no concern
    empty cube     filled cube of the first cover of which no cell was made yet; its index is that of the prior
    split          replacement of a cell by its children, the filled ones of the 2^d cubes of half its side
    threshold      number side^(-1 / b): a cell splits when its number of observations plus one exceeds it
    present cover  cover by the cells that have not split and the empty cubes
    index          mean + width std, which is maximised over all candidates of all cells
    width          B + R sqrt(2 (g + 1 + log term)), g the cell's information gain
    log term       log(N_t / delta) of the round
    parent index   with tightening: the parent's index at a cell's candidates when it split, which bounds the cell's own
    maximizer      candidate of largest index in a cell; on a box a point (d,)
    winner         maximizer of largest index over all cells, which is played next
    seeded hash    random rank of a cell or empty cube: of those whose indices tie, the one of smallest hash is chosen
    tree           tree of maxima: upper bounds of the cells' indices, and above them the largest bound of each branch
    slot           number of a cell in the tree
    leaf           the five numbers of its upper bound there (columns in `_numba_cells.py`)
    kept posterior one of those used last; others are computed again from the observations
    loop cells     cells whose arrays the compiled loop can reach by their addresses (`argmax_tree.py`)
    pending        state of a candidate that was asked for and not observed yet
    shard          posteriors of some cells, held by an executor (`remote_cells.py`)

What makes it fast, all of it exact:

- An empty cube is no object: the index is the same in all of them, so that only the one of smallest seeded hash can be
  chosen.
- The tree finds the cell of largest index without computing the indices of all cells (`argmax_tree.py`).
- Posteriors that were not used for long are dropped, and computed again when they are needed (`cell_posteriors.py`).
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits._numba_compile import plain
from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.engine import TIE_TOLERANCE
from scalable_bandits.posteriors.partition import _numba_cells as numba_cells
from scalable_bandits.posteriors.partition.argmax_tree import better, seeded_hashes
from scalable_bandits.posteriors.partition.cell import NO_PARENT_INDEX, Cell, cells_from_state, state_of_cells
from scalable_bandits.posteriors.partition.cell_posteriors import CellPosteriors
from scalable_bandits.posteriors.partition.cover import FiniteCover, Place
from scalable_bandits.posteriors.state import State, Stateful, group, member, value
from scalable_bandits.spaces import Indices

_splits = plain(numba_cells.splits)  # not compiled: one call a round
_LAST_63_BITS = 2**63 - 1  # the numbers that are hashed are signed 64-bit integers


class Winner(NamedTuple):
    """Candidate of largest index over all cells, which is played next."""

    candidate: Any  # number of the candidate, or point of a box
    value: float  # its index
    gain: float  # information gain of the candidate's cell, in nats
    width: float  # confidence width of the candidate's cell


class Partition(Stateful):
    """Cells over a space, for one policy.

    Parameters
    ----------
    posteriors
        Posteriors of the cells, with the cover, the log of the observations and the tree of maxima.
    divisions
        Number of cubes along each side of the first cover.
    split_threshold
        Function from the divisions of a cell to its split threshold.
    tightening
        Whether the index of a cell is bounded by its parent's index when that split.
    salt
        Seed of the seeded hashes.

    Attributes
    ----------
    posteriors : CellPosteriors
        Posteriors of the cells.
    """

    def __init__(
        self, posteriors: CellPosteriors[Any], divisions: int, split_threshold: Callable[[int], float],
        tightening: bool, salt: int,
    ):  # fmt: skip
        self.posteriors, self.divisions = posteriors, divisions
        self.cover, self.log, self._tree = posteriors.cover, posteriors.log, posteriors.tree
        self._split_threshold, self._tightening, self._salt = split_threshold, tightening, np.uint64(salt)
        self.cells: list[Cell] = []  # all cells ever made, by number, with those that have split
        self._cell_of_cube: dict[tuple[int, Place], Cell] = {}  # keys: divisions and place
        self._cells_holding: dict[int, list[Cell]] = {}  # keys: candidates; cells may have split since then
        self._winner: Winner | None = None  # result of the last `argmax`
        self._winner_pending: list[int] = []  # candidates that were pending at the last `argmax`
        self._begin()

    # ---- the cover

    def _begin(self) -> None:
        """Begin with the first cover."""
        filled = self.cover.filled(self.divisions)
        hashes = seeded_hashes(np.flatnonzero(filled), self._salt)
        ranked = np.argsort(hashes, kind="stable")
        # Cubes that hold a candidate and their seeded hashes, in the order of these; those before `_next` are cells.
        self._cubes, self._hashes, self._next = np.argwhere(filled)[ranked], hashes[ranked], 0
        if not self.posteriors.kernel.stationary:  # the prior differs from point to point: every cube is evaluated
            for place in np.argwhere(filled).tolist():
                self._first_cell(tuple(place))

    def _first_empty(self) -> tuple[Place | None, int]:
        """Return place and seeded hash of the empty cube of smallest hash; None and 0 without one."""
        while self._next < len(self._cubes):
            place = tuple(self._cubes[self._next].tolist())
            if (self.divisions, place) not in self._cell_of_cube:
                return place, int(self._hashes[self._next])
            self._next += 1
        return None, 0

    def _first_cell(self, place: Place) -> Cell:
        """Return the cell of a cube of the first cover, made when it is first needed."""
        cell = self._cell_of_cube.get((self.divisions, place))
        if cell is None:
            number = np.ravel_multi_index(place, (self.divisions,) * len(place))
            seeded_hash = int(seeded_hashes(np.array([number]), self._salt)[0])
            cell = self._add(Cell(len(self.cells), self.divisions, place, None, self.log.count, seeded_hash))
        return cell

    def _register(self, cell: Cell) -> None:
        """Give a cell its number and threshold, and find it by its cube from now on."""
        cell.number = len(self.cells)
        cell.split_threshold = self._split_threshold(cell.divisions)
        self.cells.append(cell)
        self._cell_of_cube[cell.divisions, cell.place] = cell

    def _add(self, cell: Cell) -> Cell:
        """Register a new cell, and add it to the tree."""
        self._register(cell)
        self._tree.add(cell)
        self._reset_maximizer(cell)
        return cell

    def cells_holding(self, candidate: int) -> list[Cell]:
        """Return the cells of the present cover that hold a candidate, made if they are empty cubes."""
        cells = self._cells_holding.get(candidate)
        if cells is None:
            made, side = self._cell_of_cube, self.divisions
            cells = [made.get((side, place)) or self._first_cell(place) for place in self.cover.places(side, candidate)]
            self._cells_holding[candidate] = cells
        for cell in cells:  # a loop, since this is called in every round and `any` takes longer
            if cell.split >= 0:
                break
        else:
            return cells
        present = self._present(cells, lambda divisions: self.cover.places(divisions, candidate))
        cells = self._cells_holding[candidate] = [cell for cell in present if cell is not None]
        return cells

    def _present(self, cells: Iterable[Cell | None], places: Callable[[int], list[Place]]) -> Iterator[Cell | None]:
        """Yield cells that hold a point; in the place of one that has split, those of the present cover below it.

        `places` returns the places of the cubes that hold the point, by divisions. None stands for an empty cube.
        """
        for cell in cells:
            if cell is None or cell.split < 0:
                yield cell
            else:
                side = 2 * cell.divisions
                inside = [place for place in places(side) if tuple(k // 2 for k in place) == cell.place]
                yield from self._present([self._cell_of_cube.get((side, place)) for place in inside], places)

    @property
    def present_cells(self) -> Iterable[Cell]:
        """Cells of the present cover, without its empty cubes."""
        return (cell for cell in self.cells if cell.split < 0)

    # ---- observing

    def observe(self, candidate: int, y: float, noise_variance: float, log_term: float) -> None:
        """Add an observation and split the cells above their threshold; `log_term` is log(N_t / delta) of the round."""
        number = self.log.add(candidate, y, noise_variance)
        self._winner = None
        for cell in self.cells_holding(candidate):
            will_split = _splits(cell.count, cell.split_threshold)
            # Without a log term the maximizer is not updated: the posterior of a cell that splits is dropped.
            self.posteriors.observe(cell, candidate, y, noise_variance, None if will_split else log_term)
            cell.data.append(number)
            cell.count += 1
            if will_split:
                self._split(cell, log_term)

    def _split(self, cell: Cell, log_term: float) -> None:
        """Replace a cell by 2^d cells of half its side, each conditioned on the observations in its cube alone."""
        cell.split, cell.width = self.log.count, self.width(cell.gain, log_term)
        self._tree.remove(cell)
        places, side = list(itertools.product(*((2 * k, 2 * k + 1) for k in cell.place))), 2 * cell.divisions
        # A child's hash follows from its parent's, so that it does not depend on the order of splits.
        codes = [(cell.seeded_hash ^ k) & _LAST_63_BITS for k in range(1, len(places) + 1)]
        children = [
            Cell(-1, side, place, cell, self.log.count, seeded_hash)
            for place, seeded_hash in zip(places, seeded_hashes(np.array(codes), self._salt).tolist(), strict=True)
            if self.cover.is_filled(side, place)
        ]
        data = np.array(cell.data)
        for child in children:
            child.data = data[self.cover.holds(side, child.place, self.log.candidates[data])].tolist()
            child.count = len(child.data)
        if self._tightening:
            self._bound(cell, children, self.posteriors.last_index(cell, log_term))
        self.posteriors.drop(cell)
        self.posteriors.build_and_keep_all([child for child in children if child.data])
        for child in children:
            self._add(child)
        cell.data, cell.parent_index = [], NO_PARENT_INDEX

    def _bound(self, cell: Cell, children: Sequence[Cell], index: Floats | None) -> None:
        """Make the last index of a cell, (n,) at its candidates, an upper bound of its children's; None on a box."""
        if index is not None:
            assert isinstance(self.cover, FiniteCover)
            numbers = self.cover.members(cell.divisions, cell.place)
            for child in children:
                here = numbers.searchsorted(self.cover.members(child.divisions, child.place))
                child.parent_index = index[here]

    # ---- queries

    def width(self, gain: float, log_term: float) -> float:
        """Return the width B + R sqrt(2 (g + 1 + log(N_t / delta)))."""
        return self._tree.width(gain, log_term)

    def cells_at(self, point: Floats) -> list[Cell | None]:
        """Return the cells of the present cover that hold a point (d,); None for an empty cube."""
        self.posteriors.flush()
        made, side, places_at = self._cell_of_cube, self.divisions, self.cover.places_at
        first = [made.get((side, place)) for place in places_at(side, point)]
        return list(self._present(first, lambda divisions: places_at(divisions, point)))

    def best_queried(self) -> tuple[int, float, float]:
        """Return the observed candidate of largest posterior mean, its mean and std; candidate -1 without any."""
        none = (-math.inf, -1, 0.0)
        observed = [cell for cell in self.present_cells if cell.data]
        mean, candidate, std = max(self.posteriors.bests(observed), default=none)
        return candidate, mean, std

    # ---- state; the posteriors follow from the observations

    def _state_of_cells(self) -> State:
        self.posteriors.flush()
        leaves = np.array([self._tree.leaf(cell) for cell in self.cells])
        return state_of_cells(self.cells, leaves.reshape(-1, 5))

    def _restore_cells(self, state: State) -> None:
        self.cells, self._cell_of_cube, self._cells_holding, self._winner = [], {}, {}, None
        self.posteriors.clear()
        for cell, leaf in cells_from_state(state):
            self._register(cell)
            if cell.split < 0:
                self._tree.add(cell)
                self._tree.set_leaf(cell, leaf)

    STATE = (
        member("log", prefix=False),
        value("last", "()", np.float64, lambda own: own._tree.last, lambda own, last: own._tree.clear(float(last))),
        group("", _state_of_cells, _restore_cells),
    )

    # ---- the largest index

    def _reset_maximizer(self, cell: Cell) -> None:
        """Discard a cell's maximizer, because its observations or those taken as pending changed."""
        cell.maximizer = None
        if self.posteriors.has_constant_index(cell):
            std = self.posteriors.prior_std
            self._tree.set_maximum(cell, self.posteriors.prior_mean, std, math.inf, std)
        else:
            self._tree.set_unknown(cell)

    def last_winner(self, pending: list[int]) -> Winner | None:
        """Return the result of the last `argmax`; None after an observation, or if other candidates are pending."""
        return self._winner if self._winner_pending == pending else None

    def argmax(self, log_term: float, pending: Sequence[int] = ()) -> Winner:
        """Find the candidate of largest index over all cells.

        Parameters
        ----------
        log_term
            log(N_t / delta) of the round.
        pending
            Pending candidates, whose values are taken to be the means (Desautels, Krause & Burdick 2014).
        """
        self.posteriors.flush()
        if log_term < self._tree.last:  # points were abandoned: the maximizers are those of larger widths
            for cell in self.present_cells:
                self._reset_maximizer(cell)
        with self._given(pending):
            cell, index = self._find_cell(log_term)
            candidate = cell.maximizer
        self._winner_pending = list(pending)
        self._winner = Winner(candidate, index, cell.gain, self.width(cell.gain, log_term))
        return self._winner

    def _find_cell(self, log_term: float) -> tuple[Cell, float]:
        """Find the cell of largest index, with a maximizer, and the index."""
        posteriors = self.posteriors
        empty_cube, empty_hash = self._first_empty()
        empty_index = -math.inf
        if empty_cube is not None:
            empty_index = posteriors.prior_mean + self.width(0.0, log_term) * posteriors.prior_std
        cell, index = self._tree.find_largest(log_term, empty_index, posteriors.evaluate)
        larger = empty_cube is None or index > empty_index + TIE_TOLERANCE * abs(index)
        if cell is None or not (larger or cell.seeded_hash < empty_hash):
            assert empty_cube is not None  # no cell reaches the index of the empty cubes
            cell = self._first_cell(empty_cube)
        if cell.maximizer is None:
            cell.maximizer = posteriors.tied_maximizer(cell)
        return cell, index

    def copied(self, owner: Any) -> Partition:
        """Return a copy in which `argmax` changes nothing here; the posteriors and the observations are shared.

        Parameters
        ----------
        owner
            Object that is not copied, because the partition calls one of its methods.
        """
        in_memory = [cell.posterior for cell in self.cells if cell.posterior is not None]
        shared = (owner, self.cover, self.log, self.posteriors.kernel, *in_memory, *(cell.data for cell in self.cells))
        return copy.deepcopy(self, {id(each): each for each in shared})

    @contextlib.contextmanager
    def _given(self, pending: Sequence[int]) -> Iterator[None]:
        """Have the cells that hold pending candidates evaluated given these too, while the context lasts."""
        touched: dict[int, list[int]] = {}
        for candidate in pending:
            for cell in self.cells_holding(candidate):
                touched.setdefault(cell.number, []).append(candidate)
        for number in touched:
            self._tree.set_unknown(self.cells[number])
        self.posteriors.pending = touched
        try:
            yield
        finally:
            self.posteriors.pending = {}
            for number in touched:
                self._reset_maximizer(self.cells[number])

    def forget_candidates(self, size: int) -> None:
        """Forget the candidates of numbers from `size` on: the numbers are free for other points."""
        self._cells_holding = {candidate: cells for candidate, cells in self._cells_holding.items() if candidate < size}
        self._winner = None

    def maximize_among(self, allowed: Indices, log_term: float, pending: Sequence[int] = ()) -> tuple[int, float]:
        """Find the largest index among some candidates (k,) of a finite space; return the candidate and the index."""
        self.posteriors.flush()
        groups: dict[int, list[int]] = {}
        for candidate in allowed.tolist():
            for cell in self.cells_holding(candidate):
                groups.setdefault(cell.number, []).append(candidate)
        best: tuple[float, int, int] | None = None
        with self._given(pending):
            for number, candidates in groups.items():
                cell = self.cells[number]
                index, candidate = self.posteriors.best_among(cell, candidates, log_term)
                best = better(best, (index, cell.seeded_hash, candidate))
        assert best is not None
        return best[2], best[0]
