"""Arithmetic of the Kalman step, on arrays and scalars; see `kalman.py` for the notation."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits._numba_compile import njit
from scalable_bandits.posteriors._numba_choice import play_round

SMALLEST_SCALE = 1e-30  # below it the scale is multiplied into the matrix


class KalmanArrays(NamedTuple):
    """Arrays of a Kalman engine."""

    prior: NDArray[np.float64]  # (n, n) K
    gained: NDArray[np.float64]  # (n, n) Q
    scale: NDArray[np.float64]  # (1,) s
    prior_mean: NDArray[np.float64]  # (n,)
    deviation: NDArray[np.float64]  # (n,) mean minus prior mean
    mean: NDArray[np.float64]  # (n,)
    variance: NDArray[np.float64]  # (n,)
    observed: NDArray[np.bool_]  # (n,)
    gain: NDArray[np.float64]  # (1,) see `Engine`
    column: NDArray[np.float64]  # (n,) scratch space


@njit(cache=True, nogil=True)
def refresh(prior, gained, scale, variance):
    """Compute the variances; those that rounding makes negative are set to zero."""
    for i in range(variance.shape[0]):
        variance[i] = max(prior[i, i] - scale * gained[i, i], 0.0)


@njit(cache=True, nogil=True, forceinline=True)
def observe(arrays, p, y, noise):
    """Condition on one observation at p."""
    prior, gained, scales, prior_mean, deviation, mean, variance, observed, gain, column = arrays
    n, scale = prior.shape[0], scales[0]
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
    observed[p] = True
    gain[0] += 0.5 * math.log1p(before / noise)
    refresh(prior, gained, scale, variance)


@njit(cache=True, nogil=True, forceinline=True)
def advance(arrays, keep, root):
    """Move the time forward: `keep` is what remains of covariances, `root` of deviations from the prior mean."""
    prior, gained, scale, prior_mean, deviation, mean, variance, _, _, _ = arrays
    scale[0] *= keep
    for i in range(mean.shape[0]):
        deviation[i] *= root
        mean[i] = prior_mean[i] + deviation[i]
    if scale[0] < SMALLEST_SCALE:
        for i in range(gained.shape[0]):
            for j in range(gained.shape[1]):
                gained[i, j] *= scale[0]
        scale[0] = 1.0
    refresh(prior, gained, scale[0], variance)


@njit(cache=True, nogil=True)
def play(arrays, keep, root, rule, game, columns):
    """Play rounds."""
    mean, variance, gain = arrays.mean, arrays.variance, arrays.gain
    index = np.empty(mean.shape[0])
    for i in range(game.noise.shape[0]):
        p, y = play_round(i, mean, variance, gain[0], rule, game, columns, index)
        observe(arrays, p, y, game.noise_variance)
        advance(arrays, keep, root)
