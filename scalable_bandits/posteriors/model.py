"""The Gaussian-process model of a policy, of one of its priors, or of one of its stages.

A model has a prior (kernel and mean), an engine with the posterior on the candidates, the observations, and, where
hyperparameters are learned, a schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors import pending as pending_values
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.maximization import Top
from scalable_bandits.posteriors.box.paths import PathSurface
from scalable_bandits.posteriors.box.search import PATH_SIZES, SIZES, Sizes, top_of_box
from scalable_bandits.posteriors.box.settings import top_of_settings
from scalable_bandits.posteriors.box.surface import SearchSurface, SmoothIndex, constant_mean, differenced
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.engine import Acquisition, Engine, ForgettingEngine
from scalable_bandits.posteriors.hyperparameters.schedule import HyperparameterSchedule
from scalable_bandits.posteriors.regression import Regression
from scalable_bandits.posteriors.state import Field, State, Stateful, member, part
from scalable_bandits.spaces import Domain, Indices, Mask
from scalable_bandits.spaces.domain import Settings, WholeBox

MEAN = UpperConfidence(width=0.0)
DEVIATION = UpperConfidence(width=1.0, mean_weight=0.0)

MakeEngine = Callable[[Kernel, Floats, Floats], Engine]  # arguments: kernel, candidates (n, d), prior means (n,)


class ModelPrior(NamedTuple):
    """Prior of a model, before hyperparameters are learned."""

    kernel: Kernel
    mean: Callable[[Floats], Floats]  # prior mean (k,) at points (k, d), in units of y
    constant: float | None = None  # value of a constant mean, in units of y


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

    Attributes
    ----------
    observations : CollapsedObservations
        Observations by point; empty if the engine forgets, since such an engine has its own observations.
    """

    STATE: ClassVar[tuple[Field, ...]] = (
        member("schedule", name="learned"),
        member("engine"),
        member("observations", name="observed"),
    )

    batched_columns = True  # whether the columns of several pending points are computed together

    def __init__(
        self, prior: ModelPrior, domain: Domain, make_engine: MakeEngine, regularization: float,
        schedule: HyperparameterSchedule | None = None,
    ):  # fmt: skip
        self.prior, self.domain, self.schedule = prior, domain, schedule
        self.regularization = regularization
        self.observations = CollapsedObservations()
        self._make_engine = make_engine
        self._engine: Engine | None = None
        self._queried = np.zeros(domain.size, dtype=np.bool_)
        self._regression: Regression | None = None
        self._columns: dict[int, Floats] = {}  # (n,) posterior covariances of a pending point with all candidates

    # ---- the prior

    @property
    def kernel(self) -> Kernel:
        """Kernel of the posterior: that of the prior, or the last one that was learned."""
        return self.prior.kernel if self.schedule is None else self.schedule.kernel

    @property
    def constant_mean(self) -> float | None:
        """Constant prior mean, given or learned, in units of y; None if the mean is not constant."""
        learned = None if self.schedule is None else self.schedule.mean
        return self.prior.constant if learned is None else learned

    def prior_mean(self, points: Floats) -> Floats:
        """Return the prior mean (k,) at points (k, d), in units of y."""
        constant = self.constant_mean
        return self.prior.mean(points) if constant is None else np.full(len(points), constant)

    # ---- the engine

    @property
    def engine(self) -> Engine:
        """Engine of the candidates, made at its first use."""
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
        return 0.0 if self._engine is None else self._engine.information_gain

    # ---- observations

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        """Condition on an observation y of a candidate, and advance the engine by a round."""
        engine = self.engine
        engine.observe(candidate, y, noise_variance)
        engine.advance()
        if not isinstance(engine, ForgettingEngine):
            self.observations.add(candidate, y, noise_variance)
            self._queried[candidate] = True
        self._regression = None
        if self._columns:
            self._columns.clear()

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
        self._engine, self._regression, self.observations = None, None, CollapsedObservations()
        self._queried[:] = False
        self._columns.clear()

    def extended(self, domain: Domain) -> Model:
        """Return the model on a larger domain, with the same observations."""
        grown = self._without_engine(domain)
        engine = self.engine
        if isinstance(engine, ForgettingEngine):
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
        model = type(self)(self.prior, domain, self._make_engine, self.regularization, self.schedule)
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
        cache = self._columns
        points, counts = pending_values.distinct(pending)
        missing = [c for c in points.tolist() if c not in cache]
        for some in [missing] if self.batched_columns and missing else [[c] for c in missing]:
            cache.update(zip(some, self.engine.columns(np.array(some)), strict=True))
        columns = np.array([cache[c] for c in points.tolist()])
        return columns, pending_values.covariance_of_values(columns, points, self.regularization / counts)

    # ---- maximisation, prediction

    def maximize(
        self, index: Acquisition, salt: int, allowed: Mask | None, pending: Sequence[int], key: tuple[int, int]
    ) -> int | Floats:
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
            Numbers of the pending candidates.
        key
            Seed of the search on a box: the policy's seed and the round.
        """
        return self.engine.maximize(index, salt, allowed, self.reduction(pending))[0]

    def best_mean(self, salt: int, queried: Mask, otherwise: Mask | None, key: tuple[int, int]) -> tuple[Any, float]:
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
        """
        return self.engine.maximize(MEAN, salt, queried if queried.any() else otherwise)

    def predict(self, points: Floats) -> tuple[Floats, Floats]:
        """Return posterior mean and variance at points (k, d), not only candidates: two (k,) arrays."""
        mean, variance = self.deviation(points)
        return mean + self.prior_mean(points), variance

    def deviation(self, points: Floats) -> tuple[Floats, Floats]:
        """Return posterior mean minus prior mean, and variance, at points (k, d): two (k,) arrays."""
        engine = self.engine
        return engine.predict(points) if engine.predicts else self._fitted_regression().predict(points)

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
        self._queried[self.observations.collapsed()[0]] = True
        self._regression = None
        self._columns.clear()


class BoxModel(Model):
    """Model of a whole box, which maximises indices over all points, not over candidates."""

    def _empty_engine(self) -> BoxEngine:
        constant, bounds = self.constant_mean, self._bounds
        mean = differenced(self.prior_mean, bounds) if constant is None else constant_mean(constant)
        engine = BoxEngine(self.kernel, len(bounds), mean)
        engine.points = self.domain.coordinates()
        return engine

    @property
    def _bounds(self) -> Floats:
        bounds = self.domain.space.cube
        assert bounds is not None
        return bounds

    def extended(self, domain: Domain) -> Model:
        grown = self._without_engine(domain)
        if self.prior.constant is None:  # the function may raise at new points
            added = domain.points(np.arange(self.domain.size, domain.size))
            self.prior_mean(added[~np.isnan(added[:, 0])])
        engine = self.engine
        engine.points = domain.coordinates()
        grown._engine, grown._regression = engine, self._regression
        return grown

    def maximize(
        self, index: Acquisition, salt: int, allowed: Mask | None, pending: Sequence[int], key: tuple[int, int]
    ) -> Floats:
        return self.top(index, pending, key).x

    def best_mean(self, salt: int, queried: Mask, otherwise: Mask | None, key: tuple[int, int]) -> tuple[Any, float]:
        if queried.any():
            return super().best_mean(salt, queried, otherwise, key)
        found = self.top(MEAN, (), key)
        return found.x, found.value

    def top(self, index: Acquisition, pending: Sequence[int], key: tuple[int, int]) -> Top:
        """Return the maximum of an index over the box, given pending points; `key` as in `maximize`."""
        engine = self.engine
        assert isinstance(engine, BoxEngine)
        surface = engine.surface(self.domain.coordinates(list(pending)), self.regularization)
        return self._top(surface, cast(SmoothIndex, index), np.flatnonzero(self._queried), key)

    def top_of_path(self, path: PathSurface, near: Indices, key: tuple[int, int]) -> Top:
        """Return the maximum of a sample path, searched also near the points with numbers `near` (k,)."""
        return self._top(path, MEAN, near, key, PATH_SIZES)

    def _top(
        self, surface: SearchSurface, index: SmoothIndex, near: Indices, key: tuple[int, int], sizes: Sizes = SIZES
    ) -> Top:
        return top_of_box(surface, index, self._bounds, self.domain.coordinates(near), key, sizes)


class SettingsModel(BoxModel):
    """Model of a space of named parameters, which maximises indices over all settings."""

    domain: Settings

    def _top(
        self, surface: SearchSurface, index: SmoothIndex, near: Indices, key: tuple[int, int], sizes: Sizes = SIZES
    ) -> Top:
        space = self.domain.space
        if not space.smooth:
            return top_of_settings(surface, index, space, self.domain.points(near), key)
        found = super()._top(surface, index, near, key, sizes)
        return found._replace(x=space.decode(found.x[None])[0])


MODELS: dict[type[Domain], type[Model]] = {WholeBox: BoxModel, Settings: SettingsModel}  # others have a `Model`


def make_model(
    prior: ModelPrior, domain: Domain, make_engine: MakeEngine, regularization: float,
    schedule: HyperparameterSchedule | None = None,
) -> Model:  # fmt: skip
    """Make the model of a domain: parameters as in `Model`."""
    return MODELS.get(type(domain), Model)(prior, domain, make_engine, regularization, schedule)
