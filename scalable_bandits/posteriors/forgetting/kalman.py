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
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpstrf

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import ForgettingEngine
from scalable_bandits.posteriors.forgetting import _numba_kalman as numba_kalman
from scalable_bandits.posteriors.forgetting._numba_kalman import KalmanArrays
from scalable_bandits.posteriors.regression import covariances
from scalable_bandits.posteriors.rounds import Columns, Game, Rule
from scalable_bandits.posteriors.state import array
from scalable_bandits.spaces import Indices, Mask


class KalmanEngine(ForgettingEngine):
    """Exact posterior of the present function of a first-order autoregression: O(n^2) memory.

    See `Engine` for the parameters and the interface.
    """

    limit: ClassVar[int] = 10_000  # 1.6 GB of prior and gained covariance
    draws: ClassVar[bool] = True
    plays: ClassVar[bool] = True

    STATE = (
        array("arrays.gained", "(n, n)"),
        array("arrays.scale", "(1,)"),
        array("arrays.deviation", "(n,)"),
        array("arrays.observed", "(n,)", np.bool_),
    )

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats):
        super().__init__(kernel, points, prior_mean)
        self._keep, n = 1.0 - kernel.epsilon, self.size
        self.arrays = KalmanArrays(
            covariances(kernel, points, points), np.zeros((n, n)), np.ones(1), prior_mean.copy(), np.zeros(n),
            self._mean, self._variance, np.zeros(n, dtype=np.bool_), self.gain, np.empty(n),
        )  # fmt: skip
        # Observed points of positive prior variance; those of them that are independent, and the factor of their K.
        self._basis = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty((0, 0))

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        numba_kalman.observe(self.arrays, candidate, y, noise_variance)

    def advance(self, rounds: int = 1) -> None:
        numba_kalman.advance(self.arrays, self._keep**rounds, self._keep ** (0.5 * rounds))

    def play(self, rule: Rule, game: Game, columns: Columns) -> None:
        numba_kalman.play(self.arrays, self._keep, self._keep**0.5, rule, game, columns)

    @property
    def observed(self) -> Mask:
        return self.arrays.observed.copy()

    def columns(self, candidates: Indices) -> Floats:
        return self.arrays.prior[candidates] - self.arrays.scale * self.arrays.gained[candidates]

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw the present f minus its posterior mean at all candidates jointly and exactly, (n,); O(n^3)."""
        lower, pivots, rank, _ = dpstrf(self.arrays.prior - self.arrays.scale * self.arrays.gained, lower=1)
        draw = np.zeros(self.size)
        draw[pivots - 1] = np.tril(lower[:, :rank]) @ rng.standard_normal(rank)
        return draw

    def _interpolation(self, x: Floats) -> tuple[Indices, Floats, Floats]:
        """Return S (r,), numerically independent points among those observed; b (r, k) of points x; and K(S, x)."""
        prior = self.arrays.prior
        seen = np.flatnonzero(self.arrays.observed & (prior.diagonal() > 0.0))
        if not np.array_equal(seen, self._basis[0]):
            lower, pivots, rank, _ = dpstrf(prior[np.ix_(seen, seen)], lower=1)
            self._basis = seen, seen[pivots[:rank] - 1], np.tril(lower[:rank, :rank])
        _, points, factor = self._basis
        cross = covariances(self.kernel, self.points[points], np.ascontiguousarray(x))
        return points, cho_solve((factor, True), cross) if len(points) else cross, cross

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        points, weights, cross = self._interpolation(x)
        present = self.columns(points)[:, points]
        unexplained = np.maximum(self.kernel.diagonal(x) - np.einsum("ij,ij->j", cross, weights), 0.0)
        explained = np.maximum(np.einsum("ij,ij->j", weights, present @ weights), 0.0)
        return self.arrays.deviation[points] @ weights, unexplained + explained

    def extended(self, points: Floats, prior_mean: Floats) -> KalmanEngine:
        engine, n = KalmanEngine(self.kernel, points, prior_mean), self.size
        held, grown = self.arrays, engine.arrays
        grown.scale[:], grown.gain[:], grown.observed[:n] = held.scale, held.gain, held.observed
        grown.gained[:n, :n], grown.deviation[:n] = held.gained, held.deviation
        at, weights, _ = self._interpolation(points[n:])
        rows = weights.T @ held.gained[at]
        grown.gained[n:, :n], grown.gained[:n, n:] = rows, rows.T
        grown.gained[n:, n:] = rows[:, at] @ weights
        grown.deviation[n:] = held.deviation[at] @ weights
        engine.advance(0)
        return engine

    def after_restore(self) -> None:
        arrays = self.arrays
        arrays.mean[:] = arrays.prior_mean + arrays.deviation
        numba_kalman.refresh(arrays.prior, arrays.gained, float(arrays.scale[0]), arrays.variance)
