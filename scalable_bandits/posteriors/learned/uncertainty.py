"""Uncertainty of what a learned model has learned, as a part of its predictions.

The posterior given the likeliest hyperparameters is too sure of itself: 95 % intervals hold some 85 % of the values of
functions drawn from the model's own prior, from few noisy observations. Here the hyperparameters vary,

    H = Hessian of minus the log posterior density of the p log hyperparameters, at its maximum h             (1)
    h_i = h +- sqrt(p) H^(-1/2) e_i,  2 p of them,  w_i ~ density at h_i over that of N(h, H^-1)              (2)
    mean = that at h,   variance = sum of w_i (s2_i(x) + (mu_i(x) - mean)^2)                                  (3)
    s2_i also for the constant mean, which has its optimal value m_i:  (1 - 1' K_i^-1 k_i(x))^2 / (1' K_i^-1 1)   (4)

(1) is Laplace's approximation, (2) the cubature rule of third degree (Arasaratnam & Haykin 2009) with importance
weights, at most e^2, as the density is not normal; (4) is ordinary kriging. What a policy chooses does not
depend on it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import cho_solve

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import Likelihood
from scalable_bandits.posteriors.regression import covariances, positive_factor

STEP = 1e-2  # of the logarithms, in differences of gradients
MOST = 2.0  # logarithm of the largest weight, before they are made to sum to 1
MOST_POINTS = 200  # largest number of distinct points; more leave little doubt about the hyperparameters


class _Alternative:
    """Posterior with other hyperparameters, and a constant mean that is unknown."""

    def __init__(self, target: Likelihood, logs: Floats):
        self._kernel, noise = target.at(logs)
        self._x = target.x
        factor, _ = positive_factor(covariances(self._kernel, self._x, self._x), noise)
        ones = np.ones(len(self._x))
        self._solve = (factor, True)
        self._ones = cho_solve(self._solve, ones)
        self._mean = float(self._ones @ target.y / self._ones.sum()) if target.prior_mean is None else target.prior_mean
        self._weights = cho_solve(self._solve, target.y - self._mean)
        self._mean_variance = 1.0 / float(self._ones.sum()) if target.prior_mean is None else 0.0

    def moments(self, x: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance (k,) at points x (k, d)."""
        cross = covariances(self._kernel, self._x, x)
        explained = np.einsum("ij,ij->j", cross, cho_solve(self._solve, cross))
        variance = np.maximum(self._kernel.diagonal(x) - explained, 0.0)
        return self._mean + cross.T @ self._weights, variance + (1.0 - cross.T @ self._ones) ** 2 * self._mean_variance


class Uncertainty:
    """Posteriors with hyperparameters around the likeliest ones.

    Parameters
    ----------
    target
        Log posterior density of the log hyperparameters.
    logs
        Logarithms (p,) of the likeliest hyperparameters.
    low, high
        Bounds (p,) of the logarithms.
    """

    def __init__(self, target: Likelihood, logs: Floats, low: Floats, high: Floats):
        directions, radius = _deviations(target, logs), math.sqrt(len(logs))
        steps = radius * np.concatenate([directions, -directions])
        ends = np.clip(logs + steps, low, high)
        fall = np.array([target(end)[0] for end in ends]) - target(logs)[0]
        share = np.exp(np.minimum(fall + 0.5 * radius**2, MOST))
        kept = np.flatnonzero(share > 1e-6)
        self._weights = share[kept] / share[kept].sum()
        self._alternatives = [_Alternative(target, ends[i]) for i in kept]

    def variance(self, x: Floats, mean: Floats) -> Floats:
        """Return the variances (k,) around means (k,) at points x (k, d), in squared units of z."""
        parts = [each.moments(x) for each in self._alternatives]
        return self._weights @ np.array([variance + (other - mean) ** 2 for other, variance in parts])


def _deviations(target: Likelihood, logs: Floats) -> Floats:
    """Return the principal standard deviations (p, p) of the log hyperparameters, a row for each."""
    shifts = STEP * np.eye(len(logs))
    slopes = np.array([target(logs + shift)[1] - target(logs - shift)[1] for shift in shifts]) / (2.0 * STEP)
    curvatures, vectors = np.linalg.eigh(-0.5 * (slopes + slopes.T))
    least = target.least_precision  # data do not make the posterior wider than the widest prior
    return (vectors / np.sqrt(np.maximum(curvatures, least))).T
