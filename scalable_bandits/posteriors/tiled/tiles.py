"""Posterior mean and variance of many candidates, in tiles of neighbours.

The n x n covariance is never formed. The last few points observed are kept in a window of low rank (`window.py`). A
full window is folded into rows F = chol(S)'R, and over all rows W so far K_l(p, x) = k(p, x) - W(p)'W(x). When repeated
points have made the rows many more than the distinct points, one fold of all distinct points replaces them.

Whatever is computed on a tile follows from the tile, the small arrays of the window and the rows at a few points. Tiles
may therefore be worked on by several threads, or be held by several workers (`coordinator.py`): all numbers are the
same.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsv
from scipy.linalg.lapack import dpotrf

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors import blas
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.engine import Acquisition, choose
from scalable_bandits.posteriors.exact import _numba_window as numba_window
from scalable_bandits.posteriors.exact.window import Fold, Seen, Window
from scalable_bandits.posteriors.state import State, arrays, nested, part
from scalable_bandits.posteriors.threads import Threads
from scalable_bandits.posteriors.tiled.column_cache import ColumnCache
from scalable_bandits.posteriors.tiled.earlier import refuse_tiles_left_behind
from scalable_bandits.posteriors.tiled.ordering import best_of_groups, best_of_neighbours
from scalable_bandits.spaces import Indices

TILE = 1024  # candidates; a multiple of 64, so that BLAS cuts no tile differently
WINDOW = 64
BATCH = 64  # covariance columns computed at a time, at the most, in any kind of tiles
CACHE_BYTES = 256 * 2**20
# Tiles that a thread takes at the least to observe and to score: the calling thread does fewer than 16 alone. To
# have another thread do something costs about 15 microseconds; a tile takes 5 to observe and 1.4 to score (20 for the
# expected improvement). Where columns are computed, a tile takes milliseconds, and a run may be of one tile.
A_RUN = 8


class Tiles:
    """The tiles. Candidates are named by their position in the tiles' order.

    Parameters
    ----------
    kernel
        Prior covariance. Its `fill` is called by all threads at once.
    points
        (n, d) candidates in the tiles' order.
    prior_mean
        (n,) in units of y.
    first, stop
        Tiles held here; to the last for None.
    threads
        Threads of this process that work on the tiles.

    Attributes
    ----------
    mean, variance : ndarray
        (n,) posterior, up to date in the tiles held here.
    promise : ndarray
        (n,) last known index; the columns of the largest are computed ahead.
    block : slice
        Positions held here.
    floored : int
        How often rounding pushed a variance below zero.
    """

    ahead: ClassVar[int] = 64  # covariance columns computed at a time, at the most
    groups: ClassVar[int] = 2048  # parts of the space that these come from
    kept: ClassVar[int] = 1 << 30  # columns not played that are brought forward as the window is folded, at the most

    def __init__(
        self, kernel: Kernel, points: Floats, prior_mean: Floats, first: int = 0, stop: int | None = None,
        threads: int = 1,
    ):  # fmt: skip
        self.kernel, self.points = kernel, points
        self.width, self.size = TILE, len(points)
        count = -(-self.size // TILE)
        self.first, self.stop = first, count if stop is None else stop
        self.block = slice(first * TILE, min(self.stop * TILE, self.size))
        self._prior = prior_mean, kernel.diagonal(points).astype(np.float64)
        self.mean, self.variance, self.promise = prior_mean.copy(), self._prior[1].copy(), self._prior[1].copy()
        self.floored = 0
        self.window = Window(min(WINDOW, self.size))
        self._neighbours = max(1, self.size // self.groups)  # candidates in a group
        here = self.stop - first
        self._rows = np.empty((here, self.window.capacity, TILE))
        self._height = 0  # rows W so far
        self._newest = 0  # height before the last fold
        self._tile_rows = [np.empty((0, TILE)) for _ in range(count)]
        slots = int(np.clip(CACHE_BYTES // (8 * TILE * count), BATCH, 8 * BATCH))
        self._ahead = ColumnCache(slots, here, TILE, min(self.ahead, BATCH))
        self._observed = CollapsedObservations()
        self._refit = True
        self._threads = Threads(threads)

    def span(self, tile: int) -> slice:
        """Positions of a tile."""
        return slice(tile * self.width, min((tile + 1) * self.width, self.size))

    def state(self) -> State:
        """All that is held, as arrays."""
        block = self.block
        held = arrays(
            mean=self.mean[block], variance=self.variance[block], promise=self.promise[block], floored=self.floored,
            height=self._height, rows=self._rows[:, : self.window.rank], refit=self._refit,
        )  # fmt: skip
        parts = {"window": self.window.state(), "observed": self._observed.state()}
        tiles = {str(i): self._tile_rows[i][: self._height] for i in range(self.first, self.stop)}
        return {**held, **self._ahead.state(), **nested(**parts, tile_rows=tiles)}

    def restore(self, state: State) -> None:
        """Restore from the arrays returned by `state`.

        Raises
        ------
        ValueError
            If an earlier version wrote them that had left some tiles behind the others.
        """
        refuse_tiles_left_behind(state)
        block = self.block
        self.mean[block], self.variance[block] = state["mean"], state["variance"]
        self.promise[block], self.floored = state["promise"], int(state["floored"])
        self._height, self._refit = int(state["height"]), bool(state["refit"])
        self._ahead.restore(state)
        self.window.restore(part(state, "window"))
        self._observed.restore(part(state, "observed"))
        self._rows[:, : self.window.rank] = state["rows"]
        held = part(state, "tile_rows")
        for i in range(self.first, self.stop):
            self._tile_rows[i] = held[str(i)]

    # ---- observing

    def observe(self, p: int, y: float, noise_variance: float) -> float:
        """Condition on y observed at p; returns the variance there before."""
        window = self.window
        new = window.slot(p) < 0
        if new and window.rank == window.capacity:
            self._fold()
        if new and p not in self._ahead.slots:
            self._load(self._likely(p, noise_variance))
        return self.take(p, y, noise_variance, self.seen(p))

    def seen(self, p: int) -> Seen:
        """What is known of p, on a tile held here."""
        rows = self._rows[p // self.width - self.first, : self.window.rank, p % self.width].copy()
        return Seen(rows, float(self.mean[p]), float(self.variance[p]))

    def _window_rows(self, positions: Indices) -> Floats:
        """Rows R of the open window at some points held here, (k, rank)."""
        return self._rows[positions // self.width - self.first, : self.window.rank, positions % self.width]

    def take(self, p: int, y: float, noise_variance: float, seen: Seen) -> float:
        """`observe`, by what is known of p."""
        window, block = self.window, self.block
        slot, rank, weights = window.slot(p), window.rank, window.weights
        columns = self._ahead.cache[self._ahead.slots[p] if slot < 0 else 0]
        numba_window.project(window.gram, window.coordinates, rank, slot, seen.rows, weights)
        before = seen.variance if slot < 0 else max(float(weights[:rank] @ seen.rows), 0.0)
        residual, total = y - seen.mean, before + noise_variance
        numba_window.record(window.gram, window.coordinates, window.shift, rank, slot, weights, residual, total)
        mean, variance = self.mean[block], self.variance[block]

        def update(first: int, stop: int) -> int:
            floored: int = numba_window.tiles_observe(
                first, stop, self.width, columns, self._rows, rank, slot, weights, residual, total, mean, variance
            )
            return floored

        self.floored += sum(self._threads.each(update, 0, self.stop - self.first, A_RUN))
        window.admit(p, slot, noise_variance)
        self._observed.add(p, y, noise_variance)
        return before

    def revise(self, slots: Indices, positions: Indices, weights: Floats) -> None:
        """mean += weights' K(positions, .), for points in slots of the window: what changes of their values do."""
        window, rank = self.window, self.window.rank
        move = weights @ (window.coordinates[slots, :rank] - self._window_rows(positions) @ window.gram[:rank, :rank])
        window.shift[:rank] += move
        for tile in range(self.first, self.stop):
            span = self.span(tile)
            self.mean[span] += move @ self._rows[tile - self.first, :rank, : span.stop - span.start]
        self._observed.revise(positions.tolist(), weights.tolist())

    def _across(self, positions: Indices, stop: int, start: int = 0) -> Floats:
        """Rows W(p) from `start` to `stop` of some points held here, (k, stop - start)."""
        out = np.empty((len(positions), stop - start))
        for row, p in zip(out, positions.tolist(), strict=True):
            row[:] = self._tile_rows[p // self.width][start:stop, p % self.width]
        return out

    def _covariances(self, points: Floats, across: Floats, tile: int) -> Floats:
        """Columns k(p, x) - W(p)'W(x) of points p (k, d), with rows W(p) (k, height), on a tile: (k, width)."""
        span = self.span(tile)
        out = np.empty((len(points), span.stop - span.start))
        self.kernel.fill(points, self.points[span], out)
        blas.subtract_product(out, across, self._rows_of(tile, 0, across.shape[1]))
        return out

    def _rows_of(self, tile: int, start: int, stop: int) -> Floats:
        """Rows W(x) from `start` to `stop` at all candidates of a tile, (stop - start, width), row-major."""
        span = self.span(tile)
        return np.ascontiguousarray(self._tile_rows[tile][start:stop, : span.stop - span.start])

    def _likely(self, p: int, noise_variance: float) -> Indices:
        """p and the most promising candidates that are neither cached nor in the window."""
        return self._chosen(p, *self.promising()[1:])

    def promising(self) -> tuple[int, Floats, Indices]:
        """Of each group of neighbours, from some group on, the largest promise among these, and whose it is."""
        block = self.block
        scores = self.promise[block].copy()
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
        ahead, points = self._ahead, self.points[chosen]
        ahead.evict(worst)
        slots = ahead.book(chosen)

        def compute(first: int, stop: int) -> None:
            for tile in range(first, stop):
                block = self._covariances(points, across, tile)
                ahead.cache[slots, tile - self.first, : block.shape[1]] = block

        self._threads.each(compute, self.first, self.stop)

    # ---- folding

    def _fold(self) -> None:
        self.close()
        self.bring_forward(self.newest())

    def close(self) -> None:
        """Fold the open window into the rows, and open it anew."""
        window, start = self.window, self._height
        rank, upper = window.rank, np.ascontiguousarray(window.root().T)

        def fold(first: int, stop: int) -> None:
            for tile in range(first, stop):
                span = self.span(tile)
                rows = self._rows[tile - self.first, :rank, : span.stop - span.start].copy()
                blas.multiply_upper(upper, rows)
                self._append(tile, rows, start)

        self._threads.each(fold, self.first, self.stop)
        self._newest, self._height = start, start + rank
        self._ahead.evict([p for p in self._ahead.slots if p in window.points])
        self._ahead.evict(self._ahead.worst(len(self._ahead.slots) - self.kept, self.promise))
        window.clear()

    def newest(self) -> Floats:
        """Rows of the fold just made at the candidates whose columns are at hand, (k, rank)."""
        return self._across(self._ahead.positions, self._height, self._newest)

    def bring_forward(self, newest: Floats) -> None:
        """Take the newest fold's rows, `newest` at the candidates of cached columns, off these."""
        cache, slots = self._ahead.cache, list(self._ahead.slots.values())
        start = self._height - newest.shape[1]

        def forward(first: int, stop: int) -> None:
            for tile in range(first, stop):
                rows = self._rows_of(tile, start, self._height)
                block = cache[slots, tile - self.first, : rows.shape[1]]
                blas.subtract_product(block, newest, rows)
                cache[slots, tile - self.first, : rows.shape[1]] = block

        if slots:
            self._threads.each(forward, self.first, self.stop)
        if self.outgrown():
            self._rebuild()

    def _append(self, tile: int, rows: Floats, start: int) -> None:
        """Take rows into a tile, the first as number `start`; the tile doubles its room as it grows."""
        stop, held = start + len(rows), self._tile_rows[tile]
        if stop > len(held):
            grown = np.empty((max(stop, 2 * len(held), 4 * WINDOW), self.width))
            grown[:start] = held[:start]
            self._tile_rows[tile] = held = grown
        held[start:stop, : rows.shape[1]] = rows

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
        return None if failed else Fold(positions, np.asarray(factor), None, shift)

    def _rebuild(self) -> None:
        """Replace all folds by one."""
        fold = self.refitted()
        if fold is None:  # too ill-conditioned to refit in one piece: the rows there are serve as well
            self._refit = False
            return
        self._ahead.evict(list(self._ahead.slots))
        self._height = len(fold.points)
        points, lower = self.points[fold.points], np.ascontiguousarray(fold.coordinates)
        none = np.empty((len(points), 0))

        def refit(first: int, stop: int) -> None:
            for tile in range(first, stop):
                span = self.span(tile)
                rows = self._covariances(points, none, tile)
                blas.solve_lower(lower, rows)
                self._append(tile, rows, 0)
                self.mean[span] = self._prior[0][span] + fold.shift @ rows
                variance = self._prior[1][span] - np.einsum("ij,ij->j", rows, rows)
                self.variance[span] = np.maximum(variance, 0.0)

        self._threads.each(refit, self.first, self.stop)

    # ---- asked about

    def moments(self, positions: Any) -> tuple[Floats, Floats]:
        """Mean and variance at some positions, two (k,) arrays; of all for a slice of all."""
        return self.mean[positions], self.variance[positions]

    def score(self, index: Acquisition, mask: NDArray[np.bool_] | None) -> slice | Indices:
        """Make the index the promise of all candidates held here (of those in a mask); their positions."""

        def update(first: int, stop: int) -> Indices | None:
            run = slice(first * self.width, min(stop * self.width, self.size))
            some = None if mask is None else run.start + np.flatnonzero(mask[run])
            where = run if some is None else some
            self.promise[where] = index(self.mean[where], self.variance[where])
            return some

        found = [some for some in self._threads.each(update, self.first, self.stop, A_RUN) if some is not None]
        return self.block if mask is None else np.concatenate(found)

    def best(
        self, index: Acquisition, salt: int, numbers: Indices, mask: NDArray[np.bool_] | None
    ) -> tuple[int, float]:
        """Position of the largest index (in a mask), ties broken by a hash of the numbers (n,), and the index."""
        where = self.score(index, mask)
        position, best = choose(self.promise[where], salt, None, numbers[where])
        return (where.start + position if isinstance(where, slice) else int(where[position])), best

    def columns(self, positions: Indices) -> Floats:
        """Posterior covariances of some candidates with all, (k, n)."""
        return self.covariances(positions, *self.placed(positions))

    def placed(self, positions: Indices) -> tuple[Floats, Floats]:
        """Rows of some candidates: those so far (k, height), and of the open window (k, rank)."""
        return self._across(positions, self._height), np.ascontiguousarray(self._window_rows(positions))

    def covariances(self, positions: Indices, across: Floats, rows_at: Floats) -> Floats:
        """Posterior covariances of candidates of these rows with all on the tiles here, (k, n)."""
        rank, points = self.window.rank, self.points[positions]
        weights = rows_at @ self.window.gram[:rank, :rank]
        out = np.empty((len(positions), self.size))

        def compute(first: int, stop: int) -> None:
            for tile in range(first, stop):
                block = self._covariances(points, across, tile)
                out[:, self.span(tile)] = block - weights @ self._rows[tile - self.first, :rank, : block.shape[1]]

        self._threads.each(compute, self.first, self.stop)
        return out
