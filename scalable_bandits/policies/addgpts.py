"""Thompson sampling of additive functions. Source: none for the sum; Chowdhury & Gopalan 2017, Algorithm 2, for one GP.

    input: kernels k_j on groups of dimensions, j = 1 .. M; noise variance lambda, inflation v
    for t = 1, 2, ...:
        draw f_1, ..., f_M from their joint posterior given the observations of the sum,
        with deviations from the means times v                                                      (1)
        play x_t = argmax of f_1 + ... + f_M, group by group, or by messages where groups overlap   (2)
        observe y_t                                                                                 (3)

The groups are independent under the prior, not under the posterior. (1) draws each f_j from the prior at all points of
its group, and corrects all draws at once (Matheron's rule, as in Wilson et al. 2020, eq. 13), so that the sum of the
draws is an exact draw of f from its posterior. With v = 1 the policy is Thompson sampling for f drawn from the prior,
whose Bayesian regret bound (Russo & Van Roy 2014) grows with the information gain of the sum: unlike Add-GP-UCB, the
sum's deviation counts, not the groups'.
"""

from __future__ import annotations

import attrs

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies.additive import AdditivePolicy
from scalable_bandits.posteriors.additive.tables import MOST_DRAWN
from scalable_bandits.posteriors.blas import one_thread
from scalable_bandits.posteriors.models.additive import group_space
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class AddGPTS(AdditivePolicy):
    """Thompson sampling of a sum of functions of a few dimensions each, by exact joint draws of all groups.

    A box is replaced by `candidates` Sobol points (1024 by default); grids of any size are played as they are.

    Parameters
    ----------
    inflation
        Factor v of the deviations of the draws from the posterior mean; 1 for draws from the posterior.

    Other parameters are those of `AdditivePolicy`, `GaussianProcessPolicy` and `Policy`.

    Raises
    ------
    ValueError
        If a group has more than 5,000 points, or as for `AdditivePolicy`.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> kernel = sb.OnDimensions(sb.RBF(0.3), [0, 2]) + 0.5 * sb.OnDimensions(sb.Matern(0.2), [1])
    >>> policy = sb.AddGPTS(sb.Grid([[0, 1]] * 3, 30), kernel, noise=0.1, regularization=0.01)
    >>> policy.tell(policy.ask(), 0.5)
    >>> policy.present_groups
    ((0, 2), (1,))
    """

    inflation: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.positive)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        for group in self._largest_groups():
            if (size := group_space(self.domain, group).size) > MOST_DRAWN:
                allowed = f"groups of at most {MOST_DRAWN:,} points, which are drawn jointly"
                checks.refuse("groups", f"{list(group)} of {size:,} points", allowed)

    def _takes_boxes(self) -> bool:
        return super()._takes_boxes() and self.space.lattice is not None

    @one_thread
    def choose(self, allowed: Mask | None = None) -> int | Floats:
        pending, rng = self.domain.coordinates(self._pending.numbers), generator(self.seed, "draws", self.round)
        paths = self._engine.draw_groups(rng, self.inflation, pending, self.model.regularization)  # (1)
        return self._search_of_sums.highest_sum(self.model, paths, self._query(allowed))  # (2)
