"""Engine in which observations fade: one of age a has weight eta^a, as if its noise variance were eta^-a times larger.

The observations of an arm are collapsed to a summed precision q and a precision-weighted residual b. With Q = diag(q),

    B = I + Q^(1/2) K Q^(1/2) = L L',  V = L^-1 Q^(1/2) K:  mu = m + V' L^-1 Q^(-1/2) b,  s^2 = k(x, x) - sum of V^2

All weights change in every round, so that no update of low rank is exact. The posterior is computed from scratch when
it is needed after an observation, O(m^2 n) for m arms with weight: row by row in a compiled function where that is
little work, by LAPACK elsewhere. Weights are relative to the newest observation, whose weight is 1: they only shrink,
and are set to zero when they are too small to matter in double precision.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import ForgettingEngine
from scalable_bandits.posteriors.forgetting import _numba_weighted as numba_weighted
from scalable_bandits.posteriors.forgetting._numba_weighted import WeightedArrays
from scalable_bandits.posteriors.regression import positive_factor
from scalable_bandits.posteriors.rounds import Columns, Game, Rule
from scalable_bandits.posteriors.state import array, number
from scalable_bandits.spaces import Indices, Mask

LITTLE_WORK = 500_000  # m^2 n up to which the compiled function is faster than the calls of LAPACK


class WeightedFit(NamedTuple):
    """Posterior computed from the weights."""

    arms: Indices  # (m,) candidates with weight
    lower: Floats  # (m, m) L
    rows: Floats  # (m, n) V
    solved: Floats  # (m,) L^-1 Q^(-1/2) b
    gain: float  # information gain, 1/2 log det B, in nats


class WeightedEngine(ForgettingEngine):
    """Exact posterior of weighted observations.

    Passing rounds age the observations when the next one comes: the posterior is that of the last observation's round.

    Parameters
    ----------
    eta
        Factor of the weights in each round, between 0 and 1.

    See `Engine` for the other parameters and the interface.
    """

    STATE = (number("_age", int), array("arrays.precision", "(n,)"), array("arrays.weighted", "(n,)"))

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats, eta: float):
        super().__init__(kernel, points, prior_mean)
        self.eta, n = eta, self.size
        self._age = 0  # rounds since the newest observation
        self._fit: WeightedFit | None = None  # None: to be computed
        room = min(n, math.isqrt(LITTLE_WORK // n)) if self.plays else 0
        self.arrays = WeightedArrays(
            self._mean.copy(), self._variance.copy(), np.zeros(n), np.zeros(n), self._mean, self._variance,
            np.zeros((room, room)), np.empty((room, n)), np.empty(room), np.empty(room),
        )  # fmt: skip

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        numba_weighted.observe(self.arrays, self.eta**self._age, candidate, y, noise_variance)
        self._age, self._fit = 0, None

    def advance(self, rounds: int = 1) -> None:
        self._age += rounds

    def play(self, rule: Rule, game: Game, columns: Columns) -> None:
        done = 0
        while done < len(game.noise):
            fitted = self._fit is not None or np.count_nonzero(self.observed) > len(self.arrays.rows)
            gain, before, fade = self._fitted().gain if fitted else math.nan, done, self.eta**self._age
            done = numba_weighted.play(self.arrays, self.gram, rule, game, columns, before, gain, fade, self.eta)
            if done > before:
                self._fit, self._age = None, 1

    def _fitted(self) -> WeightedFit:
        """Return the posterior, computed anew after an observation; means and variances are in arrays of their own."""
        if self._fit is None:
            arms = np.flatnonzero(self.arrays.precision)
            self._fit = self._fit_at_once(arms) if len(arms) > len(self.arrays.rows) else self._fit_by_rows(arms)
        return self._fit

    def _fit_by_rows(self, arms: Indices) -> WeightedFit:
        """Compute the posterior by the compiled function, which has room for so many arms."""
        gain = numba_weighted.fit(self.arrays, self.gram)
        m, arrays = len(arms), self.arrays
        return WeightedFit(arms, arrays.lower[:m, :m], arrays.rows[:m], arrays.solved[:m], gain)

    def _fit_at_once(self, arms: Indices) -> WeightedFit:
        """Compute the posterior by LAPACK."""
        arrays, root = self.arrays, np.sqrt(self.arrays.precision[arms])
        cross = self.gram[arms] if self.plays else self.kernel.block(self.points[arms], self.points)
        cross *= root[:, None]
        lower = positive_factor(cross[:, arms] * root, np.ones(len(arms)))
        rows = solve_triangular(lower, cross, lower=True, check_finite=False)
        solved = solve_triangular(lower, arrays.weighted[arms] / root, lower=True, check_finite=False)
        np.add(arrays.prior_mean, solved @ rows, out=arrays.mean)
        np.subtract(arrays.prior_variance, np.einsum("ij,ij->j", rows, rows), out=arrays.variance)
        np.maximum(arrays.variance, 0.0, out=arrays.variance)
        return WeightedFit(arms, lower, rows, solved, float(np.log(lower.diagonal()).sum()))

    @property
    def information_gain(self) -> float:
        """Information gain of the weighted observations, 1/2 log det B, in nats."""
        return self._fitted().gain

    def mean(self) -> Floats:
        self._fitted()
        return self._mean

    def variance(self) -> Floats:
        self._fitted()
        return self._variance

    @property
    def observed(self) -> Mask:
        return self.arrays.precision > 0.0

    def columns(self, candidates: Indices) -> Floats:
        rows = self._fitted().rows
        return self.kernel.block(self.points[candidates], self.points) - rows[:, candidates].T @ rows

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        fit, variance = self._fitted(), self.kernel.diagonal(x)
        if not len(fit.arms):
            return np.zeros(len(x)), variance
        cross = self.kernel.block(self.points[fit.arms], x)
        cross *= np.sqrt(self.arrays.precision[fit.arms])[:, None]
        rows = solve_triangular(fit.lower, cross, lower=True)
        return fit.solved @ rows, np.maximum(variance - np.einsum("ij,ij->j", rows, rows), 0.0)

    def extended(self, points: Floats, prior_mean: Floats) -> WeightedEngine:
        engine, held = WeightedEngine(self.kernel, points, prior_mean, self.eta), self.arrays
        engine.arrays.precision[: self.size], engine.arrays.weighted[: self.size] = held.precision, held.weighted
        engine._age = self._age
        return engine

    def after_restore(self) -> None:
        self._fit = None
