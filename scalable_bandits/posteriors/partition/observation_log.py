"""What a partition was told."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.state import State, arrays
from scalable_bandits.spaces import Indices


class ObservationLog:
    """All observations, in the order of telling.

    Attributes
    ----------
    count : int
        How many.
    candidates, ys, noises : ndarray
        (count or more,) where, what, and with which noise variance.
    """

    def __init__(self) -> None:
        self.candidates, self.ys, self.noises = np.empty(64, np.int64), np.empty(64), np.empty(64)
        self.count = 0

    def add(self, candidate: int, y: float, noise_variance: float) -> int:
        """Take one in; its number."""
        number = self.count
        if number == len(self.ys):
            self.candidates, self.ys, self.noises = (
                np.concatenate([held, np.empty(max(number, 64), held.dtype)])
                for held in (self.candidates, self.ys, self.noises)
            )
        self.candidates[number], self.ys[number], self.noises[number] = candidate, y, noise_variance
        self.count += 1
        return number

    def at(self, number: int) -> tuple[int, float, float]:
        """One of them."""
        return int(self.candidates[number]), float(self.ys[number]), float(self.noises[number])

    def collapsed(self, numbers: Sequence[int]) -> tuple[Indices, Floats, Floats]:
        """Distinct points of some observations, their averages and the noise variances of these."""
        observed = CollapsedObservations()
        for i in numbers:
            observed.add(*self.at(i))
        return observed.collapsed()

    def state(self) -> State:
        """All of them, as arrays."""
        n = self.count
        return arrays(candidates=self.candidates[:n], ys=self.ys[:n], noises=self.noises[:n])

    def restore(self, state: State) -> None:
        """Know what `state` gave."""
        self.candidates, self.ys, self.noises = state["candidates"], state["ys"], state["noises"]
        self.count = len(self.ys)
