"""Transform of y for a learned model: exact on the better half, by ranks on the worse one, then standardised.

    m = median of y,   s = root mean square of y - m over y >= m                                (1)
    y at least m stays; a smaller y becomes m - s max(Phi^-1(rank), 0)                           (2)
    z = (result - its average) / its standard deviation                                          (3)

A rank is the share of larger values, plus half the share of equal ones. Outliers among bad values, of any size, do not
matter then. Observations may have weights, with which medians, ranks and averages are taken. Differs from the half-rank
warping of Song et al. 2024 (Vizier), which replaces the worse half by quantiles of the best one, in the scale s.

Of an output that has to keep a limit, values near the limit matter, on both sides of it:

    z = (asinh((y - limit) / s) - their average) / their standard deviation, s = median of |y - limit|   (4)

where s is the median of the positive distances if that of all is 0, and 1 if all values are at the limit.

Of one of several objectives, the values of the whole front matter, which are good and bad: the same around their
median, with a scale three times as large, so that most of the values stay nearly as they are.

The bilog of Eriksson & Poloczek 2021 does the same with s = 1, in units of y, and a kink at the limit.
"""

from __future__ import annotations

import math

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats

FARTHEST = 300.0  # argument of a hyperbolic sine whose value is finite
LEAST = 1e-150  # difference of values of y whose square does not vanish


class Transform:
    """Increasing, piecewise linear function from y to z.

    Parameters
    ----------
    knots
        Increasing values (k,) of y, in units of y, k >= 1.
    images
        Values (k,) of z, none smaller than the one before.
    scale
        Units of y in a unit of z, beyond the largest knot.
    below
        The same below the smallest knot; infinite if all smaller values have the image of that knot.
    """

    def __init__(self, knots: Floats, images: Floats, scale: float, below: float = math.inf):
        self._knots, self._images, self.scale, self._below = knots, images, scale, below
        self._rising = np.append(np.diff(images) > 0.0, True)  # (k,) whether a knot is the last one with its image

    def __call__(self, y: Floats) -> Floats:
        """Return z (n,) of values y (n,)."""
        above = np.maximum(y - self._knots[-1], 0.0) / self.scale
        below = np.minimum(y - self._knots[0], 0.0) / self._below
        return np.interp(y, self._knots, self._images) + above + below

    def inverse(self, z: Floats) -> Floats:
        """Return y (n,) of values z (n,); below the smallest knot the function continues linearly."""
        knots, images = self._knots[self._rising], self._images[self._rising]
        slope = self.scale if len(knots) < 2 else float((knots[1] - knots[0]) / (images[1] - images[0]))
        above = np.maximum(z - images[-1], 0.0) * self.scale
        return np.interp(z, images, knots) + above + np.minimum(z - images[0], 0.0) * slope


def standardized(y: Floats) -> Transform:
    """Return the function that makes the average of values y (n,) 0 and their standard deviation 1.

    Values that differ by less than 1e-150 count as equal, with a warning if they are not: squares of such differences
    vanish.
    """
    differ = float(y.max() - y.min())
    if 0.0 < differ < LEAST:
        checks.warn(f"y: values that differ by {differ:.3g} are learned as equal; multiply them by a large number")
    scale = float(y.std()) if differ >= LEAST else 1.0
    return Transform(y.mean(keepdims=True), np.zeros(1), scale, scale)


def half_ranked(y: Floats, weights: Floats) -> Transform:
    """Return the transform of values y (n,), n >= 1, with positive weights (n,).

    If the better half of the values are equal, as of `standardized`, it is the standardisation.
    """
    from scipy.special import ndtri

    knots, inverse = np.unique(-y, return_inverse=True)  # distinct values, the largest first
    knots, sums = -knots, np.bincount(inverse, weights)
    above, half = np.cumsum(sums) - 0.5 * sums, 0.5 * sums.sum()
    above[np.abs(above - half) < 1e-12 * half] = half  # the middle value is the median, whatever the rounding
    shares, ranks = sums / sums.sum(), 0.5 * above / half
    median = float(np.interp(half, above, knots))
    better = knots >= median
    spread = float(np.sqrt(np.average((knots[better] - median) ** 2, weights=shares[better])))  # (1)
    if not spread >= LEAST:
        return standardized(y)
    bent = np.where(better, knots, median - spread * np.maximum(ndtri(ranks), 0.0))  # (2)
    center = float(shares @ bent)
    scale = float(np.sqrt(shares @ (bent - center) ** 2))  # (3)
    return Transform(knots[::-1], (bent[::-1] - center) / scale, scale)


class AroundLimit(Transform):
    """Increasing function (4) from y to z, linear near a limit and logarithmic far from it.

    Parameters
    ----------
    limit
        Limit, in units of y.
    spread
        Scale s, in units of y.
    center, deviation
        Average and standard deviation of asinh((y - limit) / s).
    """

    def __init__(self, limit: float, spread: float, center: float, deviation: float):
        self._limit, self._spread, self._center, self._deviation = limit, spread, center, deviation
        self.scale = spread * deviation  # at the limit

    def __call__(self, y: Floats) -> Floats:
        return (np.arcsinh((y - self._limit) / self._spread) - self._center) / self._deviation

    def inverse(self, z: Floats) -> Floats:
        return self._limit + self._spread * np.sinh(np.clip(self._center + self._deviation * z, -FARTHEST, FARTHEST))


def around_limit(y: Floats, limit: float, reach: float = 1.0) -> Transform:
    """Return the transform (4) of values y (n,), n >= 1; if they are equal, one that makes them 0.

    Parameters
    ----------
    y
        Values, in units of y.
    limit
        Limit, in units of y.
    reach
        Factor of the scale s.
    """
    distances = np.abs(y - limit)
    if np.median(distances) < LEAST:  # values at the limit are many, such as violations of 0
        distances = distances[distances >= LEAST]
    spread = reach * float(np.median(distances)) if len(distances) else 1.0
    bent = np.arcsinh((y - limit) / spread)
    deviation = float(bent.std())
    return AroundLimit(limit, spread, float(bent.mean()), deviation if deviation > 1e-9 else 1.0)
