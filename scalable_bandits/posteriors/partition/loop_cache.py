"""Caches of the compiled loop of a partition: addresses of the cells' arrays, and the cells that hold each candidate.

Entries that are missing are added when the loop asks for them. Copies start empty, since an address is valid only for
the object that owns the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalable_bandits.posteriors.partition import _numba_rounds as numba_rounds
from scalable_bandits.posteriors.partition.cell import Cell

FIRST_SLOTS = 64  # number of slots that fit in a new cache
NOTES = 1 << 16  # number of observations that the loop can note before Python has to take them over


class _Cache:
    """Cache whose copies start empty."""

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), ()


class LoopCells(_Cache):
    """Cells that the compiled loop can change, by slot of the tree of maxima.

    Code that replaces or discards an array of a cell calls `drop` first.

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
        self.arrays = numba_rounds.CellArrays(
            np.zeros((slots, numba_rounds.COLUMNS), dtype=np.int64), np.zeros(slots), np.full(slots, -1),
            np.zeros(slots, dtype=np.int64), np.zeros(NOTES, dtype=np.int64), np.zeros(NOTES, dtype=np.int64),
            np.zeros(3, dtype=np.int64),
        )  # fmt: skip

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (len(self.arrays.split_thresholds),)

    def put(self, cell: Cell) -> bool:
        """Add a cell, if its posterior is in memory and the cell is missing; return whether it was added."""
        posterior, slot = cell.posterior, cell.slot
        if slot < 0 or posterior is None or self.arrays.cells[slot, numba_rounds.SIZE]:
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
        self.arrays.cells[slot, numba_rounds.SIZE] = 0

    def reserve(self, slots: int) -> None:
        """Enlarge the arrays so that this many slots fit."""
        cells, thresholds, last_use, touched, *notes = self.arrays
        if (more := slots - len(thresholds)) > 0:
            self.arrays = numba_rounds.CellArrays(
                np.pad(cells, ((0, more), (0, 0))), np.pad(thresholds, (0, more)),
                np.pad(last_use, (0, more), constant_values=-1), np.pad(touched, (0, more)), *notes,
            )  # fmt: skip


class LoopCandidates(_Cache):
    """Cells of the present cover by candidate.

    Parameters
    ----------
    size
        Number of candidates.

    Attributes
    ----------
    arrays : CandidateArrays
        Arrays for compiled loops.
    """

    def __init__(self, size: int = 0):
        self._used = 0  # number of entries of `cells` in use
        first = np.full(size, -1, dtype=np.int32)
        self.arrays = numba_rounds.CandidateArrays(first, np.zeros(1024, dtype=np.int64), np.full(256, -1))

    def put(self, candidate: int, holding: Sequence[Cell]) -> None:
        """Set the cells of the present cover that hold a candidate."""
        numbers = [cell.number for cell in holding]
        self._reserve(1 + len(numbers), max(numbers))
        first, cells, slot_of = self.arrays
        entry, i = [len(numbers), *numbers], int(first[candidate])
        if i < 0 or cells[i : i + len(entry)].tolist() != entry:
            first[candidate] = i = self._used
            self._used += len(entry)
            cells[i : self._used] = entry
        slot_of[numbers] = [cell.slot for cell in holding]

    def drop(self, cell: Cell) -> None:
        """Remove a cell that splits."""
        if cell.number < len(self.arrays.slot_of):
            self.arrays.slot_of[cell.number] = -1

    def _reserve(self, count: int, number: int) -> None:
        """Enlarge the arrays so that so many more entries of `cells` fit, and cells of numbers up to `number`."""
        first, cells, slot_of = self.arrays
        if self._used + count > len(cells):
            cells = np.pad(cells, (0, len(cells) + count))
        if number >= len(slot_of):
            slot_of = np.pad(slot_of, (0, max(len(slot_of), number)), constant_values=-1)
        self.arrays = numba_rounds.CandidateArrays(first, cells, slot_of)
