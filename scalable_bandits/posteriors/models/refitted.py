"""Models that learn the hyperparameters of a given kernel every few rounds."""

from __future__ import annotations

import math
from typing import ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.blas import one_thread
from scalable_bandits.posteriors.hyperparameters.declustering import variance_over_space
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import LogNormal, check_learnable, learn_kernel
from scalable_bandits.posteriors.models.model import Candidates, GivenPrior, MakeEngine, Model
from scalable_bandits.posteriors.state import State, StateEntry, value
from scalable_bandits.spaces import Domain, Space

PRECISION = 1e-4  # relative precision of a refitted log density, which is some hundredths of a nat
RESTARTS = 1  # random starts, beside the kernel given and the one learned last
FACTOR_SPREAD = 0.5  # standard deviation of the logarithm of a factor
LENGTHSCALE_SPREAD = 1.0  # standard deviation of the logarithm of a lengthscale


def usual_lengthscales(space: Space) -> LogNormal | None:
    """Return the prior on lengthscales for the sides of a space; None for arms."""
    sides = space.side_lengths
    if sides is None:
        return None
    return attrs.evolve(LogNormal.of_sides(sides), spread=LENGTHSCALE_SPREAD)


class RefittedModel(Model):
    """Model whose kernel and constant mean are learned anew every few rounds, by maximum likelihood.

    The likelihood of a few noisy observations is often largest for a function that is constant, and observations close
    to one local maximum contain little information about the function elsewhere. Then factor and lengthscales shrink,
    and the policy stops exploring. Therefore factors have a prior around the variance of the observations, and the
    prior of the lengthscales is narrower than the published one.

    The variance is that over the space, not over the rounds, which would fall as observations concentrate. The noise
    variance is not subtracted: a factor too large costs some rounds, one too small may miss the maximum.

    Parameters
    ----------
    prior, domain, make_engine, regularization, search
        Parameters of `Model`; the prior's kernel has the initial values of every fit, and a mean that is constant is
        learned.
    lengthscales
        Prior on the lengthscales; None for a flat one.
    every
        Number of rounds between two fits.
    seed
        Seed of the random starts.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        value("learned", "(p + 1,)", np.float64, lambda model: model._learned()),  # restored by `before_restore`
    )
    plays = False

    def __init__(
        self, prior: GivenPrior, domain: Domain, make_engine: MakeEngine, regularization: float, search: Candidates,
        lengthscales: LogNormal | None, every: int, seed: int,
    ):  # fmt: skip
        super().__init__(prior, domain, make_engine, regularization, search)
        if not prior.kernel.hyperparameters:
            checks.refuse("refit", every, f"None: {prior.kernel} has nothing to learn")
        check_learnable(prior.kernel, domain.space.encode(domain.sample(0)))
        self._lengthscales, self._every, self._seed = lengthscales, every, seed
        self._kernel, self._mean = prior.kernel, prior.constant

    @property
    def kernel(self) -> Kernel:
        return self._kernel

    @property
    def constant_mean(self) -> float | None:
        return self._mean

    def after_round(self, rounds: int) -> None:
        """Learn the hyperparameters if they are due after so many rounds."""
        if rounds % self._every:
            return
        queried, averages, noise_variances = self.observations.collapsed()
        points, learns_mean = self.domain.coordinates(queried), self._mean is not None
        residuals = averages - (0.0 if learns_mean else self.prior.mean(points))
        with one_thread:
            spread = variance_over_space(points, residuals, self._lengthscales)
            found = learn_kernel(
                self.prior.kernel, points, residuals, noise_variances, prior_mean=None if learns_mean else 0.0,
                lengthscale_prior=self._lengthscales, restarts=RESTARTS, seed=self._seed, also=(self._kernel,),
                factor_prior=LogNormal(spread, FACTOR_SPREAD) if spread > 0.0 else None, precision=PRECISION,
            )  # fmt: skip
        if math.isfinite(found.log_likelihood):
            self._kernel, self._mean = found.kernel, found.prior_mean if learns_mean else None
        self._engine = self.rebuilt_engine()

    def _learned(self) -> list[float]:
        """Return the hyperparameters, and the mean, NaN if it is not learned."""
        return [*(p.value for p in self._kernel.hyperparameters), math.nan if self._mean is None else self._mean]

    def before_restore(self, state: State) -> None:
        super().before_restore(state)
        *values, mean = state["learned"].tolist()
        self._kernel, self._mean = self.prior.kernel.with_hyperparameters(values), None if math.isnan(mean) else mean
