"""Random search (uniform play), the baseline to which regrets are compared.

for t = 1, 2, ...:
    play x_t uniform on the available part of the space
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import attrs
import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.policies.base import Best, Observations, Policy
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.rounds import Columns
from scalable_bandits.posteriors.state import StateEntry, member
from scalable_bandits.randomness import generator, integers
from scalable_bandits.spaces import EVERYTHING, AvailabilitySets, Indices, Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class RandomSearch(Policy):
    """Uniform play on any space, with averages of the observations instead of a model.

    `posterior` returns average and standard error: NaN and infinity at points without observations.

    Parameters
    ----------
    kernel
        Kernel that is not used; accepted so that all policies take one.

    Other parameters are those of `Policy`.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (member("_observed"),)

    pools: ClassVar[bool] = True

    kernel: Any = attrs.field(kw_only=False, default=None, repr=False)
    _observed: CollapsedObservations = attrs.field(init=False, factory=CollapsedObservations, repr=False)

    def _takes_boxes(self) -> bool:
        return self.space.named or self.space.scanned or self.space.lattice is not None

    def choose(self, allowed: Mask | None = None) -> int | Floats:
        if self.space.scanned:
            return self._random_candidate(
                np.append(self._observed.collapsed()[0], self._pending.numbers).astype(np.int64)
            )
        return self.domain.draw_uniform(generator(self.seed, "draws", self.round), allowed, self._fixed)

    def _play(self, table: Floats, noise: Floats, available: AvailabilitySets = EVERYTHING) -> Columns | None:
        own = type(self).choose is RandomSearch.choose and type(self).learn is RandomSearch.learn
        if not own or self._pending.numbers or self._pending.excluded:
            return None
        columns = Columns.empty(len(noise))
        columns.candidates[:] = self._draws(len(noise), available)
        columns.ys[:] = table[columns.candidates] + noise
        columns.widths[:] = columns.gains[:] = math.nan
        self._observed.add_all(columns.candidates, columns.ys, self.regularization)
        self.rounds += len(noise)
        return columns

    def _draws(self, count: int, available: AvailabilitySets) -> Indices:
        """Return the numbers (count,) that `choose` draws in the next rounds."""
        first, numbers = self.rounds + 1, available.numbers
        if not len(numbers):
            return integers(self.seed, "draws", first, count, self.domain.choosable)
        sizes, drawn = np.diff(available.starts)[numbers], np.empty(count, dtype=np.int64)
        for size in np.unique(sizes).tolist():
            drawn[sizes == size] = integers(self.seed, "draws", first, count, size)[sizes == size]
        return available.candidates[available.starts[numbers] + drawn]

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        self._observed.add(candidate, y, noise_variance)

    def _learned_observations(self) -> Observations:
        candidates, averages, noise_variances = self._observed.collapsed()
        return Observations(self.domain.points(candidates), averages, noise_variances)

    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        mean, variance = np.array([self._average_at(point) for point in points]).T
        return mean, variance

    def _average_at(self, point: Floats) -> tuple[float, float]:
        try:
            candidate = int(self.domain.find(point[None])[0])
        except ValueError:  # not a candidate
            candidate = -1
        return self._observed.at(candidate)

    def recommend(self) -> Best:
        """Return the point of best average; ValueError before the first `tell`."""
        if not len(self._observed):
            raise ValueError("best: nothing has been told yet, and random search has no prior")
        candidates, averages, variances = self._observed.collapsed()
        i = int(np.argmax(averages))
        return Best(self.domain.value(int(candidates[i])), float(averages[i]), float(variances[i] ** 0.5))
