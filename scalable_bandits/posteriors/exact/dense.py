"""Dense recursive engine: the n x n posterior covariance, for spaces of up to a few thousand candidates.

Source: Chowdhury & Gopalan 2017, appendix F. The rank-one updates are collected in a window (`window.py`) and folded
into the covariance by one symmetric rank-r update of its upper triangle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.linalg.blas import dsyrk, dtrmm
from scipy.linalg.lapack import dpotrf, dpstrf

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import Engine
from scalable_bandits.posteriors.exact import _numba_window as numba_window
from scalable_bandits.posteriors.exact._numba_window import DenseArrays
from scalable_bandits.posteriors.regression import covariances
from scalable_bandits.posteriors.rounds import Columns, Game, Rule
from scalable_bandits.posteriors.state import array
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
        array("arrays.covariance", "(n, n)"),
        array("arrays.rows", "(r, n)", used="rank"),
        array("arrays.gram", "(capacity, capacity)"),
        array("arrays.inverse", "(capacity, capacity)"),
        array("arrays.shift", "(capacity,)"),
        array("arrays.precision", "(capacity,)"),
        array("arrays.slots", "(n,)", np.int64),
        array("arrays.rank", "(1,)", np.int64),
    )

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats):
        super().__init__(kernel, points, prior_mean)
        n, capacity = self.size, min(WINDOW, self.size)
        self.arrays = DenseArrays(
            covariances(kernel, points, points), self._mean, self._variance, np.empty((capacity, n)),
            np.zeros((capacity, capacity)), np.zeros((capacity, capacity)), np.zeros(capacity), np.zeros(capacity),
            np.zeros(capacity), np.empty(n), np.full(n, -1), np.zeros(1, dtype=np.int64), self.gain,
        )  # fmt: skip
        self._factor: Floats | None = None  # (rank, n), transposed, of the covariance as the window opened

    def move(self, arrays: DenseArrays) -> None:
        """Copy the arrays into others of the same shapes, and hold those from now on."""
        for held, room in zip(self.arrays, arrays, strict=True):
            room[...] = held
        self.arrays = arrays
        self._mean, self._variance, self.gain = arrays.mean, arrays.variance, arrays.gain

    @property
    def rank(self) -> int:
        """Number r of distinct points in the window."""
        return int(self.arrays.rank[0])

    @property
    def window(self) -> Indices:
        """Points (r,) of the window, in the order of their rows."""
        inside = np.flatnonzero(self.arrays.slots >= 0)
        return inside[np.argsort(self.arrays.slots[inside])]

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        if not numba_window.dense_observe(self.arrays, candidate, y, noise_variance):
            self.fold()
            numba_window.dense_observe(self.arrays, candidate, y, noise_variance)

    def observe_all(self, candidates: Indices, ys: Floats, noise_variances: Floats) -> None:
        self._loop(len(ys), numba_window.dense_observe_all, candidates, ys, noise_variances)

    def play(self, rule: Rule, game: Game, columns: Columns) -> None:
        self._loop(len(game.noise), numba_window.dense_play, rule, game, columns)

    def _loop(self, count: int, loop: Callable[..., int], *given: Any) -> None:
        """Run a compiled loop over `count` observations, which ends early wherever the window is full."""
        done = loop(self.arrays, *given, 0)
        while done < count:
            self.fold()
            done = loop(self.arrays, *given, done)

    def fold(self) -> None:
        """Write a window of full rank into the covariance, and open a new one."""
        arrays, rank = self.arrays, self.rank
        root, _ = dpotrf(arrays.gram[:rank, :rank], lower=1, clean=1)  # never smaller than the identity
        # BLAS reads row-major (r, n) arrays as column-major (n, r) ones: F' = R' chol(S).
        folded = dtrmm(1.0, root, arrays.rows[:rank].T, side=1, lower=1)
        dsyrk(-1.0, folded, beta=1.0, c=arrays.covariance.T, lower=1, overwrite_c=1)
        np.fill_diagonal(arrays.covariance, arrays.variance)  # which have lost less to rounding
        arrays.slots[:], arrays.rank[:], self._factor = -1, 0, None

    def after_restore(self) -> None:
        self._factor = None

    def columns(self, candidates: Indices) -> Floats:
        arrays, rank = self.arrays, self.rank
        rows = arrays.rows[:rank]
        out = np.empty((len(candidates), self.size))
        for p, column in zip(candidates, out, strict=True):
            numba_window.triangle_column(arrays.covariance, p, column)
            column -= (arrays.gram[:rank, :rank] @ rows[:, p]) @ rows
        return out

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw f minus its posterior mean at all candidates jointly and exactly, (n,).

        The covariance as the window opened is factored once a fold; the window's data enter by Matheron's rule (Wilson
        et al. 2020, section 3), so that a draw costs O(n^2), not O(n^3).
        """
        arrays, rank = self.arrays, self.rank
        if self._factor is None:
            # Pivoted: a covariance of numerically low rank (smooth kernels) needs no jitter.
            lower, pivots, size, _ = dpstrf(arrays.covariance.T, lower=1)
            self._factor = np.zeros((size, self.size))
            self._factor[:, pivots - 1] = np.tril(lower[:, :size]).T
        draw = np.zeros(self.size)
        numba_window.add_rows(draw, self._factor, len(self._factor), rng.standard_normal(len(self._factor)))
        innovation = draw[self.window] + rng.standard_normal(rank) / np.sqrt(arrays.precision[:rank])
        numba_window.condition_draw(draw, arrays.rows, arrays.gram, arrays.inverse, rank, innovation)
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
    made = DenseArrays(*(np.empty((len(engines), *held.shape), held.dtype) for held in engines[0].arrays))
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
    first, *others = (engine.arrays.slots for engine in engines)
    return all(np.array_equal(slots, first) for slots in others)
