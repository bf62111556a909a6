"""Tree of maxima: finds the cell of largest index.

Each cell has a leaf with five numbers: mean and std at its maximizer (the candidate of largest index), the width up to
which no other candidate of the cell has a larger index, the largest std in the cell, and its information gain. The tree
has upper bounds of all cells' indices at a log term slightly larger than the present one, so that only cells whose
bound reaches the largest index are visited. The tree is rebuilt when the present log term exceeds the log term of the
bounds; how much larger the latter is chosen is adapted so that rebuilding and visiting take about equally long.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scalable_bandits._numba_compile import plain
from scalable_bandits.checks import Floats
from scalable_bandits.posteriors import _numba_choice as numba_choice
from scalable_bandits.posteriors.engine import TIE_TOLERANCE
from scalable_bandits.posteriors.partition import _numba_cells as numba_cells
from scalable_bandits.posteriors.partition.cell import Cell
from scalable_bandits.spaces import Indices

LAST, VALID_UNTIL, VISITS = numba_cells.LAST, numba_cells.VALID_UNTIL, numba_cells.VISITS

FIRST_SLOTS = 64  # number of slots that fit in a new tree
NOTES = 1 << 16  # number of observations that the loop can note before Python has to take them over

_width_of = plain(numba_cells.width_of)


class Leaf(Protocol):
    """Cell, or group of empty cubes, that has a leaf in the tree."""

    slot: int
    seeded_hash: int
    gain: float
    maximizer: Any
    posterior: Any


class LoopCells:
    """Cells that the compiled loop can change, by slot: addresses of their arrays, added when the loop asks for them.

    Copies start empty, since an address is valid only for the object that owns the array. Code that replaces or
    discards an array of a cell calls `drop` first.

    Parameters
    ----------
    slots
        Number of slots that fit in the arrays.

    Attributes
    ----------
    arrays : CellArrays
        Arrays for compiled loops.
    """

    def __init__(self, slots: int = FIRST_SLOTS):
        self.arrays = numba_cells.CellArrays(
            np.zeros((slots, numba_cells.COLUMNS), dtype=np.int64), np.zeros(slots), np.zeros(slots, dtype=np.bool_),
            np.zeros(NOTES, dtype=np.int64), np.zeros(NOTES, dtype=np.int64), np.zeros(1, dtype=np.int64),
        )  # fmt: skip

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (len(self.arrays.split_thresholds),)

    def put(self, cell: Cell) -> bool:
        """Add a cell, if its posterior is in memory and the cell is missing; return whether it was added."""
        posterior, slot = cell.posterior, cell.slot
        if slot < 0 or posterior is None or self.arrays.cells[slot, numba_cells.SIZE]:
            return False
        maximizer = -1 if cell.maximizer is None else cell.maximizer
        parent_index = cell.parent_index
        self.arrays.cells[slot] = (
            *posterior.addresses, parent_index.ctypes.data, len(parent_index), *posterior.sizes, cell.count, maximizer,
        )  # fmt: skip
        self.arrays.split_thresholds[slot] = cell.split_threshold
        return True

    def drop(self, slot: int) -> None:
        """Remove a cell, because it or its posterior changes."""
        self.arrays.cells[slot, numba_cells.SIZE] = 0


class ArgmaxTree:
    """Cells and upper bounds of their indices.

    Parameters
    ----------
    norm, noise
        B and R of the width B + R sqrt(2 (g + 1 + log term)).

    Attributes
    ----------
    norm, noise : float
        Constants B and R of the width.
    arrays : TreeArrays
        Arrays for compiled functions.
    loop_cells : LoopCells
        Cells that the compiled loop can change.
    """

    def __init__(self, norm: float, noise: float):
        self.norm, self.noise = norm, noise
        self.clear(0.0)

    def clear(self, last: float) -> None:
        """Remove all cells, and set the log term of the last call of `find_largest`."""
        self._schedule = np.array([last, -math.inf, 1e-3, 0.0])
        self._make_room(FIRST_SLOTS, np.empty((0, 5)), np.empty(0, dtype=np.uint64))
        self._cells: list[Any] = []  # cell of each slot; a removed cell stays until the slot is used again
        self._vacant: list[int] = []  # slots of removed cells
        self.loop_cells = LoopCells()

    def _make_room(self, slots: int, leaves: Floats, hashes: NDArray[np.uint64]) -> None:
        """Make the arrays for a number of slots, a power of two, with the leaves (k, 5) and hashes (k,) so far."""
        more = slots - len(hashes)
        leaves, hashes = np.pad(leaves, ((0, more), (0, 0))), np.pad(hashes, (0, more))
        scratch = np.empty(slots, dtype=np.int64), np.empty(slots)
        tree = np.full(2 * slots, -np.inf)
        self.arrays = numba_cells.TreeArrays(tree, leaves, hashes, *scratch, self._schedule)
        self._schedule[VALID_UNTIL] = -math.inf

    def width(self, gain: float, log_term: float) -> float:
        """Return the width B + R sqrt(2 (g + 1 + log term))."""
        width: float = _width_of(gain, log_term, self.norm, self.noise)
        return width

    def add(self, cell: Leaf) -> None:
        """Add a cell."""
        if self._vacant:
            cell.slot = self._vacant.pop()
            self._cells[cell.slot] = cell
        else:
            cell.slot = len(self._cells)
            self._cells.append(cell)
            if cell.slot == len(self.arrays.hashes):
                self._make_room(2 * cell.slot, self.arrays.leaves, self.arrays.hashes)
                self.loop_cells = LoopCells(2 * cell.slot)  # cells are added again when the loop asks for them
        self.arrays.hashes[cell.slot] = cell.seeded_hash

    def remove(self, cell: Leaf) -> None:
        """Remove a cell."""
        self._vacant.append(cell.slot)
        self.set_absent(cell)
        cell.slot = -1

    def set_absent(self, cell: Leaf) -> None:
        """Have a cell never found."""
        self._set(cell.slot, -np.inf, 0.0, np.inf, 0.0, 0.0)

    def set_hash(self, cell: Leaf) -> None:
        """Set the seeded hash of a cell or group to its present one."""
        self.arrays.hashes[cell.slot] = cell.seeded_hash

    def set_unknown(self, cell: Cell) -> None:
        """Set a cell's index to unknown: infinite, so that it is computed before any other cell is chosen."""
        self._set(cell.slot, np.inf, 0.0, -1.0, 0.0, cell.gain)

    def set_maximum(self, cell: Leaf, mean: float, std: float, width: float, largest_std: float) -> None:
        """Set mean and std at a cell's maximizer, its largest width, and the largest std in the cell."""
        self._set(cell.slot, mean, std, width, largest_std, cell.gain)

    def leaf(self, cell: Cell) -> Floats:
        """Return the leaf of a cell, (5,)."""
        return self.arrays.leaves[cell.slot] if cell.slot >= 0 else np.zeros(5)

    def _set(self, slot: int, *values: float) -> None:
        tree, leaves, *_ = self.arrays
        leaves[slot] = values
        self.loop_cells.drop(slot)
        if (valid_until := self._schedule[VALID_UNTIL]) > -math.inf:
            numba_cells.update_bound(tree, leaves, slot, valid_until, self.norm, self.noise)

    def set_leaf(self, cell: Cell, leaf: Floats) -> None:
        """Set the leaf (5,) of a cell to one that `leaf` returned."""
        self._set(cell.slot, *leaf.tolist())

    def evaluate(self, cell: Cell, fields: Floats, numbers: Indices, log_term: float, salt: np.uint64) -> None:
        """Compute a cell's maximizer at the present width, from `FinitePosterior.fields` and its candidates (n,)."""
        tree, leaves, *_ = self.arrays
        self.loop_cells.drop(cell.slot)
        cell.maximizer = numba_cells.evaluate(
            fields, cell.parent_index, cell.gain, log_term, self.norm, self.noise,
            numbers, salt, leaves, cell.slot, tree, self._schedule[VALID_UNTIL],
        )  # fmt: skip

    def find_largest(self, log_term: float, evaluate: Callable[[Any, float], None]) -> tuple[Any, float]:
        """Find the cell of largest index, and the index.

        Parameters
        ----------
        log_term
            log(N_t / delta), not smaller than in the last call.
        evaluate
            Function that computes the maximizer of a cell at a log term.
        """
        tree, leaves, hashes, visited, values, schedule = self.arrays
        count, norm, noise = len(self._cells), self.norm, self.noise
        if not schedule[LAST] <= log_term <= schedule[VALID_UNTIL]:
            numba_cells.rebuild_ahead(tree, leaves, count, log_term, schedule, norm, noise)
        schedule[LAST] = log_term
        while True:
            slot, index, outdated, visits = numba_cells.select(
                tree, leaves, hashes, log_term, norm, noise, TIE_TOLERANCE, visited, values
            )
            schedule[VISITS] += visits
            if not outdated:
                return self._cells[slot], index
            evaluate(self._cells[slot], log_term)

    @property
    def last(self) -> float:
        """Log term of the last call of `find_largest`."""
        return float(self._schedule[LAST])

    @property
    def slot_count(self) -> int:
        """Number of slots, with those of removed cells."""
        return len(self._cells)

    def cells(self, slots: Indices) -> list[Cell]:
        """Return the cells of slots (k,)."""
        return [self._cells[slot] for slot in slots.tolist()]

    def likely(self, log_term: float) -> list[Cell]:
        """Return cells whose maximizers `find_largest` will probably need.

        These are all cells of unknown index, and one other: that of largest bound among the cells whose maximizer may
        be another at the present width and whose bound reaches the largest known index.
        """
        mean, std, width_limit, largest_std, gain = self.arrays.leaves[: len(self._cells)].T
        # The widths of all cells at once, rounded as `width` and the compiled `upper_bound` round them one by one.
        width = self.norm + self.noise * np.sqrt(2.0 * (gain + 1.0 + log_term))
        with np.errstate(invalid="ignore"):  # removed cells and cells of unknown index have infinite entries
            index = mean + width * std
            largest = index[width <= width_limit].max(initial=-np.inf)
            bound = np.where(np.isinf(mean), mean, mean + width_limit * std + (width - width_limit) * largest_std)
        slots = np.flatnonzero((width > width_limit) & (bound >= largest))
        slots = slots[np.argsort(-bound[slots], kind="stable")]
        return [self._cells[slot] for slot in slots[: int(np.isinf(bound[slots]).sum()) + 1].tolist()]


def seeded_hashes(numbers: Indices, salt: np.uint64) -> NDArray[np.uint64]:
    """Return seeded hashes (k,) of cubes by number: a hash in the high bits, the number's last bits in the low ones."""
    low = numbers.astype(np.uint64) & np.uint64(0xFFFFFFFF)
    return (numba_choice.tie_hashes(numbers, salt) << np.uint64(32)) | low


def better(one: tuple[float, int, int] | None, other: tuple[float, int, int]) -> tuple[float, int, int]:
    """Return the better of two (index, seeded hash, candidate): of larger index or, if they tie, of smaller hash."""
    if one is None:
        return other
    if abs(one[0] - other[0]) <= TIE_TOLERANCE * max(abs(one[0]), abs(other[0])):
        return min(one, other, key=lambda entry: entry[1])
    return max(one, other)
