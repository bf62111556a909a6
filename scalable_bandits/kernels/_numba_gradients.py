"""Loops for weighted sums of a kernel's derivatives, in the second point and in the hyperparameters."""

import math

import numpy as np

from scalable_bandits._numba_compile import njit
from scalable_bandits.kernels._numba_exponential import LEAST, bounded_exponential, exponential

LARGEST = np.finfo(np.float64).max


@njit(cache=True, nogil=True)
def slope_of_squared_distances(X, Z, inverse_lengthscale, weights, out):
    """Add to out[j, k] the sum over i of weights[i, j] d|(X[i] - Z[j]) / lengthscale|^2 / dZ[j, k]."""
    columns = np.ascontiguousarray(Z.T)
    sums = np.zeros_like(columns)
    for i in range(X.shape[0]):
        for k in range(X.shape[1]):
            for j in range(Z.shape[0]):
                sums[k, j] += weights[i, j] * (columns[k, j] - X[i, k])
    for j in range(Z.shape[0]):
        for k in range(X.shape[1]):
            if sums[k, j] != 0.0:  # 0 times an infinite square of the inverse lengthscale would be NaN
                out[j, k] += 2.0 * inverse_lengthscale[k] * inverse_lengthscale[k] * sums[k, j]


@njit(cache=True, nogil=True)
def slope_of_squared_sines(X, Z, inverse_lengthscale, frequency, weights, out):
    """Add to out[j, k] the sum over i of weights[i, j] d|sin(frequency (X[i] - Z[j])) / lengthscale|^2 / dZ[j, k]."""
    for i in range(X.shape[0]):
        for j in range(Z.shape[0]):
            w = frequency * weights[i, j]
            for k in range(X.shape[1]):
                scale = inverse_lengthscale[k] * inverse_lengthscale[k]
                out[j, k] += w * scale * math.sin(2.0 * frequency * (Z[j, k] - X[i, k]))


@njit(cache=True, nogil=True)
def slope_of_inner_products(X, Z, inverse_lengthscale, weights, out):
    """Add to out[j, k] the sum over i of weights[i, j] X[i, k] / lengthscale[k]^2."""
    for i in range(X.shape[0]):
        for j in range(Z.shape[0]):
            for k in range(X.shape[1]):
                out[j, k] += weights[i, j] * X[i, k] * inverse_lengthscale[k] * inverse_lengthscale[k]


@njit(cache=True, nogil=True)
def squared_distances_by_dimension(X, inverse_lengthscale, weights, out):
    """Add to out[k] the sum over i, j of weights[i, j] ((X[i, k] - X[j, k]) / lengthscale[k])^2; weights symmetric."""
    columns = np.ascontiguousarray(X.T)
    sums = np.zeros_like(columns)
    for i in range(X.shape[0]):
        for k in range(X.shape[1]):
            for j in range(i):
                difference = (X[i, k] - columns[k, j]) * inverse_lengthscale[k]
                sums[k, j] += weights[i, j] * min(difference * difference, LARGEST)  # infinity times 0 would be NaN
    for k in range(X.shape[1]):
        out[k] += 2.0 * sums[k].sum()


@njit(cache=True, nogil=True)
def squared_sines_by_dimension(X, inverse_lengthscale, frequency, weights, out):
    """Add to out[k] the sum over i, j of weights[i, j] (sin(frequency (X[i, k] - X[j, k])) / lengthscale[k])^2.

    Add to out[d] half the derivative of the sum over i, j and k in -log(period). The weights are symmetric.
    """
    d = X.shape[1]
    for i in range(X.shape[0]):
        for j in range(i):
            w = 2.0 * weights[i, j]
            for k in range(d):
                angle = (X[i, k] - X[j, k]) * frequency
                sine = math.sin(angle) * inverse_lengthscale[k]
                out[k] += w * sine * sine
                out[d] += w * sine * math.cos(angle) * inverse_lengthscale[k] * angle


@njit(cache=True, nogil=True)
def mismatches_by_dimension(X, inverse_lengthscale, weights, out):
    """Add to out[k] the sum over i, j of weights[i, j] [X[i, k] != X[j, k]] / lengthscale[k]; symmetric weights."""
    for i in range(X.shape[0]):
        for j in range(i):
            for k in range(X.shape[1]):
                if X[i, k] != X[j, k]:
                    out[k] += 2.0 * weights[i, j] * inverse_lengthscale[k]


@njit(cache=True, nogil=True)
def inner_products_by_dimension(X, inverse_lengthscale, weights, out):
    """Add to out[k] the sum over i, j of weights[i, j] X[i, k] X[j, k] / lengthscale[k]^2."""
    for i in range(X.shape[0]):
        for j in range(X.shape[0]):
            for k in range(X.shape[1]):
                scaled = (X[i, k] * inverse_lengthscale[k]) * (X[j, k] * inverse_lengthscale[k])
                out[k] += weights[i, j] * scaled


@njit(cache=True, nogil=True)
def rbf(block):
    """Replace squared distances s by the derivative of exp(-s / 2) in s."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = -0.5 * exponential(-0.5 * block[i, j])


@njit(cache=True, nogil=True)
def matern12(block):
    """Replace squared distances s by the derivative of exp(-sqrt(s)) in s; by 0 at s = 0, where it does not exist."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            r = math.sqrt(block[i, j])
            block[i, j] = -0.5 * exponential(-r) / r if r > 0.0 else 0.0


@njit(cache=True, nogil=True)
def matern32(block):
    """Replace squared distances s by the derivative of (1 + a) exp(-a) in s, a = sqrt(3 s)."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = -1.5 * exponential(-math.sqrt(3.0 * block[i, j]))


@njit(cache=True, nogil=True)
def matern52(block):
    """Replace squared distances s by the derivative of (1 + a + a^2 / 3) exp(-a) in s, a = sqrt(5 s)."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            a = math.sqrt(5.0 * block[i, j])
            slope = -5.0 / 6.0 * (1.0 + a) * bounded_exponential(-a)
            block[i, j] = -0.0 if -a < LEAST else slope  # infinity times 0 would be NaN


@njit(cache=True, nogil=True)
def rational_quadratic(block, alpha):
    """Replace squared distances s by the derivative of (1 + s / (2 alpha))^-alpha in s."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = -0.5 * math.exp(-(alpha + 1.0) * math.log1p(block[i, j] / (2.0 * alpha)))


@njit(cache=True, nogil=True)
def rational_quadratic_shape(block, alpha):
    """Replace squared distances s by the derivative of (1 + s / (2 alpha))^-alpha in log(alpha)."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            u = block[i, j] / (2.0 * alpha)
            growth = math.log1p(u)
            slope = alpha * math.exp(-alpha * growth) * (u / (1.0 + u) - growth)
            block[i, j] = 0.0 if u == math.inf else slope
