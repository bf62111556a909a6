"""Priors as shards: each holds one prior's posterior on the candidates, and an execution holds the shards.

A shard is a plain object, made from its specification and fed observations. What it answers does not depend on which
others there are or where they live, so that one execution can stand in for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.policies.base import Mask
from scalable_bandits.posteriors import (
    CollapsedObservations,
    Engine,
    ForgettingEngine,
    Regression,
    State,
    make_engine,
    nested,
    part,
    pending,
)
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.priors import Prior
from scalable_bandits.spaces import FiniteSpace

QUESTIONS = ("propose", "upper", "moments")  # methods of `PriorModel` that ask its engine


class Proposal(NamedTuple):
    """What a shard would play."""

    candidate: int
    upper: float  # its upper confidence bound


class PriorModel:
    """Posterior of one prior on the candidates.

    Parameters
    ----------
    prior
        Mean and kernel.
    space
        Whose candidates.
    engine
        As in `GaussianProcessPolicy`.
    regularization
        lambda, the noise variance of a pending point, in squared units of y.
    salt
        Seed of the tie-breaking hash.

    """

    def __init__(self, prior: Prior, space: FiniteSpace, engine: str, regularization: float, salt: int):
        self._prior, self._space, self._kind = prior, space, engine
        self._regularization, self._salt = regularization, salt
        self._points = space.points()
        # An engine carries a mean that stays; one that moves is taken off y, and put on again in the round it is due.
        self._still = np.zeros(space.size) if prior.moving else prior.mean_at(self._points, 1, space)
        self._engine = self._fresh(space.size)
        self._forgets = isinstance(self._engine, ForgettingEngine)
        self._one = np.zeros(1, dtype=np.int64)
        self._observed = CollapsedObservations()  # not kept where the engine forgets: it alone knows the posterior then
        self._regression: Regression | None = None
        self._shift: tuple[int, Floats] = (0, self._still)  # mean of a round
        self._columns: dict[int, Floats] = {}  # posterior covariances of pending points

    def _fresh(self, size: int) -> Engine:
        """Engine of the first candidates that has seen nothing."""
        return make_engine(self._kind, self._prior.kernel, self._points[:size], self._still[:size])

    def _moved(self, t: int) -> Floats | None:
        """What the mean of round t adds to the engine's, (n,); None for a mean that the engine carries."""
        if not self._prior.moving:
            return None
        if self._shift[0] != t:
            self._shift = (t, self._prior.mean_at(self._points, t, self._space))
        return self._shift[1]

    def prepare(self, t: int) -> None:
        """Evaluate the mean of round t, which may refuse to be."""
        self._moved(t)

    def observe(self, candidate: int, y: float, noise_variance: float, t: int) -> tuple[float, float, float]:
        """Learn what round t brought; the candidate's mean and variance before, the information gain (nats) after."""
        self._one[0] = candidate
        (mean,), (variance,) = self._engine.at(self._one)
        moved = self._moved(t)
        shift = 0.0 if moved is None else float(moved[candidate])
        self._engine.observe(candidate, y - shift, noise_variance)
        self._engine.advance()
        if not self._forgets:
            self._observed.add(candidate, y - shift, noise_variance)
            self._regression = None
        if self._columns:
            self._columns.clear()
        return float(mean) + shift, float(variance), self._engine.information_gain

    def propose(self, width: float, t: int, allowed: Mask | None, waiting: Sequence[int]) -> Proposal:
        """Candidate of largest upper confidence bound in round t, with points waiting for their values."""
        if self._prior.moving:
            return Proposal(*choose(self.upper(width, t, waiting), self._salt, allowed))
        return Proposal(*self._engine.maximize(UpperConfidence(width), self._salt, allowed, self._reduction(waiting)))

    def upper(self, width: float, t: int, waiting: Sequence[int]) -> Floats:
        """Upper confidence bounds of all candidates in round t, (n,)."""
        mean, variance = self.moments(t)
        reduction = self._reduction(waiting)
        if reduction is not None:
            variance = np.maximum(variance - reduction, 0.0)
        return UpperConfidence(width)(mean, variance)

    def moments(self, t: int) -> tuple[Floats, Floats]:
        """Posterior mean and variance of all candidates in round t, two (n,) arrays."""
        mean, moved = self._engine.mean(), self._moved(t)
        return mean if moved is None else mean + moved, self._engine.variance()

    def predict(self, points: Floats, t: int) -> tuple[Floats, Floats]:
        """Posterior mean and variance at any points (k, d) in round t, two (k,) arrays."""
        prior_mean = self._prior.mean_at(points, t, self._space)
        if isinstance(self._engine, ForgettingEngine):
            mean, variance = self._engine.predict(points)
        else:
            if self._regression is None:
                queried, averages, noise_variances = self._observed.collapsed()
                where, residuals = self._space.points(queried), averages - self._still[queried]
                self._regression = Regression(self._prior.kernel, where, noise_variances, residuals)
            mean, variance = self._regression.predict(points)
        return mean + prior_mean, variance

    def _reduction(self, waiting: Sequence[int]) -> Floats | None:
        """Variance (n,) that the pending points will take off; None if none is pending."""
        if not waiting:
            return None
        points, counts = pending.distinct(waiting)
        for c in points.tolist():
            if c not in self._columns:  # one at a time: the last bits would follow which came together
                self._columns[c] = self._engine.columns(np.array([c]))[0]
        columns = np.array([self._columns[c] for c in points.tolist()])
        noise_variances = self._regularization / counts
        return pending.reduction(columns, pending.covariance_of_values(columns, points, noise_variances))

    def take(self, state: State, size: int) -> None:
        """Know what a shard of the same prior on the first `size` candidates knew."""
        self._observed.restore(part(state, "observed"))
        if self._prior.kernel.epsilon:
            held = self._fresh(size)
            held.restore(part(state, "engine"))
            assert isinstance(held, ForgettingEngine)
            self._engine = held.extended(self._points, self._still)
            return
        for candidate, average, noise_variance in zip(*map(np.ndarray.tolist, self._observed.collapsed()), strict=True):
            self._engine.observe(candidate, average, noise_variance)

    @property
    def changing(self) -> frozenset[str]:
        """Names of the methods that change later answers; questions do if the engine's `ask_is_stateful`."""
        return frozenset({"observe", "take", *(QUESTIONS if self._engine.ask_is_stateful else ())})

    def report(self) -> tuple[float, bool]:
        """Realised information gain in nats, and whether the engine's `ask_is_stateful`."""
        return self._engine.information_gain, self._engine.ask_is_stateful

    def state(self) -> State:
        """All that is held, as arrays."""
        return nested(engine=self._engine.state(), observed=self._observed.state())

    def restore(self, state: State) -> None:
        """Hold what `state` gave."""
        self._engine.restore(part(state, "engine"))
        self._observed.restore(part(state, "observed"))
        self._regression = None
        self._columns.clear()
