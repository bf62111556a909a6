"""Confidence intervals of estimates that are linear in y, at points whose choice does not depend on the noise.

An estimate sum_i w_i y_i of f(x) has a bias of at most B |k(x, .) - sum_i w_i k(x_i, .)| and, with probability
1 - delta, noise of at most R |w| sqrt(2 log(2 / delta)). Both follow from the points alone.
"""

from __future__ import annotations

import math

from scalable_bandits import checks


def noise_factor(intervals: int, delta: float) -> float:
    """Compute how many deviations R |w| the noise of n estimates at once has at most: sqrt(2 log(2 n / delta)).

    Raises
    ------
    ValueError
        If n is below 1, or delta is not between 0 and 1.

    Examples
    --------
    >>> noise_factor(intervals=1, delta=2 * math.exp(-8))
    4.0
    """
    checks.integer("intervals", intervals, 1)
    if not 0.0 < delta < 1.0:
        checks.refuse("delta", delta, "a number between 0 and 1, both excluded")
    return math.sqrt(2.0 * math.log(2.0 * intervals / delta))


def fixed_points(intervals: int, delta: float, rkhs_norm: float, noise: float, regularization: float) -> float:
    """Compute the width for n intervals at once, if the choice of the points does not depend on the noise.

    sqrt(B^2 + 2 R^2 / lambda log(2 n / delta)), never above `confidence.independent`, which adds the two parts. For the
    posterior mean, |k(x, .) - sum_i w_i k(x_i, .)|^2 + lambda |w|^2 = s^2(x), the posterior variance; the rest is the
    inequality of Cauchy and Schwarz.

    Examples
    --------
    >>> fixed_points(intervals=1, delta=2 * math.exp(-8), rkhs_norm=3.0, noise=2.0, regularization=4.0)
    5.0
    """
    return math.hypot(rkhs_norm, noise * noise_factor(intervals, delta) / math.sqrt(regularization))
