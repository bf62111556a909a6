"""Mean only (pure exploitation). Source: Srinivas et al. 2010, section 6 (a baseline there).

for t = 1, 2, ...:
    play x_t = argmax of mu_{t-1}(x)
    observe y_t, update mu_t
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np

from scalable_bandits.formulas._numba_widths import CONSTANT
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.posteriors import Acquisition
from scalable_bandits.posteriors.models.model import MEAN
from scalable_bandits.posteriors.rounds import Rule
from scalable_bandits.spaces import Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class MeanOnly(GaussianProcessPolicy):
    """Policy that plays the largest posterior mean.

    Parameters are those of `GaussianProcessPolicy` and `Policy`.
    """

    continuous: ClassVar[bool] = True
    learns_kernel: ClassVar[bool] = True

    def acquisition(self, allowed: Mask | None) -> Acquisition:
        return MEAN

    def rule(self) -> Rule | None:
        return Rule(CONSTANT, np.zeros(1))
