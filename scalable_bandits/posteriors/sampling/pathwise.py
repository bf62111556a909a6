"""Pathwise draws: sample paths of the posterior, on a whole box, and on millions of candidates at few of them.

Source: Wilson et al. 2020, eq. 13 (decoupled samples).

    f(x) = m(x) + k(x, X) (K + N)^-1 (y - m(X)) + v (phi(x)'w - k(x, X) (K + N)^-1 (phi(X)'w + e))

w is standard normal, e normal with covariance N, and v the width. The prior is drawn by finitely many features
(`features.py`), the update by the data is exact. On a whole box a path is a smooth function with gradients.

Among candidates, the largest value of a path is searched for in two steps. The candidates are divided into groups of
neighbours, and the path is evaluated at one anchor of each group. Then it is evaluated at all candidates of the groups
with the best anchors, until the next anchor is further below the best value than any group rose above its own anchor,
or 64 groups. This finds the maximum in four draws of five, and otherwise a value some hundredths of a prior deviation
below it (tests/posteriors/test_features.py).
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.surface import PriorMean, SmoothIndex, constant_mean
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.posteriors.regression import covariances, grown, positive_factor
from scalable_bandits.posteriors.sampling.features import Features
from scalable_bandits.posteriors.tiled.ordering import spatial_order
from scalable_bandits.spaces import Indices, Mask

ANCHORS = 4096  # groups that a large space is divided into
GROUPS_AT_ONCE = 8  # groups whose candidates are evaluated together
MOST_GROUPS = 64  # largest number of groups whose candidates are evaluated
CHUNK = 8192  # candidates evaluated at a time


class PathwiseEngine(BoxEngine):
    """Exact posterior from the factor of the observations' covariance, with draws of sample paths.

    See `Engine` for the interface; `mean`, `variance` and `argmax` without `allowed` evaluate all candidates.

    Parameters
    ----------
    kernel
        Prior covariance, stationary.
    points
        (n, d) coordinates of the candidates.
    prior_mean
        (n,) prior mean at the candidates, in units of y.
    features
        Features with which the prior is drawn.
    """

    limit: ClassVar[int] = 20_000_000

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats, features: Features):
        super().__init__(kernel, points.shape[1], constant_mean(0.0))  # which is not used
        self.points, self.size, self._prior, self._features = points, len(points), prior_mean, features
        order, width = spatial_order(points, 64), max(1, -(-self.size // ANCHORS))
        self._groups = [order[i : i + width] for i in range(0, self.size, width)]
        self._anchors = np.array([group[_most_central(points[group])] for group in self._groups])
        self._anchor_covariances = np.empty((0, len(self._anchors)))
        self._anchored = 0  # rows of these that are filled

    def after_restore(self) -> None:
        super().after_restore()
        self._anchored = 0

    # ---- posteriors

    @property
    def _seen(self) -> Indices:
        """Distinct candidates observed (m,)."""
        return np.array(self.observed, dtype=np.int64)

    def _root(self) -> tuple[Floats, bool]:
        """Return the factor (m, m), and that it is lower triangular, as `cho_solve` takes it."""
        return self._factor[: self._count, : self._count], True

    def _mean_weights(self, x: Indices) -> Floats:
        """Return the weights (m,) of the covariances with the observed candidates x (m,) in the posterior mean."""
        averages = self._sums[: len(x), 1] / self._sums[: len(x), 0]
        return np.asarray(cho_solve(self._root(), averages - self._prior[x]))

    def at(self, candidates: Indices) -> tuple[Floats, Floats]:
        mean, variance = self._prior[candidates].copy(), self.kernel.diagonal(self.points[candidates])
        if len(x := self._seen):
            alpha = self._mean_weights(x)
            for i in range(0, len(candidates), CHUNK):
                some = slice(i, i + CHUNK)
                cross = self._cross(x, candidates[some])
                mean[some] += alpha @ cross
                solved = solve_triangular(self._root()[0], cross, lower=True)
                variance[some] -= np.einsum("ij,ij->j", solved, solved)
        return mean, np.maximum(variance, 0.0)

    def _cross(self, x: Indices, candidates: Indices) -> Floats:
        return covariances(self.kernel, self.points[x], self.points[candidates])

    def columns(self, candidates: Indices) -> Floats:
        starts = range(0, self.size, CHUNK)
        return np.hstack([self.covariance(self.points[candidates], self.points[i : i + CHUNK]) for i in starts])

    # ---- draws

    def path(self, rng: np.random.Generator, width: float, pending: Indices, noise_variance: float) -> Path:
        """Draw from GP(mean, width^2 covariance), given that pending points will be observed.

        Parameters
        ----------
        rng
            Random generator, of the weights of the features first, then of the noise.
        width
            Factor of the deviation from the mean.
        pending
            (q,) pending candidates, each as often as it is pending.
        noise_variance
            Noise variance of the values of pending candidates, in squared units of y.
        """
        features, x, root = self._features, self._seen, self._root()
        mean_weights = self._mean_weights(x) if len(x) else np.empty(0)
        weights, noise = rng.standard_normal(2 * len(features.amplitudes)), self.noise_variances
        if len(pending):
            x, noise = self._with_pending(pending, x, noise, noise_variance)
            root = positive_factor(self.kernel.block(self.points[x]), noise), True
        correction = np.empty(0)
        if len(x):
            drawn = features.combined(self.points[x], weights) + rng.standard_normal(len(x)) * np.sqrt(noise)
            correction = -width * cho_solve(root, drawn)
            correction[: len(mean_weights)] += mean_weights
        return Path(width * weights, x, correction)

    def _with_pending(
        self, pending: Indices, seen: Indices, noise: Floats, noise_variance: float
    ) -> tuple[Indices, Floats]:
        """Return the distinct observed and then pending points, and their noise variances with both counted."""
        distinct, counts = np.unique(pending, return_counts=True)
        x = np.append(seen, distinct[~np.isin(distinct, seen)])
        precision = np.append(1.0 / noise, np.zeros(len(x) - len(noise)))
        where = {candidate: i for i, candidate in enumerate(x.tolist())}
        precision[[where[c] for c in distinct.tolist()]] += counts / noise_variance
        return x, 1.0 / precision

    def values(self, path: Path, candidates: Indices) -> Floats:
        """Evaluate a path at some candidates, (k,)."""
        out = self._prior[candidates] + self._features.combined(self.points[candidates], path.weights)
        return out + path.correction @ self._cross(path.x, candidates) if len(path.x) else out

    def highest(self, path: Path, salt: int, allowed: Mask | None = None) -> int:
        """Find the candidate of a path's largest value, among all if they are few, else in the groups of best anchors.

        Parameters
        ----------
        path
            Sample path.
        salt
            Seed of the tie-breaking hash.
        allowed
            (n,) mask of the candidates to choose from; all if not given.
        """
        if len(self._groups[0]) == 1 or (allowed is not None and allowed.sum() <= ANCHORS):
            candidates = np.arange(self.size) if allowed is None else np.flatnonzero(allowed)
            index = self._in_chunks(path, candidates)
        else:
            candidates, index = self._in_best_groups(path, allowed)
        return int(candidates[choose(index, salt, None, candidates)[0]])

    def _in_chunks(self, path: Path, candidates: Indices) -> Floats:
        starts = range(0, len(candidates), CHUNK)
        return np.concatenate([self.values(path, candidates[i : i + CHUNK]) for i in starts])

    def _in_best_groups(self, path: Path, allowed: Mask | None) -> tuple[Indices, Floats]:
        """Return the candidates of the groups with the best anchors, and the path there."""
        anchors = self._at_anchors(path)
        order = np.argsort(-anchors, kind="stable")
        seen: list[tuple[Indices, Floats]] = []
        best, rise = -np.inf, 0.0
        for i in range(0, len(order), GROUPS_AT_ONCE):
            if i and best > -np.inf and (i >= MOST_GROUPS or anchors[order[i]] + rise < best):
                break
            some = order[i : i + GROUPS_AT_ONCE]
            candidates = np.concatenate([self._groups[group] for group in some.tolist()])
            values = self._in_chunks(path, candidates)
            lengths = [len(self._groups[group]) for group in some.tolist()]
            rise = max(rise, float(np.max(values - np.repeat(anchors[some], lengths))))
            if allowed is not None:
                candidates, values = candidates[allowed[candidates]], values[allowed[candidates]]
            best = max(best, float(np.max(values, initial=-np.inf)))
            seen.append((candidates, values))
        return np.concatenate([c for c, _ in seen]), np.concatenate([v for _, v in seen])

    def _at_anchors(self, path: Path) -> Floats:
        """Evaluate a path at the anchors, whose covariances with the observed points are stored."""
        out = self._prior[self._anchors] + self._features.combined(self.points[self._anchors], path.weights)
        seen, held = self._seen, self._anchored
        known = len(seen)
        if known > len(self._anchor_covariances):
            self._anchor_covariances = grown(self._anchor_covariances, max(2 * known, 64), len(self._anchors))
        if known > held:
            self._anchor_covariances[held:known] = self._cross(seen[held:], self._anchors)
            self._anchored = known
        out += path.correction[:known] @ self._anchor_covariances[:known]
        if len(path.x) > known:
            out += path.correction[known:] @ self._cross(path.x[known:], self._anchors)
        return out


def _most_central(points: Floats) -> int:
    """Return the number of the point, of some (k, d), that is nearest to the middle of their bounding box."""
    middle, size = (points.max(axis=0) + points.min(axis=0)) / 2.0, np.maximum(np.ptp(points, axis=0), 1e-300)
    return int(np.argmin((((points - middle) / size) ** 2).sum(axis=1)))


class Path(NamedTuple):
    """Sample path: prior mean, a sum of features, and a sum of covariance functions k(., x) that fits the data."""

    weights: Floats  # (2 m,) weights of the features
    x: Indices  # (q,) candidates of the covariance functions
    correction: Floats  # (q,) weights of the covariance functions


# ---- whole boxes


class PathSurface:
    """Sample path with its gradient: a `SearchSurface` of variance 0, whose index has to be its mean.

    Parameters
    ----------
    kernel, prior_mean
        Prior of the process.
    features
        Features of the draw from the prior.
    weights
        Weights (2 m,) of the features, in units of y.
    points
        Observed and pending points (q, d), in units of x.
    correction
        Weights (q,) of the covariance functions at these points.
    """

    def __init__(
        self, kernel: Kernel, prior_mean: PriorMean, features: Features, weights: Floats, points: Floats,
        correction: Floats,
    ):  # fmt: skip
        self.kernel, self.prior_mean, self.features, self.weights = kernel, prior_mean, features, weights
        self.points, self.correction = points, correction

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the path at points x (k, d), and zeros: two (k,) arrays."""
        values = self.prior_mean.values(x) + self.features.combined(x, self.weights)
        return values + covariances(self.kernel, x, self.points) @ self.correction, np.zeros(len(x))

    def index(self, index: SmoothIndex, x: Floats) -> tuple[Floats, Floats]:
        """Return an index of the path at points x (k, d), shape (k,), and its gradient (k, d)."""
        values, zeros = self.predict(x)
        by_value, _ = index.slopes(values, zeros)
        slope = self.prior_mean.slopes(x) + self.features.slopes(x, self.weights)
        if len(self.points):
            pulls = np.repeat(self.correction[:, None], len(x), axis=1)
            self.kernel.slope(self.points, x, pulls, slope)
        return index(values, zeros), by_value[:, None] * slope


def draw_path(
    engine: BoxEngine, features: Features, width: float, pending: Floats, noise_variance: float,
    rng: np.random.Generator,
) -> PathSurface:  # fmt: skip
    """Draw from GP(mean, width^2 covariance), given that pending points will be observed.

    Parameters
    ----------
    engine
        Engine with the observations.
    features
        Features that approximate the prior.
    width
        Factor of the deviation from the mean.
    pending
        Pending points (q, d), repeated as often as they are pending.
    noise_variance
        Noise variance of the pending points, in squared units of y.
    rng
        Random generator of the features' weights, then of the noise.
    """
    surface = engine.surface(pending, noise_variance)
    noise = np.append(engine.noise_variances, np.full(len(pending), noise_variance))
    weights = rng.standard_normal(2 * len(features.amplitudes))
    drawn = features.combined(surface.points, weights) + rng.standard_normal(len(noise)) * np.sqrt(noise)
    correction = surface.weights - width * surface.solve(drawn)
    return PathSurface(engine.kernel, surface.prior_mean, features, width * weights, surface.points, correction)
