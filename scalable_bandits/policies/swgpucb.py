"""SW-GP-UCB. Source: Zhou & Shroff 2021, Algorithm 2 and Theorem 2.

    input: prior GP(m, k), parameters B, R, lambda, delta, window size w
    for t = 1, 2, ...:
        beta_t = B + R sqrt(2 (g_{min(t, w)} + 1 + log(1 / delta)))                       (1)
            or, in the theorem, B + R / sqrt(lambda) sqrt(2 g + 2 log(T / delta))         (1')
        play x_t = argmax of mu_{t-1}(x) + beta_t s_{t-1}(x)                              (2)
        observe y_t, update mu_t and s_t with the last w observations                     (3)

Differs from the paper in: g is the realised information gain of the observations in the window unless
`information_gain` says otherwise.
"""

from __future__ import annotations

import functools
from typing import ClassVar

import attrs

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas._numba_widths import SLIDING
from scalable_bandits.formulas.confidence import Width
from scalable_bandits.kernels import Kernel
from scalable_bandits.policies.confidence import GAIN, NAME, NORM, Gain
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.policies.limited_memory import MEMORY, resolved_memory
from scalable_bandits.posteriors import Engine, SlidingWindowEngine

LARGEST_WINDOW = 1e9  # numbers in memory: 8 GB


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
    variation_budget: float | None = checks.optional_number(checks.positive)
    _width: str = attrs.field(default="algorithm", alias="width", validator=checks.one_of(("algorithm", "theorem")))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self._width != "theorem":
            self._confidence.warn_where_unproven()
        elif self.horizon is None:
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
        return SlidingWindowEngine(kernel, points, prior_mean, self.memory_length)  # (3)

    @property
    def _remembered(self) -> int:
        return min(self.rounds, self.memory_length)

    def width_formula(self) -> Width:
        if self._width != "theorem":
            return self._confidence.width(self.delta)  # (1)
        assert self.horizon is not None
        known = self.delta, self.norm, self.noise, self.regularization
        return Width(SLIDING, (*known, float(self.horizon)))  # (1')
