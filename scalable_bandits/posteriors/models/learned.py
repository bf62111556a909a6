"""Models that learn their prior: a given kernel's hyperparameters every few rounds, or everything without a kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.blas import one_thread
from scalable_bandits.posteriors.engine import Engine
from scalable_bandits.posteriors.hyperparameters.declustering import variance_over_space
from scalable_bandits.posteriors.hyperparameters.learned_prior import LearnedPrior
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import LogNormal, learn_kernel
from scalable_bandits.posteriors.hyperparameters.transform import Transform
from scalable_bandits.posteriors.models.model import CANDIDATES, Candidates, GivenPrior, MakeEngine, Model
from scalable_bandits.posteriors.state import State, StateEntry, member, value
from scalable_bandits.spaces import Domain, Indices, Space

# Noise variance of the pending points of a learned prior, in squared units of z: with the learned one, the next points
# would often be the same again.
PENDING_NOISE = 1e-6
MANY = 200  # number of observations of a learned prior from which its searches are short ones
PRECISION = 1e-4  # relative precision of a refitted log density, which is some hundredths of a nat
RESTARTS = 1  # random starts, beside the kernel given and the one learned last
FACTOR_SPREAD = 0.5  # standard deviation of the logarithm of a factor
LENGTHSCALE_SPREAD = 1.0  # standard deviation of the logarithm of a lengthscale
MOST_LIKELY = 16  # number of the best points among which these choose those to look around


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
        value("learned", "(p + 1,)", np.float64, lambda model: model._learned(), lambda *_: None),  # `before_restore`
    )
    plays = False

    def __init__(
        self, prior: GivenPrior, domain: Domain, make_engine: MakeEngine, regularization: float, search: Candidates,
        lengthscales: LogNormal | None, every: int, seed: int,
    ):  # fmt: skip
        super().__init__(prior, domain, make_engine, regularization, search)
        if not prior.kernel.hyperparameters:
            checks.refuse("refit", every, f"None: {prior.kernel} has nothing to learn")
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


class LearnedModel(Model):
    """Model without a given kernel, whose engine and observations are in units of the transformed y.

    They are brought up to date when they are needed.

    Parameters
    ----------
    prior, domain, make_engine, search
        Parameters of `Model`.
    learned
        Prior that is learned, with the observations in units of y.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (member("learned"),)
    plays = False
    appends = True

    def __init__(
        self, prior: GivenPrior, domain: Domain, make_engine: MakeEngine, learned: LearnedPrior,
        search: Candidates = CANDIDATES,
    ):  # fmt: skip
        super().__init__(prior, domain, make_engine, PENDING_NOISE, search)
        self.learned = learned

    @classmethod
    def state_fields(cls) -> tuple[StateEntry, ...]:
        return cls.STATE  # engine and observations follow from it

    # ---- the prior

    @property
    def kernel(self) -> Kernel:
        self._learn()
        return self.learned.kernel

    @property
    def constant_mean(self) -> float | None:
        self._learn()
        return self.learned.mean

    @property
    def noise(self) -> float:
        return self.learned.noise

    # ---- the engine

    @property
    def engine(self) -> Engine:
        """Engine of the numbered points, up to date."""
        self._learn()
        return super().engine

    def _learn(self) -> None:
        """Bring the engine up to date."""
        learned = self.learned
        if not learned.stale:
            return
        with one_thread:
            added = None if self._engine is None else learned.added_since_update()
            if added is None:
                self.observations, count = learned.update(self.domain.coordinates)
                added = range(count, len(learned))
                self._engine = self.rebuilt_engine()
                self._changed()
            for i in added:
                super().observe(*learned.scaled(i))

    # ---- observations

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        self.learned.add(candidate, y, noise_variance)
        self._queried[candidate] = True

    def fail(self, candidate: int) -> None:
        self.learned.fail(candidate)

    def extended(self, domain: Domain) -> LearnedModel:
        grown = self._on(domain)
        grown._engine = None if self._engine is None else self.search.extended(self._engine, grown)
        if grown._engine is None:
            self.learned.clear()
        return grown

    def asked(self, pending: Sequence[int]) -> int:
        """Return the number of points that are pending, were observed, or failed."""
        return len(pending) + len(self.learned) + len(self.learned.failed)

    def settled(self, pending: Sequence[int]) -> Indices:
        return self.learned.settled(pending)

    @property
    def exhausted(self) -> bool:
        """Whether all points were observed, and repeats show that there is no noise."""
        learned, count = self.learned, self.domain.count
        if learned.known_noise or count is None or np.count_nonzero(self._queried) < count:
            return False
        return learned.exact_values

    def averages(self) -> tuple[Indices, Floats, Floats]:
        return self.learned.averages()

    # ---- searches, predictions

    @property
    def effort(self) -> str:  # type: ignore[override]
        return "hurried" if len(self.learned) >= MANY else "learned"

    def likely(self) -> Indices:
        return self.learned.best_points(MOST_LIKELY) if len(self.learned) >= MANY else super().likely()

    @property
    def transform(self) -> Transform:  # type: ignore[override]
        """Function from y to units of the engine's y, learned from all observations."""
        self._learn()
        return self.learned.transform

    def in_units(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        std, inverse = np.sqrt(variance), self.transform.inverse
        return inverse(mean), (0.5 * (inverse(mean + std) - inverse(mean - std))) ** 2

    def believed(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance (k,) at points (k, d), the latter also for the uncertainty of what was learned."""
        mean, variance = super().believed(points)
        found = self.learned.uncertainty(self.domain.coordinates)
        return mean, variance if found is None else found.variance(points, mean)
