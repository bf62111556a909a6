"""Engine in which observations fade: one of age a has weight eta^a, as if its noise variance were eta^-a times larger.

The observations of an arm are collapsed to a summed precision q and a precision-weighted residual b. With Q = diag(q),

    B = I + Q^(1/2) K Q^(1/2) = L L',  V = L^-1 Q^(1/2) K:  mu = m + V' L^-1 Q^(-1/2) b,  s^2 = k(x, x) - sum of V^2

All weights change in every round, so that no update of low rank is exact. The posterior is computed from scratch when
it is needed after an observation, O(m^2 n) for m arms with weight. Weights are relative to the newest observation,
whose weight is 1: they only shrink, and are set to zero when they are too small to matter in double precision.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import ForgettingEngine
from scalable_bandits.posteriors.regression import positive_factor
from scalable_bandits.posteriors.state import array, number
from scalable_bandits.spaces import Indices

NEGLIGIBLE = 1e-20  # precision times prior variance below which an arm's observations are forgotten


class Fit(NamedTuple):
    """Posterior computed from the weights."""

    arms: Indices  # (m,) candidates with weight
    lower: Floats  # (m, m) L
    rows: Floats  # (m, n) V
    solved: Floats  # (m,) L^-1 Q^(-1/2) b
    mean: Floats  # (n,) in units of y
    variance: Floats  # (n,)
    floored: int  # variances that were set to zero because rounding made them negative


class WeightedEngine(ForgettingEngine):
    """Exact posterior of weighted observations.

    Passing rounds age the observations when the next one comes: the posterior is that of the last observation's round.

    Parameters
    ----------
    eta
        Factor of the weights in each round, between 0 and 1.

    See `Engine` for the other parameters and the interface.
    """

    STATE = (number("_age", int), array("_precision", "(n,)"), array("_weighted", "(n,)"))

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats, eta: float):
        super().__init__(kernel, points, prior_mean)
        self.eta = eta
        self._prior_mean, self._prior_variance = self._mean, self._variance
        self._precision, self._weighted = np.zeros(self.size), np.zeros(self.size)
        self._age = 0  # rounds since the newest observation
        self._fit: Fit | None = None  # None: to be computed

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        if self._age:
            fade = self.eta**self._age
            self._precision *= fade
            self._weighted *= fade
            negligible = self._precision * self._prior_variance < NEGLIGIBLE
            self._precision[negligible] = self._weighted[negligible] = 0.0
            self._age = 0
        self._precision[candidate] += 1.0 / noise_variance
        self._weighted[candidate] += (y - self._prior_mean[candidate]) / noise_variance
        self._fit = None

    def advance(self, rounds: int = 1) -> None:
        self._age += rounds

    def _fitted(self) -> Fit:
        """Return the posterior, computed anew after an observation."""
        if self._fit is None:
            arms = np.flatnonzero(self._precision)
            if not len(arms):
                nothing = np.zeros((0, 0)), np.zeros((0, self.size)), np.zeros(0)
                self._fit = Fit(arms, *nothing, self._prior_mean, self._prior_variance, 0)
                return self._fit
            root = np.sqrt(self._precision[arms])
            cross = self.kernel.block(self.points[arms], self.points)
            cross *= root[:, None]
            lower, _ = positive_factor(cross[:, arms] * root, np.ones(len(arms)))
            rows = solve_triangular(lower, cross, lower=True)
            solved = solve_triangular(lower, self._weighted[arms] / root, lower=True)
            variance = self._prior_variance - np.einsum("ij,ij->j", rows, rows)
            floored = int((variance < 0.0).sum())
            np.maximum(variance, 0.0, out=variance)
            self._fit = Fit(arms, lower, rows, solved, self._prior_mean + solved @ rows, variance, floored)
        return self._fit

    @property
    def information_gain(self) -> float:
        """Information gain of the weighted observations, 1/2 log det B, in nats."""
        return float(np.log(self._fitted().lower.diagonal()).sum())

    @property
    def floored(self) -> int:
        """Number of variances of the present posterior that were set to zero because rounding made them negative."""
        return self._fitted().floored

    def mean(self) -> Floats:
        return self._fitted().mean

    def variance(self) -> Floats:
        return self._fitted().variance

    @property
    def observed(self) -> NDArray[np.bool_]:
        return self._precision > 0.0

    def columns(self, candidates: NDArray[np.int64]) -> Floats:
        rows = self._fitted().rows
        return self.kernel.block(self.points[candidates], self.points) - rows[:, candidates].T @ rows

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        fit, variance = self._fitted(), self.kernel.diagonal(x)
        if not len(fit.arms):
            return np.zeros(len(x)), variance
        cross = self.kernel.block(self.points[fit.arms], x)
        cross *= np.sqrt(self._precision[fit.arms])[:, None]
        rows = solve_triangular(fit.lower, cross, lower=True)
        return fit.solved @ rows, np.maximum(variance - np.einsum("ij,ij->j", rows, rows), 0.0)

    def extended(self, points: Floats, prior_mean: Floats) -> WeightedEngine:
        grown = WeightedEngine(self.kernel, points, prior_mean, self.eta)
        grown._precision[: self.size], grown._weighted[: self.size] = self._precision, self._weighted
        grown._age = self._age
        return grown

    def after_restore(self) -> None:
        self._fit = None
