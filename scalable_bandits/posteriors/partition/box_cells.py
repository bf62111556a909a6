"""Posteriors of the cells of a box; the index of a cell is maximised over its whole cube.

With successive tightening a cell's index is the least of its own index and those that its ancestors, its parent and the
parent's ancestors, had when they split. The indices are functions of x, kept as posteriors with widths. In many
dimensions the bound is one number, the largest index that the parent had.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.maximization import Sizes, Top, maximize_over_box, promising
from scalable_bandits.posteriors.box.surface import SearchSurface, SmoothIndex, Surface, constant_mean
from scalable_bandits.posteriors.partition.argmax_tree import ArgmaxTree
from scalable_bandits.posteriors.partition.cell import NO_PARENT_INDEX, Cell
from scalable_bandits.posteriors.partition.cell_posteriors import CellPosteriors
from scalable_bandits.posteriors.partition.cover import BoxCover
from scalable_bandits.posteriors.partition.empty_cubes import EmptyCubes
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.randomness import derived_seed, generator

SCAN = 256  # number of Sobol points in a cube
STARTS = 6  # number of points from which the index is climbed


class Least:
    """Least of several indices, with the interface of a posterior: the index is the mean, the variance is zero.

    Parameters
    ----------
    indices
        Posteriors, each with its index.
    """

    def __init__(self, indices: Sequence[tuple[Surface, SmoothIndex]]):
        self._indices = indices

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the index at points x (k, d), and zeros: two (k,) arrays."""
        values = np.min([index(*surface.predict(x)) for surface, index in self._indices], axis=0)
        return values, np.zeros(len(x))

    def index(self, index: SmoothIndex, x: Floats) -> tuple[Floats, Floats]:
        """Return the index (k,) at points x (k, d), and the gradients (k, d) of the indices that are least there."""
        pairs = [surface.index(own, x) for surface, own in self._indices]
        values, slopes = np.array([value for value, _ in pairs]), np.array([slope for _, slope in pairs])
        least = values.argmin(axis=0)
        here = np.arange(len(x))
        return values[least, here], slopes[least, here]


class CubeIndex(NamedTuple):
    """Index of the cells of a box or a large grid, and how it is maximised."""

    upper: Callable[[float], SmoothIndex]  # from a width to the index mean + width std
    tightening: bool  # whether the index of a cell is bounded by those of its ancestors
    noise_variance: float  # noise variance of pending values, in squared units of y
    seed: int  # seed of the points at which the index is computed first
    enumerated: int  # number of candidates of a cell up to which none is left out


class BoxCells(CellPosteriors[BoxEngine]):
    """Posteriors of cells of a box.

    Parameters
    ----------
    index
        Index of the cells.

    See `CellPosteriors` for the other parameters.
    """

    cover: BoxCover

    def __init__(
        self, kernel: Kernel, prior_mean: float, index: CubeIndex, cover: BoxCover, log: ObservationLog,
        tree: ArgmaxTree,
    ):  # fmt: skip
        corner = cover.bounds(1, (0,) * cover.dimension)[0]
        super().__init__(kernel, prior_mean, math.sqrt(kernel.diagonal(corner[None])[0]), cover, log, tree)
        self._upper, tightening, self._noise, self._seed, self._enumerated = index
        self.needs_ancestors = tightening and cover.lists_cubes  # else one number is the bound
        self._largest_std = self.prior_std if kernel.stationary else math.inf
        self._last_index: dict[int, tuple[Surface, SmoothIndex]] = {}  # index of each cell that split, by its number

    def build(self, cell: Cell) -> tuple[BoxEngine, float]:
        engine = self._engine(cell.data)
        return engine, engine.information_gain

    def _engine(self, data: Sequence[int]) -> BoxEngine:
        engine = BoxEngine(self.kernel, self.cover.dimension, constant_mean(self.prior_mean))
        engine.points = self.cover.points(None)
        for i in data:
            engine.observe(*self.log.at(i))
        return engine

    def observe(self, cell: Cell, candidate: int, y: float, noise_variance: float, log_term: float | None) -> None:
        engine = self.posterior(cell)
        before = engine.nbytes
        engine.points = self.cover.points(None)
        engine.observe(candidate, y, noise_variance)
        cell.gain = engine.information_gain
        self._bytes += engine.nbytes - before
        cell.maximizer = None
        self.tree.set_unknown(cell)  # it is computed when it is needed, at the width of that round

    def evaluate(self, cell: Cell, log_term: float) -> None:
        surface, index = self._own_index(cell, log_term)
        ancestors, width = self._ancestor_indices(cell), self.tree.width(cell.gain, log_term)
        top, cap = self._top(cell, surface, index, ancestors), cell.parent_index.min(initial=math.inf)
        cell.maximizer = top.x
        if ancestors:
            self.tree.set_maximum(cell, top.value, 0.0, width, self._largest_std)
        elif top.value >= cap:  # as at all larger widths, where the index is largest at other points
            cell.maximizer = None
            self.tree.set_maximum(cell, cap, 0.0, math.inf, 0.0)
        else:
            mean, variance = surface.predict(top.x[None])
            self.tree.set_maximum(cell, float(mean[0]), math.sqrt(variance[0]), width, self._largest_std)

    def maximizer(self, cell: Cell, log_term: float) -> Floats:
        return self._top(cell, *self._own_index(cell, log_term), []).x

    def _own_index(self, cell: Cell, log_term: float) -> tuple[Surface, SmoothIndex]:
        """Return posterior and index of a cell, given its pending points too."""
        pending = self.cover.points(np.array(self.pending.get(cell.number, ()), dtype=np.int64))
        surface = self.posterior(cell).surface(pending, self._noise)
        return surface, self._upper(self.tree.width(cell.gain, log_term))

    def _top(
        self, cell: Cell, surface: Surface, index: SmoothIndex, ancestors: list[tuple[Surface, SmoothIndex]]
    ) -> Top:
        """Find the maximum of a cell's index, the least of its own and those of ancestors."""
        searched = Least([(surface, index), *ancestors]) if ancestors else surface
        maximised = self._upper(0.0) if ancestors else index  # the mean of `Least` is the index
        observed = self.cover.points(np.array(self.posterior(cell).observed, dtype=np.int64))
        near = observed[promising(surface, index, observed)]
        top = self._search(cell, searched, maximised, near)
        self.evaluations += top.evaluations
        return top

    def _search(self, cell: Cell, surface: SearchSurface, index: SmoothIndex, near: Floats) -> Top:
        """Find the maximum of an index in a cell; `near` (k, d) are points of large index or mean."""
        starts = 3 * STARTS if isinstance(surface, Least) else STARTS  # it has ridges, where a climb may end
        bounds = self.cover.searched(cell.divisions, cell.place)
        return maximize_over_box(surface, index, bounds, self._seed, near, Sizes(SCAN, starts))

    def _ancestor_indices(self, cell: Cell) -> list[tuple[Surface, SmoothIndex]]:
        """Return the indices that a cell's ancestors had when they split; an empty list without tightening."""
        indices = []
        ancestor = cell.parent if self.needs_ancestors else None
        while ancestor is not None:
            if ancestor.number not in self._last_index:  # it split before the state was restored
                observed = self.log.candidates[: ancestor.split]
                inside = np.flatnonzero(self.cover.holds(ancestor.divisions, ancestor.place, observed)).tolist()
                self._last_index[ancestor.number] = self._engine(inside).surface(), self._upper(ancestor.width)
            indices.append(self._last_index[ancestor.number])
            ancestor = ancestor.parent
        return indices

    def last_index(self, cell: Cell, log_term: float) -> Floats:
        surface, index = self.posterior(cell).surface(), self._upper(self.tree.width(cell.gain, log_term))
        if self.needs_ancestors:
            self._last_index[cell.number] = surface, index
            return NO_PARENT_INDEX
        return np.minimum([self._top(cell, surface, index, []).value], cell.parent_index.min(initial=math.inf))

    def tied_maximizer(self, group: EmptyCubes) -> Floats:
        assert group.place is not None
        low, high = self.cover.bounds(group.divisions, group.place)
        return low + (high - low) * self._generator(group).random(len(low))

    def _generator(self, group: EmptyCubes) -> np.random.Generator:
        """Return the generator that draws a point of the first cube of a group."""
        return generator(derived_seed(self._seed, group.seeded_hash), "anywhere")

    def best(self, cell: Cell) -> tuple[float, int, float]:
        engine = self.posterior(cell)
        candidates = np.array(engine.observed)
        mean, variance = engine.surface().predict(self.cover.points(candidates))
        p = int(np.argmax(mean))
        return float(mean[p]), int(candidates[p]), math.sqrt(variance[p])

    def clear(self) -> None:
        super().clear()
        self._last_index.clear()
