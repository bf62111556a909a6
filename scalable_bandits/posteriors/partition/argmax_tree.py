"""The contest of cells for the largest index.

Of each cell it knows the summit, mean + width std, up to which width no other of its candidates overtakes, and its
largest std. A tree holds upper bounds on all cells' indices at a log term a little ahead, so that only cells whose
bound reaches the best index are looked at; it is rebuilt when the log term gets there, at a pace that balances both.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.engine import TIE_TOLERANCE
from scalable_bandits.posteriors.partition import _numba_cells as numba_cells
from scalable_bandits.posteriors.partition.cell import Cell, CellPosterior
from scalable_bandits.spaces import Indices


class ArgmaxTree:
    """Cells and what is known of their indices.

    Parameters
    ----------
    norm, noise
        B and R of the width B + R sqrt(2 (g + 1 + log term)).

    Attributes
    ----------
    last : float
        Log term of the last contest.
    """

    def __init__(self, norm: float, noise: float):
        self._norm, self._noise = norm, noise
        self.clear(0.0)

    def clear(self, last: float) -> None:
        """Know nothing, but for the log term of the last contest."""
        self.last = last
        self._leaf = np.zeros((64, 5))  # mean, std, limit, largest std, gain
        self._order = np.zeros(64, dtype=np.uint64)
        self._slots: list[Cell] = []
        self._vacant: list[int] = []
        self._tree = np.full(128, -np.inf)
        self._visited, self._values = np.empty(64, dtype=np.int64), np.empty(64)
        self._ahead = -math.inf  # log term up to which the tree's bounds hold
        self._pace, self._looked = 1e-3, 0

    def width(self, gain: float, log_term: float) -> float:
        """B + R sqrt(2 (g + 1 + log term)), as `numba_cells.width_of` rounds it."""
        return self._norm + self._noise * math.sqrt(2.0 * (gain + 1.0 + log_term))

    def enter(self, cell: Cell) -> None:
        """Give a cell its place."""
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
                self._ahead = -math.inf
        self._order[cell.slot] = cell.order

    def leave(self, cell: Cell) -> None:
        """Take a cell out."""
        self._vacant.append(cell.slot)
        self._set(cell.slot, -np.inf, 0.0, np.inf, 0.0, 0.0)
        cell.slot = -1

    def unknown(self, cell: Cell) -> None:
        """Nothing is known of a cell's index until it is evaluated."""
        self._set(cell.slot, np.inf, 0.0, -1.0, 0.0, cell.gain)

    def level(self, cell: Cell, mean: float, std: float) -> None:
        """All candidates of a cell have the same mean and std."""
        self._set(cell.slot, mean, std, np.inf, std, cell.gain)

    def found(self, cell: Cell, mean: float, std: float, width: float, most: float) -> None:
        """Mean and std at a cell's summit at a width, beyond which its index grows by no more than `most` times it."""
        self._set(cell.slot, mean, std, width, most, cell.gain)

    def known(self, cell: Cell) -> Floats:
        """What is known of a cell, (5,)."""
        return self._leaf[cell.slot] if cell.slot >= 0 else np.zeros(5)

    def _set(self, slot: int, *values: float) -> None:
        self._leaf[slot] = values
        if self._ahead > -math.inf:
            numba_cells.renew(self._tree, self._leaf, slot, self._ahead, self._norm, self._noise)

    def put_back(self, cell: Cell, known: Floats) -> None:
        """Know again what `known` gave."""
        self._set(cell.slot, *known.tolist())

    def evaluate(self, cell: Cell, posterior: CellPosterior, log_term: float, salt: np.uint64) -> None:
        """Find a cell's summit at the present width."""
        cell.summit = numba_cells.evaluate(
            posterior.fields, cell.caps, cell.gain, log_term, self._norm, self._noise,
            posterior.numbers, salt, TIE_TOLERANCE, self._leaf, cell.slot, self._tree, self._ahead,
        )  # fmt: skip

    def winner(self, log_term: float, elsewhere: float, evaluate: Callable[[Cell], None]) -> tuple[Cell | None, float]:
        """Cell of largest index, and the index.

        Parameters
        ----------
        log_term
            log(N_t / delta), not less than the last one.
        elsewhere
            An index that is reached outside; the cell is None if none reaches it.
        evaluate
            Finds the summit of a cell that has to be looked at.
        """
        if not self.last <= log_term <= self._ahead:
            self._look_ahead(log_term)
        self.last = log_term
        while True:
            slot, index, stale, looked = numba_cells.select(
                self._tree, self._leaf, self._order, log_term, self._norm, self._noise, elsewhere, TIE_TOLERANCE,
                self._visited, self._values,
            )  # fmt: skip
            self._looked += looked
            if not stale:
                return (self._slots[slot] if slot >= 0 else None), index
            evaluate(self._slots[slot])

    def likely(self, log_term: float, count: int) -> list[Cell]:
        """Cells that are likely to be looked at in a contest: all of which nothing is known, and of those whose summits
        may not be what they were the `count` whose index may be the largest, if it may reach that of the others.
        """
        mean, std, limit, most, gain = self._leaf[: len(self._slots)].T
        width = self._norm + self._noise * np.sqrt(2.0 * (gain + 1.0 + log_term))
        with np.errstate(invalid="ignore"):  # of cells that are out, or not known
            index = mean + width * std
            largest = index[width <= limit].max(initial=-np.inf)
            reach = np.where(np.isinf(mean), mean, mean + limit * std + (width - limit) * most)
        slots = np.flatnonzero((width > limit) & (reach >= largest))
        slots = slots[np.argsort(-reach[slots], kind="stable")]
        return [self._slots[slot] for slot in slots[: int(np.isinf(reach[slots]).sum()) + count].tolist()]

    def _look_ahead(self, log_term: float) -> None:
        """Renew all bounds for a while to come: longer if few cells had to be looked at since, shorter if many."""
        count = len(self._slots)
        change = 0.5 if self._looked > 2 * count else 2.0 if self._looked < count else 1.0
        self._pace = min(max(self._pace * change, 1e-9), 1.0)
        self._looked = 0
        self._ahead = log_term + self._pace
        numba_cells.rebuild_tree(self._tree, self._leaf, count, self._ahead, self._norm, self._noise)


def orders(numbers: Indices, salt: np.uint64) -> NDArray[np.uint64]:
    """Hash of each number, and the number's last bits below it."""
    low = numbers.astype(np.uint64) & np.uint64(0xFFFFFFFF)
    return (numba_cells.hashes(numbers, salt) << np.uint64(32)) | low


def better(one: tuple[float, int, int] | None, other: tuple[float, int, int]) -> tuple[float, int, int]:
    """Of two (index, order, candidate) the one of larger index, or, tied, of smaller order."""
    if one is None:
        return other
    if abs(one[0] - other[0]) <= TIE_TOLERANCE * max(abs(one[0]), abs(other[0])):
        return min(one, other, key=lambda entry: entry[1])
    return max(one, other)
