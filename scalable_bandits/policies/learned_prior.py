"""The prior of a policy that learns it: the kernel and a constant mean, by maximum likelihood every k rounds."""

from __future__ import annotations

import math

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors import State, arrays
from scalable_bandits.posteriors.learning import LogNormal, learn_kernel
from scalable_bandits.spaces import Arms, Box, Grid, Points, Space

RESTARTS = 2  # beside the kernel given and the one learned last


def usual_lengthscales(space: Space) -> LogNormal | None:
    """Prior on lengthscales that goes with a space's sides; None for arms."""
    if isinstance(space, Box | Grid):
        return LogNormal.of_sides([high - low for low, high in space.bounds])
    if isinstance(space, Points):
        sides = np.ptp(space.array, axis=0)
        return LogNormal.of_sides(np.where(sides > 0.0, sides, 1.0))
    assert isinstance(space, Arms)
    return None


class LearnedPrior:
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
        found = learn_kernel(
            self._given, points, residuals, noise_variance, prior_mean=0.0 if self.mean is None else None,
            lengthscale_prior=self._lengthscales, restarts=RESTARTS, seed=self._seed, also=(self.kernel,),
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
