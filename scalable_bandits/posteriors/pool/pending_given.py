"""Effect of pending points on the variances of a pool's candidates.

With X the observed points, P the q pending ones, L the factor of K_X + noise and lambda the noise of a measurement,

    A = (L L')^-1 K(X, P),   R R' = K(P, P) - K(P, X) A + lambda I
    r(x) = R^-1 (K(P, x) - A' K(X, x)),   variance(x) = variance given X alone - |r(x)|^2

The j-th element of r(x) depends on the first j pending points alone, so that a candidate computed again needs only the
elements of the points that have come since.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.box.surface import Surface
from scalable_bandits.posteriors.regression import covariances, positive_factor


class PendingGiven:
    """Effect of pending points on the variances, given a posterior; points are added one by one, or several at once.

    Parameters
    ----------
    posterior
        Posterior given the observations.
    noise_variance
        Noise variance lambda of a pending point, in squared units of the engine's y.
    """

    def __init__(self, posterior: Surface, noise_variance: float):
        self._posterior, self._noise = posterior, noise_variance
        self.count = 0
        self._points = np.empty((0, posterior.points.shape[1]))
        self._weights = np.empty((len(posterior.points), 0), order="F")  # A
        self._factor = np.empty((0, 0))  # R

    def __getstate__(self) -> dict[str, Any]:
        p = self.count  # without the room for more
        points, weights, factor = self._points[:p], self._weights[:, :p], self._factor[:p, :p]
        return {**vars(self), "_points": points, "_weights": weights, "_factor": factor}

    def add(self, points: Floats) -> None:
        """Add pending points (k, D)."""
        kernel, old, new = self._posterior.kernel, self.count, self.count + len(points)
        cross = covariances(kernel, self._posterior.points, points)
        weights = self._posterior.solve(cross) if len(cross) else cross
        rows = self.rows(points)
        within = covariances(kernel, points, points) - cross.T @ weights - rows @ rows.T
        if new > len(self._points):
            self._make_room(new + new // 2)
        self._points[old:new], self._weights[:, old:new] = points, weights
        self._factor[old:new, :old] = rows
        noise = np.full(len(points), self._noise)
        self._factor[old:new, old:new] = positive_factor(0.5 * (within + within.T), noise)
        self.count = new

    def _make_room(self, room: int) -> None:
        used = self.count
        points, weights, factor = self._points, self._weights, self._factor
        self._points = np.empty((room, points.shape[1]))
        self._weights = np.empty((len(weights), room), order="F")
        self._factor = np.zeros((room, room))
        self._points[:used], self._weights[:, :used] = points[:used], weights[:, :used]
        self._factor[:used, :used] = factor[:used, :used]

    def rows(self, x: Floats, known: Floats | None = None) -> Floats:
        """Return r(x) at points (k, D), shape (k, count), given its first elements (k, j) if they are known."""
        first = 0 if known is None else known.shape[1]
        later, p = slice(first, self.count), self.count
        posterior, found = self._posterior, np.empty((len(x), p))
        if known is not None:
            found[:, :first] = known
        if first == p or not len(x):
            return found
        right = covariances(posterior.kernel, x, self._points[later])
        if len(posterior.points):
            right -= covariances(posterior.kernel, x, posterior.points) @ self._weights[:, later]
        if first:
            right -= found[:, :first] @ self._factor[later, :first].T
        factor = self._factor[later, later]
        found[:, later] = solve_triangular(factor, right.T, lower=True, check_finite=False).T
        return found
