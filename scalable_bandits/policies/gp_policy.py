"""Policies that keep a Gaussian-process posterior on the candidates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, cast

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.kernels import Kernel
from scalable_bandits.policies.base import Best, Mask, Observations
from scalable_bandits.policies.sharded import ShardedPolicy
from scalable_bandits.posteriors import (
    Acquisition,
    CollapsedObservations,
    Engine,
    EngineOptions,
    ForgettingEngine,
    Regression,
    SketchedEngine,
    State,
    arrays,
    check_engine,
    check_size,
    engine_class,
    make_engine,
    nested,
    part,
    pending,
)
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.maximization import Top
from scalable_bandits.posteriors.box.surface import SmoothIndex
from scalable_bandits.posteriors.box.whole_box import box_engine, top_of_box
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import LogNormal
from scalable_bandits.posteriors.hyperparameters.schedule import HyperparameterSchedule, usual_lengthscales
from scalable_bandits.spaces import Box, FiniteSpace, Indices, Points, Visited

MEAN = UpperConfidence(width=0.0)


def _prior(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not isinstance(value, LogNormal) and value != "auto":
        checks.refuse(field.name, value, "a LogNormal, 'auto', or None")


@attrs.define(eq=False, kw_only=True, slots=False)
class GaussianProcessPolicy(ShardedPolicy):
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

    Other parameters are those of `ShardedPolicy` (`on`: where the candidates of the blocked engine are, block by block)
    and `Policy`.

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

    engines: ClassVar[tuple[str, ...]] = ()  # of a policy with one of its own

    kernel: Kernel = attrs.field(kw_only=False, validator=checks.instance_of(Kernel, "a kernel, such as RBF(0.2)"))
    prior_mean: float | Floats | Callable[[Floats], Floats] = attrs.field(default=0.0)
    engine: str = attrs.field(default="auto")
    oversampling: float = attrs.field(default=1.5, converter=checks.to_float, validator=checks.positive_or_infinite)
    refit: int | None = attrs.field(default=None, converter=checks.to_int, validator=checks.whole(1, optional=True))
    lengthscale_prior: LogNormal | str | None = attrs.field(default="auto", validator=_prior)
    _learned: HyperparameterSchedule | None = attrs.field(init=False, default=None, repr=False)
    _engine: Engine | None = attrs.field(init=False, default=None, repr=False)
    _observed: CollapsedObservations = attrs.field(init=False, factory=CollapsedObservations, repr=False)
    _regression: Regression | ForgettingEngine | SketchedEngine | None = attrs.field(
        init=False, default=None, repr=False
    )
    _pending_columns: dict[int, Floats] = attrs.field(init=False, factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.kernel.check(self.space.dimension)
        self.engine = self._checked_engine()
        if self.on is not None and (not self._takes_executor() or isinstance(self._finite, Visited)):
            allowed = f"None for the engine {self.engine!r}: only tiles of the engine 'blocked' can be held elsewhere"
            checks.refuse("on", self.on, allowed)
        if not callable(self.prior_mean):
            means = checks.finite("prior_mean", self.prior_mean)
            sizes = [(), (self._finite.size,)] if isinstance(self.space, FiniteSpace) else [()]
            if means.shape not in sizes:
                allowed = "a number, or a function; on a finite space also one number a candidate"
                checks.refuse("prior_mean", f"shape {means.shape}", allowed)
            self.prior_mean = checks.frozen(means) if means.ndim else float(means)
        some = self._some_points()
        self.prior_mean_at(some[:1])
        self._check_rounding(float(self.kernel.diagonal(some).max()))  # a covariance of too few arms is refused here
        self._queried = np.zeros(self._finite.size, dtype=np.bool_)
        if self.refit is not None:
            if self.engines or self.kernel.epsilon:
                checks.refuse("refit", self.refit, "None where the function changes over rounds")
            given = self.lengthscale_prior
            lengthscales = usual_lengthscales(self.space) if isinstance(given, str) else given
            if lengthscales is not None:
                lengthscales.check(self.space.dimension)
            mean = self.prior_mean if isinstance(self.prior_mean, float) else None
            self._learned = HyperparameterSchedule(self.kernel, mean, lengthscales, self.refit, self.seed)

    @property
    def present_kernel(self) -> Kernel:
        """The kernel of the posterior: `kernel`, or what was learned last."""
        return self.kernel if self._learned is None else self._learned.kernel

    def _takes_whole_boxes(self) -> bool:
        return super()._takes_whole_boxes() and not self.kernel.epsilon and self.engine != "sketched"

    def _takes_executor(self) -> bool:
        return not self.engines and engine_class(self.engine).sharded

    def _checked_engine(self) -> str:
        """Name of the engine that was asked for, "auto" resolved."""
        if not self.engines:
            return check_engine(self.engine, self._finite.size, self.kernel.epsilon)
        if self.engine not in ("auto", *self.engines):
            checks.refuse("engine", self.engine, " or ".join(map(repr, ("auto", *self.engines))))
        if self.kernel.epsilon:
            checks.refuse("kernel", self.kernel, "one without TemporalDecay: the policy forgets in a way of its own")
        check_size(self.engines[0], self._finite.size, Engine.limit)
        return self.engines[0]

    def prior_mean_at(self, points: Floats) -> Floats:
        """Prior mean at points (k, d), shape (k,), in units of y; ValueError if the given function's is none."""
        if not len(points):
            return np.zeros(0)
        if callable(self.prior_mean):
            means = checks.finite("prior_mean", self.prior_mean(points))
        else:
            learned = None if self._learned is None else self._learned.mean
            given = np.asarray(self.prior_mean if learned is None else learned)
            means = given[self._finite.index(points)] if given.ndim else given
        if means.shape not in ((), (len(points),)):
            checks.refuse("prior_mean", f"values of shape {means.shape}", f"({len(points)},), one a point")
        return np.broadcast_to(means, (len(points),)).astype(np.float64)

    @property
    def posterior_engine(self) -> Engine:
        """The engine, made when it is first needed."""
        if self._engine is None:
            self._engine = self._new_engine(self._finite)
        return self._engine

    def _new_engine(self, space: FiniteSpace) -> Engine:
        if not isinstance(space, Visited):
            points = space.points()
            return self.fresh_engine(points, self.prior_mean_at(points))
        assert isinstance(self.space, Box)
        given = self.prior_mean_at if callable(self.prior_mean) else float(self.prior_mean_at(np.empty((1, 0)))[0])
        return box_engine(self.present_kernel, self.space, space, given)

    def fresh_engine(self, points: Floats, prior_mean: Floats) -> Engine:
        """Make an engine of points (n, d) and prior means (n,) that has seen nothing; the policy forgets as it does."""
        executor = None if self.on is None else self._executor
        space = self._finite if self._finite.size == len(points) else Points(points)
        options = EngineOptions(self.oversampling, self.seed, executor, space)
        return make_engine(self.engine, self.present_kernel, points, prior_mean, options)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        engine = self.posterior_engine
        engine.observe(candidate, y, noise_variance)
        engine.advance()
        if not isinstance(engine, ForgettingEngine):
            self._observed.add(candidate, y, noise_variance)
            self._queried[candidate] = True
        self._regression = None
        if self._pending_columns:
            self._pending_columns.clear()
        if self._learned is not None and self._learned.due(self.rounds + 1):
            queried, averages, noise_variances = self._observed.collapsed()
            points = self._finite.points(queried)
            prior = 0.0 if self._learned.mean is not None else self.prior_mean_at(points)
            self._learned.learn(points, averages - prior, noise_variances)
            self._engine = self._rebuilt(self._finite)

    def forget(self) -> None:
        """Know nothing again."""
        self._engine, self._regression, self._observed = None, None, CollapsedObservations()
        self._queried[:] = False
        self._pending_columns.clear()

    @property
    def remembered(self) -> int:
        """How many observations the posterior is made of."""
        return self.rounds

    def extend(self, grown: Points) -> None:
        """Rebuild the engine over the longer candidate set, from the collapsed observations where it forgets none."""
        points, held = grown.points(), self.posterior_engine
        if isinstance(held, ForgettingEngine):
            self._engine = held.extended(points, self.prior_mean_at(points))
        else:
            self._engine = self._rebuilt(grown)
        self._regression = None
        self._queried = np.append(self._queried, np.zeros(len(points) - len(self._queried), dtype=np.bool_))
        self._pending_columns.clear()

    def visit(self, grown: Visited) -> None:
        if callable(self.prior_mean):  # which may refuse them
            added = grown.points()[self._finite.size :]
            self.prior_mean_at(added[~np.isnan(added[:, 0])])
        self.posterior_engine.points = grown.points()
        queried = np.zeros(grown.size, dtype=np.bool_)
        held = min(len(self._queried), grown.size)
        queried[:held] = self._queried[:held]
        self._queried = queried

    def untold(self) -> Indices:
        return np.flatnonzero(~self._queried & ~np.isnan(self._finite.points()[:, 0]))

    @property
    def observations(self) -> Observations | None:
        if isinstance(self._engine, ForgettingEngine):
            return None
        candidates, averages, noise_variances = self._observed.collapsed()
        return Observations(self._finite.points(candidates), averages, noise_variances)

    def _rebuilt(self, space: FiniteSpace) -> Engine:
        """A new engine that knows the collapsed observations."""
        engine = self._new_engine(space)
        engine.observe_all(*self._observed.collapsed())
        return engine

    @property
    def queried(self) -> Mask:
        """Which candidates have observations that still count, (n,)."""
        return self._engine.observed if isinstance(self._engine, ForgettingEngine) else self._queried

    def reduction(self) -> Floats | None:
        """Variance (n,), in squared units of y, that the pending points will take off; None if none is pending."""
        return pending.reduction(*self.pending_covariance()) if self._pending else None

    def pending_covariance(self) -> tuple[Floats, Floats]:
        """Posterior covariances of the distinct pending points with all (q, n), and of their values (q, q)."""
        held = self._pending_columns
        points, counts = pending.distinct(self._pending)
        missing = [c for c in points.tolist() if c not in held]
        if missing:
            held.update(zip(missing, self.posterior_engine.columns(np.array(missing)), strict=True))
        columns = np.array([held[c] for c in points.tolist()])
        return columns, pending.covariance_of_values(columns, points, self.regularization / counts)

    @property
    def information_gain(self) -> float:
        """Realised information gain of the observations so far, in nats."""
        return 0.0 if self._engine is None else self._engine.information_gain

    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        if self._regression is None:
            self._regression = self._refit()
        mean, variance = self._regression.predict(points)
        return mean + self.prior_mean_at(points), variance

    def _refit(self) -> Regression | ForgettingEngine | SketchedEngine:
        engine = self.posterior_engine
        if isinstance(engine, ForgettingEngine | SketchedEngine):
            return engine
        queried, averages, noise_variances = self._observed.collapsed()
        points = self._finite.points(queried)
        return Regression(self.present_kernel, points, noise_variances, averages - self.prior_mean_at(points))

    @property
    def ask_is_stateful(self) -> bool:
        return self.posterior_engine.ask_is_stateful

    def state(self) -> State:
        parts = nested(engine=self.posterior_engine.state(), observed=self._observed.state())
        learned = {} if self._learned is None else nested(learned=self._learned.state())
        return {**super().state(), **parts, **learned, **arrays(queried=np.flatnonzero(self._queried))}

    def restore(self, state: State) -> None:
        super().restore(state)
        if self._learned is not None:
            self._learned.restore(part(state, "learned"))
        self._engine = self._new_engine(self._finite)
        self._engine.restore(part(state, "engine"))
        self._observed.restore(part(state, "observed"))
        self._queried = np.zeros(self._finite.size, dtype=np.bool_)
        self._queried[state["queried"]] = True
        self._regression = None
        self._pending_columns.clear()

    def _top(self, index: Acquisition) -> Top:
        """Where an index is largest over the whole box, given the pending points."""
        engine = self.posterior_engine
        assert isinstance(engine, BoxEngine)
        assert isinstance(self.space, Box)
        known, awaited = self._finite.points(np.flatnonzero(self._queried)), self._finite.points(self._pending)
        key = (self.seed, self.round)
        return top_of_box(engine, self.space, cast(SmoothIndex, index), known, awaited, self.regularization, key)

    def best(self) -> Best:
        """Queried point of largest posterior mean; where nothing is known, the candidate of largest prior mean."""
        queried = self.queried
        if isinstance(self._finite, Visited) and not queried.any():
            x = self._top(MEAN).x
            return Best(x, *self.posterior(x))
        candidate, _ = self.posterior_engine.maximize(MEAN, self._salt, queried if queried.any() else None)
        mean, variance = self.posterior_engine.at(np.array([candidate]))
        return Best(self._finite.value(candidate), float(mean[0]), float(np.sqrt(variance[0])))


@attrs.define(eq=False, kw_only=True, slots=False)
class IndexPolicy(GaussianProcessPolicy):
    """A policy that plays the candidate of largest index."""

    @abstractmethod
    def acquisition(self, allowed: Mask | None) -> Acquisition:
        """The index of the round to come, where a mask (size,) says what may be chosen; None if all may."""

    def choose(self, allowed: Mask | None = None) -> int:
        if isinstance(self._finite, Visited):
            return int(self._locate(self._top(self.acquisition(None)).x[None])[0])
        return self.posterior_engine.maximize(self.acquisition(allowed), self._salt, allowed, self.reduction())[0]
