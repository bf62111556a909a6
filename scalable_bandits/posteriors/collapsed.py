"""Observations collapsed by point, so that n distinct points cost what n observations cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.state import Stateful, value
from scalable_bandits.spaces import Indices


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

    def add_all(self, points: Indices, ys: Floats, noise_variance: float) -> None:
        """Add observations (k,) of points (k,), in this order, all of one noise variance."""
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
