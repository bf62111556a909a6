"""Posterior deviations given the points of a batch, whose values are not needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.formulas.whole import number_of_plays
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.models.model import DEVIATION, LazyModel
from scalable_bandits.posteriors.state import StateEntry, Stateful, group, member, number
from scalable_bandits.spaces import Indices, Mask


class BatchPoints(Stateful):
    """Model of the points of a batch: those observed, pending, or excluded after a failure.

    Plays of one point in succession reach the engine at once, as one of their average, when another point is added or
    chosen. A pending play has the noise variance lambda, and an observed one its own.

    Parameters
    ----------
    model
        Model without observations. Only its variances are used: it is given 0 for every value of y.
    shrinkage
        Factor C of `RepeatedChoice`, by which deviations may shrink before another point is chosen; 1: each point is
        chosen by itself.

    Attributes
    ----------
    pending : int
        Number of the pending points that are among the points.
    stale : bool
        Whether the points have to be added anew: one that the engine has as pending was observed with another noise, or
        a change was interrupted.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        member("model", prefix=False),
        group("engine", lambda self: self.model.engine.state(), lambda self, state: self.model.restore_engine(state)),
        number("pending", int),
        number("_excluded", int),
        number("_present", int),
        number("_more", int),
        number("_last", int),
        number("_precision", float),
        number("_waiting", int),
    )

    def __init__(self, model: LazyModel, shrinkage: float):
        self.model, self._shrinkage = model, shrinkage
        self.pending, self.stale = 0, False
        self._excluded = 0  # number of the excluded ones
        self._present, self._more = -1, 0  # point chosen last, and how often it will be asked for again
        self._last, self._precision, self._waiting = -1, 0.0, 0  # point added last; what the engine lacks of its plays
        self._before: float | None = None  # variance of that point in the engine, once it is known

    @property
    def information_gain(self) -> float:
        """Realised information gain (nats) of all points."""
        gain, lacking = self.model.information_gain, self._lacking
        if lacking and self._before is None:
            self._before = self._variance_of(self._last)
        # By the expression of the engines, to the last bit.
        return gain if self._before is None else gain + 0.5 * math.log1p(self._before / (1.0 / lacking))

    def largest(self, salt: int, allowed: Mask | None) -> int:
        """Return the candidate of largest deviation among those of a mask (n,); ties are broken by a seeded hash."""
        self._settle()
        return self.model.engine.argmax(DEVIATION, salt, allowed)[0]

    @property
    def all_observed(self) -> bool:
        """Whether all points were observed, and with the noise variances that the engine has."""
        return not (self.pending or self._excluded or self.stale)

    def variances(self, candidates: Indices) -> Floats:
        """Return the variances (k,) of candidates (k,), given all points."""
        self._settle()
        return self.model.engine.at(candidates)[1]

    def unfinished(self) -> int | None:
        """Return the point that was chosen to be played again next; None without one."""
        return self._present if self._more else None

    def up_to_date(self, pending: Sequence[int], excluded: Sequence[int]) -> bool:
        """Return whether no point has been removed: the pending ones are those known, and perhaps later ones."""
        return len(pending) >= self.pending and len(excluded) == self._excluded

    # ---- points

    def play(self, candidate: int) -> None:
        """Add a pending play of a chosen point: one of those planned, or the first of a new choice."""
        if not (self._more and candidate == self._present):
            self._settle()
            self._present, self._more = candidate, self._plays_of(candidate)
        self.wait(candidate)
        self._more -= 1

    def wait(self, candidate: int) -> None:
        """Add a pending play of a point, without planning others."""
        self._move_to(candidate)
        self.pending, self._waiting = self.pending + 1, self._waiting + 1

    def told(self, candidate: int, noise_variance: float) -> None:
        """Replace a pending play of a point by an observation."""
        if candidate == self._last and self._waiting:
            self._waiting, self._precision = self._waiting - 1, self._precision + 1.0 / noise_variance
        elif noise_variance != self.model.regularization:
            self.stale = True
        self.pending -= 1

    def add(self, candidate: int, noise_variance: float) -> None:
        """Add an observation of a point that was not asked for. The next point is then chosen anew."""
        self._move_to(candidate)
        self._precision, self._more = self._precision + 1.0 / noise_variance, 0

    def add_all(self, observed: CollapsedObservations, excluded: Sequence[int], pending: Sequence[int]) -> None:
        """Add points, to none so far: observed ones, whatever their values, excluded ones, and pending ones."""
        points, _, noise_variances = observed.collapsed()
        for point, variance in zip(points.tolist(), noise_variances.tolist(), strict=True):
            self.model.observe(point, 0.0, variance)
        for candidate in excluded:
            self.model.observe(candidate, 0.0, self.model.regularization)
        self._excluded = len(excluded)
        for candidate in pending:
            self.wait(candidate)

    def go_on(self, earlier: BatchPoints) -> None:
        """Play the point that earlier points planned to play again as often as they did."""
        self._present, self._more = earlier._present, earlier._more

    def _move_to(self, candidate: int) -> None:
        """Make a point the one that was added last."""
        if candidate != self._last:
            self._settle()
            self._last = candidate

    @property
    def _lacking(self) -> float:
        """Precision (one over noise variance) of the plays that the engine lacks."""
        return self._precision + self._waiting / self.model.regularization

    def _settle(self) -> None:
        """Condition the engine on the plays that it lacks."""
        if lacking := self._lacking:
            self.model.observe(self._last, 0.0, 1.0 / lacking)
            self._last, self._precision, self._waiting, self._before = -1, 0.0, 0, None

    def _variance_of(self, candidate: int) -> float:
        """Return the variance of a candidate in the engine."""
        return float(self.model.engine.at(np.array([candidate]))[1][0])

    def _plays_of(self, candidate: int) -> int:
        """Return how often a point is played if it is chosen now."""
        if self._shrinkage == 1.0:
            return 1
        return number_of_plays(self._shrinkage, self.model.regularization, self._variance_of(candidate))
