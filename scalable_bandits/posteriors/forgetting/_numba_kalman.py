"""Arithmetic of the Kalman step, on arrays and scalars; see `kalman.py` for the notation."""

from numba import njit


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
def fade(deviation, prior_mean, mean, root):
    """Multiply the means' deviation from the prior mean by a factor."""
    for i in range(mean.shape[0]):
        deviation[i] *= root
        mean[i] = prior_mean[i] + deviation[i]
