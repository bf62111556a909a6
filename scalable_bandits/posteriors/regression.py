"""Posterior at any points, computed from scratch by one Cholesky factor of the distinct observed points."""

from __future__ import annotations

import contextlib
import math

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel

JITTER = (0.0, 1e-14, 1e-12, 1e-10)  # tried in turn, in units of the largest prior variance


def covariances(kernel: Kernel, X: Floats, Z: Floats) -> Floats:
    """Compute K(X, Z), (n, m), without checking the points X (n, d) and Z (m, d); there may be none."""
    out = np.empty((len(X), len(Z)))
    if out.size:
        kernel.fill(X, Z, out)
    return out


def grown(held: Floats, *shape: int) -> Floats:
    """Return an array of zeros of a larger shape that begins with an array (...,) along every axis."""
    found = np.zeros(shape)
    found[tuple(map(slice, held.shape))] = held
    return found


def positive_factor(matrix: Floats, noise_variance: Floats) -> Floats:
    """Return the lower Cholesky factor (m, m) of a covariance (m, m) plus noise variances (m,), with jitter if needed.

    Raises
    ------
    scipy.linalg.LinAlgError
        If the matrix is indefinite even with a jitter of 1e-10 of the largest variance.
    """
    scale = float(matrix.diagonal().max(initial=0.0))
    for step in JITTER[:-1]:
        with contextlib.suppress(LinAlgError):
            return cholesky(matrix + np.diag(noise_variance + step * scale), lower=True)
    return cholesky(matrix + np.diag(noise_variance + JITTER[-1] * scale), lower=True)


class Regression:
    """Gaussian-process regression (Rasmussen & Williams 2006, Algorithm 2.1) with a noise variance for each point.

    Parameters
    ----------
    kernel
        Prior covariance.
    points
        (m, d) distinct observed points.
    noise_variance
        (m,) noise variance of the averaged observation at each point, in squared units of y.
    residuals
        (m,) averaged observations minus the prior mean, in units of y.

    Attributes
    ----------
    weights : ndarray
        (m,) weights (K + N)^-1 residuals of the covariances in the posterior mean.
    log_likelihood : float
        Logarithm of the density of the averaged observations.

    Raises
    ------
    scipy.linalg.LinAlgError
        If the matrix is indefinite even with a jitter of 1e-10 of the largest prior variance.
    """

    def __init__(self, kernel: Kernel, points: Floats, noise_variance: Floats, residuals: Floats):
        self._kernel, self._points = kernel, points
        matrix = kernel.block(points) if len(points) else np.empty((0, 0))
        self._factor = positive_factor(matrix, noise_variance)
        self.weights = cho_solve((self._factor, True), residuals)
        determinant = float(np.log(self._factor.diagonal()).sum())  # half the logarithm
        self.log_likelihood = (
            -0.5 * float(residuals @ self.weights) - determinant - 0.5 * len(points) * math.log(2.0 * math.pi)
        )

    def mean(self, x: Floats) -> Floats:
        """Return posterior mean minus prior mean at points x (k, d), shape (k,)."""
        if not len(self._points):
            return np.zeros(len(x))
        return np.asarray(self._kernel.block(self._points, x).T @ self.weights)

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Return posterior mean minus prior mean, and variance, at points x (k, d): two (k,) arrays."""
        variance = self._kernel.diagonal(x)
        if not len(self._points):
            return np.zeros(len(x)), variance
        cross = self._kernel.block(self._points, x)
        solved = solve_triangular(self._factor, cross, lower=True)
        return cross.T @ self.weights, np.maximum(variance - np.einsum("ij,ij->j", solved, solved), 0.0)
