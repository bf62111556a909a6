"""Arithmetic of the open window, on arrays and scalars; see `window.py` for the notation."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits._numba_compile import njit
from scalable_bandits.posteriors._numba_choice import play_round


class WindowArrays(NamedTuple):
    """Small arrays of an open window."""

    gram: NDArray[np.float64]  # (capacity, capacity)
    inverse: NDArray[np.float64]  # (capacity, capacity)
    shift: NDArray[np.float64]  # (capacity,)
    precision: NDArray[np.float64]  # (capacity,)
    weights: NDArray[np.float64]  # (capacity,) scratch space


@njit(cache=True, nogil=True)
def project(window, rank, slot, rows_at):
    """Compute weights a such that K_t(p, .) is column + a'rows for a new p (slot < 0), a'rows for a repeated p.

    Those of a repeated p are S inverse_p over its precision, and so of the size of its variance: a difference of larger
    numbers would lose the variance of a point that is played very often.
    """
    gram, inverse, weights = window.gram, window.inverse, window.weights
    scale = 1.0 / window.precision[slot] if slot >= 0 else -1.0
    for j in range(rank):
        weights[j] = 0.0
    for k in range(max(slot, 0), rank):
        factor = scale * (inverse[slot, k] if slot >= 0 else rows_at[k])
        for j in range(rank):
            weights[j] += factor * gram[k, j]


@njit(cache=True, nogil=True)
def record(window, rank, slot, residual, total_variance, noise):
    """Add the observation to the small arrays; `total_variance` is s^2(p) plus the noise variance."""
    gram, inverse, shift, precision, weights = window
    precision[slot if slot >= 0 else rank] = 1.0 / noise + (precision[slot] if slot >= 0 else 0.0)
    if slot >= 0:
        for j in range(rank):
            step = weights[j] / total_variance
            shift[j] += step * residual
            for k in range(rank):
                gram[j, k] += step * weights[k]
    else:
        root = math.sqrt(total_variance)
        for j in range(rank):
            total = 0.0
            for k in range(j, rank):
                total += inverse[j, k] * weights[k]
            inverse[j, rank] = total / root
            inverse[rank, j] = 0.0
            gram[rank, j] = 0.0
            gram[j, rank] = 0.0
        inverse[rank, rank] = 1.0 / root
        gram[rank, rank] = 1.0
        shift[rank] = residual / root


@njit(cache=True, nogil=True)
def add_rows(column, rows, rank, weights):
    """Add weights'rows to the column, four rows in one pass over it."""
    n = column.shape[0]
    j = 0
    while j + 4 <= rank:
        w0, w1, w2, w3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        for i in range(n):
            column[i] += (w0 * rows[j, i] + w1 * rows[j + 1, i]) + (w2 * rows[j + 2, i] + w3 * rows[j + 3, i])
        j += 4
    while j < rank:
        for i in range(n):
            column[i] += weights[j] * rows[j, i]
        j += 1


@njit(cache=True, nogil=True)
def apply(column, rows, rank, slot, residual, total_variance, mean, variance):
    """Update mean and variance by the covariance column of the observed point, with rank one.

    A variance falls by no more than it has. Where rounding would make it negative (almost no noise), the covariance is
    reduced so that the variance becomes zero; otherwise errors would grow without bound.
    """
    move = residual / total_variance
    root = math.sqrt(total_variance)
    beyond = 0
    for i in range(column.shape[0]):
        beyond += not column[i] * column[i] <= variance[i] * total_variance
    if beyond:  # a loop of its own, so that the compiler vectorises the usual ones
        for i in range(column.shape[0]):
            if not column[i] * column[i] <= variance[i] * total_variance:
                column[i] = math.copysign(math.sqrt(variance[i]) * root, column[i])
    for i in range(column.shape[0]):
        step = column[i] / root
        mean[i] += column[i] * move
        variance[i] = max(variance[i] - step * step, 0.0)
        if slot < 0:
            rows[rank, i] = step


@njit(cache=True, nogil=True, forceinline=True)
def window_observe(window, rank, slot, p, y, noise, column, rows, mean, variance):
    """Condition on y observed at p; return its variance before that.

    For a new p (slot < 0) the column is the covariance of p with all candidates as the window opened.
    """
    project(window, rank, slot, rows[:, p])
    if slot >= 0:
        column[:] = 0.0
    add_rows(column, rows, rank, window.weights)
    if slot < 0:
        column[p] = variance[p]  # which has lost less to rounding
    before = max(column[p], 0.0)
    residual = y - mean[p]
    record(window, rank, slot, residual, noise + before, noise)
    apply(column, rows, rank, slot, residual, noise + before, mean, variance)
    variance[p] = before * (noise / (noise + before))
    return before


@njit(cache=True, nogil=True)
def triangle_column(covariance, p, out):
    """Write column p of a symmetric matrix, given by its upper triangle, to `out`."""
    for i in range(p):
        out[i] = covariance[i, p]
    for i in range(p, out.shape[0]):
        out[i] = covariance[p, i]


class DenseArrays(NamedTuple):
    """Arrays of a dense engine; those of several have one more axis in front."""

    covariance: NDArray[np.float64]  # (n, n) as the window opened; its upper triangle counts
    mean: NDArray[np.float64]  # (n,)
    variance: NDArray[np.float64]  # (n,)
    rows: NDArray[np.float64]  # (capacity, n) rows of the window
    gram: NDArray[np.float64]  # small arrays of the window, from here to the weights
    inverse: NDArray[np.float64]
    shift: NDArray[np.float64]
    precision: NDArray[np.float64]
    weights: NDArray[np.float64]
    column: NDArray[np.float64]  # (n,) scratch space
    slots: NDArray[np.int64]  # (n,) row of each candidate in the window, -1 for none
    rank: NDArray[np.int64]  # (1,) number of rows in the window
    gain: NDArray[np.float64]  # (1,) see `Engine`


@njit(cache=True, nogil=True, forceinline=True)
def dense_observe(arrays, p, y, noise):
    """Condition on one observation; returns False, and does nothing, if a new point needs a row of a full window."""
    covariance, mean, variance, rows, gram, inverse, shift, precision, weights, column, slots, ranks, gain = arrays
    slot, rank = slots[p], ranks[0]
    if slot < 0 and rank == shift.shape[0]:
        return False
    if slot < 0:
        triangle_column(covariance, p, column)
    window = WindowArrays(gram, inverse, shift, precision, weights)
    before = window_observe(window, rank, slot, p, y, noise, column, rows, mean, variance)
    if slot < 0:
        slots[p] = rank
        ranks[0] += 1
    gain[0] += 0.5 * math.log1p(before / noise)
    return True


@njit(cache=True, nogil=True)
def dense_observe_all(arrays, candidates, ys, noises, first):
    """Condition on observations from position `first` on, until the window is full; returns the number taken in all."""
    for i in range(first, ys.shape[0]):
        if not dense_observe(arrays, candidates[i], ys[i], noises[i]):
            return i
    return ys.shape[0]


@njit(cache=True, nogil=True)
def dense_play(arrays, rule, game, columns, first):
    """Play rounds from position `first` on, until the window is full; returns the number of rounds played in all."""
    mean, variance, gain = arrays.mean, arrays.variance, arrays.gain
    index = np.empty(mean.shape[0])
    for i in range(first, game.noise.shape[0]):
        p, y = play_round(i, mean, variance, gain[0], rule, game, columns, index)
        if not dense_observe(arrays, p, y, game.noise_variance):
            return i
    return game.noise.shape[0]


class WindowStep(NamedTuple):
    """Observation at a point p, and what the window says of it."""

    p: int  # position of p, counted from the first tile held here
    slot: int  # row of p in the window, -1 for a new one
    rank: int  # number of rows before the observation
    weights: NDArray[np.float64]  # result of `project`
    residual: float  # y minus the mean at p
    before: float  # s^2(p) before the observation
    noise: float  # noise variance


@njit(cache=True, nogil=True)
def tiles_observe(first, end, size, columns, rows, change, mean, variance):
    """Run `apply` on the tiles of a size from `first` to `end`; for a new p, `columns` (tiles, size) is K_l(p, .)."""
    p, slot, rank, weights, residual, before, noise = change
    column = np.empty(size)
    for k in range(first, end):
        start = k * size
        stop = min(start + size, mean.shape[0])
        held = column[: stop - start]
        if slot < 0:
            held[:] = columns[k, : stop - start]
        else:
            held[:] = 0.0
        add_rows(held, rows[k], rank, weights)
        here = start <= p < stop
        if here:
            held[p - start] = before  # which has lost less to rounding
        apply(held, rows[k], rank, slot, residual, before + noise, mean[start:stop], variance[start:stop])
        if here:
            variance[p] = before * (noise / (noise + before))


@njit(cache=True, nogil=True)
def condition_draw(draw, rows, gram, inverse, rank, innovation):
    """Turn a draw of the process as the window opened into one given the window's data, in place.

    `innovation` is the draw at the window's points plus noise. By Matheron's rule
    K_l(., P) (K_l(P, P) + noise)^-1 innovation = rows' gram inverse' innovation is subtracted from the draw.
    """
    whitened = np.zeros(rank)
    for k in range(rank):
        for j in range(k, rank):
            whitened[j] += inverse[k, j] * innovation[k]
    for j in range(rank):
        total = 0.0
        for k in range(rank):
            total += gram[j, k] * whitened[k]
        for i in range(draw.shape[0]):
            draw[i] -= total * rows[j, i]
