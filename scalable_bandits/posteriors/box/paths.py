"""Sample paths of the posterior on a whole box, as smooth functions with gradients.

Source: Wilson et al. 2020, eq. 13 (decoupled samples), as in `pathwise.py`:

    f(x) = m(x) + k(x, X) (K + N)^-1 (y - m(X)) + v (phi(x)'w - k(x, X) (K + N)^-1 (phi(X)'w + e))

w is standard normal, e normal with covariance N, and v the width. The prior is drawn by finitely many features, the
update by the data is exact.
"""

from __future__ import annotations

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.surface import PriorMean, SmoothIndex
from scalable_bandits.posteriors.regression import covariances
from scalable_bandits.posteriors.sampling.features import Features


class PathSurface:
    """Sample path with its gradient: a `SearchSurface` of variance 0, whose index has to be its mean.

    Parameters
    ----------
    kernel, prior_mean
        Prior of the process.
    features
        Features of the draw from the prior.
    weights
        Weights (2 m,) of the features, in units of y.
    points
        Observed and pending points (q, d), in units of x.
    correction
        Weights (q,) of the covariance functions at these points.
    """

    def __init__(
        self, kernel: Kernel, prior_mean: PriorMean, features: Features, weights: Floats, points: Floats,
        correction: Floats,
    ):  # fmt: skip
        self.kernel, self.prior_mean, self.features, self.weights = kernel, prior_mean, features, weights
        self.points, self.correction = points, correction

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the path at points x (k, d), and zeros: two (k,) arrays."""
        values = self.prior_mean.values(x) + self.features.combined(x, self.weights)
        return values + covariances(self.kernel, x, self.points) @ self.correction, np.zeros(len(x))

    def index(self, index: SmoothIndex, x: Floats) -> tuple[Floats, Floats]:
        """Return an index of the path at points x (k, d), shape (k,), and its gradient (k, d)."""
        values, zeros = self.predict(x)
        by_value, _ = index.slopes(values, zeros)
        slope = self.prior_mean.slopes(x) + self.features.slopes(x, self.weights)
        if len(self.points):
            pulls = np.repeat(self.correction[:, None], len(x), axis=1)
            self.kernel.slope(self.points, x, pulls, slope)
        return index(values, zeros), by_value[:, None] * slope


def draw_path(
    engine: BoxEngine, features: Features, width: float, pending: Floats, noise_variance: float,
    rng: np.random.Generator,
) -> PathSurface:  # fmt: skip
    """Draw from GP(mean, width^2 covariance), given that pending points will be observed.

    Parameters
    ----------
    engine
        Engine with the observations.
    features
        Features that approximate the prior.
    width
        Factor of the deviation from the mean.
    pending
        Pending points (q, d), repeated as often as they are pending.
    noise_variance
        Noise variance of the pending points, in squared units of y.
    rng
        Random generator of the features' weights, then of the noise.
    """
    surface = engine.surface(pending, noise_variance)
    noise = np.append(engine.noise_variances, np.full(len(pending), noise_variance))
    weights = rng.standard_normal(2 * len(features.amplitudes))
    drawn = features.combined(surface.points, weights) + rng.standard_normal(len(noise)) * np.sqrt(noise)
    correction = surface.weights - width * surface.solve(drawn)
    return PathSurface(engine.kernel, surface.prior_mean, features, width * weights, surface.points, correction)
