"""Base class of the policies that evaluate no candidate before it is known to be safe, f(x) >= h.

SafeOpt, StageOpt and LoSBO share what follows; their files have the sources. Before round t, with L the Lipschitz
constant where one is given:

    l_t, u_t = mu_{t-1} -+ beta_t s_{t-1}, w_t = u_t - l_t                                            (1)
    S_t = S_{t-1} united with {x : l_t(x) >= h}, S_0 the safe start                                   (2)
        or, given L, with {x' : l_t(x) - L |x - x'| >= h for some x in S_{t-1}}                       (2')
    M_t = {x in S_t : u_t(x) >= max over S_t of l_t}, the maximisers                                  (3)
    G_t = {x in S_t : after an observation u_t(x) at x, l_t(x') >= h for some x' outside S_t}         (4)
        or, given L, {x in S_t : u_t(x) - L |x - x'| >= h for some x' outside S_t}, the expanders     (4')

All intervals hold at once with probability 1 - delta, so a candidate once certified stays in S. Pending points lower
the standard deviations in (3) and (4); S depends on observations alone. With an availability set, M and G are subsets
of the available part of S. Everything is oriented: with `minimize=True`, f, y and h stand for their negatives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import attrs
import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.confidence import Width
from scalable_bandits.policies.base import Best
from scalable_bandits.policies.confidence import GAIN, Gain, UnprovenWidth, width_name
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.policies.pending import AllFailed
from scalable_bandits.posteriors import find_engine
from scalable_bandits.posteriors.engine import TIE_TOLERANCE
from scalable_bandits.posteriors.models.model import MEAN, Query
from scalable_bandits.posteriors.state import StateEntry, value
from scalable_bandits.spaces import Domain, Indices, Mask

NUMBERS = 2**22  # largest number of covariances or distances that are computed together


class UnsafeStart(UserWarning):
    """The model contradicts that the safe start of a policy is safe."""


class Intervals(NamedTuple):
    """Confidence intervals of the candidates, oriented, in units of y."""

    lower: Floats  # (n,)
    upper: Floats  # (n,)
    pending: Sequence[int]  # pending candidates, which make them narrower


def _positive_width(_: Any, field: attrs.Attribute[Any], given: Any) -> None:
    if given is not None and not (isinstance(given, float) and 0.0 < given < np.inf):
        checks.refuse("width", given, "a positive number, or None for the width named by `confidence`")


def width_field(default: float | None = None) -> Any:
    """Declare the parameter `width` of a policy: a constant in place of the width named by `confidence`."""
    convert = attrs.converters.optional(checks.to_float)
    return attrs.field(default=default, alias="width", converter=convert, validator=_positive_width)


@attrs.define(eq=False, kw_only=True, slots=False)
class SafePolicy(GaussianProcessPolicy):
    """Base class of policies that evaluate only candidates known to be safe.

    Parameters
    ----------
    threshold
        Value h in units of y: a point is safe where f is at least h, or with `minimize=True` at most h. Given once.
    safe_start
        Candidate or candidates that are known to be safe: a point (d,) or points (k, d), arm numbers, or settings.
    rkhs_norm, information_gain, confidence
        Bound B on the RKHS norm of f (a number), information gain and name of the width, as explained at `Confidence`.
        The default "flynn-reeb" is proven for every lambda.
    width
        Constant confidence width, such as the customary 2, for which nothing is proven; None for that of `confidence`.
    lipschitz
        Lipschitz constant L of f, in units of y per unit of x (of named parameters: per unit of the coordinates that
        the model sees), for Euclidean distances; None to certify candidates by their own intervals.

    Attributes
    ----------
    safe : ndarray
        Mask (n,) of the candidates that are known to be safe; read only.

    Other parameters are those of `GaussianProcessPolicy` and `Policy`. The kernel is given, and the space finite.

    Raises
    ------
    ValueError
        If the space is not finite, a start is missing or not a candidate, a Lipschitz constant is given where
        there are no distances (arms, unordered parameters), the kernel forgets or is to be learned, or the engine is
        not exact. From `ask`, if no available candidate is known to be safe; the policy is unchanged then.

    Warns
    -----
    UnprovenWidth
        If the width is not proven for the policy's parameters.
    UnsafeStart
        Once, from `ask`, if the confidence intervals of all starts are on the wrong side of the threshold.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        value("safe", "(n,)", np.bool_, lambda self: self.safe, lambda self, mask: self._set_safe(mask, True)),
    )
    _certifies_by_width: ClassVar[bool] = True  # whether safety depends on the confidence width

    threshold: float = attrs.field(  # S was certified for it
        converter=checks.to_float, validator=checks.number, on_setattr=attrs.setters.frozen
    )
    safe_start: Any = attrs.field()
    rkhs_norm: float = attrs.field(default=2.0, converter=checks.to_float, validator=checks.positive)
    _gain_source: Gain = GAIN
    confidence: str = width_name(default="flynn-reeb")
    _width: float | None = width_field()
    lipschitz: float | None = checks.optional_number(checks.positive)
    _safe: Mask = attrs.field(init=False, repr=False)  # S, replaced and never changed
    _certified: bool = attrs.field(init=False, repr=False)  # whether S has what the present posterior certifies
    _starts: Indices = attrs.field(init=False, repr=False)
    _warned: bool = attrs.field(init=False, default=False, repr=False)  # by `UnsafeStart`

    def __attrs_post_init__(self) -> None:
        kind = type(self).__name__
        if self.space.finite is None:
            allowed = f"a finite space for {kind} (Grid, Points, Settings, Arms); of a box a grid, as Grid(bounds, 30)"
            checks.refuse("space", self.space, allowed)
        if self.refit is not None:
            checks.refuse("refit", self.refit, "None: the intervals are valid for a given kernel")
        super().__attrs_post_init__()
        if self._prior_kernel.epsilon:
            checks.refuse("kernel", self.kernel, "one without TemporalDecay: what is safe once must stay safe")
        if (engine := find_engine(self.engine)) is not None and not engine.exact:
            checks.refuse("engine", self.engine, "an exact one, such as 'dense' or 'tiled'")
        if self.lipschitz is not None and (self.space.unordered or not self.space.has_coordinates):
            checks.refuse("lipschitz", self.lipschitz, "None for arms and unordered parameters: they have no distances")
        self._starts, safe = self._numbered_start(), np.zeros(self.domain.size, dtype=np.bool_)
        for start in self._starts.tolist():
            safe[self.domain.finite.equal_to(start)] = True
        self._set_safe(safe, False)
        if self._certifies_by_width and self._width is not None:
            text = f"{kind}: nothing is proven for the constant width={self._width:g}: unsafe points may be certified"
            checks.warn(text, UnprovenWidth)
        elif self._certifies_by_width:
            self._confidence.warn_where_unproven()

    def _numbered_start(self) -> Indices:
        """Return the numbers (k,) of the safe start, which becomes an array of points (k, d)."""
        given = self.safe_start
        try:  # in a named space the start is several points where the policy is made again from plain data
            listed = self.space.named and isinstance(given, list | tuple) and not isinstance(given[0], Mapping)
            points, _ = self.space.parse(np.array(given, dtype=np.float64) if listed else given)
            found = self.domain.find(points)
        except (ValueError, TypeError, IndexError):
            found = np.array([-1])
        if (found < 0).any():
            checks.refuse("safe_start", given, f"one or more of the {self.domain.choosable:,} candidates, exactly")
        self.safe_start = checks.frozen(points)
        return found

    def width_formula(self) -> Width:
        return self._confidence.width(self.delta) if self._width is None else Width.constant(self._width)

    # ---- the safe set

    @property
    def safe(self) -> Mask:
        """Mask (n,) of the candidates that are known to be safe; read only."""
        with self._lock:
            if not self._certified:
                self._certify()
                self._certified = True
            return self._safe

    def _set_safe(self, safe: Mask, certified: bool) -> None:
        self._safe, self._certified = np.array(safe, dtype=np.bool_), certified
        self._safe[self.domain.choosable :] = False  # points that were told only are never chosen
        self._safe.flags.writeable = False

    def _certify(self) -> None:
        """Add to the safe set what the posterior certifies; called once for the prior and for each observation."""
        found, lower = self._safe.copy(), self._intervals(()).lower
        certain = lower >= self._oriented(self.threshold)
        if self.lipschitz is None:
            found |= certain  # (2)
        for block in () if self.lipschitz is None else self._blocks(np.flatnonzero(self._safe & certain)):
            outside = np.flatnonzero(~found)
            found[outside] = self._reached(block, lower[block], outside).any(axis=0)  # (2')
        self._set_safe(found, False)

    def _reached(self, sources: Indices, values: Floats, others: Indices) -> NDArray[np.bool_]:
        """Return which of m others (k, m) are safe by the Lipschitz constant if f is at least (k,) at k sources."""
        from scipy.spatial.distance import cdist

        assert self.lipschitz is not None
        distances = cdist(self.domain.coordinates(sources), self.domain.coordinates(others))
        return np.asarray(values[:, None] - self.lipschitz * distances >= self._oriented(self.threshold))

    def _blocks(self, numbers: Indices) -> list[Indices]:
        step = max(1, min(64, NUMBERS // self.domain.size))
        return [numbers[i : i + step] for i in range(0, len(numbers), step)]

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        _ = self.safe  # certified by the earlier observations, or by the prior, whether it was asked for or not
        super().learn(candidate, y, noise_variance)
        self._certified = False

    def _extend(self, grown: Domain) -> None:
        super()._extend(grown)
        self._safe = np.append(self._safe, np.zeros(grown.size - len(self._safe), dtype=np.bool_))

    # ---- choices

    def _intervals(self, pending: Sequence[int]) -> Intervals:
        """Return the confidence intervals of the candidates, given pending ones at their posterior means."""
        mean, variance = self.model.engine.mean(), self.model.engine.variance()
        if pending:
            variance = np.maximum(variance - self.model.reduction(pending), 0.0)
        half = self.width * np.sqrt(variance)
        return Intervals(mean - half, mean + half, pending)  # (1)

    def _safe_among(self, allowed: Mask | None) -> Mask:
        """Return the mask (n,) of the safe candidates that are allowed; an error where all are excluded."""
        among, excluded = self.safe if allowed is None else self.safe & allowed, self._pending.excluded
        if not among.any():
            if excluded and not np.any(self.domain.without(excluded, self.safe)):
                raise AllFailed("ask: the evaluation of every candidate that is known to be safe has failed")
            checks.refuse("available", "no candidate known to be safe", "a set that has one, of the policy's `safe`")
        if not self._warned:
            self._warn_of_start()
        return among

    def _warn_of_start(self) -> None:
        mean, variance = self.model.engine.at(self._starts)
        if (mean + self.width * np.sqrt(variance) < self._oriented(self.threshold)).all():
            self._warned, where = True, "above" if self.minimize else "below"
            text = f"the confidence intervals of all safe starts are {where} the threshold {self.threshold:g}"
            wrong = "they are not safe, or kernel, noise, rkhs_norm or width are wrong"
            checks.warn(f"{type(self).__name__}: {text}: {wrong}", UnsafeStart)

    def _maximisers(self, among: Mask, now: Intervals) -> Mask:
        """Return the mask (n,) of those of some safe candidates that could be the best of them."""
        return among & (now.upper >= now.lower[among].max())  # (3)

    def _widest_expanders(self, among: Mask, now: Intervals, least: float = 0.0) -> Mask:
        """Return the mask (n,) of expanders, with the widest of some safe candidates if it is wider than `least`."""
        found, numbers, widths = np.zeros_like(among), np.flatnonzero(among), now.upper - now.lower
        outside = np.flatnonzero(~self._safe[: self.domain.choosable])
        order = numbers[np.argsort(-widths[numbers], kind="stable")]
        for block in self._blocks(order) if len(outside) else ():  # the widest first, since narrower ones do not matter
            if widths[block[0]] < least * (1.0 - TIE_TOLERANCE):
                break
            enlarging = block[self._enlarge(block, outside, now)]
            found[enlarging] = True
            least = float(widths[enlarging].max(initial=least))
        return found

    def _enlarge(self, block: Indices, outside: Indices, now: Intervals) -> Mask:
        """Return which of k safe candidates (k,) are expanders, given those outside the safe set (m,)."""
        if self.lipschitz is not None:
            return np.asarray(self._reached(block, now.upper[block], outside).any(axis=1))  # (4')
        covariance, beta = self.model.engine.columns(block)[:, outside], self.width
        if now.pending:
            columns, of_pending = self.model.pending_covariance(now.pending)
            covariance = covariance - columns[:, block].T @ np.linalg.solve(of_pending, columns[:, outside])
        mean, half = 0.5 * (now.upper + now.lower), 0.5 * (now.upper - now.lower)
        weight = covariance / (self.regularization + (half[block, None] / beta) ** 2)
        variance = np.maximum((half[outside] / beta) ** 2 - weight * covariance, 0.0)
        lower = mean[outside] + weight * half[block, None] - beta * np.sqrt(variance)
        return np.asarray((lower >= self._oriented(self.threshold)).any(axis=1))  # (4)

    def recommend(self) -> Best:
        """Return the measured safe candidate of best posterior mean; before there is one, the best safe candidate."""
        measured = self.model.queried & self.safe
        query = Query(self._salt, (self.seed, self.round), measured if measured.any() else self.safe)
        found, _ = self.model.argmax(MEAN, query)
        (mean,), (variance,) = self.model.engine.at(np.array([found]))
        return Best(self.domain.value(found), float(mean), float(np.sqrt(variance)))
