"""The model of one candidate prior, a shard of policies with several priors.

A shard is a plain object, made from its specification and given observations. Its results depend neither on the other
shards nor on the executor that holds it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.posteriors import State, make_engine
from scalable_bandits.posteriors.engine import Engine, choose
from scalable_bandits.posteriors.model import Model, ModelPrior
from scalable_bandits.posteriors.rounds import Columns
from scalable_bandits.priors import Prior
from scalable_bandits.spaces import FiniteSpace, Mask, make_domain


class Proposal(NamedTuple):
    """Candidate that a prior would play."""

    candidate: int
    upper: float  # upper confidence bound of the candidate


QUESTIONS = ("propose", "upper", "moments")  # methods of `PriorModel` that may change the rounding of later results


class PriorModel:
    """Model of one prior on the candidates, whose prior mean may change from round to round.

    The prior mean of an engine is constant. A mean that changes is subtracted from y and added to the posterior mean.

    Parameters
    ----------
    prior
        Mean and kernel.
    space
        Space of the candidates.
    engine
        Name of the engine, as in `GaussianProcessPolicy`.
    regularization
        Noise variance lambda of a pending point, in squared units of y.
    salt
        Seed of the tie-breaking hash.
    """

    def __init__(self, prior: Prior, space: FiniteSpace, engine: str, regularization: float, salt: int):
        self._prior, self._space, self._salt, self._moves = prior, space, salt, prior.moving
        constant = float(prior.mean) if isinstance(prior.mean, int | float) else 0.0 if self._moves else None
        lasting = ModelPrior(prior.kernel, functools.partial(prior.mean_at, t=1, space=space), constant)
        domain = make_domain(space, None, 0)
        self._model = Model(lasting, domain, functools.partial(make_engine, engine), regularization)
        self._model.batched_columns = False  # the last bits of a column would depend on the others of its batch
        self._one = np.zeros(1, dtype=np.int64)
        self._moving_mean: tuple[int, Floats] = (0, np.zeros(0))  # round, and its mean (n,)
        _ = self._model.engine  # raises ValueError if the space is too large

    def _shift(self, t: int) -> Floats | None:
        """Return the prior mean (n,) of round t at all candidates if it changes from round to round, else None."""
        if not self._moves:
            return None
        if self._moving_mean[0] != t:
            self._moving_mean = (t, self._prior.mean_at(self._space.points(), t, self._space))
        return self._moving_mean[1]

    def prepare(self, t: int) -> None:
        """Evaluate the prior mean of round t, which may raise."""
        self._shift(t)

    def observe(self, candidate: int, y: float, noise_variance: float, t: int) -> tuple[float, float, float]:
        """Add the observation of round t; return mean and variance before it, and the information gain (nats) after."""
        self._one[0] = candidate
        (mean,), (variance,) = self._model.engine.at(self._one)
        means = self._shift(t)
        shift = 0.0 if means is None else float(means[candidate])
        self._model.observe(candidate, y - shift, noise_variance)
        return float(mean) + shift, float(variance), self._model.information_gain

    def add_played(self, columns: Columns, noise_variance: float) -> None:
        """Add observations that a compiled loop gave the engine."""
        self._model.add_played(columns, noise_variance)

    @property
    def engine(self) -> Engine:
        """Engine of the model."""
        return self._model.engine

    def propose(self, width: float, t: int, allowed: Mask | None, pending: Sequence[int]) -> Proposal:
        """Return the candidate of largest upper confidence bound in round t, given pending candidates."""
        if self._moves:
            return Proposal(*choose(self.upper(width, t, pending), self._salt, allowed))
        reduction = self._model.reduction(pending)
        return Proposal(*self._model.engine.maximize(UpperConfidence(width), self._salt, allowed, reduction))

    def upper(self, width: float, t: int, pending: Sequence[int]) -> Floats:
        """Return the upper confidence bounds of all candidates in round t, (n,), given pending candidates."""
        mean, variance = self.moments(t)
        reduction = self._model.reduction(pending)
        if reduction is not None:
            variance = np.maximum(variance - reduction, 0.0)
        return UpperConfidence(width)(mean, variance)

    def moments(self, t: int) -> tuple[Floats, Floats]:
        """Return posterior mean and variance of all candidates in round t, two (n,) arrays."""
        mean, shift = self._model.engine.mean(), self._shift(t)
        return mean if shift is None else mean + shift, self._model.engine.variance()

    def predict(self, points: Floats, t: int) -> tuple[Floats, Floats]:
        """Return posterior mean and variance at points (k, d), not only candidates, in round t, two (k,) arrays."""
        mean, variance = self._model.deviation(points)
        return mean + self._prior.mean_at(points, t, self._space), variance

    def take(self, state: State, size: int) -> None:
        """Restore from the state of a shard of the same prior on the first `size` candidates."""
        self._model.take(state, size)

    @property
    def changing(self) -> frozenset[str]:
        """Names of the methods that change later results; questions do if the engine's `ask_is_stateful`."""
        return frozenset({"observe", "add_played", "take", *(QUESTIONS if self._model.engine.ask_is_stateful else ())})

    def observed(self) -> State:
        """Return the observations, collapsed by point, as a part of the state that `take` accepts."""
        return self._model.observations.state()

    def report(self) -> tuple[float, bool]:
        """Return the realised information gain in nats, and whether `ask` changes the rounding of later results."""
        return self._model.information_gain, self._model.engine.ask_is_stateful

    def state(self) -> State:
        """Return the arrays of the state by name."""
        return self._model.state()

    def restore(self, state: State) -> None:
        """Restore from the arrays returned by `state`."""
        self._model.restore(state)
