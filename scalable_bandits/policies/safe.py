"""Base class of the policies that evaluate no candidate before it is known to be safe, f(x) >= h.

SafeOpt, StageOpt and LoSBO share what follows; their files have the sources. Before round t, with L the Lipschitz
constant where one is given:

    l_t, u_t = mu_{t-1} -+ beta_t s_{t-1}, w_t = u_t - l_t                                            (1)
    S_t = S_{t-1} united with {x : l_t(x) >= h}, S_0 the safe start                                   (2)
        or, given L, with {x' : l_t(x) - L |x - x'| >= h for some x in S_{t-1}}                       (2')
    M_t = {x in S_t : u_t(x) >= max over S_t of l_t}, the maximisers                                  (3)
    G_t = {x in S_t : after an observation u_t(x) at x, l_t(x') >= h for some x' outside S_t}         (4)
        or, given L, {x in S_t : u_t(x) - L |x - x'| >= h for some x' outside S_t}, the expanders     (4')

With constraints there are 1 + J outputs, each with a model, bounds and a beta_t of its own, as in `bounded_outputs.py`.
The limited ones are those of the constraints and, given a threshold, the objective. l_t(x) >= h in (2) is to hold for
all limited outputs; (3) has the bounds of the objective; in (4) all limited outputs are observed at x, each with its
upper bound, and one and the same x' has to fulfil l_t(x') >= h for all of them. w_t is then the largest over outputs of
u_t - l_t, each in units of the largest absolute value that its norm allows, B sqrt(max k(x, x)), so that the units of
outputs do not matter.

All intervals hold at once with probability 1 - delta, so a candidate once certified stays in S. Pending points lower
the standard deviations in (3) and (4); S depends on observations alone. With an availability set, M and G are subsets
of the available part of S. Everything is oriented: with `minimize=True`, f, y and h stand for their negatives, and so
they do for an output that has to be at most its limit.
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
from scalable_bandits.policies.bounded_outputs import BoundedOutputsPolicy
from scalable_bandits.policies.confidence import Confidence, UnprovenWidth
from scalable_bandits.policies.outputs import Limit, limits_if_any
from scalable_bandits.policies.pending import AllFailed
from scalable_bandits.posteriors.engine import TIE_TOLERANCE, choose
from scalable_bandits.posteriors.models.model import MEAN, Query
from scalable_bandits.posteriors.state import StateEntry, value
from scalable_bandits.spaces import Domain, Indices, Mask

NUMBERS = 2**22  # largest number of covariances or distances that are computed together


class UnsafeStart(UserWarning):
    """The model contradicts that the safe start of a policy is safe."""


class Intervals(NamedTuple):
    """Confidence intervals of the outputs at the candidates, oriented, first the objective's, in their units."""

    lower: Floats  # (1 + J, n)
    upper: Floats  # (1 + J, n)
    betas: Floats  # (1 + J,) confidence widths
    pending: Sequence[int]  # pending candidates, which make them narrower


def _positive_width(_: Any, field: attrs.Attribute[Any], given: Any) -> None:
    if given is not None and not (isinstance(given, float) and 0.0 < given < np.inf):
        checks.refuse("width", given, "a positive number, or None for the width named by `confidence`")


def width_field(default: float | None = None) -> Any:
    """Declare the parameter `width` of a policy: a constant in place of the width named by `confidence`."""
    return attrs.field(default=default, alias="width", converter=checks.to_float, validator=_positive_width)


@attrs.define(eq=False, kw_only=True, slots=False)
class SafePolicy(BoundedOutputsPolicy):
    """Base class of policies that evaluate only candidates known to be safe.

    Parameters
    ----------
    threshold
        Value h in units of y: a point is safe where f is at least h, or with `minimize=True` at most h. Given once;
        None, with constraints, for an objective that may have any value.
    constraints
        Limits of other outputs, which safe points keep: ``{"temperature": AtMost(80)}``, as explained at
        `BoundedOutputsPolicy`, with `objective`, `kernels`, `noises` and `rkhs_norms`. None for one output.
    safe_start
        Candidate or candidates that are known to be safe: a point (d,) or points (k, d), arm numbers, or settings.
    width
        Constant confidence width, such as the customary 2, for which nothing is proven; None for that of `confidence`.
    lipschitz
        Lipschitz constant L of f, in units of y per unit of x (of named parameters: per unit of the coordinates that
        the model sees), for Euclidean distances; None to certify candidates by their own intervals, as it has to be
        with constraints.

    Attributes
    ----------
    safe : ndarray
        Mask (n,) of the candidates that are known to be safe; read only.

    Other parameters are those of `BoundedOutputsPolicy`, `GaussianProcessPolicy` and `Policy`. The kernel is given, and
    the space finite. Without constraints, values are told as numbers.

    Raises
    ------
    ValueError
        If the space is not finite, there is neither a threshold nor a constraint, a start is missing or not a
        candidate, a Lipschitz constant is given with constraints or where there are no distances (arms, unordered
        parameters), a kernel forgets or is to be learned, the engine is not exact, or there is an executor for several
        outputs. From `ask`, if no available candidate is known to be safe; the policy is unchanged then.

    Warns
    -----
    UnprovenWidth
        If the width is not proven for the policy's parameters.
    UnsafeStart
        Once, from `ask`, if at every start the confidence interval of a limited output is on the wrong side of its
        limit; and once, from `ask` or `best`, if it is so at a candidate that was certified, which is then left out for
        as long as others remain.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        value("safe", "(n,)", np.bool_, lambda self: self.safe, lambda self, mask: self._set_safe(mask, True)),
    )
    sharded: ClassVar[bool] = True  # without constraints
    _certifies_by_width: ClassVar[bool] = True  # whether safety depends on the confidence width

    threshold: float | None = attrs.field(  # S was certified for it, as for the constraints
        default=None, converter=checks.to_float, validator=attrs.validators.optional(checks.number),
        on_setattr=attrs.setters.frozen,
    )  # fmt: skip
    constraints: Mapping[str, Limit] = attrs.field(
        default=None, converter=limits_if_any, on_setattr=attrs.setters.frozen
    )
    safe_start: Any = attrs.field()
    _width: float | None = width_field()
    lipschitz: float | None = checks.optional_number(checks.positive)
    _safe: Mask = attrs.field(init=False, repr=False)  # S, replaced and never changed
    _certified: bool = attrs.field(init=False, repr=False)  # whether S has what the present posterior certifies
    _starts: Indices = attrs.field(init=False, repr=False)
    _limits: Floats = attrs.field(init=False, repr=False)  # (1 + J, 1) oriented, first h, or -inf without a threshold
    _limited: list[int] = attrs.field(init=False, repr=False)  # outputs that have one, 0 for the objective
    _warned: bool = attrs.field(init=False, default=False, repr=False)  # by `UnsafeStart`, of the start
    _refuted: bool = attrs.field(init=False, default=False, repr=False)  # whether it has warned of other candidates

    def __attrs_post_init__(self) -> None:
        if self.constraints and self.lipschitz is not None:
            allowed = f"None with lipschitz={self.lipschitz:g}, which is a constant of the objective alone"
            checks.refuse("constraints", self.constraints, allowed)
        if self.constraints and self.on is not None:
            checks.refuse("on", self.on, "None with constraints")
        if not self.constraints and self.threshold is None:
            checks.refuse("threshold", None, "a number, or limits of other outputs in `constraints`, or both")
        super().__attrs_post_init__()
        least = -np.inf if self.threshold is None else self._oriented(self.threshold)
        self._limits = np.array([[least], *self._least[:, None]])
        self._limited = np.flatnonzero(self._limits > -np.inf).tolist()
        if self.lipschitz is not None and (self.space.unordered or not self.space.has_coordinates):
            checks.refuse("lipschitz", self.lipschitz, "None for arms and unordered parameters: they have no distances")
        self._starts, safe = self._numbered_start(), np.zeros(self.domain.size, dtype=np.bool_)
        for start in self._starts.tolist():
            safe[self.domain.finite.equal_to(start)] = True
        self._set_safe(safe, False)

    def _warn_of_width(self) -> None:
        if self._certifies_by_width and self._width is not None:
            kind, unproven = type(self).__name__, f"nothing is proven for the constant width={self._width:g}"
            checks.warn(f"{kind}: {unproven}: unsafe points may be certified", UnprovenWidth)
        elif self._certifies_by_width:
            super()._warn_of_width()

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

    def _width_of(self, confidence: Confidence) -> Width:
        return super()._width_of(confidence) if self._width is None else Width.constant(self._width)

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
        found, lower = self._safe.copy(), self._ends(()).lower
        certain = (lower >= self._limits).all(axis=0)
        if self.lipschitz is None:
            found |= certain  # (2)
        for block in () if self.lipschitz is None else self._blocks(np.flatnonzero(self._safe & certain)):
            outside = np.flatnonzero(~found)
            found[outside] = self._reached(block, lower[0, block], outside).any(axis=0)  # (2')
        self._set_safe(found, False)

    def _reached(self, sources: Indices, values: Floats, others: Indices) -> NDArray[np.bool_]:
        """Return which of m others (k, m) are safe by the Lipschitz constant if f is at least (k,) at k sources."""
        from scipy.spatial.distance import cdist

        assert self.lipschitz is not None
        distances = cdist(self.domain.coordinates(sources), self.domain.coordinates(others))
        return np.asarray(values[:, None] - self.lipschitz * distances >= self._limits[0])

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

    def _least_known(self, allowed: Mask | None) -> int:
        """Return the maximiser or expander of largest w_t, of those allowed, by (1), (3) and (4) or (4')."""
        among = self._safe_among(allowed)
        now = self._ends(self._pending.numbers)  # (1)
        found, widths = np.asarray(among & (now.upper[0] >= now.lower[0, among].max())), self._widths_at(now)  # (3)
        found |= self._widest_expanders(among & ~found, now, widths, float(widths[found].max()))  # (4)
        return choose(widths, self._salt, found)[0]

    def _ends(self, pending: Sequence[int]) -> Intervals:
        """Return the confidence intervals of the candidates, given pending ones at their posterior means."""
        mean, half = self._intervals(pending)
        return Intervals(mean - half, mean + half, self.widths, pending)  # (1)

    def _widths_at(self, now: Intervals, outputs: Sequence[int] | slice = slice(None)) -> Floats:
        """Return w_t (n,): of one output in units of y, with constraints the largest of some outputs, without unit."""
        widths = now.upper - now.lower
        return np.asarray((widths / self._largest[:, None])[outputs].max(axis=0) if self.constraints else widths[0])

    def _safe_among(self, allowed: Mask | None) -> Mask:
        """Return the mask (n,) of the safe candidates that are allowed; an error where all are excluded."""
        among, excluded = self.safe if allowed is None else self.safe & allowed, self._pending.excluded
        if not among.any():
            if excluded and not np.any(self.domain.without(excluded, self.safe)):
                raise AllFailed("ask: the evaluation of every candidate that is known to be safe has failed")
            checks.refuse("available", "no candidate known to be safe", "a set that has one, of the policy's `safe`")
        if not self._warned:
            self._warn_of_start()
        return self._without_refuted(among)

    def _without_refuted(self, safe: Mask) -> Mask:
        """Leave out of some safe candidates (n,) those whose intervals say by now that they are not, if others remain.

        Where the assumptions hold there are none, with probability 1 - delta.
        """
        if not self._certifies_by_width:
            return safe
        refuted = safe & (self._ends(()).upper < self._limits).any(axis=0)
        if np.delete(refuted, self._starts).any() and not (self._refuted or self._warned):
            self._refuted = True
            text = "the confidence intervals of candidates that were certified are beyond a limit: they are not safe"
            checks.warn(f"{type(self).__name__}: {text}; kernel, noise, rkhs_norm or width are wrong", UnsafeStart)
        return safe & ~refuted if (safe & ~refuted).any() else safe

    def _warn_of_start(self) -> None:
        moments = zip(self.widths, (model.engine.at(self._starts) for model in self._models), strict=True)
        upper = np.array([mean + beta * np.sqrt(variance) for beta, (mean, variance) in moments])
        missed = upper < self._limits
        if missed.any(axis=0).all():
            self._warned, where = True, "above" if self.minimize else "below"
            said = ["" if self.threshold is None else f"{where} the threshold {self.threshold:g}"]
            said += [f"outside the limit of {name} ({limit})" for name, limit in self.constraints.items()]
            which = " or ".join(each for each, starts in zip(said, missed, strict=True) if starts.any())
            text = f"the confidence intervals of all safe starts are {which}"
            wrong = "they are not safe, or kernel, noise, rkhs_norm or width are wrong"
            checks.warn(f"{type(self).__name__}: {text}: {wrong}", UnsafeStart)

    def _widest_expanders(self, among: Mask, now: Intervals, widths: Floats, least: float = 0.0) -> Mask:
        """Return the mask (n,) of expanders, with the widest of some safe candidates if it is wider than `least`."""
        found, numbers = np.zeros_like(among), np.flatnonzero(among)
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
            return np.asarray(self._reached(block, now.upper[0, block], outside).any(axis=1))  # (4')
        return np.all([self._certified_by(j, block, outside, now) for j in self._limited], axis=0).any(axis=1)  # (4)

    def _certified_by(self, output: int, block: Indices, outside: Indices, now: Intervals) -> NDArray[np.bool_]:
        """Return where an output's upper bound, observed at k candidates, certifies others (k, m) by that output."""
        model, beta, lower, upper = self._models[output], now.betas[output], now.lower[output], now.upper[output]
        covariance = model.engine.columns(block)[:, outside]
        if now.pending:
            columns, of_pending = model.pending_covariance(now.pending)
            covariance = covariance - columns[:, block].T @ np.linalg.solve(of_pending, columns[:, outside])
        mean, half = 0.5 * (upper + lower), 0.5 * (upper - lower)
        weight = covariance / (self.regularization + (half[block, None] / beta) ** 2)
        variance = np.maximum((half[outside] / beta) ** 2 - weight * covariance, 0.0)
        return np.asarray(mean[outside] + weight * half[block, None] - beta * np.sqrt(variance) >= self._limits[output])

    def recommend(self) -> Best:
        """Return the measured safe candidate of best posterior mean; before there is one, the best safe candidate."""
        return self._best_safe(self.safe)

    def _recommend_in(self, context: Mapping[Any, Any]) -> Best:
        safe = self.safe & self.in_context(self.domain.points(), context)
        if not safe.any():
            checks.refuse("context", dict(context), "one in which a candidate is known to be safe")
        return self._best_safe(safe)

    def _best_safe(self, safe: Mask) -> Best:
        """Return the best one of some safe candidates (n,): of those that are measured, if there are any."""
        measured = self.model.queried & (safe := self._without_refuted(safe))
        query = Query(self._salt, (self.seed, self.round), measured if measured.any() else safe)
        found, _ = self.model.argmax(MEAN, query)
        (mean,), (variance,) = self.model.engine.at(np.array([found]))
        return Best(self.domain.value(found), float(mean), float(np.sqrt(variance)))
