"""The blocked engine: exact posteriors on large finite spaces, in rows of L^-1 K and in tiles of candidates.

What makes it fast, all of it exact:

- Covariance columns are computed for a batch of the most promising candidates at a time, one matrix
  product each (BLAS 3), and kept up to date until they are played (`tiles.py`).
- A tile of candidates whose upper bound stays under the best index sleeps. While it does, its means move by at
  most its standard deviations times a known norm (`drift.py`), and these only shrink; it is woken
  as soon as the bound says that it could win.
- When repeated points have made the rows twice as many as the distinct points, one fold of all
  distinct points replaces them.

Tiles are a function of the space alone; what is computed ahead and what sleeps, of what was asked and told.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs
import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors import tiles as tiling
from scalable_bandits.posteriors.engine import TIE_TOLERANCE, Acquisition, Engine, choose
from scalable_bandits.posteriors.order import spatial_order
from scalable_bandits.posteriors.state import State, arrays, nested, part
from scalable_bandits.posteriors.tiles import Tiles
from scalable_bandits.spaces import Indices

SLACK = 1e-9  # relative room for rounding in upper bounds
PATIENCE = 32  # choices between two looks at which tiles might sleep


class Tops(NamedTuple):
    """Upper bounds of the index in the tiles asleep, and how long they hold."""

    naps: int  # of the tiles, as they were computed
    parameters: Floats  # of the index that they bound
    drift: float  # up to which they hold
    bounds: Floats  # (tiles,)


class BlockedEngine(Engine):
    """Exact posterior in row blocks and sleeping tiles: O(n m) memory for m distinct points.

    See `Engine` for the parameters and the interface.
    """

    asks_matter = True

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats):
        super().__init__(kernel, points, prior_mean)
        self._numbers = spatial_order(points, tiling.TILE)  # of the candidates, in the tiles' order
        self._position = np.empty_like(self._numbers)
        self._position[self._numbers] = np.arange(self.size)
        self._tiles = self.tiled(np.ascontiguousarray(points[self._numbers]), prior_mean[self._numbers])
        self._starts = np.arange(0, self.size, tiling.TILE)
        self._calls = 0
        self._drift_before = 0.0
        self._pace = 0.0  # drift between the last two looks
        self._open: tuple[int, Indices] = (-1, self._starts)  # positions awake, and when they were
        self._tops: dict[str, Tops] = {}  # by kind of index

    def tiled(self, points: Floats, prior_mean: Floats) -> Tiles:
        """The tiles, of points in their order."""
        return Tiles(self.kernel, points, prior_mean)

    def state(self) -> State:
        held = arrays(calls=self._calls, drift_before=self._drift_before, pace=self._pace)
        tops = {kind: arrays(**tops._asdict()) for kind, tops in self._tops.items()}
        return {**super().state(), **held, **nested(tiles=self._tiles.state(), tops=nested(**tops))}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._calls, self._pace = int(state["calls"]), float(state["pace"])
        self._drift_before = float(state["drift_before"])
        self._tiles.restore(part(state, "tiles"))
        held = part(state, "tops")
        for kind in {name.partition(".")[0] for name in held}:
            tops = part(held, kind)
            self._tops[kind] = Tops(int(tops["naps"]), tops["parameters"], float(tops["drift"]), tops["bounds"])
        self._open = -1, self._starts

    @property
    def asleep(self) -> NDArray[np.bool_]:
        """Which tiles sleep, (tiles,)."""
        return self._tiles.asleep

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        self._gain(self._tiles.observe(int(self._position[candidate]), y, noise_variance), noise_variance)
        self.floored = self._tiles.floored

    def mean(self) -> Floats:
        self._tiles.wake_all()
        return self._tiles.mean[self._position]

    def variance(self) -> Floats:
        self._tiles.wake_all()
        return self._tiles.variance[self._position]

    def variance_bound(self) -> Floats:
        return self._tiles.variance[self._position]

    def revise(self, candidates: Indices, changes: Floats, noise_variances: Floats) -> None:
        positions = self._position[candidates]
        slots = np.array([self._tiles.window.slot(p) for p in positions.tolist()])
        inside = slots >= 0
        weights = changes[inside] / noise_variances[inside]
        self._tiles.revise(slots[inside], positions[inside], weights)
        super().revise(candidates[~inside], changes[~inside], noise_variances[~inside])

    def at(self, candidates: Indices) -> tuple[Floats, Floats]:
        positions = self._position[candidates]
        for tile in np.unique(positions // tiling.TILE).tolist():
            self._tiles.wake(tile)
        return self._tiles.mean[positions], self._tiles.variance[positions]

    def columns(self, candidates: Indices) -> Floats:
        return self._tiles.columns(self._position[candidates])[:, self._position]

    def maximize(
        self,
        acquisition: Acquisition,
        salt: int,
        allowed: NDArray[np.bool_] | None = None,
        reduction: Floats | None = None,
    ) -> tuple[int, float]:
        tiles = self._tiles
        mask = None if allowed is None else allowed[self._numbers]
        if reduction is not None:  # whoever computed it asked for whole columns, so that all tiles are awake
            tiles.wake_all()
            scores = acquisition(tiles.mean, np.maximum(tiles.variance - reduction[self._numbers], 0.0))
            position, best = choose(scores, salt, mask, self._numbers)
            return int(self._numbers[position]), best
        awake = self._awake(mask)
        scores = acquisition(tiles.mean[awake], tiles.variance[awake])
        if tiles.asleep.any() and self._wake_winners(acquisition, mask, float(scores.max(initial=-np.inf))):
            awake = self._awake(mask)
            scores = acquisition(tiles.mean[awake], tiles.variance[awake])
        tiles.promise[awake] = scores
        position, best = choose(scores, salt, None, self._numbers[awake])
        if mask is None or 2 * mask.sum() > self.size:
            self._consider_sleep(acquisition, best)
        return int(self._numbers[awake][position]), best

    def _awake(self, mask: NDArray[np.bool_] | None) -> slice | Indices:
        """Positions that are awake and allowed."""
        if not self._tiles.asleep.any():
            return slice(None) if mask is None else np.flatnonzero(mask)
        if self._open[0] != self._tiles.changes:
            self._open = self._tiles.changes, np.flatnonzero(~self._tiles.spread(self._tiles.asleep))
        return self._open[1] if mask is None else self._open[1][mask[self._open[1]]]

    # ---- which tiles sleep

    def _wake_winners(self, acquisition: Acquisition, mask: NDArray[np.bool_] | None, best: float) -> bool:
        """Wake the tiles that could hold the largest index; tells whether there were any."""
        tiles = self._tiles
        tops = self._bounds(acquisition, mask).copy()
        tops[~tiles.asleep] = -np.inf
        woken = False
        while True:
            tile = int(np.argmax(tops))
            reach = best - (TIE_TOLERANCE + SLACK) * abs(best) if np.isfinite(best) else best
            if tops[tile] < reach or tops[tile] == -np.inf:
                return woken
            tiles.wake(tile)
            woken = True
            span = tiles.span(tile)
            scores = acquisition(tiles.mean[span], tiles.variance[span])
            best = max(best, float(np.max(scores, where=True if mask is None else mask[span], initial=-np.inf)))
            tops[tile] = -np.inf

    def _bounds(self, acquisition: Acquisition, mask: NDArray[np.bool_] | None) -> Floats:
        """Upper bounds (tiles,) of the index in the tiles asleep; -inf where nothing is allowed.

        Without a mask they are computed for a somewhat looser index and somewhat more drift, and hold until these are
        used up.
        """
        tiles = self._tiles
        if mask is not None:
            return self._tops_at(np.flatnonzero(tiles.spread(tiles.asleep) & mask), acquisition, 0.0)
        kind = type(acquisition)
        held = self._tops.get(kind.__name__)
        current = held is not None and held.naps == tiles.naps and tiles.drift.total <= held.drift
        if held is not None and current and kind(*held.parameters).covers(acquisition):
            return held.bounds
        positions = np.flatnonzero(tiles.spread(tiles.asleep))
        scale = float(np.sqrt(tiles.variance[positions].mean()))
        loosened, room = acquisition.loosened(scale), 0.5 * self._pace
        tops = self._tops_at(positions, loosened, room)
        parameters = np.array(attrs.astuple(loosened))  # type: ignore[arg-type]
        self._tops[kind.__name__] = Tops(tiles.naps, parameters, tiles.drift.total + room, tops)
        return tops

    def _tops_at(self, positions: Indices, acquisition: Acquisition, extra: float) -> Floats:
        tiles = self._tiles
        owner = positions // tiling.TILE
        room = tiles.drift.room(tiles.window.drift())[owner] + extra
        variance = tiles.variance[positions]
        bounds = np.full(self.size, -np.inf)
        bounds[positions] = acquisition.bound(tiles.mean[positions] + room * np.sqrt(variance), variance)
        tops = np.maximum.reduceat(bounds, self._starts)
        finite = np.isfinite(tops)
        tops[finite] += SLACK * np.abs(tops[finite])
        return tops

    def _consider_sleep(self, acquisition: Acquisition, best: float) -> None:
        """Now and then, put to sleep the tiles that would not win soon if the means kept moving as they did."""
        self._calls += 1
        if self._calls % PATIENCE:
            return
        tiles = self._tiles
        self._pace = tiles.drift.total - self._drift_before
        self._drift_before = tiles.drift.total
        bounds = acquisition.bound(tiles.mean + self._pace * np.sqrt(tiles.variance), tiles.variance)
        weak = ~tiles.asleep & (np.maximum.reduceat(bounds, self._starts) < best)
        if weak.any():
            tiles.sleep(weak)
