"""Policies that have a Gaussian-process model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.policies.base import Best, Policy
from scalable_bandits.policies.best import Observations
from scalable_bandits.policies.measurements import ROUNDING, noise_floor
from scalable_bandits.posteriors import (
    Acquisition,
    Engine,
    EngineOptions,
    State,
    check_engine,
    check_size,
    find_engine,
    make_engine,
)
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import LogNormal
from scalable_bandits.posteriors.hyperparameters.schedule import HyperparameterSchedule, usual_lengthscales
from scalable_bandits.posteriors.model import Model, ModelPrior, make_model
from scalable_bandits.spaces import Domain, Indices, Mask, Points


def _prior(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not isinstance(value, LogNormal) and value != "auto":
        checks.refuse(field.name, value, "a LogNormal, 'auto', or None")


@attrs.define(eq=False, kw_only=True, slots=False)
class GaussianProcessPolicy(Policy):
    """A policy with a posterior.

    Parameters
    ----------
    kernel
        Prior covariance, in squared units of y.
    prior_mean
        A number, one for each candidate of a finite space (size,), or a function from points (k, d)
        to means (k,), in units of y.
    engine
        "dense" (n x n covariance), "blocked" (rows and tiles, for large spaces), "autoregressive" (for a kernel times
        `TemporalDecay`), or "auto": by kernel and size. These are exact, and so is the engine that a whole box has of
        its own. "sketched": approximate, for long runs on large spaces (Calandriello et al. 2019); it plays a box
        through a candidate set.
    oversampling
        qbar of the sketched engine: a queried point enters the dictionary with probability qbar s^2 / noise variance.
        Infinite: all enter, and the posterior is exact.
    refit
        None: the kernel is what was given. k: its hyperparameters are learned from the observations every k rounds, by
        maximum likelihood from several starts, and so is the prior mean, if it is a number. The height is learned if
        the kernel has a factor, as ``1.0 * Matern(0.3)`` has, and stays 1 in ``Matern(0.3)``. A factor is held near the
        variance of the observations over the space (log-normal, spread 0.5; where many are near each other, each counts
        less). Guarantees assume a known kernel.
    lengthscale_prior
        Prior on the lengthscales as they are learned: a `LogNormal`; None: flat; "auto": one of spread 1 around
        lengthscales that go with the space's sides (the median of `LogNormal.of_sides`).

    Other parameters are those of `Policy` (`on`: executor of the tiles of the blocked engine).

    Raises
    ------
    ValueError
        If the kernel does not take the space's points, the prior mean does not fit the space, the engine is unknown or
        not made for the kernel or so many candidates, the regularization is lost in rounding beside the prior variance,
        or `refit` is asked for where the function changes over rounds.

    Notes
    -----
    Where the function changes over rounds (`TemporalDecay`), each observation told is a round: the i-th is of round i,
    and the posterior is that of the round to come. Pending points count as measured in the present round.
    """

    sharded: ClassVar[bool] = True
    engines: ClassVar[tuple[str, ...]] = ()  # of a policy with one of its own

    kernel: Kernel = attrs.field(kw_only=False, validator=checks.instance_of(Kernel, "a kernel, such as RBF(0.2)"))
    prior_mean: float | Floats | Callable[[Floats], Floats] = attrs.field(default=0.0)
    engine: str = attrs.field(default="auto")
    oversampling: float = attrs.field(default=1.5, converter=checks.to_float, validator=checks.positive_or_infinite)
    refit: int | None = attrs.field(default=None, converter=checks.to_int, validator=checks.whole(1, optional=True))
    lengthscale_prior: LogNormal | str | None = attrs.field(default="auto", validator=_prior)
    _model: Model = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.kernel.check(self.space.dimension)
        self.engine = self._checked_engine()
        if self.on is not None and (self.domain.whole_box or not self._engine_is_sharded()):
            allowed = f"None for the engine {self.engine!r}: an executor can hold tiles of the engine 'blocked'"
            checks.refuse("on", self.on, allowed)
        if not callable(self.prior_mean):
            means = checks.finite("prior_mean", self.prior_mean)
            sizes = [()] if self.space.finite is None else [(), (self._domain.size,)]
            if means.shape not in sizes:
                allowed = "a number, or a function; on a finite space also one number a candidate"
                checks.refuse("prior_mean", f"shape {means.shape}", allowed)
            self.prior_mean = checks.frozen(means) if means.ndim else float(means)
        some = self._domain.sample(self.seed)
        self.prior_mean_at(some[:1])
        self._noise_floor = noise_floor(
            self.regularization, float(self.kernel.diagonal(some).max())
        )  # a covariance of too few arms is refused here
        constant = self.prior_mean if isinstance(self.prior_mean, float) else None
        self._model = self.make_model(self._schedule(constant))

    def _schedule(self, mean: float | None) -> HyperparameterSchedule | None:
        if self.refit is None:
            return None
        if self.engines or self.kernel.epsilon:
            checks.refuse("refit", self.refit, "None where the function changes over rounds")
        given = self.lengthscale_prior
        lengthscales = usual_lengthscales(self.space) if isinstance(given, str) else given
        if lengthscales is not None:
            lengthscales.check(self.space.dimension)
        return HyperparameterSchedule(self.kernel, mean, lengthscales, self.refit, self.seed)

    def _takes_whole_boxes(self) -> bool:
        engine = find_engine(self.engine)
        exact = engine is None or engine.exact
        return super()._takes_whole_boxes() and not self.kernel.epsilon and exact

    def _engine_is_sharded(self) -> bool:
        engine = find_engine(self.engine)
        return not self.engines and engine is not None and engine.sharded

    def _checked_engine(self) -> str:
        """Name of the engine that was asked for, "auto" resolved."""
        if not self.engines:
            return check_engine(self.engine, self._domain.size, self.kernel.epsilon)
        if self.engine not in ("auto", *self.engines):
            checks.refuse("engine", self.engine, " or ".join(map(repr, ("auto", *self.engines))))
        if self.kernel.epsilon:
            checks.refuse("kernel", self.kernel, "one without TemporalDecay: the policy forgets in a way of its own")
        check_size(self.engines[0], self._domain.size, Engine.limit)
        return self.engines[0]

    @property
    def largest_prior_variance(self) -> float:
        """Largest prior variance in the space, in squared units of y."""
        return self._noise_floor / ROUNDING

    # ---- the model

    def make_model(self, schedule: HyperparameterSchedule | None = None) -> Model:
        """Make a model of the policy's prior without observations.

        Parameters
        ----------
        schedule
            Hyperparameters that the model learns; None keeps the kernel as it was given.
        """
        constant = self.prior_mean if isinstance(self.prior_mean, float) else None
        prior = ModelPrior(self.kernel, self.prior_mean_at, constant)
        return make_model(prior, self._domain, self.make_engine, self.regularization, schedule)

    def make_engine(self, kernel: Kernel, points: Floats, prior_mean: Floats) -> Engine:
        """Make an engine without observations.

        Parameters
        ----------
        kernel
            Prior covariance.
        points
            (n, d) candidates.
        prior_mean
            (n,) prior mean at the candidates, in units of y.
        """
        executor = None if self.on is None else self._executor
        space = self._domain.numbered if self._domain.size == len(points) else Points(points)
        return make_engine(
            self.engine, kernel, points, prior_mean, EngineOptions(self.oversampling, self.seed, executor, space)
        )

    def prior_mean_at(self, points: Floats) -> Floats:
        """Prior mean (k,) as it was given, at points (k, d), in units of y; ValueError if its shape is invalid."""
        if not len(points):
            return np.zeros(0)
        if callable(self.prior_mean):
            means = checks.finite("prior_mean", self.prior_mean(points))
        else:
            given = np.asarray(self.prior_mean)
            means = given[self._domain.find(points)] if given.ndim else given
        if means.shape not in ((), (len(points),)):
            checks.refuse("prior_mean", f"values of shape {means.shape}", f"({len(points)},), one a point")
        return np.broadcast_to(means, (len(points),)).astype(np.float64)

    @property
    def model(self) -> Model:
        """Prior, engine and observations."""
        return self._model

    @property
    def present_kernel(self) -> Kernel:
        """Kernel of the posterior: `kernel`, or what was learned last."""
        return self._model.kernel

    @property
    def posterior_engine(self) -> Engine:
        """Engine of the model."""
        return self._model.engine

    @property
    def observations(self) -> Observations | None:
        if self._model.forgets:
            return None
        candidates, averages, noise_variances = self._model.observations.collapsed()
        return Observations(self._domain.points(candidates), averages, noise_variances)

    @property
    def queried(self) -> Mask:
        """Candidates with observations that still count, (n,)."""
        return self._model.queried

    @property
    def remembered(self) -> int:
        """Number of observations in the posterior."""
        return self.rounds

    @property
    def information_gain(self) -> float:
        """Realised information gain of the observations so far, in nats."""
        return self._model.information_gain

    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        return self._model.predict(points)

    # ---- the algorithm

    def acquisition(self, allowed: Mask | None) -> Acquisition:
        """Index that the next round maximises, where a mask (size,) says what may be chosen; None if all may."""
        raise NotImplementedError(f"{type(self).__name__} maximises no index")

    @property
    def maximizes_index(self) -> bool:
        """Whether the policy plays where `acquisition` is largest."""
        return type(self).choose is GaussianProcessPolicy.choose

    def choose(self, allowed: Mask | None = None) -> int | Floats:
        key = (self.seed, self.round)
        return self._model.maximize(self.acquisition(allowed), self._salt, allowed, self._pending.numbers, key)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        self._model.observe(candidate, y, noise_variance)
        self._model.learn_hyperparameters(self.rounds + 1)

    def best(self) -> Best:
        """Queried point of largest posterior mean; where nothing is known, the candidate of largest prior mean."""
        found, _ = self._model.best_mean(self._salt, self.queried, None, (self.seed, self.round))
        if isinstance(found, np.ndarray):
            return Best(found, *self.posterior(found))
        mean, variance = self.posterior_engine.at(np.array([found]))
        return Best(self._domain.value(found), float(mean[0]), float(np.sqrt(variance[0])))

    # ---- extended, recorded, resumed

    def extend(self, grown: Domain) -> None:
        self._model = self._model.extended(grown)

    def untold(self) -> Indices:
        return self._domain.unobserved(self.queried)

    @property
    def ask_is_stateful(self) -> bool:
        return self.posterior_engine.ask_is_stateful

    def state(self) -> State:
        return {**super().state(), **self._model.state()}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._model = self.make_model(self._model.schedule)
        self._model.restore(state)
