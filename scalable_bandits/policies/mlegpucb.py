"""MLE-GP-UCB, which plays the likeliest prior. Source: Ziomek et al. 2025, section 7 (a baseline there).

    for t = 1, 2, ...:
        p_t = argmax over p in U of the marginal likelihood of all data under p     (1)
        play x_t = argmax of mu_p(x, t) + beta_t s_p(x, t), p = p_t                 (2)
        observe y_t, update all priors                                              (3)

The marginal likelihood is the product of the densities of y_i under N(mu_{i-1}(x_i), s^2_{i-1}(x_i) + lambda).
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from scalable_bandits.policies import _numba_priors as numba_priors
from scalable_bandits.policies.unknown_prior import UnknownPriorPolicy
from scalable_bandits.spaces import Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class MLEGPUCB(UnknownPriorPolicy):
    """Upper confidence bound under the prior of highest marginal likelihood.

    Parameters are those of `UnknownPriorPolicy` and `Policy`.
    """

    compiled_rule: ClassVar[int | None] = numba_priors.LIKELIEST

    def choose(self, allowed: Mask | None = None) -> int:
        return self.proposals([self.pick(self.tally.evidence)], allowed)[0].candidate  # (1), (2)
