"""Partition of a space: cells with a posterior each, and the largest index over all of them.

The words of this folder:

    cube           cube of the space, which is mapped to [0, 1]^d; in few dimensions a point on a shared face is in
                   several cubes (`cover.py`)
    divisions      number of cubes along each side of the space; the side of a cube is 1 / divisions
    place          position of a cube among those of its size: d integers from 0 to divisions - 1
    cover          cubes that together are the space
    first cover    cover at the start, by cubes of one size
    cell           cube with the observations in it and a posterior given these alone; made when a point falls into it
    filled cube    cube that holds a candidate; others are of no concern
    empty cube     filled cube without observations; its index is that of the prior
    group          empty cubes of the first cover, or of a split
    split          replacement of a cell by its children, the filled ones of the 2^d cubes of half its side
    threshold      number side^(-1 / b): a cell splits when its number of observations plus one exceeds it
    present cover  cover by the cells that have not split and the empty cubes
    index          mean + width std, which is maximised over all candidates of all cells
    width          B + R sqrt(2 (g + 1 + log term)), g the cell's information gain
    log term       log(N_t / delta) of the round
    parent index   with tightening: the parent's index at a cell's candidates when it split, which bounds the cell's.
                   Every child is a cell then; in many dimensions a group is bounded by the parent's largest index
    maximizer      candidate of largest index in a cell; on a box a point (d,)
    winner         maximizer of largest index over all cells, which is played next
    seeded hash    random rank of a cell or group: of those whose indices tie, the one of smallest hash is chosen
    tree           tree of maxima: upper bounds of the cells' indices, and above them the largest bound of each branch
    slot           number of a cell or group in the tree
    leaf           the five numbers of its upper bound there (columns in `_numba_cells.py`)
    kept posterior one of those used last; others are computed again from the observations
    loop cells     cells whose arrays the compiled loop can reach by their addresses (`argmax_tree.py`)
    pending        state of a candidate that was asked for and not observed yet
    shard          posteriors of some cells, held by an executor (`remote_cells.py`)

What makes it fast, all of it exact:

- Empty cubes are no objects: the index is the same in all of them, so that a group of them is one leaf of the tree
  (`empty_cubes.py`). A split costs what the observations in it cost, whatever the dimension.
- The tree finds the cell of largest index without computing the indices of all cells (`argmax_tree.py`).
- Posteriors that were not used for long are dropped, and computed again when they are needed (`cell_posteriors.py`).
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits._numba_compile import plain
from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.partition import _numba_cells as numba_cells
from scalable_bandits.posteriors.partition.argmax_tree import better
from scalable_bandits.posteriors.partition.cell import NO_PARENT_INDEX, Cell, cells_from_state, state_of_cells
from scalable_bandits.posteriors.partition.cell_posteriors import CellPosteriors
from scalable_bandits.posteriors.partition.cover import FiniteCover, Place
from scalable_bandits.posteriors.partition.empty_cubes import EmptyCubes, cube_hashes
from scalable_bandits.posteriors.state import State, Stateful, group, member, value
from scalable_bandits.spaces import Indices

_splits = plain(numba_cells.splits)  # not compiled: one call a round


class Cube(NamedTuple):
    """Cube of the present cover."""

    parent: Cell | None  # cell whose split made it; None for a cube of the first cover
    place: Place
    cell: Cell | None  # its cell; None if none was made


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
        self._groups: dict[int, EmptyCubes] = {}  # keys: numbers of the cells that split, -1 for the first cover
        self._winner: Winner | None = None  # result of the last `argmax`
        self._winner_pending: list[int] = []  # candidates that were pending at the last `argmax`
        self._begin()

    # ---- the cover

    def _begin(self) -> None:
        """Begin with the first cover."""
        if self._groups_cubes(None):
            self._group(None)
        else:
            for cell in self._made(None, self.cover.filled(self.divisions).places()):
                self._add(cell)

    def _groups_cubes(self, parent: Cell | None) -> bool:
        """Return whether empty cubes of the first cover, or of a cell that split, have one index and are a group."""
        bounded = self._tightening and parent is not None and self.cover.lists_cubes
        return self.posteriors.kernel.stationary and not bounded

    def _group(self, parent: Cell | None) -> None:
        """Make the group of the empty cubes of the first cover, or of a cell that split."""
        side = self.divisions if parent is None else 2 * parent.divisions
        group = EmptyCubes(self.cover, parent, side, self._salt)
        if parent is not None and len(parent.parent_index):
            group.cap = float(parent.parent_index[0])
        self._groups[-1 if parent is None else parent.number] = group
        self._update_group(group)

    def _update_group(self, group: EmptyCubes) -> None:
        """Find the first cube of a group again, because a cell was made or points are pending or not any more."""
        group.find_first(lambda place: self._cell_of_cube.get((group.divisions, place)), self.posteriors.pending)
        if group.place is None:
            if group.slot >= 0:
                self._tree.remove(group)
        elif group.slot >= 0:
            self._tree.set_hash(group)
        else:
            self._tree.add(group)
            self._set_group_index(group)

    def _set_group_index(self, group: EmptyCubes) -> None:
        """Set the index of a group to that of the prior, which is valid until it reaches the upper bound."""
        mean, std = self.posteriors.prior_mean, self.posteriors.prior_std
        self._tree.set_maximum(group, mean, std, (group.cap - mean) / std, 0.0)

    @property
    def empty_cubes(self) -> int:
        """Number of empty cubes of the present cover."""
        self.posteriors.flush()
        grouped = sum(group.count - group.taken for group in self._groups.values())
        return grouped + sum(not (cell.count or self._groups_cubes(cell.parent)) for cell in self.cells)

    def _made(self, parent: Cell | None, places: Sequence[Place]) -> list[Cell]:
        """Return new cells of cubes of the first cover, or of those in a cell that split; the caller adds them."""
        side = self.divisions if parent is None else 2 * parent.divisions
        hashes = cube_hashes(self.cover, parent, side, places, self._salt).tolist()
        return [
            Cell(-1, side, place, parent, self.log.count, seeded_hash)
            for place, seeded_hash in zip(places, hashes, strict=True)
        ]

    def _cap(self, cell: Cell) -> None:
        """Bound the index of a cell as that of the group of empty cubes is bounded from which it comes."""
        if cell.parent is not None and len(cell.parent.parent_index):
            count = 1  # on a finite space, one number for each candidate
            if isinstance(self.cover, FiniteCover) and not self.cover.visited:
                count = len(self.cover.members(cell.divisions, cell.place))
            cell.parent_index = np.full(count, cell.parent.parent_index[0])

    def _register(self, cell: Cell) -> None:
        """Give a cell its number and threshold, and find it by its cube from now on."""
        cell.number = len(self.cells)
        cell.split_threshold = self._split_threshold(cell.divisions)
        self.cells.append(cell)
        self._cell_of_cube[cell.divisions, cell.place] = cell

    def _add(self, cell: Cell) -> Cell:
        """Register a new cell, and add it to the tree."""
        self._cap(cell)
        self._register(cell)
        self._tree.add(cell)
        self._reset_maximizer(cell)
        return cell

    def cells_holding(self, candidate: int) -> list[Cell]:
        """Return the cells of the present cover that hold a candidate, made if they are empty cubes."""
        cells = self._cells_holding.get(candidate)
        if cells is not None:
            for cell in cells:  # a loop, since this is called in every round and `any` takes longer
                if cell.split >= 0:
                    break
            else:
                return cells
        cells = self._cells_holding[candidate] = [
            self._add(*self._made(parent, [place])) if cell is None else cell
            for parent, place, cell in self._cubes_holding(candidate)
        ]
        return cells

    def _cubes_holding(self, candidate: int) -> Iterator[Cube]:
        """Yield the cubes of the present cover that hold a candidate; see `_present`."""
        known = self._cells_holding.get(candidate)
        places = functools.partial(self.cover.places, candidate=candidate)
        return self._present(None, places) if known is None else self._below(known, places)

    def _below(self, cells: Iterable[Cell], places: Callable[[int], list[Place]]) -> Iterator[Cube]:
        """Yield what `_present` yields, from some cells that hold the point on."""
        for cell in cells:
            if cell.split < 0:
                yield Cube(cell.parent, cell.place, cell)
            else:
                yield from self._present(cell, places)

    def _present(self, parent: Cell | None, places: Callable[[int], list[Place]]) -> Iterator[Cube]:
        """Yield the cubes of the present cover that hold a point, of all or of those in a cell that split.

        `places` returns the places of the cubes that hold the point, by divisions.
        """
        side = self.divisions if parent is None else 2 * parent.divisions
        for place in places(side):
            if parent is None or tuple(k // 2 for k in place) == parent.place:
                cell = self._cell_of_cube.get((side, place))
                if cell is None:
                    yield Cube(parent, place, None)
                else:
                    yield from self._below([cell], places)

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
            if cell.count == 1:
                self._take(cell)
            if will_split:
                self._split(cell, log_term)

    def _take(self, cell: Cell) -> None:
        """Take the cube of a cell with a first observation from the group of empty cubes that it was in."""
        group = self._group_of(cell)
        if group is not None:
            group.taken += 1
            if group.place == cell.place:
                self._update_group(group)

    def _group_of(self, cell: Cell) -> EmptyCubes | None:
        """Return the group of empty cubes that the cube of a cell is in, or was."""
        return self._groups.get(-1 if cell.parent is None else cell.parent.number)

    def _split(self, cell: Cell, log_term: float) -> None:
        """Replace a cell by cubes of half its side, of which those with observations are cells at once."""
        cell.split, cell.width = self.log.count, self.width(cell.gain, log_term)
        self._tree.remove(cell)
        grouped, data = self._groups_cubes(cell), self._data_in_halves(cell)
        filled = sorted(data) if grouped else self.cover.filled(2 * cell.divisions, cell.place).places()
        children = self._made(cell, filled)
        for child in children:
            child.data = data.get(child.place, [])
            child.count = len(child.data)
        if self._tightening:
            index = self.posteriors.last_index(cell, log_term)
            cell.parent_index = index.max(keepdims=True) if grouped else NO_PARENT_INDEX
            if not grouped:
                self._bound(cell, children, index)
        self.posteriors.drop(cell)
        self.posteriors.build_and_keep_all([child for child in children if child.data])
        for child in children:
            self._add(child)
        cell.data = []
        if grouped:
            self._group(cell)
            self._groups[cell.number].taken = len(children)

    def _data_in_halves(self, cell: Cell) -> dict[Place, list[int]]:
        """Return the observations of a cell that splits, by the places of the cubes of half its side."""
        numbers = np.array(cell.data)
        distinct, which = np.unique(self.log.candidates[numbers], return_inverse=True)
        places = self.cover.places_of(2 * cell.divisions, distinct)
        for k, each in enumerate(places):
            if len(each) > 1:  # on a face between closed cubes, some of which may be outside of the cell
                places[k] = [place for place in each if tuple(i // 2 for i in place) == cell.place]
        data: dict[Place, list[int]] = {}
        for number, k in zip(cell.data, which.tolist(), strict=True):
            for place in places[k]:
                data.setdefault(place, []).append(number)
        return data

    def _bound(self, cell: Cell, children: Sequence[Cell], index: Floats) -> None:
        """Make the last index of a cell, (n,) at its candidates, an upper bound of its children's; not on a box."""
        if not self.cover.visited:
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
        present = self._present(None, lambda divisions: self.cover.places_at(divisions, point))
        return [cell for _, _, cell in present]

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
                if self._stands_alone(cell):
                    self._tree.set_leaf(cell, leaf)
                else:
                    self._tree.set_absent(cell)
        self._groups = {}
        for parent in (None, *(cell for cell in self.cells if cell.split >= 0)):
            if self._groups_cubes(parent):
                self._group(parent)
        for cell in self.cells:
            if cell.count and (group := self._group_of(cell)) is not None:
                group.taken += 1

    STATE = (
        member("log", prefix=False),
        value("last", "()", np.float64, lambda own: own._tree.last, lambda own, last: own._tree.clear(float(last))),
        group("", _state_of_cells, _restore_cells),
    )

    # ---- the largest index

    def _stands_alone(self, cell: Cell) -> bool:
        """Return whether a cell has a leaf of its own; a cube without observations may be in a group instead."""
        return cell.count > 0 or not self._groups_cubes(cell.parent)

    def _reset_maximizer(self, cell: Cell) -> None:
        """Discard a cell's maximizer, because its observations or those taken as pending changed."""
        cell.maximizer = None
        if self._stands_alone(cell):
            self._tree.set_unknown(cell)
        else:
            self._tree.set_absent(cell)

    def _evaluate(self, leaf: Cell | EmptyCubes, log_term: float) -> None:
        """Set the leaf of a cell, or of a group whose index has reached its upper bound, at a log term."""
        if isinstance(leaf, Cell):
            self.posteriors.evaluate(leaf, log_term)
        else:
            self._tree.set_maximum(leaf, leaf.cap, 0.0, math.inf, 0.0)

    def _maximizer(self, leaf: Cell | EmptyCubes, log_term: float) -> Any:
        """Return the candidate that is played if the index of a cell, or of a group, is largest."""
        if isinstance(leaf, EmptyCubes):
            return self.posteriors.tied_maximizer(leaf)
        return self.posteriors.maximizer(leaf, log_term) if leaf.maximizer is None else leaf.maximizer

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
            for group in self._groups.values():
                if group.slot >= 0:
                    self._set_group_index(group)
        with self._given(pending):
            leaf, index = self._tree.find_largest(log_term, self._evaluate)
            candidate = self._maximizer(leaf, log_term)
        self._winner_pending = list(pending)
        self._winner = Winner(candidate, index, leaf.gain, self.width(leaf.gain, log_term))
        return self._winner

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
        cells = [self.cells[number] for number in touched]
        groups = {id(group): group for cell in cells if not cell.count and (group := self._group_of(cell)) is not None}
        for cell in cells:
            self._tree.set_unknown(cell)
        self.posteriors.pending = touched
        for group in groups.values():
            self._update_group(group)
        try:
            yield
        finally:
            self.posteriors.pending = {}
            for cell in cells:
                self._reset_maximizer(cell)
            for group in groups.values():
                self._update_group(group)

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
