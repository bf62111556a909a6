"""Log of a partition's observations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.state import State, Stateful, array
from scalable_bandits.spaces import Indices

FIRST_CAPACITY = 64  # number of observations that fit at first; doubled as the log grows


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
        self._allocate(FIRST_CAPACITY)

    def _allocate(self, capacity: int) -> None:
        self.candidates, self.ys, self.noises = np.empty(capacity, np.int64), np.empty(capacity), np.empty(capacity)

    def before_restore(self, state: State) -> None:
        self.count = len(state["ys"])
        if self.count > len(self.ys):
            self._allocate(self.count)

    def add(self, candidate: int, y: float, noise_variance: float) -> int:
        """Append an observation and return its number."""
        number = self.count
        if number == len(self.ys):
            state = self.state()
            self._allocate(2 * number)
            self.restore(state)
        self.candidates[number], self.ys[number], self.noises[number] = candidate, y, noise_variance
        self.count += 1
        return number

    def extend(self, candidates: Indices, ys: Floats, noise_variance: float) -> None:
        """Append observations (k,), all of one noise variance."""
        stop = self.count + len(ys)
        if stop > len(self.ys):
            state = self.state()
            self._allocate(max(stop, 2 * self.count))
            self.restore(state)
        added = slice(self.count, stop)
        self.candidates[added], self.ys[added], self.noises[added] = candidates, ys, noise_variance
        self.count = stop

    def at(self, number: int) -> tuple[int, float, float]:
        """Return candidate, value and noise variance of an observation."""
        return int(self.candidates[number]), float(self.ys[number]), float(self.noises[number])

    def collapsed(self, numbers: Sequence[int]) -> tuple[Indices, Floats, Floats]:
        """Return the distinct points of some observations, averages, and the averages' noise variances, all (m,)."""
        observed = CollapsedObservations()
        for i in numbers:
            observed.add(*self.at(i))
        return observed.collapsed()

    def since(self, number: int) -> tuple[Indices, Floats, Floats]:
        """Return candidates, values and noise variances of the observations from a number on, three (k,) copies."""
        later = slice(number, self.count)
        return self.candidates[later].copy(), self.ys[later].copy(), self.noises[later].copy()
