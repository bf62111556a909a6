"""Axes: the parameters of a space as tables and pictures show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats

MOST = 201  # largest number of values that an axis lists


class Axis(NamedTuple):
    """One parameter of a space, or one coordinate of its points.

    Numbers are those of points (k, d) of the space: values in the user's units or, where there are `labels`, positions.
    """

    name: str  # name of the parameter; "x0", "x1", ... for coordinates
    low: float  # smallest number
    high: float  # largest number
    log: bool = False  # whether ratios matter, not differences
    values: Floats | None = None  # (k,) numbers, all or `MOST` of them; None if all from low to high are possible
    labels: tuple[str, ...] | None = None  # (k,) names of the values, where these are not numbers
    ordered: bool = True  # whether numbers near each other are alike

    def places(self, numbers: Floats) -> Floats:
        """Return the places of numbers (...,) on the axis' scale, from 0 to 1; 0.5 if the axis has one number."""
        if self.low == self.high:
            return np.full(np.shape(numbers), 0.5)
        if self.log:
            return np.asarray(np.log(numbers / self.low) / np.log(self.high / self.low))
        return (numbers - self.low) / (self.high - self.low)

    def drawn(self, most: int) -> Floats:
        """Return the numbers (k,) at which to draw a function: the values, or `most` that are even on the scale."""
        if self.values is not None:
            return self.values
        even = np.geomspace if self.log else np.linspace
        return np.asarray(even(self.low, self.high, most))


def choice_axis(name: str, labels: Sequence[str], ordered: bool = False) -> Axis:
    """Return the axis of values that are no numbers: of positions with labels."""
    return Axis(name, 0.0, len(labels) - 1.0, False, np.arange(float(len(labels))), tuple(labels), ordered)
