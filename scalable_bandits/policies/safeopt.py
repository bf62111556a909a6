"""SafeOpt. Source: Sui, Gotovos, Burdick & Krause 2015, Algorithm 1; without L: Berkenkamp, Schoellig & Krause 2016.

    input: prior GP(m, k), parameters B, R, lambda, delta, threshold h, safe start S_0, Lipschitz constant L or none
    for t = 1, 2, ...:
        l_t, u_t = mu_{t-1} -+ beta_t s_{t-1}, w_t = u_t - l_t                                  (1)
        S_t = S_{t-1} and the candidates that l_t certifies, with L through distances           (2)
        M_t = {x in S_t : u_t(x) >= max over S_t of l_t}                                        (3)
        G_t = the candidates in S_t where a value u_t(x) would enlarge S_t                      (4)
        play x_t = argmax of w_t(x) over the union of M_t and G_t                               (5)
        observe y_t, update mu_t and s_t                                                        (6)

`safe.py` has the formulas of (2) to (4). With the default width, which is proven, with probability 1 - delta no
candidate with f < h is evaluated, if the start is safe, f has at most the norm B, and L is a Lipschitz constant of f.

Differs from Sui et al. in: they intersect the intervals of all rounds; (1) has those of the round alone, and S_t keeps
what was certified before. Without L that is the same S_t; with L theirs may be larger, by what the lower end of an
earlier round, before its candidate was in S, certifies later. Their l_1 is at least h on S_0. Their width is that of
Srinivas et al. 2010, Theorem 3; the default here is that of Flynn & Reeb 2024, for any lambda. Berkenkamp et al. have
S_t = {x : l_t(x) >= h} of the round alone, which may lose candidates, and a constant beta_t, 2 with `width=2`.
"""

from __future__ import annotations

import attrs

from scalable_bandits.policies.safe import SafePolicy
from scalable_bandits.posteriors.engine import choose
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
    """

    def choose(self, allowed: Mask | None = None) -> int:
        among = self._safe_among(allowed)  # (2)
        now = self._intervals(self._pending.numbers)  # (1)
        found, widths = self._maximisers(among, now), now.upper - now.lower  # (3)
        found |= self._widest_expanders(among & ~found, now, float(widths[found].max()))  # (4)
        return choose(widths, self._salt, found)[0]  # (5)
