"""Tables of the posterior of groups: of each group's function at all its points, given observations of the sum.

With K the sum of the groups' covariances, N the noise, and Z_j the points of group j,

    mean      mu_j = K_j(Z_j, X) (K + N)^-1 (y - m)
    variance  s_j^2 = diag K_j(Z_j, Z_j) - diag K_j(Z_j, X) (K + N)^-1 K_j(X, Z_j)

Conditioning on y at x changes all tables by one vector, the posterior covariances of f_j with the sum at x:

    c_j = K_j(Z_j, x) - K_j(Z_j, X) a,  a = (K + N)^-1 k(X, x)
    mu_j += c_j (y - mu(x)) / (s^2(x) + noise),  s_j^2 -= c_j^2 / (s^2(x) + noise)

Many of the m observed points have the same coordinates in a group: K_j(Z_j, X) a is a sum over the distinct ones, whose
covariances with Z_j are kept. Groups with equal kernels and equal points share these.
"""

from __future__ import annotations

import functools

import numpy as np
from scipy.linalg import solve_triangular

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.regression import covariances, grown, positive_factor
from scalable_bandits.spaces import FiniteSpace, Indices

MOST_DRAWN = 5_000  # largest number of points at which a group's function is drawn jointly


class Tables:
    """Tables of the G groups that have a kernel and n points in common.

    Parameters
    ----------
    kernel
        Prior covariance of each group's function, of the group's own coordinates.
    space
        Points of each group.
    members
        Numbers (G,) of the groups.
    dimensions
        Dimensions (G, k) of the groups.

    Attributes
    ----------
    mean, variance : ndarray
        Posterior mean and variance (G, n) of each group's function at its points, in units of y and squared ones.
    prior_variance : ndarray
        Prior variance (n,) of each group's function at its points, in squared units of y.
    """

    def __init__(self, kernel: Kernel, space: FiniteSpace, members: list[int], dimensions: Indices):
        self.kernel, self.space, self.members, self.dimensions = kernel, space, members, dimensions
        self.points = space.points()
        self.mean = np.zeros((len(members), len(self.points)))
        self.prior_variance = kernel.diagonal(self.points)
        self.variance = np.tile(self.prior_variance, (len(members), 1))
        self._row = np.full(len(self.points), -1)  # row of a point in `_rows`
        self._rows = np.empty((0, len(self.points)))  # covariances of distinct observed coordinates with all points
        self._used = 0
        self._places = np.empty((len(members), 0), dtype=np.int64)
        self._count = 0

    @property
    def places(self) -> Indices:
        """Numbers (G, m) of the observed points' coordinates among the points of each group."""
        return self._places[:, : self._count]

    def find(self, x: Floats) -> Indices:
        """Return the numbers (G, k) of the coordinates of points x (k, d) among the points of each group."""
        flat = x[:, self.dimensions].transpose(1, 0, 2).reshape(-1, self.dimensions.shape[1])
        return self.space.find(flat).reshape(len(self.members), len(x))

    def add(self, x: Floats) -> None:
        """Add observed points x (k, d) that are distinct from those before."""
        numbers, before = self.find(x), self._count
        self._count += len(x)
        if self._count > self._places.shape[1]:
            room = np.zeros((len(self.members), self._count), dtype=np.int64)
            self._places = np.hstack([self._places, room])
        self._places[:, before : self._count] = numbers
        for number in dict.fromkeys(numbers.T.ravel().tolist()):
            if self._row[number] < 0:
                if self._used == len(self._rows):
                    self._rows = grown(self._rows, max(2 * self._used, 16), len(self.points))
                self._rows[self._used] = covariances(self.kernel, self.points[[number]], self.points)[0]
                self._row[number], self._used = self._used, self._used + 1

    def projected(self, weights: Floats) -> Floats:
        """Return K_j(Z_j, X) weights, (G, n), for weights (m,) of the observed points, or (G, m) of each group."""
        groups = len(self.members)
        at = self._row[self.places] + self._used * np.arange(groups)[:, None]
        sums = np.bincount(at.ravel(), np.broadcast_to(weights, at.shape).ravel(), minlength=groups * self._used)
        return np.asarray(sums.reshape(groups, self._used) @ self._rows[: self._used])

    def cross(self, place: int, number: int) -> Floats:
        """Return the prior covariances (m,) of a group, by its place in the table, at one of its points with X."""
        return np.asarray(self._rows[self._row[self.places[place]], number])

    def projected_in(self, place: int, weights: Floats) -> Floats:
        """Return the row (n,) of `projected` of one group."""
        rows = self._row[self.places[place]]
        return np.asarray(np.bincount(rows, weights, minlength=self._used) @ self._rows[: self._used])

    def to_all(self, x: Floats) -> Floats:
        """Return the prior covariances (G, n) of each group's function at a point x (d,) with it at all its points."""
        return covariances(self.kernel, x[self.dimensions], self.points)

    def columns(self, x: Floats, solved: Floats) -> Floats:
        """Return the posterior covariances (G, n) of each group's function with the sum at a point x (d,).

        `solved` (m,) is (K + N)^-1 k(X, x).
        """
        return self.to_all(x) - self.projected(solved)

    def update(self, columns: Floats, error: float, variance: float) -> None:
        """Condition on an observation: columns (G, n) of its point, y minus mean, and variance of y."""
        self.mean += columns * (error / variance)
        self.variance -= columns * columns / variance

    def recompute(self, weights: Floats, factor: Floats) -> None:
        """Compute the tables from the weights (m,) and the factor (m, m) of all observations."""
        self.mean[:] = self.projected(weights)
        for group, numbers in enumerate(self._row[self.places]):
            solved = solve_triangular(factor, self._rows[numbers], lower=True, check_finite=False)
            self.variance[group] = self.prior_variance - np.einsum("ij,ij->j", solved, solved)

    @functools.cached_property
    def _prior_factor(self) -> Floats:
        return positive_factor(covariances(self.kernel, self.points, self.points), np.zeros(len(self.points)))

    def draw_prior(self, rng: np.random.Generator) -> Floats:
        """Draw each group's function at its points from the prior, (G, n), in units of y."""
        return np.asarray(rng.standard_normal(self.mean.shape) @ self._prior_factor.T)
