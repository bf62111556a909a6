"""SafeOpt. Source: Sui, Gotovos, Burdick & Krause 2015, Algorithm 1; without L: Berkenkamp, Schoellig & Krause 2016;
with limits of several outputs: Berkenkamp, Krause & Schoellig 2021, Bayesian optimization with safety constraints.

    input: prior GP(m, k), parameters B, R, lambda, delta, threshold h, safe start S_0, Lipschitz constant L or none;
        with constraints those of each output, and its limit h_i
    for t = 1, 2, ...:
        l_t, u_t = mu_{t-1} -+ beta_t s_{t-1}, w_t = u_t - l_t                                  (1)
        S_t = S_{t-1} and the candidates that l_t certifies, with L through distances           (2)
        M_t = {x in S_t : u_t(x) >= max over S_t of l_t}                                        (3)
        G_t = the candidates in S_t where a value u_t(x) would enlarge S_t                      (4)
        play x_t = argmax of w_t(x) over the union of M_t and G_t                               (5)
        observe y_t, update mu_t and s_t                                                        (6)

`safe.py` has the formulas of (2) to (4), and w_t of several outputs. With the default width, which is proven, with
probability 1 - delta no candidate with f < h is evaluated, if the start is safe, f has at most the norm B, and L is a
Lipschitz constant of f; with constraints none that misses a limit, if each output minus its limit has at most its B.

Differs from Sui et al. in: they intersect the intervals of all rounds; (1) has those of the round alone, and S_t keeps
what was certified before. Without L that is the same S_t; with L theirs may be larger, by what the lower end of an
earlier round, before its candidate was in S, certifies later. Their l_1 is at least h on S_0. Their width is that of
Srinivas et al. 2010, Theorem 3; the default here is that of Flynn & Reeb 2024, for any lambda. Berkenkamp et al. have
S_t = {x : l_t(x) >= h} of the round alone, which may lose candidates, and a constant beta_t, 2 with `width=2`.

With several outputs it differs from Berkenkamp et al. 2021 in what follows. Of that paper only the beginning was read;
the rest is from its authors' program, which has a beta_t for all outputs together. There a safe point is an expander if
for each limited output some x' would be certified by that output, perhaps another x' for each; here one x' has to be
certified by all of them, since S_t grows by such an x' alone. There the units of widths are those of the kernels; here
norms count, too. There each output may have an L; here no output has one with constraints.
"""

from __future__ import annotations

import attrs

from scalable_bandits.policies.safe import SafePolicy
from scalable_bandits.spaces import Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class SafeOpt(SafePolicy):
    """Safe optimisation: the least known of the safe candidates that may be best or may enlarge the safe set.

    Parameters are those of `SafePolicy`, `GaussianProcessPolicy` and `Policy`.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> space = sb.Grid([[0, 1]], 21)
    >>> policy = sb.SafeOpt(space, sb.RBF(0.3), threshold=0.0, safe_start=[0.5], noise=0.1, regularization=0.01)
    >>> for _ in range(5):
    ...     x = policy.ask()
    ...     policy.tell(x, 2.0 - 6.0 * (x[0] - 0.4) ** 2)
    >>> policy.safe[[2, 10, 20]].tolist()
    [True, True, False]

    A limit of another output, here without one of the objective:

    >>> policy = sb.SafeOpt(
    ...     space, sb.RBF(0.3), constraints={"heat": sb.AtMost(80)}, kernels={"heat": 400 * sb.RBF(0.3)},
    ...     safe_start=[0.5], noise=0.1, regularization=0.01,
    ... )
    >>> policy.tell([0.5], {"yield": 0.3, "heat": 41.0})
    >>> policy.safe.nonzero()[0].tolist()
    [8, 9, 10, 11, 12]
    """

    def choose(self, allowed: Mask | None = None) -> int:
        return self._least_known(allowed)  # (1) to (5)
