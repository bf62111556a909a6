"""Effect of pending points on the variances of a pool's candidates.

With X the observed points, P the q pending ones, L the factor of K_X + noise and lambda the noise of a measurement, the
factor of both has for every x a row to its left,

    a(x) = (u(x), r(x)),   u(x) = L^-1 K(X, x),   variance(x) = K(x, x) - |a(x)|^2

whose element of the j-th pending point p, the m + j-th one, depends on those before alone:

    a_{m+j}(x) = (K(x, p) - sum over i < m + j of a_i(x) a_i(p)) / sqrt(variance given those before p (p) + lambda)

so that a candidate computed again needs only the elements of the points that have come since, and a candidate that is
chosen has its row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.box.surface import Surface
from scalable_bandits.posteriors.pool import _numba_pool as numba_pool
from scalable_bandits.posteriors.regression import covariances
from scalable_bandits.spaces import Indices


class PendingGiven:
    """Effect of pending points on the variances, given a posterior; points are added one by one, or several at once.

    Parameters
    ----------
    posterior
        Posterior given the observations.
    noise_variance
        Noise variance lambda of a pending point, in squared units of the engine's y.

    Attributes
    ----------
    count : int
        Number q of pending points.
    observed : int
        Number m of observed ones.
    """

    def __init__(self, posterior: Surface, noise_variance: float):
        self._posterior, self._noise = posterior, noise_variance
        self.count, self.observed = 0, len(posterior.points)
        self._points = np.empty((0, posterior.points.shape[1]))
        self._factor = np.empty((0, self.observed))  # rows of the pending points, with their diagonal

    def __getstate__(self) -> dict[str, Any]:
        p, m = self.count, self.observed  # without the room for more
        return {**vars(self), "_points": self._points[:p], "_factor": self._factor[:p, : m + p]}

    def add(self, points: Floats, rows: Floats | None = None) -> None:
        """Add pending points (k, D), with their rows (k, m + q) if they are known."""
        old, new, m = self.count, self.count + len(points), self.observed
        rows = self.rows(points) if rows is None else rows
        if new > len(self._points):
            self._make_room(new + new // 2)
        self._points[old:new] = points
        factor, within = self._factor, covariances(self._posterior.kernel, points, points)
        for i in range(len(points)):
            place, known, row, width = np.array([old + i]), np.array([old]), factor[old + i], m + old + i
            row[: m + old] = rows[i]
            numba_pool.continue_rows(factor, place, known, within[i : i + 1], old, factor, m, old + i)
            left = float(within[i, i] - row[:width] @ row[:width])
            row[width] = np.sqrt(max(left, 0.0) + self._noise)
        self.count = new

    def _make_room(self, room: int) -> None:
        used, points, factor = self.count, self._points, self._factor
        self._points, self._factor = np.empty((room, points.shape[1])), np.zeros((room, self.observed + room))
        self._points[:used] = points[:used]
        self._factor[:used, : factor.shape[1]] = factor[:used]

    def rows(self, x: Floats) -> Floats:
        """Return the rows a(x) of points (k, D), shape (k, m + q)."""
        m, p = self.observed, self.count
        found = np.empty((len(x), m + p))
        if m:
            found[:, :m] = self._posterior.whitened(x).T
        if p and len(x):
            given, own = self._factor[:p, :m], self._factor[:p, m : m + p]
            right = covariances(self._posterior.kernel, x, self._points[:p]) - found[:, :m] @ given.T
            found[:, m:] = solve_triangular(own, right.T, lower=True, check_finite=False).T
        return found

    def continue_rows(self, x: Floats, rows: Floats, places: Indices, known: Indices) -> None:
        """Compute the elements of rows that have come since.

        Parameters
        ----------
        x
            Points (k, D).
        rows
            Array of rows, each with room for m + q elements, that is changed.
        places
            Numbers (k,) of the points' rows.
        known
            Number (k,) of pending points whose elements each row has.
        """
        first = int(known.min())
        cross = covariances(self._posterior.kernel, x, self._points[first : self.count])
        numba_pool.continue_rows(rows, places, known, cross, first, self._factor, self.observed, self.count)
