"""Observations collapsed by point, so that n distinct points cost what n observations cost.

Averages are all that the posterior needs. The likelihood of a noise variance that is learned needs the scatter around
them too: with observations y_ij = f_i + noise of variance s^2 v_ij, averages a_i with 1 / V_i = sum over j of 1 / v_ij,
n observations and m distinct points,

    prod_ij N(y_ij; f_i, s^2 v_ij) = prod_i N(a_i; f_i, s^2 V_i)
                                     * (2 pi s^2)^(-(n - m) / 2) exp(-S / (2 s^2)) prod_i sqrt(V_i / prod_j v_ij)
    S = sum over i, j of (y_ij - a_i)^2 / v_ij
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.state import Stateful, value
from scalable_bandits.spaces import Indices


class Scatter(NamedTuple):
    """Observations around the averages of their points: the second factor above."""

    repeats: int = 0  # n - m
    squares: float = 0.0  # S
    constant: float = 0.0  # logarithm of the factor for s = 1, without S

    def log_density(self, variance: float) -> tuple[float, float]:
        """Return the logarithm of the factor for a noise variance s^2, and its derivative in log s^2."""
        half = 0.5 * self.squares / variance
        return self.constant - 0.5 * self.repeats * math.log(variance) - half, half - 0.5 * self.repeats


def averaged(points: Indices, y: Floats, variances: Floats) -> tuple[Indices, Floats, Floats, Scatter]:
    """Average observations by point.

    Parameters
    ----------
    points
        (n,) points by number.
    y
        (n,) observed values, in units of y.
    variances
        (n,) noise variances, in squared units of y or as multiples of one that is unknown.

    Returns
    -------
    points : ndarray
        (m,) distinct points, in the order of their first observations.
    averages, variances : ndarray
        (m,) averages, each value with weight one over its noise variance, and the averages' noise variances.
    scatter : Scatter
        The observations around their averages.
    """
    distinct, first, where = np.unique(points, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    where = place[where]
    precisions = np.bincount(where, 1.0 / variances)
    averages = np.bincount(where, y / variances) / precisions
    squares = float(np.sum((y - averages[where]) ** 2 / variances))
    repeats = len(y) - len(order)
    constant = -0.5 * (repeats * math.log(2.0 * math.pi) + float(np.log(precisions).sum() + np.log(variances).sum()))
    return distinct[order], averages, 1.0 / precisions, Scatter(repeats, squares, constant)


class CollapsedObservations(Stateful):
    """Precision-weighted average of y at each distinct point, in the order of the points' first observations.

    The posterior given the averages, with one over the summed precisions as their noise variances, is the posterior
    given all observations; the information gain is the same too.
    """

    def __init__(self) -> None:
        self._sums: dict[int, tuple[float, float]] = {}  # by point: precision, precision-weighted sum of y

    def __len__(self) -> int:
        return len(self._sums)

    def __contains__(self, point: int) -> bool:
        return point in self._sums

    def add(self, point: int, y: float, noise_variance: float) -> None:
        """Add an observation of y at a point, by number."""
        precision, weighted = self._sums.get(point, (0.0, 0.0))
        self._sums[point] = (precision + 1.0 / noise_variance, weighted + y / noise_variance)

    def plus(self, point: int, y: float, noise_variance: float) -> CollapsedObservations:
        """Return a copy with another observation of y at a point."""
        found = CollapsedObservations()
        found._sums = self._sums.copy()
        found.add(point, y, noise_variance)
        return found

    def add_all(self, points: Indices, ys: Floats, noise_variance: float | Floats) -> None:
        """Add observations (k,) of points (k,), in this order; their noise variances are (k,), or one for all."""
        distinct, first, inverse = np.unique(points, return_index=True, return_inverse=True)
        for point in distinct[np.argsort(first)].tolist():
            self._sums.setdefault(point, (0.0, 0.0))
        precisions, weighted = np.array([self._sums[point] for point in distinct.tolist()]).reshape(-1, 2).T.copy()
        np.add.at(precisions, inverse, 1.0 / noise_variance)  # one after the other, so that rounding is that of `add`
        np.add.at(weighted, inverse, ys / noise_variance)
        self._sums.update(zip(distinct.tolist(), zip(precisions.tolist(), weighted.tolist(), strict=True), strict=True))

    def revise(self, points: Sequence[int], changes: Sequence[float]) -> None:
        """Add changes to the precision-weighted sums at points; the precisions stay."""
        for point, change in zip(points, changes, strict=True):
            precision, weighted = self._sums[point]
            self._sums[point] = (precision, weighted + change)

    def at(self, point: int) -> tuple[float, float]:
        """Return the average at one point and its noise variance; NaN and infinity without observations."""
        precision, weighted = self._sums.get(point, (0.0, 0.0))
        return (weighted / precision, 1.0 / precision) if precision else (float("nan"), float("inf"))

    def collapsed(self) -> tuple[Indices, Floats, Floats]:
        """Return the distinct points, their averages and the averages' noise variances: three (m,) arrays."""
        precision, weighted = self._sum_array().T
        return self._points(), weighted / precision, 1.0 / precision

    def _points(self) -> Indices:
        return np.fromiter(self._sums, dtype=np.int64, count=len(self._sums))

    def _restore_points(self, points: Indices) -> None:
        self._sums = dict.fromkeys(points.tolist(), (0.0, 0.0))

    def _sum_array(self) -> Floats:
        return np.array(list(self._sums.values())).reshape(-1, 2)

    def _restore_sums(self, sums: Floats) -> None:
        self._sums = dict(zip(self._sums, zip(*sums.T.tolist(), strict=True), strict=True))

    STATE = (
        value("points", "(m,)", np.int64, _points, _restore_points),
        value("sums", "(m, 2)", np.float64, _sum_array, _restore_sums),
    )
