"""The tiles of a large space in shards: the coordinator of the shards (`worker.py`).

    tell     all shards, in this order: `take` an observation, `load` columns, `close` a window
    ask      for the candidates that may have the largest index, and for their entries in the posterior

A round is one question to all shards, which carries the observation before it; the answers bring what the next
observation needs. A new batch of columns costs one or two questions more.

The coordinator is itself a `Tiles` without any tile: it repeats every `tell`, and so has the same small arrays. What a
lost shard is made from is in its `TilesSource`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import Acquisition, choose
from scalable_bandits.posteriors.exact.window import PointPosterior
from scalable_bandits.posteriors.placement import Executor, Shards
from scalable_bandits.posteriors.state import State, copied
from scalable_bandits.posteriors.tiled.tiles import Tiles
from scalable_bandits.posteriors.tiled.worker import (
    Finalist,
    Observed,
    Promised,
    TilesShard,
    TilesSource,
    joined_state,
    shard_state,
)
from scalable_bandits.spaces import FiniteSpace, Indices

TILES_A_SHARD = 12  # approximately; shards of a larger space have more
SHARDS = 32  # largest number of shards


class ShardedTiles(Tiles):
    """Tiles in the shards of an executor; see `Tiles` for the interface.

    Parameters
    ----------
    kernel
        Prior covariance.
    points
        (n, d) candidates in the tiles' order.
    prior_mean
        (n,) prior mean in the tiles' order, in units of y.
    space
        Space of the candidates, from which a shard is made.
    means
        (n,) prior mean in the space's order, in units of y.
    executor
        Executor that holds the shards.
    """

    def __init__(
        self, kernel: Kernel, points: Floats, prior_mean: Floats, space: FiniteSpace, means: Floats, executor: Executor
    ):
        super().__init__(kernel, points, prior_mean, 0, 0)
        count = -(-self.size // self.width)
        edges = np.linspace(0, count, int(np.clip(count // TILES_A_SHARD, 1, SHARDS)) + 1).astype(int)
        self._shard_of = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        ranges = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))  # tiles of each shard
        self._source = TilesSource(kernel, space, float(means[0]) if (means == means[0]).all() else means, ranges)
        self._shards: Shards[TilesShard] = executor.shards(
            self._source, len(ranges), f"tiles of {self.size} candidates"
        )
        self._all = range(len(ranges))
        self._floored_before = 0  # floored variances before the shards' own counts, which a refit ends
        self._promised: list[Promised] = []  # latest answers of the shards
        self._finalist: Finalist | None = None  # the best of their finalists
        self._current = False  # whether the shards have not changed since these answers

    def _gather(self, positions: Indices, query: Callable[[TilesShard, Indices], Floats]) -> Floats:
        """Return rows (k, ...) of positions, each from the shard that holds it.

        All shards are asked, so that they do what they were told at the same time.
        """
        owners = self._shard_of[positions // self.width]
        answers = self._shards.ask(self._all, query, positions)
        out = np.empty((len(positions), answers[0].shape[1]))
        for shard, answer in enumerate(answers):
            out[owners == shard] = answer
        return out

    # ---- observing

    def take(self, p: int, y: float, noise_variance: float, here: PointPosterior) -> float:
        self._shards.tell(None, TilesShard.take, p, y, noise_variance, here)
        self._source.observed.append(Observed(p, y, noise_variance, here, self._source.across.pop(p, None)))
        self._current, self._finalist = False, None
        return super().take(p, y, noise_variance, here)

    def point_posterior(self, p: int) -> PointPosterior:
        if self._finalist is not None and self._finalist.position == p:
            return self._finalist.posterior
        return self._shards.ask([int(self._shard_of[p // self.width])], TilesShard.point_posterior, p)[0]

    def _next_batch(self, p: int, noise_variance: float) -> Indices:
        if not self._current:
            self._promised = self._shards.ask(self._all, TilesShard.promised)
        count = -(-self.size // self._neighbours)
        tops, positions = np.full(count, -np.inf), np.zeros(count, dtype=np.int64)
        for promised in self._promised:
            groups = slice(promised.group, promised.group + len(promised.tops))
            positions[groups] = np.where(promised.tops > tops[groups], promised.positions, positions[groups])
            np.maximum(tops[groups], promised.tops, out=tops[groups])
        return self._batch_with(p, tops, positions)

    def _load(self, chosen: Indices) -> None:
        across = self._gather(chosen, TilesShard.rows_here)
        self._shards.tell(None, TilesShard.load, chosen, across)
        self._current = False
        super().load(chosen, across)
        held = {**self._source.across, **dict(zip(chosen.tolist(), across, strict=True))}
        self._source.across = {p: held[p] for p in self._column_cache.slots}

    def close(self) -> None:
        self.floored = self._floored_before + sum(self._shards.ask(self._all, TilesShard.count_floored))
        self._shards.tell(None, TilesShard.close)
        self._source.across = {}
        self._current, self._finalist = False, None
        super().close()

    def _rebuild(self) -> None:
        super()._rebuild()
        if self._refit:
            self._source.begin(refit=copied(self._observed.state()))
            self._floored_before = self.floored

    def revise(self, slots: Indices, positions: Indices, weights: Floats) -> None:
        raise NotImplementedError("values are not revised in shards")

    # ---- questions

    def best(
        self, acquisition: Acquisition, salt: int, numbers: Indices, mask: NDArray[np.bool_] | None
    ) -> tuple[int, float]:
        allowed = None if mask is None else np.packbits(mask)
        answers = self._shards.ask(self._all, TilesShard.find_finalists, acquisition, allowed, salt)
        self.floored = self._floored_before + sum(answer.floored for answer in answers)
        self._promised, self._current = [answer.promised for answer in answers], True
        found = [finalist for answer in answers for finalist in answer.finalists]
        indices, positions = np.array([each.value for each in found]), np.array([each.position for each in found])
        chosen, best = choose(indices, salt, None, numbers[positions])
        self._finalist = found[chosen]
        return self._finalist.position, best

    def moments(self, positions: Any) -> tuple[Floats, Floats]:
        if isinstance(positions, slice):
            found = np.concatenate(self._shards.ask(self._all, TilesShard.moments_here, None))[positions]
        else:
            found = self._gather(positions, TilesShard.moments_here)
        return found[:, 0].copy(), found[:, 1].copy()

    def placed(self, positions: Indices) -> tuple[Floats, Floats]:
        rows = self._gather(positions, TilesShard.placed_here)
        return rows[:, : self._height].copy(), rows[:, self._height :].copy()

    def covariances(self, positions: Indices, across: Floats, rows_at: Floats) -> Floats:
        found = self._shards.ask(self._all, TilesShard.covariances_here, positions, across, rows_at)
        return np.concatenate(found, axis=1)

    # ---- state

    def state(self) -> State:
        joined = joined_state(self._shards.ask(self._all, TilesShard.state_here))
        return {**super().state(), **joined, "floored": joined["floored"] + self._floored_before}

    def restore(self, state: State) -> None:
        super().restore(shard_state(state, self.width, 0, 0))
        self._finalist, self._current = None, False
        self.floored = self._floored_before = int(state["floored"])
        self._source.begin(copied(state))
        self._shards.renew()
