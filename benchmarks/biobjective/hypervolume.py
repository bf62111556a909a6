"""Hypervolume of points with two objectives, exact, and the indicator of COCO that continues it below 0.

Source of the indicator: Brockhoff, Tusar, Tusar, Wagner, Hansen & Auger 2016, "Biobjective performance assessment with
the COCO platform", section 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits.checks import Floats


def front_of(points: ArrayLike) -> Floats:
    """Return the points (m, 2) that no other one dominates, by rising first objective, each once.

    Parameters
    ----------
    points
        Objectives (n, 2), which are minimised.
    """
    values = np.asarray(points, dtype=float).reshape(-1, 2)
    values = values[np.lexsort((values[:, 1], values[:, 0]))]
    below = np.minimum.accumulate(np.concatenate([[np.inf], values[:, 1]]))[:-1]  # best second objective before each
    return values[values[:, 1] < below]


def hypervolume(points: ArrayLike, reference: ArrayLike) -> float:
    """Return the area that the points dominate and that dominates the reference point.

    Parameters
    ----------
    points
        Objectives (n, 2), which are minimised.
    reference
        Reference point (2,).
    """
    values, (right, top) = np.asarray(points, dtype=float).reshape(-1, 2), np.asarray(reference, dtype=float)
    front = front_of(values[(values[:, 0] < right) & (values[:, 1] < top)])
    widths = np.diff(front[:, 0], append=right)  # each point dominates a column up to the next one
    return float(np.sum(widths * (top - front[:, 1])))


def indicator(points: ArrayLike, ideal: ArrayLike, reference: ArrayLike) -> float:
    """Return the share of the box between ideal and reference point that is dominated; larger is better.

    Without a point that dominates the reference point: minus the smallest distance of a point to those that do. Lengths
    are in units of the sides of the box.

    Parameters
    ----------
    points
        Objectives (n, 2), which are minimised; at least one point.
    ideal, reference
        Ideal point (2,), the smallest value of each objective; reference point (2,).
    """
    low, high = np.asarray(ideal, dtype=float), np.asarray(reference, dtype=float)
    scaled = (np.asarray(points, dtype=float).reshape(-1, 2) - low) / (high - low)
    dominated = hypervolume(scaled, (1.0, 1.0))
    return dominated or -float(np.linalg.norm(np.maximum(scaled - 1.0, 0.0), axis=1).min())
