"""Sparse estimate of a function from sums over the observations, with a bound on its error.

    X        points with observations
    y, N     averages of the values at each point, and the noise variances of the averages
    Z        inducing points, some of X
    v        K_ZX N^-1 y, the summary: an agent sends the part of its own observations, and nothing else
    mu(x)    k_Z(x)' (K_ZZ + K_ZX N^-1 K_XZ)^-1 v, the estimate
    W_j(x)   weights with mu(x) = sum_j W_j(x) y_j; they follow from the points alone

So the error of mu(x) is at most, with L = `noise_factor`,

    B |k(x, .) - sum_j W_j k(x_j, .)| + R / sqrt(lambda) sqrt(sum_j N_j W_j^2) L
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.regression import covariances, positive_factor
from scalable_bandits.spaces import Indices

BLOCK = 4096  # points whose errors are computed at a time


class Errors(NamedTuple):
    """Estimate at k points, with the two parts of the bound on its error."""

    mean: Floats  # (k,), in units of y
    bias: Floats  # (k,) |k(x, .) - sum_j W_j k(x_j, .)|, to be multiplied by B
    spread: Floats  # (k,) sqrt(sum_j N_j W_j^2), to be multiplied by R / sqrt(lambda) L


def leverages(kernel: Kernel, points: Floats, noise_variances: Floats) -> Floats:
    """Compute, at points (m, d), the posterior variances over the noise variances (m,) of the averages: (m,)."""
    factor, _ = positive_factor(covariances(kernel, points, points), noise_variances)
    inverse = solve_triangular(factor, np.eye(len(points)), lower=True)
    return np.asarray(1.0 - noise_variances * np.einsum("ij,ij->j", inverse, inverse))


def summary(kernel: Kernel, inducing: Floats, points: Floats, averages: Floats, noise_variances: Floats) -> Floats:
    """Compute the summary v (z,) at inducing points (z, d) from averages (m,) of the values at points (m, d)."""
    return np.asarray(covariances(kernel, inducing, points) @ (averages / noise_variances))


class SparseEstimate:
    """Sparse estimate of a function; it is made from the points, and evaluated with the sum of all summaries.

    Parameters
    ----------
    kernel
        Prior covariance, in squared units of y.
    points
        (m, d) points X, all distinct.
    noise_variances
        (m,) noise variances N of the averages at the points, in squared units of y.
    chosen
        Numbers (z,) of the inducing points among the points.
    """

    def __init__(self, kernel: Kernel, points: Floats, noise_variances: Floats, chosen: Indices):
        self._kernel, self._points, self._noise = kernel, points, noise_variances
        self._inducing = points[chosen]
        self._gram = covariances(kernel, points, points)
        self._factor, _ = positive_factor(self._gram[np.ix_(chosen, chosen)], np.zeros(len(chosen)))
        self._features = solve_triangular(self._factor, self._gram[chosen], lower=True)  # (z, m)
        inner = np.eye(len(chosen)) + (self._features / noise_variances) @ self._features.T
        self._inner, _ = positive_factor(inner, np.zeros(len(chosen)))

    def at(self, x: Floats, total: Floats) -> Errors:
        """Return the estimate at points x (k, d), and the bound on its error, from the sum (z,) of all summaries."""
        u = solve_triangular(self._factor, total, lower=True)
        parts = [self._block(x[start : start + BLOCK], u) for start in range(0, len(x), BLOCK)]
        return Errors(*map(np.concatenate, zip(*parts, strict=True)))

    def _block(self, x: Floats, u: Floats) -> Errors:
        features = solve_triangular(self._factor, covariances(self._kernel, self._inducing, x), lower=True)
        solved = cho_solve((self._inner, True), features)
        weights = (self._features.T @ solved) / self._noise[:, None]
        cross = covariances(self._kernel, self._points, x)
        squared = self._kernel.diagonal(x) + np.einsum("ij,ij->j", weights, self._gram @ weights - 2.0 * cross)
        spread = np.sqrt(self._noise @ weights**2)
        return Errors(solved.T @ u, np.sqrt(np.maximum(squared, 0.0)), spread)
