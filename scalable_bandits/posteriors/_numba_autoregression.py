"""Arithmetic of the Kalman step (see `autoregression.py` for the notation). Arrays and scalars only."""

from numba import njit


@njit(cache=True, nogil=True)
def refresh(prior, gained, scale, variance):
    """Variances from the gained matrix; returns how many rounding had pushed below zero."""
    floored = 0
    for i in range(variance.shape[0]):
        value = prior[i, i] - scale * gained[i, i]
        if value < 0.0:
            value = 0.0
            floored += 1
        variance[i] = value
    return floored


@njit(cache=True, nogil=True)
def observe(
    prior, gained, scale, weights, alpha, seen, count, slot, p, y, noise, prior_mean, mean, deviation, column, move
):
    """One observation at p, which is seen[slot]: s^2(p) before it. The variances are left to `refresh`."""
    n = prior.shape[0]
    for i in range(n):
        column[i] = prior[p, i] - scale * gained[p, i]
    for j in range(count):
        total = 0.0
        for k in range(count):
            total += weights[j, k] * prior[p, seen[k]]
        move[j] = -scale * total
    move[slot] += 1.0
    before = max(column[p], 0.0)
    step = (y - mean[p]) / (noise + before)
    share = 1.0 / ((noise + before) * scale)
    for i in range(n):
        factor = share * column[i]
        for j in range(n):
            gained[i, j] += factor * column[j]
        deviation[i] += step * column[i]
        mean[i] = prior_mean[i] + deviation[i]
    for j in range(count):
        factor = share * move[j]
        for k in range(count):
            weights[j, k] += factor * move[k]
        alpha[j] += step * move[j]
    return before


@njit(cache=True, nogil=True)
def fade(alpha, count, deviation, prior_mean, mean, root):
    """Means fall back to the prior's by a factor."""
    for j in range(count):
        alpha[j] *= root
    for i in range(mean.shape[0]):
        deviation[i] *= root
        mean[i] = prior_mean[i] + deviation[i]
