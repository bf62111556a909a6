"""Uncertainty of what a learned model has learned, as a part of its predictions.

The posterior given the likeliest hyperparameters is too sure of itself: 95 % intervals hold some 85 % of the values of
functions drawn from the model's own prior, from few noisy observations. Here the hyperparameters vary,

    H = Hessian of minus the log posterior density of the p log hyperparameters, at its maximum h             (1)
    h_i = h +- sqrt(p) H^(-1/2) e_i,  2 p of them,  w_i ~ density at h_i over that of N(h, H^-1)              (2)
    mean = that at h,   variance = sum of w_i (s2_i(x) + (mu_i(x) - mean)^2)                                  (3)
    s2_i also for the constant mean, which has its optimal value m_i:  (1 - 1' K_i^-1 k_i(x))^2 / (1' K_i^-1 1)   (4)

(1) is Laplace's approximation, (2) the cubature rule of third degree (Arasaratnam & Haykin 2009) with importance
weights of at most e^2, since the density is not normal; (4) is ordinary kriging. What a policy chooses depends on none
of this.
"""

from __future__ import annotations

import math

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import Likelihood
from scalable_bandits.posteriors.regression import Regression

STEP = 1e-2  # step of the log hyperparameters in differences of gradients
MOST = 2.0  # logarithm of the largest weight, before they are made to sum to 1
MOST_POINTS = 200  # largest number of distinct points; more leave little doubt about the hyperparameters


class _Alternative:
    """Posterior with other hyperparameters, and a constant mean that is unknown unless it is given."""

    def __init__(self, target: Likelihood, logs: Floats):
        kernel, noise = target.at(logs)
        self._ones = Regression(kernel, target.x, noise, np.ones(len(target.x)))
        if target.prior_mean is not None:
            self._mean, self._mean_variance = target.prior_mean, 0.0
        else:
            total = float(self._ones.weights.sum())
            self._mean, self._mean_variance = float(self._ones.weights @ target.y) / total, 1.0 / total
        self._values = Regression(kernel, target.x, noise, target.y - self._mean)

    def moments(self, x: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance (k,) at points x (k, d)."""
        mean, variance = self._values.predict(x)
        return self._mean + mean, variance + (1.0 - self._ones.mean(x)) ** 2 * self._mean_variance


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
        shifts, radius = STEP * np.eye(len(logs)), math.sqrt(len(logs))
        slopes = np.array([target(logs + shift)[1] - target(logs - shift)[1] for shift in shifts]) / (2.0 * STEP)
        curvatures, vectors = np.linalg.eigh(-0.5 * (slopes + slopes.T))  # (1)
        least = target.least_precision  # data do not make the posterior wider than the widest prior
        directions = (vectors / np.sqrt(np.maximum(curvatures, least))).T  # (2), a standard deviation in each row
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
