"""The engine of worlds that drift: k * TemporalDecay(epsilon) on a finite space, by a Kalman filter.

On n candidates the process is a first-order autoregression (Bogunovic et al. 2016, section 2), so that the posterior
of the present function follows an exact recursion, O(n^2) an observation whatever the horizon, in bounded memory.
With K the prior covariance of one round, m the prior mean and P_t the posterior covariance of the function of round t,

    in time       mu - m times sqrt(1 - epsilon),  P_{t+1} = (1 - epsilon) P_t + epsilon K
    observation   c = P(., p), v = noise + P(p, p):  mu += c (y - mu(p)) / v,  P -= c c' / v

It is kept as P = K - s Q: a step in time is s times (1 - epsilon), and touches no matrix.

At any other point x the function of a round is f(x) = b'f(S) + g(x) with b = K(S, S)^-1 K(S, x), S the points ever
observed, and g is independent of f at S in all rounds, so that no observation says anything of it:

    mu(x) - m(x) = b'(mu - m)(S),  s^2(x) = k(x, x) - K(x, S) b + b'P(S, S) b,  Q(x, .) = b'Q(S, .)

Errors of rounding are forgotten with the data. Several observations of one round, and rounds without any, are exact:
what moves the time is `advance` alone.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpstrf

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import ForgettingEngine
from scalable_bandits.posteriors.forgetting import _numba_kalman as numba_autoregression
from scalable_bandits.posteriors.regression import covariances
from scalable_bandits.posteriors.state import State, arrays
from scalable_bandits.spaces import Indices

NOTHING = np.empty((0, 0)), np.empty(0, dtype=np.int64), 0, 0  # the factor of no points
SMALLEST = 1e-30  # scale below which it is multiplied into the matrix


class KalmanEngine(ForgettingEngine):
    """Exact posterior of the present function of a first-order autoregression: O(n^2) memory.

    See `Engine` for the parameters and the interface.
    """

    limit: ClassVar[int] = 10_000  # 1.6 GB of prior and gained covariance

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats):
        super().__init__(kernel, points, prior_mean)
        self._keep = 1.0 - kernel.epsilon
        self._prior_mean = prior_mean.copy()
        self._prior = np.empty((self.size, self.size))
        kernel.fill(points, points, self._prior)
        self._gained = np.zeros((self.size, self.size))
        self._scale = 1.0
        self._deviation = np.zeros(self.size)
        self._seen = np.zeros(self.size, dtype=np.bool_)
        self._span: tuple[Indices, Floats] | None = None  # of the points observed, and the factor of their K
        self._column = np.empty(self.size)

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        if not self._seen[candidate]:
            self._seen[candidate], self._span = True, None
        before = numba_autoregression.observe(
            self._prior, self._gained, self._scale, candidate, y, noise_variance, self._prior_mean, self._mean,
            self._deviation, self._column,
        )  # fmt: skip
        self.floored += numba_autoregression.refresh(self._prior, self._gained, self._scale, self._variance)
        self._gain(before, noise_variance)

    def advance(self, rounds: int = 1) -> None:
        self._scale *= self._keep**rounds
        root = self._keep ** (0.5 * rounds)
        numba_autoregression.fade(self._deviation, self._prior_mean, self._mean, root)
        if self._scale < SMALLEST:
            self._gained *= self._scale
            self._scale = 1.0
        self.floored += numba_autoregression.refresh(self._prior, self._gained, self._scale, self._variance)

    def mean(self) -> Floats:
        return self._mean

    def variance(self) -> Floats:
        return self._variance

    @property
    def observed(self) -> NDArray[np.bool_]:
        return self._seen.copy()

    def columns(self, candidates: NDArray[np.int64]) -> Floats:
        return self._prior[candidates] - self._scale * self._gained[candidates]

    def draw(self, rng: np.random.Generator) -> Floats:
        """Exact joint draw of the present f minus its posterior mean at all candidates, (n,); O(n^3)."""
        lower, pivots, rank, _ = dpstrf(self._prior - self._scale * self._gained, lower=1)
        draw = np.zeros(self.size)
        draw[pivots - 1] = np.tril(lower[:, :rank]) @ rng.standard_normal(rank)
        return draw

    def _interpolation(self, x: Floats) -> tuple[Indices, Floats, Floats]:
        """Points S (r,), of those observed as many as rounding can tell apart; b (r, k) of points x; and K(S, x)."""
        if self._span is None:
            seen = np.flatnonzero(self._seen & (self._prior.diagonal() > 0.0))
            lower, pivots, rank, _ = dpstrf(self._prior[np.ix_(seen, seen)], lower=1) if len(seen) else NOTHING
            self._span = seen[pivots[:rank] - 1], np.tril(lower[:rank, :rank])
        points, factor = self._span
        cross = covariances(self.kernel, self.points[points], np.ascontiguousarray(x))
        return points, cho_solve((factor, True), cross) if len(points) else cross, cross

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        points, weights, cross = self._interpolation(x)
        present = self.columns(points)[:, points]
        beside = np.maximum(self.kernel.diagonal(x) - np.einsum("ij,ij->j", cross, weights), 0.0)
        along = np.maximum(np.einsum("ij,ij->j", weights, present @ weights), 0.0)
        return self._deviation[points] @ weights, beside + along

    def extended(self, points: Floats, prior_mean: Floats) -> KalmanEngine:
        grown, n = KalmanEngine(self.kernel, points, prior_mean), self.size
        grown._scale, grown._seen[:n] = self._scale, self._seen
        grown._gained[:n, :n], grown._deviation[:n] = self._gained, self._deviation
        at, weights, _ = self._interpolation(points[n:])
        rows = weights.T @ self._gained[at]
        grown._gained[n:, :n], grown._gained[:n, n:] = rows, rows.T
        grown._gained[n:, n:] = rows[:, at] @ weights
        grown._deviation[n:] = self._deviation[at] @ weights
        grown._information_gain, grown.floored = self._information_gain, self.floored
        grown.advance(0)
        return grown

    def state(self) -> State:
        held = arrays(
            gained=self._gained, scale=self._scale, deviation=self._deviation, seen=np.flatnonzero(self._seen)
        )
        return {**super().state(), **held}

    def restore(self, state: State) -> None:
        self._scale, self._span = float(state["scale"]), None
        self._seen[:] = False
        self._seen[state["seen"]] = True
        self._gained[...], self._deviation[:] = state["gained"], state["deviation"]
        self._mean = self._prior_mean + self._deviation
        numba_autoregression.refresh(self._prior, self._gained, self._scale, self._variance)
        super().restore(state)
