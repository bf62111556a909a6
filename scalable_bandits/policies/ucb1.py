"""UCB1. Source: Auer, Cesa-Bianchi & Fischer 2002, Figure 1.

    play each arm once                                                          (1)
    for n = K, K + 1, ...:
        play the arm j that maximises x_j + sqrt(2 ln n / n_j)                  (2)

x_j is the average of the n_j values of arm j, and n the number of all plays so far.

Differs from the source in: rewards there are in [0, 1] and hence R-sub-Gaussian with R = 1/2, for which
sqrt(2 ln n / n_j) = R sqrt(8 ln n / n_j); the latter is used, for any R. (1) is in a seeded order. With an availability
set, (1) and (2) are of the available arms. A pending arm counts as played, at its average. An observation with a noise
s of its own counts as (R / s)^2 plays in n_j.
"""

from __future__ import annotations

import math

import attrs

from scalable_bandits.policies.arm_policy import ArmPolicy
from scalable_bandits.spaces import Mask


def ucb1_width(plays: int, noise: float, regularization: float) -> float:
    """Return R sqrt(8 ln n / lambda), the width of UCB1 in standard errors sqrt(lambda / n_j).

    Parameters
    ----------
    plays
        Number n of all plays so far, at least 1.
    noise
        Sub-Gaussian constant R of the noise, in units of y.
    regularization
        Noise variance lambda, in squared units of y.
    """
    return noise * math.sqrt(8.0 * math.log(plays) / regularization)


@attrs.define(eq=False, kw_only=True, slots=False)
class UCB1(ArmPolicy):
    """Upper confidence bound of each arm by itself, on finite spaces: a baseline that knows no structure.

    Parameters
    ----------
    kernel
        Kernel that is not used; accepted so that all policies take one.

    Other parameters are those of `Policy`. A round costs O(n) for n arms.

    Raises
    ------
    ValueError
        If the space is not finite.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> arms = sb.Arms(3)
    >>> policy = sb.UCB1(arms, noise=0.1, regularization=0.01)
    >>> run = sb.simulate(policy, sb.TableEnvironment(arms, [0.0, 0.5, 1.0], sb.GaussianNoise(0.1)), 200)
    >>> policy.best().x, sorted(run.candidate[:3].tolist())
    (2, [0, 1, 2])
    """

    @property
    def width(self) -> float:
        """Width of the next round, in standard errors: R sqrt(8 ln n / lambda)."""
        return ucb1_width(max(self.round - 1, 1), self.noise, self.regularization)

    def choose(self, allowed: Mask | None = None) -> int:
        allowed, pending = self.arms(allowed), self._pending.numbers
        least, plays = self._turns.least(allowed, pending)
        if plays == 0:
            return least  # (1)
        index = self.width * self._arms.stds_with(pending)
        index += self._arms.means
        return self.highest(index, allowed, least)  # (2)
