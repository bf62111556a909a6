"""Prior of a learned model: transform of y, kernel, output scale, noise and constant mean, from the observations.

    kernel: output scale x Matern 5/2 with a lengthscale for each coordinate (x a `Hamming` factor for categories)
    log lengthscale ~ N(log 0.3 + log(D) / 2, 1) in sides of the space,   log output scale ~ N(0, 2^2)
    log noise variance ~ N(-8, 4^2),   mean: its optimal value given the kernel (profiled)

All are in units of the transformed y (`transform.py`). In spaces of up to two coordinates, an observation counts for it
by the space around it (`declustering.py`). The maximum of the posterior density is
found by L-BFGS-B with exact gradients: after every observation up to 200, then at milestones, where n has grown by a
tenth; in between, observations are transformed as at the last fit. What is learned depends on the observations and
their order alone, not on when it is asked for: fits start from the last milestone, and milestones also from the
standard values (beyond 200 where n has doubled).

Repeated measurements count: their scatter around the averages of their points is a factor of the likelihood, from which
the noise is learned, also that of exact values (`posteriors/collapsed.py`). Where values are exact beyond doubt, a
point is not measured again; where the learned noise is small, not a fourth time (`LearnedPrior.settled`). Predictions
have the uncertainty of the learned hyperparameters (`uncertainty.py`).

Beyond 2,000 observations the model is approximate, which a warning says once (`ApproximateModel`): kernel and noise
stay as they are, and at every milestone the model is made of a subset of 2,000 observations (Rasmussen & Williams 2006,
section 8.3.3), a third of them the best and the others spread evenly over time; later ones are added until the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel, Matern
from scalable_bandits.kernels.mixed import with_categories
from scalable_bandits.posteriors.collapsed import CollapsedObservations, averaged
from scalable_bandits.posteriors.hyperparameters.declustering import neighbours
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import Likelihood, LogNormal, likeliest
from scalable_bandits.posteriors.hyperparameters.transform import Transform, half_ranked, standardized
from scalable_bandits.posteriors.hyperparameters.uncertainty import MOST_POINTS, Uncertainty
from scalable_bandits.posteriors.state import StateEntry, Stateful, value
from scalable_bandits.spaces import Indices, Space

LENGTHSCALE = 0.3  # median over the root of the number of coordinates, in sides of the space
LENGTHSCALE_RANGE = (0.01, 100.0)  # in sides of the space
OUTPUT_SCALE, OUTPUT_SCALE_RANGE = LogNormal(1.0, 2.0), (1e-3, 1e3)
NOISE, NOISE_RANGE = LogNormal(math.exp(-8.0), 4.0), (1e-8, 100.0)
REACH = 2000  # largest number of observations of an exact model
BEST = 1 / 3  # share of the best observations among those that the approximate model keeps
# Noise variance of the worst value where the function failed: good ones nearby outweigh it. With 1e-6, fewer
# evaluations fail where the optimum is at the edge of a region that fails (in two coordinates a quarter of the later
# ones, not four fifths), but what is found is no better, and far worse where evaluations fail by accident.
FAILURE_NOISE = 0.01
SMALL_NOISE = 0.01  # noise variance, in squared units of z, below which a point is measured `AGAIN` times at most
AGAIN = 3
BY_CHANCE = 1e-3  # probability of agreeing by chance below which measurements that agree are exact
COARSE = 0.1  # share of the pairs of points with equal values from which agreement means nothing
EVERY = 200  # largest number of observations with a fit after each
WEIGHTED_DIMENSIONS = 2  # largest number of coordinates of a space whose observations count by the space around them
PRECISION = 1e-6  # relative gain of the log density below which a climb ends


class ApproximateModel(UserWarning):
    """A learned model has more observations than an exact one can have."""


def standard_kernel(space: Space) -> Kernel:
    """Return the kernel whose values are learned where none is given, with its initial values.

    Parameters
    ----------
    space
        Space with coordinates.
    """
    sides, unordered = _sides(space), space.unordered
    lengths = LENGTHSCALE * math.sqrt(len(sides)) * np.delete(sides, list(unordered))
    return with_categories(1.0 * Matern(lengths.tolist() or 1.0, nu=2.5), unordered, len(sides))


def standard_lengthscales(space: Space) -> LogNormal:
    """Return the prior on the lengthscales of a space, in units of its coordinates, where none is given."""
    sides = _sides(space)
    return LogNormal((LENGTHSCALE * math.sqrt(len(sides)) * sides).tolist(), 1.0)


def bounds(kernel: Kernel, space: Space, learns_noise: bool) -> tuple[Floats, Floats]:
    """Return the bounds (p,) of the logarithms of a kernel's hyperparameters, and of the noise if it is learned."""
    sides, ranges = _sides(space), []
    for parameter in kernel.hyperparameters:
        k = parameter.dimension or 0
        low, high = OUTPUT_SCALE_RANGE if parameter.name == "factor" else np.array(LENGTHSCALE_RANGE) * sides[k]
        ranges.append((float(low), float(high)))
    low, high = np.log([*ranges, *([NOISE_RANGE] if learns_noise else [])]).T
    return low, high


def _sides(space: Space) -> Floats:
    """Return the extent (D,) of a space along each coordinate; 1 where it has none."""
    sides = space.side_lengths
    assert sides is not None
    return np.where(sides > 0.0, sides, 1.0)


def _listed(name: str, dtype: type[np.generic]) -> StateEntry:
    """Declare a list of numbers, kept in the attribute of this name."""
    return value(
        name, "(n,)", dtype, lambda own: getattr(own, name), lambda own, held: setattr(own, name, held.tolist())
    )


class Fit(NamedTuple):
    """Values learned from the first observations."""

    observations: int
    logs: Floats  # (p,) logarithms of the kernel's hyperparameters, and of the noise variance if that is learned
    mean: float  # in units of z


class LearnedPrior(Stateful):
    """Observations in units of y, and the prior that is learned from them, in units of z.

    Parameters
    ----------
    space
        Space whose coordinates the model sees.
    known_noise
        Whether the noise variances of the observations are known; if not, one for all is learned.
    mean
        Constant prior mean, in units of y; None: it is learned.
    lengthscales
        Prior on the lengthscales, in units of the coordinates; None for the usual one.
    every
        Number of observations between two fits; None for the usual ones.

    Attributes
    ----------
    numbers, ys, variances : list
        Points by number, values in units of y, and noise variances (if known) of the observations.
    failed : list of int
        Numbers of the points where the function failed.
    kernel : Kernel
        Kernel of the last fit, in squared units of z.
    mean : float
        Prior mean of the last fit, in units of z.
    noise : float
        Noise variance of an observation, in squared units of z: learned, or that of the last observation.
    transform : Transform
        Function from y to z.
    """

    def __init__(
        self, space: Space, known_noise: bool, mean: float | None, lengthscales: LogNormal | None, every: int | None
    ):
        self.known_noise, self._given_mean, self._every = known_noise, mean, every
        self._standard = standard_kernel(space)
        self._sides = _sides(space)
        self._lengthscales = lengthscales or standard_lengthscales(space)
        self._low, self._high = bounds(self._standard, space, not known_noise)
        self._start = self._logs(self._standard, float(np.max(NOISE.median)))
        self.numbers: list[int] = []
        self.ys: list[float] = []
        self.variances: list[float] = []
        self.failed: list[int] = []
        self._milestone: Fit | None = None
        self._announced = False  # that the model is approximate
        self.clear()

    def clear(self) -> None:
        """Return to the prior before the first observation; the observations stay."""
        self.kernel, self.mean = self._standard, 0.0
        self.transform = standardized(np.zeros(1))
        self.noise = NOISE.median if isinstance(NOISE.median, float) else 0.0
        self._built = -1  # number of observations in the model that `update` described last
        self._uncertainty: Uncertainty | None = None  # uncertainty given the present observations; None until needed

    # ---- observations

    def __len__(self) -> int:
        return len(self.ys)

    @property
    def stale(self) -> bool:
        """Whether there are observations that the model does not have yet."""
        return self._built != len(self.ys)

    def add(self, point: int, y: float, noise_variance: float) -> None:
        """Add an observation of y at a point, by number, with a noise variance in squared units of y (if known)."""
        if point in self.failed:  # it did not fail this time
            self.failed = [other for other in self.failed if other != point]
            self._built = -1
        self.numbers.append(point)
        self.ys.append(y)
        self.variances.append(noise_variance)

    def fail(self, point: int) -> None:
        """Add a point, by number, at which the function failed: the model sees the worst value there."""
        self.failed.append(point)
        self._built = -1

    def averages(self) -> tuple[Indices, Floats, Floats]:
        """Return distinct points, averages of y and their noise variances, in units of y: three (m,) arrays."""
        found = CollapsedObservations()
        learned = self.noise * self.transform.scale**2
        for point, y, variance in zip(self.numbers, self.ys, self.variances, strict=True):
            found.add(point, y, variance if self.known_noise else learned)
        return found.collapsed()

    # ---- learning

    def update(self, coordinates: Callable[[Indices], Floats]) -> tuple[CollapsedObservations, int]:
        """Learn from all observations.

        Parameters
        ----------
        coordinates
            Function from numbers of points (k,) to their coordinates (k, D).

        Returns
        -------
        observations : CollapsedObservations
            Observations for a new engine, in units of z, with those at failed points.
        count : int
            Number of observations among them; the later ones are to be added one by one, with `scaled`.
        """
        fit = self._present_fit(coordinates)
        found, count = CollapsedObservations(), 0 if fit is None else fit.observations
        if fit is None:
            self.clear()
        if self.ys:
            self.transform = self._transform_of(count or len(self.ys), coordinates)
        if fit is not None:
            values = np.exp(fit.logs).tolist()
            self.noise = self.variances[-1] / self.transform.scale**2 if self.known_noise else values.pop()
            self.kernel, self.mean = self._standard.with_hyperparameters(values), fit.mean
        self._built, self._uncertainty = len(self.ys), None
        for i in self._modelled(count):
            found.add(*self.scaled(i))
        for point in self.failed:
            found.add(point, self._worst(count), FAILURE_NOISE)
        return found, count

    def added_since_update(self) -> range | None:
        """Return the positions of observations that were added since `update` and need no new fit; None if one does."""
        self._uncertainty, n = None, len(self.ys)
        if self._built < 0 or self._milestone is None or self.next_milestone(self._milestone.observations) <= n:
            return None
        if self._every is None and n <= EVERY:
            return None
        added = range(self._built, n)
        self._built = n
        return added

    def scaled(self, i: int) -> tuple[int, float, float]:
        """Return point, z and noise variance in squared units of z of the observation at a position."""
        z = float(self.transform(np.array([self.ys[i]]))[0])
        return self.numbers[i], z, self.variances[i] / self.transform.scale**2 if self.known_noise else self.noise

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
        _, same = np.unique(ys[first], return_counts=True)
        ties, pairs = float((same * (same - 1) / 2).sum()), len(points) * (len(points) - 1) / 2
        chance = (1.0 + ties) / (1.0 + pairs)
        return len(points) > 2 and ties <= COARSE * pairs and chance**repeats < BY_CHANCE

    def best_points(self, count: int) -> Indices:
        """Return the numbers (k,) of the distinct points with the best values, at most `count`, best first."""
        order = np.argsort(-np.array(self.ys), kind="stable")[: 4 * count]
        return np.array(list(dict.fromkeys(self.numbers[i] for i in order))[:count], dtype=np.int64)

    def _worst(self, count: int) -> float:
        """Return the smallest of the first values (all, if there was no fit), in units of z; 0 without observations."""
        first = self.ys[:count] or self.ys
        return float(self.transform(np.array([min(first)]))[0]) if first else 0.0

    def next_milestone(self, n: int) -> int:
        """Return the number of observations at the milestone after one at n: a tenth more, up to a tenth of `REACH`."""
        return n + (self._every or max(1, min(n, REACH) // 10))

    def _present_fit(self, coordinates: Callable[[Indices], Floats]) -> Fit | None:
        """Return the fit for the present observations, after all milestones until then; None before the first.

        The fit of a milestone starts from the last one and from the standard values; beyond 200 observations from the
        latter only where their number has doubled.
        """
        last, n = self._milestone, len(self.ys)
        while n >= (due := (self._every or 2) if last is None else self.next_milestone(last.observations)):
            if last is None:
                last = self._fit(coordinates, due, [self._start])
            elif due > REACH:
                last = last._replace(observations=due)
            else:
                doubled = (due // EVERY).bit_length() > (last.observations // EVERY).bit_length()
                starts = [last.logs, self._start] if due <= EVERY or doubled else [last.logs]
                last = self._fit(coordinates, due, starts)
            self._milestone = last
        if last is None or n > EVERY or self._every is not None or last.observations == n:
            return last
        return self._fit(coordinates, n, [last.logs])

    def _modelled(self, count: int) -> list[int]:
        """Return the positions of the observations, of the first `count`, that the model has."""
        if count <= REACH:
            return list(range(count))
        if not self._announced:
            self._announced = True
            checks.warn(
                f"beyond {REACH:,} observations a learned model is approximate: its kernel stays, and it has the best "
                f"{int(BEST * REACH):,} observations and {REACH - int(BEST * REACH):,} of the others",
                ApproximateModel,
            )
        order = np.argsort(-np.array(self.ys[:count]), kind="stable")
        best, rest = order[: int(BEST * REACH)], np.sort(order[int(BEST * REACH) :])
        some = rest[np.linspace(0, len(rest) - 1, REACH - len(best)).astype(np.int64)]
        return np.sort(np.concatenate([best, some])).tolist()

    def _fit(self, coordinates: Callable[[Indices], Floats], count: int, starts: list[Floats]) -> Fit:
        """Learn from the first `count` observations."""
        target = self._likelihood(self._transform_of(count, coordinates), coordinates, count)
        best = likeliest(target, starts, self._low, self._high, PRECISION)
        target(best)
        return Fit(count, best, target.mean)

    def _logs(self, kernel: Kernel, noise: float) -> Floats:
        """Return the logarithms (p,) of a kernel's hyperparameters, and of the noise variance if it is learned."""
        return np.log([*(p.value for p in kernel.hyperparameters), *([] if self.known_noise else [noise])])

    def _likelihood(self, transform: Transform, coordinates: Callable[[Indices], Floats], count: int) -> Likelihood:
        """Return the log posterior density of the hyperparameters given the first `count` observations."""
        z = transform(np.array(self.ys[:count]))
        given = np.array(self.variances[:count]) / transform.scale**2 if self.known_noise else np.ones(count)
        numbers, averages, variances, scatter = averaged(np.array(self.numbers[:count]), z, given)
        prior_mean = self._given_mean
        return Likelihood(
            self._standard, coordinates(numbers), averages, variances,
            None if prior_mean is None else float(transform(np.array([prior_mean]))[0]),
            self._lengthscales, OUTPUT_SCALE, None if self.known_noise else NOISE, scatter,
        )  # fmt: skip

    def uncertainty(self, coordinates: Callable[[Indices], Floats]) -> Uncertainty | None:
        """Return the uncertainty of what was learned; None from few observations, of many points, or with failed ones.

        Failed points, which are no observations, are not a part of the likelihood.
        """
        fit = self._milestone
        if fit is None or self.failed or len(set(self.numbers)) > MOST_POINTS:
            return None
        if self._uncertainty is None:
            target = self._likelihood(self.transform, coordinates, len(self.ys))
            self._uncertainty = Uncertainty(target, self._logs(self.kernel, self.noise), self._low, self._high)
        return self._uncertainty

    def _transform_of(self, count: int, coordinates: Callable[[Indices], Floats]) -> Transform:
        """Return the transform of the first `count` values; in few coordinates one counts by the space around it.

        Its weight is one over the number of points near it. Else the observations around a local maximum are soon the
        better half, and the rest of the function is lost from sight. In many coordinates points are never dense, and to
        see small differences near the best ones pays. Beyond the reach of an exact model, neighbours are counted among
        some points, spread evenly over time.
        """
        ys, d = np.array(self.ys[:count]), len(self._sides)
        if self.known_noise:
            return standardized(ys)
        if d > WEIGHTED_DIMENSIONS:
            return half_ranked(ys, np.ones(count))
        x = coordinates(np.array(self.numbers[:count])) / self._sides
        return half_ranked(ys, 1.0 / np.maximum(neighbours(x, LENGTHSCALE * math.sqrt(d), REACH), 1.0))

    # ---- state

    def _fit_values(self) -> Floats:
        fit = self._milestone
        return np.empty(0) if fit is None else np.array([fit.observations, fit.mean, *fit.logs])

    def _restore_fit(self, values: Floats) -> None:
        self._milestone = None
        if len(values):
            self._milestone = Fit(int(values[0]), np.array(values[2:]), float(values[1]))

    def after_restore(self) -> None:
        """Forget what the model has, so that it is built again."""
        self.clear()

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        _listed("numbers", np.int64),
        _listed("ys", np.float64),
        _listed("variances", np.float64),
        _listed("failed", np.int64),
        value("fit", "(p + 2,)", np.float64, _fit_values, _restore_fit),
    )
