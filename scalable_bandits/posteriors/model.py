"""The Gaussian-process model of a policy, of one of its priors, or of one of its stages.

A model has a prior (kernel and mean), an engine with the posterior on the candidates, the observations, and, where
hyperparameters are learned, a schedule. A model without a given kernel has a `LearnedPrior` instead: its engine and
observations are in units of the transformed y, and are made when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors import pending as pending_values
from scalable_bandits.posteriors.beliefs import Beliefs, beliefs_of
from scalable_bandits.posteriors.blas import one_thread
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.engine import Acquisition, Engine, ForgettingEngine
from scalable_bandits.posteriors.hyperparameters.schedule import HyperparameterSchedule
from scalable_bandits.posteriors.learned.prior import LearnedPrior
from scalable_bandits.posteriors.pending import Draws
from scalable_bandits.posteriors.regression import Regression
from scalable_bandits.posteriors.rounds import Columns
from scalable_bandits.posteriors.state import Field, State, Stateful, group, member, part
from scalable_bandits.spaces import Domain, Indices, Mask

MakeEngine = Callable[[Kernel, Floats, Floats], Engine]  # arguments: kernel, candidates (n, d), prior means (n,)


class ModelPrior(NamedTuple):
    """Prior of a model, before hyperparameters are learned."""

    kernel: Kernel
    mean: Callable[[Floats], Floats]  # prior mean (k,) at points (k, d), in units of y
    constant: float | None = None  # value of a constant mean, in units of y
    direction: int = 1  # -1 if the model's y is the negative of the user's


MEAN = UpperConfidence(width=0.0)
DEVIATION = UpperConfidence(width=1.0, mean_weight=0.0)

# Noise variance of the pending points of a learned prior, in squared units of z: with the learned one, the next points
# would often be the same again.
PENDING_NOISE = 1e-6


def _unless_learned(attribute: str, name: str) -> Field:
    """Declare a member that a model with a learned prior makes again, instead of storing it."""

    def read(model: Model) -> State:
        return {} if model.learned is not None else getattr(model, attribute).state()

    def write(model: Model, state: State) -> None:
        if model.learned is None:
            getattr(model, attribute).restore(state)

    return group(name, read, write)


class Model(Stateful):
    """Prior, engine and observations on the candidates of a domain.

    Parameters
    ----------
    prior
        Kernel and mean.
    domain
        Numbered points of the space.
    make_engine
        Function that makes an engine without observations.
    regularization
        Noise variance lambda of a pending point, in squared units of y.
    schedule
        Schedule of learning hyperparameters; None keeps those of the prior.
    learned
        Prior that is learned where no kernel is given; None where one is.

    Attributes
    ----------
    observations : CollapsedObservations
        Observations by point; empty if the engine forgets, since such an engine has its own observations.
    """

    STATE: ClassVar[tuple[Field, ...]] = (
        member("schedule", name="learned"),
        member("learned", name="prior"),
        _unless_learned("engine", "engine"),
        _unless_learned("observations", "observed"),
    )
    batched_columns = True  # whether the columns of several pending points are computed together

    def __init__(
        self, prior: ModelPrior, domain: Domain, make_engine: MakeEngine, regularization: float,
        schedule: HyperparameterSchedule | None = None, learned: LearnedPrior | None = None,
    ):  # fmt: skip
        self.prior, self.domain, self.schedule, self.learned = prior, domain, schedule, learned
        self._regularization, self._make_engine = regularization, make_engine
        self.observations = CollapsedObservations()
        self._engine: Engine | None = None
        self._queried = np.zeros(domain.size, dtype=np.bool_)
        self._regression: Regression | None = None
        self._columns = pending_values.ColumnCache()

    # ---- the prior

    @property
    def kernel(self) -> Kernel:
        """Kernel of the posterior: that of the prior, or the last one that was learned."""
        if self.learned is not None:
            self._learn()
            return self.learned.kernel
        return self.prior.kernel if self.schedule is None else self.schedule.kernel

    @property
    def regularization(self) -> float:
        """Noise variance of a pending point, in squared units of the engine's y."""
        return self._regularization if self.learned is None else PENDING_NOISE

    @property
    def constant_mean(self) -> float | None:
        """Constant prior mean, given or learned, in units of the engine's y; None if the mean is not constant."""
        if self.learned is not None:
            self._learn()
            return self.learned.mean
        learned = None if self.schedule is None else self.schedule.mean
        return self.prior.constant if learned is None else learned

    def prior_mean(self, points: Floats) -> Floats:
        """Return the prior mean (k,) at points (k, d), in units of the engine's y."""
        constant = self.constant_mean
        return self.prior.mean(points) if constant is None else np.full(len(points), constant)

    # ---- the engine

    @property
    def engine(self) -> Engine:
        """Engine of the candidates, made at its first use."""
        self._learn()
        if self._engine is None:
            self._engine = self._empty_engine()
        return self._engine

    def _empty_engine(self) -> Engine:
        points = self.domain.coordinates()
        return self._make_engine(self.kernel, points, self.prior_mean(points))

    def _rebuilt_engine(self) -> Engine:
        """Return a new engine with the observations."""
        engine = self._empty_engine()
        engine.observe_all(*self.observations.collapsed())
        return engine

    @property
    def queried(self) -> Mask:
        """Mask (n,) of the candidates with observations that are not forgotten."""
        return self._engine.observed if isinstance(self._engine, ForgettingEngine) else self._queried

    @property
    def forgets(self) -> bool:
        """Whether the engine forgets and has its own observations."""
        return isinstance(self._engine, ForgettingEngine)

    @property
    def information_gain(self) -> float:
        """Realised information gain of the observations, in nats."""
        return 0.0 if self._engine is None and self.learned is None else self.engine.information_gain

    # ---- observations

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        """Condition on an observation y of a candidate, and advance the engine by a round."""
        if self.learned is not None:
            self.learned.add(candidate, y, noise_variance)
            self._queried[candidate] = True
            return
        self._observe(candidate, y, noise_variance)

    def _observe(self, candidate: int, y: float, noise_variance: float) -> None:
        """Condition the engine on an observation y, in units of its y."""
        engine = self.engine
        engine.observe(candidate, y, noise_variance)
        engine.advance()
        if not isinstance(engine, ForgettingEngine):
            self.observations.add(candidate, y, noise_variance)
            self._queried[candidate] = True
        self._regression = None
        self._columns.clear()

    def observe_all(self, candidates: Indices, ys: Floats, noise_variances: Floats) -> None:
        """Condition on observations (k,) of candidates (k,), one after the other, as `observe` does."""
        engine = self.engine
        if self.learned is not None or isinstance(engine, ForgettingEngine):
            for observation in zip(candidates.tolist(), ys.tolist(), noise_variances.tolist(), strict=True):
                self.observe(*observation)
            return
        engine.observe_all(candidates, ys, noise_variances)
        self._add_observed(candidates, ys, noise_variances)

    def add_played(self, columns: Columns, noise_variance: float) -> None:
        """Add observations that a compiled loop gave to the engine."""
        self._add_observed(columns.candidates, columns.ys, noise_variance)

    def _add_observed(self, candidates: Indices, ys: Floats, noise_variances: float | Floats) -> None:
        """Add observations (k,) that the engine has."""
        if not self.forgets:
            self.observations.add_all(candidates, ys, noise_variances)
            self._queried[candidates] = True
        self._regression = None
        self._columns.clear()

    def _learn(self) -> None:
        """Bring the engine of a learned prior up to date."""
        learned = self.learned
        if learned is None or not learned.stale:
            return
        with one_thread:
            added = None if self._engine is None else learned.added_since_update()
            if added is None:
                self.observations, count = learned.update(self.domain.coordinates)
                added = range(count, len(learned))
                self._engine, self._regression = self._rebuilt_engine(), None
                self._columns.clear()
            for i in added:
                self._observe(*learned.scaled(i))

    def fail(self, candidate: int) -> None:
        """Take note that the function failed at a candidate; ignored without a learned prior."""
        if self.learned is not None:
            self.learned.fail(candidate)

    def to_engine(self, y: float) -> float:
        """Convert a value of y to units of the engine's y."""
        if self.learned is None:
            return y
        self._learn()
        return float(self.learned.transform(np.array([y]))[0])

    def asked_of(self, pending: Sequence[int]) -> int:
        """Return the number of points that are pending, were observed, or failed."""
        return len(pending) + (0 if self.learned is None else len(self.learned) + len(self.learned.failed))

    def settled(self, pending: Sequence[int]) -> Indices:
        """Return the numbers (k,) of points that are not worth another measurement; see `LearnedPrior`."""
        return np.empty(0, dtype=np.int64) if self.learned is None else self.learned.settled(pending)

    @property
    def exhausted(self) -> bool:
        """Whether all points were observed, and repeats show a learned prior that there is no noise."""
        learned, count = self.learned, self.domain.count
        if learned is None or learned.known_noise or count is None or np.count_nonzero(self._queried) < count:
            return False
        return learned.exact_values

    def in_units(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Convert means and variances (k,) of the engine to units of y."""
        if self.learned is None:
            return mean, variance
        transform, std = self.learned.transform, np.sqrt(variance)
        above, below = transform.inverse(mean + std), transform.inverse(mean - std)
        return transform.inverse(mean), (0.5 * (above - below)) ** 2

    def learn_hyperparameters(self, rounds: int) -> None:
        """Learn the hyperparameters if the schedule has a fit after so many rounds."""
        schedule = self.schedule
        if schedule is None or not schedule.due(rounds):
            return
        queried, averages, noise_variances = self.observations.collapsed()
        points = self.domain.coordinates(queried)
        prior = 0.0 if schedule.mean is not None else self.prior.mean(points)
        schedule.learn(points, averages - prior, noise_variances)
        self._engine = self._rebuilt_engine()

    def forget(self) -> None:
        """Forget all observations."""
        assert self.learned is None
        self._engine, self._regression, self.observations = None, None, CollapsedObservations()
        self._queried[:] = False
        self._columns.clear()

    def extended(self, domain: Domain) -> Model:
        """Return the model on a larger domain, with the same observations."""
        grown = self._without_engine(domain)
        if self.learned is not None:
            self.learned.clear()
            return grown
        if isinstance(engine := self.engine, ForgettingEngine):
            points = domain.coordinates()
            grown._engine = engine.extended(points, self.prior_mean(points))
        else:
            grown._engine = grown._rebuilt_engine()
        return grown

    def take(self, state: State, size: int) -> None:
        """Restore from the state of a model of the same prior on the first `size` candidates."""
        self.observations.restore(part(state, "observed"))
        if not isinstance(self.engine, ForgettingEngine):
            self._engine = self._rebuilt_engine()
            return
        points = self.domain.coordinates()
        smaller = self._make_engine(self.kernel, points[:size], self.prior_mean(points[:size]))
        smaller.restore(part(state, "engine"))
        assert isinstance(smaller, ForgettingEngine)
        self._engine = smaller.extended(points, self.prior_mean(points))

    def _without_engine(self, domain: Domain) -> Model:
        """Return a model with the same observations on another domain, whose engine is not yet made."""
        model = type(self)(self.prior, domain, self._make_engine, self._regularization, self.schedule, self.learned)
        model.observations = self.observations
        shared = min(domain.size, len(self._queried))
        model._queried[:shared] = self._queried[:shared]
        return model

    # ---- pending points

    def reduction(self, pending: Sequence[int]) -> Floats | None:
        """Return the reduction (n,) of the variances by pending points, in squared units of y; None without any."""
        return pending_values.reduction(*self.pending_covariance(pending)) if pending else None

    def pending_covariance(self, pending: Sequence[int]) -> tuple[Floats, Floats]:
        """Return covariances of the distinct pending points with all candidates (q, n), and of their values (q, q)."""
        points, counts = pending_values.distinct(pending)
        columns = self._columns.columns(self.engine, points, self.batched_columns)
        return columns, pending_values.covariance_of_values(columns, points, self.regularization / counts)

    def draw(self, pending: Sequence[int], key: tuple[int, int]) -> Draws | None:
        """Draw values at pending points by a key, the policy's seed and the round; None without any."""
        return pending_values.draw(self.engine, pending, *self.pending_covariance(pending), key) if pending else None

    # ---- maximisation, prediction

    def maximize(
        self, index: Acquisition, salt: int, allowed: Mask | None, pending: Sequence[int], key: tuple[int, int],
        draws: Draws | None = None,
    ) -> int | Floats:  # fmt: skip
        """Return the candidate of largest index; on a whole box the point (d,) of largest index.

        Parameters
        ----------
        index
            Index of candidates.
        salt
            Seed of the tie-breaking hash.
        allowed
            Mask (n,) of the candidates to choose from; None for all.
        pending
            Numbers of the pending candidates, first those of `draws`.
        key
            Seed of the search on a box: the policy's seed and the round.
        draws
            Values drawn at pending points; the others, or all for None, have their posterior means.
        """
        if draws is None:
            return self.engine.maximize(index, salt, allowed, self.reduction(pending))[0]
        return pending_values.maximize(self.engine, index, salt, allowed, draws.shift, self.reduction(pending))[0]

    def best_mean(
        self, salt: int, queried: Mask, otherwise: Mask | None, key: tuple[int, int], draws: Draws | None = None
    ) -> tuple[Any, float]:
        """Return the candidate (or the point of a box) of largest posterior mean, and that mean.

        Parameters
        ----------
        salt
            Seed of the tie-breaking hash.
        queried
            Mask (n,) of the candidates to choose from.
        otherwise
            Mask (n,) of the candidates to choose from if `queried` is empty; None for all.
        key
            Seed of the search on a box: the policy's seed and the round.
        draws
            Values drawn at pending points, which shift the means; None without any.
        """
        allowed = queried if queried.any() else otherwise
        if draws is None:
            return self.engine.maximize(MEAN, salt, allowed)
        return pending_values.maximize(self.engine, MEAN, salt, allowed, draws.shift)

    def largest(self, index: Acquisition, key: tuple[int, int]) -> float:
        """Return the largest index of all points, without pending ones, in units of the engine's y; `key` as above."""
        return self.engine.maximize(index, 0)[1]

    def highest(self, width: float, key: tuple[int, int]) -> float:
        """Return the largest upper confidence bound, in units of y; `key` as above."""
        top = self.largest(UpperConfidence(width), key)
        return top if self.learned is None else float(self.learned.transform.inverse(np.array([top]))[0])

    def predict(self, points: Floats) -> tuple[Floats, Floats]:
        """Return posterior mean and variance at points (k, d), not only candidates, in units of y: two (k,) arrays."""
        return self.in_units(*self._believed(points))

    def describe(self) -> Beliefs:
        """Return what the model believes of the function: lengthscales, scale, noise and mean, in the user's units."""
        return beliefs_of(self)

    def bounds(self, points: Floats, deviations: float) -> tuple[Floats, Floats]:
        """Return values (k,) in units of y, so many standard deviations below and above the mean at points (k, d)."""
        mean, variance = self._believed(points)
        half = deviations * np.sqrt(variance)
        inverse = (lambda z: z) if self.learned is None else self.learned.transform.inverse
        return inverse(mean - half), inverse(mean + half)

    def averages(self) -> tuple[Indices, Floats, Floats]:
        """Return distinct points, averages of y and their noise variances, in units of y: three (m,) arrays."""
        return self.observations.collapsed() if self.learned is None else self.learned.averages()

    def deviation(self, points: Floats) -> tuple[Floats, Floats]:
        """Return posterior mean minus prior mean, and variance, at points (k, d): two (k,) arrays."""
        engine = self.engine
        return engine.predict(points) if engine.predicts else self._fitted_regression().predict(points)

    def _believed(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance (k,) at points (k, d), the latter also for the uncertainty of a learned prior."""
        mean, variance = self.deviation(points)
        mean = mean + self.prior_mean(points)
        found = None if self.learned is None else self.learned.uncertainty(self.domain.coordinates)
        return mean, variance if found is None else found.variance(points, mean)

    def _fitted_regression(self) -> Regression:
        if self._regression is None:
            queried, averages, noise_variances = self.observations.collapsed()
            x = self.domain.coordinates(queried)
            self._regression = Regression(self.kernel, x, noise_variances, averages - self.prior_mean(x))
        return self._regression

    # ---- state

    def before_restore(self, state: State) -> None:
        """Drop the engine, so that a new one is made with the hyperparameters of the state."""
        self._engine = None

    def after_restore(self) -> None:
        """Recompute what follows from the observations."""
        self._queried = np.zeros(self.domain.size, dtype=np.bool_)
        self._queried[self.averages()[0]] = True
        self._regression = None
        self._columns.clear()


class LazyModel(Model):
    """Model that has an engine only after its first use, which is not part of its state.

    The parameters are those of `Model`, without learned ones.
    """

    @classmethod
    def state_fields(cls) -> tuple[Field, ...]:
        return tuple(field for field in super().state_fields() if field.name != "engine")

    @property
    def engine(self) -> Engine:
        """Engine of the candidates, made from the observations at its first use."""
        if self._engine is None:
            self._engine = self._rebuilt_engine()
        return self._engine

    @property
    def information_gain(self) -> float:
        """Realised information gain of the observations, in nats."""
        return self.engine.information_gain

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        if self._engine is not None:
            super().observe(candidate, y, noise_variance)
            return
        self.observations.add(candidate, y, noise_variance)
        self._queried[candidate] = True
        self._regression = None

    def extended(self, domain: Domain) -> LazyModel:
        grown = self._without_engine(domain)
        assert isinstance(grown, LazyModel)
        return grown

    def restore_engine(self, state: State) -> None:
        """Restore the engine, with its last digits, from the arrays that its `state` returned."""
        self._engine = self._empty_engine()
        self._engine.restore(state)

    def drop_engine(self) -> None:
        """Drop the engine, which may have been interrupted; the observations stay."""
        self._engine = None
        self._columns.clear()
