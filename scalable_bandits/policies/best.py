"""Results that a policy returns: its recommendation and its observations."""

from __future__ import annotations

from typing import Any, NamedTuple

from scalable_bandits.checks import Floats


class Best(NamedTuple):
    """Recommendation of a policy."""

    x: Any  # point (d,), or an arm number
    mean: float  # estimate of f at x, in units of y
    std: float  # standard deviation of the estimate, in units of y

    @property
    def value(self) -> float:
        """The mean, under the name that results have for it."""
        return self.mean


class Observations(NamedTuple):
    """Observations of a policy, averaged at each distinct point."""

    x: Floats  # (m, d) distinct points; for `Arms` (m, 1) arm numbers
    y: Floats  # (m,) precision-weighted averages, in units of y
    noise_variance: Floats  # (m,) in squared units of y, noise variances of the averages
