"""Prediction of the candidates that will be observed next.

A wrong prediction costs time, and changes only rounding errors.
"""

import math

import numpy as np

from scalable_bandits._numba_compile import njit


@njit(cache=True, nogil=True)
def sequence(covariance, index, steepness, noise, known, first, count, most):
    """Predict the candidates observed in the next rounds, `first` and then always the one of largest index.

    An observation lowers standard deviations, and the index by `steepness` times as much. `covariance` (k, k), `index`
    (k,) and the mask `known` (k,) are over the candidates. Returns the positions of the first `count` candidates that
    are observed and not known, in at most `most` rounds.
    """
    size = index.shape[0]
    variance = np.empty(size)
    before = np.empty(size)
    now = index.copy()
    for i in range(size):
        variance[i] = max(covariance[i, i], 0.0)
        before[i] = math.sqrt(variance[i])
    std = before.copy()
    rows = np.empty((most, size))
    taken = known.copy()
    chosen = np.empty(count, dtype=np.int64)
    found = 0
    for step in range(most):
        best = np.argmax(now) if step else first
        if not taken[best]:
            taken[best] = True
            chosen[found] = best
            found += 1
            if found == count:
                break
        root = math.sqrt(variance[best] + noise)
        row = rows[step]
        row[:] = covariance[best]
        for j in range(step):
            weight = rows[j, best]
            for i in range(size):
                row[i] -= weight * rows[j, i]
        for i in range(size):
            row[i] = min(max(row[i] / root, -std[i]), std[i])  # a variance falls by no more than it has
            variance[i] = max(variance[i] - row[i] * row[i], 0.0)
            std[i] = math.sqrt(variance[i])
            now[i] = index[i] - steepness * (before[i] - std[i])
    return chosen[:found]
