"""The posterior as a smooth function of x, with mean, variance and their gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg.blas import dtrmm, dtrmv
from scipy.linalg.lapack import dtrtri

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.box import _numba_outline as numba_outline
from scalable_bandits.posteriors.regression import covariances

INFORMATIVE = 4  # observations given which variances are bounded
FEW_COLUMNS = 3  # up to so many, dtrmv by column is faster than dtrmm, which copies the triangle: threefold for one


class SmoothIndex(Protocol):
    """Index of mean and variance, with its derivatives."""

    def __call__(self, mean: Floats, variance: Floats) -> Floats:
        """Return the index (k,) at means (k,) and variances (k,)."""

    def slopes(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return the derivatives of the index in the mean and in the variance, two (k,) arrays."""


class SearchSurface(Protocol):
    """Mean and variance at any x, from which an index and its gradient are computed."""

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance at points x (k, d): two (k,) arrays."""

    def index(self, index: SmoothIndex, x: Floats) -> tuple[Floats, Floats]:
        """Return an index at points x (k, d), shape (k,), and its gradient (k, d)."""


class PriorMean(NamedTuple):
    """Prior mean with its gradient."""

    values: Callable[[Floats], Floats]  # (k, d) -> (k,), in units of y
    slopes: Callable[[Floats], Floats]  # (k, d) -> (k, d)


def constant_mean(value: float) -> PriorMean:
    """Return a constant prior mean, in units of y."""
    return PriorMean(functools.partial(_constant, value), np.zeros_like)


def _constant(value: float, x: Floats) -> Floats:
    return np.full(len(x), value)


def differenced(function: Callable[[Floats], Floats], bounds: Floats) -> PriorMean:
    """Return a prior mean with a gradient by differences, which never leave the bounds (d, 2)."""
    return PriorMean(function, functools.partial(_differences, function, bounds))


def _differences(function: Callable[[Floats], Floats], bounds: Floats, x: Floats) -> Floats:
    low, high = bounds.T
    reach, out = 1e-5 * (high - low), np.empty_like(x)
    for k in range(x.shape[1]):
        ahead, behind = x.copy(), x.copy()
        ahead[:, k] = np.minimum(x[:, k] + reach[k], high[k])
        behind[:, k] = np.maximum(x[:, k] - reach[k], low[k])
        out[:, k] = (function(ahead) - function(behind)) / (ahead[:, k] - behind[:, k])
    return out


def inverse_factor(factor: Floats) -> Floats:
    """Return the inverse (m, m) of a lower triangular factor (m, m), in columns."""
    return np.asarray(dtrtri(factor, lower=1)[0]) if len(factor) else np.empty((0, 0), order="F")


def appended(inverse: Floats, row: Floats, diagonal: float) -> Floats:
    """Return the inverse of a lower triangular factor with one more row.

    Parameters
    ----------
    inverse
        Inverse (m, m) of the factor before.
    row, diagonal
        Last row of the factor: (m,) numbers left of the diagonal, and the one on it.
    """
    m = len(row)
    found = np.zeros((m + 1, m + 1), order="F")
    found[:m, :m] = inverse
    found[m, :m] = row @ inverse / -diagonal
    found[m, m] = 1.0 / diagonal
    return found


def times(inverse: Floats, right: Floats, transposed: bool = False) -> Floats:
    """Return the product of a lower triangular matrix (m, m), or of its transpose, in columns, with a matrix (m, k)."""
    if not 1 <= right.shape[1] <= FEW_COLUMNS:
        return np.asarray(dtrmm(1.0, inverse, right, lower=1, trans_a=transposed))
    return np.array([dtrmv(inverse, column, lower=1, trans=transposed) for column in right.T]).T


class Surface:
    """Posterior mean and variance at any x given observations at m points (Rasmussen & Williams 2006, Algorithm 2.1).

    Parameters
    ----------
    kernel
        Prior covariance.
    points
        Observed points (m, d), in units of x.
    factor
        Lower Cholesky factor (m, m) of K + noise.
    weights
        Weights (m,), which are (K + noise)^-1 (y - prior mean).
    prior_mean
        Prior mean with its gradient.
    inverse
        Inverse (m, m) of the factor, in columns; computed if not given.
    """

    def __init__(
        self, kernel: Kernel, points: Floats, factor: Floats, weights: Floats, prior_mean: PriorMean,
        inverse: Floats | None = None,
    ):  # fmt: skip
        self.kernel, self.points, self.weights, self.prior_mean = kernel, points, weights, prior_mean
        # An explicit inverse replaces many small solves by matrix products. The condition of the factor is only the
        # square root of the matrix's.
        self._inverse = inverse_factor(factor) if inverse is None else inverse
        self._factor = factor

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Return posterior mean and variance at points x (k, d): two (k,) arrays."""
        mean, variance, _ = self._predict(x)
        return mean, variance

    def mean(self, x: Floats) -> Floats:
        """Return the posterior mean (k,) at points x (k, d), without what the variance takes."""
        mean = self.prior_mean.values(x)
        return mean + covariances(self.kernel, x, self.points) @ self.weights if len(self.points) else mean

    def outline(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the mean (k,) at points x (k, d), and variances (k,) given the most informative points alone.

        These are bounds on the variances, since further observations lower them. They take O(m) a point, not O(m^2).
        """
        mean, variance = self.prior_mean.values(x), self.kernel.diagonal(x)
        if not len(self.points):
            return mean, variance
        cross = covariances(self.kernel, x, self.points)
        mean = mean + cross @ self.weights
        numba_outline.fall_by_few(cross, self._observed, min(INFORMATIVE, len(self.points)), variance)
        return mean, np.maximum(variance, 0.0)

    @functools.cached_property
    def _observed(self) -> Floats:
        """Prior covariance (m, m) of the observations, noise included."""
        return np.ascontiguousarray(self._factor @ self._factor.T)

    def summand(self, kernel: Kernel, dimensions: tuple[int, ...]) -> Surface:
        """Return the posterior of one summand of f, a function of some dimensions with a kernel of these and mean 0."""
        points = np.ascontiguousarray(self.points[:, dimensions])
        return Surface(kernel, points, np.empty((0, 0)), self.weights, constant_mean(0.0), self._inverse)

    def solve(self, right: Floats) -> Floats:
        """Return (K + noise)^-1 right for a right-hand side (m,)."""
        return np.asarray(self._inverse.T @ (self._inverse @ right))

    def whitened(self, x: Floats) -> Floats:
        """Return L^-1 K(points, x), shape (m, k), at points x (k, d): the factor's rows, whose squares are variance."""
        return times(self._inverse, covariances(self.kernel, self.points, x))

    def covariance(self, x: Floats, other: Floats) -> Floats:
        """Return the posterior covariances (k, j) of f at points x (k, d) and at other ones (j, d)."""
        prior = covariances(self.kernel, x, other)
        if not len(self.points):
            return prior
        left, right = (self._inverse @ covariances(self.kernel, self.points, each) for each in (x, other))
        return np.asarray(prior - left.T @ right)

    def index(self, index: SmoothIndex, x: Floats) -> tuple[Floats, Floats]:
        """Return an index at points x (k, d), shape (k,), and its gradient (k, d)."""
        mean, variance, solved = self._predict(x)
        by_mean, by_variance = index.slopes(mean, variance)
        slope = by_mean[:, None] * self.prior_mean.slopes(x) + by_variance[:, None] * self.kernel.diagonal_slope(x)
        if len(self.points):
            back = times(self._inverse, solved, transposed=True)
            pulls = np.ascontiguousarray(self.weights[:, None] * by_mean - 2.0 * back * by_variance)
            self.kernel.slope(self.points, x, pulls, slope)
        return index(mean, variance), slope

    def _predict(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        mean, variance = self.prior_mean.values(x), self.kernel.diagonal(x)
        if not len(self.points):
            return mean, variance, np.empty((0, len(x)))
        cross = covariances(self.kernel, x, self.points)
        solved = times(self._inverse, cross.T)
        return mean + cross @ self.weights, np.maximum(variance - (solved * solved).sum(axis=0), 0.0), solved
