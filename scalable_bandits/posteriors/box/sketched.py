"""The sketched engine of queried points, for boxes and for grids that are not enumerated.

The posterior is a function of x, as that of `BoxEngine`, given a sketch (`sketch.py`) and the observations since, which
count exactly. A sketch is drawn where the points observed since the last one outnumber its dictionary: a round costs
O(m^2) for a dictionary of m points, however many were observed.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.box.queried import QueriedEngine
from scalable_bandits.posteriors.box.surface import PriorMean, Surface
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.regression import covariances, positive_factor
from scalable_bandits.posteriors.sketched.sketch import compressed, drawn, independent
from scalable_bandits.posteriors.state import State, StateEntry, arrays, group, member, number
from scalable_bandits.posteriors.tiled.ordering import spatial_order
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Indices

LEAST = 32  # number of points observed since a sketch before another is drawn


class Sketch(NamedTuple):
    """Settings of a sketched engine."""

    oversampling: float  # qbar
    seed: int  # of the random dictionaries


class QueriedSketch(QueriedEngine):
    """Approximate posterior of a whole box or a large grid.

    Parameters
    ----------
    kernel
        Prior covariance.
    dimension
        Dimension d of the points.
    prior_mean
        Prior mean with its gradient, in units of y.
    oversampling
        Factor qbar; a larger one is nearer to the exact posterior and slower, an infinite one keeps all points.
    seed
        Seed of the random dictionaries.
    """

    exact: ClassVar[bool] = False

    def __init__(self, kernel: Kernel, dimension: int, prior_mean: PriorMean, oversampling: float, seed: int):
        super().__init__(kernel, np.empty((0, dimension)), np.empty(0))
        self._prior_mean, self._oversampling, self._seed = prior_mean, oversampling, seed
        self._every, self._recent = CollapsedObservations(), CollapsedObservations()  # since the last sketch
        self.sketches = 0
        self._dictionary, self._turned, self._shift = np.empty((0, dimension)), np.empty((0, 0)), np.empty(0)
        self._surface: Surface | None = None

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        self._add(candidate, y, noise_variance, float(self.at(np.array([candidate]))[1][0]))

    def _add(self, candidate: int, y: float, noise_variance: float, variance: float) -> None:
        """Add an observation of a candidate with a variance before it, and draw a sketch if one is due."""
        self._every.add(candidate, y, noise_variance)
        self._recent.add(candidate, y, noise_variance)
        self._add_gain(variance, noise_variance)
        self._surface = None
        if len(self._recent) > max(LEAST, len(self._dictionary)):
            self._sketch()

    def observe_all(self, candidates: Indices, ys: Floats, noise_variances: Floats) -> None:
        """Condition as `observe` does one by one, with a factor for all that come until the next sketch."""
        first = 0
        while first < len(candidates):
            room = max(LEAST, len(self._dictionary)) + 1 - len(self._recent)
            some = slice(first, first + room)
            new, noise = candidates[some], noise_variances[some]
            if len(np.unique(new)) < len(new) or np.isin(new, self._recent.collapsed()[0]).any():
                return super().observe_all(candidates[first:], ys[first:], noise_variances[first:])
            x = self.points[new]
            before = np.maximum(positive_factor(self.covariance(x, x), noise).diagonal() ** 2 - noise, 0.0)
            for each in zip(*(held.tolist() for held in (new, ys[some], noise, before)), strict=True):
                self._add(*each)
            first += room

    def _sketch(self) -> None:
        numbers, averages, noise = self._every.collapsed()
        x = self.points[numbers]
        order = spatial_order(x, 64)
        _, variance = self.surface().predict(x)
        start = generator(self._seed, "sketch", self.sketches).random()
        leverage, prior = variance[order] / noise[order], self.kernel.diagonal(x[order])
        chosen = x[order[drawn(leverage, prior, self._oversampling, start)]]
        kept, coordinates = independent(self.kernel, chosen)
        self._dictionary = chosen[kept]
        cross = covariances(self.kernel, x, self._dictionary)
        self._turned, self._shift = compressed(coordinates, cross, averages - self._prior_mean.values(x), noise)
        self.sketches += 1
        self._recent, self._surface = CollapsedObservations(), None

    def surface(
        self, pending: Floats | None = None, noise_variances: float | Floats = 0.0, values: Floats | None = None
    ) -> Surface:
        if self._surface is not None and (pending is None or not len(pending)):
            return self._surface
        numbers, averages, noise = self._recent.collapsed()
        x = self.points[numbers]
        residuals = averages - self._prior_mean.values(x)
        if self._surface is None:
            self._surface = self._given(x, noise, residuals)
        if pending is None or not len(pending):
            return self._surface
        surface, prior = self._surface, self._prior_mean.values(pending)
        x = np.concatenate([x, pending])
        noise = np.append(noise, np.broadcast_to(noise_variances, len(pending)))
        if values is not None:
            residuals = np.append(residuals, values - prior[: len(values)])
            surface = self._given(x[: len(residuals)], noise[: len(residuals)], residuals)
        others = len(x) - len(residuals)
        means = surface.predict(x[len(x) - others :])[0] - prior[len(prior) - others :]
        return self._given(x, noise, np.append(residuals, means))

    def _given(self, x: Floats, noise_variances: Floats, residuals: Floats) -> Surface:
        """Return the posterior given the sketch and observations at points x (k, d)."""
        m, k = len(self._dictionary), len(x)
        every, cross = np.concatenate([self._dictionary, x]), covariances(self.kernel, self._dictionary, x)
        rows = solve_triangular(self._turned, cross, lower=True) if m and k else cross
        factor, shift = np.zeros((m + k, m + k)), np.append(self._shift, residuals - rows.T @ self._shift)
        factor[:m, :m], factor[m:, :m] = self._turned, rows.T
        if k:
            factor[m:, m:] = positive_factor(covariances(self.kernel, x, x) - rows.T @ rows, noise_variances)
            shift[m:] = solve_triangular(factor[m:, m:], shift[m:], lower=True)
        weights = solve_triangular(factor, shift, lower=True, trans="T") if m + k else shift
        return Surface(self.kernel, every, factor, weights, self._prior_mean)

    @property
    def dictionary(self) -> Floats:
        """Points (m, d) of the last sketch."""
        return self._dictionary

    def covariance(self, x: Floats, other: Floats) -> Floats:
        return self.surface().covariance(x, other)

    # ---- state

    def _sketch_state(self) -> State:
        return arrays(dictionary=self._dictionary, turned=self._turned, shift=self._shift)

    def _restore_sketch(self, state: State) -> None:
        self._dictionary, self._turned, self._shift = (np.array(state[n]) for n in ("dictionary", "turned", "shift"))
        self._surface = None

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        number("sketches", int),
        group("sketch", _sketch_state, _restore_sketch),
        member("_every"),
        member("_recent"),
    )
