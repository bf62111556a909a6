"""Thompson sampling of independent arms. Source: Agrawal & Goyal 2017, Algorithm 2 (normal priors); 2013.

    for t = 1, 2, ...:
        for each arm i: draw theta_i from N(mu_i, s_i^2), its posterior                  (1)
        play the arm of largest theta_i                                                  (2)
        observe y, update mu_i and s_i of this arm                                       (3)

Differs from the source in: there mu_i = (sum of y_i) / (n_i + 1) and s_i^2 = 1 / (n_i + 1), which are the posterior of
the prior N(0, 1) for noise of variance 1; here prior and noise variance lambda are parameters. (1) is not computed arm
by arm: `largest_draw` finds the largest draw, with the same distribution. Only available arms are drawn. A pending arm
counts as observed, at its mean.
"""

from __future__ import annotations

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies.arm_policy import ArmPolicy
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Mask

FAR = 3.0  # deviations: draws above are few, 0.1 %, and are made first


def largest_draw(rng: np.random.Generator, mean: Floats, std: Floats, far: float = FAR) -> int:
    """Return the position of the largest of independent draws from N(mean_i, std_i^2), without drawing most of them.

    The draws above mean_i + far std_i are a binomial number, at uniform positions. Once these are drawn, the others can
    matter only where mean_i + far std_i is above the largest of them; there they are drawn, too.

    Parameters
    ----------
    rng
        Generator of the draws.
    mean, std
        Means and standard deviations (n,).
    far
        Number of deviations above which draws are made first. The distribution is the same for any.
    """
    from scipy.special import ndtr, ndtri  # late, since scipy is heavy

    tail = float(ndtr(-far))
    first = rng.choice(len(mean), rng.binomial(len(mean), tail), replace=False, shuffle=False)
    draws = mean[first] - std[first] * ndtri(tail * (1.0 - rng.random(len(first))))
    reach = far * std
    reach += mean
    reach[first] = -np.inf
    near = np.flatnonzero(reach > draws.max(initial=-np.inf))
    draws = np.concatenate([draws, mean[near] - std[near] * ndtri(tail + (1.0 - tail) * rng.random(len(near)))])
    return int(np.concatenate([first, near])[draws.argmax()])


@attrs.define(eq=False, kw_only=True, slots=False)
class IndependentTS(ArmPolicy):
    """Thompson sampling of each arm by itself, on finite spaces: a baseline that knows no structure.

    Parameters
    ----------
    kernel
        Kernel that is not used; accepted so that all policies take one.
    prior_mean
        Mean of an arm's value before any observation, in units of y.
    prior_std
        Standard deviation of an arm's value before any observation, in units of y.

    Other parameters are those of `Policy`. A round costs O(n) for n arms.

    Raises
    ------
    ValueError
        If the space is not finite.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> arms = sb.Arms(3)
    >>> policy = sb.IndependentTS(arms, noise=0.1, regularization=0.01)
    >>> _ = sb.simulate(policy, sb.TableEnvironment(arms, [0.0, 0.5, 1.0], sb.GaussianNoise(0.1)), 100)
    >>> policy.best().x
    2
    """

    prior_mean: float = attrs.field(default=0.0, converter=checks.to_float, validator=checks.number)
    prior_std: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.positive)

    def prior(self) -> tuple[float, float]:
        return self._oriented(self.prior_mean), self.regularization / self.prior_std / self.prior_std

    def choose(self, allowed: Mask | None = None) -> int:
        allowed = self.arms(allowed)
        mean, std = self._arms.means, self._arms.stds_with(self._pending.numbers)
        numbers = None if allowed is None else np.flatnonzero(allowed)
        if numbers is not None:
            mean, std = mean[numbers], std[numbers]
        rng = generator(self.seed, "draws of arms", self.round)
        chosen = largest_draw(rng, mean, std, FAR)  # (1), (2)
        return chosen if numbers is None else int(numbers[chosen])
