"""BKB. Source: Calandriello et al. 2019, Algorithm 1 and Theorem 2.

    input: prior GP(m, k), parameters B, R, lambda, delta, qbar
    for t = 1, 2, ...:
        mean mu_{t-1} and deviation s_{t-1} by Nystrom features of a dictionary S_{t-1}       (1)
        beta_t = 2 R / sqrt(lambda) sqrt(3 log(kappa^2 t / lambda) sum over i < t of s_{t-1}(x_i)^2 / lambda
                 + log(1 / delta)) + (1 + sqrt(2)) B                                        (2)
        play x_t = argmax of mu_{t-1}(x) + beta_t s_{t-1}(x)                                (3)
        observe y_t                                                                        (4)
        redraw S_t: each queried point with probability min(1, qbar s^2)                   (5)

Differs from the paper in: the width is that of IGP-UCB with the sketched posterior's realised information gain, unless
`confidence="budgeted"` selects (2), which is ten times wider; S is redrawn only when the observations since the last
redraw outnumber it, and those observations count exactly (see `posteriors/sketched/engine.py`); qbar is 1.5, where
Theorem 1 requires 72 log(4 T / delta) with e = 1/2. The paper divides variances by lambda, this package does not, so
that its widths are the paper's over sqrt(lambda). The variances in (2) may be upper bounds of the present ones.

Checked against the authors' program (`bkb_lib.py` of batch-bkb): (1), (3), (5), and the sum in (2), which is over the
points played with their present variances. The constants of (2) were not compared with the printed theorem. They are
those of e = 1/2, 3 = (1 + e) / (1 - e) and sqrt(2) = 1 / sqrt(1 - e), and they are large enough: the noise requires
R / sqrt(lambda) sqrt(log det(I + K / lambda) + 2 log(1 / delta)); with v = kappa^2 t / lambda, the log determinant is
at most (1 + log(1 + v)) times the exact sum, and the exact sum less than 3 times the sketched one (Theorem 1). The
term under the root of (2) is at least as large for v >= 1.7, and up to 4 times larger.
"""

from __future__ import annotations

from typing import Any, ClassVar

import attrs

from scalable_bandits.formulas.confidence import Width, budgeted, budgeted_gain
from scalable_bandits.policies.confidence import GAIN, NORM, Gain, width_name
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy


def sketched_width(policy: Any) -> Width:
    """Return the width that `confidence` names, for a policy whose engine is sketched.

    Parameters
    ----------
    policy
        Policy whose engine is sketched.
    """
    if policy.confidence != "budgeted":
        return policy._confidence.width(policy.delta)
    largest = policy._measuring.prior_variance  # kappa^2
    candidates, _, noise_variances = policy.model.observations.collapsed()
    played = float((policy.model.engine.at(candidates)[1] / noise_variances).sum())
    gain = budgeted_gain(max(policy.rounds, 1), played, largest / policy.regularization)
    return Width.constant(budgeted(gain, policy.delta, policy.norm, policy.noise, policy.regularization))  # (2)


@attrs.define(eq=False, kw_only=True, slots=False)
class BKB(GaussianProcessPolicy):
    """Budgeted kernelised bandit, an upper confidence bound on a sketched posterior.

    Parameters
    ----------
    oversampling
        Factor qbar of the sampling probabilities: larger values are slower and closer to the exact posterior, infinity
        is exact.
    confidence
        Name of the width: one of `formulas.confidence.WIDTHS`, or "budgeted" for Theorem 2 of the source.
    rkhs_norm, information_gain
        Bound B on the RKHS norm of f, and information gain in the width, as explained at `Confidence`.

    Other parameters are those of `GaussianProcessPolicy` and `Policy`.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.BKB(sb.Grid([[0, 1]], 11), sb.RBF(0.3), noise=0.1, regularization=0.01)
    >>> x = policy.ask()
    >>> policy.tell(x, 0.5)
    >>> policy.best().x.tolist() == x.tolist()
    True
    """

    continuous: ClassVar[bool] = True
    pools: ClassVar[bool] = True
    _repeats: ClassVar[bool] = True

    rkhs_norm: float | str = NORM
    _gain_source: Gain = GAIN
    confidence: str = width_name("budgeted")
    engine: str = "sketched"

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._confidence.warn_where_unproven()

    def width_formula(self) -> Width:
        return sketched_width(self)
