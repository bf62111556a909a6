"""Cell of a partition: a cube, and the observations in it. `partition.py` begins with a table of the words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.partition.cover import Place
from scalable_bandits.posteriors.state import State, arrays

NO_PARENT_INDEX = np.empty(0)


@attrs.define(eq=False)
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
    seeded_hash : int
        Seeded hash of the cell: of cells whose indices tie, the one of smallest hash is chosen.
    data : list of int
        Numbers of the observations in the cell; emptied by a split.
    count : int
        Number of observations in the cell; a split leaves it as it is.
    split_threshold : float
        Threshold side^(-1 / b) of the paper: the cell splits when `count` + 1 exceeds it.
    gain : float
        Realised information gain in the cell, in nats.
    width : float
        Confidence width when it split.
    parent_index : ndarray
        (n,) indices of the cell's candidates in the parent when it split, in units of y: upper bounds of the indices in
        this cell. Empty without tightening.
    slot : int
        Number of the cell's leaf in the tree of maxima (`argmax_tree.py`); -1 after a split.
    maximizer
        Candidate of largest index, or a point (d,) of a box, as last computed; None if unknown.
    posterior
        Posterior of the cell while it is in memory, else None.
    """

    number: int
    divisions: int
    place: Place
    parent: Cell | None
    born: int
    seeded_hash: int
    split: int = -1
    data: list[int] = attrs.field(factory=list)
    count: int = 0
    split_threshold: float = math.inf
    gain: float = 0.0
    width: float = 0.0
    parent_index: Floats = NO_PARENT_INDEX
    slot: int = -1
    maximizer: Any = None
    posterior: Any = None

    @property
    def depth(self) -> int:
        """Number of splits that led to the cell."""
        return 0 if self.parent is None else self.parent.depth + 1


def state_of_cells(cells: Sequence[Cell], leaves: Floats) -> State:
    """Return the state of cells with their leaves (cells, 5) in the tree of maxima.

    The names of the entries are those of stored runs: "order" is the seeded hash, "held" the count, "summit" the
    maximizer, "known" the leaves and "caps" the parent's index.
    """
    data, parent_indices = [cell.data for cell in cells], [cell.parent_index for cell in cells]
    parents = [-1 if cell.parent is None else cell.parent.number for cell in cells]
    return arrays(
        divisions=[cell.divisions for cell in cells], place=[cell.place for cell in cells], parent=parents,
        born=[cell.born for cell in cells],
        split=[cell.split for cell in cells], order=np.array([cell.seeded_hash for cell in cells], dtype=np.uint64),
        held=[cell.count for cell in cells], gain=[cell.gain for cell in cells], width=[cell.width for cell in cells],
        summit=_maximizers(cells), known=leaves, data_sizes=[len(d) for d in data],
        data=np.concatenate([*data, []]).astype(np.int64),
        caps_sizes=[len(index) for index in parent_indices], caps=np.concatenate([*parent_indices, []]),
    )  # fmt: skip


def _maximizers(cells: Sequence[Cell]) -> NDArray[Any]:
    """Return the maximizers as candidates (n,), -1 if unknown, or as points (n, d), NaN if unknown."""
    points = [cell.maximizer for cell in cells if isinstance(cell.maximizer, np.ndarray)]
    if not points:
        return np.array([-1 if cell.maximizer is None else cell.maximizer for cell in cells], dtype=np.int64)
    none = np.full(points[0].shape, np.nan)
    return np.array([none if cell.maximizer is None else cell.maximizer for cell in cells])


def cells_from_state(state: State) -> Iterator[tuple[Cell, Floats]]:
    """Make the cells of a state that `state_of_cells` returned; yield each with its leaf (5,) in the tree of maxima."""
    names = ("divisions", "place", "parent", "born", "order", "split", "held", "gain", "width", "summit")
    data, parent_indices = (np.split(state[name], np.cumsum(state[f"{name}_sizes"]))[:-1] for name in ("data", "caps"))
    made: list[Cell] = []
    for row in zip(*(state[name].tolist() for name in names), data, parent_indices, state["known"], strict=True):
        divisions, place, parent, born, seeded_hash, split, count, gain, width, maximizer, numbers, bounds, leaf = row
        cell = Cell(len(made), divisions, tuple(place), None if parent < 0 else made[parent], born, seeded_hash)
        cell.split, cell.count, cell.gain, cell.width = split, count, gain, width
        if isinstance(maximizer, list):
            cell.maximizer = None if math.isnan(maximizer[0]) else np.array(maximizer)
        else:
            cell.maximizer = None if maximizer < 0 else maximizer
        cell.data, cell.parent_index = numbers.tolist(), bounds
        made.append(cell)
        yield cell, leaf
