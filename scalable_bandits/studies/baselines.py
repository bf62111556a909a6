"""Baselines of studies on measured data that learn nothing from the observations."""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies import RandomSearch
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.spaces import Mask


def _rows(value: ArrayLike) -> Floats:
    return checks.frozen(checks.finite("scores", value, ndim=2))


@attrs.define(eq=False, kw_only=True, slots=False)
class GivenScores(RandomSearch):
    """Policy that plays the candidate of largest given score, whatever is observed.

    Parameters
    ----------
    scores
        Scores (k, size) of the candidates, used in turn: round t has row (t - 1) mod k.

    Other parameters are those of `Policy`.

    Raises
    ------
    ValueError
        If a score is not finite, or there is not one for each candidate.
    """

    scores: Floats = attrs.field(converter=_rows, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not len(self.scores) or self.scores.shape[1] != self.domain.choosable:
            checks.refuse("scores", f"shape {self.scores.shape}", f"(k, {self.domain.choosable}), k at least 1")

    def choose(self, allowed: Mask | None = None) -> int:
        row = np.asarray(self.scores[(self.round - 1) % len(self.scores)])
        return choose(row, self._salt, allowed)[0]
