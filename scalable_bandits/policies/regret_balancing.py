"""Regret balancing over priors. Source: Ziomek et al. 2025, supplement D, Algorithm 2 (a baseline there).

    for t = 1, 2, ...:
        p_t = argmin over p in U of R(|S_p| + 1), suspected regret R(t) = t                     (line 3)
        play x_t = argmax of mu_p(x, t) + beta_t s_p(x, t), p = p_t                             (line 4)
        observe y_t, update all priors; S_p = the rounds played by p                            (lines 5-7)
        if every p in U has been played:                                                        (line 9)
            L_p = mean over S_p of y_i - sqrt(xi_t / |S_p|)                                     (line 10)
            keep p if L_p + mean over S_p of beta_i s_{i-1}(x_i) >= max over U of L             (line 11)

Differs from the paper in: priors with as few plays take turns in a seeded order; measurements with a noise of their own
count in the width of L_p by their variance. Where the function or the candidates change, nothing is guaranteed.
"""

from __future__ import annotations

import attrs
import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.policies.unknown_prior import Outcome, Rejection, UnknownPriorPolicy
from scalable_bandits.spaces import Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class RegretBalancing(UnknownPriorPolicy):
    """The prior with the fewest plays plays; one whose values fall behind is dropped.

    Parameters are those of `UnknownPriorPolicy` and `Policy`. A pending point is taken for a play of the prior whose
    turn it will be.
    """

    def _turn(self, counts: Floats) -> int:
        return self.pick(-counts)  # line 3

    def choose(self, allowed: Mask | None = None) -> int:
        counts = self._counts.copy()
        for _ in self._pending.numbers:
            counts[self._turn(counts)] += 1.0
        return self.largest(self.proposals([self._turn(counts)], allowed))  # line 4

    def prefetch_next(self) -> None:
        counts = self._counts.copy()
        for _ in range(len(self._pending.numbers) + 1):  # the present play, and those pending
            counts[self._turn(counts)] += 1.0
        self._prefetch([self._turn(counts)], "propose", None, self._pending.numbers)

    def credit(self, told: Outcome) -> None:
        p = self._turn(self._counts)
        self.book(p, told.y, self.width_of(told.round) * told.std[p], told.share)  # line 7
        playing = np.array(self._playing)
        counts = self._counts[playing]
        if (counts == 0).any():  # line 9
            return
        lower = (self._sums[playing] - np.sqrt(self.allowance(told.round) * self._weights[playing])) / counts  # line 10
        upper = lower + self._slacks[playing] / counts
        for number, bound in zip(
            playing[upper < lower.max()].tolist(), upper[upper < lower.max()].tolist(), strict=True
        ):
            self.reject(number, Rejection(told.round, float(lower.max()), bound))  # line 11
