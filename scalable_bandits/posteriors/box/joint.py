"""Posteriors of several outputs as one surface, whose means and variances have a row for each output."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.box.surface import SearchSurface, SmoothIndex


@attrs.frozen
class _Slopes:
    """Derivatives of an index in the mean and the variance of one output, at points where they are known."""

    by_mean: Floats  # (k,)
    by_variance: Floats  # (k,)

    def __call__(self, mean: Floats, variance: Floats) -> Floats:
        return mean

    def slopes(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        return self.by_mean, self.by_variance


class JointSurface:
    """Independent posteriors of p outputs at any x, for an index of all of them.

    Parameters
    ----------
    surfaces
        Posteriors, one for each output, in the order in which the index has them.
    """

    def __init__(self, surfaces: Sequence[SearchSurface]):
        self._surfaces = surfaces

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Return means and variances at points x (k, d): two (p, k) arrays."""
        found = [surface.predict(x) for surface in self._surfaces]
        return np.stack([mean for mean, _ in found]), np.stack([variance for _, variance in found])

    def index(self, index: SmoothIndex, x: Floats) -> tuple[Floats, Floats]:
        """Return an index of all outputs at points x (k, d), shape (k,), and its gradient (k, d)."""
        means, variances = self.predict(x)
        gradient = np.zeros(x.shape)
        for surface, by_mean, by_variance in zip(self._surfaces, *index.slopes(means, variances), strict=True):
            gradient += surface.index(_Slopes(by_mean, by_variance), x)[1]
        return index(means, variances), gradient
