"""The engine of a whole box: the posterior at any point, given the observed points.

A round costs O(m^2) for m distinct points: the Cholesky factor grows by a row with every new point. An observation at
an observed point changes the noise of its row, and the factor is computed anew.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.box.queried import QueriedEngine
from scalable_bandits.posteriors.box.surface import PriorMean, Surface, appended, inverse_factor
from scalable_bandits.posteriors.regression import covariances, grown, positive_factor
from scalable_bandits.posteriors.state import State, StateEntry, array, value
from scalable_bandits.spaces import Indices

FEWEST = 8  # number of rows for which there is room at first: the cells of a partition have few


class BoxEngine(QueriedEngine):
    """Exact posterior of a whole box.

    Parameters
    ----------
    kernel
        Prior covariance.
    dimension
        Dimension d of the points.
    prior_mean
        Prior mean with its gradient, in units of y.
    appends
        Whether the inverse of the factor grows by a row too, instead of being computed anew when it is needed: faster
        if every observation is followed by a maximisation, with other last digits.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        value("slots", "(m,)", np.int64, lambda self: list(self._slots)),  # restored by `before_restore`
        array("_sums", "(m, 2)", used="_count"),
        array("_factor", "(m, m)", used=("_count", "_count")),
    )

    def __init__(self, kernel: Kernel, dimension: int, prior_mean: PriorMean, appends: bool = False):
        super().__init__(kernel, np.empty((0, dimension)), np.empty(0))
        self._prior_mean = prior_mean
        self._slots: dict[int, int] = {}  # row of a candidate
        self._x = np.empty((0, dimension))
        self._sums = np.empty((0, 2))  # precision and precision-weighted sum of y of each row
        self._matrix = np.empty((0, 0))
        self._factor = np.empty((0, 0))
        self._surface: Surface | None = None
        self._appends = appends
        self._inverse = np.empty((0, 0), order="F")  # inverse of the factor if `appends`, else empty

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        slot, m = self._slots.get(candidate, -1), len(self._slots)
        x = self.points[[candidate]]
        if slot < 0:
            self._reserve(m + 1)
            self._slots[candidate], self._x[m], self._sums[m] = m, x[0], 0.0
            self._matrix[m, : m + 1] = covariances(self.kernel, x, self._x[: m + 1])[0]
        row, prior = self._solve(m, covariances(self.kernel, self._x[:m], x)[:, 0]), float(self.kernel.diagonal(x)[0])
        before = prior - float(row @ row)
        lost = not before >= 0.0  # by rounding
        before = 0.0 if lost else before
        self._sums[m if slot < 0 else slot] += 1.0 / noise_variance, y / noise_variance
        if slot >= 0 or lost:
            self._factorize()
        else:
            self._factor[m, :m], self._factor[m, m] = row, np.sqrt(before + noise_variance)
            if self._appends:
                self._inverse = appended(self._inverse, row, self._factor[m, m])
        self._add_gain(before, noise_variance)
        self._surface = None

    def observe_all(self, candidates: Indices, ys: Floats, noise_variances: Floats) -> None:
        m = len(candidates)
        if self._slots or not m:
            return super().observe_all(candidates, ys, noise_variances)
        self._reserve(m)
        self._slots = dict(zip(candidates.tolist(), range(m), strict=True))
        self._x[:m] = self.points[candidates]
        self._sums[:m] = np.column_stack([np.ones(m), ys]) / noise_variances[:, None]
        self._matrix[:m, :m] = covariances(self.kernel, self._x[:m], self._x[:m])
        self._factorize()
        roots = self._factor.diagonal()[:m] / np.sqrt(noise_variances)
        self.gain[0] += float(np.log(roots).sum())  # 1/2 log(1 + s^2 / noise) of each, given those before
        self._surface = None

    @property
    def observed(self) -> list[int]:
        """Observed candidates, in the order of their first observations."""
        return list(self._slots)

    @property
    def nbytes(self) -> int:
        """Approximate memory of the factor, its matrix and their copies."""
        return 32 * max(FEWEST, 2 * len(self._slots)) ** 2

    @property
    def noise_variances(self) -> Floats:
        """Noise variances (m,) of the averages at the observed points, in squared units of y."""
        return 1.0 / self._sums[: len(self._slots), 0]

    def _solve(self, m: int, right: Floats, transposed: bool = False) -> Floats:
        """Return L^-1 right, or L^-T right, for the factor L of the first m rows."""
        if self._appends:
            return np.asarray((self._inverse.T if transposed else self._inverse) @ right)
        if not m:
            return right
        factor, trans = self._factor[:m, :m], "T" if transposed else "N"
        return np.asarray(solve_triangular(factor, right, lower=True, trans=trans, check_finite=False))  # type: ignore[call-overload]

    def _reserve(self, count: int) -> None:
        """Enlarge the arrays to at least `count` rows, by half their size at once, so that growing costs little."""
        size = len(self._x)
        if count > size:
            room = max(count, size + size // 2, FEWEST)
            self._x, self._sums = grown(self._x, room, self._x.shape[1]), grown(self._sums, room, 2)
            self._matrix, self._factor = grown(self._matrix, room, room), grown(self._factor, room, room)

    def _factorize(self) -> None:
        """Compute the factor anew, with jitter if rounding made the matrix indefinite."""
        m = len(self._slots)
        self._factor[:m, :m] = positive_factor(self._matrix[:m, :m], 1.0 / self._sums[:m, 0])
        if self._appends:
            self._inverse = inverse_factor(self._factor[:m, :m])

    def surface(
        self, pending: Floats | None = None, noise_variances: float | Floats = 0.0, values: Floats | None = None
    ) -> Surface:
        m = len(self._slots)
        if self._surface is None:
            residuals = self._sums[:m, 1] / self._sums[:m, 0] - self._prior_mean.values(self._x[:m])
            weights = self._solve(m, self._solve(m, residuals), transposed=True)
            self._surface = Surface(
                self.kernel, self._x[:m], self._factor[:m, :m], weights, self._prior_mean,
                self._inverse if self._appends else None,
            )  # fmt: skip
        if pending is None or not len(pending):
            return self._surface
        every, noises = np.concatenate([self._x[:m], pending]), np.broadcast_to(noise_variances, len(pending))
        factor = np.zeros((len(every), len(every)))
        factor[:m, :m] = self._factor[:m, :m]
        for i in range(m, len(every)):
            right = covariances(self.kernel, every[:i], every[[i]])[:, 0]
            row = solve_triangular(factor[:i, :i], right, lower=True, check_finite=False) if i else right
            rest = max(float(self.kernel.diagonal(every[[i]])[0]) - float(row @ row), 0.0)
            factor[i, :i], factor[i, i] = row, np.sqrt(rest + noises[i - m])
        known = self._surface.weights if values is None else self._weights(every, factor, values)
        weights = np.append(known, np.zeros(len(every) - len(known)))
        return Surface(self.kernel, every, factor, weights, self._prior_mean)

    def _weights(self, every: Floats, factor: Floats, values: Floats) -> Floats:
        """Return the weights of the observed points and of the p points after them in `every`, with values (p,)."""
        m = len(self._slots)
        known = m + len(values)
        averages = np.append(self._sums[:m, 1] / self._sums[:m, 0], values)
        residuals = averages - self._prior_mean.values(every[:known])
        return np.asarray(cho_solve((factor[:known, :known], True), residuals, check_finite=False))

    def covariance(self, x: Floats, other: Floats) -> Floats:
        m = len(self._slots)
        rows, columns = covariances(self.kernel, self._x[:m], x), covariances(self.kernel, self._x[:m], other)
        solved = self._solve(m, self._solve(m, rows), transposed=True)
        return covariances(self.kernel, x, other) - solved.T @ columns

    @property
    def _count(self) -> int:
        return len(self._slots)

    def before_restore(self, state: State) -> None:
        """Make room; `points` must have all candidates of the state already."""
        self._slots = {candidate: slot for slot, candidate in enumerate(state["slots"].tolist())}
        self._reserve(self._count)

    def after_restore(self) -> None:
        """Recompute the points observed, and their covariance."""
        m = self._count
        self._x[:m] = self.points[list(self._slots)]
        self._matrix[:m, :m] = covariances(self.kernel, self._x[:m], self._x[:m])
        self._surface = None
