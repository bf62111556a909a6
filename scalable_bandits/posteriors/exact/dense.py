"""Dense recursive engine: the n x n posterior covariance, for spaces of up to a few thousand candidates.

Source: Chowdhury & Gopalan 2017, appendix F. The rank-one updates are collected in a window (`window.py`) and folded
into the covariance by one symmetric rank-r update of its upper triangle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk, dtrmm
from scipy.linalg.lapack import dpstrf

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import Engine
from scalable_bandits.posteriors.exact import _numba_window as numba_window
from scalable_bandits.posteriors.exact._numba_window import DenseArrays
from scalable_bandits.posteriors.exact.window import Window
from scalable_bandits.posteriors.rounds import Columns, Game, Rule
from scalable_bandits.posteriors.state import array, member
from scalable_bandits.spaces import Indices

WINDOW = 64  # distinct points between two folds


class DenseEngine(Engine):
    """Exact posterior by recursive updates of the full covariance: O(n^2) memory.

    See `Engine` for the parameters and the interface.
    """

    limit: ClassVar[int] = 20_000  # 3.2 GB of covariance
    draws: ClassVar[bool] = True
    plays: ClassVar[bool] = True

    STATE = (
        array("_mean", "(n,)"),
        array("_variance", "(n,)"),
        array("_covariance", "(n, n)"),
        array("_rows", "(r, n)", used="window.rank"),
        member("window"),
    )

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats):
        super().__init__(kernel, points, prior_mean)
        self._covariance = np.empty((self.size, self.size))
        kernel.fill(points, points, self._covariance)
        self.window = Window(min(WINDOW, self.size))
        self._rows = np.empty((self.window.capacity, self.size))
        self._factor: Floats | None = None  # (rank, n), transposed, of the covariance as the window opened
        small = self.window
        self.arrays = DenseArrays(
            self._covariance, self._mean, self._variance, self._rows, small.gram, small.inverse, small.shift,
            small.precision, small.weights, np.empty(self.size),
        )  # fmt: skip

    def move(self, arrays: DenseArrays) -> None:
        """Copy the arrays into others of the same shapes, and hold those from now on."""
        for held, room in zip(self.arrays, arrays, strict=True):
            room[...] = held
        self.arrays, window = arrays, self.window
        self._covariance, self._mean, self._variance, self._rows = arrays[:4]
        window.gram, window.inverse, window.shift, window.precision, window.weights = arrays[4:9]

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        window = self.window
        slot = window.slot(candidate)
        if slot < 0 and window.rank == window.capacity:
            self.fold()
        before, floored = numba_window.dense_observe(*self.arrays, window.rank, slot, candidate, y, noise_variance)
        window.admit(candidate)
        self._floored += floored
        self._gain(before, noise_variance)

    def observe_all(self, candidates: Indices, ys: Floats, noise_variances: Floats) -> None:
        self._loop(len(ys), numba_window.dense_observe_all, candidates, ys, noise_variances)

    def play(self, rule: Rule, game: Game, columns: Columns) -> None:
        self._loop(len(game.noise), numba_window.dense_play, rule, game, columns)

    def _loop(self, count: int, loop: Callable[..., tuple[int, int, float, int]], *given: Any) -> None:
        """Run a compiled loop over `count` observations, which ends early wherever the window is full."""
        slots, done = self.window.slots(self.size), 0
        while True:
            done, rank, gain, floored = loop(
                self.arrays, slots, self.window.rank, self._information_gain, self._floored, *given, done
            )
            self.take(slots, rank, gain, floored)
            if done == count:
                return
            self.fold()
            slots[:] = -1

    def take(self, slots: Indices, rank: int, gain: float, floored: int) -> None:
        """Take over what a compiled loop counted.

        Parameters
        ----------
        slots
            Rows (n,) of the candidates in the window, -1 for none.
        rank
            Number of rows.
        gain
            Information gain, in nats.
        floored
            Number of floored variances.
        """
        self.window.take(slots, rank)
        self._information_gain, self._floored = gain, floored

    def fold(self) -> None:
        """Write a window of full rank into the covariance, and open a new one."""
        rank = self.window.rank
        # BLAS reads row-major (r, n) arrays as column-major (n, r) ones: F' = R' chol(S).
        folded = dtrmm(1.0, self.window.root(), self._rows[:rank].T, side=1, lower=1)
        dsyrk(-1.0, folded, beta=1.0, c=self._covariance.T, lower=1, overwrite_c=1)
        np.fill_diagonal(self._covariance, self._variance)  # which have lost less to rounding
        self.window.clear()
        self._factor = None

    def after_restore(self) -> None:
        self._factor = None

    def mean(self) -> Floats:
        return self._mean

    def variance(self) -> Floats:
        return self._variance

    def columns(self, candidates: NDArray[np.int64]) -> Floats:
        rank = self.window.rank
        rows = self._rows[:rank]
        out = np.empty((len(candidates), self.size))
        for p, column in zip(candidates, out, strict=True):
            numba_window.triangle_column(self._covariance, p, column)
            column -= (self.window.gram[:rank, :rank] @ rows[:, p]) @ rows
        return out

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw f minus its posterior mean at all candidates jointly and exactly, (n,).

        The covariance as the window opened is factored once a fold; the window's data enter by Matheron's rule (Wilson
        et al. 2020, section 3), so that a draw costs O(n^2), not O(n^3).
        """
        if self._factor is None:
            # Pivoted: a covariance of numerically low rank (smooth kernels) needs no jitter.
            lower, pivots, rank, _ = dpstrf(self._covariance.T, lower=1)
            self._factor = np.zeros((rank, self.size))
            self._factor[:, pivots - 1] = np.tril(lower[:, :rank]).T
        window = self.window
        rank = window.rank
        draw = np.zeros(self.size)
        numba_window.add_rows(draw, self._factor, len(self._factor), rng.standard_normal(len(self._factor)))
        innovation = draw[window.numbers] + rng.standard_normal(rank) / np.sqrt(window.precision[:rank])
        numba_window.condition_draw(draw, self._rows, window.gram, window.inverse, rank, innovation)
        return draw


def stacked(engines: Sequence[DenseEngine]) -> DenseArrays:
    """Return the engines' arrays stacked, with one more axis in front, of which each engine holds its part.

    Arrays that are not stacked yet are copied once.

    Parameters
    ----------
    engines
        Engines of the same size.
    """
    found = DenseArrays(*(held.base for held in engines[0].arrays))  # type: ignore[arg-type]  # None: no view
    if all(map(_holds, [found] * len(engines), range(len(engines)), engines)):
        return found
    made = DenseArrays(*(np.empty((len(engines), *held.shape)) for held in engines[0].arrays))
    for number, engine in enumerate(engines):
        engine.move(DenseArrays(*(whole[number] for whole in made)))
    return made


def _holds(stack: DenseArrays, number: int, engine: DenseEngine) -> bool:
    """Return whether an engine's arrays are views of the part of a stack with this number."""
    return all(
        whole is not None and held.base is whole and number < len(whole) and np.may_share_memory(held, whole[number])
        for held, whole in zip(engine.arrays, stack, strict=True)
    )


def in_step(engines: Sequence[DenseEngine]) -> bool:
    """Return whether the open windows of engines have the same points."""
    first, *others = (engine.window for engine in engines)
    return all(list(window.points) == list(first.points) for window in others)
