"""A posterior on a unit cube that spans some of the coordinates of a box, whose others are fixed."""

from __future__ import annotations

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.box.surface import SearchSurface, SmoothIndex
from scalable_bandits.spaces import Indices


class OnCube:
    """Posterior at points (k, D) of the unit cube, which spans the bounds of some of the coordinates.

    Parameters
    ----------
    surface
        Posterior on the bounds.
    bounds
        Bounds (d, 2), in units of x.
    dimensions
        Numbers (D,) of the coordinates that the cube spans; the others are at their lower ends.
    """

    def __init__(self, surface: SearchSurface, bounds: Floats, dimensions: Indices):
        self._surface, self._low, self._dimensions = surface, bounds[:, 0], dimensions
        self._lengths = (bounds[:, 1] - bounds[:, 0])[dimensions]

    def at(self, u: Floats) -> Floats:
        """Return the points (k, d) at points (k, D) of the cube."""
        along = u * self._lengths  # added to in place: of thousands of points in many dimensions, memory sets the time
        if len(self._dimensions) == len(self._low):
            along += self._low
            return along
        x = np.tile(self._low, (len(u), 1))
        x[:, self._dimensions] += along
        return x

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance, or a path and zeros, at points x (k, D) of the cube."""
        return self._surface.predict(self.at(x))

    def index(self, index: SmoothIndex, x: Floats) -> tuple[Floats, Floats]:
        """Return an index at points x (k, D) of the cube, shape (k,), and its gradient (k, D)."""
        found, gradient = self._surface.index(index, self.at(x))
        return found, gradient[:, self._dimensions] * self._lengths
