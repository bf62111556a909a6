"""A shard of the partition of a box: posteriors of whole cubes, each maximised over its own.

With successive tightening a cell's index is the least of its own and those of the cells it came from, each as that
split: a function of x, kept as the posteriors that they had.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.maximization import maximize_over_box
from scalable_bandits.posteriors.box.surface import SmoothIndex, Surface, constant_mean
from scalable_bandits.posteriors.partition.argmax_tree import ArgmaxTree
from scalable_bandits.posteriors.partition.cell import Cell
from scalable_bandits.posteriors.partition.cover import BoxCover
from scalable_bandits.posteriors.partition.finite_cells import Shard
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.randomness import derived_seed, generator
from scalable_bandits.spaces import Indices

SCAN, STARTS = 256, 6  # points of a cube's Sobol set, and how many of all points are refined
LIKELY = 3  # points of largest index, and of largest mean, around which a cube is looked through


class CubePosterior:
    """Posterior of a cell of a box.

    Parameters
    ----------
    engine
        That knows the cell's observations.
    pending
        (q, d) points whose values will come, with this noise variance.
    """

    def __init__(self, engine: BoxEngine, pending: Floats, noise_variance: float):
        self.engine, self._pending, self._noise = engine, pending, noise_variance

    @property
    def nbytes(self) -> int:
        """Memory held, about: of factor, matrix and their copies."""
        return 32 * max(64, 2 * len(self.engine.observed)) ** 2

    def surface(self) -> Surface:
        """The posterior as a function of x."""
        return self.engine.surface(self._pending, self._noise)


class Least:
    """The least of several indices, in the place of a posterior: its mean is the index, its variance nothing.

    Parameters
    ----------
    parts
        Posteriors, each with its index.
    """

    def __init__(self, parts: Sequence[tuple[Surface, SmoothIndex]]):
        self._parts = parts

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Index at points x (k, d), and zeros."""
        values = np.min([index(*surface.predict(x)) for surface, index in self._parts], axis=0)
        return values, np.zeros(len(x))

    def index(self, index: SmoothIndex, x: Floats) -> tuple[Floats, Floats]:
        """Index at points x (k, d), and the gradient of the one that is least there."""
        found = [surface.index(own, x) for surface, own in self._parts]
        values, slopes = np.array([value for value, _ in found]), np.array([slope for _, slope in found])
        least = values.argmin(axis=0)
        here = np.arange(len(x))
        return values[least, here], slopes[least, here]


class BoxCells(Shard[CubePosterior]):
    """Posteriors of cells of a box.

    Parameters
    ----------
    points
        From numbers (k,) of points that were visited to the points (k, d); of None to all.
    cover
        The cubes.
    noise_variance
        That a pending value is taken to have.
    seed
        Of the points that are looked at.
    upper
        From a width to the index mean + width std.
    tightening
        Whether children stay under their parent's index.

    Other parameters are those of `Shard`.
    """

    def __init__(
        self, points: Callable[[Indices | None], Floats], kernel: Kernel, prior_mean: float, cover: BoxCover,
        log: ObservationLog, tree: ArgmaxTree, noise_variance: float, seed: int, upper: Callable[[float], SmoothIndex],
        tightening: bool,
    ):  # fmt: skip
        corner = cover.bounds(1, (0,) * cover.dimension)[0]
        super().__init__(kernel, prior_mean, math.sqrt(kernel.diagonal(corner[None])[0]), log, tree)
        self._points, self._cover, self._noise, self._seed = points, cover, noise_variance, seed
        self._upper, self._tightening = upper, tightening
        self.looks_up = tightening
        self._frozen: dict[int, tuple[Surface, SmoothIndex]] = {}  # of a cell that split, its last index

    def level(self, cell: Cell) -> bool:
        return super().level(cell) and not (self._tightening and cell.parent is not None)

    def build(self, cell: Cell, pending: Sequence[int] = ()) -> CubePosterior:
        waiting = self._points(np.array(pending, dtype=np.int64))
        return CubePosterior(self._engine(cell.data), waiting, self._noise)

    def _engine(self, data: Sequence[int]) -> BoxEngine:
        engine = BoxEngine(self.kernel, self._cover.dimension, constant_mean(self.prior_mean))
        engine.points = self._points(None)
        for i in data:
            engine.observe(*self._told.at(i))
        return engine

    def observe(self, cell: Cell, candidate: int, y: float, noise_variance: float, log_term: float | None) -> None:
        posterior = self.posterior(cell)
        before = posterior.nbytes
        posterior.engine.points = self._points(None)
        posterior.engine.observe(candidate, y, noise_variance)
        cell.gain = posterior.engine.information_gain
        self._bytes += posterior.nbytes - before
        cell.summit = None
        self._contest.unknown(cell)  # it is looked at when it is asked for, at the width of then

    def evaluate(self, cell: Cell, posterior: CubePosterior, log_term: float) -> None:
        width = self._contest.width(cell.gain, log_term)
        surface, index = posterior.surface(), self._upper(width)
        bounds = np.stack(self._cover.bounds(cell.divisions, cell.place), axis=-1)
        capped = self._under(cell)
        searched = Least([(surface, index), *capped]) if capped else surface
        known = self._points(np.array(posterior.engine.observed, dtype=np.int64))
        top = maximize_over_box(
            searched, self._upper(0.0) if capped else index, bounds, self._seed, _likely(surface, index, known),
            SCAN, (1 + 2 * bool(capped)) * STARTS,  # the least of several has ridges, where a climb may end
        )  # fmt: skip
        self.evaluations += top.evaluations
        cell.summit = top.x
        most = self.prior_std if self.kernel.stationary else math.inf
        if capped:
            self._contest.found(cell, top.value, 0.0, width, most)
        else:
            mean, variance = surface.predict(top.x[None])
            self._contest.found(cell, float(mean[0]), math.sqrt(variance[0]), width, most)

    def _under(self, cell: Cell) -> list[tuple[Surface, SmoothIndex]]:
        """Indices of the cells it came from, as each of them split."""
        indices = []
        above = cell.parent if self._tightening else None
        while above is not None:
            if above.number not in self._frozen:  # of an earlier process
                numbers = range(above.split)
                inside = [i for i in numbers if self._holds(above, int(self._told.candidates[i]))]
                self._frozen[above.number] = self._engine(inside).surface(), self._upper(above.width)
            indices.append(self._frozen[above.number])
            above = above.parent
        return indices

    def _holds(self, cell: Cell, candidate: int) -> bool:
        return cell.place in self._cover.places(cell.divisions, candidate)

    def divide(self, cell: Cell, children: Sequence[Cell], log_term: float | None) -> list[Cell]:
        if self._tightening:
            self._frozen[cell.number] = self.posterior(cell).surface(), self._upper(cell.width)
        for child in children:
            child.data = [i for i in cell.data if self._holds(child, int(self._told.candidates[i]))]
            if child.data:
                child.gain = self.born(child)
        self.forget(cell)
        return list(children)

    def born(self, cell: Cell) -> float:
        posterior = self.build(cell)
        self._hold(cell, posterior)
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
        self._frozen.clear()


def _likely(surface: Surface, index: SmoothIndex, known: Floats) -> Floats:
    """Of points that were observed (k, d) those of largest index and mean."""
    if not len(known):
        return known
    mean, variance = surface.predict(known)
    first = np.concatenate([np.argsort(-of, kind="stable")[:LIKELY] for of in (index(mean, variance), mean)])
    return known[list(dict.fromkeys(first.tolist()))]
