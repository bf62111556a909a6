"""Which candidates will be played next: a guess that costs a little, and may be wrong."""

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sequence(covariance, scores, steepness, noise, known, first, count, most):
    """Play `first`, take off what it teaches, play the largest score, and so on: the first `count` that are not known.

    A score falls by `steepness` for each unit of its standard deviation; at the most `most` steps are taken.
    `covariance` (k, k) is of the candidates, `scores` and `known` are (k,).
    """
    size = scores.shape[0]
    variance = np.empty(size)
    before = np.empty(size)
    now = scores.copy()
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
            row[i] = min(max(row[i] / root, -std[i]), std[i])  # takes off what there is, as in `_numba_window.apply`
            variance[i] = max(variance[i] - row[i] * row[i], 0.0)
            std[i] = math.sqrt(variance[i])
            now[i] = scores[i] - steepness * (before[i] - std[i])
    return chosen[:found]
