"""R-GP-UCB. Source: Zhou & Shroff 2021, Algorithm 1.

    input: prior GP(m, k), parameters B, R, lambda, delta, reset interval H
    for t = 1, 2, ...:
        if t mod H = 1 (always if H = 1): forget everything, t0 = t           (1)
        beta_t = B + R sqrt(2 (g_{t-t0} + 1 + log(1 / delta)))                (2)
        play x_t = argmax of mu_{t-1}(x) + beta_t s_{t-1}(x)                  (3)
        observe y_t, update mu_t and s_t with the observations since t0       (4)

Differs from the paper in: g is the realised information gain since the restart unless `information_gain` says
otherwise; rounds are counted in observations.
"""

from __future__ import annotations

import functools

import attrs

from scalable_bandits import checks
from scalable_bandits.formulas.confidence import Width
from scalable_bandits.policies.confidence import GAIN, NAME, NORM, Gain
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.policies.limited_memory import MEMORY, resolved_memory


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
    variation_budget: float | None = checks.optional_number(checks.positive)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._confidence.warn_where_unproven()

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
