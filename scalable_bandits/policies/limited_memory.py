"""R-GP-UCB and SW-GP-UCB, policies of limited memory. Source: Zhou & Shroff 2021, Algorithms 1 and 2, Theorem 2.

R-GP-UCB:

    input: prior GP(m, k), parameters B, R, lambda, delta, reset interval H
    for t = 1, 2, ...:
        if t mod H = 1 (always if H = 1): forget everything, t0 = t                       (1)
        beta_t = B + R sqrt(2 (g_{t-t0} + 1 + log(1 / delta)))                            (2)
        play x_t = argmax of mu_{t-1}(x) + beta_t s_{t-1}(x)                              (3)
        observe y_t, update mu_t and s_t with the observations since t0                   (4)

SW-GP-UCB:

    input: prior GP(m, k), parameters B, R, lambda, delta, window size w
    for t = 1, 2, ...:
        beta_t = B + R sqrt(2 (g_{min(t, w)} + 1 + log(1 / delta)))                       (5)
            or, in the theorem, B + R / sqrt(lambda) sqrt(2 g + 2 log(T / delta))         (5')
        play x_t = argmax of mu_{t-1}(x) + beta_t s_{t-1}(x)                              (6)
        observe y_t, update mu_t and s_t with the last w observations                     (7)

Differs from the paper in: g is the realised information gain of the observations since the restart, or in the window,
unless `information_gain` says otherwise; rounds are counted in observations.
"""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar

import attrs

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas._numba_widths import SLIDING
from scalable_bandits.formulas.confidence import Width
from scalable_bandits.formulas.whole import as_fraction
from scalable_bandits.kernels import Kernel
from scalable_bandits.policies.confidence import GAIN, NAME, NORM, Gain
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.posteriors import Engine, SlidingWindowEngine

LARGEST_WINDOW = 1e9  # numbers in memory: 8 GB


def memory_length(horizon: int, gain: float, variation_budget: float | None = None) -> int:
    """Return ceil(g_T^(1/4) sqrt(T / P_T)), the number of rounds to remember, between 1 and T.

    Source: Zhou & Shroff 2021, remark after Theorem 2.

    Parameters
    ----------
    horizon
        Number of rounds T.
    gain
        Largest information gain g_T of T observations, in nats.
    variation_budget
        Sum P_T over rounds of the RKHS norm of f_{t+1} - f_t; 1 if not given.

    Examples
    --------
    >>> memory_length(10_000, gain=16.0), memory_length(10_000, gain=16.0, variation_budget=4.0)
    (200, 100)
    """
    budget = as_fraction(1.0 if variation_budget is None else variation_budget)
    fourth = math.ceil(as_fraction(gain) * horizon**2 / budget**2)
    return min(math.isqrt(math.isqrt(max(fourth, 1) - 1)) + 1, horizon)


def _memory(policy: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Refuse a memory that is neither a positive integer nor "auto", or that does not fit the policy."""
    if value != "auto":
        if isinstance(value, str):
            checks.refuse(field.name, value, "a positive integer, or 'auto'")
        checks.integer(field.name, value, 1)
    elif policy.horizon is None:
        checks.refuse("horizon", None, "a number, for memory='auto'")
    elif policy._prior_kernel.epsilon and policy._gain_source == "realised":
        allowed = "a number or a function, for memory='auto' with TemporalDecay"
        checks.refuse("information_gain", policy._gain_source, allowed)


def resolved_memory(policy: Any) -> int:
    """Number of observations that the policy keeps, "auto" resolved."""
    if policy.memory != "auto":
        return int(policy.memory)
    gain = policy._confidence.information_gain(policy.model, policy.horizon)
    return memory_length(policy.horizon, gain, policy.variation_budget)


# Fields of the policies of limited memory.
MEMORY: Any = attrs.field(default="auto", converter=checks.to_int, validator=_memory)
BUDGET: Any = attrs.field(default=None, converter=checks.to_float, validator=attrs.validators.optional(checks.positive))


@attrs.define(eq=False, kw_only=True, slots=False)
class RGPUCB(GaussianProcessPolicy):
    """Restarting GP-UCB: improved GP-UCB that forgets all observations every `memory` rounds.

    Parameters
    ----------
    memory
        Number of rounds between restarts; "auto": ceil(g_T^(1/4) sqrt(T / P_T)), which needs the horizon T. g_T is the
        number or function given as `information_gain`, else the greedy bound, which costs as much as T rounds.
    variation_budget
        Sum P_T over rounds of the RKHS norm of f_{t+1} - f_t, for "auto"; 1 if not given.
    rkhs_norm, information_gain, confidence
        Bound B on the RKHS norm of f, information gain and name of the width, as explained at `Confidence`.

    Other parameters are those of `GaussianProcessPolicy` and `Policy`. After a restart the
    posterior is the prior, and `best()` the best point under it.

    Raises
    ------
    ValueError
        If memory="auto" without a horizon, or without a given information gain where the kernel forgets, or if
        rkhs_norm="double".

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.RGPUCB(sb.Grid([[0, 1]], 11), sb.RBF(0.3), memory=2)
    >>> policy.tell([0.0, 0.5, 1.0], [1.0, 2.0, 3.0])
    >>> policy._remembered, policy.best().x.tolist()
    (1, [1.0])
    """

    rkhs_norm: float | str = NORM
    _gain_source: Gain = GAIN
    confidence: str = NAME
    memory: int | str = MEMORY
    variation_budget: float | None = BUDGET

    memory_length = functools.cached_property(resolved_memory)  # H
    _forgets = True

    @property
    def _remembered(self) -> int:
        return self.rounds % self.memory_length

    def width_formula(self) -> Width:
        return self._confidence.width(self.delta)  # (2)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        super().learn(candidate, y, noise_variance)
        if (self.rounds + 1) % self.memory_length == 0:  # `rounds` still lacks this observation
            self.model.forget()  # (1)

    @property
    def _rounds_alike(self) -> int:
        return self.memory_length - self._remembered


@attrs.define(eq=False, kw_only=True, slots=False)
class SWGPUCB(GaussianProcessPolicy):
    """Sliding-window GP-UCB: improved GP-UCB on the last `memory` observations.

    Parameters
    ----------
    memory
        Number w of observations in the window; "auto": ceil(g_T^(1/4) sqrt(T / P_T)), which needs the horizon T. g_T is
        the number or function given as `information_gain`, else the greedy bound, which costs as much as T rounds.
    variation_budget
        Sum P_T over rounds of the RKHS norm of f_{t+1} - f_t, for "auto"; 1 if not given.
    width
        Confidence width: "algorithm" for the one in Algorithm 2, "theorem" for the one in Theorem 2, which needs the
        horizon.
    rkhs_norm, information_gain, confidence
        Bound B on the RKHS norm of f, information gain and name of the width, as explained at `Confidence`.

    Other parameters are those of `GaussianProcessPolicy` and `Policy`.

    Raises
    ------
    ValueError
        If width="theorem" or memory="auto" without a horizon, if rkhs_norm="double", or if the window would need more
        than 8 GB for so many candidates.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.SWGPUCB(sb.Grid([[0, 1]], 11), sb.RBF(0.3), memory=2)
    >>> policy.tell([0.0, 0.5, 1.0], [3.0, 2.0, 1.0])
    >>> policy._remembered, policy.best().x.tolist()
    (2, [0.5])
    """

    _engines: ClassVar[tuple[str, ...]] = ("sliding",)

    rkhs_norm: float | str = NORM
    _gain_source: Gain = GAIN
    confidence: str = NAME
    memory: int | str = MEMORY
    variation_budget: float | None = BUDGET
    _width: str = attrs.field(default="algorithm", alias="width", validator=checks.one_of(("algorithm", "theorem")))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self._width == "theorem" and self.horizon is None:
            checks.refuse("horizon", None, "a number, for width='theorem'")
        if self.memory != "auto":
            self._check_window()

    def _check_window(self) -> None:
        w = self.memory_length
        if w * (w + self.domain.size) > LARGEST_WINDOW:
            checks.refuse(
                "memory", w, f"w with w (w + candidates) up to {LARGEST_WINDOW:.0e}: so many numbers are stored"
            )

    memory_length = functools.cached_property(resolved_memory)  # w

    def _make_engine(self, kernel: Kernel, points: Floats, prior_mean: Floats) -> Engine:
        self._check_window()
        return SlidingWindowEngine(kernel, points, prior_mean, self.memory_length)  # (7)

    @property
    def _remembered(self) -> int:
        return min(self.rounds, self.memory_length)

    def width_formula(self) -> Width:
        if self._width != "theorem":
            return self._confidence.width(self.delta)  # (5)
        assert self.horizon is not None
        known = self.delta, self.norm, self.noise, self.regularization
        return Width(SLIDING, (*known, float(self.horizon)))  # (5')
