"""Tree of maxima: finds the cell of largest index.

Each cell has a leaf with five numbers: mean and std at its summit (the candidate of largest index), the width up to
which no other candidate of the cell has a larger index, the largest std in the cell, and its information gain. The tree
has upper bounds of all cells' indices at a log term slightly larger than the present one, so that only cells whose
bound reaches the best index are visited. It is rebuilt when the log term exceeds that one; the distance between the two
is adapted so that rebuilding and visiting take about equally long.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors import _numba_choice as numba_choice
from scalable_bandits.posteriors.engine import TIE_TOLERANCE
from scalable_bandits.posteriors.partition import _numba_cells as numba_cells
from scalable_bandits.posteriors.partition import _numba_rounds as numba_rounds
from scalable_bandits.posteriors.partition.cell import Cell
from scalable_bandits.posteriors.partition.cell_posterior import CellPosterior
from scalable_bandits.posteriors.partition.hot_cells import HotCells
from scalable_bandits.spaces import Indices

LAST, VALID_UNTIL, VISITS = numba_cells.LAST, numba_cells.VALID_UNTIL, numba_cells.VISITS


class ArgmaxTree:
    """Cells and upper bounds of their indices.

    Parameters
    ----------
    norm, noise
        B and R of the width B + R sqrt(2 (g + 1 + log term)).

    Attributes
    ----------
    hot : HotCells
        Cells that compiled loops know.
    """

    def __init__(self, norm: float, noise: float):
        self._norm, self._noise = norm, noise
        self.clear(0.0)

    def clear(self, last: float) -> None:
        """Remove all cells, and set the log term of the last call of `winner`."""
        self._pace = np.array([last, -math.inf, 1e-3, 0.0])
        self._leaf = np.zeros((64, 5))  # mean, std, limit, largest std, gain
        self._order = np.zeros(64, dtype=np.uint64)
        self._slots: list[Cell] = []
        self._vacant: list[int] = []
        self._tree = np.full(128, -np.inf)
        self._visited, self._values = np.empty(64, dtype=np.int64), np.empty(64)
        self.hot = HotCells()

    def width(self, gain: float, log_term: float) -> float:
        """Return B + R sqrt(2 (g + 1 + log term)), rounded as `numba_cells.width_of` rounds it."""
        return self._norm + self._noise * math.sqrt(2.0 * (gain + 1.0 + log_term))

    def enter(self, cell: Cell) -> None:
        """Add a cell."""
        if self._vacant:
            cell.slot = self._vacant.pop()
            self._slots[cell.slot] = cell
        else:
            cell.slot = len(self._slots)
            self._slots.append(cell)
            if cell.slot == len(self._order):
                self._leaf = np.concatenate([self._leaf, np.zeros_like(self._leaf)])
                self._order = np.concatenate([self._order, np.zeros_like(self._order)])
                self._visited, self._values = np.empty(2 * cell.slot, dtype=np.int64), np.empty(2 * cell.slot)
                self._tree = np.full(4 * cell.slot, -np.inf)
                self._pace[VALID_UNTIL] = -math.inf
                self.hot.make_room(2 * cell.slot)
        self._order[cell.slot] = cell.order

    def leave(self, cell: Cell) -> None:
        """Remove a cell."""
        self._vacant.append(cell.slot)
        self._set(cell.slot, -np.inf, 0.0, np.inf, 0.0, 0.0)
        cell.slot = -1

    def unknown(self, cell: Cell) -> None:
        """Set a cell's index to unknown until it is computed."""
        self._set(cell.slot, np.inf, 0.0, -1.0, 0.0, cell.gain)

    def level(self, cell: Cell, mean: float, std: float) -> None:
        """Set the same mean and std for all candidates of a cell."""
        self._set(cell.slot, mean, std, np.inf, std, cell.gain)

    def found(self, cell: Cell, mean: float, std: float, width: float, most: float) -> None:
        """Set mean and std at a cell's summit for a width; `most` is the largest std in the cell."""
        self._set(cell.slot, mean, std, width, most, cell.gain)

    def known(self, cell: Cell) -> Floats:
        """Return the leaf of a cell, (5,)."""
        return self._leaf[cell.slot] if cell.slot >= 0 else np.zeros(5)

    def _set(self, slot: int, *values: float) -> None:
        self._leaf[slot] = values
        self.hot.drop(slot)
        if self._pace[VALID_UNTIL] > -math.inf:
            numba_cells.renew(self._tree, self._leaf, slot, self._pace[VALID_UNTIL], self._norm, self._noise)

    def put_back(self, cell: Cell, known: Floats) -> None:
        """Restore the leaf (5,) of a cell that `known` returned."""
        self._set(cell.slot, *known.tolist())

    def evaluate(self, cell: Cell, posterior: CellPosterior, log_term: float, salt: np.uint64) -> None:
        """Compute a cell's summit at the present width."""
        self.hot.drop(cell.slot)
        cell.summit = numba_cells.evaluate(
            posterior.fields, cell.caps, cell.gain, log_term, self._norm, self._noise,
            posterior.numbers, salt, TIE_TOLERANCE, self._leaf, cell.slot, self._tree, self._pace[VALID_UNTIL],
        )  # fmt: skip

    def winner(self, log_term: float, elsewhere: float, evaluate: Callable[[Cell], None]) -> tuple[Cell | None, float]:
        """Find the cell of largest index, and the index.

        Parameters
        ----------
        log_term
            log(N_t / delta), not smaller than in the last call.
        elsewhere
            Largest index outside of the tree; the cell is None if no cell reaches it.
        evaluate
            Function that computes the summit of a cell.
        """
        if not self.last <= log_term <= self._pace[VALID_UNTIL]:
            count = len(self._slots)
            numba_cells.reach_ahead(self._tree, self._leaf, count, log_term, self._pace, self._norm, self._noise)
        self._pace[LAST] = log_term
        while True:
            slot, index, stale, visits = numba_cells.select(
                self._tree, self._leaf, self._order, len(self._slots), log_term, self._norm, self._noise, elsewhere,
                TIE_TOLERANCE, self._visited, self._values,
            )  # fmt: skip
            self._pace[VISITS] += visits
            if not stale:
                return (self._slots[slot] if slot >= 0 else None), index
            evaluate(self._slots[slot])

    @property
    def last(self) -> float:
        """Log term of the last call of `winner`."""
        return float(self._pace[LAST])

    @property
    def slots(self) -> int:
        """Number of slots in use, for cells that are there or were."""
        return len(self._slots)

    @property
    def norms(self) -> tuple[float, float]:
        """B and R."""
        return self._norm, self._noise

    @property
    def arrays(self) -> numba_rounds.Tree:
        """Arrays for compiled loops."""
        return numba_rounds.Tree(self._tree, self._leaf, self._order, self._visited, self._values, self._pace)

    def cells(self, slots: Indices) -> list[Cell]:
        """Return the cells of slots (k,)."""
        held = self._slots
        return [held[slot] for slot in slots.tolist()]

    def likely(self, log_term: float, count: int) -> list[Cell]:
        """Return cells whose summits `winner` will probably need.

        These are all cells of unknown index, and the `count` of largest bound among the cells whose summits may have
        moved and whose bounds reach the largest index.
        """
        mean, std, limit, most, gain = self._leaf[: len(self._slots)].T
        width = self._norm + self._noise * np.sqrt(2.0 * (gain + 1.0 + log_term))
        with np.errstate(invalid="ignore"):  # of cells that were removed, or whose index is unknown
            index = mean + width * std
            largest = index[width <= limit].max(initial=-np.inf)
            reach = np.where(np.isinf(mean), mean, mean + limit * std + (width - limit) * most)
        slots = np.flatnonzero((width > limit) & (reach >= largest))
        slots = slots[np.argsort(-reach[slots], kind="stable")]
        return [self._slots[slot] for slot in slots[: int(np.isinf(reach[slots]).sum()) + count].tolist()]


def orders(numbers: Indices, salt: np.uint64) -> NDArray[np.uint64]:
    """Return the order (k,) of cells by number: a hash in the high bits, the number's last bits in the low ones."""
    low = numbers.astype(np.uint64) & np.uint64(0xFFFFFFFF)
    return (numba_choice.tie_hashes(numbers, salt) << np.uint64(32)) | low


def better(one: tuple[float, int, int] | None, other: tuple[float, int, int]) -> tuple[float, int, int]:
    """Return the better of two (index, order, candidate): of larger index or, if they tie, of smaller order."""
    if one is None:
        return other
    if abs(one[0] - other[0]) <= TIE_TOLERANCE * max(abs(one[0]), abs(other[0])):
        return min(one, other, key=lambda entry: entry[1])
    return max(one, other)
