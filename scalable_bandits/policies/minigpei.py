"""mini-GP-EI. Source: Calandriello et al. 2022, mini-GP-Opt with the index of GP-EI.

    input: prior GP(m, k), noise variance lambda, factor C
    for h = 1, 2, ...:
        m_h = max of mu_h over the points queried                                        (1)
        choose x_h = argmax of E[max(f(x) - m_h - xi, 0)] under the posterior            (2)
        play x_h max(1, floor((C^2 - 1) lambda / s_h^2(x_h))) times, update mu and s     (3)

Differs from the source in: the deviation in the index is not widened.
"""

from __future__ import annotations

import attrs

from scalable_bandits.policies.gpei import GPEI
from scalable_bandits.policies.repeated_choice import RepeatedChoice


@attrs.define(eq=False, kw_only=True, slots=False)
class MiniGPEI(RepeatedChoice, GPEI):
    """Expected improvement, where a chosen point is played several times before the next choice.

    Parameters are those of `RepeatedChoice`, `GPEI`, `GaussianProcessPolicy` and `Policy`.
    """
