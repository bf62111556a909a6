"""Arithmetic of fading observations, on arrays and scalars; see `weighted.py` for the notation."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits._numba_compile import njit
from scalable_bandits.posteriors._numba_choice import play_round
from scalable_bandits.posteriors.exact._numba_window import add_rows

NEGLIGIBLE = 1e-20  # precision times prior variance below which an arm's observations are forgotten


class WeightedArrays(NamedTuple):
    """Arrays of a weighted engine; `fit` has room for r arms."""

    prior_mean: NDArray[np.float64]  # (n,)
    prior_variance: NDArray[np.float64]  # (n,)
    precision: NDArray[np.float64]  # (n,) q
    weighted: NDArray[np.float64]  # (n,) b
    mean: NDArray[np.float64]  # (n,)
    variance: NDArray[np.float64]  # (n,)
    lower: NDArray[np.float64]  # (r, r) L
    rows: NDArray[np.float64]  # (r, n) V
    solved: NDArray[np.float64]  # (r,) L^-1 Q^(-1/2) b
    weights: NDArray[np.float64]  # (r,) scratch space


@njit(cache=True, nogil=True)
def observe(arrays, fade, p, y, noise):
    """Let the weights fade by a factor, and add an observation at p."""
    prior_mean, prior_variance, precision, weighted, _, _, _, _, _, _ = arrays
    if fade < 1.0:
        for i in range(precision.shape[0]):
            precision[i] *= fade
            weighted[i] *= fade
            if precision[i] * prior_variance[i] < NEGLIGIBLE:
                precision[i] = 0.0
                weighted[i] = 0.0
    precision[p] += 1.0 / noise
    weighted[p] += (y - prior_mean[p]) / noise


@njit(cache=True, nogil=True)
def fit(arrays, gram):
    """Compute the posterior, one arm after the other; returns the information gain, and the variances set to zero.

    The row of an arm is its covariance with all candidates given the arms before it, divided by its deviation with
    noise. Then (L)_ak = (Q^(1/2))_aa V_ka for k < a, without a factorisation. `gram` is the kernel matrix.
    """
    prior_mean, prior_variance, precision, weighted, mean, variance, lower, rows, solved, weights = arrays
    n = mean.shape[0]
    count, gain = 0, 0.0
    for i in range(n):
        mean[i], variance[i] = prior_mean[i], prior_variance[i]
    for arm in range(n):
        if precision[arm] == 0.0:
            continue
        root, row = math.sqrt(precision[arm]), rows[count]
        residual = weighted[arm] / root
        for k in range(count):
            lower[count, k] = root * rows[k, arm]
            weights[k] = -lower[count, k]
            residual -= lower[count, k] * solved[k]
        for i in range(n):
            row[i] = root * gram[arm, i]
        add_rows(row, rows, count, weights)
        side = math.sqrt(1.0 + root * max(row[arm], 0.0))
        lower[count, count], solved[count] = side, residual / side
        for i in range(n):
            row[i] /= side
            mean[i] += solved[count] * row[i]
            variance[i] -= row[i] * row[i]
        gain += math.log(side)
        count += 1
    for i in range(n):
        variance[i] = max(variance[i], 0.0)
    return gain


@njit(cache=True, nogil=True)
def play(arrays, gram, rule, game, columns, first, gain, age_fade, fade):
    """Play rounds from position `first` on, until more arms have weight than there is room for.

    `gain` is the information gain of the posterior, NaN if that has to be computed. Observations fade by `age_fade`
    when the first one comes, and then by `fade`. Returns the number of rounds played in all.
    """
    mean, variance, precision = arrays.mean, arrays.variance, arrays.precision
    n, now = mean.shape[0], age_fade
    index = np.empty(n)
    for i in range(first, game.noise.shape[0]):
        if i > first or math.isnan(gain):
            count = 0
            for arm in range(n):
                count += precision[arm] > 0.0
            if count > arrays.rows.shape[0]:
                return i
            gain = fit(arrays, gram)
        p, y = play_round(i, mean, variance, gain, rule, game, columns, index)
        observe(arrays, now, p, y, game.noise_variance)
        now = fade
    return game.noise.shape[0]
