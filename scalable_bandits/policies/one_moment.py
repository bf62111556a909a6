"""Mean only and variance only: pure exploitation and pure exploration. Source: Srinivas et al. 2010, 2.2 and section 6.

for t = 1, 2, ...:
    play x_t = argmax of mu_{t-1}(x), or of s_{t-1}(x), the greedy choice for the information gain
    observe y_t, update mu_t and s_t
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.posteriors.models.model import DEVIATION, MEAN


@attrs.define(eq=False, kw_only=True, slots=False)
class MeanOnly(GaussianProcessPolicy):
    """Policy that plays the largest posterior mean.

    Parameters are those of `GaussianProcessPolicy` and `Policy`.
    """

    continuous: ClassVar[bool] = True
    learns_kernel: ClassVar[bool] = True
    pools: ClassVar[bool] = True
    _constant_index: ClassVar[UpperConfidence | None] = MEAN


@attrs.define(eq=False, kw_only=True, slots=False)
class VarianceOnly(GaussianProcessPolicy):
    """Policy that plays the largest posterior standard deviation (uncertainty sampling, greedy experimental design).

    Parameters are those of `GaussianProcessPolicy` and `Policy`.
    """

    continuous: ClassVar[bool] = True
    learns_kernel: ClassVar[bool] = True
    pools: ClassVar[bool] = True
    _constant_index: ClassVar[UpperConfidence | None] = DEVIATION
