"""Log of a partition's observations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.state import State, Stateful, array
from scalable_bandits.spaces import Indices


class ObservationLog(Stateful):
    """All observations of a partition, in order.

    Attributes
    ----------
    count : int
        Number of observations.
    candidates, ys, noises : ndarray
        (count or more,) candidates, observed values and noise variances.
    """

    STATE = (
        array("candidates", "(count,)", np.int64, used="count"),
        array("ys", "(count,)", used="count"),
        array("noises", "(count,)", used="count"),
    )

    def __init__(self) -> None:
        self.count = 0
        self.candidates, self.ys, self.noises = np.zeros(64, np.int64), np.zeros(64), np.zeros(64)

    def _reserve(self, count: int) -> None:
        """Make room for a number of observations."""
        if count > len(self.ys):
            capacity = max(count, 2 * len(self.ys))
            for name in ("candidates", "ys", "noises"):
                setattr(self, name, np.resize(getattr(self, name), capacity))

    def before_restore(self, state: State) -> None:
        self.count = len(state["ys"])
        self._reserve(self.count)

    def add(self, candidate: int, y: float, noise_variance: float) -> int:
        """Append an observation and return its number."""
        number = self.count
        self._reserve(number + 1)
        self.candidates[number], self.ys[number], self.noises[number] = candidate, y, noise_variance
        self.count += 1
        return number

    def extend(self, candidates: Indices, ys: Floats, noise_variances: float | Floats) -> None:
        """Append observations (k,); their noise variances are (k,), or one for all."""
        stop = self.count + len(ys)
        self._reserve(stop)
        added = slice(self.count, stop)
        self.candidates[added], self.ys[added], self.noises[added] = candidates, ys, noise_variances
        self.count = stop

    def at(self, number: int) -> tuple[int, float, float]:
        """Return candidate, value and noise variance of an observation."""
        return int(self.candidates[number]), float(self.ys[number]), float(self.noises[number])

    def collapsed(self, numbers: Sequence[int]) -> tuple[Indices, Floats, Floats]:
        """Return the distinct points of some observations, averages, and the averages' noise variances, all (m,)."""
        observed, chosen = CollapsedObservations(), np.array(numbers, dtype=np.int64)
        observed.add_all(self.candidates[chosen], self.ys[chosen], self.noises[chosen])
        return observed.collapsed()

    def since(self, number: int) -> tuple[Indices, Floats, Floats]:
        """Return candidates, values and noise variances of the observations from a number on, three (k,) copies."""
        later = slice(number, self.count)
        return self.candidates[later].copy(), self.ys[later].copy(), self.noises[later].copy()
