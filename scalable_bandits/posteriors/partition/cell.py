"""Cell of a partition: a cube, and the observations in it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.partition.cover import Place
from scalable_bandits.posteriors.state import State, arrays

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
