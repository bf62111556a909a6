"""Cell of a partition: a cube, the observations in it, and its posterior while that is in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.partition import _numba_cells as numba_cells
from scalable_bandits.posteriors.partition.cover import Place
from scalable_bandits.posteriors.state import State, arrays
from scalable_bandits.spaces import Indices

NO_CAPS = np.empty(0)


class Cell:
    """Cube of the partition with its observations.

    Attributes
    ----------
    number : int
        Number of the cell, in the order of creation.
    divisions, place
        Cube: its side is one over `divisions`, its place d integers.
    parent : Cell or None
        Cell whose split made this one.
    born, split : int
        Number of observations of the partition when the cell was made, and when it split (-1: it has not).
    order : int
        Seeded hash by which ties between cells are broken.
    data : list of int
        Numbers of the observations in the cell; emptied by a split.
    held : int
        Number of observations in the cell, before a split.
    room : float
        Bound on `held` plus one; the cell splits when it is exceeded.
    gain : float
        Realised information gain in the cell, in nats.
    width : float
        Confidence width when it split.
    caps : ndarray
        (n,) upper bounds of the candidates' indices; empty without tightening.
    slot : int
        Leaf of the tree of maxima (`argmax_tree.py`); -1 after a split.
    summit
        Candidate of largest index, or a point (d,) of a box, as last computed; None if unknown.
    posterior
        Posterior of the cell while it is in memory, else None.
    """

    __slots__ = (
        "born", "caps", "data", "divisions", "gain", "held", "number", "order", "parent", "place", "posterior",
        "room", "slot", "split", "summit", "width",
    )  # fmt: skip

    def __init__(self, number: int, divisions: int, place: Place, parent: Cell | None, born: int, order: int):
        self.number, self.divisions, self.place, self.parent = number, divisions, place, parent
        self.born, self.split, self.order = born, -1, order
        self.data: list[int] = []
        self.held = 0
        self.room = np.inf
        self.gain = 0.0
        self.caps = NO_CAPS
        self.slot = -1
        self.width = 0.0
        self.summit: Any = None
        self.posterior: Any = None

    @property
    def depth(self) -> int:
        """Number of splits that led to the cell."""
        return 0 if self.parent is None else self.parent.depth + 1


class CellPosterior:
    """Exact posterior of a cell's candidates, by recursive updates in a window that is never folded (`window.py`).

    Parameters
    ----------
    kernel
        Prior covariance.
    points
        (n, d) candidates in the cell.
    numbers
        (n,) numbers of the candidates, ascending.
    prior_mean
        Prior mean, in units of y.

    Attributes
    ----------
    fields : ndarray
        (3, n) posterior mean, variance, and covariance with the point observed last.
    nbytes : int
        Memory used, approximately.
    """

    def __init__(self, kernel: Kernel, points: Floats, numbers: Indices, prior_mean: float):
        self.kernel, self.points, self.numbers = kernel, points, numbers
        self.fields = np.empty((3, len(numbers)))
        self.fields[0], self.fields[1] = prior_mean, kernel.diagonal(points)
        self._slots: dict[int, int] = {}  # from a position observed to its row
        self._rank = 0  # number of rows
        room = _capacity(len(numbers))
        self._rows, self._small = np.empty((room, len(numbers))), _small(room)
        self.nbytes = self._size()

    @property
    def mean(self) -> Floats:
        """Posterior mean (n,)."""
        return self.fields[0]

    @property
    def variance(self) -> Floats:
        """Posterior variance (n,)."""
        return self.fields[1]

    @property
    def distinct(self) -> Indices:
        """Positions (r,) of the distinct points observed."""
        return np.fromiter(self._slots, dtype=np.int64, count=len(self._slots))

    def _make_room(self, capacity: int) -> None:
        """Make room for `capacity` distinct points."""
        r, room = self._rank, len(self._rows)
        rows, small = np.empty((capacity, len(self.numbers))), _small(capacity)
        rows[:r] = self._rows[:r]
        for new, old in zip(_squares(small, capacity), _squares(self._small, room), strict=True):
            new[:r, :r] = old[:r, :r]
        small[2 * capacity**2 :][:r] = self._small[2 * room**2 :][:r]  # shift
        self._rows, self._small = rows, small
        self.nbytes = self._size()

    def _size(self) -> int:
        return self._rows.nbytes + self.points.nbytes + self.fields.nbytes + self._small.nbytes + 2000

    def observe_one(self, candidate: int, y: float, noise_variance: float) -> float:
        """Condition on one observation of a candidate and return the information gain it adds, in nats."""
        p = int(self.numbers.searchsorted(candidate))
        slot = self._slots.get(p, -1)
        if slot < 0:
            self._slots[p] = self._rank
            if self._rank == len(self._rows):
                self._make_room(2 * self._rank)
            self.kernel.fill(self.points[p : p + 1], self.points, self.fields[2:])
        gain: float = numba_cells.observe(p, slot, y, noise_variance, self._small, self._rows, self._rank, self.fields)
        self._rank += slot < 0
        return gain

    def position(self, candidate: int) -> int:
        """Return the position of a candidate in the cell."""
        return int(self.numbers.searchsorted(candidate))

    def observe(self, positions: list[int], ys: Floats, noise_variances: Floats) -> float:
        """Condition on observations (k,) at positions, in order, and return the information gain they add, in nats."""
        slots: list[int] = []
        new: list[int] = []
        for p in positions:
            slot = self._slots.get(p)
            if slot is None:
                slot = self._slots[p] = len(self._slots)
                new.append(p)
            slots.append(slot)
        columns = np.empty((len(new), len(self.numbers)))
        if new:
            self.kernel.fill(self.points[new], self.points, columns)
            if len(self._slots) > len(self._rows):
                self._make_room(max(2 * len(self._rows), len(self._slots)))
        self._rank, gain = numba_cells.observe_all(
            np.array(positions), np.array(slots), ys, noise_variances, columns, self._small, self._rows, self._rank,
            self.fields,
        )  # fmt: skip
        return float(gain)


def _capacity(count: int) -> int:
    """Return the number of distinct points that there is room for at first."""
    return 8 if count <= 512 else 2


def _small(room: int) -> Floats:
    """Return the window's small arrays for `room` distinct points, in one array as for `numba_cells.observe`."""
    return np.zeros(2 * room * room + 2 * room)


def _squares(small: Floats, room: int) -> Floats:
    """Return the two square ones of the small arrays, (2, room, room)."""
    return small[: 2 * room * room].reshape(2, room, room)


def state_of(cells: Sequence[Cell], known: Floats) -> State:
    """Return the state of cells, with the rows `known` (cells, 5) that the tree of maxima has of their indices."""
    data, caps = [cell.data for cell in cells], [cell.caps for cell in cells]
    parents = [-1 if cell.parent is None else cell.parent.number for cell in cells]
    return arrays(
        divisions=[cell.divisions for cell in cells], place=[cell.place for cell in cells], parent=parents,
        born=[cell.born for cell in cells],
        split=[cell.split for cell in cells], order=np.array([cell.order for cell in cells], dtype=np.uint64),
        held=[cell.held for cell in cells], gain=[cell.gain for cell in cells], width=[cell.width for cell in cells],
        summit=_summits(cells), known=known, data_sizes=[len(d) for d in data],
        data=np.concatenate([*data, []]).astype(np.int64),
        caps_sizes=[len(c) for c in caps], caps=np.concatenate([*caps, []]),
    )  # fmt: skip


def _summits(cells: Sequence[Cell]) -> NDArray[Any]:
    """Return the summits as candidates (n,), -1 if unknown, or as points (n, d), NaN if unknown."""
    points = [cell.summit for cell in cells if isinstance(cell.summit, np.ndarray)]
    if not points:
        return np.array([-1 if cell.summit is None else cell.summit for cell in cells], dtype=np.int64)
    none = np.full(points[0].shape, np.nan)
    return np.array([none if cell.summit is None else cell.summit for cell in cells])


def cells_of(state: State) -> Iterator[tuple[Cell, Floats]]:
    """Make the cells of a state that `state_of` returned, each with its row (5,) of the tree of maxima."""
    names = ("divisions", "place", "parent", "born", "order", "split", "held", "gain", "width", "summit")
    data, caps = (np.split(state[name], np.cumsum(state[f"{name}_sizes"]))[:-1] for name in ("data", "caps"))
    made: list[Cell] = []
    for row in zip(*(state[name].tolist() for name in names), data, caps, state["known"], strict=True):
        divisions, place, parent, born, order, split, held, gain, width, summit, numbers, bounds, known = row
        cell = Cell(len(made), divisions, tuple(place), None if parent < 0 else made[parent], born, order)
        cell.split, cell.held, cell.gain, cell.width = split, held, gain, width
        if isinstance(summit, list):
            cell.summit = None if math.isnan(summit[0]) else np.array(summit)
        else:
            cell.summit = None if summit < 0 else summit
        cell.data, cell.caps = numbers.tolist(), bounds
        made.append(cell)
        yield cell, known
