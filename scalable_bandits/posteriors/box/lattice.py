"""Maxima of an index over a regular grid with too many points to compute it at all of them.

The grid is searched as the settings of a space of whole numbers (`settings.py`), the numbers of the points along each
side. Along long sides there are also ascents between the points, which end at the nearest one.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.box.maximization import Top
from scalable_bandits.posteriors.box.settings import EFFORT, Effort, Search
from scalable_bandits.posteriors.box.slice import OnCube
from scalable_bandits.posteriors.box.surface import SearchSurface, SmoothIndex
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Domain, Grid, Indices, Integer, Mask, SearchSpace
from scalable_bandits.spaces.parameters import FEW

# Search of an index among points that have more than an eighth as many neighbours as there are random points: what it
# finds in 30 to 100 dimensions is .0003 of the maximum below what five climbs to 1e-9 find, in a fifth of their time.
CROWDED, MANY = Effort(starts=2, gain=1e-4), 8
POWERS = tuple(2**k for k in range(1, 63))  # numbers of sides along which a climb changes its point at once


class GridPoints:
    """Coordinates of the numbered points of a grid or a pool, computed or read when they are asked for."""

    def __init__(self, domain: Domain):
        self._domain = domain

    def __len__(self) -> int:
        return self._domain.size

    def __getitem__(self, candidates: Indices) -> Floats:
        return self._domain.coordinates(candidates)


def top_of_grid(
    surface: SearchSurface, index: SmoothIndex, grid: Grid, near: Floats, key: tuple[int, int], scan: int,
    allowed: Mask | None = None, without: Floats | None = None, effort: Effort | None = None,
    fixed: Floats | None = None,
) -> Top:  # fmt: skip
    """Find the candidate of largest index.

    Parameters
    ----------
    surface
        Posterior, or sample path.
    index
        Index of mean and variance.
    grid
        Grid that is searched.
    near
        Candidates (k, d), such as those observed; the search has more candidates near the best of them.
    key
        Seed of the search: the policy's seed and the round.
    scan
        Number of random candidates.
    allowed
        Mask (n,) of the candidates to choose from, if these are numbered; None for all.
    without
        Candidates (k, d) that are not chosen unless the search finds no other.
    effort
        Number and precision of the climbs; None: those for an index, fewer where points have many neighbours.
    fixed
        Coordinates (d,) of the candidates to choose from, NaN where one is free; None if all are.
    """
    steps = None if without is None else grid.steps(without).astype(np.float64)
    held = None
    if fixed is not None:
        held = np.where(np.isnan(fixed), np.nan, grid.steps(grid.within(grid.box[None, :, 0], fixed))[0])
    search = _GridSearch(surface, index, grid, allowed, generator(key[0], "grid", key[1]), steps, held)
    if effort is None:
        effort = CROWDED if MANY * search.line_points > scan else EFFORT
    top = search.run(grid.steps(near).astype(np.float64), scan, effort)
    if not top.value > -np.inf and without is not None:  # all candidates are among those
        return top_of_grid(surface, index, grid, near, key, scan, allowed, effort=effort, fixed=fixed)
    return top._replace(x=grid.at(top.x[None].astype(np.int64))[0])


class _GridSearch(Search):
    """Search of a grid, whose points are numbers of steps along its sides."""

    def __init__(
        self, surface: SearchSurface, index: SmoothIndex, grid: Grid, allowed: Mask | None, rng: np.random.Generator,
        without: Floats | None, fixed: Floats | None,
    ):  # fmt: skip
        self._grid, self._allowed = grid, allowed
        space = SearchSpace({f"x{k}": _steps(side) for k, side in enumerate(grid.sides)})
        super().__init__(OnCube(surface, grid.box, space.coordinates.parameters), index, space, rng, without, fixed)
        sides = np.array(grid.sides)
        self._continuous = sides[self._parameters] > FEW
        self._last = np.maximum(sides[self._parameters] - 1.0, 1.0)
        # Of short sides: every point of a line through a point, as the side and the number of steps along it.
        self._lines = None if self._continuous.any() else (np.repeat(np.arange(len(sides)), sides), _counts(sides))

    @property
    def line_points(self) -> int:
        """Number of points on the lines through a point that are looked at whole; 0 on long sides."""
        return 0 if self._lines is None else len(self._lines[0])

    def neighbours(self, point: Floats) -> Floats:
        if self._lines is None:
            return super().neighbours(point)
        along, steps = self._lines  # the same points, all at once
        others = (steps != point[along]) & self.free[along]
        points = np.repeat(point[None], others.sum(), axis=0)
        points[np.arange(len(points)), along[others]] = steps[others]
        return points

    def joined(self, point: Floats, neighbours: Floats) -> Floats:
        changed = (neighbours != point).argmax(axis=1)
        first = np.sort(np.unique(changed, return_index=True)[1])  # the best change of each side, best sides first
        sides, steps = changed[first], neighbours[first, changed[first]]
        counts = [*itertools.takewhile(len(sides).__gt__, POWERS), len(sides)] if len(sides) > 1 else []
        found = np.repeat(point[None], len(counts), axis=0)
        for row, count in zip(found, counts, strict=True):
            row[sides[:count]] = steps[:count]
        return found

    def coordinates(self, points: Floats) -> Floats:
        return points[:, self._parameters] / self._last

    def drawn(self, count: int) -> Floats:
        if self._allowed is None:
            return super().drawn(count)
        numbers = self.rng.choice(np.flatnonzero(self._allowed), count)
        return np.stack(np.unravel_index(numbers, self._grid.sides), axis=1).astype(np.float64)

    def first_allowed(self, points: Floats, count: int) -> Indices:
        if self._allowed is None:
            return super().first_allowed(points, count)
        numbers = np.ravel_multi_index(tuple(points.astype(np.int64).T), self._grid.sides)
        return np.flatnonzero(self._allowed[numbers])[:count]


@functools.cache
def _steps(side: int) -> Integer:
    return Integer(0, side - 1)


def _counts(sides: Indices) -> Indices:
    """Return the numbers of steps from 0 along each side, one side after the other."""
    return np.arange(sides.sum()) - np.repeat(sides.cumsum() - sides, sides)
