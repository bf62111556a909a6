"""Synthetic functions: of known RKHS norm, drawn from a Gaussian process, tabulated, or a user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve, cholesky, eigh

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments.base import Environment
from scalable_bandits.environments.noise import GaussianNoise, Noise
from scalable_bandits.kernels import Kernel
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import FiniteSpace, Space


def gaussian_draw(covariance: Floats, rng: np.random.Generator) -> Floats:
    """Draw from N(0, covariance), (n,); a covariance of low rank is welcome.

    By the symmetric root, which a symmetric space (equal eigenvalues) leaves unique, unlike its eigenvectors.
    """
    values, vectors = eigh(covariance)
    coefficients = vectors.T @ rng.standard_normal(len(values))
    return vectors @ (np.sqrt(np.maximum(values, 0.0)) * coefficients)


def sparse_centers(space: Space, count: int | None, rng: np.random.Generator) -> Floats:
    """Points (count, d), 30 d if not said, uniform on a space's bounds, or among its candidates where it has none."""
    checks.kind("space", space, Space, "a Box, a Grid, Points or Arms")
    count = 30 * space.dimension if count is None else checks.integer("count", count, 1)
    if space.box is not None:
        low, high = space.box.T
        centers: Floats = low + (high - low) * rng.random((count, space.dimension))
        return centers
    candidates = space.candidate_set(count, 0)
    return candidates.points(rng.integers(candidates.size, size=count))


def _drawn(space: FiniteSpace, kernel: Kernel, seed: int) -> tuple[Floats, Floats, Floats]:
    """The candidates (n, d), their covariance (n, n), and a draw of GP(0, kernel) there (n,)."""
    checks.kind("space", space, FiniteSpace, "a finite space: values are drawn at its candidates")
    checks.kind("kernel", kernel, Kernel, "a kernel, such as RBF(0.2)")
    points = space.points()
    covariance = kernel.block(points)
    return points, covariance, gaussian_draw(covariance, generator(checks.integer("seed", seed, 0), "function"))


class TableEnvironment(Environment):
    """A function given by its value at each candidate.

    Parameters
    ----------
    space
        Finite.
    values
        (size,), in units of y.
    noise, seed
        As in `Environment`.

    Raises
    ------
    ValueError
        If there is not one finite value a candidate, or equal points have different ones.
    """

    def __init__(self, space: FiniteSpace, values: ArrayLike, noise: Noise | None = None, seed: int = 0):
        super().__init__(space, noise, seed)
        checks.kind("space", space, FiniteSpace, "a finite space: a box has no table of candidates")
        self._table = checks.frozen(checks.finite("values", values, ndim=1))
        if self._table.shape != (space.size,):
            checks.refuse("values", f"shape {self._table.shape}", f"({space.size},), one a candidate")
        if space.has_coordinates and space.box is None:  # whose points may be equal
            same = self._table[space.index(space.points())] == self._table
            if not same.all():
                checks.refuse("values", self._table[~same][0], "one value for equal points of the space")

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "values": self._table}

    def evaluate(self, points: Floats) -> Floats:
        assert self.space.finite is not None
        return self.table()[self.space.finite.index(points)]


class RKHSFunction(Environment):
    """f = sum over i of weights_i k(centers_i, .), whose RKHS norm is known exactly.

    Parameters
    ----------
    space
        The domain.
    kernel
        Of the RKHS.
    centers
        (m, d).
    weights
        (m,), in units of y over units of k.
    noise, seed
        As in `Environment`.

    Attributes
    ----------
    rkhs_norm : float
        sqrt(weights'K weights), K the kernel matrix of the centers.

    Raises
    ------
    ValueError
        If centers and weights are not finite, or their shapes do not fit each other and the space.
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
        self.rkhs_norm = max(0.0, float(self.weights @ kernel.block(self.centers) @ self.weights)) ** 0.5

    @classmethod
    def sparse(
        cls, space: Space, kernel: Kernel, noise: Noise | None = None, *, seed: int = 0, count: int | None = None
    ) -> RKHSFunction:
        """Draw centers uniform on the space's bounds and weights uniform on [-1, 1].

        Source: Janz et al. 2020, section 5.

        Parameters
        ----------
        space, kernel, noise
            As in the class.
        seed
            Of the function and of the noise.
        count
            Of the centers; 30 d, as in the source, if not given.
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
        """Draw y from N(0, K) at the candidates; f is the posterior mean given them.

        Source: Chowdhury & Gopalan 2017, section 6.

        Parameters
        ----------
        space, kernel, noise
            As in the class.
        seed
            Of the function and of the noise.
        regularization
            Noise variance of the fit, in squared units of y, which the paper does not state.

        Raises
        ------
        ValueError
            If the space is not finite, or the regularization not positive.
        """
        if not checks.finite("regularization", regularization, ndim=0) > 0.0:
            checks.refuse("regularization", regularization, "a positive number")
        points, covariance, y = _drawn(space, kernel, seed)
        factor = cholesky(covariance + regularization * np.eye(len(points)), lower=True)
        return cls(space, kernel, points, cho_solve((factor, True), y), noise, seed)

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "kernel": self.kernel, "centers": self.centers, "weights": self.weights}

    def evaluate(self, points: Floats) -> Floats:
        # Not by BLAS, whose last bits depend on how many points there are.
        return np.einsum("ij,j->i", self.kernel.block(points, self.centers), self.weights)


class GPSample(TableEnvironment):
    """A function drawn from GP(0, kernel) at the candidates of a finite space.

    Parameters
    ----------
    space
        Finite.
    kernel
        Prior covariance, in squared units of y.
    noise
        As in `Environment`.
    seed
        Of the function and of the noise.

    Raises
    ------
    ValueError
        If the space is not finite.
    """

    def __init__(self, space: FiniteSpace, kernel: Kernel, noise: Noise | None = None, *, seed: int = 0):
        super().__init__(space, _drawn(space, kernel, seed)[2], noise, seed)
        self.kernel = kernel

    def parameters(self) -> dict[str, Any]:
        return {"space": self.space, "kernel": self.kernel, "noise": self.noise, "seed": self.seed}


class FunctionEnvironment(Environment):
    """Any Python function as an environment.

    Parameters
    ----------
    space
        Its domain.
    function
        From one point (d,) (an arm number, for `Arms`) to a number, in units of y.
    noise
        Added to what the function returns; none if not given. A function may be noisy itself: it is asked anew in
        every round. Regret is measured on what it returns, against `optimum`.
    seed
        Of the added noise.
    optimum
        The largest value, where it is known; searched if not given, on a finite space by evaluating every candidate.

    Raises
    ------
    ValueError
        If the function cannot be called, or the optimum is not finite.
    """

    tabulated = False

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
        """As `Environment.optimum`, in units of y, of a mask (size,) or all: as given, or searched.

        Raises
        ------
        ValueError
            If the largest value is not finite.
        """
        if available is None and self._optimum is not None:
            return self._optimum
        largest = super().optimum(t, available)
        if not np.isfinite(largest):  # nor is any regret against it
            checks.refuse("function", f"{largest} as its largest value", "a function with finite values, or optimum=")
        return largest

    def evaluate(self, points: Floats) -> Floats:
        return np.array([float(self.function(self.space.argument(point))) for point in points])
