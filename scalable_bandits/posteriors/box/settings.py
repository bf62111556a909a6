"""Maxima of an index, or of a sample path, over the settings of a space of named parameters.

    scan:    index at random settings, at the settings `near`, and at the neighbours of the best of those
    starts:  the settings of largest index that fulfil the space's `where`
    climb:   from each, the best neighbour (one parameter changed), or of a grid the best of several neighbours'
             changes at once, as long as that is better, in turn with the ascent of `maximization` in the
             continuous parameters

Nothing is enumerated. The index is computed first, and `where`, which may be slow, asked in its order only until
settings enough are allowed. The result depends only on the posterior, the space, the settings `near` and the seed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.box.maximization import Top, climb, promising
from scalable_bandits.posteriors.box.surface import SearchSurface, SmoothIndex
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Indices, SearchSpace

STEPS = 10  # largest number of evaluations in an ascent of the continuous parameters
MOST_MOVES = 50  # largest number of changes of one parameter in a climb
CLOSELY = 32  # number of settings of largest index that may all be starts; of the next 64 every second one, and so on


class Effort(NamedTuple):
    """Climbs of a search."""

    starts: int = 5  # number of climbs
    gain: float = 1e-9  # relative gain below which a climb has ended


EFFORT = Effort()


def top_of_settings(
    surface: SearchSurface, index: SmoothIndex, space: SearchSpace, near: Floats, key: tuple[int, int],
    scan: int = 2048, without: Floats | None = None, fixed: Floats | None = None,
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
    without
        Points (k, p) of settings that are not chosen unless the search finds no other.
    fixed
        Numbers (p,) of the parameters, NaN where one is free; None if all are.
    """
    top = Search(surface, index, space, generator(key[0], "settings", key[1]), without, fixed).run(near, scan)
    if not top.value > -np.inf and without is not None:  # all settings are among those
        return top_of_settings(surface, index, space, near, key, scan, fixed=fixed)
    return top


def _thinned(count: int) -> Indices:
    """Return the numbers below `count` in the order in which they are looked at: ever larger steps, then the others.

    The settings of largest index are often all beyond a constraint.
    """
    numbers = np.arange(count)
    first = numbers % 2 ** np.log2(numbers // CLOSELY + 1).astype(np.int64) == 0
    return np.concatenate([numbers[first], numbers[~first]])


class Search:
    """One search, which counts the settings at which it computed the index."""

    def __init__(
        self, surface: SearchSurface, index: SmoothIndex, space: SearchSpace, rng: np.random.Generator,
        without: Floats | None = None, fixed: Floats | None = None,
    ):  # fmt: skip
        self.surface, self.index, self.space, self.rng = surface, index, space, rng
        self.fixed = fixed  # (p,), NaN where a parameter is free
        self.free = np.ones(space.dimension, dtype=np.bool_) if fixed is None else np.isnan(fixed)
        self._without = set(() if without is None else map(np.ndarray.tobytes, without))
        self.evaluations = 0
        self._parameters, self._continuous = space.coordinates.parameters, space.coordinates.continuous

    def run(self, near: Floats, scan: int, effort: Effort = EFFORT) -> Top:
        best = near[promising(self.surface, self.index, self.coordinates(near))]
        around = best[:0]
        for point in best:  # in many dimensions those of the first have neighbours enough
            if len(around) < scan:
                around = np.concatenate([around, self.neighbours(point)])
        points = np.concatenate([best, self.drawn(scan), around])
        first: dict[bytes, int] = {}
        for i, point in enumerate(points):
            first.setdefault(point.tobytes(), i)
        points = points[list(first.values())]
        values = self._values(points)
        order = np.argsort(-values, kind="stable")[_thinned(len(values))]
        starts = order[self.first_allowed(points[order], effort.starts)]
        if not len(starts):  # `where` is true at hardly any setting
            points = self.space.draw(1, self.rng, self.fixed)
            values, starts = self._values(points), np.zeros(1, dtype=np.int64)
        ends, reached = self._climb(points[starts], values[starts], effort.gain)
        best_end = int(np.argmax(reached))
        return Top(ends[best_end], float(reached[best_end]), self.evaluations)

    def neighbours(self, point: Floats) -> Floats:
        """Return points (k, p) that differ from a point (p,) in the value of one parameter."""
        points = self.space.neighbours(point, self.rng)
        return points if self.fixed is None else points[(points == self.space.within(points, self.fixed)).all(axis=1)]

    def joined(self, point: Floats, neighbours: Floats) -> Floats:
        """Return points (j, p) with the changes of several neighbours (k, p), of which the first are the best."""
        return neighbours[:0]

    def coordinates(self, points: Floats) -> Floats:
        """Return the coordinates (k, D) at which the model sees points (k, p)."""
        return self.space.encode(points)

    def drawn(self, count: int) -> Floats:
        """Draw points (count, p), in general also some where `where` is false."""
        return self.space.within(self.space.spread(self.rng.random((count, self.space.dimension))), self.fixed)

    def first_allowed(self, points: Floats, count: int) -> Indices:
        """Return the positions of the first allowed ones of points (k, p), at most `count`."""
        return self.space.first_fulfilled(points, count)

    def _values(self, points: Floats) -> Floats:
        self.evaluations += len(points)
        values = self.index(*self.surface.predict(self.coordinates(points)))
        if self._without:
            values[[point.tobytes() in self._without for point in points]] = -np.inf
        return values

    def _climb(self, points: Floats, values: Floats, least: float) -> tuple[Floats, Floats]:
        """Climb from points (k, p) with indices (k,), a step of all at a time; return the ends and their indices.

        A climb ends where its relative gain is below `least`.
        """
        left = np.arange(len(points))
        for _ in range(MOST_MOVES):
            before = values.copy()
            points[left], values[left] = self._slide(points[left], values[left])
            around = [self.neighbours(points[i]) for i in left]
            found = np.split(self._values(np.concatenate(around)), np.cumsum([len(each) for each in around])[:-1])
            for i, neighbours, indices in zip(left, around, found, strict=True):
                order = np.argsort(-indices, kind="stable")
                order = order[indices[order] > values[i]]
                changed, reached = neighbours[order], indices[order]
                if len(joined := self.joined(points[i], changed)):
                    changed, reached = np.concatenate([joined, changed]), np.append(self._values(joined), reached)
                    order = np.argsort(-reached, kind="stable")
                    changed, reached = changed[order], reached[order]
                for best in self.first_allowed(changed, 1):
                    points[i], values[i] = changed[best], reached[best]
            gain = least * np.maximum(1.0, np.abs(np.where(np.isfinite(before), before, 0.0)))
            left = left[values[left] > before[left] + gain[left]]
            if not len(left):
                break
        return points, values

    def _slide(self, points: Floats, values: Floats) -> tuple[Floats, Floats]:
        """Ascend from points (k, p) with indices (k,) in the continuous parameters that exist there."""
        continuous = np.flatnonzero(self._continuous)
        columns = self._parameters[continuous]
        free = self.space.active(points)[:, columns] & self.free[columns]
        if not free.any():
            return points, values
        base = self.coordinates(points)

        def evaluate(u: Floats, rows: Indices) -> tuple[Floats, Floats]:
            at = base[rows]
            at[:, continuous] = u
            found, gradient = self.surface.index(self.index, at)
            return found, gradient[:, continuous] * free[rows]

        ends, _, _, used = climb(evaluate, base[:, continuous], STEPS)
        self.evaluations += used
        moved = base.copy()
        moved[:, continuous] = ends
        changed = points.copy()
        changed[:, columns] = np.where(free, self.space.decode(moved)[:, columns], points[:, columns])
        reached = self._values(changed)
        rows = np.flatnonzero(reached > values)
        rows = rows[self.first_allowed(changed[rows], len(rows))]
        points[rows], values[rows] = changed[rows], reached[rows]
        return points, values
