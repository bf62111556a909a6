"""Loops over pairs of points that compute blocks of covariances.

The inner loop runs along a row of the block, which compilers turn into vector instructions.
"""

import math

import numpy as np

from scalable_bandits._numba_compile import njit
from scalable_bandits.kernels._numba_exponential import LEAST, bounded_exponential, exponential

FEW = 4  # with fewer rows or columns, rearranging the points costs more than it saves
BLOCK = 1024  # columns computed together, so that their part of a row stays in the first-level cache


@njit(cache=True, nogil=True)
def squared_distances(X, Z, inverse_lengthscale, out):
    """Set out[i, j] = |(X[i] - Z[j]) / lengthscale|^2, from differences: no cancellation for pairs of close points."""
    if Z.shape[0] < FEW:
        for i in range(X.shape[0]):
            for j in range(Z.shape[0]):
                total = 0.0
                for k in range(X.shape[1]):
                    difference = (X[i, k] - Z[j, k]) * inverse_lengthscale[k]
                    total += difference * difference
                out[i, j] = total
        return
    for start in range(0, Z.shape[0], BLOCK):
        columns = Z[start : start + BLOCK].T
        if X.shape[0] < FEW:
            _squared_distances(X, columns, inverse_lengthscale, start, out)
        else:
            _squared_distances(X, np.ascontiguousarray(columns), inverse_lengthscale, start, out)


@njit(cache=True, nogil=True)
def _squared_distances(X, columns, inverse_lengthscale, start, out):
    """Set the columns of `out` from `start` on to the scaled squared distances of X (n, d) and columns (d, m)."""
    for i in range(X.shape[0]):
        row = out[i, start : start + columns.shape[1]]
        row[:] = 0.0
        for k in range(X.shape[1]):
            for j in range(columns.shape[1]):
                difference = (X[i, k] - columns[k, j]) * inverse_lengthscale[k]
                row[j] += difference * difference


@njit(cache=True, nogil=True)
def squared_sines(X, Z, inverse_lengthscale, frequency, out):
    """Set out[i, j] = |sin(frequency (X[i] - Z[j])) / lengthscale|^2, frequency = pi / period."""
    for i in range(X.shape[0]):
        for j in range(Z.shape[0]):
            total = 0.0
            for k in range(X.shape[1]):
                sine = math.sin((X[i, k] - Z[j, k]) * frequency) * inverse_lengthscale[k]
                total += sine * sine
            out[i, j] = total


@njit(cache=True, nogil=True)
def mismatches(X, Z, inverse_lengthscale, out):
    """Set out[i, j] = the sum over k of [X[i, k] != Z[j, k]] / lengthscale[k]."""
    columns = np.ascontiguousarray(Z.T)
    for start in range(0, len(Z), BLOCK):
        for i in range(len(X)):
            row = out[i, start : start + BLOCK]
            row[:] = 0.0
            for k in range(X.shape[1]):
                category, inverse = X[i, k], inverse_lengthscale[k]
                for j in range(len(row)):
                    row[j] += inverse if columns[k, start + j] != category else 0.0


@njit(cache=True, nogil=True)
def inner_products(X, Z, inverse_lengthscale, bias, out):
    """Set out[i, j] = bias + sum over k of X[i, k] Z[j, k] / lengthscale[k]^2."""
    for i in range(X.shape[0]):
        for j in range(Z.shape[0]):
            total = bias
            for k in range(X.shape[1]):
                total += (X[i, k] * inverse_lengthscale[k]) * (Z[j, k] * inverse_lengthscale[k])
            out[i, j] = total


@njit(cache=True, nogil=True)
def rbf(block):
    """Replace squared distances s by exp(-s / 2)."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = exponential(-0.5 * block[i, j])


@njit(cache=True, nogil=True)
def matern12(block):
    """Replace squared distances r^2 by exp(-r)."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = exponential(-math.sqrt(block[i, j]))


@njit(cache=True, nogil=True)
def matern32(block):
    """Replace squared distances r^2 by (1 + a) exp(-a), a = sqrt(3) r."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            a = math.sqrt(3.0 * block[i, j])
            value = (1.0 + a) * bounded_exponential(-a)
            block[i, j] = 0.0 if -a < LEAST else value  # infinity times 0 would be NaN


@njit(cache=True, nogil=True)
def matern52(block):
    """Replace squared distances r^2 by (1 + a + a^2 / 3) exp(-a), a = sqrt(5) r."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            a = math.sqrt(5.0 * block[i, j])
            value = (1.0 + a + a * a / 3.0) * bounded_exponential(-a)
            block[i, j] = 0.0 if -a < LEAST else value  # infinity times 0 would be NaN


@njit(cache=True, nogil=True)
def rational_quadratic(block, alpha):
    """Replace squared distances s by (1 + s / (2 alpha))^-alpha."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = math.exp(-alpha * math.log1p(block[i, j] / (2.0 * alpha)))


@njit(cache=True, nogil=True)
def lookup(matrix, rows, columns, out):
    """Set out[i, j] = matrix[rows[i], columns[j]]."""
    for i in range(rows.shape[0]):
        for j in range(columns.shape[0]):
            out[i, j] = matrix[rows[i], columns[j]]
