"""Multi-level single linkage: where another local search begins, once one has ended.

    r = (4 Gamma(1 + d / 2) log(n) / n)^(1 / d) / sqrt(pi) of n points in a cube with d sides
    x = the best of the points, of those at which no search began or ended, that has no better one within r

Source: Rinnooy Kan & Timmer 1987, Stochastic global optimization methods, part II: multi level methods, equation (2).
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from scalable_bandits.checks import Floats

MOST = 1000  # largest number of points, the best ones, of which one is chosen


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
