"""TV-GP-UCB. Source: Bogunovic, Scarlett & Cevher 2016, Algorithm 2.

    input: prior GP(m, k), noise variance lambda, forgetting rate epsilon, delta
    for t = 1, 2, ...:
        beta_t = 2 log(|D| t^2 pi^2 / (6 delta)), divided by `scale`                          (1)
        play x_t = argmax of mu~_{t-1}(x) + sqrt(beta_t) s~_{t-1}(x), the posterior of f_t    (2)
            under the covariance k(x, x') (1 - epsilon)^(|t - t'| / 2)
        observe y_t = f_t(x_t) + noise, update mu~ and s~                                     (3)

Differs from the paper in: beta_t is that of Srinivas et al. 2010 for a finite space, unless `theorem` says otherwise
(the paper's is for a box). A Kalman filter computes exactly the paper's posterior, at the same cost in every round.
"""

from __future__ import annotations

import attrs

from scalable_bandits import checks
from scalable_bandits.formulas.confidence import Width
from scalable_bandits.policies.confidence import GAIN, NAME, NORM, Gain
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.policies.gpucb import CONSTANTS, SCALE, THEOREM, checked_theorem, theorem_width


@attrs.define(eq=False, kw_only=True, slots=False)
class TVGPUCB(GaussianProcessPolicy):
    """Time-varying GP-UCB: GP-UCB whose observations lose weight with every round.

    Parameters
    ----------
    kernel
        Prior covariance times ``TemporalDecay(epsilon)``.

    theorem, scale, constants
        Theorem of the width and its parameters, described at `GPUCB`.
    rkhs_norm, information_gain, confidence
        Bound B on the RKHS norm of f, information gain and name of the width, as explained at `Confidence`.

    Other parameters are those of `GaussianProcessPolicy` and `Policy`.

    Raises
    ------
    ValueError
        If the kernel does not forget, or the theorem does not hold for the space or the constants.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.TVGPUCB(sb.Arms(2), sb.Covariance([[1, 0], [0, 1]]) * sb.TemporalDecay(0.19))
    >>> policy.tell(0, 1.0)
    >>> mean, std = policy.posterior(0)  # in the next round
    >>> round(mean, 3)  # 1 / (1 + lambda), and sqrt(1 - 0.19) of it
    0.45
    """

    rkhs_norm: float | str = NORM
    _gain_source: Gain = GAIN
    confidence: str = NAME
    theorem: int | None = THEOREM
    scale: float = SCALE
    constants: tuple[float, float] = CONSTANTS

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.theorem = checked_theorem(self)
        if not self._prior_kernel.epsilon:
            checks.refuse("kernel", self.kernel, "a kernel times TemporalDecay(epsilon), with 0 < epsilon <= 1")

    def width_formula(self) -> Width:
        return theorem_width(self)  # (1)
