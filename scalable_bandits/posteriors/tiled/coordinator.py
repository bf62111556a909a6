"""Coordinator of the tiles of a large space, which are held in shards (`worker.py`); the words are in `tiles.py`.

    tell     changes all shards: `condition` on an observation, `cache_columns` of a batch, `fold` the window
    ask      asks all shards for their finalists, with the posterior at each, and for the maxima of their groups

A round is one question to all shards, which carries the observation before it; the answers bring what the next
observation needs. A new batch costs one or two questions more.

The coordinator is itself a `Tiles` that holds no tile: it repeats every `tell`, and so has the same small arrays as the
shards. Its `TilesSource` has what a lost shard is made from.
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
from scalable_bandits.posteriors.tiled.ordering import GroupMaxima, shard_edges
from scalable_bandits.posteriors.tiled.tiles import Tiles
from scalable_bandits.posteriors.tiled.worker import Finalist, TilesShard, TilesSource, joined_state, shard_state
from scalable_bandits.spaces import FiniteSpace, Indices


class ShardedTiles(Tiles):
    """Tiles in the shards of an executor; see `Tiles` for the interface.

    Parameters
    ----------
    kernel
        Prior covariance.
    points
        (n, d) candidates in the order of the tiles.
    prior_mean
        (n,) prior mean in the order of the tiles, in units of y.
    space
        Space of the candidates, from which a shard is made.
    means
        (n,) the same prior mean in the order of the space, in units of y.
    executor
        Executor that holds the shards.
    """

    def __init__(
        self, kernel: Kernel, points: Floats, prior_mean: Floats, space: FiniteSpace, means: Floats, executor: Executor
    ):
        super().__init__(kernel, points, prior_mean, 0, 0)
        edges = shard_edges(-(-self.size // self.tile_size))
        self._shard_of = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        ranges = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))  # tiles of each shard
        self._source = TilesSource(kernel, space, float(means[0]) if (means == means[0]).all() else means, ranges)
        self._shards: Shards[TilesShard] = executor.shards(
            self._source, len(ranges), f"tiles of {self.size} candidates"
        )
        self._every_shard = range(len(ranges))
        self._floored_before = 0  # floored variances before the last rebuild, after which shards count from 0
        self._group_maxima: list[GroupMaxima] = []  # latest answer of each shard
        self._maxima_valid = False  # whether no shard has changed since these answers
        self._finalist: Finalist | None = None  # the best finalist, until the next observation or fold

    def _gather(self, positions: Indices, query: Callable[[TilesShard, Indices], Floats]) -> Floats:
        """Return rows (k, ...) of positions, each from the shard that holds it.

        All shards are asked, so that all apply at the same time the changes that they were told of.
        """
        owners = self._shard_of[positions // self.tile_size]
        answers = self._shards.ask(self._every_shard, query, positions)
        out = np.empty((len(positions), answers[0].shape[1]))
        for shard, answer in enumerate(answers):
            out[owners == shard] = answer
        return out

    # ---- observing

    def condition(self, p: int, y: float, noise_variance: float, at_p: PointPosterior) -> float:
        change = self._shards.tell(None, TilesShard.condition, p, y, noise_variance, at_p)
        self._source.changes.append(change)
        self._maxima_valid, self._finalist = False, None
        return super().condition(p, y, noise_variance, at_p)

    def point_posterior(self, p: int) -> PointPosterior:
        if self._finalist is not None and self._finalist.position == p:
            return self._finalist.posterior
        return self._shards.ask([int(self._shard_of[p // self.tile_size])], TilesShard.point_posterior, p)[0]

    def _next_batch(self, p: int, noise_variance: float) -> Indices:
        if not self._maxima_valid:
            self._group_maxima = self._shards.ask(self._every_shard, TilesShard.group_maxima)
        count = -(-self.size // self._group_size)
        maxima, positions = np.full(count, -np.inf), np.zeros(count, dtype=np.int64)
        for found in self._group_maxima:  # a group at the edge of two shards is in the answers of both
            groups = slice(found.first, found.first + len(found.maxima))
            positions[groups] = np.where(found.maxima > maxima[groups], found.positions, positions[groups])
            np.maximum(maxima[groups], found.maxima, out=maxima[groups])
        return self._batch_with(p, GroupMaxima(0, maxima, positions))

    def _cache_batch(self, batch: Indices) -> None:
        folded, _ = self.rows_at(batch)
        self._source.changes.append(self._shards.tell(None, TilesShard.cache_columns, batch, folded))
        self._maxima_valid = False
        super().cache_columns(batch, folded)

    def fold(self) -> None:
        self.floored = self._floored_before + sum(self._shards.ask(self._every_shard, TilesShard.count_floored))
        self._source.changes.append(self._shards.tell(None, TilesShard.fold))
        self._maxima_valid, self._finalist = False, None
        super().fold()

    def _rebuild(self) -> None:
        super()._rebuild()
        if self._can_rebuild:
            self._source.restart(collapsed=copied(self._observed.state()))
            self._floored_before = self.floored

    def revise(self, slots: Indices, positions: Indices, weights: Floats) -> None:
        raise NotImplementedError("values are not revised in shards")

    # ---- questions

    def best(
        self, acquisition: Acquisition, salt: int, numbers: Indices, mask: NDArray[np.bool_] | None
    ) -> tuple[int, float]:
        allowed = None if mask is None else np.packbits(mask)
        answers = self._shards.ask(self._every_shard, TilesShard.find_finalists, acquisition, allowed, salt)
        self.floored = self._floored_before + sum(answer.floored for answer in answers)
        self._group_maxima, self._maxima_valid = [answer.group_maxima for answer in answers], True
        found = [finalist for answer in answers for finalist in answer.finalists]
        indices, positions = np.array([each.index_value for each in found]), np.array([each.position for each in found])
        chosen, best = choose(indices, salt, None, numbers[positions])
        self._finalist = found[chosen]
        return self._finalist.position, best

    def moments(self, positions: Any) -> tuple[Floats, Floats]:
        if isinstance(positions, slice):
            found = np.concatenate(self._shards.ask(self._every_shard, TilesShard.moments_here, None))[positions]
        else:
            found = self._gather(positions, TilesShard.moments_here)
        return found[:, 0].copy(), found[:, 1].copy()

    def rows_at(self, positions: Indices) -> tuple[Floats, Floats]:
        rows = self._gather(positions, TilesShard.rows_at_here)
        return rows[:, : self._height].copy(), rows[:, self._height :].copy()

    def covariances(self, positions: Indices, folded: Floats, in_window: Floats) -> Floats:
        found = self._shards.ask(self._every_shard, TilesShard.covariances_here, positions, folded, in_window)
        return np.concatenate(found, axis=1)

    # ---- state

    def state(self) -> State:
        joined = joined_state(self._shards.ask(self._every_shard, TilesShard.state_here))
        return {**super().state(), **joined, "floored": joined["floored"] + self._floored_before}

    def restore(self, state: State) -> None:
        super().restore(shard_state(state, self.tile_size, 0, 0))
        self._finalist, self._maxima_valid = None, False
        self.floored = self._floored_before = int(state["floored"])
        self._source.restart(copied(state))
        self._shards.renew()
