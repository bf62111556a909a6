"""The engine in which observations fade: one of age a counts with weight eta^a, as if its noise were eta^-a larger.

An arm's observations are one: their summed precisions q, and precision-weighted residuals b. With Q = diag(q),

    B = I + Q^(1/2) K Q^(1/2) = L L',  V = L^-1 Q^(1/2) K:  mu = m + V' L^-1 Q^(-1/2) b,  s^2 = k(x, x) - sum of V^2

Every weight changes in every round, so that no update of low rank will do: the posterior is fitted anew when it is
asked for, O(m^2 n) for the m arms whose weights still show. Weights are kept relative to the newest observation, which
has weight 1: they shrink, and are forgotten below what double precision shows; nothing grows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import ForgettingEngine
from scalable_bandits.posteriors.regression import positive_factor
from scalable_bandits.posteriors.state import State, arrays
from scalable_bandits.spaces import Indices

NEGLIGIBLE = 1e-20  # precision times prior variance below which an arm's observations are forgotten


class WeightedEngine(ForgettingEngine):
    """Exact posterior of weighted observations.

    Rounds age the observations when the next one comes: the posterior is that of the last observation's round.

    Parameters
    ----------
    eta
        Weight that is left after one round, between 0 and 1.

    See `Engine` for the other parameters and the interface.
    """

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats, eta: float):
        super().__init__(kernel, points, prior_mean)
        self.eta = eta
        self._prior_mean, self._prior_variance = prior_mean.copy(), self._variance.copy()
        self._precision, self._weighted = np.zeros(self.size), np.zeros(self.size)
        self._age = 0
        self._fitted = True
        self._arms: Indices = np.zeros(0, dtype=np.int64)
        self._lower: Floats = np.zeros((0, 0))
        self._rows: Floats = np.zeros((0, self.size))
        self._solved: Floats = np.zeros(0)

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        if self._age:
            fade = self.eta**self._age
            self._precision *= fade
            self._weighted *= fade
            gone = self._precision * self._prior_variance < NEGLIGIBLE
            self._precision[gone] = self._weighted[gone] = 0.0
            self._age = 0
        self._precision[candidate] += 1.0 / noise_variance
        self._weighted[candidate] += (y - self._prior_mean[candidate]) / noise_variance
        self._fitted = False

    def advance(self, rounds: int = 1) -> None:
        self._age += rounds

    def _fit(self) -> None:
        """Bring the posterior up to date."""
        if self._fitted:
            return
        arms = self._arms = np.flatnonzero(self._precision)
        root = np.sqrt(self._precision[arms])
        cross = self.kernel.block(self.points[arms], self.points)
        cross *= root[:, None]
        self._lower, _ = positive_factor(cross[:, arms] * root, np.ones(len(arms)))
        self._rows = solve_triangular(self._lower, cross, lower=True)
        self._solved = solve_triangular(self._lower, self._weighted[arms] / root, lower=True)
        self._mean = self._prior_mean + self._solved @ self._rows
        self._variance = self._prior_variance - np.einsum("ij,ij->j", self._rows, self._rows)
        self.floored += int((self._variance < 0.0).sum())
        np.maximum(self._variance, 0.0, out=self._variance)
        self._information_gain = float(np.log(self._lower.diagonal()).sum())
        self._fitted = True

    @property
    def information_gain(self) -> float:
        self._fit()
        return self._information_gain

    def mean(self) -> Floats:
        self._fit()
        return self._mean

    def variance(self) -> Floats:
        self._fit()
        return self._variance

    @property
    def observed(self) -> NDArray[np.bool_]:
        return self._precision > 0.0

    def columns(self, candidates: NDArray[np.int64]) -> Floats:
        self._fit()
        return self.kernel.block(self.points[candidates], self.points) - self._rows[:, candidates].T @ self._rows

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        self._fit()
        cross = self.kernel.block(self.points[self._arms], x) if len(self._arms) else np.empty((0, len(x)))
        cross *= np.sqrt(self._precision[self._arms])[:, None]
        rows = solve_triangular(self._lower, cross, lower=True) if len(self._arms) else cross
        variance = self.kernel.diagonal(x) - np.einsum("ij,ij->j", rows, rows)
        return self._solved @ rows, np.maximum(variance, 0.0)

    def extended(self, points: Floats, prior_mean: Floats) -> WeightedEngine:
        grown = WeightedEngine(self.kernel, points, prior_mean, self.eta)
        grown._precision[: self.size], grown._weighted[: self.size] = self._precision, self._weighted
        grown._age, grown._fitted, grown.floored = self._age, False, self.floored
        return grown

    def state(self) -> State:
        self._fit()
        held = arrays(age=self._age, precision=self._precision, weighted=self._weighted)
        return {**super().state(), **held}

    def restore(self, state: State) -> None:
        self._age = int(state["age"])
        self._precision[:], self._weighted[:] = state["precision"], state["weighted"]
        self._fitted = not self._precision.any()
        self._fit()
        super().restore(state)
