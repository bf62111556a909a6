"""Indices: what a policy maximises, as functions of mean and variance.

Formulas are free functions of arrays. The classes bind their parameters and add `slopes`, the derivatives in mean
and variance.
"""

from __future__ import annotations

import attrs
import numpy as np

from scalable_bandits.checks import Floats

LEAST = 1e-30  # of a variance in a derivative: where there is none, the deviation has a cusp


def log_expected_improvement(mean: Floats, std: Floats, best: float, xi: float = 0.0) -> Floats:
    """Logarithm of the expected improvement, s (phi(z) + z Phi(z)) with z = (mu - best - xi) / s.

    Finite far below the incumbent too, where the plain formula underflows to a tie of zeros.

    Parameters
    ----------
    mean, std
        (k,) posterior mean and standard deviation, in units of y.
    best
        Incumbent, in units of y.
    xi
        Improvement asked beyond it, in units of y.

    Returns
    -------
    ndarray
        (k,) log of units of y.

    References
    ----------
    Mockus, Tiesis & Zilinskas 1978; in logarithms Ament et al. 2023, eq. 9.

    Examples
    --------
    >>> np.exp(log_expected_improvement(np.array([0.0]), np.array([1.0]), best=0.0)).round(4).tolist()
    [0.3989]
    """
    from scipy.special import erfcx, ndtr

    s = np.maximum(std, 1e-100)
    z = (mean - best - xi) / s
    log_phi = -0.5 * np.log(2.0 * np.pi)
    with np.errstate(over="ignore", divide="ignore"):
        high = np.maximum(z, -1.0)
        near = np.log(np.exp(-0.5 * high**2 + log_phi) + high * ndtr(high))
        low = np.clip(z, -300.0, -1.0)
        ratio = np.log1p(low * np.sqrt(np.pi / 2.0) * erfcx(-low / np.sqrt(2.0)))
        tail = np.log1p(-3.0 / np.minimum(z, -300.0) ** 2) - 2.0 * np.log(-np.minimum(z, -300.0))
        far = np.where(z < -300.0, tail, ratio) - 0.5 * z**2 + log_phi
    return np.log(s) + np.where(z > -1.0, near, far)


def improvement_score(mean: Floats, std: Floats, best: float, xi: float = 0.0) -> Floats:
    """z = (mu - best - xi) / s, whose normal distribution function is the probability of improvement.

    Parameters
    ----------
    mean, std
        (k,) posterior mean and standard deviation, in units of y.
    best
        Incumbent, in units of y.
    xi
        Improvement asked beyond it, in units of y.

    Returns
    -------
    ndarray
        (k,) without unit.

    References
    ----------
    Kushner 1964.
    """
    return (mean - best - xi) / np.maximum(std, 1e-100)


@attrs.frozen
class UpperConfidence:
    """mean_weight mu + width s: upper confidence bound, mean only (width 0), deviation only (weight 0).

    Parameters
    ----------
    width
        Standard deviations that are added.
    mean_weight
        Factor of the mean.
    """

    width: float
    mean_weight: float = 1.0

    def __call__(self, mean: Floats, variance: Floats) -> Floats:
        if self.width == 0.0:
            return self.mean_weight * mean
        index = np.sqrt(variance)
        index *= self.width
        if self.mean_weight == 1.0:
            index += mean
        elif self.mean_weight:
            index += self.mean_weight * mean
        return index

    def slopes(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Derivatives (k,) in mean and variance."""
        return np.full(len(mean), self.mean_weight), 0.5 * self.width / np.sqrt(np.maximum(variance, LEAST))


@attrs.frozen
class Improvement:
    """Base of the indices over an incumbent, which grow as the incumbent falls.

    Parameters
    ----------
    best
        Incumbent, in units of y.
    xi
        Improvement asked beyond it, in units of y.
    """

    best: float
    xi: float = 0.0


@attrs.frozen
class ExpectedImprovement(Improvement):
    """Log expected improvement over an incumbent."""

    def __call__(self, mean: Floats, variance: Floats) -> Floats:
        return log_expected_improvement(mean, np.sqrt(variance), self.best, self.xi)

    def slopes(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Derivatives (k,) in mean and variance: Phi(z) and phi(z) / (2 s), over the expected improvement."""
        from scipy.special import log_ndtr

        std = np.sqrt(np.maximum(variance, LEAST))
        z = improvement_score(mean, std, self.best, self.xi)
        near = np.maximum(z, -1e3)  # beyond, by the series of both in 1 / z^2
        total = log_expected_improvement(near * std, std, 0.0) - np.log(std)
        far = np.minimum(z, -1e3)
        rise = np.where(z < -1e3, -far - 2.0 / far, np.exp(log_ndtr(near) - total))
        spread = np.where(z < -1e3, far**2 + 3.0, np.exp(-0.5 * near**2 - 0.5 * np.log(2.0 * np.pi) - total))
        return rise / std, spread / (2.0 * std**2)


@attrs.frozen
class ProbabilityOfImprovement(Improvement):
    """Score of the probability of improvement over an incumbent."""

    def __call__(self, mean: Floats, variance: Floats) -> Floats:
        return improvement_score(mean, np.sqrt(variance), self.best, self.xi)

    def slopes(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Derivatives (k,) in mean and variance: 1 / s and -z / (2 s^2)."""
        std = np.sqrt(np.maximum(variance, LEAST))
        return 1.0 / std, -0.5 * improvement_score(mean, std, self.best, self.xi) / std**2
