"""The engine of a whole box for kernels of finitely many features, its surface, and the maximisation of its index.

A round costs O(p^2) for p features, whatever the number of observations; `engine.py` has the notation. The posterior
mean is phi(x)'m and the deviation |R'^-1 phi(x)|, so that an index of both is largest at a point x that is also the
largest of the linear function that touches the index in phi(x):

    from 65 starts x, of which the better half goes on after each step, but two at least:
        u = by_mean m + 2 by_variance A^-1 phi(x)        (slope of the index in phi)
        x = argmax over the box of phi(x)'u              (closed form: `Kernel.features_peak`)
    until no index rises, or 8 steps were made; then gradients (L-BFGS-B) from the best end, unless it is a fixed point

An upper confidence bound and expected improvement are convex in phi, and lie above the linear function: no step lowers
them, as in the convex-concave procedure (Yuille & Rangarajan 2003). A step of another index is taken if it rises. A
sample path is phi(x)'w for drawn weights w, and one step finds its maximum exactly.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.box.maximization import Top, finish
from scalable_bandits.posteriors.box.queried import QueriedEngine
from scalable_bandits.posteriors.box.surface import PriorMean, SearchSurface, SmoothIndex
from scalable_bandits.posteriors.state import StateEntry, array
from scalable_bandits.posteriors.weights import _numba_weights as numba_weights
from scalable_bandits.posteriors.weights.engine import WeightsEngine, features_of, inverse_root
from scalable_bandits.randomness import generator

STARTS = 64  # number of random starts; one more is where the posterior mean is largest
FEW = 2  # number of starts that go on to the end
MOST_STEPS = 8  # largest number of steps
PRECISION = 1e-12  # relative gain below which a start has converged
FEW_DIMENSIONS = 10  # number of dimensions up to which steps by gradients go as far as rounding allows
EXACT, COARSE = 1e-14, 1e-7  # relative gain of a step below which they end, in few and in more dimensions


class WeightsBoxEngine(QueriedEngine):
    """Exact posterior of a whole box by the weights of p features.

    Parameters
    ----------
    kernel
        Prior covariance, with features.
    dimension
        Dimension d of the points.
    prior_mean
        Prior mean with its gradient, in units of y.
    """

    predicts: ClassVar[bool] = True
    STATE: ClassVar[tuple[StateEntry, ...]] = (array("_root", "(p, p)"), array("_shifted", "(p,)"))

    def __init__(self, kernel: Kernel, dimension: int, prior_mean: PriorMean):
        super().__init__(kernel, np.empty((0, dimension)), np.empty(0))
        WeightsEngine.check_kernel(kernel, dimension)
        p = kernel.feature_count(dimension)
        self._prior_mean, self._root, self._shifted = prior_mean, np.eye(p), np.zeros(p)
        self._surface: WeightsSurface | None = None

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        x = self.points[[candidate]]
        row, prior = features_of(self.kernel, x)[0], float(self._prior_mean.values(x)[0])
        self._add_gain(numba_weights.whiten(self._root, row.copy()), noise_variance)
        numba_weights.absorb(self._root, self._shifted, row, y - prior, noise_variance)
        self._surface = None

    def surface(
        self, pending: Floats | None = None, noise_variances: float | Floats = 0.0, values: Floats | None = None
    ) -> WeightsSurface:
        if self._surface is None:
            inverse = inverse_root(self._root)
            self._surface = WeightsSurface(self.kernel, inverse @ self._shifted, inverse, self._prior_mean)
        if pending is None or not len(pending):
            return self._surface
        known = 0 if values is None else len(values)
        root, shifted = self._root.copy(), self._shifted.copy()
        noises, rows = np.broadcast_to(noise_variances, len(pending)), features_of(self.kernel, pending)
        residuals = np.zeros(len(pending)) if values is None else values - self._prior_mean.values(pending[:known])
        for i in range(known):
            numba_weights.absorb(root, shifted, rows[i], residuals[i], noises[i])
        mean = self._surface.weights if not known else inverse_root(root) @ shifted
        for i in range(known, len(pending)):
            numba_weights.absorb(root, shifted, rows[i], 0.0, noises[i])
        return WeightsSurface(self.kernel, mean, inverse_root(root), self._prior_mean)

    def path(self, rng: np.random.Generator, width: float, pending: Floats, noise_variance: float) -> WeightsSurface:
        """Draw from GP(mean, width^2 covariance), given that pending points will be observed; exact.

        Parameters
        ----------
        rng
            Random generator of the weights.
        width
            Factor of the deviation from the mean.
        pending
            Pending points (q, d), repeated as often as they are pending.
        noise_variance
            Noise variance of the pending points, in squared units of y.

        Returns
        -------
        WeightsSurface
            Sample path, of variance 0.
        """
        surface = self.surface(pending, noise_variance)
        drawn = surface.weights + width * (surface.inverse @ rng.standard_normal(len(surface.weights)))
        return WeightsSurface(self.kernel, drawn, np.empty((len(drawn), 0)), self._prior_mean)

    def covariance(self, x: Floats, other: Floats) -> Floats:
        inverse = self.surface().inverse
        return np.asarray((features_of(self.kernel, x) @ inverse) @ (features_of(self.kernel, other) @ inverse).T)

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        mean, variance = self.surface().predict(x)
        return mean - self._prior_mean.values(x), variance

    def after_restore(self) -> None:
        self._surface = None


class WeightsSurface:
    """Posterior mean and variance at any x by the posterior of p weights, or a sample path.

    Parameters
    ----------
    kernel
        Prior covariance, with features.
    weights
        Means (p,) of the weights, in units of y; of a sample path the weights that were drawn.
    inverse
        Inverse (p, p) of R, where the weights' covariance is the inverse of R'R; (p, 0) for a sample path.
    prior_mean
        Prior mean with its gradient.
    """

    def __init__(self, kernel: Kernel, weights: Floats, inverse: Floats, prior_mean: PriorMean):
        self.kernel, self.weights, self.inverse, self.prior_mean = kernel, weights, inverse, prior_mean

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Return posterior mean and variance at points x (k, d): two (k,) arrays."""
        mean, variance, _ = self.whitened(x)
        return mean, variance

    def index(self, index: SmoothIndex, x: Floats) -> tuple[Floats, Floats]:
        """Return an index at points x (k, d), shape (k,), and its gradient (k, d)."""
        mean, variance, whitened = self.whitened(x)
        by_mean, pulls = self.pulls(index, mean, variance, whitened)
        slope = by_mean[:, None] * self.prior_mean.slopes(x)
        return index(mean, variance), slope + self.kernel.features_slope(x, pulls)

    def pulls(self, index: SmoothIndex, mean: Floats, variance: Floats, whitened: Floats) -> tuple[Floats, Floats]:
        """Return an index's slopes in the mean (k,) and in the features (k, p), given what `whitened` returns."""
        by_mean, by_variance = index.slopes(mean, variance)
        return by_mean, by_mean[:, None] * self.weights + (2.0 * by_variance[:, None] * whitened) @ self.inverse.T

    def whitened(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return mean and variance (k,) at points x (k, d), and R'^-1 phi(x), shape (k, p)."""
        features = features_of(self.kernel, x)
        whitened = features @ self.inverse
        variance = np.einsum("ij,ij->i", whitened, whitened)
        return self.prior_mean.values(x) + features @ self.weights, variance, whitened


def top_of_weights(surface: SearchSurface, index: SmoothIndex, bounds: Floats, seed: int) -> Top | None:
    """Find the point of a box where an index is largest, by steps in closed form.

    Parameters
    ----------
    surface
        Posterior or sample path.
    index
        Index of mean and variance.
    bounds
        Bounds (d, 2) of the box, in units of x.
    seed
        Seed of the random starts.

    Returns
    -------
    Top or None
        Maximum; None for a surface, a kernel or a prior mean for which the steps have no closed form.
    """
    if not isinstance(surface, WeightsSurface) or surface.prior_mean.slopes is not np.zeros_like:
        return None
    kernel, (low, high) = surface.kernel, bounds.T
    first = kernel.features_peak(surface.weights[None], bounds)
    if first is None:
        return None
    x = low + (high - low) * generator(seed, "weights").random((STARTS + 1, len(low)))
    x[0] = np.where(np.isnan(first[0]), x[0], first[0])
    moments = surface.whitened(x)
    values = index(*moments[:2])
    left, used, jumped = np.arange(len(x)), len(x), np.ones(len(x), dtype=np.bool_)
    for _ in range(MOST_STEPS):
        peaks = kernel.features_peak(surface.pulls(index, *moments)[1], bounds)
        assert peaks is not None
        ahead = np.where(np.isnan(peaks), x[left], peaks)
        moments = surface.whitened(ahead)
        found = index(*moments[:2])
        used += len(left)
        rises = found > values[left] + PRECISION * np.abs(found)
        jumped[left] = rises | (ahead != x[left]).any(axis=1)
        x[left[rises]], values[left[rises]] = ahead[rises], found[rises]
        best = np.argsort(-np.where(rises, found, -np.inf), kind="stable")[: max(FEW, len(left) // 2)]
        best = best[rises[best]]
        left, moments = left[best], (moments[0][best], moments[1][best], moments[2][best])
        if not len(left):
            break
    top = int(np.argmax(values))
    best_end = Top(x[top], float(values[top]), used)
    if not jumped[top]:  # a fixed point, as a corner is
        return best_end
    u, gain = np.clip((x[top] - low) / (high - low), 0.0, 1.0), EXACT if len(low) <= FEW_DIMENSIONS else COARSE
    return finish(surface, index, bounds, u, best_end, gain)
