"""Posterior deviations given the points of a batch, whose values are not needed."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.engine import Engine
from scalable_bandits.posteriors.lazy import LazyModel
from scalable_bandits.posteriors.model import DEVIATION
from scalable_bandits.posteriors.state import Field, Stateful, group, member, number
from scalable_bandits.spaces import Indices, Mask


class BatchPoints(Stateful):
    """Model of the points of a batch: those observed, pending, or excluded after a failure.

    Parameters
    ----------
    model
        Model without observations. Only its variances are used: it is given 0 for every value of y.
    shrinkage
        Factor C of `RepeatedChoice`, by which deviations may shrink before another point is chosen; 1: each point is
        chosen by itself.
    """

    STATE: ClassVar[tuple[Field, ...]] = (
        member("model", prefix=False),
        group("engine", lambda self: self.engine.state(), lambda self, state: self.model.restore_engine(state)),
        number("pending", int),
        number("_excluded", int),
        number("_present", int),
        number("_more", int),
    )

    def __init__(self, model: LazyModel, shrinkage: float):
        self.model, self._shrinkage = model, shrinkage
        self.pending = 0  # number of the pending points that are among the points
        self._excluded = 0  # number of the excluded ones
        self._present, self._more = -1, 0  # point chosen last, and how often it will be asked for again

    @property
    def engine(self) -> Engine:
        """Engine of the model."""
        return self.model.engine

    def largest(self, salt: int, allowed: Mask | None) -> int:
        """Return the candidate of largest deviation among those of a mask (n,); ties are broken by a seeded hash."""
        with self._complete_or_dropped():
            return self.engine.maximize(DEVIATION, salt, allowed)[0]

    @contextmanager
    def _complete_or_dropped(self) -> Iterator[None]:
        """Drop the engine on lost workers or Ctrl-C: it may have half of a point."""
        try:
            yield
        except BaseException:
            self.model.drop_engine()
            raise

    def unfinished(self) -> int | None:
        """Return the point that was chosen to be played again next; None without one."""
        return self._present if self._more else None

    def up_to_date(self, pending: Sequence[int], excluded: Sequence[int]) -> bool:
        """Return whether no point has been removed: the pending ones are those known, and perhaps later ones."""
        return len(pending) >= self.pending and len(excluded) == self._excluded

    def add_pending(self, pending: Sequence[int], rounds: int) -> None:
        """Add the pending points that were asked for since the last call.

        Parameters
        ----------
        pending
            Numbers of all pending points, in the order of asking.
        rounds
            Number of rounds of the batch that are left to points not yet added.
        """
        for candidate in pending[self.pending :]:
            self.add(candidate, self.model.regularization, rounds)
            self.pending, rounds = self.pending + 1, rounds - 1

    def add(self, candidate: int, noise_variance: float, rounds: int = 1) -> None:
        """Add a point, with its repetitions in the rounds (at least 1) that are left."""
        if self._more and candidate == self._present:
            self._more -= 1
            return
        with self._complete_or_dropped():
            plays = self._plays_of(candidate, noise_variance, rounds)
            self.model.observe(candidate, 0.0, noise_variance / plays)
        self._present, self._more = candidate, plays - 1

    def add_observed(self, observations: CollapsedObservations) -> None:
        """Add observed points, whatever their values."""
        points, _, noise_variances = observations.collapsed()
        for point, variance in zip(points.tolist(), noise_variances.tolist(), strict=True):
            self.model.observe(point, 0.0, variance)

    def add_excluded(self, excluded: Sequence[int]) -> None:
        """Add the excluded points, to points that have none yet."""
        for candidate in excluded:
            self.model.observe(candidate, 0.0, self.model.regularization)
        self._excluded = len(excluded)

    def _plays_of(self, candidate: int, noise_variance: float, rounds: int) -> int:
        """Return how often a point is played if it is chosen now: max(1, floor((C^2 - 1) lambda / s^2))."""
        if self._shrinkage == 1.0:
            return 1
        _, variance = self.engine.at(np.array([candidate]))
        plays = (self._shrinkage**2 - 1.0) * noise_variance / max(float(variance[0]), sys.float_info.min)
        return max(1, min(rounds, math.floor(min(plays, 2.0**53))))

    def are_those_of(self, observations: CollapsedObservations) -> bool:
        """Return whether the points, with their noise variances, are those of some observations."""
        points, noise_variances = _ascending(self.model.observations)
        theirs, their_variances = _ascending(observations)
        return np.array_equal(points, theirs) and np.allclose(noise_variances, their_variances, rtol=1e-9, atol=0.0)


def _ascending(observations: CollapsedObservations) -> tuple[Indices, Floats]:
    """Return distinct points in ascending order, and their noise variances: two (m,) arrays."""
    points, _, noise_variances = observations.collapsed()
    order = np.argsort(points)
    return points[order], noise_variances[order]
