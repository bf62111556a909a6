"""Arithmetic of the Kalman step, on arrays and scalars; see `kalman.py` for the notation."""

import math

import numpy as np

from scalable_bandits._numba_compile import njit
from scalable_bandits.posteriors._numba_choice import choose_upper

SMALLEST_SCALE = 1e-30  # below it the scale is multiplied into the matrix


@njit(cache=True, nogil=True)
def refresh(prior, gained, scale, variance):
    """Compute the variances from the gained matrix; returns how many rounding made negative, which are set to zero."""
    floored = 0
    for i in range(variance.shape[0]):
        value = prior[i, i] - scale * gained[i, i]
        if value < 0.0:
            value = 0.0
            floored += 1
        variance[i] = value
    return floored


@njit(cache=True, nogil=True)
def observe(prior, gained, scale, p, y, noise, prior_mean, mean, deviation, column):
    """Condition on one observation at p; returns s^2(p) before it. `refresh` then updates the variances."""
    n = prior.shape[0]
    for i in range(n):
        column[i] = prior[p, i] - scale * gained[p, i]
    before = max(column[p], 0.0)
    step = (y - mean[p]) / (noise + before)
    share = 1.0 / ((noise + before) * scale)
    for i in range(n):
        factor = share * column[i]
        for j in range(n):
            gained[i, j] += factor * column[j]
        deviation[i] += step * column[i]
        mean[i] = prior_mean[i] + deviation[i]
    return before


@njit(cache=True, nogil=True)
def advance(prior, gained, scale, prior_mean, mean, deviation, variance, keep, root):
    """Move the time forward: `keep` is what remains of covariances, `root` of deviations from the prior mean.

    Returns the new scale, and the result of `refresh`.
    """
    scale *= keep
    for i in range(mean.shape[0]):
        deviation[i] *= root
        mean[i] = prior_mean[i] + deviation[i]
    if scale < SMALLEST_SCALE:
        for i in range(gained.shape[0]):
            for j in range(gained.shape[1]):
                gained[i, j] *= scale
        scale = 1.0
    return scale, refresh(prior, gained, scale, variance)


@njit(cache=True, nogil=True)
def play(
    prior, gained, scale, gain, floored, prior_mean, mean, deviation, variance, observed, column, keep, root,
    rule, game, columns,
):  # fmt: skip
    """Play rounds; returns scale, information gain and number of floored variances."""
    everything, numbers, salt = np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.int64), np.uint64(game.salt)
    index = np.empty(mean.shape[0])
    for i in range(game.noise.shape[0]):
        p, width, shown = choose_upper(mean, variance, rule, game.first + i, gain, index, everything, numbers, salt)
        y = game.table[p] + game.noise[i]
        columns.candidates[i], columns.ys[i], columns.widths[i], columns.gains[i] = p, y, width, shown
        observed[p] = True
        before = observe(prior, gained, scale, p, y, game.noise_variance, prior_mean, mean, deviation, column)
        floored += refresh(prior, gained, scale, variance)
        gain += 0.5 * math.log1p(before / game.noise_variance)
        scale, more = advance(prior, gained, scale, prior_mean, mean, deviation, variance, keep, root)
        floored += more
    return scale, gain, floored
