"""Posterior mean and variance of many candidates, in tiles of neighbours.

The n x n covariance is never formed. These are the words of this file and of those beside it:

    position     number of a candidate in the order of the tiles; the number of a candidate is that in its space
    tile         TILE consecutive candidates, near each other in space; the last tile may have fewer
    held here    the tiles that an object computes: all of them, or those of a shard
    shard        some consecutive tiles, perhaps on a worker, led by a coordinator (`sharded.py`)
    window       the last few distinct points observed, with rows R (rank, n) and gram S; see `exact/window.py`
    folded rows  W (height, n), those of all windows before
    K_l          covariance as the window opened: K_l(p, x) = k(p, x) - W(p)'W(x); now it is K_l(p, x) - R(p)'S R(x)
    fold         turns the rows of a full window into folded rows chol(S)'R, so that W'W grows by R'S R; empties it
    slot         row of a point in the window, -1 for points that are not in it
    row block    rows of one window, or of all distinct points
    rebuild      replaces all folded rows by one row block
    column       K_l(p, .): covariances of a candidate p with all candidates, as the window opened
    batch        candidates whose columns are computed together, and cached until they are observed
    index        acquisition function of each candidate; those of largest index are likely to be observed next
    group        candidates that are neighbours in space; a batch has at most one of each group
    maxima       largest index of each group, and its position
    finalist     candidate of a shard that may have the largest index of all shards (`sharded.py`)
    salt         seed of the hash that breaks ties

Where points are repeated, every window adds rows for points that have some. When there are many more rows, or
observations (whose rounding adds up), than distinct points, the rows are rebuilt: the posterior then follows from one
row block of the collapsed observations, and from the windows since.

All that is computed on a tile follows from the tile, the small arrays of the window and the rows at a few points. So
the numbers are the same on several threads, and with tiles on several workers.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.linalg.blas import dtrsv
from scipy.linalg.lapack import dpotrf

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors import blas
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.engine import Acquisition, choose
from scalable_bandits.posteriors.exact import _numba_window as numba_window
from scalable_bandits.posteriors.exact._numba_window import WindowStep
from scalable_bandits.posteriors.exact.window import PointPosterior, RowBlock, Window, variances
from scalable_bandits.posteriors.regression import covariances
from scalable_bandits.posteriors.state import State, StateEntry, Stateful, array, group, member, number, value
from scalable_bandits.posteriors.threads import ThreadTeam
from scalable_bandits.posteriors.tiled.ordering import GroupMaxima, best_of_groups, maxima_by_group
from scalable_bandits.spaces import Indices, Mask

TILE = 1024  # candidates in a tile; a multiple of 64, so that BLAS takes one path in all tiles, whose bits are equal
WINDOW = 64  # distinct points between two folds
LARGEST_BATCH = 16  # largest number of candidates in a batch
GROUPS = 2048  # number of groups at least, where there are so many candidates
REBUILD_AFTER = 16_384  # smallest number of observations between two rebuilds where most points are repeated
COLUMN_MULTIPLE = 16  # BLAS computes columns in multiples of this, so that the bits of one do not depend on the others
CACHE_BYTES = 256 * 2**20  # memory for cached columns
# Smallest number of tiles that a thread takes to observe or to compute the index. Another thread costs about 15
# microseconds; a tile takes 5 to observe and 1.4 for the index (20 for the expected improvement). Columns take
# milliseconds a tile, so that a thread may compute those of a single one.
TILES_A_THREAD = 8


class ColumnCache:
    """Covariance columns that are computed before they are needed; they are valid until the window is folded.

    Parameters
    ----------
    capacity
        Number of columns that there is room for.
    tiles
        Number of tiles held here.
    tile_size
        Number of candidates in a tile.

    Attributes
    ----------
    columns : ndarray
        (capacity, tiles, tile_size) columns.
    column_of : dict
        Number of each candidate's column, by the candidate's position; the column computed first comes first.
    """

    def __init__(self, capacity: int, tiles: int, tile_size: int):
        self.columns = np.zeros((capacity, tiles, tile_size))
        self.clear()

    def clear(self) -> None:
        """Remove all columns."""
        self.column_of: dict[int, int] = {}
        self._free = list(range(len(self.columns)))

    def assign(self, positions: Indices) -> list[int]:
        """Return numbers of columns for positions (k,); without room, those of the oldest columns are used again."""
        for p in list(self.column_of)[: max(len(positions) - len(self._free), 0)]:
            self.remove(p)
        numbers = [self._free.pop() for _ in range(len(positions))]
        self.column_of.update(zip(positions.tolist(), numbers, strict=True))
        return numbers

    def remove(self, p: int) -> None:
        """Remove the column of a position."""
        self._free.append(self.column_of.pop(p))


def _held_part(attribute: str) -> StateEntry:
    """Declare the part (h,) of an array (n,) that belongs to the h candidates held here."""

    def write(tiles: Tiles, held: Floats) -> None:
        getattr(tiles, attribute)[tiles.held_span] = held

    return value(attribute, "(h,)", np.float64, lambda tiles: getattr(tiles, attribute)[tiles.held_span], write)


class Tiles(Stateful):
    """Posterior on candidates in tiles.

    Methods name a candidate by its position, p.

    Parameters
    ----------
    kernel
        Prior covariance, whose `fill` several threads may call at once.
    points
        (n, d) candidates in the order of the tiles.
    prior_mean
        (n,) prior mean at the candidates, in units of y.
    first, stop
        First tile held here, and one after the last; None for all from the first on.
    threads
        Number of threads of this process that work on the tiles.

    Attributes
    ----------
    tile_size : int
        Number of candidates in a tile.
    size : int
        Number n of all candidates.
    held_tiles : int
        Number of tiles held here.
    held_span : slice
        Positions of the candidates held here.
    mean, variance : ndarray
        (n,) posterior, valid in the tiles held here.
    index : ndarray
        (n,) index as it was last computed.
    window : Window
        Small arrays of the open window.
    """

    def __init__(
        self, kernel: Kernel, points: Floats, prior_mean: Floats, first: int = 0, stop: int | None = None,
        threads: int = 1,
    ):  # fmt: skip
        self.kernel, self.points = kernel, points
        self.tile_size, self.size = TILE, len(points)
        count = -(-self.size // TILE)
        self.first, self.stop = first, count if stop is None else stop
        self.held_span = slice(first * TILE, min(self.stop * TILE, self.size))
        self._prior = prior_mean, kernel.diagonal(points).astype(np.float64)
        self.mean, self.variance, self.index = prior_mean.copy(), self._prior[1].copy(), self._prior[1].copy()
        self.window = Window(min(WINDOW, self.size))
        self._group_size = max(1, self.size // GROUPS)
        self.held_tiles = self.stop - first
        self._window_rows = np.zeros((self.held_tiles, self.window.capacity, TILE))  # R, by tile
        self._height = 0  # number of folded rows
        self._folded_rows = [np.empty((0, TILE)) for _ in range(count)]  # W, by tile, with room for more rows
        columns = int(np.clip(CACHE_BYTES // (8 * TILE * count), 4 * COLUMN_MULTIPLE, 32 * COLUMN_MULTIPLE))
        self._column_cache = ColumnCache(columns, self.held_tiles, TILE)
        self._observed = CollapsedObservations()
        self._can_rebuild = True  # False once rounding made the covariance of the distinct points indefinite
        self._since_rebuild = 0  # observations since the last rebuild
        self._threads = ThreadTeam(threads)

    def span(self, tile: int) -> slice:
        """Return the positions of a tile."""
        return slice(tile * self.tile_size, min((tile + 1) * self.tile_size, self.size))

    def _read_folded_rows(self) -> State:
        return {str(tile): self._folded_rows[tile][: self._height] for tile in range(self.first, self.stop)}

    def _restore_folded_rows(self, rows: State) -> None:
        for tile in range(self.first, self.stop):
            self._folded_rows[tile] = rows[str(tile)].copy()

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        _held_part("mean"),
        _held_part("variance"),
        number("_height", int),
        array("_window_rows", "(tiles, rank, tile_size)", used=("held_tiles", "window.rank")),
        number("_can_rebuild", bool),
        number("_since_rebuild", int),
        member("window"),
        member("_observed"),
        group("folded_rows", _read_folded_rows, _restore_folded_rows),
    )

    def before_restore(self, state: State) -> None:
        self._column_cache.clear()

    # ---- observing

    def observe(self, p: int, y: float, noise_variance: float) -> float:
        """Condition on y observed at p; returns the variance at p before it, for the information gain."""
        window = self.window
        if self.outgrown() or (window.slot(p) < 0 and window.rank == window.capacity):
            self.fold()
        if window.slot(p) < 0 and p not in self._column_cache.column_of:
            self._cache_batch(self._next_batch(p))
        return self.condition(p, y, noise_variance, self.point_posterior(p))

    def point_posterior(self, p: int) -> PointPosterior:
        """Return the posterior at p, which is held here."""
        rows = self._window_rows[p // self.tile_size - self.first, : self.window.rank, p % self.tile_size].copy()
        return PointPosterior(rows, float(self.mean[p]), float(self.variance[p]))

    def _window_rows_at(self, positions: Indices) -> Floats:
        """Return the rows R of the open window at some positions held here, (k, rank)."""
        tiles, places = np.divmod(positions, self.tile_size)
        return self._window_rows[tiles - self.first, : self.window.rank, places]

    def condition(self, p: int, y: float, noise_variance: float, at_p: PointPosterior) -> float:
        """Condition as `observe` does, given the posterior at p, whose column has to be cached unless it has a slot."""
        window, held = self.window, self.held_span
        slot, rank, weights = window.slot(p), window.rank, window.arrays.weights
        column = self._column_cache.columns[self._column_cache.column_of[p] if slot < 0 else 0]
        numba_window.project(window.arrays, rank, slot, at_p.rows)
        before = at_p.variance if slot < 0 else max(float(weights[:rank] @ at_p.rows), 0.0)
        change = WindowStep(p - held.start, slot, rank, weights, y - at_p.mean, before, noise_variance)
        window.record(p, change.residual, before + noise_variance, noise_variance)
        mean, variance = self.mean[held], self.variance[held]

        def update(first: int, stop: int) -> None:
            numba_window.tiles_observe(first, stop, self.tile_size, column, self._window_rows, change, mean, variance)

        self._threads.each(update, 0, self.held_tiles, TILES_A_THREAD)
        if slot < 0:
            self._column_cache.remove(p)
        self._observed.add(p, y, noise_variance)
        self._since_rebuild += 1
        return before

    def revise(self, slots: Indices, positions: Indices, weights: Floats) -> None:
        """Change values that were observed at points of the window, and with them the means (late values of a batch).

        A change of its noise variance times weights_j in a value at P_j adds weights_j K_t(P_j, .) to the mean, where
        K_t(P_j, .) = (S V_j)'R / precision_j, as `exact/window.py` says.

        Parameters
        ----------
        slots, positions
            Slots (k,) and positions (k,) of the points.
        weights
            Changes (k,) of the values over their noise variances.
        """
        window, rank = self.window, self.window.rank
        move = (weights / window.precision[slots]) @ window.inverse[slots, :rank] @ window.gram[:rank, :rank]
        window.shift[:rank] += move
        for tile in range(self.first, self.stop):
            span = self.span(tile)
            self.mean[span] += move @ self._window_rows[tile - self.first, :rank, : span.stop - span.start]
        self._observed.revise(positions.tolist(), weights.tolist())

    def _folded_rows_at(self, positions: Indices, stop: int) -> Floats:
        """Return the first `stop` folded rows at some positions held here, (k, stop)."""
        out = np.empty((len(positions), stop))
        for row, p in zip(out, positions.tolist(), strict=True):
            row[:] = self._folded_rows[p // self.tile_size][:stop, p % self.tile_size]
        return out

    def _covariances(self, points: Floats, folded: Floats, tile: int) -> Floats:
        """Compute columns k(p, x) - W(p)'W(x) of points p (k, d) on a tile: (k, candidates of the tile).

        `folded` are the rows W(p), `padded`.
        """
        span = self.span(tile)
        rows = np.ascontiguousarray(self._folded_rows[tile][: folded.shape[1], : span.stop - span.start])
        out = np.zeros((len(folded), span.stop - span.start))
        self.kernel.fill(points, self.points[span], out[: len(points)])
        blas.subtract_product(out, folded, rows)
        return out[: len(points)]

    # ---- columns computed in advance

    def _next_batch(self, p: int) -> Indices:
        """Choose the positions of a batch: p, and those that are likely to be observed next."""
        return self._batch_with(p, self.group_maxima())

    def group_maxima(self) -> GroupMaxima:
        """Find the maxima of the groups held here, without the candidates that have a column or are in the window."""
        held = self.held_span
        index = self.index[held].copy()
        known = np.fromiter((*self._column_cache.column_of, *self.window.points), dtype=np.int64) - held.start
        index[known[(known >= 0) & (known < len(index))]] = -np.inf
        return maxima_by_group(index, self._group_size, held.start)

    def _batch_with(self, p: int, found: GroupMaxima) -> Indices:
        """Return a batch of p, in the place of its group's best, and the best of the other groups."""
        own = p // self._group_size - found.first
        found.maxima[own], found.positions[own] = np.inf, p
        left = self.window.capacity - self.window.rank  # columns that are not used before the window is full are lost
        return best_of_groups(found.maxima, found.positions, min(LARGEST_BATCH, left))

    def cache_missing(self, positions: Indices) -> None:
        """Compute the columns of candidates that will be observed, together, unless they are cached or not needed."""
        cached, window = self._column_cache.column_of, self.window
        missing = [p for p in dict.fromkeys(positions.tolist()) if p not in cached and window.slot(p) < 0]
        if missing:
            self._cache_batch(np.array(missing))

    def _cache_batch(self, batch: Indices) -> None:
        """Compute and cache the columns of a batch (k,)."""
        self.cache_columns(batch, self._folded_rows_at(batch, self._height))

    def cache_columns(self, batch: Indices, folded: Floats) -> None:
        """Compute and cache the columns of a batch (k,), given its folded rows (k, height)."""
        cache, points, rows = self._column_cache, self.points[batch], padded(folded)
        numbers = cache.assign(batch)

        def compute(first: int, stop: int) -> None:
            for tile in range(first, stop):
                columns = self._covariances(points, rows, tile)
                cache.columns[numbers, tile - self.first, : columns.shape[1]] = columns

        self._threads.each(compute, self.first, self.stop)

    # ---- folds and rebuilds

    def fold(self) -> None:
        """Append the rows of the window to the folded rows, and empty the window."""
        window, start = self.window, self._height
        rank, upper = window.rank, np.ascontiguousarray(window.root().T)

        def append(first: int, stop: int) -> None:
            for tile in range(first, stop):
                span = self.span(tile)
                rows = self._window_rows[tile - self.first, :rank, : span.stop - span.start].copy()
                blas.multiply_upper(upper, rows)
                self._append(tile, rows, start)

        self._threads.each(append, self.first, self.stop)
        self._height = start + rank
        self._column_cache.clear()
        window.clear()
        if self.outgrown():
            self._rebuild()

    def _append(self, tile: int, rows: Floats, start: int) -> None:
        """Write folded rows of a tile, the first as number `start`; the room for them doubles when it is used up."""
        stop, held = start + len(rows), self._folded_rows[tile]
        if stop > len(held):
            grown = np.zeros((max(stop, 2 * len(held), 4 * WINDOW), self.tile_size))  # zero beyond the last candidate
            grown[:start] = held[:start]
            self._folded_rows[tile] = held = grown
        held[start:stop, : rows.shape[1]] = rows

    def outgrown(self) -> bool:
        """Return whether the rows, or the observations since the last rebuild, outnumber the distinct points by far."""
        distinct = len(self._observed)
        many_rows = self._height > 2 * distinct + self.window.capacity
        return self._can_rebuild and (many_rows or self._since_rebuild > max(REBUILD_AFTER, 16 * distinct))

    def new_row_block(self) -> RowBlock | None:
        """Compute the row block of all distinct points; None if rounding makes their covariance indefinite."""
        positions, averages, noise = self._observed.collapsed()
        points = self.points[positions]
        matrix = covariances(self.kernel, points, points)
        matrix.flat[:: len(matrix) + 1] += noise
        factor, failed = dpotrf(matrix.T, lower=1, clean=1, overwrite_a=1)
        shift = np.asarray(dtrsv(factor, averages - self._prior[0][positions], lower=1))
        return None if failed else RowBlock(positions, np.asarray(factor), None, shift, variances(factor, noise))

    def _rebuild(self) -> None:
        """Replace all folded rows by one new row block."""
        block = self.new_row_block()
        if block is None:  # the present rows are exact too, only more of them
            self._can_rebuild = False
            return
        self._height, self._since_rebuild = len(block.points), 0
        points, lower = self.points[block.points], np.ascontiguousarray(block.coordinates)

        def replace(first: int, stop: int) -> None:
            for tile in range(first, stop):
                span = self.span(tile)
                rows = covariances(self.kernel, points, self.points[span])
                blas.solve_lower(lower, rows)
                self._append(tile, rows, 0)
                self.mean[span] = self._prior[0][span] + block.shift @ rows
                variance = self._prior[1][span] - np.einsum("ij,ij->j", rows, rows)
                self.variance[span] = np.maximum(variance, 0.0)

        self._threads.each(replace, self.first, self.stop)
        if block.variance is not None:
            self.variance[block.points] = block.variance

    # ---- queries

    def moments(self, positions: Any) -> tuple[Floats, Floats]:
        """Return mean and variance at some positions, or at all for a slice: two (k,) arrays."""
        return self.mean[positions], self.variance[positions]

    def compute_index(self, acquisition: Acquisition, mask: Mask | None) -> slice | Indices:
        """Compute the index of the candidates held here, optionally masked, and return their positions."""

        def update(first: int, stop: int) -> Indices | None:
            run = slice(first * self.tile_size, min(stop * self.tile_size, self.size))
            some = None if mask is None else run.start + np.flatnonzero(mask[run])
            where = run if some is None else some
            self.index[where] = acquisition(self.mean[where], self.variance[where])
            return some

        found = [some for some in self._threads.each(update, self.first, self.stop, TILES_A_THREAD) if some is not None]
        return self.held_span if mask is None else np.concatenate(found)

    def best(self, acquisition: Acquisition, salt: int, numbers: Indices, mask: Mask | None) -> tuple[int, float]:
        """Find the position of the largest index, ties broken by a hash of the numbers (n,), and the index."""
        where = self.compute_index(acquisition, mask)
        position, best = choose(self.index[where], salt, None, numbers[where])
        return (where.start + position if isinstance(where, slice) else int(where[position])), best

    def columns(self, positions: Indices) -> Floats:
        """Return the posterior covariances of some candidates with all, (k, n)."""
        return self.covariances(positions, *self.rows_at(positions))

    def rows_at(self, positions: Indices) -> tuple[Floats, Floats]:
        """Return the rows at some positions held here: W (k, height), and R of the open window (k, rank)."""
        return self._folded_rows_at(positions, self._height), np.ascontiguousarray(self._window_rows_at(positions))

    def covariances(self, positions: Indices, folded: Floats, in_window: Floats) -> Floats:
        """Return the posterior covariances of some candidates with all, (k, n), valid in the tiles held here.

        Parameters
        ----------
        positions
            Positions (k,) of the candidates, not only those held here.
        folded, in_window
            Rows at the candidates, as `rows_at` returns them.
        """
        rank, points = self.window.rank, self.points[positions]
        weights, rows = in_window @ self.window.gram[:rank, :rank], padded(folded)
        out = np.empty((len(positions), self.size))

        def compute(first: int, stop: int) -> None:
            for tile in range(first, stop):
                before = self._covariances(points, rows, tile)
                in_tile = self._window_rows[tile - self.first, :rank, : before.shape[1]]
                out[:, self.span(tile)] = before - weights @ in_tile

        self._threads.each(compute, self.first, self.stop)
        return out


def padded(rows: Floats) -> Floats:
    """Return rows (k, m) with rows of zeros after them, up to a multiple of `COLUMN_MULTIPLE`."""
    found = np.zeros((-(-len(rows) // COLUMN_MULTIPLE) * COLUMN_MULTIPLE, rows.shape[1]))
    found[: len(rows)] = rows
    return found
