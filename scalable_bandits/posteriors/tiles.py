"""Posterior mean and variance of many candidates in tiles, each awake (up to date) or asleep (left alone).

The n x n covariance is never formed. A full window (`window.py`) is folded into rows F = chol(S)'R, and over all
rows W so far K_l(p, x) = k(p, x) - W(p)'W(x). A tile that sleeps takes part in nothing; when it
wakes, the folds it slept through and the open window are made up for, from the mean and variance that
it had when the last window it saw the beginning of was opened (its base).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm, dtrmm, dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors import _numba_window as numba_window
from scalable_bandits.posteriors.drift import Drift
from scalable_bandits.posteriors.observations import Observations
from scalable_bandits.posteriors.order import best_of_neighbours
from scalable_bandits.posteriors.state import State, arrays, nested, part
from scalable_bandits.posteriors.window import Fold, Window
from scalable_bandits.spaces import Indices

TILE = 1024  # candidates; a multiple of 64, so that BLAS cuts no tile differently
WINDOW = 64
BATCH = 64  # covariance columns computed at a time, at the most, in any kind of tiles
CACHE_BYTES = 256 * 2**20


class Tiles:
    """The tiles. Candidates are named by their position in the tiles' order.

    Attributes
    ----------
    mean, variance : ndarray
        (n,), up to date in the tiles that are awake, as they fell asleep in the others.
    promise : ndarray
        (n,) last known index; the columns of the largest are computed ahead. The engine keeps it.
    asleep : ndarray
        (tiles,) bool.
    changes, naps : int
        How often tiles fell asleep or woke, and how often they fell asleep.
    drift : Drift
        How far means may have moved in the tiles asleep.
    floored : int
        How often rounding pushed a variance below zero.
    """

    ahead: ClassVar[int] = 64  # covariance columns computed at a time, at the most
    groups: ClassVar[int] = 2048  # parts of the space that these come from
    kept: ClassVar[int] = (
        1 << 30
    )  # of those not played, how many at the most are brought forward as the window is folded

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats):
        self.kernel, self.points, self.size = kernel, points, len(points)
        self._prior = prior_mean, kernel.diagonal(points).astype(np.float64)
        self.mean, self.variance = self._prior[0].copy(), self._prior[1].copy()
        self._base = self._prior[0].copy(), self._prior[1].copy()
        self.promise = self.variance.copy()
        count = -(-self.size // TILE)
        self.asleep = np.zeros(count, dtype=np.bool_)
        self.changes = self.naps = 0
        self.drift, self.floored = Drift(count), 0
        self.window = Window(min(WINDOW, self.size))
        self._rows = np.empty((count, self.window.capacity, TILE))
        self._column = np.empty(TILE)
        self._folds: list[Fold] = []
        self._height = 0
        self._tile_rows = [np.empty((0, TILE)) for _ in range(count)]
        self._done = np.zeros(count, dtype=np.int64)  # folds whose rows a tile has
        self._known = np.zeros(count, dtype=np.int64)  # folds that its base includes
        slots = int(np.clip(CACHE_BYTES // (8 * TILE * count), BATCH, 8 * BATCH))
        self._cache = np.empty((slots, count, TILE))
        self._fresh = np.zeros((slots, count), dtype=np.bool_)
        self._slots: dict[int, int] = {}
        self._free = list(range(slots))
        self._most = min(self.ahead, BATCH)
        self._batch = max(self._most // 4, 1)
        self._guessed: set[int] = set()  # the last batch
        self._observed = Observations()
        self._refit = True

    def state(self) -> State:
        """All that is held, as arrays."""
        used = list(self._slots.values())
        held = arrays(
            mean=self.mean, variance=self.variance, base_mean=self._base[0], base_variance=self._base[1],
            promise=self.promise, asleep=self.asleep, changes=self.changes, naps=self.naps, floored=self.floored,
            height=self._height, done=self._done, known=self._known, rows=self._rows[:, : self.window.rank],
            cache=self._cache[used], fresh=self._fresh[used], cached=list(self._slots), slots=used, free=self._free,
            batch=self._batch, guessed=sorted(self._guessed), refit=self._refit, folds=len(self._folds),
        )  # fmt: skip
        parts = {"window": self.window.state(), "drift": self.drift.state(), "observed": self._observed.state()}
        folds = {
            str(i): arrays(**{k: v for k, v in f._asdict().items() if v is not None}) for i, f in enumerate(self._folds)
        }
        tiles = {str(i): rows[: self._height_of(i)] for i, rows in enumerate(self._tile_rows)}
        return {**held, **nested(**parts, fold=nested(**folds), tile_rows=tiles)}

    def restore(self, state: State) -> None:
        """Hold what `state` gave."""
        self.mean[:], self.variance[:], self.promise[:] = state["mean"], state["variance"], state["promise"]
        self._base = state["base_mean"].copy(), state["base_variance"].copy()
        self.asleep[:], self._done[:], self._known[:] = state["asleep"], state["done"], state["known"]
        self.changes, self.naps, self.floored = (int(state[name]) for name in ("changes", "naps", "floored"))
        self._height, self._batch, self._refit = int(state["height"]), int(state["batch"]), bool(state["refit"])
        self.window.restore(part(state, "window"))
        self.drift.restore(part(state, "drift"))
        self._observed.restore(part(state, "observed"))
        self._rows[:, : self.window.rank] = state["rows"]
        folds = [part(state, f"fold.{i}") for i in range(int(state["folds"]))]
        self._folds = [Fold(f["points"], f["coordinates"], f.get("root"), f["shift"], int(f["height"])) for f in folds]
        held = part(state, "tile_rows")
        self._tile_rows = [held[str(i)] for i in range(len(self._tile_rows))]
        slots = state["slots"].tolist()
        self._slots = dict(zip(state["cached"].astype(np.int64).tolist(), slots, strict=True))
        self._cache[slots], self._fresh[slots] = state["cache"], state["fresh"]
        self._free, self._guessed = state["free"].tolist(), set(state["guessed"].astype(np.int64).tolist())

    def _height_of(self, tile: int) -> int:
        """Rows that a tile has."""
        done = int(self._done[tile])
        return self._folds[done].height if done < len(self._folds) else self._height

    def span(self, tile: int) -> slice:
        """Positions of a tile."""
        return slice(tile * TILE, min((tile + 1) * TILE, self.size))

    def spread(self, per_tile: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Mask (n,) of the positions in the tiles of a mask."""
        return np.repeat(per_tile, TILE)[: self.size]

    # ---- observing

    def observe(self, p: int, y: float, noise_variance: float) -> float:
        """Condition on y observed at p; returns the variance there before."""
        window = self.window
        slot = window.slot(p)
        if slot < 0 and window.rank == window.capacity:
            self._fold()
        tile, offset = divmod(p, TILE)
        self.wake(tile)
        columns = self._columns_of(p, noise_variance) if slot < 0 else self._cache[0]
        rows_at = self._rows[tile, :, offset]
        numba_window.project(window.gram, window.coordinates, window.rank, slot, rows_at, window.weights)
        before = float(window.weights[: window.rank] @ rows_at[: window.rank])
        before = max(before + (float(columns[tile, offset]) if slot < 0 else 0.0), 0.0)
        residual, total = y - float(self.mean[p]), before + noise_variance
        numba_window.record(
            window.gram, window.coordinates, window.opening, window.shift, window.rank, slot, window.weights,
            rows_at, before, residual, total,
        )  # fmt: skip
        self.floored += numba_window.tiles_observe(
            np.flatnonzero(~self.asleep), TILE, columns, self._rows, window.rank, slot, window.weights,
            residual, total, self.mean, self.variance, self._column,
        )  # fmt: skip
        window.admit(p, slot, noise_variance)
        self.drift.move(abs(residual) * before**0.5 / total)
        self._observed.add(p, y, noise_variance)
        return before

    def revise(self, slots: Indices, positions: Indices, weights: Floats) -> None:
        """mean += weights' K(positions, .), for points in slots of the window: what changes of their values do."""
        window, rank = self.window, self.window.rank
        rows_at = self._window_rows(positions)
        move = weights @ (window.coordinates[slots, :rank] - rows_at @ window.gram[:rank, :rank])
        window.shift[:rank] += move
        for tile in np.flatnonzero(~self.asleep).tolist():
            span = self.span(tile)
            self.mean[span] += move @ self._rows[tile, :rank, : span.stop - span.start]
        self.drift.move(float(np.abs(weights) @ np.sqrt(self.variance[positions])))
        self._observed.revise(positions.tolist(), weights.tolist())

    def _across(self, positions: Indices, stop: int, start: int = 0) -> Floats:
        """Rows W(p) from `start` to `stop` of some points, (k, stop - start)."""
        out = np.empty((len(positions), stop - start))
        for row, p in zip(out, positions.tolist(), strict=True):
            row[:] = self._tile_rows[p // TILE][start:stop, p % TILE]
        return out

    def _window_rows(self, positions: Indices) -> Floats:
        """Rows R of the open window at some points awake, (k, rank)."""
        return self._rows[positions // TILE, : self.window.rank, positions % TILE]

    def _covariances(self, positions: Indices, across: Floats, tile: int) -> Floats:
        """Columns k(p, x) - W(p)'W(x) at the candidates x of a tile, (k, width)."""
        span = self.span(tile)
        out = np.empty((len(positions), span.stop - span.start))
        self.kernel.fill(self.points[positions], self.points[span], out)
        height = across.shape[1]
        if height:
            rows = self._tile_rows[tile][:height, : out.shape[1]]
            # Row-major arrays are transposed ones to BLAS: out' -= W(x)'W(p).
            dgemm(-1.0, rows.T, across.T, beta=1.0, c=out.T, overwrite_c=1)
        return out

    def _columns_of(self, p: int, noise_variance: float) -> Floats:
        """K_l(p, .) on all tiles awake, (tiles, TILE): from the cache, computed where it is missing."""
        if p not in self._slots:
            self._load(self._likely(p, noise_variance))
        slot = self._slots[p]
        missing = np.flatnonzero(~self.asleep & ~self._fresh[slot]).tolist()
        if missing:
            across = self._across(np.array([p]), self._height)
            for tile in missing:
                block = self._covariances(np.array([p]), across, tile)
                self._cache[slot, tile, : block.shape[1]] = block[0]
            self._fresh[slot, missing] = True
        return self._cache[slot]

    def _likely(self, p: int, noise_variance: float) -> Indices:
        """p and the most promising candidates awake that are neither cached nor in the window."""
        scores = np.where(self.spread(self.asleep), -np.inf, self.promise)
        scores[np.fromiter((*self._slots, *self.window.points), dtype=np.int64)] = -np.inf
        scores[p] = np.inf
        return best_of_neighbours(scores, self.groups, self._batch_size())

    def _load(self, chosen: Indices) -> None:
        """Compute the columns of some candidates."""
        count = len(chosen)
        self._evict_worst(count - len(self._free))
        slots = [self._free.pop() for _ in range(count)]
        self._slots.update(zip(chosen.tolist(), slots, strict=True))
        self._fresh[slots] = ~self.asleep
        self._guessed = set(chosen.tolist())
        across = self._across(chosen, self._height)
        for tile in np.flatnonzero(~self.asleep).tolist():
            block = self._covariances(chosen, across, tile)
            self._cache[slots, tile, : block.shape[1]] = block

    def _batch_size(self) -> int:
        """Twice as many columns if most of the last batch were played since, half as many if few were."""
        played = sum(p in self._observed for p in self._guessed)
        if 2 * played > len(self._guessed):
            self._batch = min(2 * self._batch, self._most)
        elif 8 * played < len(self._guessed):
            self._batch = max(self._batch // 2, self._most // 8)
        return self._batch

    def _evict(self, positions: list[int]) -> None:
        self._free += [self._slots.pop(p) for p in positions]

    def _evict_worst(self, count: int) -> None:
        if count > 0:
            self._evict(sorted(self._slots, key=lambda q: (self.promise[q], q))[:count])

    # ---- folding

    def _fold(self) -> None:
        window = self.window
        rank, root = window.rank, window.root()
        points = np.fromiter(window.points, dtype=np.int64, count=rank)
        coordinates, shift = window.coordinates[:rank, :rank].copy(), window.shift[:rank].copy()
        self._folds.append(Fold(points, coordinates, root, shift, self._height))
        self.drift.fold(window.drift())
        for tile in np.flatnonzero(~self.asleep).tolist():
            span = self.span(tile)
            rows = self._rows[tile, :rank, : span.stop - span.start]
            self._append(tile, np.asarray(dtrmm(1.0, root, rows.T, side=1, lower=1)).T)
            self._set_base(tile)
        self._height += rank
        self._evict([p for p in self._slots if p in window.points or self.asleep[p // TILE]])
        self._evict_worst(len(self._slots) - self.kept)
        window.clear()
        self._bring_forward(rank)
        if self.outgrown():
            self._rebuild()

    def _set_base(self, tile: int) -> None:
        span = self.span(tile)
        self._base[0][span], self._base[1][span] = self.mean[span], self.variance[span]
        self._known[tile] = len(self._folds)

    def _append(self, tile: int, rows: Floats) -> None:
        """Take the rows of the next fold into a tile, which doubles its room as it grows."""
        start = self._folds[self._done[tile]].height
        stop = start + len(rows)
        held = self._tile_rows[tile]
        if stop > len(held):
            grown = np.empty((max(stop, 2 * len(held), 4 * WINDOW), TILE))
            grown[:start] = held[:start]
            self._tile_rows[tile] = held = grown
        held[start:stop, : rows.shape[1]] = rows
        self._done[tile] += 1

    def _bring_forward(self, rank: int) -> None:
        """Take the newest fold's rows off the cached columns."""
        self._fresh[:, self.asleep] = False
        if not self._slots:
            return
        positions = np.fromiter(self._slots, dtype=np.int64)
        slots = np.fromiter(self._slots.values(), dtype=np.int64)
        newest = self._across(positions, self._height, self._height - rank)
        for tile in np.flatnonzero(~self.asleep).tolist():
            width = self.span(tile).stop - self.span(tile).start
            block = self._cache[slots, tile, :width]
            rows = self._tile_rows[tile][self._height - rank : self._height, :width]
            dgemm(-1.0, rows.T, newest.T, beta=1.0, c=block.T, overwrite_c=1)
            self._cache[slots, tile, :width] = block

    def outgrown(self) -> bool:
        """Whether the rows are many more than one fold of the distinct points would have."""
        return self._refit and self._height > 2 * len(self._observed) + self.window.capacity

    def refitted(self) -> Fold | None:
        """One fold of the distinct points that says what all folds say; None where rounding forbids it."""
        positions, averages, noise = self._observed.collapsed()
        points = self.points[positions]
        matrix = np.empty((len(positions), len(positions)))
        self.kernel.fill(points, points, matrix)
        matrix.flat[:: len(matrix) + 1] += noise
        factor, failed = dpotrf(matrix.T, lower=1, clean=1, overwrite_a=1)
        shift = np.asarray(dtrsv(factor, averages - self._prior[0][positions], lower=1))
        return None if failed else Fold(positions, np.asarray(factor), None, shift, 0)

    def _rebuild(self) -> None:
        """Replace all folds by one; every tile sleeps, and makes up for it as it wakes."""
        fold = self.refitted()
        if fold is None:  # too ill-conditioned to refit in one piece: the rows there are serve as well
            self._refit = False
            return
        self._evict(list(self._slots))
        self._folds, self._height = [fold], len(fold.points)
        self.sleep(~self.asleep)
        self._base = self._prior[0].copy(), self._prior[1].copy()
        self._done[:] = self._known[:] = 0  # the rows' room stays

    # ---- sleeping and waking

    def sleep(self, tiles: NDArray[np.bool_]) -> None:
        """Put tiles, named by a mask over them, to sleep."""
        self.drift.sleep(tiles)
        self.asleep |= tiles
        self.changes += 1
        self.naps += 1
        self.promise[self.spread(tiles)] = -np.inf

    def wake(self, tile: int) -> None:
        """Bring a tile up to the present."""
        if not self.asleep[tile]:
            return
        span = self.span(tile)
        mean, variance = self._base[0][span].copy(), self._base[1][span].copy()
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
        np.maximum(variance, 0.0, out=variance)
        self.mean[span], self.variance[span] = mean, variance
        self._set_base(tile)
        window = self.window
        rank = window.rank
        if rank:
            points = np.fromiter(window.points, dtype=np.int64, count=rank)
            rows = self._solved(points, window.coordinates[:rank, :rank], self._height, tile)
            self._rows[tile, :rank, : rows.shape[1]] = rows
            variance -= np.einsum("ij,ij->j", rows, window.gram[:rank, :rank] @ rows)
            self.mean[span] += window.shift[:rank] @ rows
            self.variance[span] = np.maximum(variance, 0.0)
        self.asleep[tile] = False
        self.changes += 1

    def wake_all(self) -> None:
        """Bring every tile up to the present."""
        for tile in np.flatnonzero(self.asleep).tolist():
            self.wake(tile)

    def _solved(self, points: Indices, coordinates: Floats, height: int, tile: int) -> Floats:
        """Rows R = coordinates^-1 K_l(P, .) of a window on a tile that slept through some of it."""
        block = self._covariances(points, self._across(points, height), tile)
        return np.asarray(dtrsm(1.0, coordinates.T, block.T, side=1, lower=0, overwrite_b=1)).T

    def columns(self, positions: Indices) -> Floats:
        """Posterior covariances of some candidates with all, (k, n)."""
        self.wake_all()
        window = self.window
        rank = window.rank
        across = self._across(positions, self._height)
        weights = self._window_rows(positions) @ window.gram[:rank, :rank]
        out = np.empty((len(positions), self.size))
        for tile in range(len(self.asleep)):
            block = self._covariances(positions, across, tile)
            out[:, self.span(tile)] = block - weights @ self._rows[tile, :rank, : block.shape[1]]
        return out
