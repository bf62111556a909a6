"""Arithmetic of the sliding window, on arrays and scalars; see `sliding_window.py` for the notation."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits._numba_compile import njit
from scalable_bandits.posteriors._numba_choice import play_round


class SlidingArrays(NamedTuple):
    """Arrays of a sliding-window engine with room for c observations, the oldest first."""

    upper: NDArray[np.float64]  # (c, c) U
    rows: NDArray[np.float64]  # (c, n) V
    solved: NDArray[np.float64]  # (c,) z
    held: NDArray[np.int64]  # (c,) candidates
    values: NDArray[np.float64]  # (c,) y
    noise: NDArray[np.float64]  # (c,) noise variances
    count: NDArray[np.int64]  # (1,) number of observations
    prior_mean: NDArray[np.float64]  # (n,)
    prior_variance: NDArray[np.float64]  # (n,)
    mean: NDArray[np.float64]  # (n,)
    variance: NDArray[np.float64]  # (n,)
    gain: NDArray[np.float64]  # (1,) see `Engine`
    carry: NDArray[np.float64]  # (c,) scratch space
    gone: NDArray[np.float64]  # (n,) scratch space


@njit(cache=True, nogil=True, forceinline=True)
def drop(arrays):
    """Remove the oldest observation and move the others up by one.

    Givens rotations add the first row of the factor to its trailing block, and rotate the rows V and z with it.
    """
    upper, rows, solved, held, values, noise, counts, _, _, _, _, _, carry, gone = arrays
    count, n = counts[0], rows.shape[1]
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
            entry = upper[j, i]
            upper[j - 1, i - 1] = c * entry + s * carry[i]
            carry[i] = c * carry[i] - s * entry
        for i in range(n):
            entry = rows[j, i]
            rows[j - 1, i] = c * entry + s * gone[i]
            gone[i] = c * gone[i] - s * entry
        entry = solved[j]
        solved[j - 1] = c * entry + s * last
        last = c * last - s * entry
        held[j - 1], values[j - 1], noise[j - 1] = held[j], values[j], noise[j]
    counts[0] -= 1


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


@njit(cache=True, nogil=True, forceinline=True)
def append(arrays, p, y, noise_variance, prior_row):
    """Add an observation at p, whose prior covariances with all candidates are `prior_row`.

    Means and variances are computed anew from the rows.
    """
    upper, rows, solved, held, values, noise, counts, prior_mean, prior_variance, mean, variance, total, _, _ = arrays
    count, n = counts[0], rows.shape[1]
    held[count], values[count], noise[count] = p, y, noise_variance
    own, weights = rows[count], upper[:, count]
    residual, before, gain = y - prior_mean[p], prior_row[p], 0.0
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
    for i in range(n):
        own[i] /= side
        reduced = variance[i] - own[i] * own[i]
        if not reduced >= 0.0:  # a variance falls by no more than it has, as in `_numba_window.apply`
            own[i] = math.copysign(math.sqrt(max(variance[i], 0.0)), own[i])
            reduced = 0.0
        mean[i] += solved[count] * own[i]
        variance[i] = reduced
    total[0] = gain
    counts[0] += 1


@njit(cache=True, nogil=True)
def play(arrays, window, gram, rule, game, columns, first):
    """Play rounds from position `first` on, until there is no room for an observation; `gram` is the kernel matrix.

    Returns the number of rounds played in all.
    """
    mean, variance, gain, count = arrays.mean, arrays.variance, arrays.gain, arrays.count
    index = np.empty(mean.shape[0])
    for i in range(first, game.noise.shape[0]):
        if count[0] == window:
            drop(arrays)
        elif count[0] == arrays.held.shape[0]:
            return i
        p, y = play_round(i, mean, variance, gain[0], rule, game, columns, index)
        append(arrays, p, y, game.noise_variance, gram[p])
    return game.noise.shape[0]
