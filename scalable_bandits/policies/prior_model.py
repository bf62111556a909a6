"""The model of one candidate prior, a shard of policies with several priors.

A shard is a plain object, made from its specification and given observations. Its results depend neither on the other
shards nor on the executor that holds it. `PriorSource` makes a lost one again.
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
from scalable_bandits.posteriors.engine import Engine, choose
from scalable_bandits.posteriors.models.model import GivenPrior, Model
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.posteriors.rounds import Columns
from scalable_bandits.posteriors.state import copied
from scalable_bandits.priors import Prior
from scalable_bandits.spaces import FiniteSpace, Indices, Mask, make_domain

Maker = Callable[[], "PriorShard"]
Begin = Callable[["PriorShard"], None]


class Proposal(NamedTuple):
    """Candidate that a prior would play."""

    candidate: int
    upper: float  # upper confidence bound of the candidate


class Before(NamedTuple):
    """Posterior at an observed candidate before the observation, and the information gain after it."""

    mean: float
    variance: float
    information_gain: float  # in nats


class PriorShard:
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
        lasting = GivenPrior(prior.kernel, functools.partial(prior.mean_at, t=1, space=space), constant)
        domain = make_domain(space, None, 0)
        self._model = Model(lasting, domain, functools.partial(make_engine, engine), regularization)
        self._model.batched_columns = False  # the last bits of a column would depend on the others of its batch
        self._one = np.zeros(1, dtype=np.int64)
        self._moving_mean: tuple[int, Floats] = (0, np.zeros(0))  # round, and its mean (n,)
        self._before = Before(0.0, 0.0, 0.0)  # of the last observation
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

    def observe(self, candidate: int, y: float, noise_variance: float, t: int) -> None:
        """Add the observation of round t."""
        self._one[0] = candidate
        (mean,), (variance,) = self._model.engine.at(self._one)
        means = self._shift(t)
        shift = 0.0 if means is None else float(means[candidate])
        self._model.observe(candidate, y - shift, noise_variance)
        self._before = Before(float(mean) + shift, float(variance), self._model.information_gain)

    def observe_all(self, candidates: Indices, ys: Floats, noise_variances: Floats, first: int) -> None:
        """Add the observations (k,) of consecutive rounds from round `first` on."""
        whole = 0 if self._moves else max(len(ys) - 1, 0)  # the last one by itself, for `before`
        self._model.observe_all(candidates[:whole], ys[:whole], noise_variances[:whole])
        later = zip(candidates.tolist(), ys.tolist(), noise_variances.tolist(), strict=True)
        for t, observation in enumerate(itertools.islice(later, whole, None), first + whole):
            self.observe(*observation, t)

    def before(self) -> Before:
        """Return mean and variance before the last observation, and the information gain after it."""
        return self._before

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

    def observed(self) -> State:
        """Return the observations, collapsed by point, as a part of the state that `take` accepts."""
        return self._model.observations.state()

    def information_gain(self) -> float:
        """Return the realised information gain in nats."""
        return self._model.information_gain

    def state(self) -> State:
        """Return the arrays of the state by name."""
        return self._model.state()

    def restore(self, state: State) -> None:
        """Restore from the arrays returned by `state`."""
        self._model.restore(state)


class PriorSource:
    """Source of the models of priors: each follows from its prior, a state if it began with one, and the rounds since.

    Parameters
    ----------
    makers
        One function a prior, which makes its model without observations.
    rounds
        Number of rounds so far, whose observations the states have.
    lasting
        Whether models may have to be made again. If not, no observations are stored, and states only until the models
        are made.

    Attributes
    ----------
    lasting : bool
        As given.
    """

    def __init__(self, makers: Sequence[Maker], rounds: int, lasting: bool):
        self._makers, self._first, self.lasting = list(makers), rounds + 1, lasting
        self._begun: dict[int, tuple[Begin, int]] = {}  # how a model began, and the number of observations before
        self._observed = ObservationLog()

    def begin(self, number: int, begin: Begin) -> None:
        """Have the model of a prior begin with what a function does to it, instead of the observations so far."""
        self._begun[number] = begin, self._observed.count

    def add(self, number: int, maker: Maker, begin: Begin) -> None:
        """Add the prior of the next number, or replace it; it begins with the observations so far and the next one."""
        self._makers[number:] = [maker]
        self._begun[number] = begin, self._observed.count + 1

    def checkpoint(self, number: int, state: State) -> None:
        """Have the model of a prior, if it is lost, begin with its present state."""
        if self.lasting:
            self.begin(number, functools.partial(PriorShard.restore, state=copied(state)))

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        """Add the observation of a round."""
        if self.lasting:
            self._observed.add(candidate, y, noise_variance)

    def forget_last(self) -> None:
        """Remove the last observation."""
        self._observed.count -= 1

    def __call__(self, number: int) -> functools.partial[PriorShard]:
        """Return the function that makes the model of a prior."""
        begin, start = self._begun.get(number, (None, 0))
        if not self.lasting:
            self._begun.pop(number, None)
        return functools.partial(_made, self._makers[number], begin, self._observed.since(start), self._first + start)


def _made(make: Maker, begin: Begin | None, observed: tuple[Indices, Floats, Floats], first: int) -> PriorShard:
    model = make()
    if begin is not None:
        begin(model)
    model.observe_all(*observed, first)
    return model
