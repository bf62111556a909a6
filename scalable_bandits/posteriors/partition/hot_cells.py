"""Caches for the compiled loop of a partition: addresses of the cells' posteriors, and the cells of each candidate.

Entries that are missing are added when the loop asks for them. Copies start empty, since an address is valid only for
the object that owns the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalable_bandits.posteriors.partition import _numba_rounds as numba_rounds
from scalable_bandits.posteriors.partition.cell import Cell
from scalable_bandits.posteriors.partition.cell_posterior import CellPosterior

FIRST_SLOTS, FIRST_PLACES, NOTES = 64, 256, 1 << 16


class _Cache:
    """Cache whose copies start empty."""

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), ()


class HotCells(_Cache):
    """Cells that the compiled loop can change, by slot of the tree of maxima.

    Whoever makes an array of a cell anew, or discards it, has to call `drop` first.

    Parameters
    ----------
    slots
        Number of slots that there is room for.

    Attributes
    ----------
    arrays : Hot
        Arrays for compiled loops.
    """

    def __init__(self, slots: int = FIRST_SLOTS):
        self.arrays = numba_rounds.Hot(
            np.zeros((slots, numba_rounds.COLUMNS), dtype=np.int64), np.zeros(slots), np.full(slots, -1),
            np.zeros(slots, dtype=np.int64), np.zeros(NOTES, dtype=np.int64), np.zeros(NOTES, dtype=np.int64),
            np.zeros(3, dtype=np.int64),
        )  # fmt: skip

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (len(self.arrays.room),)

    def put(self, cell: Cell) -> bool:
        """Add a cell, if its posterior is in memory and it is not known yet; returns whether it was added."""
        posterior, slot = cell.posterior, cell.slot
        if slot < 0 or not isinstance(posterior, CellPosterior) or self.arrays.cells[slot, numba_rounds.SIZE]:
            return False
        summit = -1 if cell.summit is None else cell.summit
        caps = cell.caps
        self.arrays.cells[slot] = *posterior.addresses, caps.ctypes.data, len(caps), *posterior.sizes, cell.held, summit
        self.arrays.room[slot] = cell.room
        return True

    def drop(self, slot: int) -> None:
        """Forget a cell that changes, or whose posterior does."""
        self.arrays.cells[slot, numba_rounds.SIZE] = 0

    def make_room(self, slots: int) -> None:
        """Make room for so many slots."""
        cells, room, used, touched, *notes = self.arrays
        if (more := slots - len(room)) > 0:
            cells, room, touched = (
                np.pad(cells, ((0, more), (0, 0))),
                np.pad(room, (0, more)),
                np.pad(touched, (0, more)),
            )
            self.arrays = numba_rounds.Hot(cells, room, np.pad(used, (0, more), constant_values=-1), touched, *notes)


class PlacesOfCandidates(_Cache):
    """Cells by candidate.

    Attributes
    ----------
    arrays : Places
        Arrays for compiled loops.
    """

    def __init__(self) -> None:
        self._candidates, self._cells = 0, 0  # numbers of entries in use
        self.arrays = numba_rounds.Places(
            np.full(FIRST_PLACES, -1), np.zeros(FIRST_PLACES, dtype=np.int64), np.zeros(FIRST_PLACES, dtype=np.int64),
            np.zeros(FIRST_PLACES, dtype=np.int64), np.full(FIRST_PLACES, -1),
        )  # fmt: skip

    def put(self, candidate: int, homes: Sequence[Cell]) -> None:
        """Set the cells of the present cover that hold a candidate."""
        self._make_room(len(homes), max(cell.number for cell in homes))
        keys, first, count, cells, slot_of = self.arrays
        i = numba_rounds.find(keys, candidate)
        if keys[i] == candidate and count[i] == len(homes):  # the same numbers again need no more room
            same = cells[first[i] : first[i] + count[i]] == [cell.number for cell in homes]
            if same.all() and (slot_of[[cell.number for cell in homes]] == [cell.slot for cell in homes]).all():
                return
        self._candidates += int(keys[i] != candidate)
        keys[i], first[i], count[i] = candidate, self._cells, len(homes)
        for cell in homes:
            cells[self._cells], slot_of[cell.number] = cell.number, cell.slot
            self._cells += 1

    def leave(self, cell: Cell) -> None:
        """Forget a cell that splits."""
        if cell.number < len(self.arrays.slot_of):
            self.arrays.slot_of[cell.number] = -1

    def _make_room(self, homes: int, number: int) -> None:
        """Make room for one candidate in so many cells, of which one has this number."""
        keys, first, count, cells, slot_of = self.arrays
        if self._cells + homes > len(cells):
            cells = np.pad(cells, (0, len(cells) + homes))
        if number >= len(slot_of):
            slot_of = np.pad(slot_of, (0, max(len(slot_of), number)), constant_values=-1)
        if 2 * self._candidates >= len(keys):
            held = np.flatnonzero(keys >= 0)
            grown = (np.full(2 * len(keys), -1), *np.zeros((2, 2 * len(keys)), dtype=np.int64))
            numba_rounds.insert(grown[0], grown[1], grown[2], keys[held], first[held], count[held])
            keys, first, count = grown
        self.arrays = numba_rounds.Places(keys, first, count, cells, slot_of)
