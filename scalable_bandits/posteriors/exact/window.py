"""Window of the latest updates: the last few distinct points observed, as rows of low rank.

Recursive updates (Chowdhury & Gopalan 2017, appendix F) cost n^2 a round if each is written into the n x n covariance
at once. Here they are collected in a window that opened at covariance K_l:

    P            distinct points observed since then, in order; r of them
    rows R       (r, n): the first observation of each P_j gives R_j = K_t(P_j, .) / sqrt(noise + s^2)
    gram S       (r, r): K_t = K_l - R'S R; the identity until a point is observed again
    inverse V    (r, r) upper triangular: R = V'K_l(P, .)
    precision    (r,): sum of one over the noise variances of the observations at each P_j
    shift q      (r,): mean_t = mean_l + R'q

A repeated point changes S, q and its precision only: for p = P_j, K_t(p, .) = (S V_j)'R / precision_j, of which nothing
is lost to rounding however often p is played. So the rank, and with it the cost, follows the distinct points, not the
rounds. A full window is folded into the covariance: K -= F'F with F = chol(S)'R, in BLAS 3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.exact import _numba_window as numba_window
from scalable_bandits.posteriors.exact._numba_window import WindowArrays
from scalable_bandits.posteriors.state import Stateful, array, value
from scalable_bandits.spaces import Indices


class Window(Stateful):
    """Small arrays of the open window; the engine has the rows.

    Parameters
    ----------
    capacity
        Number of distinct points that fill the window.

    Attributes
    ----------
    arrays : WindowArrays
        Arrays of the module's docstring.
    points : dict
        Row of each point.
    """

    STATE = (
        array("gram", "(capacity, capacity)"),
        array("inverse", "(capacity, capacity)"),
        array("shift", "(capacity,)"),
        array("precision", "(capacity,)"),
        value(
            "points", "(r,)", np.int64,
            lambda window: window.numbers, lambda window, numbers: window._restore_points(numbers),
        ),
    )  # fmt: skip

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.arrays = WindowArrays(*np.zeros((2, capacity, capacity)), *np.zeros((3, capacity)))
        self.gram, self.inverse, self.shift, self.precision, _ = self.arrays
        self.points: dict[int, int] = {}

    @property
    def rank(self) -> int:
        """Number r of distinct points in the window."""
        return len(self.points)

    @property
    def numbers(self) -> Indices:
        """Points (r,) of the window, in the order of their rows."""
        return np.fromiter(self.points, dtype=np.int64, count=self.rank)

    @property
    def coordinates(self) -> Floats:
        """Coordinates (r, r), lower triangular: K_l(P, .) = coordinates R."""
        return np.tril(np.linalg.inv(self.inverse[: self.rank, : self.rank]).T)

    def _restore_points(self, numbers: Indices) -> None:
        self.points = {p: row for row, p in enumerate(numbers.tolist())}

    def slot(self, p: int) -> int:
        """Return the row of point p, -1 if it is not in the window."""
        return self.points.get(p, -1)

    def record(self, p: int, residual: float, total_variance: float, noise_variance: float) -> None:
        """Add an observation at p, for which the weights are projected, to the small arrays."""
        numba_window.record(self.arrays, self.rank, self.slot(p), residual, total_variance, noise_variance)
        self.points.setdefault(p, self.rank)

    def root(self) -> Floats:
        """Return the lower Cholesky factor (r, r) of the gram matrix, which is never smaller than the identity."""
        factor, _ = dpotrf(self.gram[: self.rank, : self.rank], lower=1, clean=1)
        return factor

    def clear(self) -> None:
        """Empty the window after it was folded."""
        self.points.clear()


def variances(factor: Floats, noise: Floats) -> Floats:
    """Return the posterior variances s^2 = d - d^2 ((K + d)^-1)_pp (m,) at points that were observed.

    A difference of prior variance and rows would lose those of points that are played very often.

    Parameters
    ----------
    factor
        Lower Cholesky factor (m, m) of K + d.
    noise
        Noise variances d (m,) of the averages, in squared units of y.
    """
    return np.asarray(noise * np.maximum(1.0 - noise * np.square(dtrtri(factor, lower=1)[0]).sum(axis=0), 0.0))


class PointPosterior(NamedTuple):
    """Posterior at one point: an observation there changes all others by means of these numbers."""

    rows: Floats  # (r,) rows of the open window at the point
    mean: float
    variance: float


class RowBlock(NamedTuple):
    """Rows root' coordinates^-1 K_l(P, .) of some points P, such as those of a folded window, and their weights."""

    points: Indices  # (r,) positions of P
    coordinates: Floats  # (r, r) lower triangular
    root: Floats | None  # (r, r) lower Cholesky factor of the gram matrix; None for the identity
    shift: Floats  # (r,) weights: the rows change the mean by shift' coordinates^-1 K_l(P, .)
    variance: Floats | None = None  # (r,) posterior variances at P, if they are known better than by a difference
