"""GP-EI: expected improvement. Source: Mockus, Tiesis & Zilinskas 1978; as in Srinivas et al. 2010, section 6.

    for t = 1, 2, ...:
        m_t = max of mu_{t-1} over the points queried                         (1)
        play x_t = argmax of E[max(f(x) - m_t - xi, 0)] under the posterior   (2)
        observe y_t, update mu_t and s_t                                      (3)

Differs from the source in: the incumbent is the best posterior mean at a queried point, not the best
observation, which the noise biases upwards (`incumbent="observation"` selects it).
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from scalable_bandits.formulas.acquisition import ExpectedImprovement
from scalable_bandits.policies.improvement import ImprovementPolicy
from scalable_bandits.posteriors import Acquisition
from scalable_bandits.spaces import Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class GPEI(ImprovementPolicy):
    """Policy that maximises the expected improvement over the best posterior mean at a queried point.

    Parameters are those of `ImprovementPolicy`, `GaussianProcessPolicy` and `Policy`.

    Notes
    -----
    For f drawn from the prior and a known kernel, Wang et al. 2025 (arXiv 2508.15674) bound the cumulative regret of
    two incumbents sublinearly, for RBF and Matern kernels: the largest posterior mean at a queried point
    (`incumbent="mean"`), and the largest one of all points, which is not offered. For the largest observation
    (`incumbent="observation"`) they prove less: in each case either the cumulative regret is sublinear, or the simple
    regret converges. They cover
    neither `xi` above 0, pending points, nor a kernel that is learned, for which "observation" is the default.
    """

    continuous: ClassVar[bool] = True
    learns_kernel: ClassVar[bool] = True

    def acquisition(self, allowed: Mask | None) -> Acquisition:
        return ExpectedImprovement(self.best_so_far(allowed), self.xi)  # (1), (2)
