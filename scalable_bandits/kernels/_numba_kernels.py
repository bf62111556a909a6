"""Loops over pairs of points. Arrays in, arrays out.

Inner loops run along a row of the block, which compilers turn into vector instructions.
"""

import math

import numpy as np
from numba import njit

from scalable_bandits.kernels._numba_exponential import LEAST, bounded_exponential, exponential

FEW = 4  # rows or columns, for which rearranging the points costs more than it saves
BLOCK = 1024  # columns at a time, whose part of a row stays in the nearest cache


@njit(cache=True, nogil=True)
def squared_distances(X, Z, inverse_lengthscale, out):
    """out[i, j] = |(X[i] - Z[j]) / lengthscale|^2, by differences: no cancellation for near pairs."""
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
    """The same, of points X (n, d) and the transpose of others, (d, m); into the columns from `start` on."""
    for i in range(X.shape[0]):
        row = out[i, start : start + columns.shape[1]]
        row[:] = 0.0
        for k in range(X.shape[1]):
            for j in range(columns.shape[1]):
                difference = (X[i, k] - columns[k, j]) * inverse_lengthscale[k]
                row[j] += difference * difference


@njit(cache=True, nogil=True)
def squared_sines(X, Z, inverse_lengthscale, frequency, out):
    """out[i, j] = |sin(pi (X[i] - Z[j]) / period) / lengthscale|^2."""
    for i in range(X.shape[0]):
        for j in range(Z.shape[0]):
            total = 0.0
            for k in range(X.shape[1]):
                sine = math.sin((X[i, k] - Z[j, k]) * frequency) * inverse_lengthscale[k]
                total += sine * sine
            out[i, j] = total


@njit(cache=True, nogil=True)
def inner_products(X, Z, inverse_lengthscale, bias, out):
    """out[i, j] = bias + sum over k of X[i, k] Z[j, k] / lengthscale[k]^2."""
    for i in range(X.shape[0]):
        for j in range(Z.shape[0]):
            total = bias
            for k in range(X.shape[1]):
                total += (X[i, k] * inverse_lengthscale[k]) * (Z[j, k] * inverse_lengthscale[k])
            out[i, j] = total


@njit(cache=True, nogil=True)
def rbf(block):
    """In place: exp(-s / 2) of squared distances s."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = exponential(-0.5 * block[i, j])


@njit(cache=True, nogil=True)
def matern12(block):
    """In place: exp(-r) of squared distances r^2."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = exponential(-math.sqrt(block[i, j]))


@njit(cache=True, nogil=True)
def matern32(block):
    """In place: (1 + a) exp(-a), a = sqrt(3) r."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            a = math.sqrt(3.0 * block[i, j])
            value = (1.0 + a) * bounded_exponential(-a)
            block[i, j] = 0.0 if -a < LEAST else value  # infinite times 0 would be NaN


@njit(cache=True, nogil=True)
def matern52(block):
    """In place: (1 + a + a^2 / 3) exp(-a), a = sqrt(5) r."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            a = math.sqrt(5.0 * block[i, j])
            value = (1.0 + a + a * a / 3.0) * bounded_exponential(-a)
            block[i, j] = 0.0 if -a < LEAST else value  # infinite times 0 would be NaN


@njit(cache=True, nogil=True)
def rational_quadratic(block, alpha):
    """In place: (1 + s / (2 alpha))^-alpha of squared distances s."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = math.exp(-alpha * math.log1p(block[i, j] / (2.0 * alpha)))


@njit(cache=True, nogil=True)
def lookup(matrix, rows, columns, out):
    """out[i, j] = matrix[rows[i], columns[j]]."""
    for i in range(rows.shape[0]):
        for j in range(columns.shape[0]):
            out[i, j] = matrix[rows[i], columns[j]]
