"""WGP-UCB. Source: Deng, Zhou, Kim, Tewari, Gupta & Shroff 2022, weighted Gaussian-process regression.

    input: prior GP(m, k), parameters B, R, lambda, delta, weight eta of one round, 0 < eta < 1
    for t = 1, 2, ...:
        beta_t = B + R sqrt(2 (g_{t-1} + 1 + log(1 / delta)))                               (1)
        play x_t = argmax of mu_{t-1}(x) + beta_t s_{t-1}(x)                                (2)
        observe y_t; mu_t and s_t are the posterior with noise variance lambda eta^-(t-i)
            of observation i                                                                (3)

Differs from the paper in: the width is that of improved GP-UCB, with the realised information gain g of the weighted
observations; and the posterior is exact, where the paper uses random features.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.confidence import Width
from scalable_bandits.kernels import Kernel
from scalable_bandits.policies.confidence import GAIN, NAME, NORM, Gain
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.posteriors import Engine, WeightedEngine


@attrs.define(eq=False, kw_only=True, slots=False)
class WGPUCB(GaussianProcessPolicy):
    """Weighted GP-UCB: GP-UCB whose observations lose weight by a factor `eta` in every round.

    Parameters
    ----------
    eta
        Factor between 0 and 1; about 1 / (1 - eta) rounds are remembered.
    rkhs_norm, information_gain, confidence
        Bound B on the RKHS norm of f, information gain and name of the width, as explained at `Confidence`.

    Other parameters are those of `GaussianProcessPolicy` and `Policy`. A round costs O(m^2 n) on
    n candidates, m of which have observations of a weight that is not lost in rounding.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.WGPUCB(sb.Arms(2), sb.Covariance([[1, 0], [0, 1]]), eta=0.5)
    >>> policy.tell(0, 1.0)
    >>> policy.tell(1, 1.0)
    >>> [round(mean, 3) for mean in policy.posterior([0, 1])[0].tolist()]  # noise variances 2 and 1
    [0.333, 0.5]
    """

    _engines: ClassVar[tuple[str, ...]] = ("weighted",)

    rkhs_norm: float | str = NORM
    _gain_source: Gain = GAIN
    confidence: str = NAME
    eta: float = attrs.field(default=0.99, converter=checks.to_float, validator=checks.probability)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._confidence.warn_where_unproven()

    def width_formula(self) -> Width:
        return self._confidence.width(self.delta)  # (1)

    def _make_engine(self, kernel: Kernel, points: Floats, prior_mean: Floats) -> Engine:
        return WeightedEngine(kernel, points, prior_mean, self.eta)  # (3)
