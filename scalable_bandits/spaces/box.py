"""Continuous boxes."""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.randomness import derived_seed
from scalable_bandits.spaces.base import Space
from scalable_bandits.spaces.listed import Points


def frozen_bounds(value: ArrayLike) -> tuple[tuple[float, float], ...]:
    """Converter: a lower and an upper end for each dimension."""
    array = checks.finite("bounds", value)
    if array.ndim != 2 or array.shape[1] != 2 or not array.size or (array[:, 0] >= array[:, 1]).any():
        checks.refuse("bounds", value, "(d, 2): a lower and a larger upper end for each dimension")
    return tuple((low, high) for low, high in array.tolist())


@attrs.frozen
class Box(Space):
    """A continuous box.

    Policies that maximise an index maximise it over the whole box; others, and all if asked to (`candidates=`), play a
    box through a set of candidates. Observations anywhere in the box are welcome.

    Parameters
    ----------
    bounds
        (d, 2), lower and upper end of each dimension, in units of x.

    Raises
    ------
    ValueError
        If a lower end is not below its upper end, or one is not finite.
    """

    bounds: tuple[tuple[float, float], ...] = attrs.field(converter=frozen_bounds)

    @property
    def dimension(self) -> int:
        return len(self.bounds)

    def check(self, x: ArrayLike) -> Floats:
        """Points (k, d) inside the box; ValueError for one outside."""
        points, _ = self.parse(x)
        low, high = np.array(self.bounds).T
        outside = ((points < low) | (points > high)).any(axis=1)
        if outside.any():
            checks.refuse("x", points[outside][0].tolist(), f"a point inside the bounds {self.bounds}")
        return points

    def candidates(self, count: int, seed: int = 0) -> Points:
        """Points of a scrambled Sobol sequence, spread evenly over the box.

        Source: Owen 1998 (scrambling), by `scipy.stats.qmc`.

        Parameters
        ----------
        count
            How many; a power of two is spread best.
        seed
            Of the scrambling.

        Raises
        ------
        ValueError
            If the count is not a positive whole number, or the seed negative.
        """
        from scipy.stats import qmc

        count, seed = checks.integer("count", count, 1), checks.integer("seed", seed, 0)
        rng = np.random.default_rng(derived_seed(seed, "candidates"))  # Sobol spawns from it: Philox by key cannot
        sobol = qmc.Sobol(self.dimension, scramble=True, rng=rng)
        unit = sobol.random_base2(max(0, int(np.ceil(np.log2(count)))))[:count]
        low, high = np.array(self.bounds).T
        return Points(np.clip(low + unit * (high - low), low, high))
