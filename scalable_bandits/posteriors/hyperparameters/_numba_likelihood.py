"""Arithmetic of marginal likelihoods, on arrays and scalars."""

import numpy as np

from scalable_bandits._numba_compile import njit


@njit(cache=True, nogil=True)
def pulls(inverse, weights):
    """Compute 1/2 (a a' - inverse), (m, m), from a = `weights` (m,) and the lower triangle of a symmetric inverse."""
    m = weights.shape[0]
    out = np.empty((m, m))
    for j in range(m):
        for i in range(j, m):
            pull = 0.5 * (weights[i] * weights[j] - inverse[i, j])
            out[i, j] = pull
            out[j, i] = pull
    return out
