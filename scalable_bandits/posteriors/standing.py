"""Where the candidates of tiles stand: mean, variance and last index of each, and which tiles are up to date.

Tiles may be held in several places. Each place then knows which tiles are awake anywhere, and the numbers of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.engine import Acquisition, choose
from scalable_bandits.spaces import Indices


class Standing:
    """Mean, variance and promise of candidates, tile by tile. See `Tiles`.

    Parameters
    ----------
    width
        Candidates in a tile.
    mean, variance
        (n,) before the first observation.
    first, stop
        Tiles held here; to the last for None.
    """

    def __init__(self, width: int, mean: Floats, variance: Floats, first: int, stop: int | None):
        self.width, self.size = width, len(mean)
        self.mean, self.variance, self.promise = mean.copy(), variance.copy(), variance.copy()
        count = -(-self.size // width)
        self.asleep = np.zeros(count, dtype=np.bool_)
        self.first, self.stop = first, count if stop is None else stop
        self.own = np.zeros(count, dtype=np.bool_)
        self.own[first : self.stop] = True
        self.block = slice(first * width, min(self.stop * width, self.size))  # positions held here
        self.changes = 0
        self._open: tuple[int, Indices] = (-1, np.empty(0, dtype=np.int64))  # positions awake, and when they were

    def wake(self, tile: int) -> None:
        """Bring a tile up to the present."""
        raise NotImplementedError

    def span(self, tile: int) -> slice:
        """Positions of a tile."""
        return slice(tile * self.width, min((tile + 1) * self.width, self.size))

    def spread(self, per_tile: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Mask (n,) of the positions in the tiles of a mask."""
        return np.repeat(per_tile, self.width)[: self.size]

    @property
    def _at_work(self) -> list[int]:
        """Tiles held here that are awake."""
        found: list[int] = np.flatnonzero(~self.asleep & self.own).tolist()
        return found

    def rouse(self, tiles: Sequence[int]) -> None:
        """Bring some tiles up to the present."""
        for tile in tiles:
            self.wake(tile)

    def wake_all(self) -> None:
        """Bring every tile up to the present."""
        self.rouse(np.flatnonzero(self.asleep).tolist())

    def moments(self, positions: Any) -> tuple[Floats, Floats]:
        """Mean and variance, as they are known here, two (k,) arrays; of all for a slice of all."""
        return self.mean[positions], self.variance[positions]

    def awake(self, mask: NDArray[np.bool_] | None) -> slice | Indices:
        """Positions that are awake, held here and in a mask."""
        block = self.block
        if not self.asleep[self.own].any():
            return block if mask is None else block.start + np.flatnonzero(mask[block])
        if self._open[0] != self.changes:
            self._open = self.changes, np.flatnonzero(self.spread(self.own & ~self.asleep))
        return self._open[1] if mask is None else self._open[1][mask[self._open[1]]]

    def score(self, index: Acquisition, mask: NDArray[np.bool_] | None, salt: int) -> float:
        """Promise of the candidates awake (of those in a mask): their index; the largest."""
        where = self.awake(mask)
        scores = self.promise[where] = index(self.mean[where], self.variance[where])
        return float(scores.max(initial=-np.inf))

    def roused(self, tiles: Sequence[int], index: Acquisition, mask: NDArray[np.bool_] | None, salt: int) -> float:
        """Wake some tiles, and score them; the largest."""
        self.rouse(tiles)
        where = np.concatenate([self.among(tile, mask) for tile in tiles])
        scores = self.promise[where] = index(self.mean[where], self.variance[where])
        return float(scores.max(initial=-np.inf))

    def among(self, tile: int, mask: NDArray[np.bool_] | None) -> Indices:
        """Positions in a tile (and in a mask)."""
        span = self.span(tile)
        where = np.arange(span.start, span.stop)
        return where if mask is None else where[mask[span]]

    def leader(self, salt: int, numbers: Indices, mask: NDArray[np.bool_] | None) -> tuple[int, float]:
        """Position of the largest promise among those scored, ties broken by a hash of the numbers, and it."""
        where = self.awake(mask)
        position, best = choose(self.promise[where], salt, None, numbers[where])
        return (where.start + position if isinstance(where, slice) else int(where[position])), best

    def tops(self, index: Acquisition, pace: float) -> Floats:
        """Bounds (tiles,) of the index in the tiles awake once means have moved by `pace`; infinite where asleep."""
        found = np.full(len(self.asleep), np.inf)
        for tile in self._at_work:
            mean, variance = self.moments(self.span(tile))
            found[tile] = index.bound(mean + pace * np.sqrt(variance), variance).max()
        return found
