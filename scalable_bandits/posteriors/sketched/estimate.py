"""Sparse estimate of a function from sums over the observations, with what it may be off by.

    mu(x) = k_Z(x)' (K_ZZ + K_ZX N^-1 K_XZ)^-1 v,   v = K_ZX N^-1 y

with inducing points Z, points X, and the noise variances N of their averages y. Whoever has observations sends their
part of v alone. mu(x) = sum_j W_j(x) y_j is linear in y with weights that follow from the points, so that its error is
at most, with L = `noise_factor`,

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
    """Estimate at k points, with the two parts of its largest error."""

    mean: Floats  # (k,), in units of y
    bias: Floats  # (k,) |k(x, .) - sum_j W_j k(x_j, .)|, to be multiplied by B
    spread: Floats  # (k,) sqrt(sum_j N_j W_j^2), to be multiplied by R / sqrt(lambda) L


def leverages(kernel: Kernel, points: Floats, noise_variances: Floats) -> Floats:
    """Compute the posterior variances (m,) at points (m, d) over the noise variances (m,) of the averages there."""
    factor, _ = positive_factor(covariances(kernel, points, points), noise_variances)
    inverse = solve_triangular(factor, np.eye(len(points)), lower=True)
    return np.asarray(1.0 - noise_variances * np.einsum("ij,ij->j", inverse, inverse))


def summary(kernel: Kernel, inducing: Floats, points: Floats, averages: Floats, noise_variances: Floats) -> Floats:
    """Compute v (z,) at inducing points (z, d), of averages of y (m,) at points (m, d)."""
    return np.asarray(covariances(kernel, inducing, points) @ (averages / noise_variances))


class SparseEstimate:
    """Estimate from summaries, at the points whose values went into them.

    Parameters
    ----------
    kernel
        Prior covariance, in squared units of y.
    points
        (m, d) distinct points.
    noise_variances
        (m,) noise variances of the averages at the points, in squared units of y.
    chosen
        Numbers (z,) of those that are inducing points.
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
        """Return the estimate at points x (k, d), from the sum (z,) of all summaries, and its largest error."""
        u = solve_triangular(self._factor, total, lower=True)
        parts = [self._block(x[start : start + BLOCK], u) for start in range(0, len(x), BLOCK)]
        return Errors(*map(np.concatenate, zip(*parts, strict=True)))

    def _block(self, x: Floats, u: Floats) -> Errors:
        features = solve_triangular(self._factor, covariances(self._kernel, self._inducing, x), lower=True)
        solved = cho_solve((self._inner, True), features)
        weights = (self._features.T @ solved) / self._noise[:, None]
        across = covariances(self._kernel, self._points, x)
        squared = self._kernel.diagonal(x) + np.einsum("ij,ij->j", weights, self._gram @ weights - 2.0 * across)
        spread = np.sqrt(self._noise @ weights**2)
        return Errors(solved.T @ u, np.sqrt(np.maximum(squared, 0.0)), spread)
