"""A shard of a large space: some of its tiles, held apart from the others.

All shards of a space are told the same in the same order (`coordinator.py`), and each computes with its own tiles. What
crosses between them is little: what is known of the candidate that was observed, and the rows of those whose columns
are computed ahead. Every number follows from a tile and from these, so that it is the same however the tiles are
divided.
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

BY_TILE = ("rows",)
BY_CANDIDATE = ("mean", "variance", "promise")
BY_SLOT = ("cache",)
HERE = (*BY_TILE, *BY_CANDIDATE, *BY_SLOT, "floored")
ROWS = "tile_rows."


class Finalist(NamedTuple):
    """A candidate that may have the largest index of all."""

    position: int
    score: float
    posterior: PointPosterior


class Promised(NamedTuple):
    """The candidates of a shard whose columns might be computed, and those whose columns may be given up."""

    group: int  # the first
    tops: Floats  # (groups,)
    where: Indices  # (groups,)
    cached: Floats  # promises of those whose columns are at hand


class Answer(NamedTuple):
    """What a shard answers about its candidates."""

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
        (n,) of the candidates.
    points : ndarray
        (n, d).
    """

    def __init__(self, space: FiniteSpace):
        points = space.points()
        self.numbers = tile_order(points, tiling.TILE)
        self.points = np.ascontiguousarray(points[self.numbers])


_shared: weakref.WeakValueDictionary[bytes, Ordered] = weakref.WeakValueDictionary()  # by the space


def _in_order(space: FiniteSpace) -> Ordered:
    """The candidates of a space in order, once for all shards of this process."""
    key = hashlib.sha256(pickle.dumps((space, tiling.TILE))).digest()
    found = _shared.get(key)
    if found is None:
        found = _shared[key] = Ordered(space)
    return found


class TilesPart(Tiles):
    """Some tiles of a large space, made from its specification.

    Parameters
    ----------
    kernel
        Prior covariance.
    space
        Space with all candidates.
    prior_mean
        One number, or (n,).
    first, stop
        Range of the tiles of this shard.
    """

    CHANGING: ClassVar[frozenset[str]] = frozenset({"take", "load", "close", "bring_forward", "contest"})
    ASKING: ClassVar[frozenset[str]] = frozenset()
    ask_is_stateful: ClassVar[bool] = False

    def __init__(self, kernel: Kernel, space: FiniteSpace, prior_mean: float | Floats, first: int, stop: int):
        self._ordered = _in_order(space)
        self._numbers = self._ordered.numbers
        means = np.broadcast_to(prior_mean, (len(self._numbers),))[self._numbers]
        super().__init__(kernel, self._ordered.points, means, first, stop)

    def contest(self, index: Acquisition, allowed: NDArray[np.uint8] | None, salt: int) -> Answer:
        """Score the candidates of this shard, or those allowed (a mask in bits); those that may have the largest."""
        mask = None if allowed is None else np.unpackbits(allowed, count=self.size).astype(np.bool_)
        where = self.compute_index(index, mask)
        best = finalists(self.index[where], salt, self._numbers[where])
        best = best + where.start if isinstance(where, slice) else where[best]
        found = [Finalist(p, float(self.index[p]), self.point_posterior(p)) for p in best.tolist()]
        return Answer(found, self.promised(), self.floored)

    def here(self, positions: Indices) -> Indices:
        """Those of some positions that are held here."""
        return positions[(positions >= self.block.start) & (positions < self.block.stop)]

    def promised(self) -> Promised:
        """`group_maxima`, and the promises of those held here whose columns are at hand."""
        return Promised(*self.group_maxima(), self.index[self.here(self._column_cache.positions)])

    def rows_here(self, positions: Indices) -> Floats:
        """Rows so far of those held here, (k, height)."""
        return self._across(self.here(positions), self._height)

    def newest_here(self) -> Floats:
        """`newest` of those held here."""
        return self._across(self.here(self._column_cache.positions), self._height, self._newest)

    def placed_here(self, positions: Indices) -> Floats:
        """`placed` of those held here, (k, height + rank)."""
        return np.hstack(self.placed(self.here(positions)))

    def moments_here(self, positions: Indices | None) -> Floats:
        """Mean and variance of those held here, of all for None: (k, 2)."""
        return np.stack(self.moments(self.block if positions is None else self.here(positions)), axis=1)

    def covariances_here(self, positions: Indices, across: Floats, rows_at: Floats) -> Floats:
        """`covariances` with those held here, (k, block)."""
        return self.covariances(positions, across, rows_at)[:, self.block]

    def state_here(self) -> State:
        """What is known here and nowhere else."""
        return {name: value for name, value in self.state().items() if name in HERE or name.startswith(ROWS)}


def cut(state: State, width: int, first: int, stop: int) -> State:
    """State of a shard with the tiles from `first` to `stop`, of so many candidates each, from that of all tiles."""
    block, numbers = slice(first * width, stop * width), range(first, stop)
    floored = state["floored"] if first == 0 else 0
    return {
        **{name: value for name, value in state.items() if not name.startswith(ROWS)},
        **{name: state[name][block] for name in BY_CANDIDATE}, **{name: state[name][first:stop] for name in BY_TILE},
        **{name: state[name][:, first:stop] for name in BY_SLOT}, **arrays(floored=floored),
        **{f"{ROWS}{tile}": state[f"{ROWS}{tile}"] for tile in numbers},
    }  # fmt: skip


def whole(states: Sequence[State]) -> State:
    """What shards know, each of the tiles after those of the one before, put together."""
    joined = {name: np.concatenate([state[name] for state in states]) for name in (*BY_CANDIDATE, *BY_TILE)}
    beside = {name: np.concatenate([state[name] for state in states], axis=1) for name in BY_SLOT}
    rows = {name: value for state in states for name, value in state.items() if name.startswith(ROWS)}
    return {**joined, **beside, **rows, **arrays(floored=sum(int(state["floored"]) for state in states))}
