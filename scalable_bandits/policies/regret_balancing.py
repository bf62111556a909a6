"""Regret balancing over priors. Source: Ziomek et al. 2025, supplement D, Algorithm 2 (a baseline there).

    for t = 1, 2, ...:
        p_t = argmin over p in U of R(|S_p| + 1), suspected regret R(t) = t                     (line 3)
        play x_t = argmax of mu_p(x, t) + beta_t s_p(x, t), p = p_t                             (line 4)
        observe y_t, update all priors; S_p = the rounds played by p                            (lines 5-7)
        if every p in U has been played:                                                        (line 9)
            L_p = mean over S_p of y_i - sqrt(xi_t / |S_p|)                                     (line 10)
            keep p if L_p + mean over S_p of beta_i s_{i-1}(x_i) >= max over U of L             (line 11)

Differs from the paper in: a seeded hash decides between priors with equally few plays; a measurement with its own
noise counts in the width of L_p by its noise variance over lambda. There is no guarantee where the function or the
candidates change.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from scalable_bandits.checks import Floats
from scalable_bandits.policies import _numba_priors as numba_priors
from scalable_bandits.policies.unknown_prior import UnknownPriorPolicy
from scalable_bandits.spaces import Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class RegretBalancing(UnknownPriorPolicy):
    """Regret balancing: play the prior with the fewest plays, and reject priors whose values are too low.

    Parameters are those of `UnknownPriorPolicy` and `Policy`. A pending point counts as a play of the prior that
    its observation will be credited to.
    """

    compiled_rule: ClassVar[int | None] = numba_priors.BALANCING  # lines 7-11

    def _turn(self, counts: Floats) -> int:
        """Return the prior whose turn it is after these numbers of plays (|U|,)."""
        return self.pick(-counts)  # line 3

    def choose(self, allowed: Mask | None = None) -> int:
        return self.proposals([self.turn_after_pending(self._turn)], allowed)[0].candidate  # line 4
