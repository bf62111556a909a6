"""R-GP-UCB. Source: Zhou & Shroff 2021, Algorithm 1.

    input: prior GP(m, k), parameters B, R, lambda, delta, reset interval H
    for t = 1, 2, ...:
        if t mod H = 1 (for H = 1 always): forget everything, t0 = t          (1)
        beta_t = B + R sqrt(2 (g_{t-t0} + 1 + log(1 / delta)))                (2)
        play x_t = argmax of mu_{t-1}(x) + beta_t s_{t-1}(x)                  (3)
        observe y_t, update mu_t and s_t with the observations since t0       (4)

Differs from the paper in: g is the realised information gain since the restart unless asked otherwise. Rounds are
counted in values told.
"""

from __future__ import annotations

import functools

import attrs

from scalable_bandits.policies.confidence_policy import ConfidencePolicy
from scalable_bandits.policies.limited_memory import budget_field, check_memory, memory_field, resolved_memory


@attrs.define(eq=False, kw_only=True, slots=False)
class RGPUCB(ConfidencePolicy):
    """Restarting GP-UCB: improved GP-UCB that begins anew every `memory` rounds.

    Parameters
    ----------
    memory
        Number of observations that are remembered; "auto": ceil(g_T^(1/4) sqrt(T / P_T)), which needs the horizon T.
        g_T is the number or the function given as `information_gain`, and otherwise the greedy bound, which costs T
        rounds once.
    variation_budget
        P_T, for "auto": the sum over rounds of the RKHS norm of f_{t+1} - f_t; 1 if not given.

    Other parameters are those of `ConfidencePolicy`, `GaussianProcessPolicy` and `Policy`. After a restart the
    posterior is the prior, and `best()` is its best.

    Raises
    ------
    ValueError
        If `memory="auto"` lacks its horizon or a gain of a kernel that forgets, or B is to be learned.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.RGPUCB(sb.Grid([[0, 1]], 11), sb.RBF(0.3), memory=2)
    >>> policy.tell([0.0, 0.5, 1.0], [1.0, 2.0, 3.0])
    >>> policy.remembered, policy.best().x.tolist()
    (1, [1.0])
    """

    memory: int | str = memory_field()
    variation_budget: float | None = budget_field()

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        check_memory(self, self.memory)

    @functools.cached_property
    def memory_length(self) -> int:
        """H, the number of rounds between restarts, as given or as "auto" says."""
        return resolved_memory(self, self.memory, self.variation_budget)

    @property
    def remembered(self) -> int:
        return self.rounds % self.memory_length

    @property
    def width(self) -> float:
        """beta_t of the round to come."""
        return self._width_for(self.information_gain, self.delta)  # (2)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        super().learn(candidate, y, noise_variance)
        if (self.rounds + 1) % self.memory_length == 0:  # the round to come is rounds + 2
            self._model.forget()  # (1)
