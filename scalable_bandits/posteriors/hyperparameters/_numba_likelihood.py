"""Arithmetic of marginal likelihoods. Arrays and scalars only."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def pulls(inverse, weights):
    """1/2 (a a' - inverse), (m, m) and symmetric, of a = `weights` (m,) and an inverse's lower triangle."""
    m = weights.shape[0]
    out = np.empty((m, m))
    for j in range(m):
        for i in range(j, m):
            pull = 0.5 * (weights[i] * weights[j] - inverse[i, j])
            out[i, j] = pull
            out[j, i] = pull
    return out
