"""Continuous boxes."""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces.base import Bounds, FiniteSpace, Space, frozen_bounds
from scalable_bandits.spaces.finite import Grid, Points
from scalable_bandits.spaces.sobol import sobol


@attrs.frozen
class Box(Space):
    """Continuous box.

    Policies that maximise an index maximise it over the whole box. Others, and all policies with `candidates=`, choose
    from a finite set of candidates. Observations anywhere in the box can be told.

    Parameters
    ----------
    bounds
        Lower and upper ends (d, 2) of the dimensions, in units of x.

    Raises
    ------
    ValueError
        If a lower end is not below its upper end, or one is not finite.
    """

    bounds: Bounds = attrs.field(converter=frozen_bounds)

    @property
    def dimension(self) -> int:
        return len(self.bounds)

    @property
    def box(self) -> Floats:
        return np.array(self.bounds)

    def candidate_set(self, count: int, seed: int) -> FiniteSpace:
        return self.candidates(count, seed)

    def drawn(self, side: int) -> FiniteSpace:
        return Grid(self.bounds, side)

    def check(self, x: ArrayLike) -> Floats:
        points, _ = self.parse(x)
        low, high = np.array(self.bounds).T
        outside = ((points < low) | (points > high)).any(axis=1)
        if outside.any():
            checks.refuse("x", points[outside][0].tolist(), f"a point inside the bounds {self.bounds}")
        return points

    def candidates(self, count: int, seed: int = 0) -> Points:
        """Return points of a scrambled Sobol sequence, spread evenly over the box.

        Parameters
        ----------
        count
            Number of points; a power of two is spread best.
        seed
            Seed of the scrambling.

        Raises
        ------
        ValueError
            If the count is not a positive integer, or the seed is negative.
        """
        unit = sobol(self.dimension, checks.integer("count", count, 1), checks.integer("seed", seed, 0))
        low, high = np.array(self.bounds).T
        return Points(np.clip(low + unit * (high - low), low, high))
