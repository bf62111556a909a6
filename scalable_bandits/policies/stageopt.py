"""StageOpt. Source: Sui, Zhuang, Burdick & Yue 2018, Algorithm 1.

    input: as SafeOpt, and epsilon or the number T_0 of rounds of the first stage, or both
    for t = 1, 2, ...:
        l_t, u_t = mu_{t-1} -+ beta_t s_{t-1}, w_t = u_t - l_t, S_t and G_t as in SafeOpt       (1)
        the first stage ends if t > T_0, or once max over G_t of w_t < epsilon                  (2)
        in the first stage play x_t = argmax of w_t(x) over G_t                                 (3)
        then play x_t = argmax of u_t(x) over S_t                                               (4)
        observe y_t, update mu_t and s_t                                                        (5)

S_t goes on growing in the second stage. Safety is that of SafeOpt. u_t in (4) is that of the objective. With
constraints, w_t in (2) and (3) is the largest of the limited outputs alone, and epsilon is in its units, those of
`safe.py`; without them one function is both objective and constraint.

Differs from the paper in: intervals and width as in SafeOpt, and L may be left out, as it has to be with constraints.
The objective may have a limit. Widths of several outputs are compared in the units of `safe.py`, not in their own. An
empty G_t does not end the first stage, since later observations may fill it; such a round plays (4), as does one in
which no available expander is as wide as epsilon given the pending points. In (2), w_t is that after an observation,
without pending points. (The authors' program plays the widest of the maximisers where G_t is empty, and has T_0 alone.)
How the paper has several constraints is from a summary.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies.safe import Intervals, SafePolicy
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.posteriors.state import StateEntry, number
from scalable_bandits.spaces import Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class StageOpt(SafePolicy):
    """Safe optimisation in two stages: enlarge the safe set, then play the largest upper confidence bound in it.

    Parameters
    ----------
    epsilon
        Width of a confidence interval, in units of y: the first stage ends for good when the widest expander is
        narrower. With constraints it is a share of the largest absolute value that the norm of an output allows. None:
        the stage ends after `stage` rounds alone.
    stage
        Number T_0 of rounds of the first stage; None: it ends by `epsilon` alone.

    Attributes
    ----------
    expanding : bool
        Whether the next round belongs to the first stage.

    Other parameters are those of `SafePolicy`, `GaussianProcessPolicy` and `Policy`.

    Raises
    ------
    ValueError
        If neither epsilon nor stage is given.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (number("_ended", bool),)  # read after `safe`, which brings it up to date

    epsilon: float | None = checks.optional_number(checks.positive)
    stage: int | None = checks.optional_count()
    _ended: bool = attrs.field(init=False, default=False, repr=False)  # by epsilon

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.epsilon is None and self.stage is None:
            checks.refuse("stage", None, "a number of rounds, or `epsilon`, or both: the first stage must end")

    @property
    def expanding(self) -> bool:
        """Whether the next round belongs to the first stage."""
        _ = self.safe  # brings `_ended` up to date
        return not self._ended and (self.stage is None or self.round <= self.stage)  # (2)

    def _certify(self) -> None:
        super()._certify()
        if self.epsilon is not None and not self._ended and (self.stage is None or self.rounds < self.stage):
            found, widths = self._widest(self._safe, self._ends(()))
            self._ended = 0.0 < float(widths[found].max(initial=0.0)) < self.epsilon  # (2)

    def _widest(self, among: Mask, now: Intervals) -> tuple[Mask, Floats]:
        """Return the mask (n,) of expanders, with the widest of some safe candidates, and w_t (n,)."""
        widths = self._widths_at(now, self._limited)
        return self._widest_expanders(among, now, widths), widths

    def choose(self, allowed: Mask | None = None) -> int:
        among = self._safe_among(allowed)  # (1)
        now = self._ends(self._pending.numbers)
        if self.expanding:
            found, widths = self._widest(among, now)
            if found.any() and widths[found].max() >= (self.epsilon or 0.0):
                return choose(widths, self._salt, found)[0]  # (3)
        return choose(now.upper[0], self._salt, among)[0]  # (4)
