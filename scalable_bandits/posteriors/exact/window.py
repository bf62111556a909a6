"""The open window: the last few distinct points observed, kept as low-rank rows.

Recursive updates (Chowdhury & Gopalan 2017, appendix F) cost n^2 a round when each is written into
the n x n covariance at once. Instead, rounds gather in a window that opened at covariance K_l:

    P            distinct points observed since, in order; r of them
    rows R       (r, n): the first observation of each P_j gives R_j = K_t(P_j, .) / sqrt(noise + s^2)
    gram S       (r, r): K_t = K_l - R'S R; the identity until a point is observed again
    coordinates  (r, r) lower triangular: K_l(P_j, .) = coordinates_j R
    shift q      (r,): mean_t = mean_l + R'q

A repeated point changes S and q only: for p = P_j, K_t(p, .) = (coordinates_j - S R(p))'R. So the
rank, and with it the cost, follows distinct points, not rounds. When the window is full, it is folded:
K -= F'F with F = chol(S)'R, in BLAS 3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.state import State, arrays
from scalable_bandits.spaces import Indices


class Window:
    """Small arrays of the open window; the rows are the engine's, which knows their layout.

    Parameters
    ----------
    capacity
        Distinct points before a fold.
    """

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.gram = np.zeros((capacity, capacity))
        self.coordinates = np.zeros((capacity, capacity))
        self.shift = np.zeros(capacity)
        self.precision = np.zeros(capacity)
        self.weights = np.zeros(capacity)
        self.points: dict[int, int] = {}

    @property
    def rank(self) -> int:
        """Distinct points in the window."""
        return len(self.points)

    def slot(self, p: int) -> int:
        """Row of point p, -1 if it is not in the window."""
        return self.points.get(p, -1)

    def admit(self, p: int, slot: int, noise_variance: float) -> None:
        """Book an observation at p after the arrays took it."""
        if slot < 0:
            slot = self.rank
            self.points[p] = slot
            self.precision[slot] = 0.0
        self.precision[slot] += 1.0 / noise_variance

    def root(self) -> Floats:
        """Lower Cholesky factor (r, r) of the gram matrix, which is never smaller than the identity."""
        factor, _ = dpotrf(self.gram[: self.rank, : self.rank], lower=1, clean=1)
        return factor

    def state(self) -> State:
        """All that is held, as arrays."""
        return arrays(
            gram=self.gram, coordinates=self.coordinates, shift=self.shift, precision=self.precision,
            points=np.fromiter(self.points, dtype=np.int64, count=self.rank),
        )  # fmt: skip

    def restore(self, state: State) -> None:
        """Hold what `state` gave."""
        for name in ("gram", "coordinates", "shift", "precision"):
            getattr(self, name)[...] = state[name]
        self.points = {p: slot for slot, p in enumerate(state["points"].tolist())}

    def clear(self) -> None:
        """Open anew, empty."""
        self.points.clear()


class Seen(NamedTuple):
    """What is known of a candidate as it is observed: what an observation does to all others follows from it."""

    rows: Floats  # (rank,) of the open window
    mean: float
    variance: float


class Fold(NamedTuple):
    """A closed window, or one made of other points: rows root' coordinates^-1 K_l(P, .), and what they do to means."""

    points: Indices  # (r,) positions
    coordinates: Floats  # (r, r) lower triangular
    root: Floats | None  # (r, r) lower, chol(gram); None for the identity
    shift: Floats  # (r,): the mean moves by shift' coordinates^-1 K_l(P, .)
