"""Indices (acquisition functions) that policies maximise, as functions of posterior mean and variance.

The classes bind the parameters of the free functions and add `slopes`, the derivatives in mean and variance.
"""

from __future__ import annotations

from typing import Protocol

import attrs
import numpy as np

from scalable_bandits.checks import Floats

LOG_PHI = -0.5 * np.log(2.0 * np.pi)  # logarithm of the standard normal density at 0
LEAST = 1e-30  # smallest variance in a derivative, because the standard deviation has infinite slope at 0


def log_expected_improvement(mean: Floats, std: Floats, best: float | Floats, xi: float = 0.0) -> Floats:
    """Compute the logarithm of the expected improvement s (phi(z) + z Phi(z)), where z = (mu - best - xi) / s.

    The result is finite also far below the incumbent, where the expected improvement itself underflows to 0.

    Parameters
    ----------
    mean, std
        (k,) posterior mean and standard deviation, in units of y.
    best
        Incumbent, the value to improve on, in units of y; or several (q, 1).
    xi
        Least improvement over the incumbent, in units of y.

    Returns
    -------
    ndarray
        (k,) logarithm of a value in units of y; or (q, k).

    References
    ----------
    Mockus, Tiesis & Zilinskas 1978; the logarithm: Ament et al. 2023, eq. 9.

    Examples
    --------
    >>> np.exp(log_expected_improvement(np.array([0.0]), np.array([1.0]), best=0.0)).round(4).tolist()
    [0.3989]
    """
    s = np.maximum(std, 1e-100)
    return np.log(s) + _log_improvement((mean - best - xi) / s)


def _log_improvement(z: Floats) -> Floats:
    """Compute log(phi(z) + z Phi(z)) at (k,) z, without cancellation where z <= -1."""
    from scipy.special import erfcx, ndtr

    found, above = np.empty_like(z), z > -1.0
    right, left = z[above], z[~above]
    found[above] = np.log(np.exp(-0.5 * right**2 + LOG_PHI) + right * ndtr(right))
    near = np.maximum(left, -300.0)
    ratio = np.log1p(near * np.sqrt(np.pi / 2.0) * erfcx(-near / np.sqrt(2.0)))
    if (left < -300.0).any():
        far = np.minimum(left, -300.0)
        ratio = np.where(left < -300.0, np.log1p(-3.0 / far**2) - 2.0 * np.log(-far), ratio)
    found[~above] = ratio - 0.5 * left**2 + LOG_PHI
    return found


def improvement_score(mean: Floats, std: Floats, best: float | Floats, xi: float = 0.0) -> Floats:
    """Compute z = (mu - best - xi) / s; the probability of improvement is Phi(z) and grows with z.

    Parameters
    ----------
    mean, std
        (k,) posterior mean and standard deviation, in units of y.
    best
        Incumbent, the value to improve on, in units of y; or several (q,), where mean and deviation are (k, 1).
    xi
        Least improvement over the incumbent, in units of y.

    Returns
    -------
    ndarray
        (k,) dimensionless score; or (k, q).

    References
    ----------
    Kushner 1964.
    """
    return (mean - best - xi) / np.maximum(std, 1e-100)


@attrs.frozen
class UpperConfidence:
    """Index mean_weight mu + width s: upper confidence bound, mean alone (width 0), or deviation alone (weight 0).

    Parameters
    ----------
    width
        Factor of the standard deviation.
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
        """Return the derivatives (k,) of the index in mean and variance."""
        return np.full(len(mean), self.mean_weight), 0.5 * self.width / np.sqrt(np.maximum(variance, LEAST))

    @property
    def of_mean(self) -> bool:
        """Whether it is a function of the mean alone."""
        return self.width == 0.0

    def rise(self, earlier: object, std: Floats) -> Floats:
        """Return bounds (k,) on the rise since an earlier index, at standard deviations (k,) that only fall since."""
        if not isinstance(earlier, UpperConfidence) or earlier.mean_weight != self.mean_weight:
            return np.full(len(std), np.inf)
        return max(self.width - earlier.width, 0.0) * std


@attrs.frozen
class Improvement:
    """Base class of indices that measure improvement over an incumbent.

    Parameters
    ----------
    best
        Incumbent, the value to improve on, in units of y; or several (q, 1), for indices (q, k).
    xi
        Least improvement over the incumbent, in units of y.
    """

    best: float | Floats
    xi: float = 0.0


@attrs.frozen
class ExpectedImprovement(Improvement):
    """Index of GP-EI: logarithm of the expected improvement over an incumbent."""

    def __call__(self, mean: Floats, variance: Floats) -> Floats:
        return log_expected_improvement(mean, np.sqrt(variance), self.best, self.xi)

    def slopes(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return the derivatives (k,) of the index in mean and variance.

        They are Phi(z) and phi(z) / (2 s), both divided by the expected improvement.
        """
        from scipy.special import log_ndtr

        std = np.sqrt(np.maximum(variance, LEAST))
        z = improvement_score(mean, std, self.best, self.xi)
        near = np.maximum(z, -1e3)
        total = _log_improvement(near)
        rise, spread = np.exp(log_ndtr(near) - total), np.exp(-0.5 * near**2 + LOG_PHI - total)
        if (z < -1e3).any():  # series of both in 1 / z^2
            far = np.minimum(z, -1e3)
            rise = np.where(z < -1e3, -far - 2.0 / far, rise)
            spread = np.where(z < -1e3, far**2 + 3.0, spread)
        return rise / std, spread / (2.0 * std**2)

    @property
    def of_mean(self) -> bool:
        """Whether it is a function of the mean alone."""
        return False

    def rise(self, earlier: object, std: Floats) -> Floats:
        """Return bounds (k,) on the rise since an earlier index, at standard deviations (k,) that only fall since."""
        lower = isinstance(earlier, ExpectedImprovement) and earlier.xi == self.xi and earlier.best <= self.best
        return np.full(len(std), 0.0 if lower else np.inf)


@attrs.frozen
class ProbabilityOfImprovement(Improvement):
    """Index of GP-PI: score z of the probability of improvement over an incumbent."""

    def __call__(self, mean: Floats, variance: Floats) -> Floats:
        return improvement_score(mean, np.sqrt(variance), self.best, self.xi)

    def slopes(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return the derivatives (k,) of the index in mean and variance: 1 / s and -z / (2 s^2)."""
        std = np.sqrt(np.maximum(variance, LEAST))
        return 1.0 / std, -0.5 * improvement_score(mean, std, self.best, self.xi) / std**2


class ObjectiveIndex(Protocol):
    """Index of one objective, from moments (k,), or of several, from moments (p, k)."""

    def __call__(self, mean: Floats, variance: Floats) -> Floats:
        """Return the index (k,)."""

    def slopes(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return its derivatives in means and variances, of the shape (k,) or (p, k) that these have."""


@attrs.frozen(eq=False)
class FeasibleImprovement:
    """Index of several outputs: log of the expected improvement of the first times the probability that limits hold.

    Means and variances (p + J, k) have a row for each objective and then one for each output that has a limit.

    Parameters
    ----------
    improvement
        Index of the objective, or of the p objectives; None while there is no incumbent: then the probability alone
        counts.
    limits
        Smallest feasible values (J,) of the other outputs, in units of these.

    References
    ----------
    Schonlau, Welch & Jones 1998; Gardner et al. 2014.
    """

    improvement: ObjectiveIndex | None
    limits: Floats

    def __call__(self, mean: Floats, variance: Floats) -> Floats:
        from scipy.special import log_ndtr

        own, first = self._objectives(mean)
        total = log_ndtr(self._scores(mean[first:], variance[first:])).sum(axis=0)
        if self.improvement is not None:
            total += self.improvement(mean[own], variance[own])
        return np.asarray(total)

    def slopes(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return the derivatives of the index in means and variances, two (p + J, k) arrays."""
        from scipy.special import log_ndtr

        by_mean, by_variance = np.zeros((2, *mean.shape))
        own, first = self._objectives(mean)
        if self.improvement is not None:
            by_mean[own], by_variance[own] = self.improvement.slopes(mean[own], variance[own])
        std, z = np.sqrt(np.maximum(variance[first:], LEAST)), self._scores(mean[first:], variance[first:])
        near = np.maximum(z, -1e4)
        by_score = np.where(z < -1e4, -z, np.exp(-0.5 * near**2 + LOG_PHI - log_ndtr(near)))  # phi / Phi
        by_mean[first:] = by_score / std
        by_variance[first:] = -0.5 * by_score * z / std**2
        return by_mean, by_variance

    def _scores(self, mean: Floats, variance: Floats) -> Floats:
        return (mean - self.limits[:, None]) / np.sqrt(np.maximum(variance, LEAST))

    def _objectives(self, mean: Floats) -> tuple[int | slice, int]:
        """Return the rows of the objectives, the only one as (k,), and the number of the first other row."""
        count = len(mean) - len(self.limits)
        return (0 if count == 1 else slice(count)), count
