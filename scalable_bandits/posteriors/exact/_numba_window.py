"""Arithmetic of the open window, on arrays and scalars; see `window.py` for the notation."""

import math

import numpy as np
from numba import njit

from scalable_bandits.posteriors._numba_choice import choose_upper


@njit(cache=True, nogil=True)
def project(gram, coordinates, rank, slot, rows_at, weights):
    """Compute weights a such that K_t(p, .) is column + a'rows for a new p (slot < 0), a'rows for a repeated p."""
    for j in range(rank):
        total = 0.0
        for k in range(rank):
            total += gram[j, k] * rows_at[k]
        weights[j] = (coordinates[slot, j] if slot >= 0 else 0.0) - total


@njit(cache=True, nogil=True)
def record(gram, coordinates, shift, rank, slot, weights, residual, total_variance):
    """Add the observation to the small arrays; `total_variance` is s^2(p) plus the noise variance."""
    if slot >= 0:
        for j in range(rank):
            shift[j] += weights[j] * residual / total_variance
            for k in range(rank):
                gram[j, k] += weights[j] * weights[k] / total_variance
    else:
        root = math.sqrt(total_variance)
        for j in range(rank):
            coordinates[rank, j] = -weights[j]
            gram[rank, j] = 0.0
            gram[j, rank] = 0.0
        coordinates[rank, rank] = root
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
    reduced so that the variance becomes zero; otherwise errors would grow without bound. Returns the number of such
    variances.
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
    floored = 0
    for i in range(column.shape[0]):
        step = column[i] / root
        mean[i] += column[i] * move
        reduced = variance[i] - step * step
        if reduced < 0.0:
            reduced = 0.0
            floored += 1
        variance[i] = reduced
        if slot < 0:
            rows[rank, i] = step
    return max(floored, beyond)


@njit(cache=True, nogil=True)
def triangle_column(covariance, p, out):
    """Write column p of a symmetric matrix, given by its upper triangle, to `out`."""
    for i in range(p):
        out[i] = covariance[i, p]
    for i in range(p, out.shape[0]):
        out[i] = covariance[p, i]


@njit(cache=True, nogil=True)
def dense_observe(covariance, gram, coordinates, shift, rows, rank, slot, p, y, noise, mean, variance, column, weights):
    """Condition on one observation, given the covariance; returns s^2(p) before it, and the result of `apply`."""
    project(gram, coordinates, rank, slot, rows[:, p], weights)
    if slot < 0:
        triangle_column(covariance, p, column)
    else:
        column[:] = 0.0
    add_rows(column, rows, rank, weights)
    before = max(column[p], 0.0)
    residual = y - mean[p]
    record(gram, coordinates, shift, rank, slot, weights, residual, noise + before)
    floored = apply(column, rows, rank, slot, residual, noise + before, mean, variance)
    return before, floored


@njit(cache=True, nogil=True)
def dense_play(
    covariance, gram, coordinates, shift, precision, slots, rows, rank, gain, floored, mean, variance, column, weights,
    rule, game, columns, first,
):  # fmt: skip
    """Play rounds from position `first` on, until a new point needs a row and the window is full.

    Returns the number of rounds played in all, rank, information gain and number of floored variances.
    """
    everything, numbers, salt = np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.int64), np.uint64(game.salt)
    index = np.empty(mean.shape[0])
    for i in range(first, game.noise.shape[0]):
        p, width, shown = choose_upper(mean, variance, rule, game.first + i, gain, index, everything, numbers, salt)
        slot = slots[p]
        if slot < 0 and rank == gram.shape[0]:
            return i, rank, gain, floored
        y = game.table[p] + game.noise[i]
        columns.candidates[i], columns.ys[i], columns.widths[i], columns.gains[i] = p, y, width, shown
        before, more = dense_observe(
            covariance, gram, coordinates, shift, rows, rank, slot, p, y, game.noise_variance, mean, variance, column,
            weights,
        )  # fmt: skip
        if slot < 0:
            slot = rank
            slots[p] = slot
            precision[slot] = 0.0
            rank += 1
        precision[slot] += 1.0 / game.noise_variance
        gain += 0.5 * math.log1p(before / game.noise_variance)
        floored += more
    return game.noise.shape[0], rank, gain, floored


@njit(cache=True, nogil=True)
def tiles_observe(first, end, width, columns, rows, rank, slot, weights, residual, total_variance, mean, variance):
    """Run `apply` on the tiles from `first` to `end`; for a new p, `columns` (tiles, width) is K_l(p, .)."""
    column = np.empty(width)
    floored = 0
    for k in range(first, end):
        start = k * width
        stop = min(start + width, mean.shape[0])
        held = column[: stop - start]
        if slot < 0:
            held[:] = columns[k, : stop - start]
        else:
            held[:] = 0.0
        add_rows(held, rows[k], rank, weights)
        floored += apply(held, rows[k], rank, slot, residual, total_variance, mean[start:stop], variance[start:stop])
    return floored


@njit(cache=True, nogil=True)
def forward(coordinates, rank, vector):
    """Solve coordinates x = vector (lower triangular) in place."""
    for j in range(rank):
        total = vector[j]
        for k in range(j):
            total -= coordinates[j, k] * vector[k]
        vector[j] = total / coordinates[j, j]


@njit(cache=True, nogil=True)
def condition_draw(draw, rows, gram, coordinates, rank, innovation):
    """Turn a draw of the process as the window opened into one given the window's data, in place.

    `innovation` is the draw at the window's points plus noise. By Matheron's rule
    K_l(., P) (K_l(P, P) + noise)^-1 innovation = rows' gram coordinates^-1 innovation is subtracted from the draw.
    """
    forward(coordinates, rank, innovation)
    for j in range(rank):
        total = 0.0
        for k in range(rank):
            total += gram[j, k] * innovation[k]
        for i in range(draw.shape[0]):
            draw[i] -= total * rows[j, i]
