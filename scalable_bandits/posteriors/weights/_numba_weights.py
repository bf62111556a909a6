"""Arithmetic of Bayesian linear regression on p features; see `engine.py` for the notation."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits._numba_compile import njit
from scalable_bandits.posteriors._numba_choice import play_round
from scalable_bandits.posteriors.exact._numba_window import add_rows, apply


@njit(cache=True, nogil=True)
def absorb(root, shifted, row, residual, noise):
    """Add an observation to the triangle R with R'R = A, and to z with R m = z, by rotations; `row` is overwritten.

    Rotations keep the singular values of R to the rounding of the largest, so that those of A may differ by 1e30.
    """
    p = root.shape[0]
    scale = 1.0 / math.sqrt(noise)
    left = residual * scale
    for k in range(p):
        row[k] *= scale
    for k in range(p):
        if row[k] == 0.0:
            continue
        length = math.hypot(root[k, k], row[k])
        c, s = root[k, k] / length, row[k] / length
        root[k, k] = length
        for j in range(k + 1, p):
            above = root[k, j]
            root[k, j] = c * above + s * row[j]
            row[j] = c * row[j] - s * above
        above = shifted[k]
        shifted[k] = c * above + s * left
        left = c * left - s * above


@njit(cache=True, nogil=True)
def whiten(root, row):
    """Replace a row of features by R'^-1 row, whose squared length is their variance; return that variance."""
    squares = 0.0
    for k in range(root.shape[0]):
        row[k] /= root[k, k]
        squares += row[k] * row[k]
        for j in range(k + 1, root.shape[0]):
            row[j] -= root[k, j] * row[k]
    return squares


@njit(cache=True, nogil=True)
def solve(root, right, out):
    """Compute R^-1 right."""
    for k in range(root.shape[0] - 1, -1, -1):
        total = right[k]
        for j in range(k + 1, root.shape[0]):
            total -= root[k, j] * out[j]
        out[k] = total / root[k, k]


class WeightArrays(NamedTuple):
    """Arrays of an engine of weights."""

    rows: NDArray[np.float64]  # (p, n) features of the candidates
    root: NDArray[np.float64]  # (p, p) R, upper triangular
    shifted: NDArray[np.float64]  # (p,) z
    prior: NDArray[np.float64]  # (n,) prior mean
    mean: NDArray[np.float64]  # (n,)
    variance: NDArray[np.float64]  # (n,)
    count: NDArray[np.int64]  # (1,) observations since mean and variance were computed from R and z
    gain: NDArray[np.float64]  # (1,) see `Engine`


@njit(cache=True, nogil=True)
def weights_observe(arrays, p, y, noise, most):
    """Condition on one observation; returns False, and does nothing, if `most` came since the last refresh."""
    if arrays.count[0] == most:
        return False
    rows, root, mean, variance = arrays.rows, arrays.root, arrays.mean, arrays.variance
    row, weights, column = np.empty(root.shape[0]), np.empty(root.shape[0]), np.zeros(mean.shape[0])
    row[:] = rows[:, p]
    before = whiten(root, row)
    solve(root, row, weights)
    add_rows(column, rows, root.shape[0], weights)
    row[:] = rows[:, p]
    absorb(root, arrays.shifted, row, y - arrays.prior[p], noise)
    column[p] = before
    apply(column, rows, 0, 0, y - mean[p], noise + before, mean, variance)
    variance[p] = before * (noise / (noise + before))
    arrays.gain[0] += 0.5 * math.log1p(before / noise)
    arrays.count[0] += 1
    return True


@njit(cache=True, nogil=True)
def weights_observe_all(arrays, candidates, ys, noises, most, first):
    """Condition on observations from position `first` on, until a refresh; returns the number taken in all."""
    for i in range(first, ys.shape[0]):
        if not weights_observe(arrays, candidates[i], ys[i], noises[i], most):
            return i
    return ys.shape[0]


@njit(cache=True, nogil=True)
def weights_play(arrays, rule, game, columns, most, first):
    """Play rounds from position `first` on, until a refresh; returns the number of rounds played in all."""
    index = np.empty(arrays.mean.shape[0])
    for i in range(first, game.noise.shape[0]):
        if arrays.count[0] == most:
            return i
        p, y = play_round(i, arrays.mean, arrays.variance, arrays.gain[0], rule, game, columns, index)
        weights_observe(arrays, p, y, game.noise_variance, most)
    return game.noise.shape[0]
