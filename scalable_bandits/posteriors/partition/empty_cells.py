"""Cubes of the first cover without observations: they are no cells yet, only numbers in the order of their choice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalable_bandits.posteriors.partition.argmax_tree import orders
from scalable_bandits.spaces import Indices


class EmptyCells:
    """Numbers of cubes, in the order in which ties between them are broken.

    Parameters
    ----------
    numbers
        (k,) numbers of the cubes that hold a candidate.
    salt
        Seed of the tie-breaking hash.
    is_cell
        Function that returns whether the cube of a number has become a cell.
    """

    def __init__(self, numbers: Indices, salt: np.uint64, is_cell: Callable[[int], bool]):
        hashed = orders(numbers, salt)
        ranked = np.argsort(hashed, kind="stable")
        self._numbers, self._orders, self._is_cell = numbers[ranked], hashed[ranked], is_cell
        self._next, self._first = 0, (-1, 0)
        self.update()

    def first(self) -> tuple[int, int]:
        """Return the number and the order of the first cube that is no cell, as of the last update; -1 without one."""
        return self._first

    def update(self) -> None:
        """Find the first cube that is no cell; the caller does this after every new cell."""
        while self._next < len(self._numbers):
            number = int(self._numbers[self._next])
            if not self._is_cell(number):
                self._first = number, int(self._orders[self._next])
                return
            self._next += 1
        self._first = -1, 0
