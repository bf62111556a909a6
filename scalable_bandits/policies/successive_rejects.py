"""Successive rejects. Source: Audibert, Bubeck & Munos 2010, Figure 2.

    A_1 = all K arms, logbar(K) = 1/2 + sum_{i=2}^K 1/i, n_0 = 0,
    n_k = ceil(1 / logbar(K) (T - K) / (K + 1 - k))                                      (1)
    for phase k = 1, ..., K - 1:
        play each arm of A_k n_k - n_{k-1} times                                         (2)
        A_{k+1} = A_k without the arm of smallest average                                (3)
    recommend the arm that is left                                                       (4)

Differs from the source in: n_k is at least 1, so that no arm is rejected unseen; where T < K not every arm can be
played, and the T rounds play distinct arms. Of the arms of a phase the least played comes next, in a seeded order,
which also breaks ties in (3). After the last phase the arm that is left is played. A pending arm counts as played when
the next is chosen, not in (3). Of an availability set the least played arm of A_k comes next; if none of A_k is
available, the available arm of best average. Arms whose evaluation failed hold up no phase, and are rejected first.
"""

from __future__ import annotations

from decimal import Decimal, localcontext

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.formulas.whole import DIGITS, ceiling
from scalable_bandits.policies.arm_policy import REJECTED, ArmPolicy
from scalable_bandits.spaces import Indices, Mask


def phase_lengths(arms: int, horizon: int) -> Indices:
    """Return n_1, ..., n_{K-1}, (K - 1,): plays of each surviving arm at the end of each phase, at least 1.

    Parameters
    ----------
    arms
        Number K of arms.
    horizon
        Number T of rounds.
    """
    with localcontext(DIGITS):
        share = (horizon - arms) / sum((1 / Decimal(i) for i in range(2, arms + 1)), Decimal("0.5"))
        lengths = [ceiling(share / left) for left in range(arms, 1, -1)]  # (1)
    return np.maximum(np.array(lengths, dtype=np.int64), 1)


@attrs.define(eq=False, kw_only=True, slots=False)
class SuccessiveRejects(ArmPolicy):
    """Best-arm identification in a known number of rounds, on finite spaces: a baseline that knows no structure.

    Parameters
    ----------
    kernel
        Kernel that is not used; accepted so that all policies take one.
    horizon
        Number T of rounds, which is needed.

    Other parameters are those of `Policy`. A round costs O(n) for n arms.

    Raises
    ------
    ValueError
        If the space is not finite, or there is no horizon.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> arms = sb.Arms(3)
    >>> policy = sb.SuccessiveRejects(arms, horizon=60, noise=0.1, regularization=0.01)
    >>> _ = sb.simulate(policy, sb.TableEnvironment(arms, [0.0, 0.5, 1.0], sb.GaussianNoise(0.1)), 60)
    >>> policy.best().x, policy.surviving.tolist()
    (2, [2])
    """

    def __attrs_post_init__(self) -> None:
        if self.horizon is None:
            checks.refuse("horizon", None, "a number of rounds: the lengths of the phases depend on it")
        super().__attrs_post_init__()
        self._count = self._turns.left  # K
        self._lengths = phase_lengths(self._count, self.horizon)

    @property
    def surviving(self) -> Indices:
        """Numbers (k,) of the arms that have not been rejected, ascending."""
        return np.sort(self._turns.remaining())

    def choose(self, allowed: Mask | None = None) -> int:
        allowed = self.arms(allowed)
        least, plays = self._turns.least(allowed, self._pending.numbers)  # (2)
        if plays < REJECTED:
            return least
        return self.highest(self._arms.means, allowed, least)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        super().learn(candidate, y, noise_variance)
        failed = self._pending.excluded
        _, plays = self._turns.least(self.domain.without(failed, None) if failed else None)
        if plays >= REJECTED:
            return
        ended = int(np.searchsorted(self._lengths, plays, side="right"))  # phases with n_k <= plays
        if (count := ended - (self._count - self._turns.left)) > 0:
            arms = self._turns.remaining()
            averages = np.nan_to_num(self._arms.means[arms], nan=-np.inf)  # NaN: its evaluations failed
            self._turns.remove(arms[np.argsort(averages, kind="stable")[:count]])  # (3)

    def recommended(self) -> Indices:
        arms = self.surviving
        observed = arms[self._arms.weights[arms] > 0.0]
        return observed if len(observed) else super().recommended()  # (4)
