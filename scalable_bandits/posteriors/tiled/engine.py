"""The blocked engine: exact posteriors on large finite spaces, in rows of L^-1 K and in tiles of candidates.

What makes it fast, all of it exact:

- Covariance columns are computed for a batch of the most promising candidates at a time, one matrix
  product each (BLAS 3), and kept up to date until they are played (`tiles.py`).
- When repeated points have made the rows twice as many as the distinct points, one fold of all
  distinct points replaces them.
- Tiles are worked on by several threads, or on several machines.

Tiles are a function of the space alone; what is computed ahead, of what was asked and told.
"""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import Acquisition, Engine, EngineOptions, choose
from scalable_bandits.posteriors.placement import Executor
from scalable_bandits.posteriors.state import State, nested, part
from scalable_bandits.posteriors.tiled import tiles as tiling
from scalable_bandits.posteriors.tiled.coordinator import ShardedTiles
from scalable_bandits.posteriors.tiled.ordering import tile_order
from scalable_bandits.posteriors.tiled.tiles import Tiles
from scalable_bandits.spaces import FiniteSpace, Indices, Points


class TiledEngine(Engine):
    """Exact posterior in row blocks and tiles: O(n m) memory for m distinct points.

    See `Engine` for the other parameters and the interface.

    Parameters
    ----------
    executor
        Where blocks of candidates are held (`coordinator.py`); in this process, in one piece, if not given.
    space
        Whose candidates these are, for whoever holds some of them: a grid takes less to say than its points.
    threads
        Threads of this process that work on the tiles held in it; BLAS has one thread meanwhile. The numbers are the
        same for any number of them.
    """

    limit: ClassVar[int] = 2_000_000  # 2 GB of window and columns, before the first fold
    sharded: ClassVar[bool] = True
    ask_is_stateful: ClassVar[bool] = True

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
        self._numbers = tile_order(points, tiling.TILE)  # of the candidates, in the tiles' order
        self._position = np.empty_like(self._numbers)
        self._position[self._numbers] = np.arange(self.size)
        self._tiles = self.tiled(np.ascontiguousarray(points[self._numbers]), prior_mean[self._numbers])

    def tiled(self, points: Floats, prior_mean: Floats) -> Tiles:
        """The tiles, of points (n, d) in their order, with prior means (n,)."""
        if self._executor is None:
            return Tiles(self.kernel, points, prior_mean, threads=self.threads)
        space = Points(self.points) if self._space is None else self._space
        means = np.empty(self.size)
        means[self._numbers] = prior_mean
        return ShardedTiles(self.kernel, points, prior_mean, space, means, self._executor)

    def state(self) -> State:
        return {**super().state(), **nested(tiles=self._tiles.state())}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._tiles.restore(part(state, "tiles"))

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        self._gain(self._tiles.observe(int(self._position[candidate]), y, noise_variance), noise_variance)
        self.floored = self._tiles.floored

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
        for start in range(0, len(folded), tiling.BATCH):
            some = folded[start : start + tiling.BATCH]
            self._tiles.prepare(positions[some])
            super().revise(candidates[some], changes[some], noise_variances[some])

    def at(self, candidates: Indices) -> tuple[Floats, Floats]:
        return self._tiles.moments(self._position[candidates])

    def columns(self, candidates: Indices) -> Floats:
        return self._tiles.columns(self._position[candidates])[:, self._position]

    def maximize(
        self,
        acquisition: Acquisition,
        salt: int,
        allowed: NDArray[np.bool_] | None = None,
        reduction: Floats | None = None,
    ) -> tuple[int, float]:
        mask = None if allowed is None else allowed[self._numbers]
        if reduction is None:
            position, best = self._tiles.best(acquisition, salt, self._numbers, mask)
        else:
            mean, variance = self._tiles.moments(slice(None))
            scores = acquisition(mean, np.maximum(variance - reduction[self._numbers], 0.0))
            position, best = choose(scores, salt, mask, self._numbers)
        return int(self._numbers[position]), best
