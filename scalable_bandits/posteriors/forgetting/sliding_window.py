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
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import ForgettingEngine
from scalable_bandits.posteriors.forgetting import _numba_sliding_window as numba_sliding
from scalable_bandits.posteriors.rounds import MOST_PLAYED, Columns, Game, Rule
from scalable_bandits.posteriors.state import State, array

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
        array("_upper", "(c, c)", used=("_count", "_count")),
        array("_rows", "(c, n)", used="_count"),
        array("_solved", "(c,)", used="_count"),
        array("_held", "(c,)", np.int64, used="_count"),
        array("_values", "(c,)", used="_count"),
        array("_noise", "(c,)", used="_count"),
        array("_mean", "(n,)"),
        array("_variance", "(n,)"),
    )

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats, window: int):
        super().__init__(kernel, points, prior_mean)
        self.window = window
        self._prior_mean, self._prior_variance = prior_mean.copy(), self._variance.copy()
        self._prior_row = np.empty((1, self.size))
        self._removed_row = np.empty(self.size)
        self._gram: Floats | None = None  # (n, n) prior covariance, for compiled loops
        self._count = 0  # observations in the window
        self._allocate(min(window, FIRST_CAPACITY))

    def _allocate(self, capacity: int) -> None:
        """Make new arrays with room for some observations."""
        self._upper, self._rows = np.zeros((capacity, capacity)), np.empty((capacity, self.size))
        self._solved, self._noise, self._values = np.empty((3, capacity))
        self._held = np.zeros(capacity, dtype=np.int64)
        self._carry = np.empty(capacity)

    def before_restore(self, state: State) -> None:
        self._count = len(state["held"])
        if self._count > len(self._held):
            self._allocate(self._count)

    def _grow(self) -> None:
        """Double the room for observations."""
        state = self.state()
        self._allocate(min(2 * self._count, self.window))
        self.restore(state)

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        if self._count == self.window:
            self._drop()
        elif self._count == len(self._held):
            self._grow()
        self.kernel.fill(self.points[[candidate]], self.points, self._prior_row)
        count = self._count
        self._held[count], self._values[count], self._noise[count] = candidate, y, noise_variance
        self._information_gain, floored = numba_sliding.append(
            self._upper, self._rows, self._solved, count, candidate, self._prior_row[0],
            y - self._prior_mean[candidate], self._noise, self._prior_mean, self._prior_variance, self._mean,
            self._variance,
        )  # fmt: skip
        self._count += 1
        self._floored += floored

    def _drop(self) -> None:
        numba_sliding.drop(self._upper, self._rows, self._solved, self._count, self._carry, self._removed_row)
        for each in (self._held, self._values, self._noise):
            numba_sliding.move_up(each, self._count)
        self._count -= 1

    @property
    def plays(self) -> bool:  # type: ignore[override]
        """Whether the kernel matrix is small enough to be in memory."""
        return self.size <= MOST_PLAYED

    def play(self, rule: Rule, game: Game, columns: Columns) -> None:
        if self._gram is None:
            self._gram = np.empty((self.size, self.size))
            self.kernel.fill(self.points, self.points, self._gram)
        done = 0
        while True:
            done, self._count, self._information_gain, self._floored = numba_sliding.play(
                self._upper, self._rows, self._solved, self._held, self._values, self._noise, self._count, self.window,
                self._carry, self._removed_row, self._gram, self._prior_mean, self._prior_variance, self._mean,
                self._variance, self._information_gain, self._floored, rule, game, columns, done,
            )  # fmt: skip
            if done == len(game.noise):
                return
            self._grow()

    def mean(self) -> Floats:
        return self._mean

    def variance(self) -> Floats:
        return self._variance

    @property
    def observed(self) -> NDArray[np.bool_]:
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[self._held[: self._count]] = True
        return mask

    def columns(self, candidates: NDArray[np.int64]) -> Floats:
        rows = self._rows[: self._count]
        return self.kernel.block(self.points[candidates], self.points) - rows[:, candidates].T @ rows

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        count, variance = self._count, self.kernel.diagonal(x)
        if not count:
            return np.zeros(len(x)), variance
        cross = self.kernel.block(self.points[self._held[:count]], x)
        rows = solve_triangular(self._upper[:count, :count], cross, trans="T")
        return self._solved[:count] @ rows, np.maximum(variance - np.einsum("ij,ij->j", rows, rows), 0.0)

    def extended(self, points: Floats, prior_mean: Floats) -> SlidingWindowEngine:
        grown = SlidingWindowEngine(self.kernel, points, prior_mean, self.window)
        held = (each[: self._count].tolist() for each in (self._held, self._values, self._noise))
        for observation in zip(*held, strict=True):
            grown.observe(*observation)
        grown._floored = self._floored
        return grown
