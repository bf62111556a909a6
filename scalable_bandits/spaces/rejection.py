"""Random points that fulfil a condition, by rejection."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats

MOST_DRAWS = 204_800  # number of points, or 100 times as many as are asked for, after which none more is drawn
ENOUGH_DRAWS = 8  # so many for each that is asked for, where fewer will do


def accepted(
    draw: Callable[[int], Floats], first_fulfilled: Callable[[Floats, int], NDArray[np.int64]], count: int, least: int
) -> tuple[Floats, int]:
    """Draw points until enough of them fulfil a condition.

    Parameters
    ----------
    draw
        Function that draws a number of points (n, p).
    first_fulfilled
        Function that returns the positions (k,) of the first points for which the condition is true, at most so many.
    count
        Number of points wanted.
    least
        Number of points that will do where few fulfil the condition.

    Returns
    -------
    points : ndarray
        Points (k, p), k <= `count`; fewer than `least` if hardly any fulfils the condition.
    drawn : int
        Number of points that were drawn.
    """
    most, size, drawn, found = max(MOST_DRAWS, 100 * count), max(count, 8), 0, 0
    kept: list[Floats] = []
    while drawn < most and found < count and not (least <= found and drawn >= ENOUGH_DRAWS * count):
        points = draw(size)
        kept.append(points[first_fulfilled(points, count - found)])
        drawn, found = drawn + size, found + len(kept[-1])
        size = min(2 * size, most - drawn)
    return np.concatenate(kept), drawn
