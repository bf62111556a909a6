"""Posterior variances of many candidates, for choosing points by variance alone: several points between two updates.

    tile       TILE consecutive candidates, whose rows are computed together
    shard      some consecutive tiles, perhaps on a worker (`DesignTiles`)
    rows       W (height, n) = L^-1 K of the folded points: K_l(p, x) = k(p, x) - W(p)'W(x)
    new        said of points observed since the last fold, which have no rows yet
    fold       adds the rows F = chol(S)^-1 K_l(X, .) of the new points X, with S = K_l(X, X) + noise variances
    block      folded points whose rows were added together
    rebuild    replaces all rows by those of the distinct points
    pool       the candidates of largest variance at the last fold; they alone are conditioned on the new points

Variances only fall. So, as long as one in the pool is above what all candidates outside had when the pool was made, it
is the largest of all, and the points chosen from the pool are those that would be chosen one by one. When no candidate
of the pool is above those outside, the new points are folded, tile by tile (BLAS 3), and another pool is made.

Shards are asked twice a pool. Every number follows from a tile and the points.
"""

from __future__ import annotations

import functools
from typing import ClassVar

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors import blas
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.engine import Acquisition, Engine, choose, order_of_ties
from scalable_bandits.posteriors.placement import Call, Executor, Shards, executor, made
from scalable_bandits.posteriors.regression import covariances, positive_factor
from scalable_bandits.posteriors.state import State, StateEntry, value
from scalable_bandits.posteriors.tiled.ordering import shard_edges
from scalable_bandits.spaces import FiniteSpace, Indices, Mask, Points

TILE = 1024  # candidates whose rows are computed at a time
SMALLEST_POOL, LARGEST_POOL = 256, 2048  # smallest and largest number of candidates in a pool
POOL_FRACTION = 64  # between these two, a pool has one of so many candidates
CHUNK = 256  # rows of a tile in one product; there is room for a multiple of these
BLOCK = 256  # points in a block of a rebuild
UNKNOWN: Mask = np.zeros(0, dtype=np.bool_)  # stands for the mask of a restored pool, the mask of the next question
ABOVE = 1.0 + 1e-9  # factor by which a variance has to be larger to be above others, more than rounding


class DesignTiles:
    """Rows and variances of some consecutive candidates, a shard of `DesignEngine`.

    Parameters
    ----------
    kernel
        Prior covariance. Its `fill` is called by several threads at once.
    space
        Space of all candidates.
    first, stop
        Number of the first candidate, and one after the last.
    """

    def __init__(self, kernel: Kernel, space: FiniteSpace, first: int, stop: int):
        self._kernel, self._first = kernel, first
        self._points = np.ascontiguousarray(space.points()[first:stop])
        self._starts = range(0, stop - first, TILE)
        self.clear()

    def clear(self) -> None:
        """Remove all rows."""
        self._variance = self._kernel.diagonal(self._points).astype(np.float64)
        self._height = 0
        self._rows = [np.empty((0, min(TILE, len(self._points) - s))) for s in self._starts]  # by tile, with room

    def add(self, points: Floats, rows: Floats, lower: Floats) -> None:
        """Add the rows of points (b, d), given the rows (b, height) at them so far and the lower factor (b, b) of S."""
        height, stop = self._height, self._height + len(points)
        chunks = [slice(i, min(i + CHUNK, height)) for i in range(0, height, CHUNK)]
        parts = [np.ascontiguousarray(rows[:, chunk]) for chunk in chunks]
        for tile, start in enumerate(self._starts):
            some, held = self._points[start : start + TILE], self._rows[tile]
            block = covariances(self._kernel, points, some)
            for part, chunk in zip(parts, chunks, strict=True):
                blas.subtract_product(block, part, held[chunk])
            blas.solve_lower(lower, block)
            if stop > len(held):
                held.resize(-(-stop // CHUNK) * CHUNK, len(some), refcheck=False)
            held[height:stop] = block
            self._variance[start : start + TILE] -= np.einsum("ij,ij->j", block, block)
        np.maximum(self._variance, 0.0, out=self._variance)
        self._height = stop

    def variances(self) -> Floats:
        """Return the variances (n,) of these candidates."""
        return self._variance

    def rows_at(self, numbers: Indices) -> Floats:
        """Return the rows (k, height) at those of the candidates `numbers`, in ascending order, that are held here."""
        here = numbers[(numbers >= self._first) & (numbers < self._first + len(self._points))] - self._first
        found = np.empty((len(here), self._height))
        for tile in np.unique(here // TILE).tolist():
            inside = here // TILE == tile
            found[inside] = self._rows[tile][: self._height, here[inside] % TILE].T
        return found


class Contenders:
    """The candidates of largest variance, conditioned on the points chosen from them.

    Parameters
    ----------
    kernel
        Prior covariance.
    numbers
        (k,) numbers of the candidates, ascending.
    points
        (k, d) points of the candidates.
    rows
        (k, height) rows W at the candidates.
    variances
        (n,) variances of all candidates when the pool was made.
    tied
        Whether more candidates than fit into the pool have the largest variance; the pool then has the first of these
        in the order in which ties are broken.
    mask
        Mask (n,) of the candidates from which the pool was taken; None for all.
    """

    def __init__(
        self, kernel: Kernel, numbers: Indices, points: Floats, rows: Floats, variances: Floats, tied: bool,
        mask: Mask | None,
    ):  # fmt: skip
        self.numbers, self.tied = numbers, tied
        self._kernel, self._points, self._rows, self._mask = kernel, points, rows, mask
        self._updates, self._count = np.empty((0, len(numbers))), 0  # rows of the points chosen from the pool
        self.variance = variances[numbers]
        self._largest = float(self.variance.max(initial=0.0))  # when the pool was made
        self._outside = variances.copy()
        self._outside[numbers] = -np.inf
        self._bound: tuple[Mask | None, float] | None = None  # a mask, and the largest variance outside that it allows

    def position(self, candidate: int) -> int:
        """Return the position of a candidate in the pool, -1 for one outside."""
        position = int(np.searchsorted(self.numbers, candidate))
        return position if position < len(self.numbers) and self.numbers[position] == candidate else -1

    def rows_at(self, numbers: Indices) -> Floats:
        """Return the rows (b, height) at candidates (b,) of the pool, as of the last fold."""
        return self._rows[np.searchsorted(self.numbers, numbers)]

    @blas.one_thread
    def condition(self, position: int, noise_variance: float) -> None:
        """Condition on a measurement at a position of the pool, with this noise variance."""
        updates = self._updates[: self._count]
        row = self._kernel.block(self._points[position : position + 1], self._points)[0]
        row -= self._rows @ self._rows[position] + updates[:, position] @ updates
        row /= np.sqrt(self.variance[position] + noise_variance)
        if self._count == len(self._updates):
            self._updates = np.concatenate([self._updates, np.empty((16 + self._count, len(row)))])
        self._updates[self._count] = row
        self._count += 1
        self.variance = np.maximum(self.variance - row**2, 0.0)

    def decides(self, mask: Mask | None) -> bool:
        """Return whether the largest variance of the candidates allowed by a mask (n,) is in the pool."""
        inside = self.variance if mask is None else self.variance[mask[self.numbers]]
        top = float(inside.max(initial=-np.inf))
        if self._mask is UNKNOWN:
            self._mask = mask
        if self.tied:
            return mask is self._mask and top * ABOVE >= self._largest
        if self._bound is None or self._bound[0] is not mask:
            outside = self._outside if mask is None else self._outside[mask]
            self._bound = mask, float(outside.max(initial=-np.inf))
        return top > self._bound[1] * ABOVE


class DesignEngine(Engine):
    """Exact variances, for choosing points by variance alone; it has no means.

    See `Engine` for the other parameters and the interface, of which it has `argmax` for an index of the variance,
    `observe`, whose values it ignores, `at`, `variance` and `information_gain`.

    Parameters
    ----------
    holder
        Executor that holds the tiles.
    space
        Space of the candidates, from which shards make their tiles.
    """

    limit: ClassVar[int] = 2_000_000

    STATE: ClassVar[tuple[StateEntry, ...]] = (  # restored together by `restore`
        value("points", "(m,)", np.int64, lambda self: self._folded[0]),
        value("noise_variances", "(m,)", np.float64, lambda self: self._folded[1]),
        value("blocks", "(b,)", np.int64, lambda self: [len(call.arguments[0]) for call in self._added]),
        value("new_points", "(q,)", np.int64, lambda self: [c for c, _ in self._new]),
        value("new_noise", "(q,)", np.float64, lambda self: [v for _, v in self._new]),
        value("pool", "(k,)", np.int64, lambda self: [] if self._pool is None else self._pool.numbers),
        value("tied", "()", bool, lambda self: self._pool is not None and self._pool.tied),
    )

    def __init__(
        self, kernel: Kernel, points: Floats, prior_mean: Floats, holder: Executor | None = None,
        space: FiniteSpace | None = None,
    ):  # fmt: skip
        super().__init__(kernel, points, prior_mean)
        edges = shard_edges(-(-self.size // TILE))
        self._ends: list[int] = np.minimum(edges * TILE, self.size).tolist()
        self._space = Points(points) if space is None else space
        self._every = range(len(edges) - 1)
        self._folded = np.empty(0, dtype=np.int64), np.empty(0)  # candidates that are folded points; noise variances
        self._added: list[Call] = []  # calls that gave the shards the blocks of folded points
        self._new: list[tuple[int, float]] = []  # candidates that are new points, with their noise variances
        self._pool: Contenders | None = None
        self._shards: Shards[DesignTiles] = (holder or executor(None)).shards(
            self._maker, len(self._every), f"variances of {self.size} candidates"
        )

    def _maker(self, shard: int) -> functools.partial[DesignTiles]:
        """Return the function that makes a shard, with the rows of the points so far."""
        first, stop = self._ends[shard : shard + 2]
        new_shard = functools.partial(DesignTiles, self.kernel, self._space, first, stop)
        return functools.partial(made, new_shard, tuple(self._added))

    # ---- points

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        position = -1 if self._pool is None else self._pool.position(candidate)
        if position < 0:
            before = float(self.at(np.array([candidate]))[1][0])
            self._pool = None
        else:
            assert self._pool is not None
            before = float(self._pool.variance[position])
            self._pool.condition(position, noise_variance)
        self._new.append((candidate, noise_variance))
        self._add_gain(before, noise_variance)

    @blas.one_thread
    def _fold(self) -> None:
        """Add the rows of the new points, and end the pool."""
        numbers, noise = np.array([c for c, _ in self._new]), np.array([v for _, v in self._new])
        known = None if self._pool is None else self._pool.rows_at(numbers)
        self._add(numbers, noise, known)
        self._new, self._pool = [], None
        if len(self._folded[0]) > 2 * len(np.unique(self._folded[0])) + BLOCK:
            self._rebuild()
        self._variance = np.concatenate(self._shards.ask(self._every, DesignTiles.variances))

    def _add(self, numbers: Indices, noise_variances: Floats, rows: Floats | None = None) -> None:
        """Add a block: the rows of some points (b,), given the rows (b, height) at them so far if they are known."""
        if rows is None:
            distinct, inverse = np.unique(numbers, return_inverse=True)
            rows = self._rows_at(distinct)[inverse]
        points = self.points[numbers]
        covariance = self.kernel.block(points)
        blas.subtract_product(covariance, rows, np.ascontiguousarray(rows.T))
        lower = positive_factor(covariance, noise_variances)
        self._added.append(self._shards.tell(None, DesignTiles.add, points, rows, np.ascontiguousarray(lower)))
        self._folded = np.append(self._folded[0], numbers), np.append(self._folded[1], noise_variances)

    def _rows_at(self, numbers: Indices) -> Floats:
        """Return the rows (k, height) of candidates in ascending order."""
        return np.concatenate(self._shards.ask(self._every, DesignTiles.rows_at, numbers))

    def _rebuild(self) -> None:
        """Replace all rows by those of the distinct points, with the noise variances of their averages."""
        observed = CollapsedObservations()
        for candidate, noise_variance in zip(*(held.tolist() for held in self._folded), strict=True):
            observed.add(candidate, 0.0, noise_variance)
        numbers, _, noise_variances = observed.collapsed()
        self._clear()
        for start in range(0, len(numbers), BLOCK):
            self._add(numbers[start : start + BLOCK], noise_variances[start : start + BLOCK])

    def _clear(self) -> None:
        self._shards.tell(None, DesignTiles.clear)
        self._folded, self._added = (np.empty(0, dtype=np.int64), np.empty(0)), []

    # ---- questions

    def argmax(
        self, acquisition: Acquisition, salt: int, allowed: Mask | None = None, reduction: Floats | None = None
    ) -> tuple[int, float]:
        pool = self._pool
        if self._new and not (pool is not None and pool.decides(allowed)):
            self._fold()
            pool = None
        if pool is None or not self._new:
            if pool is None:
                self._pool = self._make_pool(salt, allowed)
            return choose(acquisition(self._mean, self._variance), salt, allowed)
        index = acquisition(np.zeros(len(pool.numbers)), pool.variance)
        inside = None if allowed is None else allowed[pool.numbers]
        position, best = choose(index, salt, inside, pool.numbers)
        return int(pool.numbers[position]), best

    def _make_pool(self, salt: int, allowed: Mask | None) -> Contenders:
        """Make a pool of the candidates of largest variance among those allowed."""
        numbers = np.arange(self.size) if allowed is None else np.flatnonzero(allowed)
        variance, most = self._variance[numbers], int(np.clip(self.size // POOL_FRACTION, SMALLEST_POOL, LARGEST_POOL))
        tied = numbers[variance * ABOVE >= variance.max(initial=0.0)]
        if too_many := len(tied) > most:
            numbers = np.sort(tied[order_of_ties(tied, salt)[:most]])
        elif len(numbers) > most:
            numbers = np.sort(numbers[np.argpartition(-variance, most)[:most]])
        return self._pool_of(numbers, too_many, allowed)

    def _pool_of(self, numbers: Indices, tied: bool, mask: Mask | None) -> Contenders:
        return Contenders(
            self.kernel, numbers, self.points[numbers], self._rows_at(numbers), self._variance, tied, mask
        )

    def at(self, candidates: Indices) -> tuple[Floats, Floats]:
        """Return prior means and posterior variances of some candidates, two (k,) arrays."""
        pool = self._pool
        if self._new:
            positions = [-1 if pool is None else pool.position(candidate) for candidate in candidates.tolist()]
            if pool is not None and min(positions, default=0) >= 0:
                return self._mean[candidates], pool.variance[positions]
            self._fold()
        return self._mean[candidates], self._variance[candidates]

    def variance(self) -> Floats:
        return self.at(np.arange(self.size))[1]

    def columns(self, candidates: Indices) -> Floats:
        raise NotImplementedError("DesignEngine has variances alone")

    # ---- state

    def restore(self, state: State) -> None:
        super().restore(state)
        self._clear()
        start = 0
        for size in state["blocks"].tolist():
            block = slice(start, start + size)
            self._add(state["points"][block], state["noise_variances"][block])
            start += size
        self._variance = np.concatenate(self._shards.ask(self._every, DesignTiles.variances))
        self._new = list(zip(state["new_points"].tolist(), state["new_noise"].tolist(), strict=True))
        self._pool = None
        if len(state["pool"]):
            self._pool = pool = self._pool_of(state["pool"], bool(state["tied"]), UNKNOWN)
            for candidate, noise_variance in self._new:
                pool.condition(pool.position(candidate), noise_variance)
