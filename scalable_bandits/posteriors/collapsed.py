"""Observations collapsed by point: n distinct points cost what n observations cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.state import State
from scalable_bandits.spaces import Indices


class CollapsedObservations:
    """Precision-weighted average of y at each distinct point, in the order in which the points came.

    The posterior given the averages, with one over the summed precisions as their noise variances, is the posterior
    given all observations; the information gain is the same too.
    """

    def __init__(self) -> None:
        self._sums: dict[int, tuple[float, float]] = {}  # precision, precision-weighted sum of y

    def __len__(self) -> int:
        return len(self._sums)

    def __contains__(self, point: int) -> bool:
        return point in self._sums

    def add(self, point: int, y: float, noise_variance: float) -> None:
        """Take in an observation of y at a point, by number."""
        precision, weighted = self._sums.get(point, (0.0, 0.0))
        self._sums[point] = (precision + 1.0 / noise_variance, weighted + y / noise_variance)

    def revise(self, points: Sequence[int], changes: Sequence[float]) -> None:
        """Add to the precision-weighted sums at points: their values, not their noise, were others."""
        for point, change in zip(points, changes, strict=True):
            precision, weighted = self._sums[point]
            self._sums[point] = (precision, weighted + change)

    def at(self, point: int) -> tuple[float, float]:
        """Average and its noise variance at one point; NaN and infinity where nothing was observed."""
        precision, weighted = self._sums.get(point, (0.0, 0.0))
        return (weighted / precision, 1.0 / precision) if precision else (float("nan"), float("inf"))

    def state(self) -> State:
        """All that is held, as arrays."""
        sums = np.array(list(self._sums.values())).reshape(-1, 2)
        return {"points": np.fromiter(self._sums, dtype=np.int64, count=len(self._sums)), "sums": sums}

    def restore(self, state: State) -> None:
        """Hold what `state` gave."""
        sums = zip(state["sums"][:, 0].tolist(), state["sums"][:, 1].tolist(), strict=True)
        self._sums = dict(zip(state["points"].tolist(), sums, strict=True))

    def collapsed(self) -> tuple[Indices, Floats, Floats]:
        """Distinct points, averages and their noise variances: three (m,) arrays."""
        points = np.fromiter(self._sums, dtype=np.int64, count=len(self._sums))
        precision, weighted = np.array(list(self._sums.values())).reshape(-1, 2).T
        return points, weighted / precision, 1.0 / precision
