"""The sketched engine: what was learned is compressed, now and then, onto a random dictionary of queried points.

Source: Calandriello et al. 2019, section 3 (BKB), and 2020, section 4 (BBKB).

    observations since the last sketch condition the posterior exactly
    once they have added as many rows as the dictionary has points:
        p_i = min(1, qbar s^2(x_i) / noise_i) for every distinct queried point x_i                       (1)
        keep x_i in the dictionary S with probability p_i, by systematic sampling along the tiles      (2)
        z(x) = L^-1 k_S(x) with L L' = K_S, V = I + sum_i z(x_i) z(x_i)' / noise_i                     (3)
        mean(x) = z(x)' V^-1 sum_i z(x_i) y_i / noise_i                                                (4)
        s^2(x) = k(x, x) - z(x)' (I - V^-1) z(x)                                                       (5)

noise_i is the noise variance of the average at x_i. A sketch is one fold of the tiles (`tiles.py`): its points are S,
its coordinates the triangular T whose rows T^-1 k_S(x) have the products z(x)' (I - V^-1) z(x'); so rows follow the
dictionary, and cost n |S| a round, whatever t. Columns of covariances are computed for the points that would come
next if all values were as expected, many at a time.

Differs from the papers in: what was observed since a sketch is not projected on its dictionary but kept, which leaves
the accuracy of the sketch to all rounds in between (the papers draw anew in every round or batch, and lose the part
of a new point that the old dictionary does not span); a point's observations count together, with the noise of their
average; the draws are not independent, but spread over the space (of two neighbours one will do). Points that
rounding cannot tell from the span of others are left out of the dictionary, which loses nothing.
"""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, qr
from scipy.linalg.blas import dgemm, dsyrk, dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf, dpotri, dpstrf

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import Acquisition, EngineOptions
from scalable_bandits.posteriors.exact.window import Fold
from scalable_bandits.posteriors.sketched import _numba_lookahead as numba_guess
from scalable_bandits.posteriors.state import State, arrays, nested, part
from scalable_bandits.posteriors.tiled.engine import TiledEngine
from scalable_bandits.posteriors.tiled.ordering import best_of_groups, best_of_neighbours
from scalable_bandits.posteriors.tiled.tiles import Tiles
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Indices

SPAN = 1e-12  # of the prior variance: a dictionary point with less left over by the others adds nothing
RIDGES = (0.0, 1e-15, 1e-14, 1e-13)  # on the gram matrix, where rounding made it indefinite
POOL = 256  # candidates among which the next ones to be played are guessed
GROWTH = 1.0  # rows since the last sketch, as a fraction of its dictionary, before the next


class SketchedTiles(Tiles):
    """Tiles whose folds are replaced by a sketch when they outgrow it.

    Attributes
    ----------
    sketches : int
        Drawn so far.
    dictionary : ndarray
        Positions (m,) in the last one.
    """

    ahead = 32
    kept = 64

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats, oversampling: float, seed: int):
        super().__init__(kernel, points, prior_mean)
        self._oversampling, self._seed = oversampling, seed
        self._folds: list[Fold] = []  # a sketch, once there is one, and the windows since: whose rows the tiles have
        self.sketches = 0
        self.steepness = 0.0  # of the index in the standard deviation, at the last choice; the engine keeps it

    @property
    def dictionary(self) -> Indices:
        return self._folds[0].points if self.sketches else np.empty(0, dtype=np.int64)

    def outgrown(self) -> bool:
        kept = len(self.dictionary)
        return self._height - kept > GROWTH * kept + self.window.capacity

    def _left(self) -> int:
        """New points that will be observed before the next sketch, for which columns are computed anew."""
        kept, capacity = len(self.dictionary), self.window.capacity
        folds = int((kept + GROWTH * kept + capacity - self._height) // capacity) + 1
        return max(folds * capacity - self.window.rank, 1)

    def close(self) -> None:
        window = self.window
        rank = window.rank
        points = np.fromiter(window.points, dtype=np.int64, count=rank)
        coordinates, shift = window.coordinates[:rank, :rank].copy(), window.shift[:rank].copy()
        self._folds.append(Fold(points, coordinates, window.root(), shift))
        super().close()

    def refitted(self) -> Fold | None:
        positions, averages, noise = self._observed.collapsed()
        self.sketches += 1
        leverage = self.variance[positions] / noise
        chance = np.minimum(1.0, np.maximum(leverage, 1e-300) * self._oversampling)  # (1)
        kept = self._drawn(positions, chance)  # (2)
        points, coordinates = self._independent(kept)
        features = np.empty((len(positions), len(points)))
        self.kernel.fill(self.points[positions], self.points[points], features)
        features = np.asarray(dtrsm(1.0, coordinates, features.T, lower=1, overwrite_b=1))  # (3), (m, distinct)
        features *= 1.0 / np.sqrt(noise)
        gram, root = _gram(features)
        residuals = (averages - self._prior[0][positions]) / np.sqrt(noise)
        shift = features @ residuals
        for transposed in (0, 1):
            shift = np.asarray(dtrsv(root, shift, lower=1, trans=transposed))  # (4)
        # Rows gram' L^-1 k_S, turned so that one triangular matrix makes them: L gram^-T = turned Q, Q'Q = I.
        turned = qr(dtrsm(1.0, gram, coordinates, side=1, lower=1, trans_a=1).T, mode="r", overwrite_a=True)[0].T
        shift = np.asarray(turned.T @ dtrsv(coordinates, shift, lower=1, trans=1), dtype=np.float64)
        self._folds = [Fold(points, np.ascontiguousarray(turned), None, shift)]
        return self._folds[0]

    def _likely(self, p: int, noise_variance: float) -> Indices:
        """p, and what would be played after it if all values were as expected, as far as it is not cached."""
        scores = self.promise.copy()
        scores[p] = np.inf
        pool = best_of_groups(*best_of_neighbours(scores, self._neighbours)[1:], POOL)
        across = self._across(pool, self._height)
        covariance = np.empty((len(pool), len(pool)))
        self.kernel.fill(self.points[pool], self.points[pool], covariance)
        dgemm(-1.0, across.T, across.T, trans_a=1, beta=1.0, c=covariance.T, overwrite_c=1)
        rank, rows_at = self.window.rank, self._window_rows(pool)
        covariance -= rows_at @ self.window.gram[:rank, :rank] @ rows_at.T
        known = np.array([q in self._ahead.slots or q in self.window.points for q in pool.tolist()])
        steps = numba_guess.sequence(
            covariance, self.promise[pool], self.steepness, noise_variance, known, int(np.flatnonzero(pool == p)[0]),
            min(self._ahead.batch_size(self._observed), self._left()), 4 * self._ahead.most,
        )  # fmt: skip
        return pool[steps]

    def _drawn(self, positions: Indices, chance: Floats) -> Indices:
        """Positions kept, each with its chance, by one random number: where the running sum of chances steps up."""
        order = np.argsort(positions)
        start = generator(self._seed, "sketch", self.sketches).random()
        steps = np.diff(np.floor(np.cumsum(chance[order]) + start), prepend=0.0)
        kept = positions[order[steps > 0]]
        return kept if len(kept) else positions[[np.argmax(chance)]]

    def _independent(self, points: Indices) -> tuple[Indices, Floats]:
        """Points whose covariance has full rank, and its Cholesky factor."""
        matrix = np.empty((len(points), len(points)))
        self.kernel.fill(self.points[points], self.points[points], matrix)
        tolerance = SPAN * float(matrix.diagonal().max())
        lower, pivots, rank, _ = dpstrf(matrix.T, tol=tolerance, lower=1, overwrite_a=1)
        return points[pivots[:rank] - 1], np.asfortranarray(np.tril(lower[:rank, :rank]))

    def state(self) -> State:
        held = arrays(sketches=self.sketches, steepness=self.steepness, folds=len(self._folds))
        folds = {
            str(i): arrays(**{k: v for k, v in f._asdict().items() if v is not None}) for i, f in enumerate(self._folds)
        }
        return {**super().state(), **held, **nested(fold=nested(**folds))}

    def restore(self, state: State) -> None:
        super().restore(state)
        folds = [part(state, f"fold.{i}") for i in range(int(state["folds"]))]
        self._folds = [Fold(f["points"], f["coordinates"], f.get("root"), f["shift"]) for f in folds]
        self.sketches, self.steepness = int(state["sketches"]), float(state.get("steepness", 0.0))

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Posterior mean minus prior mean, and variance, at any points x (k, d): two (k,) arrays."""
        mean, variance = np.zeros(len(x)), self.kernel.diagonal(x).astype(np.float64)
        held = np.empty((self._height, len(x)))
        height = 0
        for fold in self._folds:
            rows = self._rows_at(x, fold.points, fold.coordinates, held[:height])
            mean += fold.shift @ rows
            if fold.root is not None:
                rows = fold.root.T @ rows
            variance -= np.einsum("ij,ij->j", rows, rows)
            held[height : height + len(rows)] = rows
            height += len(rows)
        rank = self.window.rank
        if rank:
            points = np.fromiter(self.window.points, dtype=np.int64, count=rank)
            rows = self._rows_at(x, points, self.window.coordinates[:rank, :rank], held)
            mean += self.window.shift[:rank] @ rows
            variance -= np.einsum("ij,ij->j", rows, self.window.gram[:rank, :rank] @ rows)
        return mean, np.maximum(variance, 0.0)

    def _rows_at(self, x: Floats, points: Indices, coordinates: Floats, held: Floats) -> Floats:
        """Rows coordinates^-1 K_l(P, x) at any points x, where the rows before them are `held` (height, k)."""
        cross = np.empty((len(points), len(x)))
        self.kernel.fill(self.points[points], x, cross)
        cross -= self._across(points, len(held)) @ held
        return np.asarray(dtrsm(1.0, np.asfortranarray(coordinates), np.asfortranarray(cross), lower=1))


def _gram(features: Floats) -> tuple[Floats, Floats]:
    """Cholesky factors of I - V^-1 and of V = I + F F', for features F (m, k): two (m, m) lower triangular arrays."""
    size = len(features)
    root, failed = dpotrf(dsyrk(1.0, features, lower=1, beta=1.0, c=np.eye(size, order="F")), lower=1, clean=1)
    inverse, also = dpotri(root, lower=1)
    for ridge in RIDGES:
        factor, indefinite = dpotrf(np.eye(size) * (1.0 + ridge) - np.tril(inverse), lower=1, clean=1)
        if not (failed or also or indefinite):
            return np.asarray(factor), np.asarray(root)
    raise LinAlgError("a sketch's gram matrix is indefinite beyond rounding")


class SketchedEngine(TiledEngine):
    """Approximate posterior whose cost a round follows the size of a random dictionary, not the distinct points.

    See `Engine` for the interface.

    Parameters
    ----------
    kernel, points, prior_mean
        As for `Engine`.
    oversampling
        qbar: larger is nearer to the exact posterior and slower; infinite keeps every queried point.
    seed
        Seed of the random dictionary.
    """

    exact: ClassVar[bool] = False
    predicts: ClassVar[bool] = True
    sharded: ClassVar[bool] = False

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats, oversampling: float = 1.5, seed: int = 0):
        self._oversampling, self._seed = oversampling, seed
        super().__init__(kernel, points, prior_mean)

    @classmethod
    def build(cls, kernel: Kernel, points: Floats, prior_mean: Floats, options: EngineOptions) -> Self:
        return cls(kernel, points, prior_mean, options.oversampling, options.seed)

    def tiled(self, points: Floats, prior_mean: Floats) -> Tiles:
        return SketchedTiles(self.kernel, points, prior_mean, self._oversampling, self._seed)

    def maximize(
        self,
        acquisition: Acquisition,
        salt: int,
        allowed: NDArray[np.bool_] | None = None,
        reduction: Floats | None = None,
    ) -> tuple[int, float]:
        candidate, best = super().maximize(acquisition, salt, allowed, reduction)
        mean, variance = (each[self._position[[candidate]]] for each in (self._tiles.mean, self._tiles.variance))
        if variance[0] > 0.0:
            fall = acquisition(mean, variance) - acquisition(mean, 0.25 * variance)
            assert isinstance(self._tiles, SketchedTiles)
            self._tiles.steepness = float(2.0 * fall[0] / np.sqrt(variance[0]))
        return candidate, best

    @property
    def dictionary(self) -> Indices:
        """Candidates (m,) in the last sketch."""
        assert isinstance(self._tiles, SketchedTiles)
        return self._numbers[self._tiles.dictionary]

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Posterior mean minus prior mean, and variance, at any points x (k, d): two (k,) arrays."""
        assert isinstance(self._tiles, SketchedTiles)
        return self._tiles.predict(x)
