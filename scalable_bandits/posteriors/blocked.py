"""The blocked engine: exact posteriors on large finite spaces, in rows of L^-1 K and in tiles of candidates.

The n x n covariance is never formed. A full window (`window.py`) is folded into rows F, with
K_l(p, x) = k(p, x) - W(p)'W(x) over all rows W so far. What makes it fast, all of it exact:

- Covariance columns are computed for a batch of the most promising candidates at a time, one
  matrix product each (BLAS 3), and kept up to date by the folds until they are played.
- Candidates live in tiles. A tile whose upper bound stays under the best index sleeps: it takes
  part in nothing. Since it fell asleep its means have moved by at most s(x) |d| (summed over windows,
  `Window.drift`) and its standard deviations have only shrunk; when the bound says that it
  could win, the folds it slept through are made up for.
- When repeated points have made the rows twice as many as the distinct points, one fold of all
  distinct points replaces them.

Tiles and batches are functions of the space and the trajectory alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm, dtrmm, dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors import _numba_window as numba_window
from scalable_bandits.posteriors.engine import TIE_TOLERANCE, Acquisition, Engine, choose
from scalable_bandits.posteriors.order import spatial_order
from scalable_bandits.posteriors.window import Window
from scalable_bandits.spaces import Indices

TILE = 1024  # candidates; a multiple of 64, so that BLAS cuts no tile differently
WINDOW = 64
BATCH = 64
CACHE_BYTES = 256 * 2**20
SLACK = 1e-9  # relative room for rounding in upper bounds


class Fold(NamedTuple):
    """A window that was closed: what a tile needs to make up for it."""

    points: Indices  # (r,) positions
    coordinates: Floats  # (r, r) lower triangular
    root: Floats | None  # (r, r) lower, chol(gram); None for the identity
    shift: Floats  # (r,)
    height: int  # rows before it


class BlockedEngine(Engine):
    """Exact posterior in row blocks and sleeping tiles: O(n m) memory for m distinct points.

    See `Engine` for the parameters and the interface. `asleep` (tiles,) tells which tiles sleep.
    """

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats):
        order = spatial_order(points, TILE)
        super().__init__(kernel, np.ascontiguousarray(points[order]), prior_mean[order])
        self._prior_mean = self._mean.copy()
        self._numbers = order
        self._position = np.empty_like(order)
        self._position[order] = np.arange(self.size)
        tiles = -(-self.size // TILE)
        self._window = Window(min(WINDOW, self.size))
        self._rows = np.empty((tiles, self._window.capacity, TILE))
        self._column = np.empty(TILE)
        self._folds: list[Fold] = []
        self._height = 0
        self._tile_rows = [np.empty((0, TILE)) for _ in range(tiles)]
        self._done = np.zeros(tiles, dtype=np.int64)  # folds whose rows a tile has
        self._known = np.zeros(tiles, dtype=np.int64)  # folds that its mean and variance include
        self.asleep = np.zeros(tiles, dtype=np.bool_)
        slots = int(np.clip(CACHE_BYTES // (8 * TILE * tiles), BATCH, 8 * BATCH))
        self._cache = np.empty((slots, tiles, TILE))
        self._slots: dict[int, int] = {}
        self._free = list(range(slots))
        self._scores = self._variance.copy()
        self._last: tuple[Acquisition, float] | None = None
        self._drift = 0.0  # sum of |d| over the closed windows
        self._slept_at = np.zeros(tiles)  # that sum when a tile fell asleep
        self._observed: dict[int, tuple[float, float]] = {}  # position: precision, weighted sum of y

    # ---- observing

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        p = int(self._position[candidate])
        window = self._window
        slot = window.slot(p)
        if slot < 0 and window.rank == window.capacity:
            self._fold()
        self._wake(p // TILE)
        if slot < 0 and p not in self._slots:
            self._load(p)
        tile, offset = divmod(p, TILE)
        rows_at = self._rows[tile, :, offset]
        columns = self._cache[self._slots[p] if slot < 0 else 0]
        numba_window.project(window.gram, window.coordinates, window.rank, slot, rows_at, window.weights)
        before = float(window.weights[: window.rank] @ rows_at[: window.rank])
        before = max(before + (columns[tile, offset] if slot < 0 else 0.0), 0.0)
        residual, total = y - self._mean[p], before + noise_variance
        numba_window.record(
            window.gram, window.coordinates, window.shift, window.rank, slot, window.weights, residual, total
        )
        self.floored += numba_window.tiles_observe(
            np.flatnonzero(~self.asleep), TILE, columns, self._rows, window.rank, slot, window.weights,
            residual, total, self._mean, self._variance, self._column,
        )  # fmt: skip
        window.admit(p, slot, noise_variance)
        precision, weighted = self._observed.get(p, (0.0, 0.0))
        self._observed[p] = (precision + 1.0 / noise_variance, weighted + y / noise_variance)
        self._gain(before, noise_variance)

    def _span(self, tile: int) -> slice:
        return slice(tile * TILE, min((tile + 1) * TILE, self.size))

    def _width(self, tile: int) -> int:
        return min(TILE, self.size - tile * TILE)

    def _across(self, positions: Indices, height: int) -> Floats:
        """Rows W(p) up to `height` of some points, (k, height)."""
        out = np.empty((len(positions), height))
        for row, p in zip(out, positions, strict=True):
            tile, offset = divmod(int(p), TILE)
            row[:] = self._tile_rows[tile][:height, offset]
        return out

    def _covariances(self, positions: Indices, across: Floats, tile: int) -> Floats:
        """Columns k(p, x) - W(p)'W(x) at the candidates x of a tile, (k, width)."""
        out = np.empty((len(positions), self._width(tile)))
        self.kernel.fill(self.points[positions], self.points[self._span(tile)], out)
        height = across.shape[1]
        if height:
            rows = self._tile_rows[tile][:height, : out.shape[1]]
            # Row-major arrays are transposed ones to BLAS: out' -= W(x)'W(p).
            dgemm(-1.0, rows.T, across.T, beta=1.0, c=out.T, overwrite_c=1)
        return out

    def _load(self, p: int) -> None:
        """Compute the columns of p and of the most promising candidates not yet cached."""
        held = np.fromiter((*self._slots, *self._window.points), dtype=np.int64)
        scores = self._scores.copy()
        scores[np.repeat(self.asleep, TILE)[: self.size]] = -np.inf
        scores[held] = -np.inf
        scores[p] = np.inf
        count = min(BATCH, int(np.isfinite(scores).sum()) + 1)
        chosen = np.argpartition(-scores, count - 1)[:count]
        while len(self._free) < count:
            worst = sorted(self._slots, key=lambda q: (self._scores[q], q))[: count - len(self._free)]
            self._evict(worst)
        slots = [self._free.pop() for _ in chosen]
        self._slots.update(zip(chosen.tolist(), slots, strict=True))
        across = self._across(chosen, self._height)
        for tile in np.flatnonzero(~self.asleep).tolist():
            block = self._covariances(chosen, across, tile)
            self._cache[slots, tile, : block.shape[1]] = block

    def _evict(self, positions: list[int]) -> None:
        self._free += [self._slots.pop(p) for p in positions]

    # ---- folding

    def _fold(self) -> None:
        window = self._window
        rank, drift = window.rank, window.drift()
        fold = Fold(
            np.fromiter(window.points, dtype=np.int64, count=rank), window.coordinates[:rank, :rank].copy(),
            window.root(), window.shift[:rank].copy(), self._height,
        )  # fmt: skip
        self._folds.append(fold)
        self._known[~self.asleep] = len(self._folds)
        self._drift += drift
        self._drowse(drift)
        self._evict([p for p in window.points if p in self._slots])
        self._evict([p for p in self._slots if self.asleep[p // TILE]])
        awake = np.flatnonzero(~self.asleep)
        for tile in awake.tolist():
            rows = self._rows[tile, :rank, : self._width(tile)]
            self._append(tile, np.asarray(dtrmm(1.0, window.root(), rows.T, side=1, lower=1)).T)
        self._height += rank
        self._bring_forward(awake, rank)
        window.clear()
        if self._height > 2 * len(self._observed) + window.capacity:
            self._rebuild()

    def _append(self, tile: int, rows: Floats) -> None:
        """Take the rows of the next fold into a tile, which doubles its room as it grows."""
        fold = self._folds[self._done[tile]]
        stop = fold.height + len(rows)
        held = self._tile_rows[tile]
        if stop > len(held):
            grown = np.empty((max(stop, 2 * len(held), 4 * WINDOW), TILE))
            grown[: fold.height] = held[: fold.height]
            self._tile_rows[tile] = held = grown
        held[fold.height : stop, : rows.shape[1]] = rows
        self._done[tile] += 1

    def _bring_forward(self, awake: Indices, rank: int) -> None:
        """Take the newest fold's rows off the cached columns."""
        if not self._slots:
            return
        positions = np.fromiter(self._slots, dtype=np.int64)
        slots = np.fromiter(self._slots.values(), dtype=np.int64)
        newest = np.ascontiguousarray(self._across(positions, self._height)[:, -rank:])
        for tile in awake.tolist():
            width = self._width(tile)
            block = self._cache[slots, tile, :width]
            rows = self._tile_rows[tile][self._height - rank : self._height, :width]
            dgemm(-1.0, rows.T, newest.T, beta=1.0, c=block.T, overwrite_c=1)
            self._cache[slots, tile, :width] = block

    def _rebuild(self) -> None:
        """Replace all folds by one of the distinct points; tiles make up for it as they wake."""
        positions = np.array(sorted(self._observed), dtype=np.int64)
        precision, weighted = np.array([self._observed[p] for p in positions.tolist()]).T
        points = self.points[positions]
        matrix = np.empty((len(positions), len(positions)))
        self.kernel.fill(points, points, matrix)
        matrix.flat[:: len(matrix) + 1] += 1.0 / precision
        factor, failed = dpotrf(matrix.T, lower=1, clean=1, overwrite_a=1)
        if failed:  # too ill-conditioned to refit in one piece: the rows there are serve as well
            return
        shift = weighted / precision - self._prior_mean[positions]
        dtrsv(factor, shift, lower=1, overwrite_x=1)
        self._evict(list(self._slots))
        self._folds, self._height = [Fold(positions, np.asarray(factor), None, shift, 0)], len(positions)
        # An awake tile's mean and variance bound its index from here on as well as any.
        self._slept_at[~self.asleep] = self._drift
        self.asleep[:] = True
        self._done[:] = self._known[:] = 0
        self._tile_rows = [np.empty((0, TILE)) for _ in self._tile_rows]

    # ---- sleeping and waking

    def _drowse(self, drift: float) -> None:
        """Put tiles to sleep that will not win soon, should the next window move the means as the last did."""
        if self._last is None:
            return
        acquisition, best = self._last
        bounds = acquisition.bound(self._mean + drift * np.sqrt(self._variance), self._variance)
        weak = ~self.asleep & (np.maximum.reduceat(bounds, np.arange(0, self.size, TILE)) < best)
        self.asleep |= weak
        self._slept_at[weak] = self._drift

    def _wake(self, tile: int) -> None:
        """Bring a tile up to the present: folds, open window, cached columns."""
        if not self.asleep[tile]:
            return
        span = self._span(tile)
        mean, variance = self._mean[span], self._variance[span]
        if self._known[tile] == 0:
            mean[:] = self._prior_mean[span]
            variance[:] = self.kernel.diagonal(self.points[span])
        for number in range(int(self._done[tile]), len(self._folds)):
            fold = self._folds[number]
            rows = self._solved(fold.points, fold.coordinates, fold.height, tile)
            news = number >= self._known[tile]
            if news:
                mean += fold.shift @ rows
            if fold.root is not None:
                rows = np.asarray(dtrmm(1.0, fold.root, rows.T, side=1, lower=1)).T
            if news:
                variance -= np.einsum("ij,ij->j", rows, rows)
            self._append(tile, rows)
        self._known[tile] = len(self._folds)
        window = self._window
        rank = window.rank
        if rank:
            points = np.fromiter(window.points, dtype=np.int64, count=rank)
            rows = self._solved(points, window.coordinates[:rank, :rank], self._height, tile)
            self._rows[tile, :rank, : rows.shape[1]] = rows
            mean += window.shift[:rank] @ rows
            variance -= np.einsum("ij,ij->j", rows, window.gram[:rank, :rank] @ rows)
        np.maximum(variance, 0.0, out=variance)
        if self._slots:
            cached = np.fromiter(self._slots, dtype=np.int64)
            block = self._covariances(cached, self._across(cached, self._height), tile)
            self._cache[list(self._slots.values()), tile, : block.shape[1]] = block
        self.asleep[tile] = False

    def _solved(self, points: Indices, coordinates: Floats, height: int, tile: int) -> Floats:
        """Rows R = coordinates^-1 K_l(P, .) of a window on a tile that slept through it."""
        block = self._covariances(points, self._across(points, height), tile)
        return np.asarray(dtrsm(1.0, coordinates.T, block.T, side=1, lower=0, overwrite_b=1)).T

    def _up_to_date(self) -> None:
        for tile in np.flatnonzero(self.asleep).tolist():
            self._wake(tile)

    # ---- asking

    def mean(self) -> Floats:
        self._up_to_date()
        return self._mean[self._position]

    def variance(self) -> Floats:
        self._up_to_date()
        return self._variance[self._position]

    def at(self, candidates: Indices) -> tuple[Floats, Floats]:
        positions = self._position[candidates]
        for tile in np.unique(positions // TILE):
            self._wake(int(tile))
        return self._mean[positions], self._variance[positions]

    def columns(self, candidates: Indices) -> Floats:
        self._up_to_date()
        positions = self._position[candidates]
        window = self._window
        rank = window.rank
        across = self._across(positions, self._height)
        out = np.empty((len(positions), self.size))
        rows_at = np.array([self._rows[p // TILE, :rank, p % TILE] for p in positions]).reshape(len(positions), rank)
        weights = rows_at @ window.gram[:rank, :rank]
        for tile in range(len(self.asleep)):
            span = self._span(tile)
            block = self._covariances(positions, across, tile)
            out[:, span] = block - weights @ self._rows[tile, :rank, : block.shape[1]]
        return out[:, self._position]

    def maximize(
        self,
        acquisition: Acquisition,
        salt: int,
        allowed: NDArray[np.bool_] | None = None,
        reduction: Floats | None = None,
    ) -> tuple[int, float]:
        mask = np.ones(self.size, dtype=np.bool_) if allowed is None else allowed[self._numbers]
        if reduction is None:
            scores = self._lazy_scores(acquisition, mask)
        else:  # whoever computed the reduction has asked for whole columns, so that all tiles are awake
            self._up_to_date()
            scores = acquisition(self._mean, np.maximum(self._variance - reduction[self._numbers], 0.0))
        self._scores = scores
        position, best = choose(scores, salt, mask, self._numbers)
        self._last = acquisition, best
        return int(self._numbers[position]), best

    def _lazy_scores(self, acquisition: Acquisition, mask: NDArray[np.bool_]) -> Floats:
        """Index of the candidates that could win, -inf for those of tiles that sleep on."""
        if not self.asleep.any():
            return acquisition(self._mean, self._variance)
        tile_of = np.arange(self.size) // TILE
        sleeping = self.asleep[tile_of]
        scores = np.full(self.size, -np.inf)
        scores[~sleeping] = acquisition(self._mean[~sleeping], self._variance[~sleeping])
        best = float(np.max(scores, where=mask, initial=-np.inf))
        room = (self._drift + self._window.drift() - self._slept_at)[tile_of[sleeping]]
        variance = self._variance[sleeping]
        bounds = np.full(self.size, -np.inf)
        bounds[sleeping] = acquisition.bound(self._mean[sleeping] + room * np.sqrt(variance), variance)
        bounds[~mask] = -np.inf
        tops = np.maximum.reduceat(bounds, np.arange(0, self.size, TILE))
        tops += SLACK * np.abs(tops, where=np.isfinite(tops), out=np.zeros_like(tops))
        while True:
            tile = int(np.argmax(tops))
            reach = best - TIE_TOLERANCE * abs(best) if np.isfinite(best) else best
            if tops[tile] < reach or tops[tile] == -np.inf:
                return scores
            self._wake(tile)
            span = self._span(tile)
            scores[span] = acquisition(self._mean[span], self._variance[span])
            best = max(best, float(np.max(scores[span], where=mask[span], initial=-np.inf)))
            tops[tile] = -np.inf
