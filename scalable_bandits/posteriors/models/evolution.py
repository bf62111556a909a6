"""CMA-ES: points from a normal distribution whose mean, length and directions are learned from the order of values.

    sample   a generation x_j = m + sigma C^(1/2) z_j, j = 1..size, of standard normal z_j
    learn    y_1, y_2, ... = (x_j - m) / sigma, best first
             m = m + sigma y,  y = sum_i w_i y_i  over the better half
             p = (1 - cs) p + sqrt(cs (2 - cs) mass) C^(-1/2) y,  sigma = sigma exp(cs / ds (|p| / E|z| - 1))
             q = (1 - cc) q + h sqrt(cc (2 - cc) mass) y,  h = 0 where p is long, else 1
             C = (1 - ...) C + c1 q q' + cm sum_i w_i y_i y_i'  over all, w_i < 0 in the worse half
    evaluate as many of a generation as are needed to rank all (`ranking.py`)
    start    at the best point, with the spread around it of the better third of the points that are apart, and more
    widen    at the best point, with steps of a fifth of the sides in all directions, after three generations if the
             model ranked none of these, and there were few observations at the start
    restart  where the steps are as short as they may be, or all values are equal: with twice the size and at a point
             drawn from the whole space; at the best point, with the first size, if that was found elsewhere since

A better point that others found takes the place of the worst of the next generation, once. The points of a generation
may be told in any order, and several may be pending.

Sources: Hansen 2016, The CMA evolution strategy: a tutorial (weights and rates are those of its table 1); Auger and
Hansen 2005, A restart CMA evolution strategy with increasing population size; Hansen 2011, Injecting external solutions
into CMA-ES; for a start with what is known, Nomura et al. 2021, Warm starting CMA-ES for hyperparameter optimization.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.blas import one_thread
from scalable_bandits.posteriors.box import _numba_ascent as numba_ascent
from scalable_bandits.posteriors.models.ranking import Ranking, coefficients
from scalable_bandits.posteriors.state import StateEntry, Stateful, array, member, number, value
from scalable_bandits.randomness import generator

# First length of a step around the best point, in sides of the space and for each coordinate: the more there are, the
# less is known of where the best ones lie.
LENGTH = 0.01
WIDE = 0.2  # the same around a point that was drawn, in all; also the largest around the best one
APART = 0.01  # distance, in sides of the space, within which points are one place; the best of them counts at the start
MOST = 1000  # largest number of points, the best ones, that are looked at then
BETTER = 1 / 3  # share of these places whose spread around the best one gives the first steps their shape
TRIAL = 3  # number of generations with the first steps after which these are wide, if the model ranked none of them
FEW = 8  # number of observations for each coefficient of a quadratic function from which on the first steps are kept
LEAST = 0.003  # spread that is added to that in all directions, in sides and for each coordinate
SHORTEST = 1e-9  # length in all directions below which the strategy starts again
ELSEWHERE = 0.01  # distance of the best point from the mean, in sides, from which on it was found elsewhere
# Distance at which two points are one, in sides of the space and in lengths of a step: named settings are rounded.
SAME, NEAR = 1e-12, 1e-3
LEAST_SHARE = 1e-14  # least variance of a direction, relative to that of the longest one


class Rates(NamedTuple):
    """Weights and rates of a size of generations."""

    weights: Floats  # (size,) by rank; of the worse half negative
    parents: int  # number of the positive ones
    mass: float  # variance-effective selection mass of these
    sigma: float  # rate of the path that the length follows, cs
    damping: float  # ds
    path: float  # rate of the path of means, cc
    one: float  # weight of the path in the covariance, c1
    many: float  # weight of the points in the covariance, cm
    normal: float  # expected length of a standard normal vector


class EvolutionStrategy(Stateful):
    """CMA-ES, which maximises; mean and covariance are in coordinates of the unit cube.

    Parameters
    ----------
    bounds
        Bounds (d, 2) of the space's coordinates.
    seed
        Seed of its points.

    Attributes
    ----------
    length : float
        Length of a step in each coordinate at first, sigma, in sides of the space.
    started : bool
        Whether there is a first mean.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        number("started", bool), number("length", float), number("_generation", int), number("_age", int),
        number("_trial", int), number("_top", float), number("_first_top", float), array("_mean", "(d,)"),
        array("_covariance", "(d, d)"), array("_length_path", "(d,)"), array("_path", "(d,)"),
        value("values", "(size,)", np.float64, lambda own: own._values, lambda own, held: own._resize(held)),
        member("_ranking", name="ranking"),  # after the values, which give it its size
    )  # fmt: skip

    def __init__(self, bounds: Floats, seed: int):
        dimension = len(bounds)
        self._bounds, self._sides = bounds, bounds[:, 1] - bounds[:, 0]
        self._seed, self._generation = seed, 0
        self._mean, self._covariance = np.empty(dimension), np.empty((dimension, dimension))
        self._length_path, self._path = np.empty(dimension), np.empty(dimension)
        self.started, self._ranking = False, Ranking()
        self._begin(np.full(dimension, 0.5), WIDE, first_size(dimension), -math.inf)

    @one_thread
    def start(self, x: Floats, y: Floats) -> None:
        """Start around the best of some points (n, d) with values (n,), with steps spread as the better ones are."""
        best = self._to_cube(x[np.argsort(-y, kind="stable")[:MOST]])
        chosen = np.empty(len(best), dtype=np.int64)
        places = best[chosen[: numba_ascent.spread_out(best, np.arange(len(best)), APART, chosen)]]
        away = places[: math.ceil(BETTER * len(places))] - places[0]
        dimension = len(self._bounds)
        spread = away.T @ away / len(away) + (LEAST * dimension) ** 2 * np.eye(dimension)
        longest = float(np.linalg.eigvalsh(spread)[-1])
        self.started = True
        self._begin(places[0], min(WIDE, math.sqrt(longest)), first_size(dimension), float(y.max()))
        self._covariance[:] = spread / longest
        self._trial = TRIAL if len(y) < FEW * coefficients(dimension) else 0
        self._predict(x, y)

    def _begin(self, mean: Floats, length: float, size: int, top: float) -> None:
        self._mean[:], self._covariance[:] = mean, np.eye(len(mean))
        self._length_path[:] = self._path[:] = 0.0
        self.length, self._age = length, 0
        self._trial = 0  # number of generations in which the model may show that it ranks well, before steps are wide
        self._top = self._first_top = top  # best known value, after the last generation and at the start
        self._generation += 1
        self._resize(np.full(size, np.nan))

    def _resize(self, values: Floats) -> None:
        self._values = np.array(values)
        self._rates = rates(len(self._mean), len(values))
        self._drawn: Floats | None = None
        self._ranking.begin(len(values))

    # ---- points

    def points(self) -> Floats:
        """Return the points (size, d) of the present generation."""
        if self._drawn is None:
            shape = len(self._values), len(self._mean)
            normal = generator(self._seed, "evolution", self._generation).standard_normal(shape)
            with one_thread:
                drawn = np.clip(self._mean + self.length * (normal @ self._roots()[0]), 0.0, 1.0)
            low, high = self._bounds.T
            self._drawn = np.clip(low + self._sides * drawn, low, high)
        return self._drawn

    def next(self, pending: Floats) -> Floats | None:
        """Return a point (d,) of the generation that is neither told nor one of the pending ones (k, d), if any."""
        taken = {self.find(point) for point in pending}
        for position in np.argsort(-self._ranking.predicted, kind="stable").tolist():
            if np.isnan(self._values[position]) and position not in taken:
                return np.asarray(self.points()[position])
        return None

    def find(self, point: Floats) -> int | None:
        """Return the position of a point (d,) of the generation that has no value yet; None without such a point."""
        if not self.started:
            return None
        distances = np.abs((self.points() - point) / self._sides).max(axis=1)
        nearest = float(distances.min())
        here = np.isnan(self._values) & (distances == nearest)
        return int(np.argmax(here)) if here.any() and nearest < max(SAME, NEAR * self.length) else None

    def _to_cube(self, points: Floats) -> Floats:
        """Return points (..., d) in coordinates of the unit cube."""
        return np.asarray((points - self._bounds[:, 0]) / self._sides)

    # ---- learning

    def observe(self, position: int, value: float, x: Floats, y: Floats, least: float) -> None:
        """Learn the value of a point of the generation.

        Parameters
        ----------
        position
            Position of the point.
        value
            Its value.
        x, y
            All observations (n, d) and (n,), this one among them unless it failed.
        least
            Difference between values that is worth nothing.
        """
        self._values[position] = value
        self._ranking.compare(position, value)
        known = len(self._values) - int(np.count_nonzero(np.isnan(self._values)))
        if known < len(self._values):
            if known < self._ranking.enough:
                return
            reliable = self._ranking.reliable
            self._predict(x, y)
            if not reliable:
                self._ranking.need_more(known)
                return
            self._values[:] = self._ranking.completed(self._values)
            self._trial = 0
        values, best, top = self._values, self._to_cube(x[np.argmax(y)]), float(y.max())
        self._learn(best, top)
        longest = self.length * math.sqrt(float(np.linalg.eigvalsh(self._covariance)[-1]))
        if longest < SHORTEST or np.ptp(values) <= least:
            if top > self._first_top + least and np.abs(best - self._mean).max() > ELSEWHERE:
                self._begin(best, first_length(len(best)), first_size(len(best)), top)
            else:
                drawn = generator(self._seed, "start", self._generation).random(len(best))
                self._begin(drawn, WIDE, 2 * len(values), top)
        elif self._trial == 1:
            self._begin(best, WIDE, first_size(len(best)), top)
        self._trial = max(0, self._trial - 1)
        self._predict(x, y)

    @one_thread
    def _predict(self, x: Floats, y: Floats) -> None:
        """Predict the values of the generation's points from all observations (n, d) and (n,)."""
        _, inverse = self._roots()
        points, observed = ((self._to_cube(each) - self._mean) @ inverse / self.length for each in (self.points(), x))
        self._ranking.predict(points, observed, y)

    @one_thread
    def _learn(self, best: Floats, top: float) -> None:
        """Learn from the generation, and begin the next."""
        points, values, own = self._to_cube(self.points()), self._values, self._rates
        if top > max(self._top, values.max()):  # others found a better point
            worst = int(np.argmin(values))
            points[worst], values[worst] = best, top
        self._top, self._age = max(self._top, top), self._age + 1
        _, inverse = self._roots()
        steps = (points - self._mean)[np.argsort(-values, kind="stable")] / self.length
        d, lengths = len(best), np.linalg.norm(steps @ inverse, axis=1)
        longest = math.sqrt(d) + 2.0 * d / (d + 2.0)  # of points from elsewhere, or at the bounds
        steps *= np.minimum(1.0, longest / np.maximum(lengths, longest))[:, None]
        step = own.weights[: own.parents] @ steps[: own.parents]
        self._mean += self.length * step

        self._length_path *= 1.0 - own.sigma
        self._length_path += math.sqrt(own.sigma * (2.0 - own.sigma) * own.mass) * (inverse @ step)
        share = float(np.linalg.norm(self._length_path)) / own.normal
        far = share / math.sqrt(1.0 - (1.0 - own.sigma) ** (2 * self._age)) >= 1.4 + 2.0 / (d + 1.0)
        self._path *= 1.0 - own.path
        if not far:
            self._path += math.sqrt(own.path * (2.0 - own.path) * own.mass) * step

        weights = own.weights.copy()
        weights[own.parents :] *= d / np.maximum(np.minimum(lengths, longest)[own.parents :] ** 2, 1e-300)
        kept = 1.0 - own.one - own.many * float(own.weights.sum()) + far * own.one * own.path * (2.0 - own.path)
        self._covariance *= kept
        self._covariance += own.one * np.outer(self._path, self._path) + own.many * (steps.T * weights) @ steps
        self.length *= math.exp(min(1.0, own.sigma / own.damping * (share - 1.0)))
        self._generation += 1
        self._resize(np.full(len(values), np.nan))

    def _roots(self) -> tuple[Floats, Floats]:
        """Return the symmetric root of the covariance and its inverse: two (d, d)."""
        variances, directions = np.linalg.eigh(self._covariance)
        deviations = np.sqrt(np.maximum(variances, LEAST_SHARE * variances[-1]))
        return (directions * deviations) @ directions.T, (directions / deviations) @ directions.T


def first_length(d: int) -> float:
    """Return the first length of a step around the best point."""
    return min(WIDE, LENGTH * d)


def first_size(d: int) -> int:
    """Return the size of a generation at first."""
    return 4 + int(3.0 * math.log(d))


def rates(d: int, size: int) -> Rates:
    """Return weights and rates of generations of a size in d coordinates."""
    parents = size // 2
    weights = math.log((size + 1) / 2) - np.log(np.arange(1, size + 1))
    mass, worse = (float(each.sum() ** 2 / (each**2).sum()) for each in (weights[:parents], weights[parents:]))
    sigma = (mass + 2.0) / (d + mass + 5.0)
    damping = 1.0 + 2.0 * max(0.0, math.sqrt((mass - 1.0) / (d + 1.0)) - 1.0) + sigma
    path = (4.0 + mass / d) / (d + 4.0 + 2.0 * mass / d)
    one = 2.0 / ((d + 1.3) ** 2 + mass)
    many = min(1.0 - one, 2.0 * (0.25 + mass + 1.0 / mass - 2.0) / ((d + 2.0) ** 2 + mass))
    negative = min(1.0 + one / many, 1.0 + 2.0 * worse / (mass + 2.0), (1.0 - one - many) / (d * many))
    weights[:parents] /= weights[:parents].sum()
    weights[parents:] *= negative / -weights[parents:].sum()
    normal = math.sqrt(d) * (1.0 - 1.0 / (4.0 * d) + 1.0 / (21.0 * d * d))
    return Rates(weights, parents, mass, sigma, damping, path, one, many, normal)
