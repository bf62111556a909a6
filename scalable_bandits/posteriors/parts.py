"""Some of the tiles of a large space, to be held apart from the others: a block of candidates.

All places where tiles of one space are held do the same things in the same order (`spread.py`), each with the tiles
of its own. What crosses between them is little: what is known of the candidate that was observed, and the rows of
those whose columns are computed ahead. Every number follows from a tile and from these, so that it is the same however
the tiles are shared out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors import tiles as tiling
from scalable_bandits.posteriors.engine import Acquisition, finalists
from scalable_bandits.posteriors.order import tile_order
from scalable_bandits.posteriors.state import State, arrays
from scalable_bandits.posteriors.tiles import Tiles
from scalable_bandits.posteriors.window import Seen
from scalable_bandits.spaces import FiniteSpace, Indices

BY_TILE = ("rows", "done", "known")
BY_CANDIDATE = ("mean", "variance", "base_mean", "base_variance", "promise")
BY_SLOT = ("cache", "fresh")
HERE = (*BY_TILE, *BY_CANDIDATE, *BY_SLOT, "floored")
ROWS = "tile_rows."

Order = tuple[str, tuple[Any, ...]]  # a method of `PartialTiles` and its arguments


class Finalist(NamedTuple):
    """A candidate that may have the largest index of all."""

    position: int
    score: float
    seen: Seen


class Promised(NamedTuple):
    """Of which candidates held at one place columns might be computed, and which others may be given up."""

    group: int  # the first
    tops: Floats  # (groups,)
    where: Indices  # (groups,)
    cached: Floats  # promises of those whose columns are at hand


class Answer(NamedTuple):
    """What is said at one place about the candidates there."""

    finalists: list[Finalist]
    promised: Promised
    floored: int


class PartialTiles(Tiles):
    """Tiles of which only those from `first` to `stop` are held here.

    See `Tiles`, and `Engine` for the other parameters.
    """

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats, first: int, stop: int):
        super().__init__(kernel, points, prior_mean, first, stop)
        self._guests: dict[int, Floats] = {}  # rows so far (height,) of candidates that are held elsewhere

    def here(self, positions: Indices) -> Indices:
        """Those of some positions that are held here."""
        return positions[self.own[positions // self.width]]

    # ---- what comes from elsewhere

    def _across(self, positions: Indices, stop: int, start: int = 0) -> Floats:
        out = np.empty((len(positions), stop - start))
        for row, p in zip(out, positions.tolist() if stop > start else (), strict=False):
            tile, offset = divmod(p, self.width)
            held = self._tile_rows[tile][:, offset] if self.own[tile] else self._guests[p]
            row[:] = held[start:stop]
        return out

    def load(self, chosen: Indices, across: Floats, worst: list[int]) -> None:
        for p, row in zip(chosen.tolist(), across, strict=True):
            if not self.own[p // self.width]:
                self._guests[p] = row.copy()
        super().load(chosen, across, worst)

    def bring_forward(self, newest: Floats) -> None:
        for p, row in zip(self._ahead.positions.tolist(), newest, strict=True):
            if not self.own[p // self.width]:
                self._guests[p] = np.append(self._guests[p], row)
        super().bring_forward(newest)

    def _rebuild(self) -> None:
        before = len(self._folds)
        super()._rebuild()
        if len(self._folds) < before:  # all rows are others now
            self._guests.clear()

    # ---- what others ask

    def contest(
        self,
        index: Acquisition,
        mask: NDArray[np.bool_] | None,
        salt: int,
        numbers: Indices,
        tiles: Sequence[int] | None,
    ) -> list[Finalist]:
        """Score the candidates awake, or those of some tiles; those of them that may have the largest index."""
        if tiles is None:
            self.score(index, mask, salt)
            where = self.awake(mask)
        else:
            where = np.concatenate([self.among(tile, mask) for tile in tiles if self.own[tile]])
            self.promise[where] = index(self.mean[where], self.variance[where])
        best = finalists(self.promise[where], salt, numbers[where])
        best = best + where.start if isinstance(where, slice) else where[best]
        return [Finalist(p, float(self.promise[p]), self.seen(p)) for p in best.tolist()]

    def promised(self) -> Promised:
        """`promising`, and the promises of those held here whose columns are at hand."""
        return Promised(*self.promising(), self.promise[self.here(self._ahead.positions)])

    def rows_of(self, positions: Indices) -> Floats:
        """Rows so far of those held here, (k, height)."""
        return self._across(self.here(positions), self._height)

    def newest_here(self) -> Floats:
        """`newest` of those held here."""
        return self._across(self.here(self._ahead.positions), self._height, self._folds[-1].height)

    def placed_here(self, positions: Indices) -> Floats:
        """`placed` of those held here, (k, height + rank)."""
        return np.hstack(self.placed(self.here(positions)))

    def moments_here(self, positions: Indices | None) -> Floats:
        """Mean and variance of those held here, of all for None: (k, 2)."""
        return np.stack(self.moments(self.block if positions is None else self.here(positions)), axis=1)

    def covariances_here(self, positions: Indices, across: Floats, rows_at: Floats) -> Floats:
        """`covariances` with those held here, (k, block)."""
        return self.covariances(positions, across, rows_at)[:, self.block]

    # ---- kept and taken up again

    def state_here(self) -> State:
        """What is known here and nowhere else."""
        return {name: value for name, value in self.state().items() if name in HERE or name.startswith(ROWS)}

    def restore_here(self, state: State, guests: dict[int, Floats]) -> None:
        """Hold what `cut` gave, and rows of candidates held elsewhere."""
        self.restore(state)
        self._guests = dict(guests)


def cut(state: State, width: int, first: int, stop: int) -> State:
    """Part of a state of `Tiles` that a place needs which holds the tiles from `first` to `stop`, of so many each."""
    block, numbers = slice(first * width, stop * width), range(first, stop)
    return {
        **{name: value for name, value in state.items() if not name.startswith(ROWS)},
        **{name: state[name][block] for name in BY_CANDIDATE}, **{name: state[name][first:stop] for name in BY_TILE},
        **{name: state[name][:, first:stop] for name in BY_SLOT}, **arrays(floored=0),
        **{f"{ROWS}{tile}": state[f"{ROWS}{tile}"] for tile in numbers},
    }  # fmt: skip


def whole(states: Sequence[State]) -> State:
    """What places know, each of the tiles after those of the one before, put together."""
    joined = {name: np.concatenate([state[name] for state in states]) for name in (*BY_CANDIDATE, *BY_TILE)}
    beside = {name: np.concatenate([state[name] for state in states], axis=1) for name in BY_SLOT}
    rows = {name: value for state in states for name, value in state.items() if name.startswith(ROWS)}
    return {**joined, **beside, **rows, **arrays(floored=sum(int(state["floored"]) for state in states))}


class TilesShard:
    """A block of candidates, made from its specification and given orders.

    Parameters
    ----------
    kernel
        Prior covariance.
    space
        Whose candidates.
    prior_mean
        One number, or (n,).
    first, stop
        Tiles held here.
    """

    CHANGING: ClassVar[frozenset[str]] = frozenset({"work", "restore"})
    ASKING: ClassVar[frozenset[str]] = frozenset()
    asks_matter: ClassVar[bool] = False

    def __init__(self, kernel: Kernel, space: FiniteSpace, prior_mean: float | Floats, first: int, stop: int):
        points = space.points()
        self._numbers = tile_order(points, tiling.TILE)
        means = np.broadcast_to(prior_mean, (len(points),))[self._numbers]
        self._tiles = PartialTiles(kernel, np.ascontiguousarray(points[self._numbers]), means, first, stop)
        self._done = 0  # orders

    def work(self, first: int, orders: Sequence[Order], query: str, *arguments: Any) -> Any:
        """Carry out those of some orders, numbered from `first` on, that are new here; then answer a question."""
        for method, given in orders[self._done - first :]:
            getattr(self._tiles, method)(*given)
        self._done = first + len(orders)
        return getattr(self if query == "contest" else self._tiles, query)(*arguments)

    def contest(
        self, index: Acquisition, allowed: NDArray[np.uint8] | None, salt: int, tiles: Sequence[int] | None
    ) -> Answer:
        """`PartialTiles.contest` among those allowed (a mask in bits)."""
        mask = None if allowed is None else np.unpackbits(allowed, count=len(self._numbers)).astype(np.bool_)
        finalists = self._tiles.contest(index, mask, salt, self._numbers, tiles)
        return Answer(finalists, self._tiles.promised(), self._tiles.floored)

    def restore(self, state: State, guests: dict[int, Floats]) -> None:
        """Hold what `cut` gave."""
        self._tiles.restore_here(state, guests)
        self._done = 0
