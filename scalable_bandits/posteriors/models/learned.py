"""Model without a given kernel: transform of y, kernel, output scale, noise and mean are learned from the observations.

The prior of what is learned is in `hyperparameters/learned_prior.py`, in units of the transformed y (`transform.py`).
In spaces of up to two coordinates, an observation counts for the transform by the space around it (`declustering.py`).
The maximum of the posterior density is found by L-BFGS-B with exact gradients: after every observation up to 200, then
at milestones, where n has grown by a tenth; in between, observations are transformed as at the last fit. What is
learned depends on the observations and their order alone, not on when it is asked for: fits start from the last
milestone, and milestones also from the standard values, on fingerprints from a large noise, too (beyond 200 where n has
doubled).

Where a policy refines its best point by steps of a trust region (`trust_region.py`), predictions have all observations,
fits and searches only those that it shows to them.

Repeated measurements count: their scatter around the averages of their points is a factor of the likelihood, from which
the noise is learned, also that of exact values (`posteriors/collapsed.py`). Where values are exact beyond doubt, a
point is not measured again; where the learned noise is small, not a fourth time (`LearnedModel.settled`). Predictions
have the uncertainty of the learned hyperparameters (`uncertainty.py`).

Beyond 2,000 observations, beside a trust region 1,000, the model is approximate, which a warning says once
(`ApproximateModel`): kernel and noise stay as they are, and at every milestone the model is made of a subset of so many
observations (Rasmussen & Williams 2006, section 8.3.3), a third of them the best and the others spread evenly over
time; later ones are added until the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.blas import one_thread
from scalable_bandits.posteriors.collapsed import CollapsedObservations, averaged
from scalable_bandits.posteriors.engine import Engine
from scalable_bandits.posteriors.hyperparameters.declustering import neighbours
from scalable_bandits.posteriors.hyperparameters.learned_prior import (
    LENGTHSCALE,
    NOISE,
    OUTPUT_SCALE,
    bounds,
    sides_of,
    standard_lengthscales,
)
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import Likelihood, LogNormal, likeliest
from scalable_bandits.posteriors.hyperparameters.transform import Transform, half_ranked, standardized
from scalable_bandits.posteriors.hyperparameters.uncertainty import MOST_POINTS, Uncertainty
from scalable_bandits.posteriors.models.model import CANDIDATES, Candidates, GivenPrior, MakeEngine, Model
from scalable_bandits.posteriors.models.ripples import with_ripples
from scalable_bandits.posteriors.regression import Regression
from scalable_bandits.posteriors.state import StateEntry, listed, value
from scalable_bandits.spaces import Domain, Indices, Mask, Pool

REACH = 2000  # largest number of observations of an exact model
BEST = 1 / 3  # share of the best observations among those that the approximate model keeps
# Noise variance of the worst value where the function failed: good ones nearby outweigh it. With 1e-6, fewer
# evaluations fail where the optimum is at the edge of a region that fails (in two coordinates a quarter of the later
# ones, not four fifths), but what is found is no better, and far worse where evaluations fail by accident.
FAILURE_NOISE = 0.01
# The same on a pool, where a candidate that failed is not asked for again. Of 2,000 candidates, a quarter of which fail
# by accident, the one recommended after 64 evaluations is the best (five seeds), and .97 of all are in the 95 %
# intervals; with .01 it was at most 1.5 of a range of 40 behind, and .36 were. Where the best ones of all would fail it
# finds the best one beside them, too, with 19 failures, not 10.
FAILURE_NOISE_OF_POOL = 1.0
SMALL_NOISE = 0.01  # noise variance, in squared units of z, below which a point is measured `AGAIN` times at most
AGAIN = 3
NEGLIGIBLE = 1e-4  # learned noise variance, in squared units of z, below which a measured value counts as exact
BY_CHANCE = 1e-3  # probability of agreeing by chance below which measurements that agree are exact
NOISY = 0.5  # noise variance, in squared units of z, of the second start of a fit on fingerprints
COARSE = 0.1  # share of the pairs of points with equal values from which agreement means nothing
EVERY = 200  # largest number of observations with a fit after each
WEIGHTED_DIMENSIONS = 2  # largest number of coordinates of a space whose observations count by the space around them
LEAST_VARIANCE = 1e-12  # smallest variance that another is compared with, in squared units of z
PRECISION = 1e-6  # relative gain of the log density below which a climb ends
# Noise variance of the pending points of a learned prior, in squared units of z: with the learned one, the next points
# would often be the same again.
PENDING_NOISE = 1e-6
MANY = 200  # number of observations of a learned prior from which its searches are short ones
MOST_LIKELY = 16  # number of the best points among which these choose those to look around


class ApproximateModel(UserWarning):
    """A learned model has more observations than an exact one can have."""


def share_of_ties(ys: Floats, more: float = 0.0) -> float:
    """Return the share of the pairs of values (n,) that are equal, as if there were some more pairs of equal ones."""
    _, same = np.unique(ys, return_counts=True)
    return (more + float((same * (same - 1) / 2).sum())) / (more + len(ys) * (len(ys) - 1) / 2)


class Fit(NamedTuple):
    """Values learned from the first observations."""

    observations: int
    logs: Floats  # (p,) logarithms of the kernel's hyperparameters, and of the noise variance if that is learned
    mean: float  # in units of z


class LearnedModel(Model):
    """Model without a given kernel, whose engine and observations are in units of the transformed y.

    They are brought up to date when they are needed.

    Parameters
    ----------
    prior
        Prior whose kernel has the initial values; a constant mean, in units of y, is learned if it is None.
    domain, make_engine, search
        Parameters of `Model`.
    known_noise
        Whether the noise variances of the observations are known; if not, one for all is learned.
    lengthscales
        Prior on the lengthscales, in units of the coordinates; None for the usual one.
    every
        Number of observations between two fits; None for the usual ones.
    reach
        Largest number of observations of an exact model; None for the usual one.

    Attributes
    ----------
    numbers, ys, variances : list
        Points by number, values in units of y, and noise variances (if known) of the observations.
    shown : list of int
        Positions of the observations that searches and fits have, in the order in which they came to these: all, unless
        a trust region keeps its steps for itself (`trust_region.py`). Predictions have all observations.
    failed : list of int
        Numbers of the points where the function failed.
    """

    plays = False
    appends = True

    def __init__(
        self, prior: GivenPrior, domain: Domain, make_engine: MakeEngine, known_noise: bool,
        lengthscales: LogNormal | None = None, every: int | None = None, search: Candidates = CANDIDATES,
        reach: int | None = None,
    ):  # fmt: skip
        super().__init__(prior, domain, make_engine, PENDING_NOISE, search)
        self.known_noise, self._every, self._reach = known_noise, every, reach or REACH
        self._sides = sides_of(domain.space)
        self._lengthscales = lengthscales or standard_lengthscales(domain.space)
        self._low, self._high = bounds(prior.kernel, domain.space, not known_noise)
        self._starts = [self._logs(prior.kernel, float(np.max(NOISE.median)))]
        if isinstance(domain.space, Pool) and domain.space.words:
            # No lengthscale can grow until the noise is seen: from next to none on, it often stays where it is.
            self._starts.append(self._logs(prior.kernel, NOISY))
        self.numbers: list[int] = []
        self.ys: list[float] = []
        self.variances: list[float] = []
        self.shown: list[int] = []
        self.failed: list[int] = []
        self._milestone: Fit | None = None
        self._announced = False  # that the model is approximate
        self._clear()

    def _clear(self) -> None:
        """Return to the prior before the first observation; the observations stay."""
        self._kernel, self._mean = self.prior.kernel, 0.0
        self._transform = standardized(np.zeros(1))
        self._noise = NOISE.median if isinstance(NOISE.median, float) else 0.0
        self._built = -1  # number of observations in the engine that was made last, with those added since
        self._everything: Regression | None = None  # posterior of all observations, where some were not shown
        self._uncertainty: Uncertainty | None = None  # uncertainty given the present observations; None until needed

    # ---- the prior

    @property
    def kernel(self) -> Kernel:
        self._learn()
        return self._kernel

    @property
    def constant_mean(self) -> float | None:
        self._learn()
        return self._mean

    @property
    def noise(self) -> float:
        """Noise variance of an observation, in squared units of z: learned, or the largest that was given."""
        self._learn()
        if self.known_noise and self.variances:
            return max(self.variances) / self._transform.scale**2
        return self._noise

    @property
    def transform(self) -> Transform:  # type: ignore[override]
        """Function from y to z, the engine's y, learned from all observations."""
        self._learn()
        return self._transform

    @property
    def flat(self) -> bool:
        """Whether all values are equal, as none are."""
        return all(y == self.ys[0] for y in self.ys)

    @property
    def engine(self) -> Engine:
        """Engine of the numbered points, up to date."""
        self._learn()
        return super().engine

    # ---- observations

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        self.add(candidate, y, noise_variance)
        self.shown.append(len(self.ys) - 1)

    def show(self, positions: Sequence[int]) -> None:
        """Give searches and fits the observations at some positions, those that they do not have yet."""
        self.shown.extend(position for position in positions if position not in self.shown)

    def add(self, candidate: int, y: float, noise_variance: float) -> None:
        """Add an observation that only predictions have, until it is shown."""
        if candidate in self.failed:  # it did not fail this time
            self.failed = [other for other in self.failed if other != candidate]
            self._built = -1
        self.numbers.append(candidate)
        self.ys.append(y)
        self.variances.append(noise_variance)
        self._queried[candidate] = True
        self._everything = None

    def fail(self, candidate: int) -> None:
        """Add a point, by number, at which the function failed: the engine sees the worst value there."""
        self.failed.append(candidate)
        self._built, self._everything = -1, None

    def extended(self, domain: Domain) -> Self:
        grown = self._on(domain)
        grown._engine = None if self._engine is None else self.search.extended(self._engine, grown)
        if grown._engine is None:
            grown._clear()
        return grown

    def settled(self, pending: Sequence[int]) -> Indices:
        """Return the numbers (k,) of the points whose next measurement would tell nothing new.

        If repeated measurements agree, and hardly by chance, all points that were measured or are pending; else,
        while the learned noise is small, those measured or pending `AGAIN` times. None where the noise is known.

        Parameters
        ----------
        pending
            Numbers of the pending points; a number may be pending several times.
        """
        if self.known_noise or not self.ys or self.noise >= SMALL_NOISE:
            return np.empty(0, dtype=np.int64)
        points, counts = np.unique(np.concatenate([self.numbers, pending]).astype(np.int64), return_counts=True)
        return points if self.exact_values else points[counts >= AGAIN]

    @property
    def exact_values(self) -> bool:
        """Whether measurements of one point are equal to the last bit, more often than chance would have it.

        Values at different points agree by chance if they are coarse, such as counts or shares of few trials. So often
        measurements of one point would agree without being exact; with 0 and 1 they do so most of the time.
        """
        ys = np.array(self.ys)
        points, first, where = np.unique(self.numbers, return_index=True, return_inverse=True)
        repeats = len(ys) - len(points)
        if not repeats or (ys != ys[first][where]).any():
            return False
        fine = len(points) > 2 and share_of_ties(ys[first]) <= COARSE
        return fine and share_of_ties(ys[first], 1.0) ** repeats < BY_CHANCE

    @property
    def exhausted(self) -> bool:
        """Whether all points were observed, and repeats show that there is no noise."""
        count = self.domain.count
        if self.known_noise or count is None or np.count_nonzero(self._queried) < count:
            return False
        return self.exact_values

    def averages(self) -> tuple[Indices, Floats, Floats]:
        """Return distinct points, averages of y and their noise variances, in units of y: three (m,) arrays.

        Points are in the order of their first measurements. Equal values have exactly these as their average.
        """
        ys, variances, scale = np.array(self.ys), np.array(self.variances), self.noise * self._transform.scale**2
        _, first, where = np.unique(self.numbers, return_index=True, return_inverse=True)
        order = np.argsort(first)
        where, first = np.argsort(order)[where], first[order]
        weights = 1.0 / variances if self.known_noise else np.full(len(ys), 1.0 / scale)
        precisions = np.bincount(where, weights)
        above = np.bincount(where, weights * (ys - ys[first][where])) / precisions
        return np.array(self.numbers, dtype=np.int64)[first], ys[first] + above, 1.0 / precisions

    @property
    def values_decide(self) -> bool:
        """Whether measured values are those of f: their noise is negligible."""
        return self.noise < NEGLIGIBLE

    def averages_at(self, numbers: Indices) -> tuple[Mask, Floats]:
        """Return the mask (k,) of the numbered points that were measured, and the averages (m,) of y at these."""
        known, averages, _ = self.averages()  # in the order of their first measurements
        order = np.argsort(known)
        places = order[np.minimum(np.searchsorted(known, numbers, sorter=order), len(known) - 1)]
        here = known[places] == numbers
        return here, averages[places[here]]

    def estimates(self, exact: bool) -> tuple[Indices, Floats]:
        """Return the distinct measured points (n,), and estimates (n,) of f there, in units of y.

        They are the values where these are exact, and elsewhere the posterior means, with ripples that they do not
        have (`ripples.py`).
        """
        if exact or self.values_decide:
            return self.averages()[:2]
        numbers, where, counts = np.unique(self.numbers, return_inverse=True, return_counts=True)
        points, z = self.domain.coordinates(numbers), np.bincount(where, self.transform(np.array(self.ys))) / counts
        mean, variance = self.deviation(points)
        mean = mean + self.prior_mean(points)
        rippled = with_ripples(points / self._sides, z, counts, mean, self.noise)
        return numbers, self.in_units(mean if rippled is None else rippled, variance)[0]

    # ---- learning

    def _learn(self) -> None:
        """Bring the engine up to date, with a new fit if one is due."""
        n, last = len(self.shown), self._milestone
        if self._built == n:
            return
        due = self._built < 0 or last is None or self.next_milestone(last.observations) <= n
        with one_thread:
            if self._engine is None or due or (self._every is None and n <= EVERY):
                first = self._update()
                self._engine = self.rebuilt_engine()
                self._changed()
            else:
                first, self._built, self._uncertainty = self._built, n, None
            for position in self.shown[first:]:
                super().observe(*self._scaled(position))

    def _update(self) -> int:
        """Learn from all observations; put the first ones, whose number is returned, and failed points in a new list.

        The later ones are to be added one by one.
        """
        fit = self._present_fit()
        count = 0 if fit is None else fit.observations
        if fit is None:
            self._clear()
        if self.shown:
            self._transform = self._transform_of(count or len(self.shown))
        if fit is not None:
            values = np.exp(fit.logs).tolist()
            if not self.known_noise:
                self._noise = values.pop()
            self._kernel, self._mean = self.prior.kernel.with_hyperparameters(values), fit.mean
        self._built, self._uncertainty = len(self.shown), None
        self.observations = self._gathered(self._modelled(count), count)
        return count

    def _gathered(self, positions: Sequence[int], count: int) -> CollapsedObservations:
        """Return the observations at some positions, with the worst of the first `count` values where it failed."""
        found = CollapsedObservations()
        for position in positions:
            found.add(*self._scaled(position))
        if self.failed:
            first = [self.ys[i] for i in self.shown[: count or None]]  # all, if there was no fit
            worst = float(self._transform(np.array([min(first)]))[0]) if first else 0.0
            for point in self.failed:
                found.add(point, worst, FAILURE_NOISE_OF_POOL if self.domain.space.scanned else FAILURE_NOISE)
        return found

    def _scaled(self, i: int) -> tuple[int, float, float]:
        """Return point, z and noise variance in squared units of z of the observation at a position."""
        z = float(self._transform(np.array([self.ys[i]]))[0])
        return self.numbers[i], z, self.variances[i] / self._transform.scale**2 if self.known_noise else self._noise

    def next_milestone(self, n: int) -> int:
        """Return the number of observations at the milestone after one at n: a tenth more, with many a fixed number."""
        return n + (self._every or max(1, min(n, self._reach) // 10))

    def _present_fit(self) -> Fit | None:
        """Return the fit for the present observations, after all milestones until then; None before the first.

        The fit of a milestone starts from the last one and from the standard values; beyond 200 observations from the
        latter only where their number has doubled.
        """
        last, n = self._milestone, len(self.shown)
        while n >= (due := (self._every or 2) if last is None else self.next_milestone(last.observations)):
            if last is None:
                last = self._fit(due, self._starts)
            elif due > self._reach:
                last = last._replace(observations=due)
            else:
                doubled = (due // EVERY).bit_length() > (last.observations // EVERY).bit_length()
                starts = [last.logs, *(self._starts if due <= EVERY or doubled else [])]
                last = self._fit(due, starts)
            self._milestone = last
        if last is None or n > EVERY or self._every is not None or last.observations == n:
            return last
        return self._fit(n, [last.logs])

    def _modelled(self, count: int) -> list[int]:
        """Return the positions of the observations, of the first `count` that were shown, that the model has."""
        if count > self._reach and not self._announced:
            self._announced = True
            checks.warn(
                f"beyond {self._reach:,} observations a learned model is approximate: its kernel stays, and it has the "
                f"best {int(BEST * self._reach):,} observations and {self._reach - int(BEST * self._reach):,} of the "
                "others",
                ApproximateModel,
            )
        return self._within_reach(self.shown[:count])

    def _within_reach(self, positions: Sequence[int]) -> list[int]:
        """Return positions of observations: all, or the best ones and some of the others."""
        if len(positions) <= self._reach:
            return list(positions)
        every, most = np.array(positions), int(BEST * self._reach)
        order = np.argsort(-self._worth(np.array(self.ys)[every]), kind="stable")
        best, rest = order[:most], np.sort(order[most:])
        some = rest[np.linspace(0, len(rest) - 1, self._reach - len(best)).astype(np.int64)]
        return every[np.sort(np.concatenate([best, some]))].tolist()

    def _worth(self, ys: Floats) -> Floats:
        """Return by what an approximate model takes some of the values (k,), the largest first: the values."""
        return ys

    def _fit(self, count: int, starts: list[Floats]) -> Fit:
        """Learn from the first `count` observations."""
        target = self._likelihood(self._transform_of(count), count)
        best = likeliest(target, starts, self._low, self._high, PRECISION)
        target(best)
        return Fit(count, best, target.mean)

    def _likelihood(self, transform: Transform, count: int) -> Likelihood:
        """Return the log posterior density of the hyperparameters given the first `count` observations."""
        first, z = self.shown[:count], transform(self._values(count))
        given = np.array(self.variances)[first] / transform.scale**2 if self.known_noise else np.ones(count)
        numbers, averages, variances, scatter = averaged(np.array(self.numbers)[first], z, given)
        prior_mean = self.prior.constant
        return Likelihood(
            self.prior.kernel, self.domain.coordinates(numbers), averages, variances,
            None if prior_mean is None else float(transform(np.array([prior_mean]))[0]),
            self._lengthscales, OUTPUT_SCALE, None if self.known_noise else NOISE, scatter,
        )  # fmt: skip

    def _transform_of(self, count: int) -> Transform:
        """Return the transform of the first `count` values; in few coordinates one counts by the space around it.

        Its weight is one over the number of points near it. Else the observations around a local maximum are soon the
        better half, and the rest of the function is lost from sight. In many coordinates points are never dense, and to
        see small differences near the best ones pays. Beyond the reach of an exact model, neighbours are counted among
        some points, spread evenly over time.
        """
        ys, d = self._values(count), len(self._sides)
        if self.known_noise:
            return standardized(ys)
        if d > WEIGHTED_DIMENSIONS:
            return half_ranked(ys, np.ones(count))
        x = self.domain.coordinates(np.array(self.numbers)[self.shown[:count]]) / self._sides
        return half_ranked(ys, 1.0 / np.maximum(neighbours(x, LENGTHSCALE * math.sqrt(d), self._reach), 1.0))

    def _values(self, count: int) -> Floats:
        """Return the values of the first `count` observations that were shown, in units of y."""
        return np.array(self.ys)[self.shown[:count]]

    def _logs(self, kernel: Kernel, noise: float) -> Floats:
        """Return the logarithms (p,) of a kernel's hyperparameters, and of the noise variance if it is learned."""
        return np.log([*(p.value for p in kernel.hyperparameters), *([] if self.known_noise else [noise])])

    # ---- searches, predictions

    @property
    def effort(self) -> str:  # type: ignore[override]
        return "hurried" if len(self.shown) >= MANY else "learned"

    def likely(self) -> Indices:
        """Return the numbers (k,) of the distinct points with the best values, best first; all if they are few."""
        numbers = np.array(self.numbers, dtype=np.int64)[self.shown]
        if len(numbers) < MANY:
            return np.unique(numbers)
        best = np.argsort(-self._values(len(numbers)), kind="stable")[: 4 * MOST_LIKELY]
        return np.array(list(dict.fromkeys(numbers[best].tolist()))[:MOST_LIKELY], dtype=np.int64)

    def in_units(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        std, inverse = np.sqrt(variance), self.transform.inverse
        return inverse(mean), (0.5 * (inverse(mean + std) - inverse(mean - std))) ** 2

    def believed(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance (k,) at points (k, d), the latter also for the uncertainty of what was learned.

        Not from few observations, of many points, or with failed ones, which are not a part of the likelihood.
        """
        mean, variance = super().believed(points)
        if self._milestone is None or self.failed or len({self.numbers[i] for i in self.shown}) > MOST_POINTS:
            return mean, variance
        if self._uncertainty is None:
            target = self._likelihood(self._transform, len(self.shown))
            self._uncertainty = Uncertainty(target, self._logs(self._kernel, self._noise), self._low, self._high)
        if not self.withheld:
            return mean, self._uncertainty.variance(points, mean)
        fewer, narrow = super().deviation(points)
        wide = self._uncertainty.variance(points, fewer + self.prior_mean(points))
        return mean, variance * np.maximum(wide / np.maximum(narrow, LEAST_VARIANCE), 1.0)

    @property
    def withheld(self) -> bool:
        """Whether there are observations that only predictions have."""
        return len(self.shown) < len(self.ys)

    def deviation(self, points: Floats) -> tuple[Floats, Floats]:
        if not self.withheld:
            return super().deviation(points)
        self._learn()
        if self._everything is None:
            count = 0 if self._milestone is None else self._milestone.observations
            every = self._gathered(self._within_reach(range(len(self.ys))), count)
            numbers, averages, variances = every.collapsed()
            x = self.domain.coordinates(numbers)
            self._everything = Regression(self._kernel, x, variances, averages - self.prior_mean(x))
        return self._everything.predict(points)

    # ---- state

    def _fit_values(self) -> Floats:
        fit = self._milestone
        return np.empty(0) if fit is None else np.array([fit.observations, fit.mean, *fit.logs])

    def _restore_fit(self, values: Floats) -> None:
        self._milestone = None
        if len(values):
            self._milestone = Fit(int(values[0]), np.array(values[2:]), float(values[1]))

    def after_restore(self) -> None:
        """Forget what the engine has, so that it is built again."""
        self._clear()
        super().after_restore()

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        listed("numbers", np.int64, name="learned.numbers"),
        listed("ys", np.float64, name="learned.ys"),
        listed("variances", np.float64, name="learned.variances"),
        listed("shown", np.int64, name="learned.shown"),
        listed("failed", np.int64, name="learned.failed"),
        value("learned.fit", "(p + 2,)", np.float64, _fit_values, _restore_fit),
    )

    @classmethod
    def state_fields(cls) -> tuple[StateEntry, ...]:
        return cls.STATE  # engine and observations follow from it
