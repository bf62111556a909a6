"""Multi-level single linkage: where another local search begins, once one has ended.

    r = (4 Gamma(1 + d / 2) log(n) / n)^(1 / d) / sqrt(pi) of n points in a cube with d sides
    x = the best of the points, of those at which no search began or ended, that has no better one within r

Source: Rinnooy Kan & Timmer 1987, Stochastic global optimization methods, part II: multi level methods, equation (2).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import ClassVar

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.state import StateEntry, Stateful, listed, number

MOST = 1000  # largest number of points, the best ones, of which one is chosen


class Searches(Stateful):
    """Local searches: around the best point of all, and in turn with this one at other places.

    Parameters
    ----------
    radius
        Radius with which a search begins.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        number("_other", int), number("_narrow", float), listed("_used", np.int64, name="used"),
    )  # fmt: skip

    def __init__(self, radius: float):
        self._first, self._narrow = radius, radius  # radius of a new search; around the best point, when it was left
        self._other = -1  # position of the best point of a search elsewhere, if that has the turn
        self._used: list[int] = []  # positions at which searches began and ended

    def centre(self, y: Floats) -> int:
        """Return the position, among values (n,), of the best point of the search that has the turn."""
        return int(np.argmax(y)) if self._other < 0 else self._other

    def move(self, y: Floats) -> None:
        """Take note that the last of some values (n,) is better than that of the best point of the search."""
        if self._other >= 0:
            self._other = -1 if y[-1] > y[:-1].max() else len(y) - 1

    def end(self) -> bool:
        """Go back to the best point of all, and return whether the search was elsewhere."""
        was, self._other = self._other, -1
        return was >= 0

    def turn(self, points: Floats, y: Floats, radius: float) -> float | None:
        """Begin the next search, as the present one has ended, and return its radius; None if it goes on.

        Parameters
        ----------
        points, y
            Points (n, d) of the unit cube and their values (n,).
        radius
            Radius of the search that has ended.
        """
        if (centre := self.centre(y)) not in self._used:
            self._used.append(centre)
        if self.end():
            return self._narrow
        if (start := next_start(points, y, self._used)) is None:
            return None
        self._used.append(start)
        self._other, self._narrow = start, radius
        return self._first


def next_start(points: Floats, values: Floats, used: Collection[int]) -> int | None:
    """Return the position of the point at which a search begins, if there is one.

    Parameters
    ----------
    points, values
        Points (n, d) of the unit cube, two at least, and their values (n,), of which the largest is the best.
    used
        Positions of the points at which searches began and ended.
    """
    reach = linkage(len(points), points.shape[1])
    order = np.argsort(-values, kind="stable")[:MOST]
    for rank, position in enumerate(order.tolist()):
        if position not in used:
            away = np.linalg.norm(points[order[:rank]] - points[position], axis=1)
            if not (away <= reach).any():
                return int(position)
    return None


def linkage(n: int, d: int) -> float:
    """Return the distance within which a point among n, in d coordinates, belongs to the search of a better one."""
    return float(math.exp((math.lgamma(1.0 + d / 2.0) + math.log(4.0 * math.log(n) / n)) / d) / math.sqrt(math.pi))
