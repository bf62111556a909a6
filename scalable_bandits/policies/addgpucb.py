"""Add-GP-UCB. Source: Kandasamy, Schneider & Poczos 2015, Algorithm 1.

    input: kernels k_j on groups of dimensions, j = 1 .. M; noise variance lambda
    for t = 1, 2, ...:
        mu_j, s_j = posterior of each f_j given the observations of the sum                            (1)
        for each group: x_t^j = argmax of mu_j + sqrt(beta_t) s_j over the group's coordinates         (2)
        unless bound="groups": climb mu + sqrt(beta_t) s, the bound of the sum, group by group,
            from x_t and from the argmax of mu                                                         (3)
        play x_t, observe y_t                                                                          (4)

beta_t is 0.2 D log(2 t) for groups of D dimensions (the authors' choice in practice), and twice as much for the bound
of the sum, unless `confidence` names a width from B and the information gain of the sum,
1/2 log det(I + sum_j K_j / lambda).

What is proven. With a named width, f <= mu + beta_t s everywhere and always with probability 1 - delta, and s is at
most the sum of the s_j, so that both indices are upper confidence bounds of f. The regret of round t is at most twice
the width of the index at x_t. With the bound of the sum these widths grow as the information gain of the sum, as in
IGP-UCB, if (3) finds the maximum, which a climb by groups need not. The sum of the s_j does not vanish where the sum is
known: with M groups of prior variance 1, exact values at a point leave each s_j^2 there at 1 - 1/M. (2) alone then
plays one point over and over, as long as its value is above about sqrt(beta_t) / 2, from which nothing more is learned.
For the practical beta_t nothing is proven.

Differs from the paper in: (3), without which it is the paper's; on a grid (2) is exact, where the authors search by
DiRect and move a repeated point at random. The sum has a larger beta_t since the smaller one explores too little: of
nine kinds of functions, sparse and drawn from the prior, in 10 to 100 dimensions, the larger has .35 to .77 of its
regret after 1,000 rounds on seven, as much on one and 1.14 of it on one. The paper's proof could not be read, only its
abstract and the authors' program (beta_t in `getUCBUtility.m`).
"""

from __future__ import annotations

import math

import attrs

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.confidence import Width, additive_practical
from scalable_bandits.policies.additive import AdditivePolicy
from scalable_bandits.policies.confidence import GAIN, NORM, Gain, width_name
from scalable_bandits.spaces import Mask

PRACTICAL = "practical"
OF_SUM = 2.0  # beta_t of the sum's bound, as a multiple of the largest group's


@attrs.define(eq=False, kw_only=True, slots=False)
class AddGPUCB(AdditivePolicy):
    """Add-GP-UCB: upper confidence bounds of a sum of functions of a few dimensions each.

    Parameters
    ----------
    bound
        Index: "sum" for the confidence bound of the sum, which is climbed group by group; "groups" for the sum of the
        groups' bounds, as published, whose maximum is exact on a grid, but which may play one point over and over. On a
        grid only the latter takes groups that overlap.
    confidence
        Name of the width: "practical" for sqrt(0.2 D log(2 t)) in a group of D dimensions, and sqrt(2) times that of
        the largest group for the sum, for which nothing is proven; or one of `formulas.confidence.WIDTHS`, with which
        both indices are upper confidence bounds of f.
    rkhs_norm, information_gain
        Bound B on the RKHS norm of f under the sum of the kernels, and information gain of the sum, as explained at
        `Confidence`; the practical width does not use them.

    Other parameters are those of `AdditivePolicy`, `GaussianProcessPolicy` and `Policy`.

    Raises
    ------
    ValueError
        If groups overlap on a grid and the bound is that of the sum, or as for `AdditivePolicy`.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> space = sb.Grid([[0, 1]] * 20, 30)
    >>> pairs = [[k, k + 1] for k in range(0, 20, 2)]
    >>> policy = sb.AddGPUCB(space, sb.RBF(0.3), groups=pairs, noise=0.1, regularization=0.01)
    >>> policy.tell(policy.ask(), 0.5)
    >>> len(policy.group_widths), policy.domain.space.size == 30**20
    (10, True)
    """

    bound: str = attrs.field(default="sum", validator=checks.one_of(("sum", "groups")))
    rkhs_norm: float | str = NORM
    _gain_source: Gain = GAIN
    confidence: str = width_name(PRACTICAL, default=PRACTICAL)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.bound == "sum" and self._overlaps and self.space.lattice is not None:
            checks.refuse("bound", self.bound, "'groups' where groups overlap; AddGPTS plays their sum")
        self._confidence.warn_where_unproven()

    def width_formula(self) -> Width:
        """Return the width of the sum's bound, or of the group of most dimensions if each group has its own."""
        multiple = OF_SUM if self.bound == "sum" else 1.0
        return self._width_of(max(map(len, self.present_groups)), multiple)

    def _width_of(self, dimension: int, multiple: float = 1.0) -> Width:
        """Return the width of a group of so many dimensions, for a multiple of its beta_t."""
        if self.confidence != PRACTICAL:
            return self._confidence.width(self.delta)
        return Width.constant(math.sqrt(multiple) * additive_practical(self.round, dimension))

    @property
    def group_widths(self) -> tuple[float, ...]:
        """Confidence width beta_t^(1/2) of each group in the next round."""
        gain = self.information_gain
        return tuple(self._width_of(len(group)).at(self.round, gain) for group in self.present_groups)

    def choose(self, allowed: Mask | None = None) -> int | Floats:
        search, query = self._search_of_sums, self._query(allowed)
        if self.bound == "groups":
            return search.highest_bounds(self.model, self.group_widths, query)  # (1), (2)
        return search.highest_bound(self.model, self.width, query)  # (1), (2), (3)
