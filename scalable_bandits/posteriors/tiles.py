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
from scalable_bandits.posteriors.ahead import Ahead
from scalable_bandits.posteriors.drift import Drift
from scalable_bandits.posteriors.observations import Observations
from scalable_bandits.posteriors.order import best_of_groups, best_of_neighbours
from scalable_bandits.posteriors.standing import Standing
from scalable_bandits.posteriors.state import State, arrays, nested, part
from scalable_bandits.posteriors.window import Fold, Seen, Window
from scalable_bandits.spaces import Indices

TILE = 1024  # candidates; a multiple of 64, so that BLAS cuts no tile differently
WINDOW = 64
BATCH = 64  # covariance columns computed at a time, at the most, in any kind of tiles
CACHE_BYTES = 256 * 2**20


class Tiles(Standing):
    """The tiles. Candidates are named by their position in the tiles' order.

    Attributes
    ----------
    mean, variance : ndarray
        (n,), up to date in the tiles that are awake, as they fell asleep in the others.
    promise : ndarray
        (n,) last known index; the columns of the largest are computed ahead. The engine keeps it.
    asleep : ndarray
        (tiles,) bool.
    own : ndarray
        (tiles,) bool: tiles whose numbers are held here; of the others only whether they sleep.
    changes, naps : int
        How often tiles fell asleep or woke, and how often they fell asleep.
    drift : Drift
        How far means may have moved in the tiles asleep.
    floored : int
        How often rounding pushed a variance below zero.
    """

    ahead: ClassVar[int] = 64  # covariance columns computed at a time, at the most
    groups: ClassVar[int] = 2048  # parts of the space that these come from
    kept: ClassVar[int] = 1 << 30  # columns not played that are brought forward as the window is folded, at the most

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats, first: int = 0, stop: int | None = None):
        self.kernel, self.points = kernel, points
        self._prior = prior_mean, kernel.diagonal(points).astype(np.float64)
        super().__init__(TILE, *self._prior, first, stop)
        self._base = self._prior[0].copy(), self._prior[1].copy()
        count, here = len(self.asleep), self.stop - self.first
        self.drift, self.floored, self.naps = Drift(count), 0, 0
        self.window = Window(min(WINDOW, self.size))
        self._neighbours = max(1, self.size // self.groups)  # candidates in a group
        self._rows = np.empty((here, self.window.capacity, TILE))
        self._column = np.empty(TILE)
        self._folds: list[Fold] = []
        self._height = 0
        self._tile_rows = [np.empty((0, TILE)) for _ in range(count)]
        self._done, self._known = np.zeros((2, count), dtype=np.int64)  # folds whose rows, and mean, a tile has
        slots = int(np.clip(CACHE_BYTES // (8 * TILE * count), BATCH, 8 * BATCH))
        self._ahead = Ahead(slots, here, TILE, min(self.ahead, BATCH))
        self._observed = Observations()
        self._refit = True

    def state(self) -> State:
        """All that is held, as arrays."""
        block, own = self.block, slice(self.first, self.stop)
        held = arrays(
            mean=self.mean[block], variance=self.variance[block], base_mean=self._base[0][block],
            base_variance=self._base[1][block], promise=self.promise[block], asleep=self.asleep, changes=self.changes,
            naps=self.naps, floored=self.floored, height=self._height, done=self._done[own], known=self._known[own],
            rows=self._rows[:, : self.window.rank], refit=self._refit, folds=len(self._folds),
        )  # fmt: skip
        parts = {"window": self.window.state(), "drift": self.drift.state(), "observed": self._observed.state()}
        folds = {
            str(i): arrays(**{k: v for k, v in f._asdict().items() if v is not None}) for i, f in enumerate(self._folds)
        }
        tiles = {str(i): self._tile_rows[i][: self._height_of(i)] for i in range(self.first, self.stop)}
        return {**held, **self._ahead.state(), **nested(**parts, fold=nested(**folds), tile_rows=tiles)}

    def restore(self, state: State) -> None:
        """Hold what `state` gave."""
        block, own = self.block, slice(self.first, self.stop)
        self.mean[block], self.variance[block] = state["mean"], state["variance"]
        self._base[0][block], self._base[1][block] = state["base_mean"], state["base_variance"]
        self.promise[block], self.asleep[:] = state["promise"], state["asleep"]
        self._done[own], self._known[own] = state["done"], state["known"]
        self.changes, self.naps, self.floored = (int(state[name]) for name in ("changes", "naps", "floored"))
        self._height, self._refit = int(state["height"]), bool(state["refit"])
        self._ahead.restore(state)
        self.window.restore(part(state, "window"))
        self.drift.restore(part(state, "drift"))
        self._observed.restore(part(state, "observed"))
        self._rows[:, : self.window.rank] = state["rows"]
        folds = [part(state, f"fold.{i}") for i in range(int(state["folds"]))]
        self._folds = [Fold(f["points"], f["coordinates"], f.get("root"), f["shift"], int(f["height"])) for f in folds]
        held = part(state, "tile_rows")
        for i in range(self.first, self.stop):
            self._tile_rows[i] = held[str(i)]
        self._open = -1, self._open[1]

    def _height_of(self, tile: int) -> int:
        """Rows that a tile has."""
        done = int(self._done[tile])
        return self._folds[done].height if done < len(self._folds) else self._height

    # ---- observing

    def observe(self, p: int, y: float, noise_variance: float) -> float:
        """Condition on y observed at p; returns the variance there before."""
        window = self.window
        new = window.slot(p) < 0
        if new and window.rank == window.capacity:
            self._fold()
        self.rouse([p // TILE])
        if new and p not in self._ahead.slots:
            self._load(self._likely(p, noise_variance))
        return self.take(p, y, noise_variance, self.seen(p))

    def seen(self, p: int) -> Seen:
        """What is known of p, on a tile awake."""
        rows = self._rows[p // TILE - self.first, : self.window.rank, p % TILE].copy()
        return Seen(rows, float(self.mean[p]), float(self.variance[p]))

    def _window_rows(self, positions: Indices) -> Floats:
        """Rows R of the open window at some points awake, (k, rank)."""
        return self._rows[positions // TILE - self.first, : self.window.rank, positions % TILE]

    def take(self, p: int, y: float, noise_variance: float, seen: Seen) -> float:
        """`observe`, by what is known of p."""
        window = self.window
        slot, rank = window.slot(p), window.rank
        columns = self._column_at(p) if slot < 0 else self._ahead.cache[0]
        numba_window.project(window.gram, window.coordinates, rank, slot, seen.rows, window.weights)
        before = seen.variance if slot < 0 else max(float(window.weights[:rank] @ seen.rows), 0.0)
        residual, total = y - seen.mean, before + noise_variance
        numba_window.record(
            window.gram, window.coordinates, window.opening, window.shift, rank, slot, window.weights, seen.rows,
            before, residual, total,
        )  # fmt: skip
        self.floored += numba_window.tiles_observe(
            np.flatnonzero(~self.asleep[self.first : self.stop]), TILE, columns, self._rows, rank, slot,
            window.weights, residual, total, self.mean[self.block], self.variance[self.block], self._column,
        )  # fmt: skip
        window.admit(p, slot, noise_variance)
        self.drift.move(abs(residual) * before**0.5 / total)
        self._observed.add(p, y, noise_variance)
        return before

    def revise(self, slots: Indices, positions: Indices, weights: Floats) -> None:
        """mean += weights' K(positions, .), for points in slots of the window: what changes of their values do."""
        window, rank = self.window, self.window.rank
        move = weights @ (window.coordinates[slots, :rank] - self._window_rows(positions) @ window.gram[:rank, :rank])
        window.shift[:rank] += move
        for tile in self._at_work:
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

    def _column_at(self, p: int) -> Floats:
        """K_l(p, .) on all tiles awake, (tiles, TILE), of a column at hand: computed where it is missing."""
        ahead = self._ahead
        slot = ahead.slots[p]
        missing = np.flatnonzero(~self.asleep[self.first : self.stop] & ~ahead.fresh[slot]).tolist()
        if missing:
            across = self._across(np.array([p]), self._height)
            for tile in missing:
                block = self._covariances(np.array([p]), across, self.first + tile)
                ahead.cache[slot, tile, : block.shape[1]] = block[0]
            ahead.fresh[slot, missing] = True
        return ahead.cache[slot]

    def _likely(self, p: int, noise_variance: float) -> Indices:
        """p and the most promising candidates awake that are neither cached nor in the window."""
        return self._chosen(p, *self.promising()[1:])

    def promising(self) -> tuple[int, Floats, Indices]:
        """Of each group of neighbours, from some group on, the largest promise among these, and whose it is."""
        block = self.block
        scores = np.where(self.spread(self.asleep)[block], -np.inf, self.promise[block])
        known = np.fromiter((*self._ahead.slots, *self.window.points), dtype=np.int64) - block.start
        scores[known[(known >= 0) & (known < len(scores))]] = -np.inf
        return best_of_neighbours(scores, self._neighbours, block.start)

    def _chosen(self, p: int, tops: Floats, where: Indices) -> Indices:
        """p and the best of some groups."""
        tops[p // self._neighbours], where[p // self._neighbours] = np.inf, p
        return best_of_groups(tops, where, self._ahead.batch_size(self._observed))

    def prepare(self, positions: Indices) -> None:
        """Compute the columns of candidates that will be observed, a batch at the most, together."""
        missing = [
            p for p in dict.fromkeys(positions.tolist()) if p not in self._ahead.slots and self.window.slot(p) < 0
        ]
        if missing:
            self._load(np.array(missing))

    def _load(self, chosen: Indices) -> None:
        """Compute the columns of some candidates."""
        worst = self._ahead.worst(len(chosen) - self._ahead.free, self.promise)
        self.load(chosen, self._across(chosen, self._height), worst)

    def load(self, chosen: Indices, across: Floats, worst: list[int]) -> None:
        """Compute columns of positions, whose rows so far are `across` (k, height), in the place of the worst."""
        ahead = self._ahead
        ahead.evict(worst)
        slots = ahead.book(chosen, ~self.asleep[self.first : self.stop])
        for tile in self._at_work:
            block = self._covariances(chosen, across, tile)
            ahead.cache[slots, tile - self.first, : block.shape[1]] = block

    # ---- folding

    def _fold(self) -> None:
        self.close()
        self.bring_forward(self.newest())

    def close(self) -> None:
        """Fold the open window into the rows, and open it anew."""
        window = self.window
        rank, root = window.rank, window.root()
        points = np.fromiter(window.points, dtype=np.int64, count=rank)
        coordinates, shift = window.coordinates[:rank, :rank].copy(), window.shift[:rank].copy()
        self._folds.append(Fold(points, coordinates, root, shift, self._height))
        self.drift.fold(window.drift())
        for tile in self._at_work:
            span = self.span(tile)
            rows = self._rows[tile - self.first, :rank, : span.stop - span.start]
            self._append(tile, np.asarray(dtrmm(1.0, root, rows.T, side=1, lower=1)).T)
            self._set_base(tile)
        self._height += rank
        self._ahead.evict([p for p in self._ahead.slots if p in window.points or self.asleep[p // TILE]])
        self._ahead.evict(self._ahead.worst(len(self._ahead.slots) - self.kept, self.promise))
        window.clear()

    def newest(self) -> Floats:
        """Rows of the fold just made at the candidates whose columns are at hand, (k, rank)."""
        return self._across(self._ahead.positions, self._height, self._folds[-1].height)

    def bring_forward(self, newest: Floats) -> None:
        """Take the newest fold's rows, `newest` at the candidates of cached columns, off these."""
        ahead, rank = self._ahead, newest.shape[1]
        ahead.fresh[:, self.asleep[self.first : self.stop]] = False
        slots = list(ahead.slots.values())
        for tile in self._at_work if slots else ():
            width = self.span(tile).stop - self.span(tile).start
            block = ahead.cache[slots, tile - self.first, :width]
            rows = self._tile_rows[tile][self._height - rank : self._height, :width]
            dgemm(-1.0, rows.T, newest.T, beta=1.0, c=block.T, overwrite_c=1)
            ahead.cache[slots, tile - self.first, :width] = block
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
        self._ahead.evict(list(self._ahead.slots))
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
        self.asleep[tile] = False
        self.changes += 1
        if not self.own[tile]:
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
            self._rows[tile - self.first, :rank, : rows.shape[1]] = rows
            variance -= np.einsum("ij,ij->j", rows, window.gram[:rank, :rank] @ rows)
            self.mean[span] += window.shift[:rank] @ rows
            self.variance[span] = np.maximum(variance, 0.0)

    def _solved(self, points: Indices, coordinates: Floats, height: int, tile: int) -> Floats:
        """Rows R = coordinates^-1 K_l(P, .) of a window on a tile that slept through some of it."""
        block = self._covariances(points, self._across(points, height), tile)
        return np.asarray(dtrsm(1.0, coordinates.T, block.T, side=1, lower=0, overwrite_b=1)).T

    def columns(self, positions: Indices) -> Floats:
        """Posterior covariances of some candidates with all, (k, n)."""
        self.wake_all()
        return self.covariances(positions, *self.placed(positions))

    def placed(self, positions: Indices) -> tuple[Floats, Floats]:
        """Rows of some candidates: those so far (k, height), and of the open window (k, rank)."""
        return self._across(positions, self._height), np.ascontiguousarray(self._window_rows(positions))

    def covariances(self, positions: Indices, across: Floats, rows_at: Floats) -> Floats:
        """Posterior covariances of candidates of these rows with all on the tiles here, (k, n)."""
        rank = self.window.rank
        weights = rows_at @ self.window.gram[:rank, :rank]
        out = np.empty((len(positions), self.size))
        for tile in self._at_work:
            block = self._covariances(positions, across, tile)
            out[:, self.span(tile)] = block - weights @ self._rows[tile - self.first, :rank, : block.shape[1]]
        return out
