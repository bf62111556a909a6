"""Refinement of the best point: a trust region around it, with a model of its own of the observations nearest to it.

Where values are exact and the region has converged, it begins again elsewhere.

    model    f = mean + RBF process + linear form + quadratic form, the factors and the lengthscale learned from the
             observations nearest to the best one, as exact values and without a transform; once more in coordinates
             in which the posterior mean is equally curved in all directions at the best point, and the likelier of
             the two is the model
    propose  x = argmax of the posterior mean at a distance of at most r from the best point
    observe  rho = gain of the best value / gain that was predicted at x
             rho > 0.7 and x near the edge of the region: double r;  rho < 0.1: halve r
    turns    after a step with rho >= 0.1 the next point is the region's again; after others, 1, 2 and then always 4
             points are those of the whole space first; where values are exact, from 300 observations on, points of an
             evolution strategy (`evolution.py`), which need no Gaussian process, come before these four, also after
             twelve gains in a row by steps shorter than .003 of the sides: as many at first, twice as many at each
             further turn until a longer step gains, and nine times as many at most; in a batch also after the step, or
             the points of the whole space, that are due
    restart  where no gain is predicted, and values are exact: at the point that multi-level single linkage names
             (`starts.py`), with its best point in the place of the best one, until a better one than all is found, or
             the gain predicted is below a thousandth of what is missing

Distances are the largest ones along a coordinate, as shares of the space's sides. The radius is as at first when a
point of the whole space is the best one and far away. What the region does follows from the observations, their order,
and which of them were asked for: a point of the whole space that is in the region, where a gain is predicted, is a step
as well. One that was only told is not a step; of these, where the last is not the best, every second one gives the next
point to the whole space, so that a policy that is made anew for each question, and told all that is known, uses both.

Of steps shorter than a hundredth of the sides, the model of the whole space has only the points that were the best ones
when the next step did not gain. Else it would see ever more points around one place, and search there too. Values are
exact (`TrustRegion.exact`) where steps gain what is predicted, or where the best point, which is measured again after
300 observations, has the same value again, and hardly by chance.

Sources: the radius as in trust-region methods (Conn, Gould & Toint 2000, section 6.1; Powell 2009, BOBYQA); a Gaussian
process with a trend of basis functions (Rasmussen & Williams 2006, section 2.7) in the place of the quadratic model;
trust regions with models of their own in Bayesian optimisation, Eriksson et al. 2019.
"""

from __future__ import annotations

import functools
import math
from typing import ClassVar, NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import RBF, Kernel, Linear
from scalable_bandits.kernels import _numba_kernels as numba_kernels
from scalable_bandits.posteriors.blas import one_thread
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.maximization import Sizes, maximize_over_box
from scalable_bandits.posteriors.box.surface import SmoothIndex, constant_mean
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import LogNormal, gaussian_density, likeliest
from scalable_bandits.posteriors.models.evolution import EvolutionStrategy
from scalable_bandits.posteriors.models.learned import BY_CHANCE, share_of_ties
from scalable_bandits.posteriors.models.model import MEAN
from scalable_bandits.posteriors.models.ranking import coefficients
from scalable_bandits.posteriors.models.starts import Searches
from scalable_bandits.posteriors.state import StateEntry, Stateful, member, number
from scalable_bandits.randomness import derived_seed

FIRST = 10  # least number of observations before the first step: points that are spread over the space
RADIUS, LARGEST, SMALLEST = 0.1, 0.5, 1e-13  # first, largest and smallest radius, in sides of the space
FAR = 4.0  # distance from the region, in radii, at which a new best point begins another
SEEN = 10.0  # distance of the observations that the model has, in radii, where there are enough of them
MOST = 100  # largest number of observations of the model
REACH = 1000  # the same of the model of the whole space, in whose stead the region sees the best points
PATIENCE = 4  # largest number of points of the whole space between two steps
LATE = 300  # number of observations from which on there are points of the evolution strategy
SERIES = 9  # largest number of these for each of the points of the whole space that follow
SHORT, STEPS = 3e-3, 12  # length of steps, in sides of the space; number of gains by shorter ones before such points
SURE = 3.0  # gain, in standard deviations, from which on Newton's step is among the first points of a search
REPEATS = 10  # largest number of times that the best point is measured again to see whether values are exact
STREAK = 5  # number of steps in a row, each with a gain as predicted, after which values are exact
SPACING = 0.01  # length of the steps, in sides of the space, from which on the model of the whole space has them all
SAME = 1e-15  # distance, in sides of the space, at which two points are one
NOISE = 1e-12  # noise variance of a value, relative to the variance of the values
WORTH = 1e-3  # least gain that is worth a step elsewhere, relative to how much better the best point is
LEAST = 1e-11  # least gain that is worth a step, in distances from the lower quartile of the values to the best one
# Variances of the RBF process, of the linear and of the quadratic form, relative to the variance of the values.
VARIANCES, VARIANCE_RANGE = LogNormal(10.0, 2.0), (1e-9, 1e7)
QUADRATIC = math.exp(-12.0)  # first variance of the process in a search that begins with almost a quadratic function
FLATTEST = 1e-6  # least curvature of a direction, relative to that of the most curved one, in even coordinates
PRECISION = 1e-8  # relative gain of the likelihood at which its search ends
SIZES = Sizes(256, 4, slope=0.0)  # the best end is refined always


class Turned:
    """Posterior of values (m,) at points (m, d), with the likeliest hyperparameters, in coordinates u = axes x.

    Parameters
    ----------
    points, z
        Points (m, d), of which the origin is the best one, and values (m,) with mean 0 and deviation 1.
    axes
        Matrix (d, d) that turns and stretches the points.

    Attributes
    ----------
    surface : Surface
        The posterior as a function of u.
    axes : ndarray
        Matrix (d, d) that turns and stretches the points.
    density : float
        Log posterior density of its hyperparameters.
    curvature : ndarray
        Minus the second derivatives (d, d) of the mean at the origin, in coordinates of the points.
    """

    def __init__(self, points: Floats, z: Floats, axes: Floats):
        d, u = len(axes), np.ascontiguousarray(points @ axes.T)
        target = LocalDensity(u, z)
        self._logs, self.axes = likeliest(target, *_search_space(d), PRECISION), axes
        self.density, _ = target(self._logs)
        engine = BoxEngine(_kernel_of(self._logs), d, constant_mean(target.mean))
        engine.points = u
        engine.observe_all(np.arange(len(z)), z, np.full(len(z), NOISE))
        self.surface = engine.surface()

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance at points x (k, d): two (k,) arrays."""
        return self.surface.predict(np.ascontiguousarray(x @ self.axes.T))

    def index(self, index: SmoothIndex, x: Floats) -> tuple[Floats, Floats]:
        """Return an index at points x (k, d), shape (k,), and its gradient (k, d)."""
        found, slope = self.surface.index(index, np.ascontiguousarray(x @ self.axes.T))
        return found, slope @ self.axes

    @functools.cached_property
    def curvature(self) -> Floats:
        """Minus the second derivatives (d, d) of the mean at the origin, in coordinates of the points."""
        process, lengthscale, _, quadratic = np.exp(self._logs).tolist()
        u, weights = self.surface.points, self.surface.weights
        pulls = process / lengthscale**2 * weights * np.exp(-0.5 * (u**2).sum(axis=1) / lengthscale**2)
        inner = (u.T * (2.0 * quadratic * weights + pulls / lengthscale**2)) @ u
        return np.asarray(self.axes.T @ (pulls.sum() * np.eye(len(inner)) - inner) @ self.axes)

    def newton_step(self, bounds: Floats) -> Floats:
        """Return where a quadratic approximation of the mean at the origin is largest, or before it the bounds (d, 2).

        Where the mean is curved upwards it is taken to be curved downwards as much.
        """
        _, slope = self.index(MEAN, np.zeros((1, len(bounds))))
        strengths, directions = np.linalg.eigh(self.curvature)
        strengths = np.maximum(np.abs(strengths), np.finfo(float).eps * np.abs(strengths).max() + np.finfo(float).tiny)
        step = directions @ (directions.T @ slope[0] / strengths)
        ends = np.where(step > 0.0, bounds[:, 1], bounds[:, 0])
        shares = np.divide(ends, step, out=np.ones(len(step)), where=np.abs(step) > np.abs(ends))
        return np.asarray(step * min(1.0, float(shares.min())))


class LocalModel(NamedTuple):
    """Posterior of the observations nearest to the best one."""

    posterior: Turned
    centre: Floats  # (d,) best point
    scale: Floats  # (d,) lengths that are 1 in coordinates of the posterior
    best: float  # value of the best point, in units of the posterior
    unit: float  # unit of the posterior, in units of y

    def gain(self, x: Floats) -> float:
        """Return the gain of the best value that is predicted at a point (d,), in units of y."""
        mean, _ = self.posterior.predict(((x - self.centre) / self.scale)[None])
        return (float(mean[0]) - self.best) * self.unit


class LocalDensity:
    """Log posterior density of the hyperparameters, up to a constant.

    Distances and products of the points are computed once: a step takes some hundred evaluations.

    Parameters
    ----------
    points, z
        Points (m, d) and values (m,), in units of the surface.

    Attributes
    ----------
    mean : float
        Mean of largest density at the last evaluation.
    """

    def __init__(self, points: Floats, z: Floats):
        self._halves = np.empty((len(z), len(z)))
        numba_kernels.squared_distances(points, points, np.full(points.shape[1], math.sqrt(0.5)), self._halves)
        self._linear = points @ points.T
        self._quadratic, self._z = self._linear**2, z
        median, spread = LogNormal(math.sqrt(points.shape[1]), 1.5), VARIANCES
        self._centers = np.log([spread.median, median.median, spread.median, spread.median])
        self._precisions = np.array([spread.spread, median.spread, spread.spread, spread.spread]) ** -2.0
        self.mean = 0.0

    def __call__(self, logs: Floats) -> tuple[float, Floats]:
        """Return the density and its gradient (4,) at the logarithms (4,) of the hyperparameters."""
        process, lengthscale, linear, quadratic = np.exp(logs).tolist()
        scaled = self._halves * (-1.0 / lengthscale**2)
        covariances = process * np.exp(scaled)
        matrix = covariances + linear * self._linear
        matrix += quadratic * self._quadratic
        matrix.ravel()[:: len(matrix) + 1] += NOISE
        value, self.mean, pulls = gaussian_density(matrix, self._z, None)
        if pulls is None:
            return value, np.zeros(4)
        covariances *= pulls
        gradient = np.array([
            covariances.sum(), -2.0 * np.vdot(covariances, scaled), linear * np.vdot(pulls, self._linear),
            quadratic * np.vdot(pulls, self._quadratic),
        ])  # fmt: skip
        away = logs - self._centers
        return value - 0.5 * float(self._precisions @ away**2), gradient - self._precisions * away


class TrustRegion(Stateful):
    """Trust region around the best observation; points and values are given with each question.

    Parameters
    ----------
    bounds
        Bounds (d, 2) of the space's coordinates.
    seed
        Seed of its searches.

    Attributes
    ----------
    radius : float
        Half the length of the region's sides, in sides of the space.
    exact : bool
        Whether values are known to be exact: several steps in a row gained what was predicted, or the best point was
        measured again.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        number("radius", float), number("exact", bool), number("_streak", int), number("_pause", int),
        number("_wait", int), number("_left", int), number("_series", int), number("_short", int),
        number("_repeats", int), number("_told", int),
        member("_searches", name="searches"), member("_evolution", name="evolution"),
    )  # fmt: skip

    def __init__(self, bounds: Floats, seed: int):
        self._bounds, self._sides, self._seed = bounds, bounds[:, 1] - bounds[:, 0], seed
        self.radius, self.exact = RADIUS, False
        self._streak = 0  # number of the last steps in a row with a gain
        self._pause, self._wait = 1, 0  # points of the whole space after the next step without a gain; until the next
        self._evolution, self._left = EvolutionStrategy(bounds, seed), 0  # and how many of its points are left
        self._series = 1  # number of these, next time, for each of the points of the whole space
        self._short = 0  # number of short steps with a gain since a longer one, or since the last of these points
        self._repeats = 0  # measurements of the best point that agreed; `REPEATS` where that is known or told nothing
        self._told = 0  # number of points that were only told, since the best one or the last one that was asked for
        self._searches = Searches(RADIUS)
        self._model: tuple[int, LocalModel] | None = None  # of so many observations

    @property
    def first(self) -> int:
        """Number of observations before the first step: as many as a quadratic function has coefficients."""
        return max(FIRST, coefficients(len(self._bounds)))

    def holds(self, points: Floats, best: Floats) -> bool:
        """Whether one of some points (k, d) is in the region around the best point (d,)."""
        return bool((self._distances(points, best) <= self.radius * (1.0 + 1e-9)).any())

    def propose(self, x: Floats, y: Floats, pending: Floats, failed: Floats) -> Floats | None:
        """Return the next point (d,) if it is the region's turn and it has one, else None.

        Parameters
        ----------
        x, y
            Observations (n, d) and (n,), in the order in which they came; larger values are better.
        pending
            Points (k, d) whose value is not known yet; no step is asked for while one of these is in the region.
        failed
            Points (j, d) at which the function failed.
        """
        if len(y) < self.first:
            return None
        best = x[self._searches.centre(y)]
        held = self.holds(pending, best)
        if self._repeats_best(len(y)) and not held:
            return np.asarray(best)
        if self._told % 2:
            return None
        found = None if self._wait or held else self._offer(x, y)
        if found is None and self._evolves(pending):
            found = self._evolution.next(pending)
        return None if found is None or self._holds_same(np.concatenate([failed, pending]), found) else found

    def _repeats_best(self, count: int) -> bool:
        """Whether the best point is to be measured again, after so many observations."""
        return count >= LATE and not self.exact and self._repeats < REPEATS

    def _evolves(self, pending: Floats) -> bool:
        """Whether the next point is the evolution strategy's, while points (k, d) are pending and no step is due."""
        if not self._evolution.started:
            return False
        due = max(1, self._wait)  # points of the whole space, or a step
        return bool(self._wait and self._left) or sum(self._evolution.find(x) is None for x in pending) >= due

    def _offer(self, x: Floats, y: Floats) -> Floats | None:
        """Return the point (d,) of the region with the largest mean; None if it promises no gain, or is known."""
        best, model = x[self._searches.centre(y)], self._fitted(x, y)
        reach = self.radius * self._sides
        low, high = np.maximum(best - reach, self._bounds[:, 0]), np.minimum(best + reach, self._bounds[:, 1])
        bounds = (np.column_stack([low, high]) - best[:, None]) / model.scale[:, None]
        seed = derived_seed(self._seed, "region", len(y))
        with one_thread:
            likely = np.stack([np.zeros(len(best)), model.posterior.newton_step(bounds)])
            mean, variance = model.posterior.predict(likely)
            sure = mean[1] - model.best > SURE * math.sqrt(variance[1])
            top = maximize_over_box(model.posterior, MEAN, bounds, seed, likely[: 1 + sure], SIZES)
        found = np.clip(best + top.x * model.scale, low, high)
        return None if model.gain(found) < self._worth(y) or self._holds_same(x, found) else found

    def observe(self, x: Floats, y: Floats, asked: bool, failed: Floats) -> list[int]:
        """Adapt to the last observation, and return the positions of those that the model of the whole space gets.

        Parameters
        ----------
        x, y
            Observations (n, d) and (n,), the new one last.
        asked
            Whether the last point was asked for; if not, it is no step.
        failed
            Points (j, d) at which the function failed.
        """
        earlier = len(y) - 1
        self._told = 0 if asked or y[-1] > y[:-1].max(initial=-math.inf) else self._told + 1
        if earlier < self.first:
            return [earlier]
        best = self._searches.centre(y[:earlier])
        distance = float(self._distances(x[-1:], x[best])[0])
        if distance < SAME and self._repeats_best(earlier):
            self._repeats = self._repeats + 1 if y[-1] == y[best] else REPEATS
            self.exact = bool(y[-1] == y[best]) and share_of_ties(y[:LATE], 1.0) ** self._repeats < BY_CHANCE
            return [earlier]
        if asked and (position := self._evolution.find(x[-1])) is not None:
            return self._observe_evolved(x, y, position)
        if asked and self.holds(x[-1:], x[best]):
            predicted = self._fitted(x[:-1], y[:-1]).gain(x[-1])
            if predicted >= self._worth(y[:-1]):
                return self._observe_step(x, y, predicted, distance)
        self._observe_elsewhere(x, y, asked, failed, distance)
        return [best, earlier]

    def pass_told(self) -> None:
        """Take note of a point that was only told, and is neither better than all others nor known."""
        self._told += 1

    def _observe_step(self, x: Floats, y: Floats, predicted: float, distance: float) -> list[int]:
        """Adapt to the last observation, a step of which a gain was predicted, at a distance from the best point."""
        gain = float(y[-1] - y[self._searches.centre(y[:-1])])
        apart = [len(y) - 1] if distance >= SPACING else []
        if gain > 0.0:
            self._searches.move(y)
        if gain <= 0.0 or gain < 0.1 * predicted:
            self._without_gain(x, y)
            return [self._searches.centre(y), *apart]
        self._pause, self._wait, self._streak = 1, 0, self._streak + 1
        self.exact = self.exact or self._streak >= STREAK
        if distance >= SHORT:
            self._series, self._short = 1, 0
        else:
            self._short += 1
        if self._short >= STEPS and self._late(y):
            self._pause = PATIENCE
            self._pass_turn(x, y)
        if gain > 0.7 * predicted and distance > 0.8 * self.radius:
            self.radius = min(LARGEST, 2.0 * self.radius)
        return apart

    def _observe_elsewhere(self, x: Floats, y: Floats, asked: bool, failed: Floats, distance: float) -> None:
        """Adapt to the last observation, which is no step, at a distance from the best point of the search."""
        if y[-1] > y[:-1].max():
            if self._searches.end() or distance > FAR * self.radius:
                self.radius = RADIUS
            self._pause, self._wait = 1, 0
        elif asked and self._wait:
            self._wait -= 1
        elif asked:  # it was the region's turn
            offer = self._offer(x[:-1], y[:-1])
            if offer is None:
                again, self._pause = self._pause == PATIENCE, PATIENCE
                self._pass_turn(x, y)
                if again and self.exact:
                    self._turn_elsewhere(x, y)
            elif self._holds_same(failed, offer):  # a smaller region has others
                self._without_gain(x, y)

    def failed(self, x: Floats, y: Floats, point: Floats) -> None:
        """Take note that the function failed at a point (d,): in the region it is a step without a gain."""
        if len(y) < self.first:
            return
        best = x[self._searches.centre(y)]
        if (position := self._evolution.find(point)) is not None:
            self._tell_evolution(position, float(y.min()), x, y)
        elif float(self._distances(point[None], best)[0]) < SAME:
            self._repeats = REPEATS
        elif self.holds(point[None], best):
            self._without_gain(x, y)

    def _without_gain(self, x: Floats, y: Floats) -> None:
        """Halve the radius, and wait."""
        self.radius, self._streak = max(SMALLEST, 0.5 * self.radius), 0
        self._pass_turn(x, y)
        self._pause = min(PATIENCE, 2 * self._pause)
        self._model = None  # it depends on the radius

    def _pass_turn(self, x: Floats, y: Floats) -> None:
        """Leave the next points to the whole space, and before these to the evolution strategy."""
        self._wait = self._pause
        if self._late(y) and self._pause == PATIENCE:
            self._left, self._series = self._series * self._wait, min(SERIES, 2 * self._series)
            self._short = 0
            if not self._evolution.started:
                self._evolution.start(x, y)

    def _late(self, y: Floats) -> bool:
        """Whether the evolution strategy has turns, after observations (n,)."""
        return self.exact and len(y) >= LATE

    def _turn_elsewhere(self, x: Floats, y: Floats) -> None:
        """Begin the next search after a point of the whole space, if there is one, as the present one has ended."""
        radius = self._searches.turn((x - self._bounds[:, 0]) / self._sides, y, self.radius)
        if radius is not None:
            self.radius, self._model = radius, None
            self._pause = self._wait = 1
            self._left = min(self._left, SERIES)

    def _observe_evolved(self, x: Floats, y: Floats, position: int) -> list[int]:
        """Adapt to the last observation, which is a point of the evolution strategy."""
        best = int(np.argmax(y[:-1]))
        distance = float(self._distances(x[-1:], x[best])[0])
        self._tell_evolution(position, float(y[-1]), x, y)
        apart = [len(y) - 1] if distance >= SPACING else []
        if y[-1] <= y[best]:
            return [best, *apart]
        self._searches.end()
        self.radius = max(self.radius, min(distance, RADIUS))
        return apart

    def _tell_evolution(self, position: int, y: float, x: Floats, ys: Floats) -> None:
        """Let the evolution strategy learn the value of one of its points."""
        self._evolution.observe(position, y, x, ys, _least(ys))
        self._left = max(0, self._left - 1)

    def _worth(self, y: Floats) -> float:
        """Return the least gain that is worth a step."""
        return max(_least(y), WORTH * float(y.max() - y[self._searches.centre(y)]))

    def _holds_same(self, points: Floats, x: Floats) -> bool:
        return bool((self._distances(points, x) < SAME).any())

    def _distances(self, points: Floats, x: Floats) -> Floats:
        return np.asarray(np.abs((points - x) / self._sides).max(axis=1))

    def _fitted(self, x: Floats, y: Floats) -> LocalModel:
        """Return the model of the observations near the best one, made once for each number of observations."""
        if self._model is None or self._model[0] != len(y):
            self._model = len(y), self._fit(x, y)
        return self._model[1]

    @one_thread
    def _fit(self, x: Floats, y: Floats) -> LocalModel:
        d, best = x.shape[1], self._searches.centre(y)
        distances = self._distances(x, x[best])
        most = min(MOST, 3 * coefficients(d) + d)
        nearest = np.lexsort((-y, distances))[: 2 * most]
        nearest = nearest[np.sort(np.unique(x[nearest], axis=0, return_index=True)[1])][:most]  # of repeats the best
        nearest = nearest[: max(2 * coefficients(d), int(np.count_nonzero(distances[nearest] <= SEEN * self.radius)))]
        scale = max(float(distances[nearest[-1]]), self.radius) * self._sides
        points, values = (x[nearest] - x[best]) / scale, y[nearest]
        unit = float(values.std()) or 1.0
        z = (values - values.mean()) / unit
        straight = Turned(points, z, np.eye(d))
        turned = Turned(points, z, _even_axes(straight.curvature, points))
        likelier = turned if turned.density > straight.density else straight
        return LocalModel(likelier, x[best], scale, float(z[0]), unit)

    def after_restore(self) -> None:
        """Forget the model, which follows from the observations."""
        self._model = None


def _even_axes(curvature: Floats, points: Floats) -> Floats:
    """Return axes (d, d) in whose coordinates a curvature (d, d) is the same, but for its sign, in all directions.

    Directions with little of it, relative to the most, are taken to have the least share of it. The coordinates of the
    points (m, d) are as large as before, on average.
    """
    strengths, directions = np.linalg.eigh(curvature)
    strengths = np.abs(strengths)
    axes = np.sqrt(np.maximum(strengths, FLATTEST * strengths.max()))[:, None] * directions.T
    with np.errstate(all="ignore"):
        axes = axes * np.sqrt((points**2).sum() / ((points @ axes.T) ** 2).sum())
    return axes if np.isfinite(axes).all() and axes.any() else np.eye(len(axes))


def _kernel_of(logs: Floats) -> Kernel:
    """Return the kernel of a logarithm of each of its hyperparameters."""
    process, lengthscale, linear, quadratic = np.exp(logs).tolist()
    return process * RBF(lengthscale) + linear * Linear(1.0) + quadratic * (Linear(1.0) * Linear(1.0))


def _search_space(d: int) -> tuple[list[Floats], Floats, Floats]:
    """Return the logarithms (4,) with which the search for the hyperparameters begins, and their bounds, two (4,)."""
    start = np.array([0.0, 0.5 * math.log(d), 0.0, 0.0])
    smooth, (low, high) = start.copy(), np.log(VARIANCE_RANGE)
    smooth[0] = math.log(QUADRATIC)
    least, most = np.full(4, low), np.full(4, high)
    least[1], most[1] = start[1] + math.log(1e4) * np.array([-1.0, 1.0])
    return [smooth, start], least, most


def _least(y: Floats) -> float:
    """Return the least gain that is worth a step."""
    return LEAST * float(y.max() - np.quantile(y, 0.25))
