"""Variances given the few observations that are most informative for each point."""

import math

import numpy as np

from scalable_bandits._numba_compile import njit

ROUNDING = 1e-10  # share of the prior variance that rounding changes at most


@njit(cache=True, nogil=True)
def fall_by_few(cross, observed, few, variance):
    """Lower variances (k,) by what the `few` observations of largest correlation with each point tell.

    `cross` (k, m) are the covariances with the observations, whose own covariance is `observed` (m, m), noise included.
    They stay above the variances given all observations, whatever is rounded.
    """
    m = observed.shape[0]
    scale = np.empty(m)
    for j in range(m):
        scale[j] = 1.0 / observed[j, j]
    place, share = np.empty(few, dtype=np.int64), np.empty(few)
    factor, solved = np.empty((few, few)), np.empty(few)
    for i in range(cross.shape[0]):
        share[:] = -1.0
        for j in range(m):
            told = cross[i, j] * cross[i, j] * scale[j]
            if told > share[few - 1]:
                k = few - 1
                while k > 0 and told > share[k - 1]:
                    share[k], place[k] = share[k - 1], place[k - 1]
                    k -= 1
                share[k], place[k] = told, j
        fall = 0.0
        for a in range(few):  # Cholesky factor, and the solution with it, row by row
            row = place[a]
            rest, own = observed[row, row], cross[i, row]
            for b in range(a):
                value = observed[row, place[b]]
                for c in range(b):
                    value -= factor[a, c] * factor[b, c]
                value /= factor[b, b]
                factor[a, b] = value
                rest -= value * value
                own -= value * solved[b]
            if rest <= 1e-9 * observed[row, row]:  # it tells nothing new but rounding
                factor[a, :a], factor[a, a], solved[a] = 0.0, 1.0, 0.0
                continue
            factor[a, a] = math.sqrt(rest)
            solved[a] = own / factor[a, a]
            fall += solved[a] * solved[a]
        variance[i] -= (1.0 - ROUNDING) * fall
