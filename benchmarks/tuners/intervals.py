"""Parameters as other packages' tuners see them: intervals, and lists of numbers or strings.

No other module of the package is imported here, nor any that has to be installed: peers are played in environments of
their own, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

Setting = dict[str, Any]
Parameter = tuple[Any, ...] | list[Any]  # an interval; or ordered numbers, or categories, which are strings
Parameters = Mapping[str, Parameter]


class Interval(NamedTuple):
    """Numbers between two ends, both included. A plain tuple (low, high) stands for one of real numbers."""

    low: float
    high: float
    log: bool = False  # whether ratios matter, not differences
    whole: bool = False  # whether only whole numbers are allowed

    def at(self, u: float) -> float:
        """Return the number at a place from 0 to 1 on the interval's scale, for whole numbers the nearest."""
        found = self._between(u, self.low, self.high)
        return min(max(round(found), int(self.low)), int(self.high)) if self.whole else found

    def spread(self, u: float) -> float:
        """Return a number that is uniform on the interval's scale, from a uniform number in [0, 1)."""
        if not self.whole:
            return self.at(u)
        found = round(self._between(u, self.low - 0.5, self.high + 0.5))
        return min(max(found, int(self.low)), int(self.high))

    def place(self, value: float) -> float:
        """Return the place of a number, from 0 to 1 on the interval's scale."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def _between(self, u: float, low: float, high: float) -> float:
        found = low * math.exp(u * math.log(high / low)) if self.log else low + u * (high - low)
        return min(max(found, low), high)  # rounding may lead out of it


def is_ordered(values: list[Any]) -> bool:
    """Whether the values of a list are numbers, whose order means something."""
    return not isinstance(values[0], str)
