"""Base class of the policies with a Gaussian-process model."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas._numba_widths import CONSTANT
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.formulas.confidence import Width
from scalable_bandits.kernels import Kernel
from scalable_bandits.kernels.structured import with_categories
from scalable_bandits.policies.base import Best, Observations, Policy
from scalable_bandits.policies.confidence import Confidence
from scalable_bandits.policies.contradiction import FIRST_CHECK, AllMeasured, ContradictedModel, contradiction
from scalable_bandits.policies.first_points import FIRST, first_point
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
from scalable_bandits.posteriors.box.sketched import Sketch
from scalable_bandits.posteriors.hyperparameters.learned_prior import standard_kernel
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import LogNormal
from scalable_bandits.posteriors.models.learned import LearnedModel
from scalable_bandits.posteriors.models.model import MEAN, Candidates, GivenPrior, Model, Query
from scalable_bandits.posteriors.models.pool_search import PoolModel, PoolSearch
from scalable_bandits.posteriors.models.refitted import RefittedModel, usual_lengthscales
from scalable_bandits.posteriors.models.search import search_of
from scalable_bandits.posteriors.pending import Draws
from scalable_bandits.posteriors.rounds import Columns, Game, Rule
from scalable_bandits.posteriors.state import StateEntry, group, member
from scalable_bandits.priors import check_mean, mean_values
from scalable_bandits.spaces import EVERYTHING, AvailabilitySets, Domain, Mask, Points, Pool
from scalable_bandits.spaces.finite import MOST_ENUMERATED
from scalable_bandits.specification import is_own

ENUMERATED_LEARNING = 20_000  # largest number of candidates of a grid that a model which learns its kernel enumerates


def _kernel_or_learned(policy: GaussianProcessPolicy, field: attrs.Attribute[Any], value: Any) -> None:
    """Refuse a kernel that does not fit the space, or none where none can be learned."""
    kind, allowed = type(policy), "a kernel, such as RBF(0.2)"
    if value is None and policy.space.has_coordinates and policy.learns_kernel:
        return
    if not policy.space.has_coordinates and policy.learns_outputs:
        checks.refuse("space", policy.space, f"a space with coordinates: {kind.__name__} learns its kernels from them")
    if not policy.space.has_coordinates:
        allowed = "a kernel of arms, such as Covariance(matrix)"
    elif value is None:
        allowed += f": {kind.__name__} learns none"
    checks.instance_of(Kernel, allowed)(policy, field, value)


_positive_or_learned: checks.Validator = attrs.validators.optional(checks.positive)


def _mean_or_sample(policy: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Refuse draws at pending points of a pool, and where a policy does not always play the maximum of an index."""
    if value not in ("mean", "sample"):
        checks.refuse(field.alias or field.name, value, "'mean', 'sample'")
    if value == "sample" and not (policy._maximizes_index and policy._assumes_draws):
        allowed = f"'mean' for {type(policy).__name__}; 'sample' needs one that always plays the maximum of an index"
        checks.refuse(field.alias or field.name, value, allowed)
    if value == "sample" and policy.space.scanned:
        checks.refuse(field.alias or field.name, value, "'mean' on a Pool")


def _prior_or_auto(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Refuse what is no prior on lengthscales."""
    if not isinstance(value, LogNormal | None) and value != "auto":
        checks.refuse(field.name, value, "a LogNormal, 'auto', or None")


@attrs.define(eq=False, kw_only=True, slots=False)
class GaussianProcessPolicy(Policy):
    """Base class of policies with a Gaussian-process model.

    Parameters
    ----------
    kernel
        Prior covariance, in squared units of y. None: kernel, output scale, noise and mean are learned from the
        observations (`LearnedModel`); y is transformed, anew in every round, so that its scale and outliers among bad
        values do not matter; and the first ten points are spread over the space.
    noise, regularization
        R and lambda, as in `Policy`; 1 if not given. Without a kernel the noise is learned if neither is given; if one
        is, lambda is R^2 unless given, and y is only standardised.
    prior_mean
        Prior mean, in units of y: a number, one for each candidate of a finite space (size,), or a function from points
        (k, d) to means (k,). If not given, 0, or without a kernel learned.
    engine
        Name of the engine: "dense" (n x n covariance), "tiled" (for large spaces), "weights" (for kernels of few
        `features`, at a cost that does not grow with the rounds), "autoregressive" (for a kernel times
        `TemporalDecay`), or "auto", by kernel and size. These are exact, and so is the engine of a whole box, and of a
        grid that is not `enumerated`: on both the largest index is searched for. "sketched" is approximate, for long
        runs on large spaces (Calandriello et al. 2019).
    enumerated
        Largest number of candidates of a grid at all of which the index is computed. A larger grid is searched, as a
        box is: the index is climbed from the best of some thousand candidates, by steps and by gradients, and the
        points that are asked for or told are numbered in this order. If not given, 2,000,000, and 20,000 without a
        kernel, whose engine would be made anew after every fit.
    oversampling
        Factor qbar of the sketched engine: a queried point enters the dictionary with probability qbar s^2 / noise
        variance. If infinite, all enter, and the posterior is exact.
    refit
        Number of rounds between two fits of the kernel's hyperparameters, and of a constant prior mean, to the
        observations by maximum likelihood from several starts; None: the given kernel is kept, or without one fitted
        after every observation up to 200, then at every tenth of growth. The output scale of a given kernel is
        learned only if the kernel has a factor, as ``1.0 * Matern(0.3)`` has; its prior is log-normal with spread 0.5
        around the variance of the observations over the space (observations near each other count less). Guarantees
        assume a known kernel.
    lengthscale_prior
        Prior on learned lengthscales: a `LogNormal`; None for a flat one; "auto" for one of spread 1 around
        lengthscales in proportion to the space's sides (with a kernel given, the median of `LogNormal.of_sides`).
    pending
        Values assumed at pending points until they are told (attribute `pending_values`). "mean": their posterior
        means, which lower variances and leave all means as they are. "sample": values drawn jointly from the posterior
        with noise, new ones in each choice (randomised kriging believer, Sugiura et al. 2026), for policies that always
        play the maximum of an index of the posterior; not on a `Pool`. Failed points keep their posterior means in
        both.

    Other parameters are those of `Policy` (`on`: executor of the tiles of the tiled engine).

    Attributes
    ----------
    model : Model
        Prior, engine and observations; read only.

    Raises
    ------
    ValueError
        If the kernel or the prior mean does not fit the space, a kernel of another package has values that are no
        covariances (`Kernel.check_values`), the engine is unknown or does not fit the kernel or the
        number of candidates, the regularization is lost in the rounding of the prior variance, `refit` is given where
        the function changes over rounds, or there is no kernel for a policy that cannot learn one, or for arms.

    Notes
    -----
    Where the function changes over rounds (`TemporalDecay`), the i-th observation told is of round i, and the posterior
    is that of the next round. Pending points count as measured in the next round.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        group("", lambda self: self.model.state(), lambda self, state: self._restore_model(state)),
        member("_confidence", prefix=False),
    )
    sharded: ClassVar[bool] = True
    _engines: ClassVar[tuple[str, ...]] = ()  # names of the engines of a policy with its own engine
    _assumes_draws: ClassVar[bool] = True  # at pending points, if it maximises an index
    learns_kernel: ClassVar[bool] = False  # whether the kernel may be None
    learns_outputs: ClassVar[bool] = False  # whether kernels are learned from coordinates alone
    _constant_index: ClassVar[UpperConfidence | None] = None  # index of all rounds, of a policy without a width

    kernel: Kernel | None = attrs.field(kw_only=False, default=None, validator=_kernel_or_learned)
    # Of these, None means that it was not given; after the constructor it is None only where it is learned.
    noise: float = attrs.field(default=None, converter=checks.to_float, validator=_positive_or_learned)
    regularization: float = attrs.field(default=None, converter=checks.to_float, validator=_positive_or_learned)
    prior_mean: float | Floats | Callable[[Floats], Floats] | None = attrs.field(default=None)
    engine: str = "auto"
    enumerated: int | None = checks.optional_count()
    oversampling: float = attrs.field(default=1.5, converter=checks.to_float, validator=checks.positive_or_infinite)
    refit: int | None = checks.optional_count()
    lengthscale_prior: LogNormal | str | None = attrs.field(default="auto", validator=_prior_or_auto)
    pending_values: str = attrs.field(default="mean", alias="pending", validator=_mean_or_sample)
    model: Model = attrs.field(init=False, repr=False)
    _confidence: Confidence = attrs.field(init=False, repr=False)
    _said_all: bool = attrs.field(init=False, repr=False, default=False)  # by `AllMeasured`
    _next_check: int = attrs.field(init=False, repr=False, default=FIRST_CHECK)  # observations until `contradiction`

    def __attrs_post_init__(self) -> None:
        self._fill_in()
        super().__attrs_post_init__()
        self._prior_kernel.check(self.space.model_dimension)
        self.engine = self._checked_engine()
        if (engine := find_engine(self.engine)) is not None:
            engine.check_kernel(self._prior_kernel, self.space.model_dimension)
        whole = self.domain.by_visit and not self.space.scanned
        if self.on is not None and (whole or not (self.space.scanned or self._engine_is_sharded())):
            allowed = f"None for the engine {self.engine!r}: an executor can hold tiles of the engine 'tiled'"
            checks.refuse("on", self.on, allowed)
        if callable(self.prior_mean):
            checks.takes("prior_mean", self.prior_mean, "points")
        elif self.prior_mean is not None:
            means = checks.finite("prior_mean", self.prior_mean)
            check_mean("prior_mean", means, self.space)
            self.prior_mean = checks.frozen(means) if means.ndim else float(means)
        if self.kernel is None and not isinstance(self.prior_mean, float | None):
            checks.refuse("prior_mean", self.prior_mean, "a number, or None, where no kernel is given")
        if (self.space.named or self.space.scanned) and not isinstance(self.prior_mean, float | None):
            kind = "a pool" if self.space.scanned else "a space of named parameters"
            checks.refuse("prior_mean", self.prior_mean, f"a number on {kind}")
        if self.kernel is not None:
            some = self.space.encode(self.domain.sample(self.seed))
            self._prior_kernel.check_values(some)
            self._given_mean_at(some[:1])
            largest = float(self._prior_kernel.diagonal(some).max())  # ValueError if it has too few arms
            self._measuring.expect_variance(largest, self._forgets, self.horizon)
        self.model = self._fresh_model()
        self._confidence = Confidence.of(self)

    def _fill_in(self) -> None:
        """Replace numbers that were not given, but for those that are learned."""
        if self.enumerated is None:
            self.enumerated = MOST_ENUMERATED if self.kernel is not None else ENUMERATED_LEARNING
        noise, variance = self.noise, self.regularization
        if self.kernel is not None:
            self.noise, self.regularization = noise or 1.0, variance or 1.0
            if self.prior_mean is None:
                self.prior_mean = 0.0
        elif noise or variance:
            self.noise, self.regularization = noise or variance**0.5, variance or noise**2

    @property
    def _most_numbered(self) -> int:
        return max(self.enumerated or 0, MOST_ENUMERATED)

    @property
    def _forgets(self) -> bool:
        return bool(self._engines or self._prior_kernel.epsilon)

    def _takes_boxes(self) -> bool:
        return super()._takes_boxes() and not self._prior_kernel.epsilon

    def _engine_is_sharded(self) -> bool:
        engine = find_engine(self.engine)
        return not self._engines and engine is not None and engine.sharded

    def _checked_engine(self) -> str:
        """Return the name of the engine, "auto" resolved but on pools, which have one engine."""
        if self.space.scanned:
            if self.engine not in ("auto", "sketched"):
                checks.refuse("engine", self.engine, "'auto' or 'sketched' on a pool")
            return self.engine
        if not self._engines:
            given = "tiled" if self.kernel is None and self.engine == "auto" else self.engine  # it is made in no time
            features = 0 if self.on is not None else self._prior_kernel.feature_count(self.space.model_dimension)
            return check_engine(given, self.domain.size, self._prior_kernel.epsilon, features=features)
        if self.engine not in ("auto", *self._engines):
            checks.refuse("engine", self.engine, " or ".join(map(repr, ("auto", *self._engines))))
        if self._prior_kernel.epsilon:
            checks.refuse("kernel", self.kernel, "one without TemporalDecay: the policy has its own way of forgetting")
        check_size(self._engines[0], self.domain.size, Engine.limit)
        return self._engines[0]

    @property
    def _prior_kernel(self) -> Kernel:
        """Kernel of the prior: `kernel`, on a space with unordered parameters times a `Hamming` kernel of these.

        Without a kernel it is the one whose values are learned, with its initial values.
        """
        if self.kernel is None:
            return standard_kernel(self.space)
        return with_categories(self.kernel, self.space.unordered, self.space.model_dimension)

    # ---- the model

    def _fresh_model(self) -> Model:
        """Make the policy's own model, without observations."""
        known, every, lengthscales = (self._prior, self.domain, self._make_engine), self.refit, self._given_lengthscales
        if self.kernel is None:
            search = self._search()
            return LearnedModel(*known, self.noise is not None, lengthscales, every, search, self._reach())
        if every is None:
            return self._make_model()
        if self._engines or self._prior_kernel.epsilon:
            checks.refuse("refit", every, "None where the function changes over rounds")
        if isinstance(self.lengthscale_prior, str):
            lengthscales = usual_lengthscales(self.space)
        if lengthscales is not None:
            lengthscales.check(self.space.model_dimension)
        return RefittedModel(*known, self.regularization, self._search(), lengthscales, every, self.seed)

    @property
    def _given_lengthscales(self) -> LogNormal | None:
        """Prior on the lengthscales, if one is given."""
        return None if isinstance(self.lengthscale_prior, str) else self.lengthscale_prior

    def _reach(self) -> int | None:
        """Return the largest number of observations of an exact learned model; None for the usual one."""
        return None

    def _search(self) -> Candidates:
        """Return the search for the largest index; policies that cannot play a whole box enumerate every grid."""
        engine = find_engine(self.engine)
        sketch = None if engine is None or engine.exact else Sketch(self.oversampling, self.seed)
        if isinstance(self.space, Pool):
            return PoolSearch(self.space, self._executor, self._may_repeat, sketch)
        return search_of(self.domain, self.enumerated or 0 if self._takes_boxes() else sys.maxsize, sketch)

    @property
    def _prior(self) -> GivenPrior:
        direction = -1 if self.minimize else 1
        return GivenPrior(self._prior_kernel, self._given_mean_at, self._constant_mean, direction)

    def _make_model(self) -> Model:
        """Make a model of the given prior, without observations."""
        kind = PoolModel if self.space.scanned else Model
        return kind(self._prior, self.domain, self._make_engine, self.regularization, self._search())

    def _make_engine(self, kernel: Kernel, points: Floats, prior_mean: Floats) -> Engine:
        """Make an engine without observations.

        Parameters
        ----------
        kernel
            Prior covariance.
        points
            Coordinates (n, d) of the candidates, in units of x.
        prior_mean
            Prior mean (n,) at the candidates, in units of y.
        """
        executor = None if self.on is None else self._executor
        space = self.domain.model_space if self.domain.size == len(points) else Points(points)
        options = EngineOptions(self.oversampling, self.seed, executor, space)
        return make_engine(self.engine, kernel, points, prior_mean, options)

    @property
    def _constant_mean(self) -> float | None:
        """Given prior mean, oriented; None if it is not one number."""
        return self._oriented(self.prior_mean) if isinstance(self.prior_mean, float) else None

    def _given_mean_at(self, points: Floats) -> Floats:
        """Return the given prior mean (k,), oriented, at points (k, d); 0 where it is learned."""
        mean = 0.0 if self.prior_mean is None else self.prior_mean
        return np.asarray(self._oriented(mean_values("prior_mean", mean, points, self.domain.numbered)))

    @property
    def present_kernel(self) -> Kernel:
        """Kernel of the posterior: `kernel`, or the last one that was learned."""
        return self.model.kernel

    def _learned_observations(self) -> Observations | None:
        if self.model.forgets:
            return None
        candidates, averages, noise_variances = self.model.averages()
        return Observations(self.domain.points(candidates), averages, noise_variances)

    @property
    def _remembered(self) -> int:
        """Number of observations in the posterior."""
        return self.rounds

    @property
    def information_gain(self) -> float:
        """Information gain (nats) in the width of the next round: the realised one, or the one that was given."""
        if self._confidence.gain == "realised":
            return self.model.engine.information_gain
        return self._confidence.information_gain(self.model, self._remembered)

    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        return self.model.predict(self.space.encode(points))

    def _means(self, points: Floats) -> Floats:
        return self.model.means(self.space.encode(points))

    def _bounds(self, points: Floats, deviations: float) -> tuple[Floats, Floats]:
        return self.model.bounds(self.space.encode(points), deviations)

    @property
    def activity(self) -> str:
        return self.model.search.activity

    # ---- the algorithm

    def width_formula(self) -> Width | None:
        """Return the width of the next rounds as a formula of round and information gain; None without one."""
        return None

    @property
    def norm(self) -> float:
        """Present value of the bound B on the RKHS norm, given or doubled; 0 for a policy without a `Confidence`."""
        return self._confidence.norm

    @property
    def width(self) -> float:
        """Confidence width beta of the next round; NaN for a policy without one."""
        formula = self.width_formula()
        return math.nan if formula is None else formula.at(self.round, self.information_gain)

    def acquisition(self, allowed: Mask | None) -> Acquisition:
        """Return the index that the next round maximises over a mask (size,), or over all candidates for None.

        By default `_constant_index`, or the upper confidence bound of the policy's width.
        """
        if self._constant_index is not None:
            return self._constant_index
        width = self.width
        if math.isnan(width):
            raise NotImplementedError(f"{type(self).__name__} has neither a width nor an index of its own")
        return UpperConfidence(width)

    @property
    def _maximizes_index(self) -> bool:
        """Whether the policy plays the maximum of `acquisition`."""
        return type(self).choose is GaussianProcessPolicy.choose

    def choose(self, allowed: Mask | None = None) -> int | Floats:
        if self.kernel is None:
            first, allowed = self._worth_measuring(allowed)
            if first is None and allowed is None and self._fixed is None:
                first = self._refinement()
            if first is not None:
                return first
        draws = self._pending_draws() if self.pending_values == "sample" else None
        return self.model.argmax(self.acquisition(allowed), self._next_query(allowed, draws))[0]

    def _next_query(self, allowed: Mask | None, draws: Draws | None = None) -> Query:
        """Return the query for the next point, which will be measured."""
        pending, failed = self._pending.numbers, self._pending.excluded
        key, batch = (self.seed, self.round), self._batch_size
        return Query(
            self._salt, key, allowed, pending, draws, True, failed, batch, self._available, fixed=self._fixed
        )  # fmt: skip

    def index_at(self, points: Floats) -> Floats:
        """Return the index (k,) of the next round at points (k, d), without regard to pending ones."""
        coordinates, beside = self.space.encode(points), self._next_query(None).beside
        found = [Model.believed(each, coordinates) for each in (self.model, *beside)]
        means, variances = np.stack([each for each, _ in found]), np.stack([each for _, each in found])
        return self.acquisition(None)(*((means, variances) if beside else found[0]))

    def _refinement(self) -> Floats | None:
        """Return the next point (d,) of a search around the best one, of a policy that has such a search; else None."""
        return None

    def _worth_measuring(self, allowed: Mask | None) -> tuple[int | Floats | None, Mask | None]:
        """Return one of the first points while a kernel cannot be learned yet; then the mask without settled points."""
        assert isinstance(self.model, LearnedModel)
        pending, queried = self._pending.asked, self._known_points
        free = ~queried if allowed is None else allowed & ~queried
        free[[*pending, *self._pending.excluded]] = False
        if self.space.scanned and (len(self.model.ys) < FIRST or self._is_ignorant()):  # whatever is pending
            return self._random_candidate(np.flatnonzero(~free)), None
        asked = len(pending) + self.rounds + len(self._pending.excluded)
        first = None
        if not self.space.scanned:
            first = first_point(self.domain, asked, free, self.seed, self._fixed, self._is_ignorant())
        if first is None and not self.domain.by_visit and len(settled := self.model.settled(pending)):
            others = self.domain.without(settled, allowed)
            allowed = others if others is not None and others.any() else allowed
        return first, allowed

    def _is_ignorant(self) -> bool:
        """Whether nothing tells one point from another yet, as all values are equal."""
        assert isinstance(self.model, LearnedModel)
        return self.model.flat

    @property
    def _known_points(self) -> Mask:
        """Mask (n,) of the candidates that were told."""
        return self.model.queried

    def _pending_draws(self) -> Draws | None:
        """Draw the values assumed at pending points in the next round; None without any."""
        return self.model.draw(self._pending.asked, (self.seed, self.round))  # without failed ones

    def _rule(self) -> Rule | None:
        """Return the index of the next rounds in the form that compiled loops take; None if it has none."""
        width, confidence, index = self.width_formula(), self._confidence, self._constant_index
        if index is not None:
            return Rule(CONSTANT, np.array([index.width]), index.mean_weight)
        if width is None or callable(width.formula) or confidence.doubles:
            return None
        gain = math.nan if confidence.gain == "realised" else confidence.gain
        return Rule(width.formula, np.array(width.constants), gain=gain) if isinstance(gain, float) else None

    @property
    def _rounds_alike(self) -> int:
        """Number of rounds until the policy forgets all observations."""
        return sys.maxsize

    def _play(self, table: Floats, noise: Floats, available: AvailabilitySets = EVERYTHING) -> Columns | None:
        model, points = self.model, self._pending
        own = is_own(type(self))  # others may change any method
        rule = self._rule() if own and self._maximizes_index else None
        if rule is None or points.numbers or points.excluded or not model.plays or not model.engine.plays:
            return None
        columns, done = Columns.empty(len(noise)), 0
        while done < len(noise):
            stop = min(len(noise), done + self._rounds_alike)
            lam, offered = self.regularization, available.part(done, stop)
            game = Game(self.rounds + 1, table, noise[done:stop], lam, self._salt, offered)
            model.engine.play(rule, game, columns.part(done, stop))
            model.add_played(columns.part(done, stop), lam)
            self.rounds, done = self.rounds + stop - done, stop
            if not self._remembered:  # as `learn` of a policy that restarts
                self.model.forget()
        if math.isnan(self.width):  # the index has a constant weight of the deviation, which is no confidence width
            columns.widths[:] = math.nan
        return columns

    def _after_tell(self) -> None:
        learns_noise = self.noise is None
        if learns_noise and not self._said_all and self.model.exhausted:
            self._said_all = True
            text = f"all {self.domain.count} settings have been measured, and repeats agree to the last bit"
            checks.warn(f"{type(self).__name__}: {text}; more measurements tell nothing new", AllMeasured)
        if learns_noise or self.rounds < self._next_check:
            return
        self._next_check = 2 * self.rounds
        if (found := contradiction(self.model, self.noise, self.rounds)) is not None:
            self._next_check = sys.maxsize
            text = f"{type(self).__name__}: after {self.rounds} observations, {found}"
            checks.warn(f"{text} (GPEI(space), without kernel and noise, would learn both)", ContradictedModel)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        if self._confidence.doubles and self.kernel is not None:
            mean, variance = self.model.engine.at(np.array([candidate]))
            self._confidence.expect(y, float(mean[0]), float(variance[0]), noise_variance, self.rounds + 1)
        self.model.observe(candidate, y, noise_variance)
        if self.refit is not None:
            self.model.after_round(self.rounds + 1)

    def _learn_failure(self, candidate: int) -> None:
        super()._learn_failure(candidate)
        self._avoid(candidate)

    def _avoid(self, candidate: int) -> None:
        """Avoid what is near a candidate whose evaluation failed: it is bad to a model that learns its kernel."""
        self.model.fail(candidate)

    def recommend(self) -> Best:
        """Return the queried point of best posterior mean; without observations, of best prior mean."""
        queried = self.model.queried if self.model.queried.any() else None
        found, _ = self.model.argmax(MEAN, Query(self._salt, (self.seed, self.round), queried))
        if isinstance(found, np.ndarray):
            x, (mean, variance) = self.space.argument(found), self.moments(found[None])
        elif self.kernel is None:
            x, (mean, variance) = self.domain.value(found), self.model.predict(self.domain.coordinates([found]))
        else:
            x, (mean, variance) = self.domain.value(found), self.model.engine.at(np.array([found]))
        return Best(x, float(mean[0]), float(np.sqrt(variance[0])))

    def _largest_mean(self, allowed: Mask | None, fixed: Floats | None) -> int | Floats:
        query = Query(self._salt, (self.seed, self.round), allowed, fixed=fixed)
        return self.model.argmax(MEAN, query)[0]

    # ---- state

    def _extend(self, grown: Domain) -> None:
        self.model = self.model.extended(grown)

    def _restore_model(self, state: State) -> None:
        self.model = self._fresh_model()
        self.model.restore(state)
