"""Models that learn their prior: a given kernel's hyperparameters every few rounds, or everything without a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.blas import one_thread
from scalable_bandits.posteriors.engine import Engine
from scalable_bandits.posteriors.hyperparameters.learned_prior import LearnedPrior
from scalable_bandits.posteriors.hyperparameters.schedule import HyperparameterSchedule
from scalable_bandits.posteriors.models.model import CANDIDATES, Candidates, GivenPrior, MakeEngine, Model
from scalable_bandits.posteriors.state import StateEntry, member
from scalable_bandits.spaces import Domain, Indices

# Noise variance of the pending points of a learned prior, in squared units of z: with the learned one, the next points
# would often be the same again.
PENDING_NOISE = 1e-6
MANY = 200  # number of observations of a learned prior from which its searches are short ones
MOST_LIKELY = 16  # number of the best points among which these choose those to look around


class RefittedModel(Model):
    """Model whose kernel and constant mean are learned anew every few rounds.

    Parameters
    ----------
    prior, domain, make_engine, regularization, search
        Parameters of `Model`.
    schedule
        Schedule of learning, with the values learned last.
    """

    plays = False

    def __init__(
        self, prior: GivenPrior, domain: Domain, make_engine: MakeEngine, regularization: float, search: Candidates,
        schedule: HyperparameterSchedule,
    ):  # fmt: skip
        super().__init__(prior, domain, make_engine, regularization, search)
        self.schedule = schedule

    @classmethod
    def state_fields(cls) -> tuple[StateEntry, ...]:
        return (member("schedule"), *super().state_fields())  # first: the engine is made with its kernel

    @property
    def kernel(self) -> Kernel:
        return self.schedule.kernel

    @property
    def constant_mean(self) -> float | None:
        return self.prior.constant if self.schedule.mean is None else self.schedule.mean

    def after_round(self, rounds: int) -> None:
        """Learn the hyperparameters if they are due after so many rounds."""
        schedule = self.schedule
        if not schedule.due(rounds):
            return
        queried, averages, noise_variances = self.observations.collapsed()
        points = self.domain.coordinates(queried)
        prior = 0.0 if schedule.mean is not None else self.prior.mean(points)
        schedule.learn(points, averages - prior, noise_variances)
        self._engine = self.rebuilt_engine()


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

    @property
    def information_gain(self) -> float:
        """Realised information gain of the observations, in nats."""
        return self.engine.information_gain

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

    def to_engine(self, y: Floats) -> Floats:
        self._learn()
        return self.learned.transform(y)

    def from_engine(self, values: Floats) -> Floats:
        return self.learned.transform.inverse(values)

    def in_units(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        std = np.sqrt(variance)
        half = 0.5 * (self.from_engine(mean + std) - self.from_engine(mean - std))
        return self.from_engine(mean), half**2

    @property
    def scale(self) -> float:
        return self.learned.transform.scale

    def believed(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance (k,) at points (k, d), the latter also for the uncertainty of what was learned."""
        mean, variance = super().believed(points)
        found = self.learned.uncertainty(self.domain.coordinates)
        return mean, variance if found is None else found.variance(points, mean)
