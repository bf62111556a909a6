"""Posteriors of the cells of a grid of which only visited points have numbers.

The candidates of a cell are a grid themselves. The index is computed at all of them if they are few, and its maximum
searched for if they are many (`box/lattice.py`).
"""

from __future__ import annotations

import math

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.box.lattice import top_of_grid
from scalable_bandits.posteriors.box.maximization import Top
from scalable_bandits.posteriors.box.settings import Effort
from scalable_bandits.posteriors.box.surface import SearchSurface, SmoothIndex
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.posteriors.partition.box_cells import BoxCells
from scalable_bandits.posteriors.partition.cell import Cell
from scalable_bandits.posteriors.partition.cover import VisitedGridCover
from scalable_bandits.posteriors.partition.empty_cubes import EmptyCubes
from scalable_bandits.spaces import Grid

MOST_ENUMERATED = 1024  # number of candidates up to which the index of a cell is computed at all of them
SCAN = 128  # number of random candidates with which a search begins
CLIMBS = Effort(starts=2, gain=1e-4)


class GridCells(BoxCells):
    """Posteriors of cells of a grid of which only visited points have numbers; see `BoxCells` for the parameters."""

    cover: VisitedGridCover  # type: ignore[assignment]  # it has no `searched`, which `_search` here does not use

    def _search(self, cell: Cell, surface: SearchSurface, index: SmoothIndex, near: Floats) -> Top:
        grid, (first, last) = self.cover.space, self.cover.ends(cell.divisions, cell.place)
        sides = last - first + 1
        if (count := math.prod(sides.tolist())) <= min(self._enumerated, MOST_ENUMERATED):
            steps, several = np.tile(first, (count, 1)), sides > 1  # few of the sides: numpy has at most 64 axes
            steps[:, several] += np.indices(tuple(sides[several].tolist())).reshape(several.sum(), count).T
            points = grid.at(steps)
            values = index(*surface.predict(points))
            chosen, largest = choose(values, self._seed)
            return Top(points[chosen].copy(), largest, len(points))
        low, high = grid.at(np.stack([first, last]))
        high = np.where(sides > 1, high, low + 1.0)  # a single point is at the lower end
        inside = Grid(np.stack([low, high], axis=-1).tolist(), tuple(sides.tolist()))
        top = top_of_grid(surface, index, inside, near, (self._seed, cell.seeded_hash), SCAN, effort=CLIMBS)
        return top._replace(x=grid.at(first + inside.steps(top.x[None]))[0])

    def tied_maximizer(self, group: EmptyCubes) -> Floats:
        assert group.place is not None
        first, last = self.cover.ends(group.divisions, group.place)
        return self.cover.space.at(self._generator(group).integers(first, last + 1)[None])[0]
