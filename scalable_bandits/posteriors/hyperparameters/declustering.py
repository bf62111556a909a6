"""Counts of neighbours, one over which observations are weighted, so that they count by the space around them.

Source: declustering, Isaaks & Srivastava 1989, chapter 10; here by a smooth count instead of cells.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import RBF
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import LogNormal
from scalable_bandits.posteriors.regression import covariances

NEAR = 0.5  # lengthscale of the RBF kernel that counts neighbours, in median lengthscales
BLOCK = 2000  # number of points whose neighbours are counted together


def neighbours(points: Floats, lengthscales: ArrayLike, most: int) -> Floats:
    """Return the numbers (n,) of points near each of some points (n, d), itself included.

    Parameters
    ----------
    points
        Points (n, d).
    lengthscales
        Median lengthscale, or (d,) lengthscales, in units of the points.
    most
        Number of points among which neighbours are counted, spread evenly over the order, if there are more.
    """
    kernel, found = RBF(NEAR * np.asarray(lengthscales)), np.empty(len(points))
    some = points[np.linspace(0, len(points) - 1, min(len(points), most)).astype(np.int64)]
    for start in range(0, len(points), BLOCK):
        block = points[start : start + BLOCK]
        found[start : start + BLOCK] = covariances(kernel, block, some).sum(axis=1)
    return found


def variance_over_space(points: Floats, values: Floats, lengthscales: LogNormal | None) -> float:
    """Compute the variance of values, each weighted by one over the number of points near it.

    Parameters
    ----------
    points
        (m, d) points.
    values
        (m,) values, in units of y.
    lengthscales
        Prior whose median is the distance at which points are near; None: only equal points are near.

    Returns
    -------
    float
        Variance in squared units of y; unbiased for independent values at points far from each other.
    """
    if len(values) < 2:
        return 0.0
    if lengthscales is None:
        near = (points[:, None] == points).all(axis=2).astype(np.float64).sum(axis=1)
    else:
        near = neighbours(points, lengthscales.median, len(points))
    weights = 1.0 / near
    weights /= weights.sum()
    away = values - weights @ values
    return float(weights @ away**2) / (1.0 - float(weights @ weights))
