"""mini-GP-UCB. Source: Calandriello et al. 2022, mini-GP-Opt with the index of GP-UCB.

    input: prior GP(m, k), parameters B, R, lambda, delta, factor C
    for h = 1, 2, ...:
        beta_h = B + R sqrt(2 (g_h + 1 + log(1 / delta))), g_h of all rounds so far      (1)
        choose x_h = argmax of mu_h(x) + beta_h s_h(x)                                   (2)
        play x_h max(1, floor((C^2 - 1) lambda / s_h^2(x_h))) times, update mu and s     (3)

Differs from the source in: beta is the width of IGP-UCB (Chowdhury & Gopalan 2017, Theorem 2), or as `confidence` says.
"""

from __future__ import annotations

import attrs

from scalable_bandits import checks
from scalable_bandits.policies.igpucb import IGPUCB
from scalable_bandits.policies.repeated_choice import RepeatedChoice


@attrs.define(eq=False, kw_only=True, slots=False)
class MiniGPUCB(RepeatedChoice, IGPUCB):
    """Improved GP-UCB that plays a chosen point several times before it chooses again.

    Parameters are those of `RepeatedChoice`, `IGPUCB`, `GaussianProcessPolicy` and `Policy`.

    Raises
    ------
    ValueError
        If the function changes over rounds, the kernel is to be learned, or rkhs_norm="double".

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.MiniGPUCB(sb.Grid([[0, 1]], 30), sb.RBF(0.2), shrinkage=2.0)
    >>> run = sb.simulate(policy, sb.Benchmark("forrester", policy.space, sb.GaussianNoise(0.5)), 100)
    >>> policy.choices < 50
    True
    """

    def __attrs_post_init__(self) -> None:
        if self.rkhs_norm == "double":
            checks.refuse("rkhs_norm", "double", "a number: the posterior is updated between choices alone")
        super().__attrs_post_init__()
