"""A shard of a large space: some of its tiles.

All shards of a space receive the same changes in the same order (`coordinator.py`), and each computes its own tiles.
Little is exchanged between them: the posterior's entries at the observed candidate, and the rows of candidates whose
columns are computed ahead. Every number follows from a tile and from these, and so is the same for any division of the
tiles into shards.
"""

from __future__ import annotations

import hashlib
import pickle
import weakref
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import Acquisition, finalists
from scalable_bandits.posteriors.exact.window import PointPosterior
from scalable_bandits.posteriors.state import State, arrays
from scalable_bandits.posteriors.tiled import tiles as tiling
from scalable_bandits.posteriors.tiled.ordering import tile_order
from scalable_bandits.posteriors.tiled.tiles import Tiles
from scalable_bandits.spaces import FiniteSpace, Indices

BY_TILE = ("rows",)  # arrays of the state by their first dimension
BY_CANDIDATE = ("mean", "variance", "promise")
BY_SLOT = ("cache",)
HERE = (*BY_TILE, *BY_CANDIDATE, *BY_SLOT, "floored")
ROWS = "tile_rows."


class Finalist(NamedTuple):
    """A candidate that may have the largest index of all."""

    position: int
    value: float  # its index
    posterior: PointPosterior


class Promised(NamedTuple):
    """The candidates of a shard whose columns may be computed or given up next."""

    group: int  # number of the first group of neighbours
    tops: Floats  # (groups,) largest promise in each group
    positions: Indices  # (groups,) its candidate
    cached: Floats  # promises of the candidates whose columns are cached


class Answer(NamedTuple):
    """Answer of a shard about its candidates."""

    finalists: list[Finalist]
    promised: Promised
    floored: int


class Ordered:
    """Candidates of a space in the tiles' order.

    Parameters
    ----------
    space
        The space.

    Attributes
    ----------
    numbers : ndarray
        (n,) numbers of the candidates.
    points : ndarray
        (n, d) their points.
    """

    def __init__(self, space: FiniteSpace):
        points = space.points()
        self.numbers = tile_order(points, tiling.TILE)
        self.points = np.ascontiguousarray(points[self.numbers])


_shared: weakref.WeakValueDictionary[bytes, Ordered] = weakref.WeakValueDictionary()  # by a hash of the space


def _in_order(space: FiniteSpace) -> Ordered:
    """Return the candidates of a space in order, the same object for all shards of this process."""
    key = hashlib.sha256(pickle.dumps((space, tiling.TILE))).digest()
    found = _shared.get(key)
    if found is None:
        found = _shared[key] = Ordered(space)
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
        Prior mean in units of y: one number, or (n,) in the space's order.
    first, stop
        Range of the tiles of this shard.
    """

    changing: ClassVar[frozenset[str]] = frozenset({"take", "load", "close", "bring_forward", "find_finalists"})

    def __init__(self, kernel: Kernel, space: FiniteSpace, prior_mean: float | Floats, first: int, stop: int):
        self._ordered = _in_order(space)
        self._numbers = self._ordered.numbers
        means = np.broadcast_to(prior_mean, (len(self._numbers),))[self._numbers]
        super().__init__(kernel, self._ordered.points, means, first, stop)

    def find_finalists(self, index: Acquisition, allowed: NDArray[np.uint8] | None, salt: int) -> Answer:
        """Compute the index of the candidates here (of those allowed, a mask in bits); return the possible winners."""
        mask = None if allowed is None else np.unpackbits(allowed, count=self.size).astype(np.bool_)
        where = self.compute_index(index, mask)
        best = finalists(self.index[where], salt, self._numbers[where])
        best = best + where.start if isinstance(where, slice) else where[best]
        found = [Finalist(p, float(self.index[p]), self.point_posterior(p)) for p in best.tolist()]
        return Answer(found, self.promised(), self.floored)

    def here(self, positions: Indices) -> Indices:
        """Return the positions that are in this shard."""
        return positions[(positions >= self.block.start) & (positions < self.block.stop)]

    def promised(self) -> Promised:
        """Return `group_maxima`, and the index of the candidates here whose columns are cached."""
        return Promised(*self.group_maxima(), self.index[self.here(self._column_cache.positions)])

    def rows_here(self, positions: Indices, start: int) -> Floats:
        """Return the rows from `start` on of the positions here, (k, height - start)."""
        return self._across(self.here(positions), self._height, start)

    def placed_here(self, positions: Indices) -> Floats:
        """Return `placed` of the positions here, (k, height + rank)."""
        return np.hstack(self.placed(self.here(positions)))

    def moments_here(self, positions: Indices | None) -> Floats:
        """Return mean and variance of the positions here, of all candidates here for None: (k, 2)."""
        return np.stack(self.moments(self.block if positions is None else self.here(positions)), axis=1)

    def covariances_here(self, positions: Indices, across: Floats, rows_at: Floats) -> Floats:
        """Return `covariances` of any positions with all candidates here, (k, block)."""
        return self.covariances(positions, across, rows_at)[:, self.block]

    def state_here(self) -> State:
        """Return the arrays (...,) of the state that only this shard has."""
        return {name: value for name, value in self.state().items() if name in HERE or name.startswith(ROWS)}


def shard_state(state: State, width: int, first: int, stop: int) -> State:
    """Return the part of a state of all tiles for the shard with some of them.

    Parameters
    ----------
    state
        Arrays (...,) by name.
    width
        Number of candidates in a tile.
    first, stop
        Range of the tiles.
    """
    block = slice(first * width, stop * width)
    floored = state["floored"] if first == 0 else 0
    return {
        **{name: value for name, value in state.items() if not name.startswith(ROWS)},
        **{name: state[name][block] for name in BY_CANDIDATE}, **{name: state[name][first:stop] for name in BY_TILE},
        **{name: state[name][:, first:stop] for name in BY_SLOT}, **arrays(floored=floored),
        **{f"{ROWS}{tile}": state[f"{ROWS}{tile}"] for tile in range(first, stop)},
    }  # fmt: skip


def joined_state(states: Sequence[State]) -> State:
    """Join the states (...,) of all shards, in the order of their tiles."""
    joined = {name: np.concatenate([state[name] for state in states]) for name in (*BY_CANDIDATE, *BY_TILE)}
    beside = {name: np.concatenate([state[name] for state in states], axis=1) for name in BY_SLOT}
    rows = {name: value for state in states for name, value in state.items() if name.startswith(ROWS)}
    return {**joined, **beside, **rows, **arrays(floored=sum(int(state["floored"]) for state in states))}
