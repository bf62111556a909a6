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
from scalable_bandits.posteriors.order import tile_order
from scalable_bandits.posteriors.places import Place
from scalable_bandits.posteriors.spread import SpreadTiles
from scalable_bandits.posteriors.state import State, arrays, nested, part
from scalable_bandits.posteriors.tiles import Tiles
from scalable_bandits.spaces import FiniteSpace, Indices, Points

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

    See `Engine` for the other parameters and the interface.

    Parameters
    ----------
    place
        Where blocks of candidates are held (`spread.py`); in this process, in one piece, if not given.
    space
        Whose candidates these are, for whoever holds some of them: a grid takes less to say than its points.
    """

    asks_matter = True

    def __init__(
        self, kernel: Kernel, points: Floats, prior_mean: Floats, place: Place | None = None,
        space: FiniteSpace | None = None,
    ):  # fmt: skip
        super().__init__(kernel, points, prior_mean)
        self._place, self._space = place, space
        self._numbers = tile_order(points, tiling.TILE)  # of the candidates, in the tiles' order
        self._position = np.empty_like(self._numbers)
        self._position[self._numbers] = np.arange(self.size)
        self._tiles = self.tiled(np.ascontiguousarray(points[self._numbers]), prior_mean[self._numbers])
        self._starts = np.arange(0, self.size, tiling.TILE)
        self._calls = 0
        self._drift_before = 0.0
        self._pace = 0.0  # drift between the last two looks
        self._tops: dict[str, Tops] = {}  # by kind of index

    def tiled(self, points: Floats, prior_mean: Floats) -> Tiles:
        """The tiles, of points (n, d) in their order, with prior means (n,)."""
        if self._place is None:
            return Tiles(self.kernel, points, prior_mean)
        space = Points(self.points) if self._space is None else self._space
        means = np.empty(self.size)
        means[self._numbers] = prior_mean
        return SpreadTiles(self.kernel, points, prior_mean, space, means, self._place)

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

    @property
    def asleep(self) -> NDArray[np.bool_]:
        """Which tiles sleep, (tiles,)."""
        return self._tiles.asleep

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        self._gain(self._tiles.observe(int(self._position[candidate]), y, noise_variance), noise_variance)
        self.floored = self._tiles.floored

    def mean(self) -> Floats:
        return self._everything()[0][self._position]

    def variance(self) -> Floats:
        return self._everything()[1][self._position]

    def _everything(self) -> tuple[Floats, Floats]:
        """Mean and variance at all positions, two (n,) arrays."""
        self._tiles.wake_all()
        return self._tiles.moments(slice(None))

    def variance_bound(self) -> Floats:
        return self._tiles.moments(slice(None))[1][self._position]

    def revise(self, candidates: Indices, changes: Floats, noise_variances: Floats) -> None:
        positions = self._position[candidates]
        slots = np.array([self._tiles.window.slot(p) for p in positions.tolist()])
        inside = slots >= 0
        weights = changes[inside] / noise_variances[inside]
        self._tiles.revise(slots[inside], positions[inside], weights)
        folded = np.flatnonzero(~inside)
        for start in range(0, len(folded), tiling.BATCH):
            some = folded[start : start + tiling.BATCH]
            self._tiles.prepare(positions[some])
            super().revise(candidates[some], changes[some], noise_variances[some])

    def at(self, candidates: Indices) -> tuple[Floats, Floats]:
        positions = self._position[candidates]
        self._tiles.rouse(np.unique(positions // tiling.TILE).tolist())
        return self._tiles.moments(positions)

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
            mean, variance = self._everything()
            scores = acquisition(mean, np.maximum(variance - reduction[self._numbers], 0.0))
            position, best = choose(scores, salt, mask, self._numbers)
            return int(self._numbers[position]), best
        best = tiles.score(acquisition, mask, salt)
        if tiles.asleep.any():
            self._wake_winners(acquisition, mask, best, salt)
        position, best = tiles.leader(salt, self._numbers, mask)
        if mask is None or 2 * mask.sum() > self.size:
            self._consider_sleep(acquisition, best)
        return int(self._numbers[position]), best

    # ---- which tiles sleep

    def _wake_winners(self, acquisition: Acquisition, mask: NDArray[np.bool_] | None, best: float, salt: int) -> None:
        """Wake the tiles that could hold the largest index: the likeliest first, then twice as many at a time."""
        tiles = self._tiles
        tops = self._bounds(acquisition, mask).copy()
        tops[~tiles.asleep] = -np.inf
        count = 1
        while True:
            reach = best - (TIE_TOLERANCE + SLACK) * abs(best) if np.isfinite(best) else best
            likely = np.flatnonzero((tops >= reach) & (tops > -np.inf))
            if not len(likely):
                return
            chosen = likely[np.argsort(-tops[likely], kind="stable")[:count]]
            best = max(best, tiles.roused(chosen.tolist(), acquisition, mask, salt))
            tops[chosen] = -np.inf
            count *= 2

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
        weak = ~tiles.asleep & (tiles.tops(acquisition, self._pace) < best)
        if weak.any():
            tiles.sleep(weak)
