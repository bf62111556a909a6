"""Base class of policies for unknown constraints, with given kernels and norms and so with proven bounds.

Of 1 + J outputs f is the objective, and g_j, which has to be at least 0, is the j-th other one minus its limit; where
smaller values are better, f or g_j is the negative. The papers of CONFIG and CKB have g_j of mean 0 and norm at most B,
and so has this: the prior mean of an output with a limit is its limit.

    mu_t -+ beta_t s_t hold f and all g_j, at all times with probability 1 - delta: each has its own B, R,
        kernel and information gain, and the width beta_t for delta / (1 + J)                         (1)
    recommend the best mu_t among measured points whose lower bounds keep all limits, or else among   (2)
        those whose mu_t miss them least, in units of the largest miss that the norm allows           (3)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.confidence import Width
from scalable_bandits.kernels import Kernel
from scalable_bandits.kernels.structured import with_categories
from scalable_bandits.policies.base import Best
from scalable_bandits.policies.confidence import GAIN, Confidence, Gain, width_name
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.policies.outputs import Limit, Margin, Outputs, check_limits
from scalable_bandits.posteriors import check_engine, find_engine
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.posteriors.models.limited import OutputModels
from scalable_bandits.posteriors.models.model import GivenPrior, Model
from scalable_bandits.posteriors.state import StateEntry, member
from scalable_bandits.spaces import Domain, Mask


def _by_output(validator: checks.Validator) -> Any:
    """Declare a parameter that is a dict by output, of those that have a limit."""

    def check(policy: Any, field: attrs.Attribute[Any], given: Any) -> None:
        checks.kind(field.name, given, Mapping, "a dict by output")
        for name, each in given.items():
            if name not in policy.constraints:
                checks.refuse(field.name, name, f"outputs that have a limit: {', '.join(policy.constraints) or 'none'}")
            validator(policy, field, each)

    def convert(given: Any) -> Any:
        return {name: checks.to_float(each) for name, each in given.items()} if isinstance(given, Mapping) else given

    return attrs.field(factory=dict, converter=convert, validator=check)


@attrs.define(eq=False, kw_only=True, slots=False)
class BoundedOutputsPolicy(GaussianProcessPolicy):
    """Base class of policies for constraints that are measured together with the objective, with given kernels.

    Parameters
    ----------
    constraints
        Limits by output: ``{"latency": AtMost(50), "accuracy": AtLeast(0.9)}``.
    objective
        Name of the output that is minimised or maximised; if not given, it is the one without a limit.
    kernels, noises
        Kernels and sub-Gaussian constants R of the noise by output, in squared units and units of the output; `kernel`
        and `noise` where not given.
    rkhs_norm, rkhs_norms
        Bound B on the RKHS norm of the objective minus its prior mean; by output, bounds on the norms of the outputs
        minus their limits, `rkhs_norm` where not given.
    information_gain, confidence
        Information gain and name of the width, as explained at `Confidence`; "flynn-reeb" is proven for every lambda.

    Other parameters are those of `GaussianProcessPolicy` and `Policy`; `kernel`, `noise` (of `tell`, too) and
    `prior_mean` are the objective's, `regularization` and `delta` those of all outputs together. The space is finite.
    Values are told as dicts by output, as those of `ConstrainedGPEI` are. Where a subclass has no constraints, there
    is one output, the objective, whose values are told as numbers.

    Raises
    ------
    ValueError
        If the space is not finite, there are no constraints, the objective has one, a kernel does not fit, forgets or
        is to be learned, the engine is not exact, or there is an executor.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (member("_others", name="outputs"),)
    by_name: ClassVar[frozenset[str]] = frozenset({"constraints", "kernels", "rkhs_norms", "noises"})
    sharded: ClassVar[bool] = False
    _assumes_draws: ClassVar[bool] = False

    constraints: Mapping[str, Limit] = attrs.field(converter=check_limits)
    objective: str | None = attrs.field(default=None)
    kernels: Mapping[str, Kernel] = _by_output(checks.instance_of(Kernel, "kernels, such as RBF(0.2)"))
    rkhs_norm: float = attrs.field(default=2.0, converter=checks.to_float, validator=checks.positive)
    rkhs_norms: Mapping[str, float] = _by_output(checks.positive)
    noises: Mapping[str, float] = _by_output(checks.positive)
    _gain_source: Gain = GAIN
    confidence: str = width_name(default="flynn-reeb")
    _others: OutputModels = attrs.field(init=False, repr=False)
    _confidences: tuple[Confidence, ...] = attrs.field(init=False, repr=False)  # 1 + J, first the objective's
    _least: Floats = attrs.field(init=False, repr=False)  # (J,) oriented limits
    _largest: Floats = attrs.field(init=False, repr=False)  # (1 + J,) bounds on |f - prior mean| and |g_j|

    def __attrs_post_init__(self) -> None:
        kind = type(self).__name__
        if self.space.finite is None:
            allowed = f"a finite space for {kind} (Grid, Points, Settings, Arms); of a box a grid, as Grid(bounds, 30)"
            checks.refuse("space", self.space, allowed)
        if self.outputs is not None:
            self.outputs.check()
        elif self.objective is not None:
            checks.refuse("objective", self.objective, "None without constraints: values are told as numbers")
        if self.refit is not None:
            checks.refuse("refit", self.refit, "None: the bounds are valid for given kernels")
        super().__attrs_post_init__()
        self._least = np.array([limit.SIGN * limit.limit for limit in self.constraints.values()])
        norms, noises, first = self.rkhs_norms, self.noises, self._confidence
        own = [(norms.get(name, first.norm), noises.get(name, first.noise)) for name in self.constraints]
        self._confidences = (first, *(attrs.evolve(first, norm=norm, noise=noise) for norm, noise in own))
        for kernel in self._every_kernel[1:]:
            kernel.check_values(self.space.encode(self.domain.sample(self.seed)))
        variances = [float(kernel.diagonal(self.domain.coordinates()).max()) for kernel in self._every_kernel]
        self._largest = np.sqrt(variances) * [confidence.norm for confidence in self._confidences]
        if max(variances) > variances[0]:
            self._measuring.expect_variance(max(variances), False, self.horizon)
        self._warn_of_width()

    def _warn_of_width(self) -> None:
        """Warn if the width is not proven for the policy's parameters."""
        self._confidence.warn_where_unproven()

    def parameters(self) -> dict[str, Any]:
        found, of_outputs = super().parameters(), {"objective", *self.by_name}
        if self.constraints:
            return found
        return {name: each for name, each in found.items() if name not in of_outputs}  # as in stores from before

    @property
    def outputs(self) -> Outputs | None:
        return Outputs(self.objective, self.constraints) if self.constraints else None

    @property
    def _models(self) -> tuple[Model, ...]:
        """Models (1 + J) of all outputs, first the objective's."""
        return (self.model, *self._others.models)

    @property
    def _every_kernel(self) -> list[Kernel]:
        """Kernels (1 + J) of all outputs, first the objective's."""
        given, space = [self.kernels.get(name, self.kernel) for name in self.constraints], self.space
        return [self._prior_kernel, *(with_categories(k, space.unordered, space.model_dimension) for k in given if k)]

    def _checked_engine(self) -> str:
        """Return the name of the engine, an exact one that takes the kernels of all outputs."""
        dimension, several = self.space.model_dimension, bool(self.constraints or self.on is not None)
        features = 0 if several else self._prior_kernel.feature_count(dimension)
        name = check_engine(self.engine, self.domain.size, exact=True, features=features)
        for kernel in self._every_kernel:
            kernel.check(dimension)
            if kernel.epsilon:
                checks.refuse("kernel", kernel, "one without TemporalDecay: the bounds are valid for a fixed function")
            find_engine(name).check_kernel(kernel, dimension)  # type: ignore[union-attr]
        return name

    def _fresh_model(self) -> Model:
        """Make the models of all outputs, without observations, and return the objective's."""
        models = []
        for limit, kernel in zip(self.constraints.values(), self._every_kernel[1:], strict=True):
            prior = GivenPrior(kernel, self._given_mean_at, limit.SIGN * limit.limit, int(limit.SIGN))
            models.append(Model(prior, self.domain, self._make_engine, self.regularization, self._search()))
        self._others = OutputModels(models)
        return super()._fresh_model()

    def _extend(self, grown: Domain) -> None:
        super()._extend(grown)
        self._others = self._others.extended(grown)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        if self.outputs is not None:
            beside, self._beside = self._beside, None
            assert beside is not None
            self._others.observe(candidate, self.outputs.oriented(beside), self.regularization)
        if y == y:
            super().learn(candidate, y, noise_variance)

    def width_formula(self) -> Width:
        return self._width_of(self._confidence)

    def _width_of(self, confidence: Confidence) -> Width:
        """Return the width of an output, for its share of delta."""
        return confidence.width(self.delta / len(self._confidences))

    @property
    def widths(self) -> Floats:
        """Confidence widths beta (1 + J,) of the next round, first the objective's."""
        found = []
        for each, confidence in zip(self._models, self._confidences, strict=True):
            realised = confidence.gain == "realised"
            gain = each.engine.information_gain if realised else confidence.information_gain(each, self._remembered)
            found.append(self._width_of(confidence).at(self.round, gain))
        return np.array(found)

    def _intervals(self, pending: Sequence[int] = ()) -> tuple[Floats, Floats]:
        """Return oriented means and half widths beta s (1 + J, n) at all points, given pending ones (1)."""
        mean, half = np.empty((2, len(self._confidences), self.domain.size))
        for j, (model, width) in enumerate(zip(self._models, self.widths, strict=True)):
            variance = model.engine.variance() - (model.reduction(pending) if pending else 0.0)
            mean[j], half[j] = model.engine.mean(), width * np.sqrt(np.maximum(variance, 0.0))
        return mean, half

    def bounds_of(self, output: str | None, x: ArrayLike) -> tuple[Any, Any]:
        """Return the confidence bounds of an output at x; with probability 1 - delta, those of all outputs hold.

        Parameters
        ----------
        output
            Name of the output; None for an objective whose name was not given.
        x
            Point (d,) or points (k, d), not only candidates; for `Arms` an arm number or (k,) arm numbers.

        Returns
        -------
        low, high : float, or ndarray (k,)
            In units of the output.

        Raises
        ------
        ValueError
            If there is no such output, or x is not valid, as in `posterior`.
        """
        names = [self.objective, *self.constraints]
        if output not in names:
            checks.refuse("output", output, ", ".join(map(repr, names)))
        (points, single), place = self._described_points(x), names.index(output)
        with self._lock:
            model = self._models[place]
            low, high = model.bounds(self.space.encode(points), float(self.widths[place]))
        low, high = (low, high) if model.prior.direction > 0 else (0.0 - high, 0.0 - low)
        return (float(low[0]), float(high[0])) if single else (low, high)

    def _margins_at(self, points: Floats) -> list[Margin]:
        number, coordinates, found = int(self.domain.find(points)[0]), self.space.encode(points), list[Margin]()
        for (name, limit), model in zip(self.constraints.items(), self._others.models, strict=True):
            if not model.queried.any():
                found.append(Margin(name, limit, math.nan, math.nan, 0.5, False))
                continue
            (mean,), (variance,) = model.predict(coordinates)
            room, std = float(mean) - limit.SIGN * limit.limit, math.sqrt(variance)
            chance = 0.5 * math.erfc(-room / (std * math.sqrt(2.0))) if std > 0.0 else float(room >= 0.0)
            measured = number >= 0 and bool(model.queried[number])
            found.append(Margin(name, limit, limit.SIGN * float(mean), std, chance, measured))
        return found

    def recommend(self) -> Best:
        """Return the best point where the objective was measured, of those that keep all limits or miss least."""
        if not self.model.queried.any():
            return super().recommend()
        return self._recommended(self.model.queried)

    def _recommend_in(self, context: Mapping[Any, Any]) -> Best:
        return self._recommended(self._measured_in(self.model.queried, context))

    def _recommended(self, measured: Mask) -> Best:
        """Return the best one of some measured candidates (n,)."""
        mean, half = self._intervals()
        room = mean[1:] - self._least[:, None]
        among = measured & (room >= half[1:]).all(axis=0)  # (2)
        if not among.any():
            misses = (np.maximum(-room, 0.0) / self._largest[1:, None]).sum(axis=0)  # 0 where the means keep all limits
            among = measured & (misses <= misses[measured].min())  # (3)
        best = choose(mean[0], self._salt, among)[0]
        return Best(self.domain.value(best), float(mean[0, best]), float(half[0, best] / self.widths[0]))
