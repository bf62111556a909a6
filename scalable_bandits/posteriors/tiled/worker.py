"""A shard of a large space: some of its tiles.

All shards of a space receive the same changes in the same order (`coordinator.py`), and each computes its own tiles.
Little is exchanged between them: the posterior's entries at the observed candidate, and the rows of candidates whose
columns are computed ahead. Every number follows from a tile and from these, and so is the same for any division of the
tiles into shards. A lost shard is made again from the collapsed observations as of the last refit, or from a restored
state, and from the observations since.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import pickle
import weakref
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
BY_CANDIDATE = ("mean", "variance")
HERE = (*BY_TILE, *BY_CANDIDATE, "floored")
ROWS = "tile_rows."


class Finalist(NamedTuple):
    """A candidate that may have the largest index of all."""

    position: int
    value: float  # its index
    posterior: PointPosterior


class Promised(NamedTuple):
    """The candidates of a shard whose columns may be computed next."""

    group: int  # number of the first group of neighbours
    tops: Floats  # (groups,) largest promise in each group
    positions: Indices  # (groups,) its candidate


class Answer(NamedTuple):
    """Answer of a shard about its candidates."""

    finalists: list[Finalist]
    promised: Promised
    floored: int


class Observed(NamedTuple):
    """An observation, with what a shard learns from others about its position."""

    position: int
    y: float
    noise_variance: float
    here: PointPosterior  # posterior at the position before it
    across: Floats | None  # (height,) rows W there, of a position that is new in the window


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

    def __init__(self, kernel: Kernel, space: FiniteSpace, prior_mean: float | Floats, first: int, stop: int):
        self._ordered = _in_order(space)
        self._numbers = self._ordered.numbers
        means = np.broadcast_to(prior_mean, (len(self._numbers),))[self._numbers]
        super().__init__(kernel, self._ordered.points, means, first, stop)

    def refit(self, observed: State) -> None:
        """Replace the rows by those of collapsed observations."""
        self._observed.restore(observed)
        self._rebuild()

    def _rebuild(self) -> None:
        super()._rebuild()
        self.floored = 0  # the coordinator has those before

    def take_all(self, observed: Sequence[Observed]) -> None:
        """Take observations, of which the shard has no columns; a full window is closed where the coordinator did."""
        for i, each in enumerate(observed):
            if each.across is not None:
                if self.window.rank == self.window.capacity:
                    self.close()
                if each.position not in self._column_cache.slots:
                    later = (other for other in itertools.islice(observed, i, None) if other.across is not None)
                    self.load_all({o.position: o.across for o in itertools.islice(later, self._batch_size)})
            self.take(each.position, each.y, each.noise_variance, each.here)

    def load_all(self, across: Mapping[int, Floats | None]) -> None:
        """Compute the columns of positions with rows W (height,)."""
        if across:
            self.load(np.array(list(across)), np.array(list(across.values())))

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
        """Return `group_maxima`."""
        return Promised(*self.group_maxima())

    def count_floored(self) -> int:
        """Return the number of floored variances here since the last refit."""
        return self.floored

    def rows_here(self, positions: Indices) -> Floats:
        """Return the rows W of the positions here, (k, height)."""
        return self._across(self.here(positions), self._height)

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


class TilesSource:
    """Source of the shards of a space.

    Parameters
    ----------
    kernel, space, prior_mean
        See `TilesShard`.
    ranges
        First tile, and one after the last, of each shard.

    Attributes
    ----------
    observed : list of Observed
        Observations since the last refit, or since the state.
    across : dict
        Rows W (height,) of the positions whose columns are computed but not observed, in the order of `TileColumns`.
    """

    def __init__(
        self, kernel: Kernel, space: FiniteSpace, prior_mean: float | Floats, ranges: Sequence[tuple[int, int]]
    ):
        self._given, self._ranges = (kernel, space, prior_mean), ranges
        self.begin()

    def begin(self, state: State | None = None, refit: State | None = None) -> None:
        """Begin with a state of all tiles, with collapsed observations, or without any."""
        self._state, self._refit = state, refit
        self.observed: list[Observed] = []
        self.across: dict[int, Floats] = {}

    def __call__(self, number: int) -> functools.partial[TilesShard]:
        """Return the function that makes a shard."""
        first, stop = self._ranges[number]
        state = None if self._state is None else shard_state(self._state, tiling.TILE, first, stop)
        make = functools.partial(TilesShard, *self._given, first, stop)
        return functools.partial(_made, make, state, self._refit, tuple(self.observed), dict(self.across))


def _made(
    make: functools.partial[TilesShard], state: State | None, refit: State | None, observed: Sequence[Observed],
    across: Mapping[int, Floats],
) -> TilesShard:  # fmt: skip
    shard = make()
    if state is not None:
        shard.restore(state)
    if refit is not None:
        shard.refit(refit)
    shard.take_all(observed)
    shard.load_all(across)
    return shard


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
    return {
        **{name: value for name, value in state.items() if not name.startswith(ROWS)},
        **{name: state[name][block] for name in BY_CANDIDATE}, **{name: state[name][first:stop] for name in BY_TILE},
        **arrays(floored=0),
        **{f"{ROWS}{tile}": state[f"{ROWS}{tile}"] for tile in range(first, stop)},
    }  # fmt: skip


def joined_state(states: Sequence[State]) -> State:
    """Join the states (...,) of all shards, in the order of their tiles."""
    joined = {name: np.concatenate([state[name] for state in states]) for name in (*BY_CANDIDATE, *BY_TILE)}
    rows = {name: value for state in states for name, value in state.items() if name.startswith(ROWS)}
    return {**joined, **rows, **arrays(floored=sum(int(state["floored"]) for state in states))}
