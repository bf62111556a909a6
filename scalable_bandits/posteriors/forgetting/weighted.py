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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import ForgettingEngine
from scalable_bandits.posteriors.forgetting import _numba_weighted as numba_weighted
from scalable_bandits.posteriors.regression import positive_factor
from scalable_bandits.posteriors.rounds import MOST_PLAYED, Columns, Game, Rule
from scalable_bandits.posteriors.state import array, number
from scalable_bandits.spaces import Indices

LITTLE_WORK = 500_000  # m^2 n up to which the compiled function is faster than the calls of LAPACK


class WeightedFit(NamedTuple):
    """Posterior computed from the weights."""

    arms: Indices  # (m,) candidates with weight
    lower: Floats  # (m, m) L
    rows: Floats  # (m, n) V
    solved: Floats  # (m,) L^-1 Q^(-1/2) b
    gain: float  # information gain, 1/2 log det B, in nats
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
        self._prior_mean, self._prior_variance = self._mean.copy(), self._variance.copy()
        self._precision, self._weighted = np.zeros(self.size), np.zeros(self.size)
        self._age = 0  # rounds since the newest observation
        self._fit: WeightedFit | None = None  # None: to be computed
        self._gram: Floats | None = None  # (n, n) prior covariance, unless that is large
        room = min(self.size, math.isqrt(LITTLE_WORK // self.size)) if self.plays else 0
        self._lower, self._rows = np.zeros((room, room)), np.empty((room, self.size))  # arrays of the compiled function
        self._solved, self._weights = np.empty((2, room))

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        residual = y - self._prior_mean[candidate]
        numba_weighted.observe(
            self._precision, self._weighted, self._prior_variance, self.eta**self._age, candidate, residual,
            noise_variance,
        )  # fmt: skip
        self._age, self._fit = 0, None

    def advance(self, rounds: int = 1) -> None:
        self._age += rounds

    @property
    def plays(self) -> bool:  # type: ignore[override]
        """Whether the kernel matrix is small enough to be in memory."""
        return self.size <= MOST_PLAYED

    def play(self, rule: Rule, game: Game, columns: Columns) -> None:
        done, age_fade = 0, self.eta**self._age
        while done < len(game.noise):
            fitted = self._fit is not None or np.count_nonzero(self._precision) > len(self._rows)
            gain = self._fitted().gain if fitted else 0.0
            before = done
            done = numba_weighted.play(rule, game, columns, before, fitted, gain, age_fade, self.eta, *self._arrays())
            if done > before:
                self._fit, self._age, age_fade = None, 1, self.eta

    def _arrays(self) -> Any:
        """Return the arrays that the compiled functions take."""
        if self._gram is None:
            self._gram = np.empty((self.size, self.size))
            self.kernel.fill(self.points, self.points, self._gram)
        return (
            self._gram, self._prior_mean, self._prior_variance, self._precision, self._weighted, self._lower,
            self._rows, self._solved, self._weights, self._mean, self._variance,
        )  # fmt: skip

    def _fitted(self) -> WeightedFit:
        """Return the posterior, computed anew after an observation; means and variances are in arrays of their own."""
        if self._fit is None:
            arms = np.flatnonzero(self._precision)
            self._fit = self._fit_at_once(arms) if len(arms) > len(self._rows) else self._fit_by_rows(arms)
        return self._fit

    def _fit_by_rows(self, arms: Indices) -> WeightedFit:
        """Compute the posterior by the compiled function, which has room for so many arms."""
        gain, floored = numba_weighted.fit(*self._arrays())
        m = len(arms)
        return WeightedFit(arms, self._lower[:m, :m], self._rows[:m], self._solved[:m], gain, floored)

    def _fit_at_once(self, arms: Indices) -> WeightedFit:
        """Compute the posterior by LAPACK."""
        root = np.sqrt(self._precision[arms])
        cross = self._arrays()[0][arms] if self.plays else self.kernel.block(self.points[arms], self.points)
        cross *= root[:, None]
        lower, _ = positive_factor(cross[:, arms] * root, np.ones(len(arms)))
        rows = solve_triangular(lower, cross, lower=True, check_finite=False)
        solved = solve_triangular(lower, self._weighted[arms] / root, lower=True, check_finite=False)
        np.add(self._prior_mean, solved @ rows, out=self._mean)
        np.subtract(self._prior_variance, np.einsum("ij,ij->j", rows, rows), out=self._variance)
        floored = int((self._variance < 0.0).sum())
        np.maximum(self._variance, 0.0, out=self._variance)
        return WeightedFit(arms, lower, rows, solved, float(np.log(lower.diagonal()).sum()), floored)

    @property
    def information_gain(self) -> float:
        """Information gain of the weighted observations, 1/2 log det B, in nats."""
        return self._fitted().gain

    @property
    def floored(self) -> int:
        """Number of variances of the present posterior that were set to zero because rounding made them negative."""
        return self._fitted().floored

    def mean(self) -> Floats:
        self._fitted()
        return self._mean

    def variance(self) -> Floats:
        self._fitted()
        return self._variance

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
