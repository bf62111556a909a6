"""Synthetic functions: of known RKHS norm, drawn from a Gaussian process, or given by the user."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve, cholesky, eigh
from scipy.spatial.distance import cdist

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments.base import KNOWN, TABLE_LIMIT, Environment, extreme, tabulated
from scalable_bandits.environments.noise import GaussianNoise, Noise
from scalable_bandits.environments.tables import TableEnvironment
from scalable_bandits.forked import ForkedChildrenEnd
from scalable_bandits.kernels import Kernel
from scalable_bandits.kernels.stationary import Stationary
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import FiniteSpace, Grid, Indices, Space
from scalable_bandits.spaces.finite import counted

AT_ONCE = 4096  # blocks that are cut in one step
MOST_BOUNDS = 30_000_000  # kernel functions times dimensions to bound, below a second, before the search is given up
PATIENT = 300, 1_000_000_000  # factor of this on grids of at most so many candidates
RADII = 26  # number of radii around centers
HIGHEST = 20  # number of centers from which the maximum on a box is searched
SLACK = 1e-11  # slack as a share of the sum of absolute weights, larger than the rounding of a bound


def grid_maximum(
    evaluate: Callable[[Floats], Floats], space: Grid, kernel: Stationary, centers: Floats, weights: Floats
) -> float:
    """Return the largest value of f = sum over i of weights_i k(centers_i, .) on a grid, in units of y.

    Found by branch and bound, for grids too large for a table. On a block of the grid every kernel function with a
    positive weight is at most its value at the point of the block that is nearest to its center, every other one at
    most that at the farthest. Blocks whose bound is below the largest value found so far are left out, the others are
    cut in two. The first blocks surround the centers as far as a bound leaves the largest value open.

    Parameters
    ----------
    evaluate
        Function from points (k, d) to f (k,).
    space
        Grid.
    kernel
        Stationary kernel, which decreases with the distance.
    centers, weights
        Centers (m, d), in units of x, and weights (m,) of the kernel functions.

    Raises
    ------
    ValueError
        If the bounds leave too many blocks open: many dimensions, and kernel functions that are wide for them.
    """
    axes = [Grid([bounds], side).points()[:, 0] for bounds, side in zip(space.bounds, space.sides, strict=True)]
    scale = kernel.inverse(space.dimension)
    slack = SLACK * float(np.abs(weights).sum())
    tops = centers[weights > 0.0] if (weights > 0.0).any() else centers
    around = np.stack([_nearest(tops[:, j], axis) for j, axis in enumerate(axes)], axis=1)
    best = float(evaluate(space.at(around)).max())
    first, last = _first_blocks(axes, scale, kernel, centers, weights, best - slack)
    bounds, left_to_do = np.full(len(first), np.inf), MOST_BOUNDS * (PATIENT[0] if space.size <= PATIENT[1] else 1)
    while len(bounds):
        order = np.argsort(-bounds, kind="stable")
        now, later = order[:AT_ONCE], order[AT_ONCE:]
        low, high = _halves(first[now], last[now], axes, scale)
        left_to_do -= low.size * len(centers)
        if left_to_do < 0:
            given = f"{counted(space.size)} candidates, of which bounds do not find the largest value"
            checks.refuse("space", given, f"fewer dimensions, shorter lengthscales, or {KNOWN}")
        middle = space.at((low + high) // 2)
        best = max(best, float(evaluate(middle).max()))
        found = _bounds(low, high, axes, scale, kernel, centers, weights)
        open_ = (found > best - slack) & (low < high).any(axis=1)
        first, last = np.concatenate([first[later], low[open_]]), np.concatenate([last[later], high[open_]])
        bounds = np.concatenate([bounds[later], found[open_]])
        left = bounds > best - slack
        first, last, bounds = first[left], last[left], bounds[left]
    return best


def _nearest(coordinates: Floats, axis: Floats) -> Indices:
    """Return the numbers of steps (n,) along an axis to the values nearest to coordinates (n,)."""
    return np.abs(axis - coordinates[:, None]).argmin(axis=1)


def _offsets(coordinates: Floats, axis: Floats) -> Floats:
    """Return the distances (n,) of coordinates (n,) from the nearest values of an axis."""
    return np.abs(axis[_nearest(coordinates, axis)] - coordinates)


def _first_blocks(
    axes: list[Floats], scale: Floats, kernel: Stationary, centers: Floats, weights: Floats, enough: float
) -> tuple[Indices, Indices]:
    """Return blocks, first and last steps (n, d), outside which f is at most `enough`.

    At a point at distance r from the nearest of the centers with positive weights, j, the distance to another one, i,
    is at least max(r, D_ij - r), with D_ij that of the centers. Where the sum of the kernel functions at these
    distances is at most `enough`, so is f; it is bounded on intervals of r.
    """
    sides = np.array([len(axis) for axis in axes])
    whole = np.zeros((1, len(axes)), dtype=np.int64), sides[None] - 1
    positive = weights > 0.0
    tops, heights = centers[positive] * scale, weights[positive]
    radii = np.append(np.linspace(0.0, 5.0, RADII - 1), np.inf)  # in lengthscales
    if enough <= 0.0 or len(tops) ** 2 * RADII > MOST_BOUNDS:
        return whole
    apart = cdist(tops, tops)
    offsets = np.stack([_offsets(centers[positive, j], axis) for j, axis in enumerate(axes)], axis=1)
    nearest = np.sqrt(((offsets * scale) ** 2).sum(axis=1))  # distances of the candidates nearest to the centers
    reach = np.full(len(tops), -1.0)
    for start, end in itertools.pairwise(radii.tolist()):
        least = np.maximum(np.maximum(start, nearest), apart - end) ** 2
        kernel.radial(least)
        reach[(least @ heights > enough) & (end >= nearest)] = end
    first, last = [], []
    for center, radius in zip(centers[positive][reach >= 0.0], reach[reach >= 0.0], strict=True):
        inside = [np.abs(axis - x) * s <= radius for axis, x, s in zip(axes, center, scale, strict=True)]
        if all(within.any() for within in inside):
            first.append([int(within.argmax()) for within in inside])
            last.append([len(within) - 1 - int(within[::-1].argmax()) for within in inside])
    blocks = np.reshape(first, (-1, len(axes))), np.reshape(last, (-1, len(axes)))
    shares = ((blocks[1] - blocks[0] + 1) / sides).prod(axis=1)  # of the grid
    return blocks if shares.sum() < 1.0 else whole


def _halves(first: Indices, last: Indices, axes: list[Floats], scale: Floats) -> tuple[Indices, Indices]:
    """Cut blocks (n, d) in two, along the longest side."""
    lengths = np.stack([(axis[last[:, j]] - axis[first[:, j]]) * scale[j] for j, axis in enumerate(axes)], axis=1)
    along, rows = lengths.argmax(axis=1), np.arange(len(first))
    middle = (first[rows, along] + last[rows, along]) // 2
    high, low = last.copy(), first.copy()
    high[rows, along] = middle
    low[rows, along] = np.minimum(middle + 1, last[rows, along])
    return np.concatenate([first, low]), np.concatenate([high, last])


def _bounds(
    low: Indices, high: Indices, axes: list[Floats], scale: Floats, kernel: Stationary, centers: Floats, weights: Floats
) -> Floats:
    """Return upper bounds (n,) of f on blocks."""
    near = np.zeros((len(low), len(centers)))
    far = np.zeros_like(near)
    for j, axis in enumerate(axes):
        start, end = axis[low[:, j], None], axis[high[:, j], None]
        center, least = centers[None, :, j], _offsets(centers[:, j], axis)
        near += (scale[j] * np.maximum(np.maximum(start - center, center - end), least)) ** 2
        far += (scale[j] * np.maximum(np.abs(start - center), np.abs(center - end))) ** 2
    squared = np.ascontiguousarray(np.where(weights > 0.0, near, far))
    kernel.radial(squared)
    return np.asarray(squared @ weights)


def gaussian_draw(covariance: Floats, rng: np.random.Generator) -> Floats:
    """Draw from N(0, covariance), shape (n,); the covariance may be singular.

    The draw uses the symmetric root: unlike the eigenvectors, it is unique even if eigenvalues are equal.
    """
    values, vectors = eigh(covariance)
    coefficients = vectors.T @ rng.standard_normal(len(values))
    return vectors @ (np.sqrt(np.maximum(values, 0.0)) * coefficients)


def sparse_centers(space: Space, count: int | None, rng: np.random.Generator) -> Floats:
    """Draw centers (count, d) uniformly within a space's bounds, or among its candidates if it has no bounds.

    The default count is 30 d.
    """
    checks.kind("space", space, Space, "a Box, a Grid, Points or Arms")
    count = 30 * space.dimension if count is None else checks.integer("count", count, 1)
    if space.box is not None:
        low, high = space.box.T
        centers: Floats = low + (high - low) * rng.random((count, space.dimension))
        return centers
    candidates = space.candidate_set(count, 0)
    return candidates.points(rng.integers(candidates.size, size=count))


def norm_of(gram: Floats, weights: Floats) -> float:
    """Compute the RKHS norm of a weighted sum of kernel functions with kernel matrix (m, m) and weights (m,)."""
    return max(0.0, float(weights @ gram @ weights)) ** 0.5


def _drawn(space: FiniteSpace, kernel: Kernel, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return the candidates (n, d), their covariance (n, n), and a draw of GP(0, kernel) at them (n,)."""
    checks.kind("space", space, FiniteSpace, "a finite space: values are drawn at its candidates")
    checks.kind("kernel", kernel, Kernel, "a kernel, such as RBF(0.2)")
    points = tabulated(space).points()
    covariance = kernel.block(points)
    kernel.check_values(points)
    return points, covariance, gaussian_draw(covariance, generator(checks.integer("seed", seed, 0), "function"))


class RKHSFunction(Environment):
    """Function f = sum over i of weights_i k(centers_i, .), whose RKHS norm is known exactly.

    Parameters
    ----------
    space
        Domain.
    kernel
        Kernel of the RKHS.
    centers
        Centers (m, d) of the kernel functions, in units of x.
    weights
        Weights (m,) of the kernel functions, in units of y over units of k.
    noise, seed
        Noise distribution and its seed; see `Environment`.

    Attributes
    ----------
    rkhs_norm : float
        RKHS norm of f: sqrt(weights'K weights), where K is the kernel matrix of the centers.

    Raises
    ------
    ValueError
        If centers or weights are not finite, their shapes do not fit each other and the space, or a kernel of another
        package has values that are no covariances.
    """

    def __init__(
        self, space: Space, kernel: Kernel, centers: Floats, weights: Floats, noise: Noise | None = None, seed: int = 0
    ):
        super().__init__(space, noise, seed)
        checks.kind("kernel", kernel, Kernel, "a kernel, such as RBF(0.2)")
        self.kernel = kernel
        self.centers = checks.frozen(checks.finite("centers", centers, ndim=2))
        self.weights = checks.frozen(checks.finite("weights", weights, ndim=1))
        if self.centers.shape[1] != space.dimension:
            checks.refuse("centers", f"shape {self.centers.shape}", f"(m, {space.dimension})")
        if len(self.weights) != len(self.centers):
            checks.refuse("weights", f"shape {self.weights.shape}", f"({len(self.centers)},), one a center")
        self.rkhs_norm = norm_of(kernel.block(self.centers), self.weights)
        kernel.check_values(self.centers)
        self._largest: float | None = None  # on a box or a grid too large for a table, once it is known

    @classmethod
    def sparse(
        cls, space: Space, kernel: Kernel, noise: Noise | None = None, *, seed: int = 0, count: int | None = None
    ) -> RKHSFunction:
        """Draw centers uniformly within the space's bounds and weights uniformly on [-1, 1].

        Source: Janz et al. 2020, section 5.

        Parameters
        ----------
        space, kernel, noise
            Domain, kernel of the RKHS and noise distribution.
        seed
            Seed of the function and of the noise.
        count
            Number of centers; 30 d if not given, as in the source.
        """
        rng = generator(checks.integer("seed", seed, 0), "function")
        centers = sparse_centers(space, count, rng)
        return cls(space, kernel, centers, rng.uniform(-1.0, 1.0, len(centers)), noise, seed)

    @classmethod
    def posterior_mean(
        cls,
        space: FiniteSpace,
        kernel: Kernel,
        noise: Noise | None = None,
        *,
        seed: int = 0,
        regularization: float = 0.01,
    ) -> RKHSFunction:
        """Draw y from N(0, K) at the candidates and take the posterior mean given y as f.

        Source: Chowdhury & Gopalan 2017, section 6.

        Parameters
        ----------
        space, kernel, noise
            Finite domain, kernel of the RKHS and noise distribution.
        seed
            Seed of the function and of the noise.
        regularization
            Noise variance of the fit, in squared units of y. The paper does not state it.

        Raises
        ------
        ValueError
            If the space is not finite, or the regularization is not positive.
        """
        if not checks.finite("regularization", regularization, ndim=0) > 0.0:
            checks.refuse("regularization", regularization, "a positive number")
        points, covariance, y = _drawn(space, kernel, seed)
        factor = cholesky(covariance + regularization * np.eye(len(points)), lower=True)
        return cls(space, kernel, points, cho_solve((factor, True), y), noise, seed)

    def evaluate(self, points: Floats) -> Floats:
        # Without BLAS, whose last bits depend on the number of points.
        return np.einsum("ij,j->i", self.kernel.block(points, self.centers), self.weights)

    @classmethod
    def planted(
        cls, space: Space, kernel: Kernel, noise: Noise | None = None, *, height: float = 1.0, seed: int = 0
    ) -> RKHSFunction:
        """Plant a peak, one kernel function, at a hidden point of the space: f is at most `height`, and is that there.

        If the lengthscale is short, it is found by luck alone; such functions prove the lower bounds on regret.

        Source: Scarlett, Bogunovic & Cevher 2017.

        Parameters
        ----------
        space, kernel, noise
            Domain, kernel of the RKHS and noise distribution.
        height
            Value at the point, in units of y; the RKHS norm of f too, for a kernel that is 1 at distance 0.
        seed
            Seed of the point and of the noise.

        Raises
        ------
        ValueError
            If the height is not positive, or the space is not a grid or box.
        """
        checks.kind("space", space, Space, "a Box or a Grid")
        if not checks.finite("height", height, ndim=0) > 0.0:
            checks.refuse("height", height, "a positive number")
        center = space.draw(1, generator(checks.integer("seed", seed, 0), "function"))
        variance = kernel.block(center)[0, 0]
        kernel.check_values(center)
        return cls(space, kernel, center, np.array([height / variance]), noise, seed)

    def optimum(self, t: int = 1, available: ArrayLike | None = None) -> float:
        """Return the largest value over the available candidates (mask (size,)), in units of y.

        The value is exact on a finite space: on a grid that is too large for a table it is found by bounds, if the
        kernel is stationary. On a box it is the result of a search from Sobol points and from the centers.

        Raises
        ------
        ValueError
            If no candidate is available, or the bounds do not find the largest value.
        """
        space = self.space
        if available is None and self._largest is None:
            if isinstance(space, Grid) and space.size > TABLE_LIMIT and isinstance(self.kernel, Stationary):
                self._largest = grid_maximum(self.evaluate, space, self.kernel, self.centers, self.weights)
            elif space.size is None and space.box is not None:
                highest = np.argsort(-self.evaluate(self.centers))[:HIGHEST]
                self._largest = extreme(self, sign=1.0, starts=self.centers[highest])
        return super().optimum(t, available) if available is not None or self._largest is None else self._largest


class GPSample(TableEnvironment):
    """Function drawn from GP(0, kernel) at the candidates of a finite space.

    Parameters
    ----------
    space
        Finite domain.
    kernel
        Prior covariance, in squared units of y.
    noise
        Noise distribution; see `Environment`.
    seed
        Seed of the function and of the noise.

    Raises
    ------
    ValueError
        If the space is not finite, or a kernel of another package has values that are no covariances.
    """

    def __init__(self, space: FiniteSpace, kernel: Kernel, noise: Noise | None = None, *, seed: int = 0):
        super().__init__(space, _drawn(space, kernel, seed)[2], noise, seed)
        self.kernel = kernel

    def parameters(self) -> dict[str, Any]:
        return {"space": self.space, "kernel": self.kernel, "noise": self.noise, "seed": self.seed}


class FunctionEnvironment(Environment):
    """Environment of a Python function.

    Parameters
    ----------
    space
        Domain.
    function
        Function from one point (d,), for `Arms` from an arm number, to a number in units of y. It has to be free of
        noise: a simulation on a finite space calls it once an arm at most, before the first round if there are no more
        arms than rounds (and at most 10^5), else when an arm is first played.
    noise
        Noise added to the function's values; no noise if not given. Regret is the difference between `optimum` and the
        function's values.
    seed
        Seed of the added noise.
    optimum
        Largest value, if known. If not given, it is searched; on a finite space every candidate is evaluated.

    Raises
    ------
    ValueError
        If the function is not callable, or the optimum is not finite.
    """

    one_by_one = True

    def __init__(
        self,
        space: Space,
        function: Callable[[Any], float],
        noise: Noise | None = None,
        seed: int = 0,
        optimum: float | None = None,
    ):
        super().__init__(space, GaussianNoise(0.0) if noise is None else noise, seed)
        if not callable(function):
            checks.refuse("function", function, "a function from a point to a number")
        self.function = function
        self._optimum = None if optimum is None else float(checks.finite("optimum", optimum, ndim=0))

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "function": self.function, "optimum": self._optimum}

    def optimum(self, t: int = 1, available: ArrayLike | None = None) -> float:
        """Return the given optimum, or search it over the available candidates (mask (size,)), in units of y.

        Raises
        ------
        ValueError
            If the largest value is not finite.
        """
        if available is None and self._optimum is not None:
            return self._optimum
        largest = super().optimum(t, available)
        if not np.isfinite(largest):  # regret would not be finite either
            checks.refuse("function", f"{largest} as its largest value", "a function with finite values, or optimum=")
        return largest

    def evaluate(self, points: Floats) -> Floats:
        with ForkedChildrenEnd():
            return np.array([_number(self.function(self.space.argument(point))) for point in points])


def _number(value: Any) -> float:
    """Return what a user's function has returned as a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        checks.refuse("function", value, "a function that returns a number")
