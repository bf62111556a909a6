"""Engine for functions that drift: k * TemporalDecay(epsilon) on a finite space, by a Kalman filter.

On n candidates the process is a first-order autoregression (Bogunovic et al. 2016, section 2), so that the posterior
of the present function follows an exact recursion, O(n^2) an observation whatever the horizon, in bounded memory.
With K the prior covariance of one round, m the prior mean and P_t the posterior covariance of the function of round t,

    in time       mu - m times sqrt(1 - epsilon),  P_{t+1} = (1 - epsilon) P_t + epsilon K
    observation   c = P(., p), v = noise + P(p, p):  mu += c (y - mu(p)) / v,  P -= c c' / v

The engine stores P = K - s Q, with the number s (`scale`) and the matrix Q (`gained`): a step in time multiplies s by
(1 - epsilon) and changes no matrix.

With S all points observed so far, the function of a round at any other point x is f(x) = b'f(S) + g(x) with
b = K(S, S)^-1 K(S, x). g is independent of f at S in all rounds, so that no observation changes its distribution:

    mu(x) - m(x) = b'(mu - m)(S),  s^2(x) = k(x, x) - K(x, S) b + b'P(S, S) b,  Q(x, .) = b'Q(S, .)

Rounding errors fade with the data. Only `advance` moves the time, so that several observations in one round, and rounds
without any, are exact too.
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
from scalable_bandits.posteriors.forgetting import _numba_kalman as numba_kalman
from scalable_bandits.posteriors.regression import covariances
from scalable_bandits.posteriors.rounds import Columns, Game, Rule
from scalable_bandits.posteriors.state import array, number, value
from scalable_bandits.spaces import Indices

NO_FACTOR = np.empty((0, 0)), np.empty(0, dtype=np.int64), 0, 0  # result of `dpstrf` for no points


class KalmanEngine(ForgettingEngine):
    """Exact posterior of the present function of a first-order autoregression: O(n^2) memory.

    See `Engine` for the parameters and the interface.
    """

    limit: ClassVar[int] = 10_000  # 1.6 GB of prior and gained covariance
    draws: ClassVar[bool] = True
    plays: ClassVar[bool] = True

    STATE = (
        array("_gained", "(n, n)"),
        number("_scale", float),
        array("_deviation", "(n,)"),
        value(
            "seen", "(m,)", np.int64,
            lambda engine: np.flatnonzero(engine._observed), lambda engine, seen: engine._restore_observed(seen),
        ),
    )  # fmt: skip

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats):
        super().__init__(kernel, points, prior_mean)
        self._keep = 1.0 - kernel.epsilon
        self._prior_mean = prior_mean.copy()
        self._prior = np.empty((self.size, self.size))
        kernel.fill(points, points, self._prior)
        self._gained = np.zeros((self.size, self.size))
        self._scale = 1.0
        self._deviation = np.zeros(self.size)
        self._observed = np.zeros(self.size, dtype=np.bool_)
        self._basis: tuple[Indices, Floats] | None = None  # independent observed points, and the factor of their K
        self._column = np.empty(self.size)

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        if not self._observed[candidate]:
            self._observed[candidate], self._basis = True, None
        before = numba_kalman.observe(
            self._prior, self._gained, self._scale, candidate, y, noise_variance, self._prior_mean, self._mean,
            self._deviation, self._column,
        )  # fmt: skip
        self._floored += numba_kalman.refresh(self._prior, self._gained, self._scale, self._variance)
        self._gain(before, noise_variance)

    def advance(self, rounds: int = 1) -> None:
        self._scale, floored = numba_kalman.advance(
            self._prior, self._gained, self._scale, self._prior_mean, self._mean, self._deviation, self._variance,
            self._keep**rounds, self._keep ** (0.5 * rounds),
        )  # fmt: skip
        self._floored += floored

    def play(self, rule: Rule, game: Game, columns: Columns) -> None:
        before = self._observed.copy()
        self._scale, self._information_gain, self._floored = numba_kalman.play(
            self._prior, self._gained, self._scale, self._information_gain, self._floored, self._prior_mean, self._mean,
            self._deviation, self._variance, self._observed, self._column, self._keep, self._keep**0.5, rule, game,
            columns,
        )  # fmt: skip
        if (self._observed != before).any():
            self._basis = None

    def mean(self) -> Floats:
        return self._mean

    def variance(self) -> Floats:
        return self._variance

    @property
    def observed(self) -> NDArray[np.bool_]:
        return self._observed.copy()

    def columns(self, candidates: NDArray[np.int64]) -> Floats:
        return self._prior[candidates] - self._scale * self._gained[candidates]

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw the present f minus its posterior mean at all candidates jointly and exactly, (n,); O(n^3)."""
        lower, pivots, rank, _ = dpstrf(self._prior - self._scale * self._gained, lower=1)
        draw = np.zeros(self.size)
        draw[pivots - 1] = np.tril(lower[:, :rank]) @ rng.standard_normal(rank)
        return draw

    def _interpolation(self, x: Floats) -> tuple[Indices, Floats, Floats]:
        """Return S (r,), numerically independent points among those observed; b (r, k) of points x; and K(S, x)."""
        if self._basis is None:
            seen = np.flatnonzero(self._observed & (self._prior.diagonal() > 0.0))
            lower, pivots, rank, _ = dpstrf(self._prior[np.ix_(seen, seen)], lower=1) if len(seen) else NO_FACTOR
            self._basis = seen[pivots[:rank] - 1], np.tril(lower[:rank, :rank])
        points, factor = self._basis
        cross = covariances(self.kernel, self.points[points], np.ascontiguousarray(x))
        return points, cho_solve((factor, True), cross) if len(points) else cross, cross

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        points, weights, cross = self._interpolation(x)
        present = self.columns(points)[:, points]
        unexplained = np.maximum(self.kernel.diagonal(x) - np.einsum("ij,ij->j", cross, weights), 0.0)
        explained = np.maximum(np.einsum("ij,ij->j", weights, present @ weights), 0.0)
        return self._deviation[points] @ weights, unexplained + explained

    def extended(self, points: Floats, prior_mean: Floats) -> KalmanEngine:
        grown, n = KalmanEngine(self.kernel, points, prior_mean), self.size
        grown._scale, grown._observed[:n] = self._scale, self._observed
        grown._gained[:n, :n], grown._deviation[:n] = self._gained, self._deviation
        at, weights, _ = self._interpolation(points[n:])
        rows = weights.T @ self._gained[at]
        grown._gained[n:, :n], grown._gained[:n, n:] = rows, rows.T
        grown._gained[n:, n:] = rows[:, at] @ weights
        grown._deviation[n:] = self._deviation[at] @ weights
        grown._information_gain, grown._floored = self._information_gain, self._floored
        grown.advance(0)
        return grown

    def _restore_observed(self, numbers: Indices) -> None:
        self._observed[:] = False
        self._observed[numbers] = True

    def after_restore(self) -> None:
        self._basis = None
        self._mean = self._prior_mean + self._deviation
        numba_kalman.refresh(self._prior, self._gained, self._scale, self._variance)
