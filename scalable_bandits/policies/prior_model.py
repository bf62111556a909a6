"""Model of one prior, a shard of the policies with several priors; the words are in `unknown_prior.py`.

A shard is a plain object, made from its specification and given observations. Its results depend neither on the other
shards nor on the executor that holds it. `PriorSource` makes a lost shard again.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.posteriors import State, make_engine
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.posteriors.models.model import GivenPrior, Model
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.posteriors.state import copied
from scalable_bandits.priors import Prior
from scalable_bandits.spaces import FiniteSpace, Indices, Mask, make_domain

Maker = Callable[[], "PriorShard"]  # makes a model without observations
Setup = Callable[["PriorShard"], None]  # gives a new model a stored state, which has the observations so far


class Proposal(NamedTuple):
    """Candidate that a prior would play."""

    candidate: int
    upper: float  # upper confidence bound of the candidate


class PriorShard(Model):
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

    batched_columns = False  # the last bits of a column would depend on the others of its batch

    def __init__(self, prior: Prior, space: FiniteSpace, engine: str, regularization: float, salt: int):
        self._mean_at, self._moves, self._salt = functools.partial(prior.mean_at, space=space), prior.moving, salt
        constant = float(prior.mean) if isinstance(prior.mean, int | float) else 0.0 if self._moves else None
        still = GivenPrior(prior.kernel, functools.partial(self._mean_at, t=1), constant)
        super().__init__(still, make_domain(space, None, 0), functools.partial(make_engine, engine), regularization)
        self._mean_round, self._mean = 0, np.zeros(0)  # round evaluated last, and the moving mean (n,) of that round
        self._last_observation = (0.0, 0.0, 0.0)
        _ = self.engine  # raises ValueError if the space is too large

    def _moving_mean(self, t: int) -> Floats | None:
        """Return the prior mean (n,) of round t at all candidates if it changes from round to round, else None."""
        if not self._moves:
            return None
        if self._mean_round != t:
            mean = self._mean_at(self.domain.points(), t=t)
            self._mean_round, self._mean = t, mean
        return self._mean

    def evaluate_mean(self, t: int) -> None:
        """Evaluate the prior mean of round t if it moves; this may raise an error."""
        self._moving_mean(t)

    def observe_round(self, candidate: int, y: float, noise_variance: float, t: int) -> None:
        """Add the observation of round t."""
        (mean,), (variance,) = self.engine.at(np.array([candidate]))
        means = self._moving_mean(t)
        shift = 0.0 if means is None else float(means[candidate])
        self.observe(candidate, y - shift, noise_variance)
        self._last_observation = (float(mean) + shift, float(variance), self.engine.information_gain)

    def observe_rounds(self, candidates: Indices, ys: Floats, noise_variances: Floats, first: int) -> None:
        """Add the observations (k,) of consecutive rounds from round `first` on."""
        together = 0 if self._moves else max(len(ys) - 1, 0)  # the last one by itself, for `last_observation`
        self.observe_all(candidates[:together], ys[:together], noise_variances[:together])
        rows = zip(candidates.tolist(), ys.tolist(), noise_variances.tolist(), strict=True)
        for t, observation in enumerate(itertools.islice(rows, together, None), first + together):
            self.observe_round(*observation, t)

    def last_observation(self) -> tuple[float, float, float]:
        """Return what the model says about the last observation.

        That is posterior mean and variance of its candidate before it, in units of y and squared ones, and the
        information gain of all observations with it, in nats.
        """
        return self._last_observation

    def propose(self, width: float, t: int, allowed: Mask | None, pending: Sequence[int]) -> Proposal:
        """Return the candidate of largest upper confidence bound in round t, given pending candidates."""
        if self._moves:
            return Proposal(*choose(self.upper(width, t, pending), self._salt, allowed))
        reduction = self.reduction(pending) if pending else None
        return Proposal(*self.engine.argmax(UpperConfidence(width), self._salt, allowed, reduction))

    def upper(self, width: float, t: int, pending: Sequence[int]) -> Floats:
        """Return the upper confidence bounds of all candidates in round t, (n,), given pending candidates."""
        mean, variance = self.moments(t)
        if pending:
            variance = np.maximum(variance - self.reduction(pending), 0.0)
        return UpperConfidence(width)(mean, variance)

    def moments(self, t: int) -> tuple[Floats, Floats]:
        """Return posterior mean and variance of all candidates in round t, two (n,) arrays."""
        mean, shift = self.engine.mean(), self._moving_mean(t)
        return mean if shift is None else mean + shift, self.engine.variance()

    def predict_round(self, points: Floats, t: int) -> tuple[Floats, Floats]:
        """Return posterior mean and variance at points (k, d), not only candidates, in round t, two (k,) arrays."""
        mean, variance = self.deviation(points)
        return mean + self._mean_at(points, t=t), variance

    def observed(self) -> State:
        """Return the observations, collapsed by point, as a part of the state that `take` accepts."""
        return self.observations.state()

    def information_gain(self) -> float:
        """Return the realised information gain in nats."""
        return self.engine.information_gain


class PriorSource:
    """Source of the models of priors; see `placement.py`. A model is made by its maker, its setup and the rounds since.

    Parameters
    ----------
    makers
        Function for each prior that makes its model without observations.
    rounds
        Number of rounds so far; their observations are in the models' setups.
    may_be_lost
        Whether models may be lost and made again. If not, no observations are stored, and a setup only until its model
        is made.

    Attributes
    ----------
    may_be_lost : bool
        Value of the parameter.
    """

    def __init__(self, makers: Sequence[Maker], rounds: int, may_be_lost: bool):
        self._makers, self._first, self.may_be_lost = list(makers), rounds + 1, may_be_lost
        self._setups: dict[int, tuple[Setup, int]] = {}  # with the number of logged observations that a setup contains
        self._observed = ObservationLog()

    def start_from(self, number: int, setup: Setup) -> None:
        """Make the model of a prior with this setup, which contains the observations so far."""
        self._setups[number] = setup, self._observed.count

    def add(self, number: int, maker: Maker, setup: Setup) -> None:
        """Add a prior of the next number, or replace the last; its setup contains the next observation already."""
        self._makers[number:] = [maker]
        self._setups[number] = setup, self._observed.count + 1

    def checkpoint(self, number: int, state: State) -> None:
        """Make the model of a prior from its present state if it is lost."""
        if self.may_be_lost:
            self.start_from(number, functools.partial(PriorShard.restore, state=copied(state)))

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        """Add the observation of a round."""
        if self.may_be_lost:
            self._observed.add(candidate, y, noise_variance)

    def forget_last(self) -> None:
        """Remove the last observation."""
        self._observed.count -= 1

    def __call__(self, number: int) -> functools.partial[PriorShard]:
        """Return the function that makes the model of a prior."""
        setup, start = self._setups.get(number, (None, 0))
        if not self.may_be_lost:
            self._setups.pop(number, None)
        observed, first = self._observed.since(start), self._first + start
        return functools.partial(_make_model, self._makers[number], setup, observed, first)


def _make_model(maker: Maker, setup: Setup | None, observed: tuple[Indices, Floats, Floats], first: int) -> PriorShard:
    model = maker()
    if setup is not None:
        setup(model)
    model.observe_rounds(*observed, first)
    return model
