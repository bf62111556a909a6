"""IGP-UCB. Source: Chowdhury & Gopalan 2017, Algorithm 1 and Theorem 2.

    input: prior GP(m, k), parameters B, R, lambda, delta
    for t = 1, 2, ...:
        beta_t = B + R sqrt(2 (g_{t-1} + 1 + log(1 / delta)))                 (1)
        play x_t = argmax of mu_{t-1}(x) + beta_t s_{t-1}(x)                  (2)
        observe y_t, update mu_t and s_t                                      (3)

Differs from the paper in: g is the realised information gain unless `information_gain` says otherwise
(as in the paper's experiments); lambda is free (1 + 2 / T in the theorem); `confidence` has sharper widths.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from scalable_bandits.formulas.confidence import Width
from scalable_bandits.policies.confidence import GAIN, NAME, NORM, Gain
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy


@attrs.define(eq=False, kw_only=True, slots=False)
class IGPUCB(GaussianProcessPolicy):
    """Improved GP-UCB, with the width of Chowdhury & Gopalan 2017.

    Parameters
    ----------
    rkhs_norm, information_gain, confidence
        Bound B on the RKHS norm of f, information gain and name of the width, as explained at `Confidence`.

    Other parameters are those of `GaussianProcessPolicy` and `Policy`.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.IGPUCB(sb.Grid([[0, 1]], 11), sb.RBF(0.3), noise=0.1, regularization=0.01)
    >>> x = policy.ask()
    >>> policy.tell(x, 0.5)
    >>> policy.best().x.tolist() == x.tolist()
    True
    """

    continuous: ClassVar[bool] = True
    learns_kernel: ClassVar[bool] = True
    pools: ClassVar[bool] = True
    _repeats: ClassVar[bool] = True

    rkhs_norm: float | str = NORM
    _gain_source: Gain = GAIN
    confidence: str = NAME

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._confidence.warn_where_unproven()

    def width_formula(self) -> Width:
        return self._confidence.width(self.delta)  # (1)
