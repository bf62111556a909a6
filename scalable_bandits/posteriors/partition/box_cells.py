"""Posteriors of the cells of a box; the index of a cell is maximised over its whole cube.

With successive tightening a cell's index is the least of its own and those that the cells it came from had when they
split. These are functions of x, stored as posteriors with widths.
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
from scalable_bandits.posteriors.partition.cover import BoxCover
from scalable_bandits.posteriors.partition.finite_cells import Shard
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.randomness import derived_seed, generator
from scalable_bandits.spaces import Indices

SCAN, STARTS = 256, 6  # number of Sobol points in a cube, and of points from which the index is climbed


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
        """Memory used, approximately: of factor, matrix and their copies."""
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
        found = [surface.index(own, x) for surface, own in self._indices]
        values, slopes = np.array([value for value, _ in found]), np.array([slope for _, slope in found])
        least = values.argmin(axis=0)
        here = np.arange(len(x))
        return values[least, here], slopes[least, here]


class CubeIndex(NamedTuple):
    """Index of the cells of a box, and how it is maximised."""

    upper: Callable[[float], SmoothIndex]  # from a width to the index mean + width std
    tightening: bool  # whether the index of a cell is bounded by those of the cells it came from
    noise_variance: float  # of pending values, in squared units of y
    seed: int  # seed of the points at which the index is computed first


class BoxCells(Shard[CubePosterior]):
    """Posteriors of cells of a box.

    Parameters
    ----------
    points
        Function from the numbers (k,) of visited points to the points (k, d); from None to all of them.
    cover
        Cubes of the box.
    index
        Index of the cells.

    See `Shard` for the other parameters.
    """

    def __init__(
        self, points: Callable[[Indices | None], Floats], kernel: Kernel, prior_mean: float, cover: BoxCover,
        log: ObservationLog, tree: ArgmaxTree, index: CubeIndex,
    ):  # fmt: skip
        corner = cover.bounds(1, (0,) * cover.dimension)[0]
        super().__init__(kernel, prior_mean, math.sqrt(kernel.diagonal(corner[None])[0]), log, tree)
        self._points, self._cover = points, cover
        self._upper, self._tightening, self._noise, self._seed = index
        self.looks_up = index.tightening
        self._last_index: dict[int, tuple[Surface, SmoothIndex]] = {}  # by number of a cell that split

    def level(self, cell: Cell) -> bool:
        return super().level(cell) and not (self._tightening and cell.parent is not None)

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
        cell.summit = None
        self._tree.unknown(cell)  # the summit is computed when it is needed, at the width of then

    def evaluate(self, cell: Cell, posterior: CubePosterior, log_term: float) -> None:
        width = self._tree.width(cell.gain, log_term)
        surface, index = posterior.surface(), self._upper(width)
        bounds = np.stack(self._cover.bounds(cell.divisions, cell.place), axis=-1)
        capped = self._bounds_of(cell)
        searched = Least([(surface, index), *capped]) if capped else surface
        known = self._points(np.array(posterior.engine.observed, dtype=np.int64))
        largest, likely = self._upper(0.0) if capped else index, known[promising(surface, index, known)]
        sizes = Sizes(SCAN, (1 + 2 * bool(capped)) * STARTS)  # the least of indices has ridges, where a climb may end
        top = maximize_over_box(searched, largest, bounds, self._seed, likely, sizes)
        self.evaluations += top.evaluations
        cell.summit = top.x
        most = self.prior_std if self.kernel.stationary else math.inf
        if capped:
            self._tree.found(cell, top.value, 0.0, width, most)
        else:
            mean, variance = surface.predict(top.x[None])
            self._tree.found(cell, float(mean[0]), math.sqrt(variance[0]), width, most)

    def _bounds_of(self, cell: Cell) -> list[tuple[Surface, SmoothIndex]]:
        """Return the indices of the cells that a cell came from, as each of them split."""
        indices = []
        above = cell.parent if self._tightening else None
        while above is not None:
            if above.number not in self._last_index:  # split before a restart
                numbers = range(above.split)
                inside = [i for i in numbers if self._holds(above, int(self._log.candidates[i]))]
                self._last_index[above.number] = self._engine(inside).surface(), self._upper(above.width)
            indices.append(self._last_index[above.number])
            above = above.parent
        return indices

    def _holds(self, cell: Cell, candidate: int) -> bool:
        return cell.place in self._cover.places(cell.divisions, candidate)

    def divide(self, cell: Cell, children: Sequence[Cell], log_term: float | None) -> list[Cell]:
        if self._tightening:
            self._last_index[cell.number] = self.posterior(cell).surface(), self._upper(cell.width)
        for child in children:
            child.data = [i for i in cell.data if self._holds(child, int(self._log.candidates[i]))]
            if child.data:
                child.gain = self.born(child)
        self.forget(cell)
        return list(children)

    def born(self, cell: Cell) -> float:
        posterior = self.build(cell)
        self._store(cell, posterior)
        return posterior.engine.information_gain

    def anywhere(self, cell: Cell) -> Floats:
        low, high = self._cover.bounds(cell.divisions, cell.place)
        return low + (high - low) * generator(derived_seed(self._seed, cell.order), "anywhere").random(len(low))

    def best(self, cell: Cell) -> tuple[float, int, float]:
        engine = self.posterior(cell).engine
        candidates = np.array(engine.observed)
        mean, variance = engine.surface().predict(self._points(candidates))
        p = int(np.argmax(mean))
        return float(mean[p]), int(candidates[p]), math.sqrt(variance[p])

    def clear(self) -> None:
        super().clear()
        self._last_index.clear()
