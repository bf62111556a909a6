"""Exact posterior of kernels with finitely many features, in the space of their weights.

    f(x) = m(x) + phi(x)'w,  w ~ N(0, I),  k(x, z) = phi(x)'phi(z), p features phi
    A = I + sum over observations of phi(x) phi(x)' / noise variance                (precision of the weights)
    w given the observations ~ N(A^-1 b, A^-1),  b = sum of phi(x) (y - m(x)) / noise variance

Source: Rasmussen & Williams 2006, section 2.1.2. A round costs O(p^2 + n p) for n candidates, and memory is O(n p),
whatever the number of observations; repeated points are as cheap as new ones. R with R'R = A and z with R A^-1 b = z
take each observation in by rotations (Golub & Van Loan 2013, section 6.5), which are stable over any number of them.
Means and variances are updated along the covariance column of the observed candidate, and computed anew from R and z
every 512 observations, so that their rounding does not add up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from scipy.linalg.lapack import dtrtri

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import Engine
from scalable_bandits.posteriors.rounds import Columns, Game, Rule
from scalable_bandits.posteriors.state import array
from scalable_bandits.posteriors.weights import _numba_weights as numba_weights
from scalable_bandits.posteriors.weights._numba_weights import WeightArrays
from scalable_bandits.spaces import Indices

WINDOW = 512  # observations between two computations of means and variances from the weights


class WeightsEngine(Engine):
    """Exact posterior of a kernel with p features by the posterior of their weights: O(n p) memory.

    See `Engine` for the parameters and the interface.
    """

    draws: ClassVar[bool] = True
    plays: ClassVar[bool] = True
    predicts: ClassVar[bool] = True

    STATE = (
        array("_mean", "(n,)"),
        array("_variance", "(n,)"),
        array("arrays.root", "(p, p)"),
        array("arrays.shifted", "(p,)"),
        array("arrays.count", "(1,)", np.int64),
    )

    @classmethod
    def check_kernel(cls, kernel: Kernel, dimension: int) -> None:
        if not kernel.feature_count(dimension):
            allowed = "a kernel of at most 1,024 features: Linear, SphericalLinear, Constant, their sums and products"
            checks.refuse("kernel", kernel, f"{allowed}, for the engine 'weights'")

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats):
        super().__init__(kernel, points, prior_mean)
        rows = np.ascontiguousarray(features_of(kernel, points).T)
        p = len(rows)
        self.arrays = WeightArrays(
            rows, np.eye(p), np.zeros(p), prior_mean.copy(), self._mean, self._variance, np.zeros(1, dtype=np.int64),
            self.gain,
        )  # fmt: skip

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        if not numba_weights.weights_observe(self.arrays, candidate, y, noise_variance, WINDOW):
            self._refresh()
            numba_weights.weights_observe(self.arrays, candidate, y, noise_variance, WINDOW)

    def observe_all(self, candidates: Indices, ys: Floats, noise_variances: Floats) -> None:
        self._loop(len(ys), numba_weights.weights_observe_all, candidates, ys, noise_variances)

    def play(self, rule: Rule, game: Game, columns: Columns) -> None:
        self._loop(len(game.noise), numba_weights.weights_play, rule, game, columns)

    def _loop(self, count: int, loop: Callable[..., int], *given: Any) -> None:
        """Run a compiled loop over `count` observations, which ends early wherever a refresh is due."""
        done = loop(self.arrays, *given, WINDOW, 0)
        while done < count:
            self._refresh()
            done = loop(self.arrays, *given, WINDOW, done)

    def _refresh(self) -> None:
        """Compute means and variances from the weights."""
        arrays, inverse = self.arrays, inverse_root(self.arrays.root)
        whitened = inverse.T @ arrays.rows
        arrays.variance[:] = np.einsum("ij,ij->j", whitened, whitened)
        arrays.mean[:] = arrays.prior + (inverse @ arrays.shifted) @ arrays.rows
        arrays.count[0] = 0

    def columns(self, candidates: Indices) -> Floats:
        inverse, rows = inverse_root(self.arrays.root), self.arrays.rows
        return np.asarray((rows[:, candidates].T @ inverse) @ (inverse.T @ rows))

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        inverse, features = inverse_root(self.arrays.root), features_of(self.kernel, x)
        whitened = features @ inverse
        return features @ (inverse @ self.arrays.shifted), np.einsum("ij,ij->i", whitened, whitened)

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw f minus its posterior mean at all candidates jointly and exactly, (n,): R^-1 e for normal numbers e."""
        inverse = inverse_root(self.arrays.root)
        return np.asarray((inverse @ rng.standard_normal(len(inverse))) @ self.arrays.rows)


def features_of(kernel: Kernel, x: Floats) -> Floats:
    """Return the features (k, p) of a kernel that has some, at points x (k, d)."""
    found = kernel.features(x)
    assert found is not None
    return found


def inverse_root(root: Floats) -> Floats:
    """Return the inverse (p, p) of an upper triangular matrix (p, p)."""
    return np.asarray(dtrtri(root)[0])
