"""Maxima of an index over a regular grid with too many points to compute it at all of them.

The grid is searched as the settings of a space of whole numbers (`settings.py`), the numbers of the points along each
side. Along long sides there are also ascents between the points, which end at the nearest one.
"""

from __future__ import annotations

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.box.settings import Search
from scalable_bandits.posteriors.box.surface import SearchSurface, SmoothIndex
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Domain, FiniteSpace, Indices, Integer, Mask, SearchSpace
from scalable_bandits.spaces.parameters import FEW


class GridPoints:
    """Coordinates of the candidates of a grid by number, computed when they are asked for."""

    def __init__(self, domain: Domain):
        self._domain = domain

    def __len__(self) -> int:
        return self._domain.size

    def __getitem__(self, candidates: Indices) -> Floats:
        return self._domain.coordinates(candidates)


def top_of_grid(
    surface: SearchSurface, index: SmoothIndex, grid: FiniteSpace, near: Indices, allowed: Mask | None,
    key: tuple[int, int], scan: int,
) -> tuple[int, float]:  # fmt: skip
    """Find the candidate of largest index; return its number and its index.

    Parameters
    ----------
    surface
        Posterior.
    index
        Index of mean and variance.
    grid
        Regular grid.
    near
        Numbers (k,) of candidates, such as those observed; the search has more candidates near the best of them.
    allowed
        Mask (n,) of the candidates to choose from; None for all.
    key
        Seed of the search: the policy's seed and the round.
    scan
        Number of random candidates.
    """
    search = _GridSearch(surface, index, grid, allowed, generator(key[0], "grid", key[1]))
    found = search.run(search.steps(near), scan)
    return int(search.numbers(found.x[None])[0]), found.value


class _GridSearch(Search):
    """Search of a grid, whose points are numbers of steps along its sides."""

    def __init__(
        self, surface: SearchSurface, index: SmoothIndex, grid: FiniteSpace, allowed: Mask | None,
        rng: np.random.Generator,
    ):  # fmt: skip
        bounds, sides = grid.box, grid.lattice
        assert bounds is not None
        assert sides is not None
        self._sides, self._allowed = sides, allowed
        space = SearchSpace({f"x{k}": Integer(0, side - 1) for k, side in enumerate(sides)})
        super().__init__(_OnCube(surface, bounds, space.coordinates.parameters), index, space, rng)
        self._continuous = np.array(sides)[self._parameters] > FEW

    def steps(self, numbers: Indices) -> Floats:
        """Return the points (k, d), in steps, of candidates (k,)."""
        return np.stack(np.unravel_index(numbers, self._sides), axis=1).astype(np.float64)

    def numbers(self, steps: Floats) -> Indices:
        """Return the numbers (k,) of the candidates at points (k, d), in steps."""
        return np.ravel_multi_index(tuple(steps.astype(np.int64).T), self._sides).astype(np.int64, copy=False)

    def drawn(self, count: int) -> Floats:
        if self._allowed is None:
            return super().drawn(count)
        return self.steps(self.rng.choice(np.flatnonzero(self._allowed), count))

    def first_allowed(self, points: Floats, count: int) -> Indices:
        if self._allowed is None:
            return super().first_allowed(points, count)
        return np.flatnonzero(self._allowed[self.numbers(points)])[:count]


class _OnCube:
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

    def _at(self, u: Floats) -> Floats:
        x = np.tile(self._low, (len(u), 1))
        x[:, self._dimensions] += u * self._lengths
        return x

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        return self._surface.predict(self._at(x))

    def index(self, index: SmoothIndex, x: Floats) -> tuple[Floats, Floats]:
        found, gradient = self._surface.index(index, self._at(x))
        return found, gradient[:, self._dimensions] * self._lengths
