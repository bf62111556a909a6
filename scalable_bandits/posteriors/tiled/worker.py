"""A shard of a large space: some of its tiles; the words are in `tiles.py`.

All shards of a space receive the same changes in the same order (`coordinator.py`), and each computes its own tiles.
Little is exchanged between them: the posterior at the observed candidate, and the folded rows at the candidates of a
batch. Every number follows from a tile and from these, and so is the same for any division of the tiles into shards. A
lost shard is made again from the collapsed observations as of the last rebuild, or from a restored state, and by the
changes since.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import weakref
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import Acquisition, finalists
from scalable_bandits.posteriors.exact.window import PointPosterior
from scalable_bandits.posteriors.placement import Call
from scalable_bandits.posteriors.state import State, arrays
from scalable_bandits.posteriors.tiled import tiles as tiling
from scalable_bandits.posteriors.tiled.ordering import GroupMaxima, tile_order
from scalable_bandits.posteriors.tiled.tiles import Tiles
from scalable_bandits.spaces import FiniteSpace, Indices

BY_TILE = ("window_rows",)  # entries of the state whose first dimension is that of the tiles
BY_CANDIDATE = ("mean", "variance")  # entries whose first dimension is that of the candidates
ROWS = "folded_rows."  # prefix of the entries with the folded rows, one for each tile
OF_A_SHARD = (*BY_TILE, *BY_CANDIDATE, "floored")  # entries that differ between shards, besides the folded rows


class Finalist(NamedTuple):
    """A candidate that may have the largest index of all."""

    position: int
    index_value: float
    posterior: PointPosterior


class Answer(NamedTuple):
    """Answer of a shard after it computed the index of its candidates."""

    finalists: list[Finalist]
    group_maxima: GroupMaxima
    floored: int  # number of floored variances since the last rebuild


class OrderedCandidates:
    """Candidates of a space in the order of the tiles.

    Parameters
    ----------
    space
        The space.

    Attributes
    ----------
    numbers : ndarray
        (n,) numbers of the candidates in the space.
    points : ndarray
        (n, d) points of the candidates.
    """

    def __init__(self, space: FiniteSpace):
        points = space.points()
        self.numbers = tile_order(points, tiling.TILE)
        self.points = np.ascontiguousarray(points[self.numbers])


_by_hash: weakref.WeakValueDictionary[bytes, OrderedCandidates] = weakref.WeakValueDictionary()


def _ordered_candidates(space: FiniteSpace) -> OrderedCandidates:
    """Return the candidates of a space in order, the same object for all shards of this process."""
    key = hashlib.sha256(pickle.dumps((space, tiling.TILE))).digest()
    found = _by_hash.get(key)
    if found is None:
        found = _by_hash[key] = OrderedCandidates(space)
    return found


class TilesShard(Tiles):
    """Some tiles of a large space, made from its specification.

    Parameters
    ----------
    kernel
        Prior covariance.
    space
        Space with all candidates.
    prior_mean
        Prior mean in units of y: one number, or (n,) in the order of the space.
    first, stop
        First tile of this shard, and one after the last.
    """

    def __init__(self, kernel: Kernel, space: FiniteSpace, prior_mean: float | Floats, first: int, stop: int):
        self._ordered = _ordered_candidates(space)
        self._numbers = self._ordered.numbers
        means = np.broadcast_to(prior_mean, (len(self._numbers),))[self._numbers]
        super().__init__(kernel, self._ordered.points, means, first, stop)

    def rebuild_from(self, collapsed: State) -> None:
        """Rebuild the rows from the state of collapsed observations, instead of those so far."""
        self._observed.restore(collapsed)
        self._rebuild()

    def _rebuild(self) -> None:
        super()._rebuild()
        self.floored = 0  # the coordinator counts those before the rebuild

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
        return Answer(found, self.group_maxima(), self.floored)

    def positions_here(self, positions: Indices) -> Indices:
        """Return those of the positions that are held here."""
        return positions[(positions >= self.held_span.start) & (positions < self.held_span.stop)]

    def count_floored(self) -> int:
        """Return the number of floored variances here since the last rebuild."""
        return self.floored

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
    ranges
        First tile, and one after the last, of each shard.

    Attributes
    ----------
    changes : list of Call
        Changes of all shards since the last rebuild, or since a state was restored.
    """

    def __init__(
        self, kernel: Kernel, space: FiniteSpace, prior_mean: float | Floats, ranges: Sequence[tuple[int, int]]
    ):
        self._given, self._ranges = (kernel, space, prior_mean), ranges
        self.restart()

    def restart(self, state: State | None = None, collapsed: State | None = None) -> None:
        """Make shards from a state of all tiles or from collapsed observations, if given, without changes."""
        self._state, self._collapsed = state, collapsed
        self.changes: list[Call] = []

    def __call__(self, number: int) -> functools.partial[TilesShard]:
        """Return the function that makes a shard."""
        first, stop = self._ranges[number]
        state = None if self._state is None else shard_state(self._state, tiling.TILE, first, stop)
        new_shard = functools.partial(TilesShard, *self._given, first, stop)
        return functools.partial(_make_shard, new_shard, state, self._collapsed, tuple(self.changes))


def _make_shard(
    new_shard: functools.partial[TilesShard], state: State | None, collapsed: State | None, changes: Sequence[Call]
) -> TilesShard:
    shard = new_shard()
    if state is not None:
        shard.restore(state)
    if collapsed is not None:
        shard.rebuild_from(collapsed)
    for change in changes:
        change.on(shard)
    return shard


def shard_state(state: State, tile_size: int, first: int, stop: int) -> State:
    """Return the part of a state of all tiles that belongs to the shard with some of them.

    Parameters
    ----------
    state
        Arrays (...,) by name.
    tile_size
        Number of candidates in a tile.
    first, stop
        First tile of the shard, and one after the last.
    """
    span = slice(first * tile_size, stop * tile_size)
    return {
        **{name: value for name, value in state.items() if not name.startswith(ROWS)},
        **{name: state[name][span] for name in BY_CANDIDATE}, **{name: state[name][first:stop] for name in BY_TILE},
        **arrays(floored=0),
        **{f"{ROWS}{tile}": state[f"{ROWS}{tile}"] for tile in range(first, stop)},
    }  # fmt: skip


def joined_state(states: Sequence[State]) -> State:
    """Join the states (...,) of all shards, in the order of their tiles."""
    joined = {name: np.concatenate([state[name] for state in states]) for name in (*BY_CANDIDATE, *BY_TILE)}
    rows = {name: value for state in states for name, value in state.items() if name.startswith(ROWS)}
    return {**joined, **rows, **arrays(floored=sum(int(state["floored"]) for state in states))}
