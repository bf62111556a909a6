"""The prior of a policy that learns it: the kernel and a constant mean, by maximum likelihood every k rounds.

A few noisy observations are often likeliest as nothing but noise, and observations that gather at one top say little
of the function elsewhere: factor and lengthscales shrink, and the policy is sure that no other top is higher. So
factors have a prior of their own, around the variance of the observations, and that of the lengthscales is narrower
than the published one. The variance is that over the space, not over the rounds, which would fall as observations
gather: each counts less the more of them are near (declustering, Isaaks & Srivastava 1989, chapter 10; here by a
smooth count instead of cells). The noise is left in it: a factor too large costs some rounds, one too small a top.
"""

from __future__ import annotations

import math

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import RBF, Kernel
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import LogNormal, learn_kernel
from scalable_bandits.posteriors.state import State, arrays
from scalable_bandits.spaces import Space

PRECISION = 1e-4  # of the log density: hundredths of a nat, where hyperparameters are known to some nats
RESTARTS = 1  # beside the kernel given and the one learned last
FACTOR_SPREAD = 0.5  # of the logarithm of a factor
LENGTHSCALE_SPREAD = 1.0  # of the logarithm of a lengthscale
NEAR = 0.5  # standard deviation of the bell that counts neighbours, in the lengthscales' median


def usual_lengthscales(space: Space) -> LogNormal | None:
    """Prior on lengthscales that goes with a space's sides; None for arms."""
    sides = space.side_lengths
    if sides is None:
        return None
    return attrs.evolve(LogNormal.of_sides(sides), spread=LENGTHSCALE_SPREAD)


def variance_over_space(points: Floats, values: Floats, lengthscales: LogNormal | None) -> float:
    """Variance of values, each with weight 1 over the number of points near it.

    Parameters
    ----------
    points
        (m, d).
    values
        (m,), in units of y.
    lengthscales
        Whose median says what is near; None: only the same point is.

    Returns
    -------
    float
        In squared units of y; of independent values at points far from each other unbiased.
    """
    if len(values) < 2:
        return 0.0
    if lengthscales is None:
        near = (points[:, None] == points).all(axis=2).astype(np.float64)
    else:
        near = np.empty((len(points), len(points)))
        RBF(NEAR * np.asarray(lengthscales.median)).fill(points, points, near)
    weights = 1.0 / near.sum(axis=1)
    weights /= weights.sum()
    away = values - weights @ values
    return float(weights @ away**2) / (1.0 - float(weights @ weights))


class HyperparameterSchedule:
    """Kernel and prior mean as they are at present.

    Parameters
    ----------
    kernel
        Where learning begins, every time.
    mean
        A constant prior mean, learned too; None: it is not.
    lengthscales
        Prior on them.
    every
        Rounds between two fits.
    seed
        Of the random starts.
    """

    def __init__(self, kernel: Kernel, mean: float | None, lengthscales: LogNormal | None, every: int, seed: int):
        if not kernel.hyperparameters:
            checks.refuse("refit", every, f"None: {kernel} has nothing to learn")
        self.kernel, self.mean = kernel, mean
        self._given, self._lengthscales, self._every, self._seed = kernel, lengthscales, every, seed

    def due(self, rounds: int) -> bool:
        """Whether the prior is learned anew after so many rounds."""
        return rounds % self._every == 0

    def learn(self, points: Floats, residuals: Floats, noise_variance: Floats) -> None:
        """Fit to observations; residuals are y, less the prior mean where that is not learned."""
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

    def state(self) -> State:
        """The numbers learned."""
        values = [p.value for p in self.kernel.hyperparameters]
        return arrays(values=values, mean=math.nan if self.mean is None else self.mean)

    def restore(self, state: State) -> None:
        """Know what `state` knew."""
        self.kernel = self._given.with_hyperparameters(state["values"].tolist())
        self.mean = None if self.mean is None else float(state["mean"])
