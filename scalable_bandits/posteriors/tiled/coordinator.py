"""Tiles of a large space that are held in shards, and what the shards are told and asked.

    told     all shards, in this order: `take` an observation, `load` columns, `close` and `bring_forward` a window
    asked    which of their candidates may have the largest index, and what is known of these

A round is one question to all shards, with the observation before it; the answers bring what is known of the candidate
that is observed next. A new batch of columns costs one or two questions more, a full window one.

What is told is done here too, by tiles of which none is held here.
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
from scalable_bandits.posteriors.tiled.earlier import refuse_tiles_left_behind
from scalable_bandits.posteriors.tiled.tiles import Tiles
from scalable_bandits.posteriors.tiled.worker import Finalist, Promised, TilesPart, cut, whole
from scalable_bandits.spaces import FiniteSpace, Indices

TILES_A_SHARD = 12  # about; a larger space has more in each
SHARDS = 32  # at the most


class ShardedTiles(Tiles):
    """Tiles in shards, held by an executor. See `Tiles`.

    Parameters
    ----------
    kernel, points, prior_mean
        As for `Tiles`, in the tiles' order.
    space, means
        Space with all candidates, and the prior mean (n,) in its order: what a shard is made from.
    executor
        Where the shards live.
    """

    def __init__(
        self, kernel: Kernel, points: Floats, prior_mean: Floats, space: FiniteSpace, means: Floats, executor: Executor
    ):
        super().__init__(kernel, points, prior_mean, 0, 0)
        count = -(-self.size // self.width)
        self._edges = np.linspace(0, count, int(np.clip(count // TILES_A_SHARD, 1, SHARDS)) + 1).astype(int)
        self._shard_of = np.repeat(np.arange(len(self._edges) - 1), np.diff(self._edges))
        given = float(means[0]) if (means == means[0]).all() else means
        self._shards = executor.shards(
            [
                functools.partial(TilesPart, kernel, space, given, first, stop)
                for first, stop in zip(self._edges[:-1].tolist(), self._edges[1:].tolist(), strict=True)
            ],
            f"tiles of {self.size} candidates",
        )
        self._all = list(range(len(self._edges) - 1))
        self._half_folded = False
        self._promised: list[Promised] = []  # by shard, as they said with their finalists
        self._finalist: Finalist | None = None  # the best of them
        self._current = False  # whether they would say the same now

    # ---- told and asked

    def _tell(self, method: str, *given: Any) -> Any:
        """Have all shards do something before their next question; done at once here, whose result it is."""
        result = getattr(super(), method)(*given)
        self._shards.tell(None, method, *given)
        self._current = False
        if method != "load":
            self._finalist = None
        return result

    def _gather(self, positions: Indices, query: str, *arguments: Any) -> Floats:
        """Rows (k, ...) of positions, each from the shard that holds it.

        All shards are asked, so that they do together what they were told before.
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
        tops, where = np.full(count, -np.inf), np.zeros(count, dtype=np.int64)
        held = self._column_cache.positions
        owners = self._shard_of[held // self.width]
        for shard, (first, more, positions, cached) in enumerate(self._promised):
            groups = slice(first, first + len(more))
            where[groups] = np.where(more > tops[groups], positions, where[groups])
            np.maximum(tops[groups], more, out=tops[groups])
            self.index[held[owners == shard]] = cached
        return self._batch_with(p, tops, where)

    def _load(self, chosen: Indices) -> None:
        evicted = self._column_cache.lowest(len(chosen) - self._column_cache.free, self.index)
        self._tell("load", chosen, self._gather(chosen, "rows_here", chosen), evicted)

    def observe(self, p: int, y: float, noise_variance: float) -> float:
        if self._half_folded:
            self._fold()
        return super().observe(p, y, noise_variance)

    def _fold(self) -> None:
        if not self._half_folded:
            self._tell("close")
        self._half_folded = True  # if the shards cannot be reached now, the rest is done the next time
        newest = self._gather(self._column_cache.positions, "newest_here")
        self._tell("bring_forward", newest)
        self._half_folded = False

    def revise(self, slots: Indices, positions: Indices, weights: Floats) -> None:
        raise NotImplementedError("values are not revised in tiles that are held elsewhere")

    # ---- asked about

    def best(
        self, acquisition: Acquisition, salt: int, numbers: Indices, mask: NDArray[np.bool_] | None
    ) -> tuple[int, float]:
        allowed = None if mask is None else np.packbits(mask)
        answers = self._shards.ask(self._all, "contest", acquisition, allowed, salt)
        self.floored = sum(answer.floored for answer in answers)
        self._promised, self._current = [answer.promised for answer in answers], True
        found = [finalist for answer in answers for finalist in answer.finalists]
        indices, positions = np.array([each.score for each in found]), np.array([each.position for each in found])
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

    # ---- kept and taken up again

    def state(self) -> State:
        return {**super().state(), **whole(self._shards.ask(self._all, "state_here"))}

    def restore(self, state: State) -> None:
        refuse_tiles_left_behind(state)
        super().restore(cut(state, self.width, 0, 0))
        self._finalist, self._current = None, False
        self.floored = int(state["floored"])
        edges = self._edges.tolist()
        self._shards.restore({i: cut(state, self.width, edges[i], edges[i + 1]) for i in self._all})
