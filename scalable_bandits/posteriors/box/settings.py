"""Maxima of an index, or of a sample path, over the settings of a space of named parameters.

    scan:    index at random settings, at the settings `near`, and at the neighbours of the best of those
    starts:  the settings of largest index
    climb:   from each, the best neighbour (one parameter changed) as long as that is better, in turn with L-BFGS-B on
             the continuous parameters (Byrd, Lu, Nocedal & Zhu 1995; scipy)

Nothing is enumerated, and every setting looked at fulfils the space's `where`. The result depends only on the
posterior, the space, the settings `near` and the seed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.box.maximization import Top
from scalable_bandits.posteriors.box.search import promising
from scalable_bandits.posteriors.box.surface import SearchSurface, SmoothIndex
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import SearchSpace

STARTS = 5  # number of climbs
MOST_MOVES = 50  # largest number of changes of one parameter in a climb
GAIN = 1e-9  # relative gain below which a climb has ended


def top_of_settings(
    surface: SearchSurface, index: SmoothIndex, space: SearchSpace, near: Floats, key: tuple[int, int], scan: int = 2048
) -> Top:  # fmt: skip
    """Find the setting of largest index.

    Parameters
    ----------
    surface
        Posterior, or sample path, on the coordinates that the model sees.
    index
        Index of mean and variance.
    space
        Space of the settings.
    near
        Points (k, p) of settings, such as those observed; the search has more settings near the best of them.
    key
        Seed of the search: the policy's seed and the round.
    scan
        Number of random settings.
    """
    return _Search(surface, index, space, generator(key[0], "settings", key[1])).run(near, scan)


class _Search:
    """One search, which counts the settings at which it computed the index."""

    def __init__(self, surface: SearchSurface, index: SmoothIndex, space: SearchSpace, rng: np.random.Generator):
        self.surface, self.index, self.space, self.rng = surface, index, space, rng
        self.evaluations = 0
        self._parameters, self._continuous = space.coordinates.parameters, space.coordinates.continuous

    def run(self, near: Floats, scan: int) -> Top:
        best = near[promising(self.surface, self.index, self.space.encode(near))]
        around = [self.space.neighbours(point, self.rng) for point in best]
        points = np.concatenate([best, self.space.draw(scan, self.rng), *around])
        points = points[np.sort(np.unique(points, axis=0, return_index=True)[1])]
        values = self._values(points)
        starts = np.argsort(-values, kind="stable")[:STARTS]
        ends, reached = self._climb(points[starts], values[starts])
        best_end = int(np.argmax(reached))
        return Top(ends[best_end], float(reached[best_end]), self.evaluations)

    def _values(self, points: Floats) -> Floats:
        self.evaluations += len(points)
        return self.index(*self.surface.predict(self.space.encode(points)))

    def _climb(self, points: Floats, values: Floats) -> tuple[Floats, Floats]:
        """Climb from points (k, p) with indices (k,), a step of all at a time; return the ends and their indices."""
        left = np.arange(len(points))
        for _ in range(MOST_MOVES):
            before = values.copy()
            for i in left:
                points[i], values[i] = self._slide(points[i], float(values[i]))
            around = [self.space.neighbours(points[i], self.rng) for i in left]
            found = np.split(self._values(np.concatenate(around)), np.cumsum([len(each) for each in around])[:-1])
            for i, neighbours, indices in zip(left, around, found, strict=True):
                if len(indices) and indices.max() > values[i]:
                    best = int(np.argmax(indices))
                    points[i], values[i] = neighbours[best], indices[best]
            left = left[values[left] > before[left] + GAIN * np.maximum(1.0, np.abs(before[left]))]
            if not len(left):
                break
        return points, values

    def _slide(self, point: Floats, value: float) -> tuple[Floats, float]:
        """Ascend in the continuous parameters that exist at a point."""
        free = self._continuous & self.space.active(point[None])[0, self._parameters]
        if not free.any():
            return point, value
        start = self.space.encode(point[None])[0]

        def descent(part: Floats) -> tuple[float, Floats]:
            self.evaluations += 1
            at = start.copy()
            at[free] = part
            found, gradient = self.surface.index(self.index, at[None])
            return -float(found[0]), -gradient[0, free]

        end = minimize(descent, start[free], jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * int(free.sum()))
        moved = start.copy()
        moved[free] = end.x
        changed = self._mixed(point, self.space.decode(moved[None])[0], free)
        if not self.space.fulfilled(changed[None])[0]:
            return point, value
        reached = float(self._values(changed[None])[0])
        return (changed, reached) if reached > value else (point, value)

    def _mixed(self, point: Floats, moved: Floats, free: NDArray[np.bool_]) -> Floats:
        """Return a point with the values of `moved` for the parameters of the free coordinates."""
        found = point.copy()
        found[self._parameters[free]] = moved[self._parameters[free]]
        return found
