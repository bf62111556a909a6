"""The engine of worlds that drift: k * TemporalDecay(epsilon) on a finite space, by a Kalman filter.

On n candidates the process is a first-order autoregression (Bogunovic et al. 2016, section 2), so that the posterior
of the present function follows an exact recursion, O(n^2) an observation whatever the horizon, in bounded memory.
With K the prior covariance of one round, m the prior mean and P_t the posterior covariance of the function of round t,

    in time       mu - m times sqrt(1 - epsilon),  P_{t+1} = (1 - epsilon) P_t + epsilon K
    observation   c = P(., p), v = noise + P(p, p):  mu += c (y - mu(p)) / v,  P -= c c' / v

It is kept as

    gained Q, scale s   P = K - s Q: a step in time is s times (1 - epsilon), and touches no matrix
    weights W, alpha    over the distinct points ever observed, P = K - s K(., seen) W K(seen, .) and
                        mu - m = K(., seen) alpha: the posterior anywhere, and of candidates that join later

Errors of rounding are forgotten with the data. Several observations of one round, and rounds without any, are exact:
what moves the time is `advance` alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors import _numba_autoregression as numba_autoregression
from scalable_bandits.posteriors.engine import ForgettingEngine
from scalable_bandits.posteriors.state import State, arrays

SMALLEST = 1e-30  # scale below which it is multiplied into the matrices


class AutoregressiveEngine(ForgettingEngine):
    """Exact posterior of the present function of a first-order autoregression: O(n^2) memory.

    See `Engine` for the parameters and the interface.
    """

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats):
        super().__init__(kernel, points, prior_mean)
        self._keep = 1.0 - kernel.epsilon
        self._prior_mean = prior_mean.copy()
        self._prior = np.empty((self.size, self.size))
        kernel.fill(points, points, self._prior)
        self._gained = np.zeros((self.size, self.size))
        self._scale = 1.0
        self._deviation = np.zeros(self.size)
        self._slots = np.full(self.size, -1, dtype=np.int64)
        self._seen = np.zeros(16, dtype=np.int64)
        self._count = 0
        self._weights, self._alpha = np.zeros((16, 16)), np.zeros(16)
        self._column, self._move = np.empty(self.size), np.empty(16)

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        slot = self._slots[candidate]
        if slot < 0:
            slot = self._admit(candidate)
        before = numba_autoregression.observe(
            self._prior, self._gained, self._scale, self._weights, self._alpha, self._seen, self._count, slot,
            candidate, y, noise_variance, self._prior_mean, self._mean, self._deviation, self._column, self._move,
        )  # fmt: skip
        self.floored += numba_autoregression.refresh(self._prior, self._gained, self._scale, self._variance)
        self._gain(before, noise_variance)

    def _admit(self, candidate: int) -> int:
        """Give a point observed for the first time its slot."""
        slot = self._count
        if slot == len(self._seen):
            room = (0, slot)
            self._seen, self._alpha = np.pad(self._seen, room), np.pad(self._alpha, room)
            self._weights, self._move = np.pad(self._weights, (room, room)), np.empty(2 * slot)
        self._slots[candidate], self._seen[slot] = slot, candidate
        self._count += 1
        return slot

    def advance(self, rounds: int = 1) -> None:
        self._scale *= self._keep**rounds
        root = self._keep ** (0.5 * rounds)
        numba_autoregression.fade(self._alpha, self._count, self._deviation, self._prior_mean, self._mean, root)
        if self._scale < SMALLEST:
            self._gained *= self._scale
            self._weights *= self._scale
            self._scale = 1.0
        self.floored += numba_autoregression.refresh(self._prior, self._gained, self._scale, self._variance)

    def mean(self) -> Floats:
        return self._mean

    def variance(self) -> Floats:
        return self._variance

    @property
    def observed(self) -> NDArray[np.bool_]:
        return self._slots >= 0

    def columns(self, candidates: NDArray[np.int64]) -> Floats:
        return self._prior[candidates] - self._scale * self._gained[candidates]

    def draw(self, rng: np.random.Generator) -> Floats:
        """Exact joint draw of the present f minus its posterior mean at all candidates, (n,); O(n^3)."""
        lower, pivots, rank, _ = dpstrf(self._prior - self._scale * self._gained, lower=1)
        draw = np.zeros(self.size)
        draw[pivots - 1] = np.tril(lower[:, :rank]) @ rng.standard_normal(rank)
        return draw

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        weights, alpha = self._weights[: self._count, : self._count], self._alpha[: self._count]
        variance = self.kernel.diagonal(x)
        if not self._count:
            return np.zeros(len(x)), variance
        cross = self.kernel.block(self.points[self._seen[: self._count]], x)
        reduction = self._scale * np.einsum("ij,ij->j", cross, weights @ cross)
        return cross.T @ alpha, np.maximum(variance - reduction, 0.0)

    def extended(self, points: Floats, prior_mean: Floats) -> AutoregressiveEngine:
        grown = AutoregressiveEngine(self.kernel, points, prior_mean)
        grown._restore_weights(self._seen[: self._count], self._weights, self._alpha, self._scale)
        rows = grown._prior[grown._seen[: self._count]]
        grown._gained[...] = rows.T @ (self._weights[: self._count, : self._count] @ rows)
        grown._deviation[:] = rows.T @ self._alpha[: self._count]
        grown._information_gain, grown.floored = self._information_gain, self.floored
        grown.advance(0)
        return grown

    def _restore_weights(self, seen: NDArray[np.int64], weights: Floats, alpha: Floats, scale: float) -> None:
        for candidate in seen.tolist():
            self._admit(candidate)
        self._weights[: len(weights), : len(weights)] = weights
        self._alpha[: len(alpha)], self._scale = alpha, scale

    def state(self) -> State:
        count = self._count
        held = arrays(
            gained=self._gained, scale=self._scale, deviation=self._deviation, seen=self._seen[:count],
            weights=self._weights[:count, :count], alpha=self._alpha[:count],
        )  # fmt: skip
        return {**super().state(), **held}

    def restore(self, state: State) -> None:
        self._restore_weights(state["seen"], state["weights"], state["alpha"], float(state["scale"]))
        self._gained[...], self._deviation[:] = state["gained"], state["deviation"]
        self._mean = self._prior_mean + self._deviation
        numba_autoregression.refresh(self._prior, self._gained, self._scale, self._variance)
        super().restore(state)
