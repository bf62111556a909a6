"""Base class of the policies that learn each arm by itself, without a model of the space."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies.arm_statistics import ArmStatistics, Turns
from scalable_bandits.policies.base import Best, Observations, Policy
from scalable_bandits.posteriors.state import StateEntry, member
from scalable_bandits.spaces import Indices, Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class ArmPolicy(Policy):
    """Base class of policies that learn each arm of a finite space by itself.

    Candidates at one point are one arm. An observation with a noise of its own counts by its variance.

    Parameters
    ----------
    kernel
        Kernel that is not used; accepted so that all policies take one.

    Other parameters are those of `Policy`.

    Raises
    ------
    ValueError
        If the space is not finite.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (member("_arms"),)

    kernel: Any = attrs.field(kw_only=False, default=None, repr=False)
    _arms: ArmStatistics = attrs.field(init=False, repr=False)
    _first: Indices | None = attrs.field(init=False, default=None, repr=False)  # (n,) first candidate at each point

    def __attrs_post_init__(self) -> None:
        if self.space.finite is None:
            allowed = "Settings(space), which lists its settings" if self.space.named else "such as Grid or Points"
            checks.refuse("space", self.space, f"a finite space for {type(self).__name__}, {allowed}")
        super().__attrs_post_init__()
        if not self.space.finite.distinct:
            self._first = np.array([self.domain.canonical(i) for i in range(self.domain.size)])
        self._arms = ArmStatistics(self.domain.size, self.regularization, *self.prior())

    def prior(self) -> tuple[float, float]:
        """Return oriented value and weight of the prior's observation of each arm; weight 0 for no prior."""
        return 0.0, 0.0

    def arms(self, allowed: Mask | None) -> Mask | None:
        """Return the mask (n,) of the arms at allowed candidates, (n,) or all: the first candidate at each point."""
        if self._first is None:
            return allowed
        mask = np.zeros(len(self._first), dtype=np.bool_)
        mask[self._first if allowed is None else self._first[allowed]] = True
        return mask

    def turns(self) -> Turns:
        """Return numbers of plays, all zero, of all arms."""
        arms = np.arange(self.domain.size) if self._first is None else np.unique(self._first)
        return Turns(arms, self.domain.size, self.seed)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        self._arms.add(candidate, y, self.regularization / noise_variance)

    def learned_observations(self) -> Observations:
        arms = self._arms.observed()
        weights = self._arms.weights[arms]
        return Observations(self._domain.points(arms), self._arms.sums[arms] / weights, self.regularization / weights)

    def posterior(self, x: ArrayLike) -> tuple[Any, Any]:
        """Return average and standard error at x, (d,) or (k, d), with the prior if there is one.

        They are NaN and infinity without observations and prior, and at points that are no candidates.
        """
        return super().posterior(x)

    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        try:
            arms = self._domain.find(points)
        except ValueError:  # some are no candidates
            arms = np.array([self._find(point) for point in points])
        known = (arms >= 0) & ~np.isnan(self._arms.means[arms])
        mean, variance = np.full(len(arms), np.nan), np.full(len(arms), np.inf)
        mean[known] = self._arms.means[arms[known]]
        variance[known] = self._arms.stds[arms[known]] ** 2
        return mean, variance

    def _find(self, point: Floats) -> int:
        """Return the number of the arm at a point (d,); -1 if there is none."""
        try:
            return int(self._domain.find(point[None])[0])
        except ValueError:
            return -1

    def recommended(self) -> Indices:
        """Return the numbers (k,) of the arms of which the recommendation is one: those with observations."""
        return self._arms.observed()

    def recommend(self) -> Best:
        """Return the arm of best average; ValueError before the first `tell`, unless there is a prior."""
        arms = self.recommended()
        if not len(arms):
            if not self._arms.prior_weight:
                raise ValueError(f"best: nothing has been told yet, and {type(self).__name__} has no prior")
            arms = np.arange(self._domain.size)
        best = int(arms[np.argmax(self._arms.means[arms])])
        return Best(self._domain.value(best), float(self._arms.means[best]), float(self._arms.stds[best]))
