"""IRGP-UCB, improved randomised GP-UCB. Source: Takeno et al. 2023 and 2024 (arXiv 2302.01511, 2409.00979).

    input: prior GP(m, k), noise variance lambda, finite space D
    for t = 1, 2, ...:
        zeta_t = max(0, 2 log(|D| / 2)) + Z_t, Z_t exponential with rate 1/2                 (1)
        play x_t = argmax of mu_{t-1}(x) + sqrt(zeta_t) s_{t-1}(x)                           (2)
        observe y_t, update mu_t and s_t                                                     (3)

The width does not grow with t, because the bound has to hold in expectation over the drawn width in each round, not
with high probability in all rounds together. The Bayesian regret is bounded for f drawn from the prior.

Differs from the source in: the maximum with 0, which matters for one candidate; a box is replaced by `candidates` Sobol
points, where the source has a discretisation that grows with t. Of the papers only abstracts and summaries could be
read.
"""

from __future__ import annotations

import math
from typing import ClassVar

import attrs

from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.randomness import generator


@attrs.define(eq=False, kw_only=True, slots=False)
class IRGPUCB(GaussianProcessPolicy):
    """Improved randomised GP-UCB: a random confidence width, of the same distribution in every round.

    Parameters are those of `GaussianProcessPolicy` and `Policy`; `delta` is not used.

    Examples
    --------
    >>> import numpy as np
    >>> import scalable_bandits as sb
    >>> policy = sb.IRGPUCB(sb.Grid([[0, 1]], 11), sb.RBF(0.3), noise=0.1, regularization=0.01)
    >>> policy.tell(policy.ask(), 0.5)
    >>> bool(policy.width ** 2 >= 2 * np.log(11 / 2))
    True
    """

    learns_kernel: ClassVar[bool] = True

    @property
    def width(self) -> float:
        """Confidence width sqrt(zeta_t) of the next round, in standard deviations."""
        least = max(0.0, 2.0 * math.log(self.domain.choosable / 2.0))
        asked = self.rounds + len(self._pending.asked) + self.failures  # the same while a point is chosen and after it
        return math.sqrt(least + generator(self.seed, "width", asked + 1).exponential(2.0))  # (1)
