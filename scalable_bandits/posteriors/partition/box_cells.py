"""Posteriors of the cells of a box; the index of a cell is maximised over its whole cube.

With successive tightening a cell's index is the least of its own index and those that its ancestors, its parent and the
parent's ancestors, had when they split. The indices are functions of x, kept as posteriors with widths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.maximization import Sizes, maximize_over_box, promising
from scalable_bandits.posteriors.box.surface import SmoothIndex, Surface, constant_mean
from scalable_bandits.posteriors.partition.argmax_tree import ArgmaxTree
from scalable_bandits.posteriors.partition.cell import Cell
from scalable_bandits.posteriors.partition.cell_posteriors import CellPosteriors
from scalable_bandits.posteriors.partition.cover import BoxCover
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.randomness import derived_seed, generator
from scalable_bandits.spaces import Indices

SCAN = 256  # number of Sobol points in a cube
STARTS = 6  # number of points from which the index is climbed


class CubePosterior:
    """Posterior of a cell of a box.

    Parameters
    ----------
    engine
        Engine with the cell's observations.
    pending
        (q, d) pending points.
    noise_variance
        Noise variance of the pending values, in squared units of y.
    """

    def __init__(self, engine: BoxEngine, pending: Floats, noise_variance: float):
        self.engine, self._pending, self._noise = engine, pending, noise_variance

    @property
    def nbytes(self) -> int:
        """Approximate memory of the engine's factor, its matrix and their copies."""
        return 32 * max(64, 2 * len(self.engine.observed)) ** 2

    def surface(self) -> Surface:
        """Return the posterior as a function of x."""
        return self.engine.surface(self._pending, self._noise)


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
    """Index of the cells of a box, and how it is maximised."""

    upper: Callable[[float], SmoothIndex]  # from a width to the index mean + width std
    tightening: bool  # whether the index of a cell is bounded by those of its ancestors
    noise_variance: float  # noise variance of pending values, in squared units of y
    seed: int  # seed of the points at which the index is computed first


class BoxCells(CellPosteriors[CubePosterior]):
    """Posteriors of cells of a box.

    Parameters
    ----------
    points
        Function from the numbers (k,) of visited points to the points (k, d); from None to all of them.
    cover
        Cubes of the box.
    index
        Index of the cells.

    See `CellPosteriors` for the other parameters.
    """

    def __init__(
        self, points: Callable[[Indices | None], Floats], kernel: Kernel, prior_mean: float, cover: BoxCover,
        log: ObservationLog, tree: ArgmaxTree, index: CubeIndex,
    ):  # fmt: skip
        corner = cover.bounds(1, (0,) * cover.dimension)[0]
        super().__init__(kernel, prior_mean, math.sqrt(kernel.diagonal(corner[None])[0]), log, tree)
        self._points, self._cover = points, cover
        self._upper, self._tightening, self._noise, self._seed = index
        self.needs_ancestors = index.tightening
        self._last_index: dict[int, tuple[Surface, SmoothIndex]] = {}  # index of each cell that split, by its number

    def has_constant_index(self, cell: Cell) -> bool:
        return super().has_constant_index(cell) and not (self._tightening and cell.parent is not None)

    def build(self, cell: Cell, pending: Sequence[int] = ()) -> CubePosterior:
        points = self._points(np.array(pending, dtype=np.int64))
        return CubePosterior(self._engine(cell.data), points, self._noise)

    def _engine(self, data: Sequence[int]) -> BoxEngine:
        engine = BoxEngine(self.kernel, self._cover.dimension, constant_mean(self.prior_mean))
        engine.points = self._points(None)
        for i in data:
            engine.observe(*self._log.at(i))
        return engine

    def observe(self, cell: Cell, candidate: int, y: float, noise_variance: float, log_term: float | None) -> None:
        posterior = self.posterior(cell)
        before = posterior.nbytes
        posterior.engine.points = self._points(None)
        posterior.engine.observe(candidate, y, noise_variance)
        cell.gain = posterior.engine.information_gain
        self._bytes += posterior.nbytes - before
        cell.maximizer = None
        self._tree.set_unknown(cell)  # it is computed when it is needed, at the width of that round

    def evaluate(self, cell: Cell, posterior: CubePosterior, log_term: float) -> None:
        width = self._tree.width(cell.gain, log_term)
        surface, index = posterior.surface(), self._upper(width)
        bounds = np.stack(self._cover.bounds(cell.divisions, cell.place), axis=-1)
        ancestors = self._ancestor_indices(cell)
        searched = Least([(surface, index), *ancestors]) if ancestors else surface
        observed = self._points(np.array(posterior.engine.observed, dtype=np.int64))
        maximised = self._upper(0.0) if ancestors else index  # the mean of `Least` is the index
        near = observed[promising(surface, index, observed)]
        starts = 3 * STARTS if ancestors else STARTS  # the least of indices has ridges, where a climb may end
        top = maximize_over_box(searched, maximised, bounds, self._seed, near, Sizes(SCAN, starts))
        self.evaluations += top.evaluations
        cell.maximizer = top.x
        largest_std = self.prior_std if self.kernel.stationary else math.inf
        if ancestors:
            self._tree.set_maximum(cell, top.value, 0.0, width, largest_std)
        else:
            mean, variance = surface.predict(top.x[None])
            self._tree.set_maximum(cell, float(mean[0]), math.sqrt(variance[0]), width, largest_std)

    def _ancestor_indices(self, cell: Cell) -> list[tuple[Surface, SmoothIndex]]:
        """Return the indices that a cell's ancestors had when they split; an empty list without tightening."""
        indices = []
        ancestor = cell.parent if self._tightening else None
        while ancestor is not None:
            if ancestor.number not in self._last_index:  # it split before the state was restored
                numbers = range(ancestor.split)
                inside = [i for i in numbers if self._holds(ancestor, int(self._log.candidates[i]))]
                self._last_index[ancestor.number] = self._engine(inside).surface(), self._upper(ancestor.width)
            indices.append(self._last_index[ancestor.number])
            ancestor = ancestor.parent
        return indices

    def _holds(self, cell: Cell, candidate: int) -> bool:
        return cell.place in self._cover.places(cell.divisions, candidate)

    def divide(self, cell: Cell, children: Sequence[Cell], log_term: float | None) -> list[Cell]:
        if self._tightening:
            self._last_index[cell.number] = self.posterior(cell).surface(), self._upper(cell.width)
        for child in children:
            child.data = [i for i in cell.data if self._holds(child, int(self._log.candidates[i]))]
            if child.data:
                child.gain = self.build_and_keep(child)
        self.drop(cell)
        return list(children)

    def build_and_keep(self, cell: Cell) -> float:
        posterior = self.build(cell)
        self._keep(cell, posterior)
        return posterior.engine.information_gain

    def tied_maximizer(self, cell: Cell) -> Floats:
        low, high = self._cover.bounds(cell.divisions, cell.place)
        return low + (high - low) * generator(derived_seed(self._seed, cell.seeded_hash), "anywhere").random(len(low))

    def best(self, cell: Cell) -> tuple[float, int, float]:
        engine = self.posterior(cell).engine
        candidates = np.array(engine.observed)
        mean, variance = engine.surface().predict(self._points(candidates))
        p = int(np.argmax(mean))
        return float(mean[p]), int(candidates[p]), math.sqrt(variance[p])

    def clear(self) -> None:
        super().clear()
        self._last_index.clear()
