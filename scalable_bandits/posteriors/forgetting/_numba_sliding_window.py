"""Arithmetic of the sliding window, on arrays and scalars; see `sliding_window.py` for the notation."""

import math

import numpy as np

from scalable_bandits._numba_compile import njit
from scalable_bandits.posteriors._numba_choice import choose_upper


@njit(cache=True, nogil=True)
def drop(upper, rows, solved, count, carry, gone):
    """Remove the first of `count` observations and move the others up by one.

    Givens rotations add the first row of the factor to its trailing block, and rotate the rows V and z with it.
    """
    n = rows.shape[1]
    for i in range(count):
        carry[i] = upper[0, i]
    for i in range(n):
        gone[i] = rows[0, i]
    last = solved[0]
    for j in range(1, count):
        side = math.sqrt(upper[j, j] * upper[j, j] + carry[j] * carry[j])
        c, s = upper[j, j] / side, carry[j] / side
        upper[j - 1, j - 1] = side
        for i in range(j + 1, count):
            held = upper[j, i]
            upper[j - 1, i - 1] = c * held + s * carry[i]
            carry[i] = c * carry[i] - s * held
        for i in range(n):
            held = rows[j, i]
            rows[j - 1, i] = c * held + s * gone[i]
            gone[i] = c * gone[i] - s * held
        held = solved[j]
        solved[j - 1] = c * held + s * last
        last = c * last - s * held


@njit(cache=True, nogil=True)
def move_up(values, count):
    """Remove the first of `count` values and move the others up by one."""
    for i in range(1, count):
        values[i - 1] = values[i]


@njit(cache=True, nogil=True)
def take(own, mean, variance, row, weight, solved):
    """Subtract one row from the new one, and add it to the means and variances."""
    for i in range(own.shape[0]):
        value = row[i]
        own[i] -= weight * value
        mean[i] += solved * value
        variance[i] -= value * value


@njit(cache=True, nogil=True)
def take_four(own, mean, variance, rows, weights, solved):
    """Run `take` for four rows in one pass."""
    w0, w1, w2, w3 = weights[0], weights[1], weights[2], weights[3]
    z0, z1, z2, z3 = solved[0], solved[1], solved[2], solved[3]
    for i in range(own.shape[0]):
        a, b, c, d = rows[0, i], rows[1, i], rows[2, i], rows[3, i]
        own[i] -= (w0 * a + w1 * b) + (w2 * c + w3 * d)
        mean[i] += (z0 * a + z1 * b) + (z2 * c + z3 * d)
        variance[i] -= (a * a + b * b) + (c * c + d * d)


@njit(cache=True, nogil=True)
def append(upper, rows, solved, count, p, prior_row, residual, noise, prior_mean, prior_variance, mean, variance):
    """Add observation number `count`, at p with noise variance noise[count]; `residual` is y minus the prior mean.

    Means and variances are computed anew from the rows. Returns the information gain, and how many variances were set
    to zero because rounding made them negative.
    """
    n = rows.shape[1]
    own, weights = rows[count], upper[:, count]
    before, gain = prior_row[p], 0.0
    for j in range(count):
        weights[j] = rows[j, p]
        before -= weights[j] * weights[j]
        residual -= weights[j] * solved[j]
        gain += math.log(upper[j, j]) - 0.5 * math.log(noise[j])
    side = math.sqrt(max(before, 0.0) + noise[count])
    upper[count, count] = side
    solved[count] = residual / side
    gain += math.log(side) - 0.5 * math.log(noise[count])
    for i in range(n):
        own[i], mean[i], variance[i] = prior_row[i], prior_mean[i], prior_variance[i]
    j = 0
    while j + 4 <= count:
        take_four(own, mean, variance, rows[j : j + 4], weights[j : j + 4], solved[j : j + 4])
        j += 4
    while j < count:
        take(own, mean, variance, rows[j], weights[j], solved[j])
        j += 1
    floored = 0
    for i in range(n):
        own[i] /= side
        reduced = variance[i] - own[i] * own[i]
        if not reduced >= 0.0:  # a variance falls by no more than it has, as in `_numba_window.apply`
            own[i] = math.copysign(math.sqrt(max(variance[i], 0.0)), own[i])
            reduced = 0.0
            floored += 1
        mean[i] += solved[count] * own[i]
        variance[i] = reduced
    return gain, floored


@njit(cache=True, nogil=True)
def play(
    upper, rows, solved, held, values, noise, count, window, carry, gone, prior, prior_mean, prior_variance, mean,
    variance, gain, floored, rule, game, columns, first,
):  # fmt: skip
    """Play rounds from position `first` on, until there is no room for an observation; `prior` is the kernel matrix.

    Returns the number of rounds played in all, of observations in the window, information gain and floored variances.
    """
    everything, numbers, salt = np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.int64), np.uint64(game.salt)
    index = np.empty(mean.shape[0])
    for i in range(first, game.noise.shape[0]):
        if count < window and count == held.shape[0]:
            return i, count, gain, floored
        p, width, shown = choose_upper(mean, variance, rule, game.first + i, gain, index, everything, numbers, salt)
        y = game.table[p] + game.noise[i]
        columns.candidates[i], columns.ys[i], columns.widths[i], columns.gains[i] = p, y, width, shown
        if count == window:
            drop(upper, rows, solved, count, carry, gone)
            move_up(held, count)
            move_up(values, count)
            move_up(noise, count)
            count -= 1
        held[count], values[count], noise[count] = p, y, game.noise_variance
        gain, more = append(
            upper,
            rows,
            solved,
            count,
            p,
            prior[p],
            y - prior_mean[p],
            noise,
            prior_mean,
            prior_variance,
            mean,
            variance,
        )
        count += 1
        floored += more
    return game.noise.shape[0], count, gain, floored
