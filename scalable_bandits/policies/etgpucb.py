"""ET-GP-UCB, event-triggered resets. Source: Brunzema, von Rohr, Solowjow & Trimpe 2025 (arXiv 2208.10790).

    input: prior GP(m, k), noise R, lambda, delta, delta_B
    for t = 1, 2, ...:
        beta_t as in GP-UCB, divided by `scale`                                              (1)
        play x_t = argmax of mu_{t-1}(x) + sqrt(beta_t) s_{t-1}(x), observe y_t              (2)
        t' = number of observations since the last reset, with this one                      (3)
        rho = 2 log(2 pi_t' / delta_B), w = R sqrt(rho), pi_t' = pi^2 t'^2 / 6               (4)
        if |y_t - mu_{t-1}(x_t)| > sqrt(rho) s_{t-1}(x_t) + w: forget all but y_t, t' = 1    (5)
        update mu_t and s_t                                                                  (6)

For f drawn from the prior, normal noise and lambda = R^2, a function that does not change causes a first reset with
probability at most delta_B: |f - mu| exceeds sqrt(rho) s, and the noise exceeds w, with at most delta_B / (2 pi_t')
each, and the sum of 1 / pi_t' is 1. No rate of change has to be known.

Differs from the paper in: beta_t is one of the three of Srinivas et al. 2010, over all rounds; a measurement with its
own noise has its own w. Of the paper only abstract and summaries could be read: whether it keeps the observation that
causes a reset could not be checked; here it is the first one of the new function.
"""

from __future__ import annotations

import math
from typing import ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.formulas.confidence import Width
from scalable_bandits.policies.confidence import GAIN, NAME, NORM, Gain
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.policies.gpucb import CONSTANTS, SCALE, THEOREM, checked_theorem, theorem_width
from scalable_bandits.posteriors.state import StateEntry, value


def largest_error(t: int, std: float, noise: float, probability: float) -> float:
    """Return sqrt(rho) s + w, the largest error of a prediction that does not contradict the model.

    Parameters
    ----------
    t
        Number t' of the observation since the last reset, from 1 on.
    std
        Posterior standard deviation s of f at the point, in units of y.
    noise
        Standard deviation R of the noise of the measurement, in units of y.
    probability
        Bound delta_B on the probability that any error is larger while the function does not change.

    Examples
    --------
    >>> round(largest_error(1, 0.5, 0.1, 0.1), 3)
    1.586
    """
    rho = 2.0 * math.log(2.0 * math.pi**2 * t**2 / (6.0 * probability))
    return math.sqrt(rho) * (std + noise)  # (4), (5)


@attrs.define(eq=False, kw_only=True, slots=False)
class ETGPUCB(GaussianProcessPolicy):
    """Event-triggered GP-UCB: GP-UCB that forgets everything when an observation contradicts its model.

    Parameters
    ----------
    reset_probability
        Bound delta_B on the probability of a first reset while the function does not change, for f drawn from the
        prior, normal noise of standard deviation R, and lambda = R^2.
    theorem, scale, constants
        Theorem of the width and its parameters, described at `GPUCB`.
    rkhs_norm, information_gain, confidence
        Bound B on the RKHS norm of f, information gain and name of the width, as explained at `Confidence`.

    Other parameters are those of `GaussianProcessPolicy` and `Policy`.

    Attributes
    ----------
    resets : list of int
        Rounds whose observation caused a reset; it is the first one that is remembered.

    Raises
    ------
    ValueError
        If the theorem does not hold for the space or the constants, if rkhs_norm="double", or if `refit` is given.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.ETGPUCB(sb.Grid([[0, 1]], 11), sb.RBF(0.3), noise=0.1, regularization=0.01)
    >>> policy.tell([0.5, 0.5, 0.5], [1.0, 1.1, -2.0])
    >>> policy.resets, policy._remembered
    ([3], 1)
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        value(
            "resets", "(k,)", np.int64, lambda self: self.resets,
            lambda self, rounds: setattr(self, "resets", rounds.tolist()),
        ),
    )  # fmt: skip
    continuous: ClassVar[bool] = True
    _forgets = True

    rkhs_norm: float | str = NORM
    _gain_source: Gain = GAIN
    confidence: str = NAME
    reset_probability: float = attrs.field(default=0.1, converter=checks.to_float, validator=checks.probability)
    theorem: int | None = THEOREM
    scale: float = SCALE
    constants: tuple[float, float] = CONSTANTS
    resets: list[int] = attrs.field(init=False, factory=list, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.refit is not None:
            checks.refuse("refit", self.refit, "None where observations are forgotten")
        super().__attrs_post_init__()
        self.theorem = checked_theorem(self)

    @property
    def _remembered(self) -> int:
        return self.rounds - self.resets[-1] + 1 if self.resets else self.rounds

    def width_formula(self) -> Width:
        return theorem_width(self)  # (1)

    def _rule(self) -> None:
        """Return None: `learn` may forget."""

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        kept, reset = self.model, self._contradicts(candidate, y, noise_variance)
        if reset:
            self.model = self._make_model()  # (5)
        try:
            super().learn(candidate, y, noise_variance)
        except BaseException:  # lost workers or Ctrl-C: nothing is forgotten, for another `tell`
            self.model = kept
            raise
        if reset:
            self.resets = [*self.resets, self.rounds + 1]

    def _contradicts(self, candidate: int, y: float, noise_variance: float) -> bool:
        (mean,), (variance,) = self.model.engine.at(np.array([candidate]))
        noise = self.noise * math.sqrt(noise_variance / self.regularization)
        bound = largest_error(self._remembered + 1, math.sqrt(variance), noise, self.reset_probability)  # (3)
        return bool(abs(y - mean) > bound)
