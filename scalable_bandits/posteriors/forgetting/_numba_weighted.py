"""Arithmetic of fading observations, on arrays and scalars; see `weighted.py` for the notation."""

import math

import numpy as np

from scalable_bandits._numba_compile import njit
from scalable_bandits.posteriors._numba_choice import choose_upper
from scalable_bandits.posteriors.exact._numba_window import add_rows

NEGLIGIBLE = 1e-20  # precision times prior variance below which an arm's observations are forgotten


@njit(cache=True, nogil=True)
def observe(precision, weighted, prior_variance, fade, p, residual, noise):
    """Let the weights fade by a factor, and add an observation at p; `residual` is y minus the prior mean."""
    if fade < 1.0:
        for i in range(precision.shape[0]):
            precision[i] *= fade
            weighted[i] *= fade
            if precision[i] * prior_variance[i] < NEGLIGIBLE:
                precision[i] = 0.0
                weighted[i] = 0.0
    precision[p] += 1.0 / noise
    weighted[p] += residual / noise


@njit(cache=True, nogil=True)
def fit(prior, prior_mean, prior_variance, precision, weighted, lower, rows, solved, weights, mean, variance):
    """Compute the posterior, one arm after the other; returns the information gain, and the variances set to zero.

    The row of an arm is its covariance with all candidates given the arms before it, divided by its deviation with
    noise. Then (L)_ak = (Q^(1/2))_aa V_ka for k < a, without a factorisation.
    """
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
            row[i] = root * prior[arm, i]
        add_rows(row, rows, count, weights)
        side = math.sqrt(1.0 + root * max(row[arm], 0.0))
        lower[count, count], solved[count] = side, residual / side
        for i in range(n):
            row[i] /= side
            mean[i] += solved[count] * row[i]
            variance[i] -= row[i] * row[i]
        gain += math.log(side)
        count += 1
    floored = 0
    for i in range(n):
        if variance[i] < 0.0:
            variance[i] = 0.0
            floored += 1
    return gain, floored


@njit(cache=True, nogil=True)
def play(
    rule, game, columns, first, fitted, gain, age_fade, fade,
    prior, prior_mean, prior_variance, precision, weighted, lower, rows, solved, weights, mean, variance,
):  # fmt: skip
    """Play rounds from position `first` on, until more arms have weight than `rows` has room for.

    The posterior is `fitted` for the first of them, with information gain `gain`, or has to be. Observations fade by
    `age_fade` when the first one comes, and then by `fade`. Returns the number of rounds played in all.
    """
    everything, numbers, salt = np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.int64), np.uint64(game.salt)
    n, now = mean.shape[0], age_fade
    index = np.empty(n)
    for i in range(first, game.noise.shape[0]):
        if i > first or not fitted:
            count = 0
            for arm in range(n):
                count += precision[arm] > 0.0
            if count > rows.shape[0]:
                return i
            gain, _ = fit(
                prior, prior_mean, prior_variance, precision, weighted, lower, rows, solved, weights, mean, variance
            )
        p, width, shown = choose_upper(mean, variance, rule, game.first + i, gain, index, everything, numbers, salt)
        y = game.table[p] + game.noise[i]
        columns.candidates[i], columns.ys[i], columns.widths[i], columns.gains[i] = p, y, width, shown
        observe(precision, weighted, prior_variance, now, p, y - prior_mean[p], game.noise_variance)
        now = fade
    return game.noise.shape[0]
