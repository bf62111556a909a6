"""Base class of the policies that learn each arm by itself, without a model of the space; statistics of the arms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies.base import Best, Observations, Policy
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.posteriors.state import StateEntry, Stateful, array, member, number
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Indices, Mask

REJECTED, UNAVAILABLE = 2**61, 2**62  # more plays than any arm has


class ArmStatistics(Stateful):
    """Weighted average of the observations of each of n arms, in arrays by arm number.

    The weight of an observation is lambda / v for noise variance v: 1 for a usual one. A prior is one more observation
    of every arm, of a weight of its own.

    Parameters
    ----------
    size
        Number of arms n.
    noise_variance
        Noise variance lambda of an observation of weight 1, in squared units of y.
    prior_mean
        Value of the prior's observation, in units of y.
    prior_weight
        Weight of the prior's observation; 0 for no prior.

    Attributes
    ----------
    weights, sums : ndarray
        Sums (n,) of the weights and of the weighted values, in units of y, of the observations without the prior.
    means : ndarray
        Averages (n,) with the prior, in units of y; NaN without observations and prior.
    stds : ndarray
        Standard deviations (n,) of the averages, in units of y; NaN without observations and prior.
    """

    STATE = (array("weights", "(n,)"), array("sums", "(n,)"))

    def __init__(self, size: int, noise_variance: float, prior_mean: float = 0.0, prior_weight: float = 0.0):
        self.noise_variance, self.prior_mean, self.prior_weight = noise_variance, prior_mean, prior_weight
        self.weights, self.sums = np.zeros((2, size))
        self.after_restore()

    def after_restore(self) -> None:
        self.means, self.stds = np.full((2, len(self.weights)), np.nan)
        self._update(np.flatnonzero(self.weights + self.prior_weight))

    def _update(self, arms: Any) -> None:
        """Compute averages and their standard deviations of an arm, or of arms (k,), by number."""
        weights = self.weights[arms] + self.prior_weight
        self.means[arms] = (self.prior_weight * self.prior_mean + self.sums[arms]) / weights
        self.stds[arms] = np.sqrt(self.noise_variance / weights)

    def add(self, arm: int, y: float, weight: float) -> None:
        """Add an observation of y at an arm, by number."""
        self.weights[arm] += weight
        self.sums[arm] += weight * y
        self._update(arm)

    def stds_with(self, pending: Sequence[int]) -> Floats:
        """Return `stds` (n,) as if pending arms, by number, were observed at their averages, with weight 1 each."""
        if not pending:
            return self.stds
        arms, counts = np.unique(pending, return_counts=True)
        stds = self.stds.copy()
        stds[arms] = np.sqrt(self.noise_variance / (self.weights[arms] + self.prior_weight + counts))
        return stds

    def observed(self) -> Indices:
        """Return the numbers (k,) of the arms with observations."""
        return np.flatnonzero(self.weights)


class Turns(Stateful):
    """Numbers of plays of n arms, of which the least played comes next, in a seeded order.

    Parameters
    ----------
    arms
        Numbers (k,) of the arms that may be played.
    size
        Number n of all arms.
    seed
        Seed of the order.

    Attributes
    ----------
    left : int
        Number of arms that have not been removed.
    """

    STATE = (array("_plays", "(n,)", np.int64), number("left", int))

    def __init__(self, arms: Indices, size: int, seed: int):
        self._order = generator(seed, "order of arms").permutation(size)
        self._place = np.argsort(self._order)
        self._plays = np.full(size, REJECTED, dtype=np.int64)  # in this order, so that the first minimum is next
        self._plays[self._place[arms]] = 0
        self.left = len(arms)

    def add(self, arm: int) -> None:
        """Count a play of an arm, by number."""
        self._plays[self._place[arm]] += 1

    def remaining(self) -> Indices:
        """Return the numbers (left,) of the arms that have not been removed, in the seeded order."""
        return self._order[self._plays < REJECTED]

    def remove(self, arms: Indices) -> None:
        """Remove arms (k,), by number."""
        self._plays[self._place[arms]] += REJECTED
        self.left -= len(arms)

    def least(self, allowed: Mask | None = None, pending: Sequence[int] = ()) -> tuple[int, int]:
        """Return the least played arm of a mask (n,) or of all, and its plays; pending arms count as played.

        The number of plays is `REJECTED` or more if every allowed arm has been removed.
        """
        plays = self._plays
        if allowed is not None or pending:
            plays = plays.copy()
            np.add.at(plays, self._place[list(pending)], 1)
        if allowed is not None:
            plays[~allowed[self._order]] = UNAVAILABLE
        place = int(plays.argmin())
        return int(self._order[place]), int(plays[place])


@attrs.define(eq=False, kw_only=True, slots=False)
class ArmPolicy(Policy):
    """Base class of policies that learn each arm of a finite space by itself.

    Candidates at one point are one arm. An observation with a noise of its own counts by its variance. `posterior`
    returns average and standard error, with the prior if there is one: NaN and infinity without observations and prior,
    and at points that are no candidates.

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

    STATE: ClassVar[tuple[StateEntry, ...]] = (member("_arms"), member("_turns"))

    kernel: Any = attrs.field(kw_only=False, default=None, repr=False)
    _arms: ArmStatistics = attrs.field(init=False, repr=False)
    _turns: Turns = attrs.field(init=False, repr=False)
    _first: Indices | None = attrs.field(init=False, default=None, repr=False)  # (n,) first candidate at each point

    def __attrs_post_init__(self) -> None:
        if self.space.finite is None:
            allowed = "Settings(space), which lists its settings" if self.space.named else "such as Grid or Points"
            checks.refuse("space", self.space, f"a finite space for {type(self).__name__}, {allowed}")
        super().__attrs_post_init__()
        if not self.space.finite.distinct:
            self._first = np.array([self.space.finite.canonical(i) for i in range(self.domain.size)])
        arms = np.arange(self.domain.size) if self._first is None else np.unique(self._first)
        self._arms = ArmStatistics(self.domain.size, self.regularization, *self.prior())
        self._turns = Turns(arms, self.domain.size, self.seed)

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

    def highest(self, index: Floats, allowed: Mask | None, least: int) -> int:
        """Return the arm of largest index (n,) among those at a mask (n,) or all; `least` if it is NaN at all of them.

        NaN is the index of an arm without observations, which may be pending for the first time.
        """
        known = ~np.isnan(index) if allowed is None else allowed & ~np.isnan(index)
        return choose(index, self._salt, known)[0] if known.any() else least

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        self._arms.add(candidate, y, self.regularization / noise_variance)
        self._turns.add(candidate)

    def _learned_observations(self) -> Observations:
        arms = self._arms.observed()
        weights = self._arms.weights[arms]
        return Observations(self.domain.points(arms), self._arms.sums[arms] / weights, self.regularization / weights)

    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        arms = self.domain.find(points)
        known = (arms >= 0) & ~np.isnan(self._arms.means[arms])
        return np.where(known, self._arms.means[arms], np.nan), np.where(known, self._arms.stds[arms] ** 2, np.inf)

    def recommended(self) -> Indices:
        """Return the numbers (k,) of the arms of which the recommendation is one: those with observations."""
        return self._arms.observed()

    def recommend(self) -> Best:
        """Return the arm of best average; ValueError before the first `tell`, unless there is a prior."""
        arms = self.recommended()
        if not len(arms):
            if not self._arms.prior_weight:
                raise ValueError(f"best: nothing has been told yet, and {type(self).__name__} has no prior")
            arms = np.arange(self.domain.size)
        best = int(arms[np.argmax(self._arms.means[arms])])
        return Best(self.domain.value(best), float(self._arms.means[best]), float(self._arms.stds[best]))
