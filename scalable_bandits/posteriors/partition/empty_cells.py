"""Cubes of the first cover that nothing fell into: no objects, but an order in which they are played."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalable_bandits.posteriors.partition.argmax_tree import orders
from scalable_bandits.spaces import Indices


class EmptyCells:
    """Cubes by number, in the order in which ties between them are broken.

    Parameters
    ----------
    numbers
        Of the cubes that hold a candidate.
    salt
        Seed of the hash by which ties are broken.
    touched
        Whether something fell into a cube since.
    """

    def __init__(self, numbers: Indices, salt: np.uint64, touched: Callable[[int], bool]):
        hashed = orders(numbers, salt)
        ranked = np.argsort(hashed, kind="stable")
        self._numbers, self._orders, self._touched = numbers[ranked], hashed[ranked], touched
        self._next, self._first = 0, (-1, 0)
        self.look()

    def first(self) -> tuple[int, int]:
        """Number of the first cube that nothing fell into (-1 if there is none), and its order, as of the last look."""
        return self._first

    def look(self) -> None:
        """See which is the first; to be called where something fell into a cube."""
        while self._next < len(self._numbers):
            number = int(self._numbers[self._next])
            if not self._touched(number):
                self._first = number, int(self._orders[self._next])
                return
            self._next += 1
        self._first = -1, 0
