"""Expected improvement, GP-EI, and probability of improvement, GP-PI.

Sources: Mockus, Tiesis & Zilinskas 1978; Kushner 1964; as EI and MPI in Srinivas et al. 2010, section 6.

    for t = 1, 2, ...:
        m_t = max of mu_{t-1} over the points queried                                (1)
        GP-EI: play x_t = argmax of E[max(f(x) - m_t - xi, 0)] under the posterior   (2)
        GP-PI: play x_t = argmax of P[f(x) > m_t + xi] under the posterior           (2')
        observe y_t, update mu_t and s_t                                             (3)

Differs from the sources in: the incumbent is the best posterior mean at a queried point, not the best
observation, which the noise biases upwards (`incumbent="observation"` selects it). Where GP-EI learns everything and
all coordinates are continuous, a part of the points are those of a trust region around the best one
(`posteriors/models/trust_region.py`): after each that gained what was predicted, the next is another. Where the kernel
is learned and an evaluation has failed, the index is that times the probability of success (Gelbart, Snoek & Adams
2014), which is learned like an output with a limit (`posteriors/models/limited.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import (
    ExpectedImprovement,
    FeasibleImprovement,
    ObjectiveIndex,
    ProbabilityOfImprovement,
)
from scalable_bandits.policies.base import Best
from scalable_bandits.policies.first_points import FIRST
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.posteriors import Acquisition
from scalable_bandits.posteriors.models import trust_region
from scalable_bandits.posteriors.models.learned import LearnedModel
from scalable_bandits.posteriors.models.limited import LimitedModel, LimitedOutputs, SuccessModel
from scalable_bandits.posteriors.models.model import MEAN, GivenPrior, Model, Query
from scalable_bandits.posteriors.models.trust_region import TrustRegion
from scalable_bandits.posteriors.pending import Draws
from scalable_bandits.posteriors.state import StateEntry, member, number
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Domain, Mask, SearchSpace

HOPEFUL = 32  # number of random points among which the next one is while nothing but success can be predicted


@attrs.define(eq=False, kw_only=True, slots=False)
class GPEI(GaussianProcessPolicy):
    """Policy that maximises the expected improvement over the best posterior mean at a queried point.

    Parameters
    ----------
    xi
        Smallest improvement that counts, in units of y (without a kernel, in deviations of the transformed y); 0 in the
        sources. With noisy measurements, R keeps the policy from staying at the first local maximum that it finds.
    incumbent
        Value to be improved. "mean": largest posterior mean at a point queried or pending, which the noise does not
        bias. "observation": largest y observed, the definition of the sources for functions without noise. If not
        given, "mean", or without a kernel "observation". What is assumed at pending points counts as observed in both:
        their posterior means, or with pending="sample" the values drawn.

    Other parameters are those of `GaussianProcessPolicy` and `Policy`.

    Notes
    -----
    For f drawn from the prior and a known kernel, Wang et al. 2025 (arXiv 2508.15674) bound the cumulative regret of
    two incumbents sublinearly, for RBF and Matern kernels: the largest posterior mean at a queried point
    (`incumbent="mean"`), and the largest one of all points, which is not offered. For the largest observation
    (`incumbent="observation"`) they prove less: in each case either the cumulative regret is sublinear, or the simple
    regret converges. They cover
    neither `xi` above 0, pending points, nor a kernel that is learned, for which "observation" is the default.

    Where neither kernel nor noise is given and all coordinates are continuous, some of the points asked for are steps
    of a trust region around the best one, which refines it (`posteriors/models/trust_region.py`). Points that are told
    without having been asked for are never steps. With `noise=` no step is made. The best value is recommended, not the
    best posterior mean, once values are known to be exact. Before, where points near each other show that the function
    has ripples, which the model has learned as noise, a part of the residuals counts (`posteriors/models/ripples.py`).
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        number("_largest", float), member("_region", name="region"), member("_limited", name="limited")
    )  # fmt: skip
    continuous: ClassVar[bool] = True
    learns_kernel: ClassVar[bool] = True
    pools: ClassVar[bool] = True
    _refines: ClassVar[bool] = True  # around the best point, with a model of its own, where the kernel is learned

    xi: float = attrs.field(default=0.0, converter=checks.to_float, validator=checks.nonnegative)
    incumbent: str | None = attrs.field(default=None, validator=checks.one_of(("mean", "observation", None)))
    _largest: float = attrs.field(default=-np.inf, init=False, repr=False)
    _region: TrustRegion | None = attrs.field(default=None, init=False, repr=False)
    _limited: LimitedOutputs = attrs.field(init=False, repr=False)  # once an evaluation has failed, its success

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.incumbent is None:
            self.incumbent = "observation" if self.kernel is None else "mean"
        if self._has_region():
            assert self.space.cube is not None
            self._region = TrustRegion(self.space.cube, self.seed)

    def _fresh_model(self) -> Model:
        self._limited = LimitedOutputs((), self._success_model)
        return super()._fresh_model()

    def _success_model(self) -> LimitedModel:
        return self._limited_model(0.0, kind=SuccessModel)

    def _limited_model(self, limit: float, sign: int = 1, kind: type[LimitedModel] = LimitedModel) -> LimitedModel:
        """Make the model of an output that has to be at least a limit, given with its sign."""
        prior = GivenPrior(self._prior_kernel, self._given_mean_at, direction=sign)
        return kind(limit, prior, self.domain, self._make_engine, self._given_lengthscales, self.refit, self._search())

    def _extend(self, grown: Domain) -> None:
        super()._extend(grown)
        self._limited = self._limited.extended(grown)

    def _has_region(self) -> bool:
        """Whether all is learned, and all coordinates are continuous."""
        space, learns = self.space, self.kernel is None and self.noise is None
        smooth = space.smooth if isinstance(space, SearchSpace) else space.box is not None
        return self._refines and learns and smooth and self.domain.by_visit

    def _reach(self) -> int | None:
        return trust_region.REACH if self._has_region() else None

    def _is_ignorant(self) -> bool:
        return self._limited.success is None and super()._is_ignorant()

    def _refinement(self) -> Floats | None:
        if self._limited.success is not None and self._sees_success_alone():
            return self._hopeful()
        if self._region is None:
            return None
        x, y = self._history()
        pending, failed = self._pending.asked, self._pending.excluded
        found = self._region.propose(x, y, self.domain.coordinates(pending), self.domain.coordinates(failed))
        if found is None or not isinstance(self.space, SearchSpace):
            return found
        same = np.flatnonzero((x == found).all(axis=1))
        if len(same):  # once more: decoded, it might be another one in the last digit
            return self.domain.points([self.model.numbers[same[0]]])[0]  # type: ignore[attr-defined]
        return self.space.decode(found[None])[0]

    def _sees_success_alone(self) -> bool:
        """Whether all evaluations failed, or several succeeded and have the same value."""
        assert isinstance(self.model, LearnedModel)
        return not self._known_points.any() or (len(self.model.ys) >= FIRST and self.model.flat)

    def _hopeful(self) -> Floats:
        """Return the likeliest to succeed of some random points (d,), which are less at edges than the best one."""
        points = self.space.draw(HOPEFUL, generator(self.seed, "until a success", self.round))
        return points[int(np.argmax(self.index_at(points)))]

    def _history(self) -> tuple[Floats, Floats]:
        """Return coordinates (n, D) and values (n,) of the observations, in the order of telling."""
        assert isinstance(self.model, LearnedModel)
        return self.domain.coordinates(self.model.numbers), np.array(self.model.ys)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        self._limited.succeed(candidate)
        self._learn_value(candidate, y, noise_variance)

    def _learn_value(self, candidate: int, y: float, noise_variance: float) -> None:
        """Condition on a value of the objective, whether or not that is a success."""
        asked, self._asked = self._asked, True
        region = self._region
        # Of points only told, new best ones matter to the region, and known ones, which may show that values are exact.
        if region is None or not (asked or y > self._largest or self.model.queried[candidate]):
            if region is not None:
                region.pass_told()
            super().learn(candidate, y, noise_variance)
        else:
            model, (x, ys) = self.model, self._history()
            assert isinstance(model, LearnedModel)
            x = np.concatenate([x, self.domain.coordinates([candidate])])
            failed = self.domain.coordinates(self._pending.excluded)
            shown = region.observe(x, np.append(ys, y), asked, failed)
            model.add(candidate, y, noise_variance)
            model.show(shown)
        self._largest = max(self._largest, y)

    def _avoid(self, candidate: int) -> None:
        if self.kernel is not None or self.space.scanned:
            super()._avoid(candidate)
        else:
            self._limited.fail(candidate, np.flatnonzero(self._known_points))
        if self._region is not None:
            self._region.failed(*self._history(), self.domain.coordinates([candidate])[0])

    def recommend(self) -> Best:
        """Return the queried point of best posterior mean; of a policy that refines it, of best estimate."""
        model = self.model
        if self._region is None or not isinstance(model, LearnedModel) or not model.ys:
            return super().recommend()
        numbers, estimates = model.estimates(self._region.exact)
        best = int(np.argmax(estimates))
        std = 0.0 if self._region.exact else math.sqrt(model.predict(self.domain.coordinates(numbers[[best]]))[1][0])
        return Best(self.domain.value(int(numbers[best])), float(estimates[best]), std)

    def _bounds(self, points: Floats, deviations: float) -> tuple[Floats, Floats]:
        """Return bounds (k,) as of any policy; at points whose values are known to be exact, these."""
        low, high = super()._bounds(points, deviations)
        if self._region is not None and self._region.exact:
            assert isinstance(self.model, LearnedModel)
            here, averages = self.model.averages_at(self.domain.find(points))
            low[here] = high[here] = averages
        return low, high

    def acquisition(self, allowed: Mask | None) -> Acquisition:
        index, limits = self._improvement(allowed), self._limited.limits
        return FeasibleImprovement(index, limits) if index is None or len(limits) else index

    def _improvement(self, allowed: Mask | None) -> ObjectiveIndex | None:
        """Return the index of the objective; None if, of a policy that learns, no evaluation has succeeded."""
        if self._limited.success is not None and not self.model.queried.any():
            return None
        return ExpectedImprovement(self.best_so_far(allowed), self.xi)  # (1), (2)

    def _next_query(self, allowed: Mask | None, draws: Draws | None = None) -> Query:
        return super()._next_query(allowed, draws)._replace(beside=self._limited.every)

    def best_so_far(self, allowed: Mask | None) -> float:
        """Return the incumbent's value, in units of the engine's y; before there is one, the largest prior mean.

        Parameters
        ----------
        allowed
            Mask (n,) of the candidates whose prior mean counts; None for all.
        """
        draws = self._pending_draws() if self.pending_values == "sample" else None
        if self.incumbent == "observation":
            told = self.model.transform(np.array([self._largest])).tolist() if np.isfinite(self._largest) else []
            if told and draws is None and self._pending.asked:
                told.append(self._best_mean(self._mask_of(self._pending.asked)))
            if values := [*told, *([] if draws is None else draws.values.tolist())]:
                return max(values)
        queried = self.model.queried
        if self._pending.numbers:
            queried = queried | self._mask_of(self._pending.numbers)
        some = queried if queried.any() else allowed
        if some is None and self.space.scanned and (constant := self.model.constant_mean) is not None:
            return constant  # without a pass
        return self._best_mean(some, draws)

    def _best_mean(self, some: Mask | None, draws: Draws | None = None) -> float:
        """Return the largest posterior mean over a mask (n,), or over all candidates for None."""
        return self.model.argmax(MEAN, Query(self._salt, (self.seed, self.round), some, draws=draws))[1]

    def _mask_of(self, numbers: Sequence[int]) -> Mask:
        mask = np.zeros_like(self.model.queried)
        mask[numbers] = True
        return mask


@attrs.define(eq=False, kw_only=True, slots=False)
class GPPI(GPEI):
    """Policy that maximises the probability of improvement over the best posterior mean at a queried point.

    Parameters are those of `GPEI`, and it is one in all but its index.
    """

    pools: ClassVar[bool] = False  # the index may fall where the variance grows
    _refines: ClassVar[bool] = False
    # With xi = 0 the incumbent itself always has probability 1/2, and the policy plays it again and again.
    xi: float = attrs.field(default=0.01, converter=checks.to_float, validator=checks.nonnegative)

    def acquisition(self, allowed: Mask | None) -> Acquisition:
        best, limits = self.best_so_far(allowed), self._limited.limits
        if len(limits):  # all limits are kept, one of them being that of the objective
            return FeasibleImprovement(None, np.append(best + self.xi, limits))
        return ProbabilityOfImprovement(best, self.xi)  # (1), (2')
