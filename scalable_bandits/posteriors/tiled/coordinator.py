"""The tiles of a large space in shards: the coordinator of the shards (`worker.py`).

    tell     all shards, in this order: `take` an observation, `load` columns, `close` and `bring_forward` a window
    ask      for the candidates that may have the largest index, and for their entries in the posterior

A round is one question to all shards, which carries the observation before it; the answers bring what the next
observation needs. A new batch of columns costs one or two questions more, a full window one.

The coordinator is itself a `Tiles` without any tile: it repeats every `tell`, and so has the same small arrays.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import Acquisition, choose
from scalable_bandits.posteriors.exact.window import PointPosterior
from scalable_bandits.posteriors.placement import Executor
from scalable_bandits.posteriors.state import State
from scalable_bandits.posteriors.tiled.tiles import Tiles
from scalable_bandits.posteriors.tiled.worker import Finalist, Promised, TilesShard, joined_state, shard_state
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
        self._ranges = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))  # tiles of each shard
        given = float(means[0]) if (means == means[0]).all() else means
        self._shards = executor.shards(
            [functools.partial(TilesShard, kernel, space, given, *tiles) for tiles in self._ranges],
            f"tiles of {self.size} candidates",
        )
        self._all = range(len(self._ranges))
        self._half_folded = False
        self._promised: list[Promised] = []  # latest answers of the shards
        self._finalist: Finalist | None = None  # the best of their finalists
        self._current = False  # whether the shards have not changed since these answers

    # ---- messages

    def _tell(self, method: str, *given: Any) -> Any:
        """Have all shards call a method before their next question; return the result of the coordinator's own call."""
        result = getattr(super(), method)(*given)
        self._shards.tell(None, method, *given)
        self._current = False
        if method != "load":
            self._finalist = None
        return result

    def _gather(self, positions: Indices, query: str, *arguments: Any) -> Floats:
        """Return rows (k, ...) of positions, each from the shard that holds it.

        All shards are asked, so that they do what they were told at the same time.
        """
        owners = self._shard_of[positions // self.width]
        answers = self._shards.ask(self._all, query, *arguments)
        out = np.empty((len(positions), answers[0].shape[1]))
        for shard, answer in enumerate(answers):
            out[owners == shard] = answer
        return out

    # ---- observing

    def take(self, p: int, y: float, noise_variance: float, here: PointPosterior) -> float:
        before: float = self._tell("take", p, y, noise_variance, here)
        return before

    def point_posterior(self, p: int) -> PointPosterior:
        if self._finalist is not None and self._finalist.position == p:
            return self._finalist.posterior
        found: PointPosterior = self._shards.ask([int(self._shard_of[p // self.width])], "point_posterior", p)[0]
        return found

    def _next_batch(self, p: int, noise_variance: float) -> Indices:
        if not self._current:
            self._promised = self._shards.ask(self._all, "promised")
        count = -(-self.size // self._neighbours)
        tops, positions = np.full(count, -np.inf), np.zeros(count, dtype=np.int64)
        cached = self._column_cache.positions
        owners = self._shard_of[cached // self.width]
        for shard, promised in enumerate(self._promised):
            groups = slice(promised.group, promised.group + len(promised.tops))
            positions[groups] = np.where(promised.tops > tops[groups], promised.positions, positions[groups])
            np.maximum(tops[groups], promised.tops, out=tops[groups])
            self.index[cached[owners == shard]] = promised.cached
        return self._batch_with(p, tops, positions)

    def _load(self, chosen: Indices) -> None:
        evicted = self._column_cache.lowest(len(chosen) - self._column_cache.free, self.index)
        self._tell("load", chosen, self._gather(chosen, "rows_here", chosen, 0), evicted)

    def observe(self, p: int, y: float, noise_variance: float) -> float:
        if self._half_folded:
            self._fold()
        return super().observe(p, y, noise_variance)

    def _fold(self) -> None:
        if not self._half_folded:
            self._tell("close")
        self._half_folded = True  # if the shards cannot be reached now, the next observation continues here
        cached = self._column_cache.positions
        self._tell("bring_forward", self._gather(cached, "rows_here", cached, self._newest))
        self._half_folded = False

    def revise(self, slots: Indices, positions: Indices, weights: Floats) -> None:
        raise NotImplementedError("values are not revised in shards")

    # ---- questions

    def best(
        self, acquisition: Acquisition, salt: int, numbers: Indices, mask: NDArray[np.bool_] | None
    ) -> tuple[int, float]:
        allowed = None if mask is None else np.packbits(mask)
        answers = self._shards.ask(self._all, "find_finalists", acquisition, allowed, salt)
        self.floored = sum(answer.floored for answer in answers)
        self._promised, self._current = [answer.promised for answer in answers], True
        found = [finalist for answer in answers for finalist in answer.finalists]
        indices, positions = np.array([each.value for each in found]), np.array([each.position for each in found])
        chosen, best = choose(indices, salt, None, numbers[positions])
        self._finalist = found[chosen]
        return self._finalist.position, best

    def moments(self, positions: Any) -> tuple[Floats, Floats]:
        if isinstance(positions, slice):
            found = np.concatenate(self._shards.ask(self._all, "moments_here", None))[positions]
        else:
            found = self._gather(positions, "moments_here", positions)
        return found[:, 0].copy(), found[:, 1].copy()

    def placed(self, positions: Indices) -> tuple[Floats, Floats]:
        rows = self._gather(positions, "placed_here", positions)
        return rows[:, : self._height].copy(), rows[:, self._height :].copy()

    def covariances(self, positions: Indices, across: Floats, rows_at: Floats) -> Floats:
        return np.concatenate(self._shards.ask(self._all, "covariances_here", positions, across, rows_at), axis=1)

    # ---- state

    def state(self) -> State:
        return {**super().state(), **joined_state(self._shards.ask(self._all, "state_here"))}

    def restore(self, state: State) -> None:
        super().restore(shard_state(state, self.width, 0, 0))
        self._finalist, self._current = None, False
        self.floored = int(state["floored"])
        self._shards.restore({i: shard_state(state, self.width, *tiles) for i, tiles in enumerate(self._ranges)})
