"""GP-PI: probability of improvement. Source: Kushner 1964; as MPI in Srinivas et al. 2010, section 6.

    for t = 1, 2, ...:
        m_t = max of mu_{t-1} over the points queried                         (1)
        play x_t = argmax of P[f(x) > m_t + xi] under the posterior           (2)
        observe y_t, update mu_t and s_t                                      (3)

Differs from the source in: the incumbent is the best posterior mean at a queried point, not the best
observation, which the noise biases upwards (`incumbent="observation"` selects it).
"""

from __future__ import annotations

import attrs

from scalable_bandits import checks
from scalable_bandits.formulas.acquisition import ProbabilityOfImprovement
from scalable_bandits.policies.gpei import GPEI
from scalable_bandits.posteriors import Acquisition
from scalable_bandits.spaces import Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class GPPI(GPEI):
    """Policy that maximises the probability of improvement over the best posterior mean at a queried point.

    Parameters are those of `GPEI`, and it is one in all but its index.
    """

    # With xi = 0 the incumbent itself always has probability 1/2, and the policy plays it again and again.
    xi: float = attrs.field(default=0.01, converter=checks.to_float, validator=checks.nonnegative)

    def acquisition(self, allowed: Mask | None) -> Acquisition:
        return ProbabilityOfImprovement(self.best_so_far(allowed), self.xi)  # (1), (2)
