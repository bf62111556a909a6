"""Learned prior of a policy: the kernel and a constant mean, by maximum likelihood every k rounds.

The likelihood of a few noisy observations is often largest for a function that is constant, and observations close to
one local maximum contain little information about the function elsewhere. Then factor and lengthscales shrink, and the
policy stops exploring. Therefore factors have a prior around the variance of the observations, and the prior of the
lengthscales is narrower than the published one.

The variance is that over the space, not over the rounds, which would fall as observations concentrate: an observation
has less weight the more others are near (`declustering.py`). The noise variance is not subtracted: a factor too large
costs some rounds, one too small may miss the maximum.
"""

from __future__ import annotations

import math

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.blas import one_thread
from scalable_bandits.posteriors.hyperparameters.declustering import neighbours
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import LogNormal, learn_kernel
from scalable_bandits.posteriors.state import Stateful, value
from scalable_bandits.spaces import Space

PRECISION = 1e-4  # relative precision of the log density, which is some hundredths of a nat
RESTARTS = 1  # random starts, beside the kernel given and the one learned last
FACTOR_SPREAD = 0.5  # standard deviation of the logarithm of a factor
LENGTHSCALE_SPREAD = 1.0  # standard deviation of the logarithm of a lengthscale


def usual_lengthscales(space: Space) -> LogNormal | None:
    """Return the prior on lengthscales for the sides of a space; None for arms."""
    sides = space.side_lengths
    if sides is None:
        return None
    return attrs.evolve(LogNormal.of_sides(sides), spread=LENGTHSCALE_SPREAD)


def variance_over_space(points: Floats, values: Floats, lengthscales: LogNormal | None) -> float:
    """Compute the variance of values, each weighted by one over the number of points near it.

    Parameters
    ----------
    points
        (m, d) points.
    values
        (m,) values, in units of y.
    lengthscales
        Prior whose median is the distance at which points are near; None: only equal points are near.

    Returns
    -------
    float
        Variance in squared units of y; unbiased for independent values at points far from each other.
    """
    if len(values) < 2:
        return 0.0
    if lengthscales is None:
        near = (points[:, None] == points).all(axis=2).astype(np.float64).sum(axis=1)
    else:
        near = neighbours(points, lengthscales.median, len(points))
    weights = 1.0 / near
    weights /= weights.sum()
    away = values - weights @ values
    return float(weights @ away**2) / (1.0 - float(weights @ weights))


class HyperparameterSchedule(Stateful):
    """Kernel and prior mean that are learned anew every few rounds.

    Parameters
    ----------
    kernel
        Kernel with the initial values of every fit.
    mean
        Constant prior mean before the first fit, in units of y; None: it is not learned.
    lengthscales
        Prior on the lengthscales.
    every
        Number of rounds between two fits.
    seed
        Seed of the random starts.

    Attributes
    ----------
    kernel : Kernel
        Kernel of the last fit.
    mean : float or None
        Prior mean of the last fit, in units of y.
    """

    def __init__(self, kernel: Kernel, mean: float | None, lengthscales: LogNormal | None, every: int, seed: int):
        if not kernel.hyperparameters:
            checks.refuse("refit", every, f"None: {kernel} has nothing to learn")
        self.kernel, self.mean = kernel, mean
        self._given, self._lengthscales, self._every, self._seed = kernel, lengthscales, every, seed

    def due(self, rounds: int) -> bool:
        """Return whether the prior is learned anew after so many rounds."""
        return rounds % self._every == 0

    @one_thread
    def learn(self, points: Floats, residuals: Floats, noise_variance: Floats) -> None:
        """Fit the prior to observations.

        Parameters
        ----------
        points
            (m, d) distinct observed points.
        residuals
            (m,) averages of y, minus the prior mean unless that is learned, in units of y.
        noise_variance
            (m,) noise variances of the averages.
        """
        spread = variance_over_space(points, residuals, self._lengthscales)
        factors = LogNormal(spread, FACTOR_SPREAD) if spread > 0.0 else None
        found = learn_kernel(
            self._given, points, residuals, noise_variance, prior_mean=0.0 if self.mean is None else None,
            lengthscale_prior=self._lengthscales, factor_prior=factors, restarts=RESTARTS, seed=self._seed,
            also=(self.kernel,), precision=PRECISION,
        )  # fmt: skip
        if math.isfinite(found.log_likelihood):
            self.kernel = found.kernel
            self.mean = None if self.mean is None else found.prior_mean

    def _values(self) -> list[float]:
        return [parameter.value for parameter in self.kernel.hyperparameters]

    def _restore_values(self, values: Floats) -> None:
        self.kernel = self._given.with_hyperparameters(values.tolist())

    def _restore_mean(self, mean: Floats) -> None:
        self.mean = None if self.mean is None else float(mean)

    STATE = (
        value("values", "(p,)", np.float64, _values, _restore_values),
        value("mean", "()", np.float64, lambda own: math.nan if own.mean is None else own.mean, _restore_mean),
    )
