"""Ripples of a function that a learned model has taken for noise.

Such a model learns as noise what changes over shorter distances than its points are apart: of a function with many
small maxima most of the variance, though its values are exact. Where points are near each other the two can be told
apart. Noise differs between two points however near they are; ripples do not.

    epsilon   noise variance: median of (z_i - z_j)^2 / 2, over the median of chi^2_1, of the closest pairs of points
    highest   noise variance that they allow with 95 % confidence: over what the median of as many values of chi^2_1
              exceeds with 95 %
    total     variance of ripples and noise: (median of |z_i - mu_i|, over that of |N(0, 1)|)^2, at most the learned
              noise variance; there are ripples if it is above the highest
    rho       variance of ripples: total - epsilon
    f(x_i)    mu_i + rho / (rho + epsilon / m_i) (z_i - mu_i) at a point with m_i measurements, of average z_i; mu_i
              where z_i is farther from it than three standard deviations, an outlier

Medians, since outliers of few values raise the learned noise too: then rho is small, and the mean stays as it is.
"""

from __future__ import annotations

import math

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Indices

PAIRS, LEAST = 31, 3  # largest number of closest pairs that are compared, and the least that tell anything; odd
RISK = 0.05  # probability that noise alone is more than the pairs seem to allow, and counts as ripples
NEAR = 0.01  # distance, in sides of the space, at which two points are near each other
DEVIATION = 0.6744897501960817  # median of |N(0, 1)|; that of chi^2_1 is its square
FAR = 3.0  # distance of an outlier from the mean, in standard deviations


def with_ripples(points: Floats, z: Floats, counts: Indices, means: Floats, noise: float) -> Floats | None:
    """Return estimates (n,) of f at measured points; None where nothing is seen of ripples.

    Parameters
    ----------
    points
        Distinct points (n, d), in sides of the space.
    z, counts
        Averages (n,) of the values at the points, and numbers (n,) of values.
    means
        Posterior means (n,), which take ripples for noise.
    noise
        Learned noise variance of a value.
    """
    from scipy import special  # imported where they are needed: they take a while
    from scipy.spatial import KDTree

    if len(z) <= LEAST:
        return None
    distances, others = map(np.asarray, KDTree(points).query(points, k=[2], p=math.inf))  # the first is itself
    pairs = np.sort(np.column_stack([np.arange(len(z)), others]), axis=1)
    pairs, first = np.unique(pairs, axis=0, return_index=True)
    apart = distances[first, 0]
    closest = np.argsort(apart, kind="stable")[:PAIRS]
    near = int(np.count_nonzero(apart[closest] < NEAR))
    if near < LEAST:
        return None
    near -= 1 - near % 2  # an odd number
    one, other = pairs[closest[:near]].T
    half = 0.5 * (near + 1)
    low = special.ndtri(0.5 + 0.5 * special.betaincinv(half, half, RISK)) ** 2
    between = 0.5 * float(np.median((z[one] - z[other]) ** 2))
    away = z - means
    total = min((float(np.median(np.abs(away))) / DEVIATION) ** 2, noise)
    if total <= between / low:
        return None
    epsilon = between / DEVIATION**2
    rho = total - epsilon
    likely = np.abs(away) <= FAR * math.sqrt(total)
    return np.asarray(means + np.where(likely, rho / (rho + epsilon / counts) * away, 0.0))
