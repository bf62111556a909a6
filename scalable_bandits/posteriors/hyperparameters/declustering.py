"""Counts of neighbours, one over which observations are weighted, so that they count by the space around them.

Source: declustering, Isaaks & Srivastava 1989, chapter 10; here by a smooth count instead of cells.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import RBF

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
        near = np.empty((len(block), len(some)))
        kernel.fill(block, some, near)
        found[start : start + BLOCK] = near.sum(axis=1)
    return found
