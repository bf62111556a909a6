"""Tiled engine: exact posteriors on large finite spaces, in rows of L^-1 K and in tiles of candidates.

`tiles.py` begins with the words that are used here. What makes the engine fast, all of it exact:

- Covariance columns are computed for a batch of candidates of large index, by one matrix product a tile (BLAS 3).
- When repeated points have made the rows twice as many as the distinct points, the rows of all distinct points replace
  them.
- Several threads, or several machines, work on the tiles.

The tiles depend on the space alone. Which columns are computed in advance depends on the calls of `argmax` and
`observe`; the digits of a column do not.
"""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import Acquisition, Engine, EngineOptions, choose
from scalable_bandits.posteriors.placement import Executor
from scalable_bandits.posteriors.state import member
from scalable_bandits.posteriors.tiled import tiles as tiling
from scalable_bandits.posteriors.tiled.ordering import tile_order
from scalable_bandits.posteriors.tiled.sharded import ShardedTiles
from scalable_bandits.posteriors.tiled.tiles import Tiles
from scalable_bandits.spaces import FiniteSpace, Indices, Mask, Points


class TiledEngine(Engine):
    """Exact posterior in row blocks and tiles, which takes O(n m) memory for m distinct points.

    See `Engine` for the other parameters and the interface.

    Parameters
    ----------
    executor
        Executor that holds the tiles in shards (`sharded.py`); the tiles are held in this process if not given.
    space
        Space of the candidates, from which workers make their tiles: a grid is a shorter message than its points.
    threads
        Number of threads of this process that work on the tiles held in it; BLAS has one thread meanwhile. The numbers
        do not depend on it.
    """

    limit: ClassVar[int] = 2_000_000  # 2 GB of window and columns, before the first fold
    sharded: ClassVar[bool] = True

    STATE = (member("_tiles"),)

    @classmethod
    def build(cls, kernel: Kernel, points: Floats, prior_mean: Floats, options: EngineOptions) -> Self:
        executor = options.executor
        if executor is None or not executor.remote:
            return cls(kernel, points, prior_mean, threads=1 if executor is None else executor.threads)
        return cls(kernel, points, prior_mean, executor, options.space)

    def __init__(
        self, kernel: Kernel, points: Floats, prior_mean: Floats, executor: Executor | None = None,
        space: FiniteSpace | None = None, threads: int = 1,
    ):  # fmt: skip
        super().__init__(kernel, points, prior_mean)
        self._executor, self._space, self.threads = executor, space, threads
        self._numbers = tile_order(points, tiling.TILE)  # number of the candidate at each position
        self._position = np.empty_like(self._numbers)
        self._position[self._numbers] = np.arange(self.size)
        self._tiles = self.tiled(np.ascontiguousarray(points[self._numbers]), prior_mean[self._numbers])

    def tiled(self, points: Floats, prior_mean: Floats) -> Tiles:
        """Make the tiles of points (n, d) and prior means (n,), both in the order of the tiles."""
        if self._executor is None:
            return Tiles(self.kernel, points, prior_mean, threads=self.threads)
        space = Points(self.points) if self._space is None else self._space
        return ShardedTiles(self.kernel, points, prior_mean, space, self._executor)

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        self._add_gain(self._tiles.observe(int(self._position[candidate]), y, noise_variance), noise_variance)

    def mean(self) -> Floats:
        return self._tiles.moments(slice(None))[0][self._position]

    def variance(self) -> Floats:
        return self._tiles.moments(slice(None))[1][self._position]

    def revise(self, candidates: Indices, changes: Floats, noise_variances: Floats) -> None:
        positions = self._position[candidates]
        slots = np.array([self._tiles.window.slot(p) for p in positions.tolist()])
        inside = slots >= 0
        weights = changes[inside] / noise_variances[inside]
        self._tiles.revise(slots[inside], positions[inside], weights)
        folded = np.flatnonzero(~inside)
        for start in range(0, len(folded), tiling.COLUMN_MULTIPLE):
            some = folded[start : start + tiling.COLUMN_MULTIPLE]
            self._tiles.cache_missing(positions[some])
            super().revise(candidates[some], changes[some], noise_variances[some])

    def at(self, candidates: Indices) -> tuple[Floats, Floats]:
        return self._tiles.moments(self._position[candidates])

    def columns(self, candidates: Indices) -> Floats:
        return self._tiles.columns(self._position[candidates])[:, self._position]

    def argmax(
        self, acquisition: Acquisition, salt: int, allowed: Mask | None = None, reduction: Floats | None = None
    ) -> tuple[int, float]:
        mask = None if allowed is None else allowed[self._numbers]
        if reduction is None:
            position, best = self._tiles.best(acquisition, salt, self._numbers, mask)
        else:
            mean, variance = self._tiles.moments(slice(None))
            index = acquisition(mean, np.maximum(variance - reduction[self._numbers], 0.0))
            position, best = choose(index, salt, mask, self._numbers)
        return int(self._numbers[position]), best
