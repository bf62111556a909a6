"""Tiles of a large space that are held in several places, and who gives the orders.

    orders     what all places do, in this order: `PartialTiles.take` an observation, `load` columns, `close` and
               `bring_forward` a window, `rouse` tiles, put them to `sleep`
    questions  what only the places concerned answer, after the orders so far: which of their candidates may have the
               largest index, and what is known of these

A round is one question to the places that have tiles awake, with the observation before it as the order; the answer
brings what is known of the next one. Places whose tiles all sleep are left alone, and catch up as they are needed. A
new batch of columns costs two questions more, a full window one.

What is done here is done as everywhere, by tiles of which none is held here; of tiles asleep mean and variance are
kept, so that their bounds can be looked after.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import Acquisition, choose
from scalable_bandits.posteriors.parts import Finalist, Order, PartialTiles, Promised, TilesShard, cut, whole
from scalable_bandits.posteriors.places import Place
from scalable_bandits.posteriors.state import State
from scalable_bandits.posteriors.window import Seen
from scalable_bandits.spaces import FiniteSpace, Indices

TILES_A_PART = 12  # about; as many as a part of 32 has of a larger space
PARTS = 32  # at the most


class SpreadTiles(PartialTiles):
    """Tiles in parts, each held where a place puts it. See `Tiles`.

    Parameters
    ----------
    kernel, points, prior_mean
        As for `Tiles`, in the tiles' order.
    space, means
        Whose candidates, and the prior mean (n,) in their own order: what a part is made from.
    place
        Where the parts live.
    """

    def __init__(
        self, kernel: Kernel, points: Floats, prior_mean: Floats, space: FiniteSpace, means: Floats, place: Place
    ):
        super().__init__(kernel, points, prior_mean, 0, 0)
        count = len(self.own)
        self._edges = np.linspace(0, count, int(np.clip(count // TILES_A_PART, 1, PARTS)) + 1).astype(int)
        self._part_of = np.repeat(np.arange(len(self._edges) - 1), np.diff(self._edges))
        given = float(means[0]) if (means == means[0]).all() else means
        self._parts = place.shards(
            [
                functools.partial(TilesShard, kernel, space, given, first, stop)
                for first, stop in zip(self._edges[:-1].tolist(), self._edges[1:].tolist(), strict=True)
            ]
        )
        self._orders: list[Order] = []  # those that some part does not have yet
        self._dropped = 0  # orders before these
        self._sent = [0] * self.parts  # to each part
        self._inside = False  # an order
        self._half_folded = False
        self._unkept = np.zeros(count, dtype=np.bool_)  # tiles asleep whose mean and variance are not yet here
        self._floors = [0] * self.parts
        self._finalists: list[Finalist] = []
        self._promised: dict[int, Promised] = {}  # by part, as they said with their finalists
        self._finalist: Finalist | None = None  # the best of them
        self._current = False  # whether they would say the same now

    @property
    def parts(self) -> int:
        """How many there are."""
        return len(self._edges) - 1

    # ---- orders and questions

    def _order(self, method: str, *given: Any) -> Any:
        """Have everybody do something, here at once and elsewhere before the next question."""
        outer, self._inside = self._inside, True
        try:
            result = getattr(super(), method)(*given)
        finally:
            self._inside = outer
        if not outer:
            self._orders.append((method, given))
            self._current &= method == "rouse"
            if method not in ("rouse", "sleep", "load"):
                self._finalist = None
        return result

    def _ask(self, parts: Sequence[int], query: str, *arguments: Any) -> list[Any]:
        """Answers of some parts, in their order."""
        if not len(parts):
            return []
        first = min(self._sent[part] for part in parts)
        orders = self._orders[first - self._dropped :]
        answers = self._parts.each(parts, "work", first, orders, query, *arguments)
        for part in parts:
            self._sent[part] = first + len(orders)
        known = min(self._sent) - self._dropped
        del self._orders[:known]
        self._dropped += known
        return answers

    def _all(self) -> list[int]:
        return list(range(self.parts))

    def _awake(self) -> list[int]:
        """Parts with tiles awake."""
        found: list[int] = np.unique(self._part_of[~self.asleep]).tolist()
        return found

    def _gather(self, positions: Indices, query: str, *arguments: Any) -> Floats:
        """Rows (k, ...) of positions, each from the part that holds it."""
        owners = self._part_of[positions // self.width]
        parts = np.unique(owners).tolist()
        answers = self._ask(parts, query, *arguments)
        out = np.empty((len(positions), answers[0].shape[1] if answers else 0))
        for part, answer in zip(parts, answers, strict=True):
            out[owners == part] = answer
        return out

    # ---- observing

    def take(self, p: int, y: float, noise_variance: float, seen: Seen) -> float:
        before: float = self._order("take", p, y, noise_variance, seen)
        return before

    def seen(self, p: int) -> Seen:
        if self._finalist is not None and self._finalist.position == p:
            return self._finalist.seen
        found: Seen = self._ask([int(self._part_of[p // self.width])], "seen", p)[0]
        return found

    def _likely(self, p: int, noise_variance: float) -> Indices:
        if not self._current:
            parts = self._awake()
            self._promised = dict(zip(parts, self._ask(parts, "promised"), strict=True))
        count = -(-self.size // self._neighbours)
        tops, where = np.full(count, -np.inf), np.zeros(count, dtype=np.int64)
        held = self._ahead.positions
        owners = self._part_of[held // self.width]
        for part, (first, more, positions, cached) in self._promised.items():
            groups = slice(first, first + len(more))
            where[groups] = np.where(more > tops[groups], positions, where[groups])
            np.maximum(tops[groups], more, out=tops[groups])
            self.promise[held[owners == part]] = cached
        return self._chosen(p, tops, where)

    def _load(self, chosen: Indices) -> None:
        worst = self._ahead.worst(len(chosen) - self._ahead.free, self.promise)
        self._order("load", chosen, self._gather(chosen, "rows_of", chosen), worst)

    def observe(self, p: int, y: float, noise_variance: float) -> float:
        if self._half_folded:
            self._fold()
        return super().observe(p, y, noise_variance)

    def _fold(self) -> None:
        if not self._half_folded:
            self._order("close")
        self._half_folded = True  # if the places cannot be reached now, the rest is done the next time
        newest = self._gather(self._ahead.positions, "newest_here")
        naps = self.naps
        self._order("bring_forward", newest)
        self._half_folded = False
        if self.naps != naps:
            self._keep(np.ones(len(self.asleep), dtype=np.bool_))

    def rouse(self, tiles: Sequence[int]) -> None:
        sleeping = [tile for tile in tiles if self.asleep[tile]]
        if sleeping:
            self._order("rouse", sleeping)

    def sleep(self, tiles: NDArray[np.bool_]) -> None:
        outermost = not self._inside
        self._order("sleep", tiles)
        if outermost:
            self._keep(tiles)

    def _keep(self, tiles: NDArray[np.bool_]) -> None:
        """Keep mean and variance of tiles that fell asleep."""
        self._unkept |= tiles
        where = np.flatnonzero(self.spread(self._unkept))
        self.mean[where], self.variance[where] = self._gather(where, "moments_here", where).T
        self._unkept[:] = False

    def revise(self, slots: Indices, positions: Indices, weights: Floats) -> None:
        raise NotImplementedError("values are not revised in tiles that are held elsewhere")

    # ---- asked about

    def score(self, index: Acquisition, mask: NDArray[np.bool_] | None, salt: int) -> float:
        if self._unkept.any():
            self._keep(self._unkept)
        self._finalists, self._promised = [], {}
        return self._contest(self._awake(), index, mask, salt, None)

    def roused(self, tiles: Sequence[int], index: Acquisition, mask: NDArray[np.bool_] | None, salt: int) -> float:
        self.rouse(tiles)
        return self._contest(np.unique(self._part_of[list(tiles)]).tolist(), index, mask, salt, tiles)

    def _contest(
        self, parts: Sequence[int], index: Acquisition, mask: NDArray[np.bool_] | None, salt: int, tiles: Any
    ) -> float:
        allowed = None if mask is None else np.packbits(mask)
        answers = self._ask(parts, "contest", index, allowed, salt, tiles)
        for part, answer in zip(parts, answers, strict=True):
            self._floors[part], self._promised[part] = answer.floored, answer.promised
        self.floored = sum(self._floors)
        found = [finalist for answer in answers for finalist in answer.finalists]
        self._finalists += found
        self._current = True
        return max((finalist.score for finalist in found), default=-np.inf)

    def leader(self, salt: int, numbers: Indices, mask: NDArray[np.bool_] | None) -> tuple[int, float]:
        positions, indices, _ = zip(*self._finalists, strict=True)
        chosen, best = choose(np.array(indices), salt, None, numbers[list(positions)])
        self._finalist = self._finalists[chosen]
        return positions[chosen], best

    def tops(self, index: Acquisition, pace: float) -> Floats:
        found = self._ask(self._awake(), "tops", index, pace)
        return np.min([np.full(len(self.asleep), np.inf), *found], axis=0)

    def moments(self, positions: Any) -> tuple[Floats, Floats]:
        if isinstance(positions, slice):
            found = np.concatenate(self._ask(self._all(), "moments_here", None))[positions]
        else:
            found = self._gather(positions, "moments_here", positions)
        return found[:, 0].copy(), found[:, 1].copy()

    def placed(self, positions: Indices) -> tuple[Floats, Floats]:
        rows = self._gather(positions, "placed_here", positions)
        return rows[:, : self._height].copy(), rows[:, self._height :].copy()

    def covariances(self, positions: Indices, across: Floats, rows_at: Floats) -> Floats:
        return np.concatenate(self._ask(self._all(), "covariances_here", positions, across, rows_at), axis=1)

    # ---- kept and taken up again

    def state(self) -> State:
        return {**super().state(), **whole(self._ask(self._all(), "state_here"))}

    def restore(self, state: State) -> None:
        super().restore(cut(state, self.width, 0, 0))
        self.mean[:], self.variance[:] = state["mean"], state["variance"]
        self._orders, self._dropped, self._sent, self._finalist = [], 0, [0] * self.parts, None
        self._floors = [int(state["floored"]), *[0] * (self.parts - 1)]
        self._guests = self._guests_of(state)
        for part, (first, stop) in enumerate(zip(self._edges[:-1].tolist(), self._edges[1:].tolist(), strict=True)):
            self._parts.each([part], "restore", cut(state, self.width, first, stop), self._guests)

    def _guests_of(self, state: State) -> dict[int, Floats]:
        """Rows so far of all candidates that a part may ask for: observed since all rows were made anew, or cached."""
        known = {p for fold in self._folds if fold.height for p in fold.points.tolist()}
        known |= {*self.window.points, *self._ahead.slots}
        rows = {}
        for p in known:
            tile, offset = divmod(p, self.width)
            rows[p] = state[f"tile_rows.{tile}"][:, offset].copy()
        return rows
