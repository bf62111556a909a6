"""Posterior mean and variance of many candidates, in tiles of neighbours.

The n x n covariance is never formed. The last few points observed are in a window of low rank (`window.py`). A full
window is folded into rows F = chol(S)'R; with all rows W so far, K_l(p, x) = k(p, x) - W(p)'W(x). When repeated points
have made the rows, or the observations, many more than the distinct points, one block of rows for all distinct points
replaces them: the posterior then follows from the collapsed observations, and those since.

All that is computed on a tile follows from the tile, the small arrays of the window and the rows at a few points. So
the numbers are the same on several threads, and with tiles on several workers (`coordinator.py`).
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
from scalable_bandits.posteriors.exact.window import PointPosterior, RowBlock, Window, variances
from scalable_bandits.posteriors.state import State, StateEntry, Stateful, array, group, member, number, value
from scalable_bandits.posteriors.threads import ThreadTeam
from scalable_bandits.posteriors.tiled.column_cache import TileColumns
from scalable_bandits.posteriors.tiled.ordering import best_of_groups, best_of_neighbours
from scalable_bandits.spaces import Indices

TILE = 1024  # candidates; a multiple of 64, so that BLAS splits no tile differently
WINDOW = 64  # distinct points between two folds
REFIT = 16_384  # smallest number of observations after which the rows are refitted where most points are repeated
BATCH = 16  # covariance columns that BLAS computes at a time, so that the bits of one do not depend on the others
CACHE_BYTES = 256 * 2**20  # of covariance columns
# Smallest number of tiles that a thread takes to observe or to compute the index. Another thread costs about 15
# microseconds; a tile takes 5 to observe and 1.4 for the index (20 for the expected improvement). Columns take
# milliseconds a tile, so that a thread may compute those of a single one.
A_RUN = 8


def _of_tiles_here(attribute: str) -> StateEntry:
    """Declare the part of an array (n,) for the candidates of the tiles held here."""

    def write(tiles: Tiles, held: Floats) -> None:
        getattr(tiles, attribute)[tiles.block] = held

    return value(attribute, "(b,)", np.float64, lambda tiles: getattr(tiles, attribute)[tiles.block], write)


class Tiles(Stateful):
    """Posterior on candidates in tiles. Candidates are named by their position in the tiles' order.

    Parameters
    ----------
    kernel
        Prior covariance. Its `fill` is called by all threads at once.
    points
        (n, d) candidates in the tiles' order.
    prior_mean
        (n,) prior mean at the candidates, in units of y.
    first, stop
        Range of the tiles held here; up to the last for None.
    threads
        Number of threads of this process that work on the tiles.

    Attributes
    ----------
    batch : int
        Largest number of covariance columns that are computed in advance together.
    mean, variance : ndarray
        (n,) posterior, up to date in the tiles held here.
    index : ndarray
        (n,) index when it was last computed; the columns of the largest are computed in advance.
    block : slice
        Positions of the candidates held here.
    floored : int
        Number of times that rounding pushed a variance below zero.
    """

    batch: ClassVar[int] = 16
    groups: ClassVar[int] = 2048  # groups of neighbours, of which each has at most one candidate in a batch

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
        self.mean, self.variance, self.index = prior_mean.copy(), self._prior[1].copy(), self._prior[1].copy()
        self.floored = 0
        self.window = Window(min(WINDOW, self.size))
        self._neighbours = max(1, self.size // self.groups)  # candidates in a group
        self.held = self.stop - first  # number of tiles held here
        self._rows = np.zeros((self.held, self.window.capacity, TILE))  # of the window
        self._height = 0  # number of rows W
        self._tile_rows = [np.empty((0, TILE)) for _ in range(count)]
        slots = int(np.clip(CACHE_BYTES // (8 * TILE * count), 4 * BATCH, 32 * BATCH))
        self._column_cache = TileColumns(slots, self.held, TILE)
        self._observed = CollapsedObservations()
        self._refit = True  # whether the rows can be replaced by those of the distinct points
        self._since = 0  # number of observations since that was done last
        self._threads = ThreadTeam(threads)

    def span(self, tile: int) -> slice:
        """Return the positions of a tile."""
        return slice(tile * self.width, min((tile + 1) * self.width, self.size))

    def _all_rows(self) -> State:
        return {str(tile): self._tile_rows[tile][: self._height] for tile in range(self.first, self.stop)}

    def _restore_all_rows(self, rows: State) -> None:
        for tile in range(self.first, self.stop):
            self._tile_rows[tile] = rows[str(tile)].copy()

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        _of_tiles_here("mean"),
        _of_tiles_here("variance"),
        number("floored", int),
        number("_height", int),
        array("_rows", "(tiles, r, width)", used=("held", "window.rank")),
        number("_refit", bool),
        number("_since", int),
        member("window"),
        member("_observed"),
        group("tile_rows", _all_rows, _restore_all_rows),
    )

    def before_restore(self, state: State) -> None:
        self._column_cache.clear()

    # ---- observing

    def observe(self, p: int, y: float, noise_variance: float) -> float:
        """Condition on y observed at p; returns the variance there before it."""
        window = self.window
        if self.outgrown() or (window.slot(p) < 0 and window.rank == window.capacity):
            self.close()
        if window.slot(p) < 0 and p not in self._column_cache.slots:
            self._load(self._next_batch(p, noise_variance))
        return self.take(p, y, noise_variance, self.point_posterior(p))

    def point_posterior(self, p: int) -> PointPosterior:
        """Return the posterior at p, which is held here."""
        rows = self._rows[p // self.width - self.first, : self.window.rank, p % self.width].copy()
        return PointPosterior(rows, float(self.mean[p]), float(self.variance[p]))

    def _window_rows(self, positions: Indices) -> Floats:
        """Return the rows R of the open window at some points held here, (k, rank)."""
        return self._rows[positions // self.width - self.first, : self.window.rank, positions % self.width]

    def take(self, p: int, y: float, noise_variance: float, here: PointPosterior) -> float:
        """Run `observe` with the posterior at p, whose column is cached if p is new."""
        window, block = self.window, self.block
        slot, rank, weights = window.slot(p), window.rank, window.weights
        columns = self._column_cache.cache[self._column_cache.slots[p] if slot < 0 else 0]
        numba_window.project(window.gram, window.inverse, window.precision, rank, slot, here.rows, weights)
        before = here.variance if slot < 0 else max(float(weights[:rank] @ here.rows), 0.0)
        residual = y - here.mean
        window.record(p, residual, before + noise_variance, noise_variance)
        mean, variance = self.mean[block], self.variance[block]

        def update(first: int, stop: int) -> int:
            floored: int = numba_window.tiles_observe(
                first, stop, self.width, columns, self._rows, rank, slot, p - block.start, weights, residual, before,
                noise_variance, mean, variance,
            )  # fmt: skip
            return floored

        self.floored += sum(self._threads.each(update, 0, self.held, A_RUN))
        if slot < 0:
            self._column_cache.remove(p)
        self._observed.add(p, y, noise_variance)
        self._since += 1
        return before

    def revise(self, slots: Indices, positions: Indices, weights: Floats) -> None:
        """Add weights' K(positions, .) to the means, for points held here that have these slots of the window."""
        window, rank = self.window, self.window.rank
        move = (weights / window.precision[slots]) @ window.inverse[slots, :rank] @ window.gram[:rank, :rank]
        window.shift[:rank] += move
        for tile in range(self.first, self.stop):
            span = self.span(tile)
            self.mean[span] += move @ self._rows[tile - self.first, :rank, : span.stop - span.start]
        self._observed.revise(positions.tolist(), weights.tolist())

    def _across(self, positions: Indices, stop: int) -> Floats:
        """Return the first rows W(p) at some points held here, (k, stop)."""
        out = np.empty((len(positions), stop))
        for row, p in zip(out, positions.tolist(), strict=True):
            row[:] = self._tile_rows[p // self.width][:stop, p % self.width]
        return out

    def _covariances(self, points: Floats, across: Floats, tile: int) -> Floats:
        """Compute columns k(p, x) - W(p)'W(x) of points p (k, d) on a tile: (k, width).

        `across` are the rows W(p), `in_blocks`.
        """
        span = self.span(tile)
        rows = np.ascontiguousarray(self._tile_rows[tile][: across.shape[1], : span.stop - span.start])
        out = np.zeros((len(across), span.stop - span.start))
        self.kernel.fill(points, self.points[span], out[: len(points)])
        blas.subtract_product(out, across, rows)
        return out[: len(points)]

    def _next_batch(self, p: int, noise_variance: float) -> Indices:
        """Choose the positions whose columns are computed together: p, and those that may be observed next."""
        first, maxima, positions = self.group_maxima()
        return self._batch_with(p, maxima, positions, first)

    def group_maxima(self) -> tuple[int, Floats, Indices]:
        """Find the largest index in each group of neighbours, cached columns and the window left out.

        Returns the number of the first group held here, and the largest index of each group (g,) with its position
        (g,).
        """
        block = self.block
        index = self.index[block].copy()
        known = np.fromiter((*self._column_cache.slots, *self.window.points), dtype=np.int64) - block.start
        index[known[(known >= 0) & (known < len(index))]] = -np.inf
        return best_of_neighbours(index, self._neighbours, block.start)

    def _batch_with(self, p: int, maxima: Floats, positions: Indices, first: int = 0) -> Indices:
        """Return p and the best of the groups from number `first` on, as many as a batch has."""
        own = p // self._neighbours - first
        maxima[own], positions[own] = np.inf, p
        return best_of_groups(maxima, positions, self._batch_size)

    @property
    def _batch_size(self) -> int:
        """Number of columns that are computed together; those not observed when the window is full are lost."""
        return min(self.batch, self.window.capacity - self.window.rank)

    def prepare(self, positions: Indices) -> None:
        """Compute the columns of candidates that will be observed, at most BATCH of them, together."""
        cached, window = self._column_cache.slots, self.window
        missing = [p for p in dict.fromkeys(positions.tolist()) if p not in cached and window.slot(p) < 0]
        if missing:
            self._load(np.array(missing))

    def _load(self, chosen: Indices) -> None:
        """Compute the columns of some candidates."""
        self.load(chosen, self._across(chosen, self._height))

    def load(self, chosen: Indices, across: Floats) -> None:
        """Compute the columns of positions with rows `across` (k, height)."""
        cache, points, blocks = self._column_cache, self.points[chosen], in_blocks(across)
        slots = cache.assign(chosen)

        def compute(first: int, stop: int) -> None:
            for tile in range(first, stop):
                block = self._covariances(points, blocks, tile)
                cache.cache[slots, tile - self.first, : block.shape[1]] = block

        self._threads.each(compute, self.first, self.stop)

    # ---- folding

    def close(self) -> None:
        """Append the rows of the window to the rows of all tiles, and open a new one."""
        window, start = self.window, self._height
        rank, upper = window.rank, np.ascontiguousarray(window.root().T)

        def fold(first: int, stop: int) -> None:
            for tile in range(first, stop):
                span = self.span(tile)
                rows = self._rows[tile - self.first, :rank, : span.stop - span.start].copy()
                blas.multiply_upper(upper, rows)
                self._append(tile, rows, start)

        self._threads.each(fold, self.first, self.stop)
        self._height = start + rank
        self._column_cache.clear()
        window.clear()
        if self.outgrown():
            self._rebuild()

    def _append(self, tile: int, rows: Floats, start: int) -> None:
        """Write rows to a tile, the first as number `start`; the room for them doubles when it is used up."""
        stop, held = start + len(rows), self._tile_rows[tile]
        if stop > len(held):
            grown = np.zeros((max(stop, 2 * len(held), 4 * WINDOW), self.width))  # zero beyond the last candidate
            grown[:start] = held[:start]
            self._tile_rows[tile] = held = grown
        held[start:stop, : rows.shape[1]] = rows

    def outgrown(self) -> bool:
        """Return whether the rows, or the observations since the last refit, are many more than the distinct points."""
        distinct = len(self._observed)
        return self._refit and (
            self._height > 2 * distinct + self.window.capacity or self._since > max(REFIT, 16 * distinct)
        )

    def refitted(self) -> RowBlock | None:
        """Compute the row block of all distinct points; None if rounding makes their covariance indefinite."""
        positions, averages, noise = self._observed.collapsed()
        points = self.points[positions]
        matrix = np.empty((len(positions), len(positions)))
        self.kernel.fill(points, points, matrix)
        matrix.flat[:: len(matrix) + 1] += noise
        factor, failed = dpotrf(matrix.T, lower=1, clean=1, overwrite_a=1)
        shift = np.asarray(dtrsv(factor, averages - self._prior[0][positions], lower=1))
        return None if failed else RowBlock(positions, np.asarray(factor), None, shift, variances(factor, noise))

    def _rebuild(self) -> None:
        """Replace all rows by those of one row block."""
        rebuilt = self.refitted()
        if rebuilt is None:  # the present rows are exact too, only more
            self._refit = False
            return
        self._height, self._since = len(rebuilt.points), 0
        points, lower = self.points[rebuilt.points], np.ascontiguousarray(rebuilt.coordinates)

        def refit(first: int, stop: int) -> None:
            for tile in range(first, stop):
                span = self.span(tile)
                rows = np.empty((len(points), span.stop - span.start))
                self.kernel.fill(points, self.points[span], rows)
                blas.solve_lower(lower, rows)
                self._append(tile, rows, 0)
                self.mean[span] = self._prior[0][span] + rebuilt.shift @ rows
                variance = self._prior[1][span] - np.einsum("ij,ij->j", rows, rows)
                self.variance[span] = np.maximum(variance, 0.0)

        self._threads.each(refit, self.first, self.stop)
        if rebuilt.variance is not None:
            self.variance[rebuilt.points] = rebuilt.variance

    # ---- queries

    def moments(self, positions: Any) -> tuple[Floats, Floats]:
        """Return mean and variance at some positions, or at all for a slice: two (k,) arrays."""
        return self.mean[positions], self.variance[positions]

    def compute_index(self, acquisition: Acquisition, mask: NDArray[np.bool_] | None) -> slice | Indices:
        """Compute the index of the candidates held here, optionally masked, and return their positions."""

        def update(first: int, stop: int) -> Indices | None:
            run = slice(first * self.width, min(stop * self.width, self.size))
            some = None if mask is None else run.start + np.flatnonzero(mask[run])
            where = run if some is None else some
            self.index[where] = acquisition(self.mean[where], self.variance[where])
            return some

        found = [some for some in self._threads.each(update, self.first, self.stop, A_RUN) if some is not None]
        return self.block if mask is None else np.concatenate(found)

    def best(
        self, acquisition: Acquisition, salt: int, numbers: Indices, mask: NDArray[np.bool_] | None
    ) -> tuple[int, float]:
        """Find the position of the largest index, ties broken by a hash of the numbers (n,), and the index."""
        where = self.compute_index(acquisition, mask)
        position, best = choose(self.index[where], salt, None, numbers[where])
        return (where.start + position if isinstance(where, slice) else int(where[position])), best

    def columns(self, positions: Indices) -> Floats:
        """Return the posterior covariances of some candidates with all, (k, n)."""
        return self.covariances(positions, *self.placed(positions))

    def placed(self, positions: Indices) -> tuple[Floats, Floats]:
        """Return the rows at some candidates: W (k, height), and R of the open window (k, rank)."""
        return self._across(positions, self._height), np.ascontiguousarray(self._window_rows(positions))

    def covariances(self, positions: Indices, across: Floats, rows_at: Floats) -> Floats:
        """Return the posterior covariances of candidates with those rows with all on the tiles here, (k, n)."""
        rank, points = self.window.rank, self.points[positions]
        weights, blocks = rows_at @ self.window.gram[:rank, :rank], in_blocks(across)
        out = np.empty((len(positions), self.size))

        def compute(first: int, stop: int) -> None:
            for tile in range(first, stop):
                block = self._covariances(points, blocks, tile)
                out[:, self.span(tile)] = block - weights @ self._rows[tile - self.first, :rank, : block.shape[1]]

        self._threads.each(compute, self.first, self.stop)
        return out


def in_blocks(rows: Floats) -> Floats:
    """Return rows (k, m) with zeros after them, as many as fill blocks of `BATCH`."""
    found = np.zeros((-(-len(rows) // BATCH) * BATCH, rows.shape[1]))
    found[: len(rows)] = rows
    return found
