"""Tiles of a large space in shards, and their coordinator; the words are in `tiles.py`.

All shards of a space receive the same changes in the same order, and each computes its own tiles:

    tell     changes all shards: `condition` on an observation, `cache_columns` of a batch, `fold` the window
    ask      asks all shards for their finalists, with the posterior at each, and for the maxima of their groups

A round is one question to all shards, which carries the observation before it; the answers bring what the next
observation needs. A new batch costs one or two questions more. Little is exchanged: the posterior at the observed
candidate, and the folded rows at the candidates of a batch. Every number follows from a tile and from these, and so is
the same for any division of the tiles into shards.

The coordinator is itself a `Tiles` that holds no tile: it repeats every `tell`, and so has the same small arrays as the
shards. A lost shard is made again by `TilesSource`: from the collapsed observations as of the last rebuild, or from a
restored state, and by the changes since.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import Acquisition, choose, finalists
from scalable_bandits.posteriors.exact.window import PointPosterior
from scalable_bandits.posteriors.placement import Call, Executor, Shards, made
from scalable_bandits.posteriors.state import State, copied
from scalable_bandits.posteriors.tiled import tiles as tiling
from scalable_bandits.posteriors.tiled.ordering import GroupMaxima, shard_edges, tile_order
from scalable_bandits.posteriors.tiled.tiles import Tiles
from scalable_bandits.spaces import FiniteSpace, Indices, Mask

BY_TILE = ("window_rows",)  # entries of the state whose first dimension is that of the tiles
BY_CANDIDATE = ("mean", "variance")  # entries whose first dimension is that of the candidates
ROWS = "folded_rows."  # prefix of the entries with the folded rows, one for each tile
OF_A_SHARD = (*BY_TILE, *BY_CANDIDATE)  # entries that differ between shards, besides the folded rows


class Finalist(NamedTuple):
    """A candidate that may have the largest index of all."""

    position: int
    index_value: float
    posterior: PointPosterior


class Answer(NamedTuple):
    """Answer of a shard after it computed the index of its candidates."""

    finalists: list[Finalist]
    group_maxima: GroupMaxima


_in_process: weakref.WeakValueDictionary[bytes, TilesShard] = weakref.WeakValueDictionary()  # one of each space


class TilesShard(Tiles):
    """Some tiles of a large space, made from its specification.

    Parameters
    ----------
    kernel
        Prior covariance.
    space
        Space with all candidates.
    prior_mean
        Prior mean in units of y: one number, or (n,) in the order of the tiles.
    first, stop
        First tile of this shard, and one after the last.
    """

    def __init__(self, kernel: Kernel, space: FiniteSpace, prior_mean: float | Floats, first: int, stop: int):
        key = hashlib.sha256(pickle.dumps((space, tiling.TILE))).digest()
        other = _in_process.get(key)
        if other is None:
            points = space.points()
            self._numbers = tile_order(points, tiling.TILE)  # number of the candidate at each position
            points = np.ascontiguousarray(points[self._numbers])
        else:  # the same arrays for all shards of a space in this process
            self._numbers, points = other._numbers, other.points
        super().__init__(kernel, points, np.broadcast_to(prior_mean, (len(points),)), first, stop)
        _in_process[key] = self

    def rebuild_from(self, collapsed: State) -> None:
        """Rebuild the rows from the state of collapsed observations, instead of those so far."""
        self._observed.restore(collapsed)
        self._rebuild()

    def find_finalists(self, acquisition: Acquisition, allowed: NDArray[np.uint8] | None, salt: int) -> Answer:
        """Compute the index of the candidates held here, and find the finalists.

        Parameters
        ----------
        acquisition
            Index as a function of mean and variance.
        allowed
            Mask of the candidates to choose from, eight in a byte (`np.packbits`), of all n candidates; None for all.
        salt
            Seed of the hash that breaks ties.
        """
        mask = None if allowed is None else np.unpackbits(allowed, count=self.size).astype(np.bool_)
        where = self.compute_index(acquisition, mask)
        best = finalists(self.index[where], salt, self._numbers[where])
        best = best + where.start if isinstance(where, slice) else where[best]
        found = [Finalist(p, float(self.index[p]), self.point_posterior(p)) for p in best.tolist()]
        return Answer(found, self.group_maxima())

    def positions_here(self, positions: Indices) -> Indices:
        """Return those of the positions that are held here."""
        return positions[(positions >= self.held_span.start) & (positions < self.held_span.stop)]

    def rows_at_here(self, positions: Indices) -> Floats:
        """Return `rows_at` of the positions held here, side by side, (k, height + rank)."""
        return np.hstack(self.rows_at(self.positions_here(positions)))

    def moments_here(self, positions: Indices | None) -> Floats:
        """Return mean and variance at the positions held here, at all candidates held here for None: (k, 2)."""
        return np.stack(self.moments(self.held_span if positions is None else self.positions_here(positions)), axis=1)

    def covariances_here(self, positions: Indices, folded: Floats, in_window: Floats) -> Floats:
        """Return `covariances` of any positions with the h candidates held here, (k, h)."""
        return self.covariances(positions, folded, in_window)[:, self.held_span]

    def state_here(self) -> State:
        """Return the entries (...,) of the state that differ between shards."""
        return {name: value for name, value in self.state().items() if name in OF_A_SHARD or name.startswith(ROWS)}


class TilesSource:
    """Source of the shards of a space; see `placement.py`.

    Parameters
    ----------
    kernel, space, prior_mean
        Prior covariance, space and prior mean as for `TilesShard`.
    edges
        First tile of each shard, and one after the last tile of all.

    Attributes
    ----------
    changes : list of Call
        Changes of all shards since the last rebuild, or since a state was restored.
    """

    def __init__(self, kernel: Kernel, space: FiniteSpace, prior_mean: float | Floats, edges: Sequence[int]):
        self._given, self._edges = (kernel, space, prior_mean), edges
        self.restart()

    def restart(self, state: State | None = None, *changes: Call) -> None:
        """Make shards from a state of all tiles, if it is given, and by these changes."""
        self._state, self.changes = state, list(changes)

    def __call__(self, number: int) -> functools.partial[TilesShard]:
        """Return the function that makes a shard."""
        first, stop = self._edges[number : number + 2]
        changes = list(self.changes)
        if self._state is not None:
            changes.insert(0, Call(TilesShard.restore, (shard_state(self._state, first, stop),), {}))
        return functools.partial(made, functools.partial(TilesShard, *self._given, first, stop), changes)


def shard_state(state: State, first: int, stop: int) -> State:
    """Return the part of a state of all tiles that belongs to the shard with some of them.

    Parameters
    ----------
    state
        Arrays (...,) by name.
    first, stop
        First tile of the shard, and one after the last.
    """
    span = slice(first * tiling.TILE, stop * tiling.TILE)
    return {
        **{name: value for name, value in state.items() if not name.startswith(ROWS)},
        **{name: state[name][span] for name in BY_CANDIDATE}, **{name: state[name][first:stop] for name in BY_TILE},
        **{f"{ROWS}{tile}": state[f"{ROWS}{tile}"] for tile in range(first, stop)},
    }  # fmt: skip


def joined_state(states: Sequence[State]) -> State:
    """Join the states (...,) of all shards, in the order of their tiles."""
    joined = {name: np.concatenate([state[name] for state in states]) for name in (*BY_CANDIDATE, *BY_TILE)}
    rows = {name: value for state in states for name, value in state.items() if name.startswith(ROWS)}
    return {**joined, **rows}


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
    executor
        Executor that holds the shards.
    """

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats, space: FiniteSpace, executor: Executor):
        super().__init__(kernel, points, prior_mean, 0, 0)
        edges = shard_edges(-(-self.size // self.tile_size))
        self._shard_of = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        self._every_shard = range(len(edges) - 1)
        mean = float(prior_mean[0]) if (prior_mean == prior_mean[0]).all() else prior_mean
        self._source = TilesSource(kernel, space, mean, edges.tolist())
        self._shards: Shards[TilesShard] = executor.shards(
            self._source, len(self._every_shard), f"tiles of {self.size} candidates"
        )
        self._group_maxima: list[GroupMaxima] | None = None  # answer of each shard, until the next change
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

    def _note(self, change: Call) -> None:
        """Have the source make shards with a change of all shards."""
        self._source.changes.append(change)
        self._group_maxima = None

    def condition(self, p: int, y: float, noise_variance: float, at_p: PointPosterior) -> float:
        self._note(self._shards.tell(None, TilesShard.condition, p, y, noise_variance, at_p))
        self._finalist = None
        return super().condition(p, y, noise_variance, at_p)

    def point_posterior(self, p: int) -> PointPosterior:
        if self._finalist is not None and self._finalist.position == p:
            return self._finalist.posterior
        return self._shards.ask([int(self._shard_of[p // self.tile_size])], TilesShard.point_posterior, p)[0]

    def _next_batch(self, p: int) -> Indices:
        if self._group_maxima is None:
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
        self._note(self._shards.tell(None, TilesShard.cache_columns, batch, folded))
        super().cache_columns(batch, folded)

    def fold(self) -> None:
        self._note(self._shards.tell(None, TilesShard.fold))
        self._finalist = None
        super().fold()

    def _rebuild(self) -> None:
        super()._rebuild()
        if self._can_rebuild:
            self._source.restart(None, Call(TilesShard.rebuild_from, (copied(self._observed.state()),), {}))

    def revise(self, slots: Indices, positions: Indices, weights: Floats) -> None:
        raise NotImplementedError("values are not revised in shards")

    # ---- questions

    def best(self, acquisition: Acquisition, salt: int, numbers: Indices, mask: Mask | None) -> tuple[int, float]:
        allowed = None if mask is None else np.packbits(mask)
        answers = self._shards.ask(self._every_shard, TilesShard.find_finalists, acquisition, allowed, salt)
        self._group_maxima = [answer.group_maxima for answer in answers]
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
        return {**super().state(), **joined_state(self._shards.ask(self._every_shard, TilesShard.state_here))}

    def restore(self, state: State) -> None:
        super().restore(shard_state(state, 0, 0))
        self._finalist = self._group_maxima = None
        self._source.restart(copied(state))
        self._shards.renew()
