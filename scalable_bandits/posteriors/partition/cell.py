"""One cell of a partition: a cube, the observations in it, and its posterior while that is in memory."""

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
    """A cube of the cover.

    Attributes
    ----------
    number : int
        In the order of creation.
    divisions, place
        Which cube; its side is one over `divisions`.
    parent : Cell or None
        The cell it came from.
    born, split : int
        Observations told when it was made, and when it split (-1: it has not).
    order : int
        Seeded hash by which ties between cells are broken.
    data : list of int
        Which observations fell into it; emptied by a split.
    held : int
        How many.
    room : float
        As soon as `held` plus one exceeds it, the cell splits.
    gain : float
        Realised information gain within it, in nats.
    width : float
        Confidence width as it split.
    caps : ndarray
        (candidates,) that the index may not exceed; empty without tightening.
    slot : int
        Where the contest for the largest index keeps it; -1 after a split.
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
        self.summit: Any = None  # candidate of largest index, or point of a box, as last evaluated; None: not known
        self.posterior: Any = None  # while it is in memory

    @property
    def depth(self) -> int:
        """How many splits made it."""
        return 0 if self.parent is None else self.parent.depth + 1


class CellPosterior:
    """Exact posterior of a cell's candidates, by the recursive updates of a window that never closes (`window.py`).

    Parameters
    ----------
    kernel
        Prior covariance.
    points
        (n, d) candidates in the cell.
    numbers
        (n,) of them, ascending.
    prior_mean
        In units of y.
    """

    def __init__(self, kernel: Kernel, points: Floats, numbers: Indices, prior_mean: float):
        self.kernel, self.points, self.numbers = kernel, points, numbers
        self.fields = np.empty((3, len(numbers)))  # mean, variance, and covariances with the point observed last
        self.fields[0], self.fields[1] = prior_mean, kernel.diagonal(points)
        self._slots: dict[int, int] = {}  # of a position observed, which of the distinct ones it is
        self._rank = 0
        room = _capacity(len(numbers))
        self._rows, self._small = np.empty((room, len(numbers))), _small(room)
        self.nbytes = self._size()  # memory held, about

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
        """Room for so many distinct points."""
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
        """Condition on one observation of a candidate; returns the information gain it adds, in nats."""
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
        """Position of a candidate in the cell."""
        return int(self.numbers.searchsorted(candidate))

    def observe(self, positions: list[int], ys: Floats, noise_variances: Floats) -> float:
        """Condition on observations at positions, in order; returns the information gain they add, in nats."""
        slots: list[int] = []
        new: list[int] = []
        for p in positions:
            slot = self._slots.get(p)
            if slot is None:
                slot = self._slots[p] = len(self._slots)
                new.append(p)
            slots.append(slot)
        fresh = np.empty((len(new), len(self.numbers)))
        if new:
            self.kernel.fill(self.points[new], self.points, fresh)
            if len(self._slots) > len(self._rows):
                self._make_room(max(2 * len(self._rows), len(self._slots)))
        self._rank, gain = numba_cells.observe_all(
            np.array(positions), np.array(slots), ys, noise_variances, fresh, self._small, self._rows, self._rank,
            self.fields,
        )  # fmt: skip
        return float(gain)


def _capacity(count: int) -> int:
    """Distinct points to make room for at first: in small cells for those that they will soon have."""
    return 8 if count <= 512 else 2


def _small(room: int) -> Floats:
    """The window's small arrays for so many distinct points, one after the other: see `numba_cells.observe`."""
    return np.zeros(2 * room * room + 2 * room)


def _squares(small: Floats, room: int) -> Floats:
    """The first two of them, (2, room, room)."""
    return small[: 2 * room * room].reshape(2, room, room)


def state_of(cells: Sequence[Cell], known: Floats) -> State:
    """What is known of cells, as arrays: which cube, from where, since when, and the data and caps in it."""
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
    """Candidates (n,), -1 where none is known; or points (n, d), NaN where none is known."""
    points = [cell.summit for cell in cells if isinstance(cell.summit, np.ndarray)]
    if not points:
        return np.array([-1 if cell.summit is None else cell.summit for cell in cells], dtype=np.int64)
    none = np.full(points[0].shape, np.nan)
    return np.array([none if cell.summit is None else cell.summit for cell in cells])


def cells_of(state: State) -> Iterator[tuple[Cell, Floats]]:
    """Cells of `state_of`, and what was known of each."""
    names = ("divisions", "place", "parent", "born", "order", "split", "held", "gain", "width", "summit")
    data, caps = (np.split(state[name], np.cumsum(state[f"{name}_sizes"]))[:-1] for name in ("data", "caps"))
    made: list[Cell] = []
    for row in zip(*(state[name].tolist() for name in names), data, caps, state["known"], strict=True):
        divisions, place, parent, born, order, split, held, gain, width, summit, fell, under, known = row
        cell = Cell(len(made), divisions, tuple(place), None if parent < 0 else made[parent], born, order)
        cell.split, cell.held, cell.gain, cell.width = split, held, gain, width
        if isinstance(summit, list):
            cell.summit = None if math.isnan(summit[0]) else np.array(summit)
        else:
            cell.summit = None if summit < 0 else summit
        cell.data, cell.caps = fell.tolist(), under
        made.append(cell)
        yield cell, known
