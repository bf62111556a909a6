"""Engine that uses the last w observations only: a sliding Cholesky factor.

With kernel matrix K_w, noise variances N and residuals r of the observations in the window, oldest first:

    upper U    (w, w) with U'U = K_w + N
    rows V     (w, n): U'V = K(held, all), so that the variances are k(x, x) - sum of V(., x)^2
    solved z   (w,): U'z = r, so that the means are m + V'z

A new observation adds a row. The oldest is removed by Givens rotations, which add the first row of the factor to the
rest of it; V and z are rotated too. Rotations do not enlarge errors, and every row is removed after w rounds, so that
rounding errors stay bounded however long the run is. O(w (w + n)) an observation.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import ForgettingEngine
from scalable_bandits.posteriors.forgetting import _numba_sliding_window as numba_sliding
from scalable_bandits.posteriors.forgetting._numba_sliding_window import SlidingArrays
from scalable_bandits.posteriors.rounds import Columns, Game, Rule
from scalable_bandits.posteriors.state import State, array
from scalable_bandits.spaces import Indices, Mask

FIRST_CAPACITY = 64  # observations that there is room for at first; doubled as the window fills


class SlidingWindowEngine(ForgettingEngine):
    """Exact posterior given the last observations, whatever their rounds.

    Parameters
    ----------
    window
        Number w of observations used.

    See `Engine` for the other parameters and the interface.
    """

    STATE = (
        array("arrays.upper", "(c, c)", used=("count", "count")),
        array("arrays.rows", "(c, n)", used="count"),
        array("arrays.solved", "(c,)", used="count"),
        array("arrays.held", "(c,)", np.int64, used="count"),
        array("arrays.values", "(c,)", used="count"),
        array("arrays.noise", "(c,)", used="count"),
        array("_mean", "(n,)"),
        array("_variance", "(n,)"),
    )

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats, window: int):
        super().__init__(kernel, points, prior_mean)
        self.window = window
        self._prior_row = np.empty((1, self.size))
        self._prior = prior_mean.copy(), self._variance.copy()
        self._allocate(min(window, FIRST_CAPACITY))

    def _allocate(self, capacity: int, count: int = 0) -> None:
        """Make new arrays with room for some observations."""
        n, numbers = self.size, np.zeros(capacity, dtype=np.int64)
        self.arrays = SlidingArrays(
            np.zeros((capacity, capacity)), np.empty((capacity, n)), np.empty(capacity), numbers, np.empty(capacity),
            np.empty(capacity), np.array([count]), *self._prior, self._mean, self._variance, self.gain,
            np.empty(capacity), np.empty(n),
        )  # fmt: skip

    @property
    def count(self) -> int:
        """Number of observations in the window."""
        return int(self.arrays.count[0])

    def before_restore(self, state: State) -> None:
        count = len(state["held"])
        self._allocate(max(count, len(self.arrays.held)), count)

    def _grow(self) -> None:
        """Double the room for observations."""
        before, count = self.arrays, self.count
        self._allocate(min(2 * count, self.window), count)
        for held, room in zip(before, self.arrays, strict=True):
            if held is not room:
                room[tuple(map(slice, held.shape))] = held

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        if self.count == self.window:
            numba_sliding.drop(self.arrays)
        elif self.count == len(self.arrays.held):
            self._grow()
        self.kernel.fill(self.points[[candidate]], self.points, self._prior_row)
        numba_sliding.append(self.arrays, candidate, y, noise_variance, self._prior_row[0])

    def play(self, rule: Rule, game: Game, columns: Columns) -> None:
        done = numba_sliding.play(self.arrays, self.window, self.gram, rule, game, columns, 0)
        while done < len(game.noise):
            self._grow()
            done = numba_sliding.play(self.arrays, self.window, self.gram, rule, game, columns, done)

    @property
    def observed(self) -> Mask:
        return np.bincount(self.arrays.held[: self.count], minlength=self.size) > 0

    def columns(self, candidates: Indices) -> Floats:
        rows = self.arrays.rows[: self.count]
        return self.kernel.block(self.points[candidates], self.points) - rows[:, candidates].T @ rows

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        arrays, count, variance = self.arrays, self.count, self.kernel.diagonal(x)
        if not count:
            return np.zeros(len(x)), variance
        cross = self.kernel.block(self.points[arrays.held[:count]], x)
        rows = solve_triangular(arrays.upper[:count, :count], cross, trans="T")
        return arrays.solved[:count] @ rows, np.maximum(variance - np.einsum("ij,ij->j", rows, rows), 0.0)

    def extended(self, points: Floats, prior_mean: Floats) -> SlidingWindowEngine:
        grown, arrays = SlidingWindowEngine(self.kernel, points, prior_mean, self.window), self.arrays
        held = (each[: self.count].tolist() for each in (arrays.held, arrays.values, arrays.noise))
        for observation in zip(*held, strict=True):
            grown.observe(*observation)
        return grown
