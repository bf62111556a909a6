"""Policies that keep an exact Gaussian-process posterior on the candidates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.acquisition import UpperConfidence
from scalable_bandits.checks import Floats
from scalable_bandits.information import GreedyInformationGain
from scalable_bandits.kernels import Kernel
from scalable_bandits.policies.base import Best, Mask, Policy
from scalable_bandits.posteriors import (
    Acquisition,
    Engine,
    ForgettingEngine,
    Observations,
    Regression,
    State,
    arrays,
    check_engine,
    check_size,
    make_engine,
    nested,
    part,
)
from scalable_bandits.spaces import Arms, FiniteSpace, Points

ROUNDING = 1e-14  # smallest noise variance, as a fraction of the prior variance
MEAN = UpperConfidence(width=0.0)


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
        `TemporalDecay`), or "auto": by kernel and size. All are exact.

    Other parameters are those of `Policy`.

    Where the function changes over rounds (`TemporalDecay`), each observation told is a round: the i-th is of round i,
    and the posterior is that of the round to come. Pending points count as measured in the present round.
    """

    engines: ClassVar[tuple[str, ...]] = ()  # of a policy with one of its own

    kernel: Kernel = attrs.field(kw_only=False, validator=checks.instance_of(Kernel))
    prior_mean: float | Floats | Callable[[Floats], Floats] = attrs.field(default=0.0)
    engine: str = attrs.field(default="auto")
    _engine: Engine | None = attrs.field(init=False, default=None, repr=False)
    _observed: Observations = attrs.field(init=False, factory=Observations, repr=False)
    _regression: Regression | ForgettingEngine | None = attrs.field(init=False, default=None, repr=False)
    _pending_columns: dict[int, Floats] = attrs.field(init=False, factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.kernel.check(self.space.dimension)
        self.engine = self._checked_engine()
        if not callable(self.prior_mean):
            means = checks.finite("prior_mean", self.prior_mean)
            sizes = [(), (self._finite.size,)] if isinstance(self.space, FiniteSpace) else [()]
            if means.shape not in sizes:
                allowed = "a number, or a function; on a finite space also one number a candidate"
                checks.refuse("prior_mean", f"shape {means.shape}", allowed)
            self.prior_mean = means if means.ndim else float(means)
        self.prior_mean_at(self._finite.points(np.zeros(1, dtype=np.int64)))
        count = min(self._finite.size, 100_000)  # of a larger space a sample
        some = self._finite.points(np.linspace(0, self._finite.size - 1, count).astype(np.int64))
        largest = float(self.kernel.diagonal(some).max())  # a covariance of too few arms is refused here
        self._noise_floor = ROUNDING * largest
        if self.regularization < self._noise_floor:
            allowed = (
                f"at least {self._noise_floor:.3g}: less is lost in the rounding of the prior variance {largest:.3g}"
            )
            checks.refuse("regularization", self.regularization, allowed)
        self._queried = np.zeros(self._finite.size, dtype=np.bool_)

    def _checked_engine(self) -> str:
        """Name of the engine that was asked for, "auto" resolved."""
        if not self.engines:
            return check_engine(self.engine, self._finite.size, self.kernel.epsilon)
        if self.engine not in ("auto", *self.engines):
            checks.refuse("engine", self.engine, " or ".join(map(repr, ("auto", *self.engines))))
        if self.kernel.epsilon:
            checks.refuse("kernel", self.kernel, "one without TemporalDecay: the policy forgets in a way of its own")
        check_size(self.engines[0], self._finite.size)
        return self.engines[0]

    def prior_mean_at(self, points: Floats) -> Floats:
        """Prior mean at points (k, d), shape (k,)."""
        if not len(points):
            return np.zeros(0)
        if callable(self.prior_mean):
            means = checks.finite("prior_mean", self.prior_mean(points))
        else:
            given = np.asarray(self.prior_mean)
            means = given[self._finite.index(points)] if given.ndim else given
        if means.shape not in ((), (len(points),)):
            checks.refuse("prior_mean", f"values of shape {means.shape}", f"({len(points)},), one a point")
        return np.broadcast_to(means, (len(points),)).astype(np.float64)

    @property
    def posterior_engine(self) -> Engine:
        """The engine, made when it is first needed."""
        if self._engine is None:
            points = self._finite.points()
            self._engine = self.fresh_engine(points, self.prior_mean_at(points))
        return self._engine

    def fresh_engine(self, points: Floats, prior_mean: Floats) -> Engine:
        """Make an engine that has seen nothing: what it forgets, the policy forgets."""
        return make_engine(self.engine, self.kernel, points, prior_mean)

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

    def forget(self) -> None:
        """Know nothing again."""
        self._engine, self._regression, self._observed = None, None, Observations()
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
            rebuilt = held.extended(points, self.prior_mean_at(points))
        else:
            rebuilt = self.fresh_engine(points, self.prior_mean_at(points))
            told = map(np.ndarray.tolist, self._observed.collapsed())
            for candidate, average, noise_variance in zip(*told, strict=True):
                rebuilt.observe(candidate, average, noise_variance)
        self._engine, self._regression = rebuilt, None
        self._queried = np.append(self._queried, np.zeros(len(points) - len(self._queried), dtype=np.bool_))
        self._pending_columns.clear()

    @property
    def queried(self) -> Mask:
        """Which candidates have observations that still count, (n,)."""
        return self._engine.observed if isinstance(self._engine, ForgettingEngine) else self._queried

    def reduction(self) -> Floats | None:
        """Variance (n,) that the pending points will take off; None if none is pending.

        Their values are fantasised at the posterior mean, which leaves all means as they are: GP-BUCB
        (Desautels, Krause & Burdick 2014).
        """
        if not self._waiting:
            return None
        columns, covariance = self.pending_covariance()
        return np.einsum("ij,ij->j", columns, np.linalg.solve(covariance, columns))

    def pending_covariance(self) -> tuple[Floats, Floats]:
        """Posterior covariances of the distinct pending points with all (q, n), and of their values (q, q)."""
        held = self._pending_columns
        distinct, counts = np.unique(np.array(self._waiting, dtype=np.int64), return_counts=True)
        missing = [c for c in distinct.tolist() if c not in held]
        if missing:
            held.update(zip(missing, self.posterior_engine.columns(np.array(missing)), strict=True))
        columns = np.array([held[c] for c in distinct.tolist()])
        return columns, columns[:, distinct] + np.diag(self.regularization / counts)

    @property
    def information_gain(self) -> float:
        """Realised information gain of the observations so far, in nats."""
        return 0.0 if self._engine is None else self._engine.information_gain

    def posterior(self, x: ArrayLike) -> tuple[Any, Any]:
        """Posterior mean and standard deviation of f at x; before the first `tell`, the prior's.

        Parameters
        ----------
        x
            (d,) or (k, d), anywhere, not only at candidates; for `Arms` an arm number or (k,) of them.

        Returns
        -------
        mean, std : float, or ndarray (k,)
            In units of y.
        """
        points, single = self.space.parse(x)
        if isinstance(self.space, Arms):
            self.space.index(x)
        if self._regression is None:
            self._regression = self._refit()
        regression = self._regression
        mean, variance = regression.predict(points)
        mean, std = mean + self.prior_mean_at(points), np.sqrt(variance)
        return (float(mean[0]), float(std[0])) if single else (mean, std)

    def _refit(self) -> Regression | ForgettingEngine:
        if isinstance(self.posterior_engine, ForgettingEngine):
            return self.posterior_engine
        queried, averages, noise_variances = self._observed.collapsed()
        points = self._finite.points(queried)
        return Regression(self.kernel, points, noise_variances, averages - self.prior_mean_at(points))

    @property
    def asks_matter(self) -> bool:
        return self.posterior_engine.asks_matter

    def state(self) -> State:
        parts = nested(engine=self.posterior_engine.state(), observed=self._observed.state())
        return {**super().state(), **parts, **arrays(queried=np.flatnonzero(self._queried))}

    def restore(self, state: State) -> None:
        super().restore(state)
        points = self._finite.points()
        self._engine = self.fresh_engine(points, self.prior_mean_at(points))
        self._engine.restore(part(state, "engine"))
        self._observed.restore(part(state, "observed"))
        self._queried = np.zeros(len(points), dtype=np.bool_)
        self._queried[state["queried"]] = True
        self._regression = None
        self._pending_columns.clear()

    def best(self) -> Best:
        """Queried point of largest posterior mean; where nothing is known, the candidate of largest prior mean."""
        queried = self.queried
        candidate, _ = self.posterior_engine.maximize(MEAN, self._salt, queried if queried.any() else None)
        mean, variance = self.posterior_engine.at(np.array([candidate]))
        return Best(self._finite.value(candidate), float(mean[0]), float(np.sqrt(variance[0])))


@attrs.define(eq=False, kw_only=True, slots=False)
class IndexPolicy(GaussianProcessPolicy):
    """A policy that plays the candidate of largest index."""

    @abstractmethod
    def acquisition(self, allowed: Mask | None) -> Acquisition:
        """The index of the round to come."""

    def choose(self, allowed: Mask | None = None) -> int:
        return self.posterior_engine.maximize(self.acquisition(allowed), self._salt, allowed, self.reduction())[0]

    @property
    def round(self) -> int:
        """t of the round to come: 1 plus the points told and pending."""
        return self.rounds + len(self._waiting) + 1


@attrs.define(eq=False, kw_only=True, slots=False)
class ImprovementPolicy(IndexPolicy):
    """An index over an incumbent.

    Parameters
    ----------
    xi
        Improvement asked beyond the incumbent, in units of y.
    incumbent
        "mean": the largest posterior mean at a point queried or pending, which noise does not flatter.
        "observation": the largest y told, the sources' noise-free definition taken at its word.
    """

    xi: float = attrs.field(default=0.0, converter=checks.to_float, validator=checks.nonnegative)
    incumbent: str = attrs.field(default="mean", validator=attrs.validators.in_(("mean", "observation")))
    _largest: float = attrs.field(default=-np.inf, init=False, repr=False)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        super().learn(candidate, y, noise_variance)
        self._largest = max(self._largest, y)

    def state(self) -> State:
        return {**super().state(), **arrays(largest=self._largest)}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._largest = float(state["largest"])

    def best_so_far(self, allowed: Mask | None) -> float:
        """Value of the incumbent, in units of y; before there is one, the largest prior mean allowed."""
        if self.incumbent == "observation" and np.isfinite(self._largest):
            return self._largest
        queried = self.queried
        if self._waiting:
            queried = queried.copy()
            queried[self._waiting] = True
        return self.posterior_engine.maximize(MEAN, self._salt, queried if queried.any() else allowed)[1]


GainGiven = str | float | Callable[[int], float]


def _gain(value: Any) -> GainGiven:
    if callable(value) or (isinstance(value, str) and value in ("realised", "greedy")):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and np.isfinite(value):
        return float(value)
    checks.refuse("information_gain", value, "'realised', 'greedy', a number >= 0, or a function of the round")


@attrs.define(eq=False, kw_only=True, slots=False)
class ConfidencePolicy(IndexPolicy):
    """An upper confidence bound (or a scaled draw) whose width depends on B and on the information gain.

    Parameters
    ----------
    rkhs_norm
        B, a bound on the RKHS norm of f.
    information_gain
        "realised" (of the points played), "greedy" (upper bound over the space, Srinivas et al. 2010, section
        5.1), a number, or a function of the number of observations that the posterior is made of, in nats.
    """

    rkhs_norm: float = attrs.field(default=2.0, converter=checks.to_float, validator=checks.positive)
    _gain: GainGiven = attrs.field(default="realised", alias="information_gain", converter=_gain)
    _greedy: GreedyInformationGain | None = attrs.field(init=False, default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self._gain == "greedy" and self.kernel.epsilon:
            allowed = "'realised', a number or a function with TemporalDecay: the greedy bound is for a fixed function"
            checks.refuse("information_gain", self._gain, allowed)

    @property
    @abstractmethod
    def width(self) -> float:
        """Confidence width of the round to come."""

    @property
    def information_gain(self) -> float:
        """Information gain (nats) that the width of the next round uses."""
        if self._gain == "realised":
            return super().information_gain
        if self._gain == "greedy":
            if self._greedy is None:
                self._greedy = GreedyInformationGain(self.kernel, self._finite, self.regularization)
            return self._greedy(self.remembered)
        return float(self._gain(self.remembered)) if callable(self._gain) else float(self._gain)

    def acquisition(self, allowed: Mask | None) -> Acquisition:
        return UpperConfidence(self.width)
