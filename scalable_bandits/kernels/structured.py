"""Kernels that are not functions of the scaled distance.

They are periodic, linear, constant, a covariance of arms, and for coordinates of which some are categories.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import _numba_kernels as numba_kernels
from scalable_bandits.kernels.base import Hyperparameter, Kernel, Lengthscaled, Scaled


@attrs.frozen
class Periodic(Lengthscaled):
    """Periodic kernel, exp(-2 sum over k of sin^2(pi (x_k - z_k) / period) / lengthscale_k^2).

    Source: MacKay 1998; Rasmussen & Williams 2006, eq. 4.31.

    Parameters
    ----------
    lengthscale
        Roughness without a unit, as it divides a sine: one number, or one for each dimension.
    period
        Period, in units of x.

    Raises
    ------
    ValueError
        If a lengthscale or the period is not positive.
    """

    learned: ClassVar[tuple[str, ...]] = ("lengthscale", "period")

    period: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.positive, kw_only=True)

    def fill(self, X: Floats, Z: Floats, out: Floats) -> None:
        numba_kernels.squared_sines(X, Z, 2.0 * self.inverse(X.shape[1]), np.pi / self.period, out)
        numba_kernels.rbf(out)

    def slope(self, X: Floats, Z: Floats, weights: Floats, out: Floats) -> None:
        inverse = 2.0 * self.inverse(X.shape[1])
        weighted = -0.5 * weights * self.block(X, Z)
        numba_kernels.slope_of_squared_sines(X, Z, inverse, np.pi / self.period, weighted, out)

    @property
    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        *roughness, period = super().hyperparameters
        return (*(p._replace(name="roughness") for p in roughness), period)  # has no unit, unlike a lengthscale

    def sensitivity(self, X: Floats, weights: Floats) -> Floats:
        d = X.shape[1]
        sums = np.zeros(d + 1)
        weighted = weights * self.block(X)
        numba_kernels.squared_sines_by_dimension(X, 2.0 * self.inverse(d), np.pi / self.period, weighted, sums)
        return np.append(self.by_lengthscale(sums[:d]), sums[d])


@attrs.frozen
class Linear(Lengthscaled):
    """Linear kernel, bias + sum over k of x_k z_k / lengthscale_k^2: Bayesian linear regression.

    Parameters
    ----------
    lengthscale
        Lengthscale in units of x over units of the function: one number, or one for each dimension.
    bias
        Variance of the function at 0, in squared units of the function.

    Raises
    ------
    ValueError
        If a lengthscale is not positive, or the bias is negative.
    """

    learned: ClassVar[tuple[str, ...]] = ("lengthscale", "bias")
    stationary: ClassVar[bool] = False

    bias: float = attrs.field(default=0.0, converter=checks.to_float, validator=checks.nonnegative, kw_only=True)

    def fill(self, X: Floats, Z: Floats, out: Floats) -> None:
        numba_kernels.inner_products(X, Z, self.inverse(X.shape[1]), self.bias, out)

    def diagonal(self, X: Floats) -> Floats:
        return self.bias + ((X * self.inverse(X.shape[1])) ** 2).sum(axis=1)

    def slope(self, X: Floats, Z: Floats, weights: Floats, out: Floats) -> None:
        numba_kernels.slope_of_inner_products(X, Z, self.inverse(X.shape[1]), weights, out)

    def diagonal_slope(self, X: Floats) -> Floats:
        return 2.0 * X * self.inverse(X.shape[1]) ** 2

    def sensitivity(self, X: Floats, weights: Floats) -> Floats:
        sums = np.zeros(X.shape[1])
        numba_kernels.inner_products_by_dimension(X, self.inverse(X.shape[1]), weights, sums)
        return np.append(self.by_lengthscale(-2.0 * sums), [self.bias * weights.sum()] if self.bias else [])

    def features(self, X: Floats) -> Floats:
        """Return X / lengthscale at points X (n, d), and the root of the bias unless it is 0: (n, p)."""
        constant = [np.full((len(X), 1), np.sqrt(self.bias))] if self.bias else []
        return np.hstack([X * self.inverse(X.shape[1]), *constant])

    def features_slope(self, X: Floats, weights: Floats) -> Floats:
        return weights[:, : X.shape[1]] * self.inverse(X.shape[1])

    def features_peak(self, weights: Floats, bounds: Floats) -> Floats:
        low, high = bounds.T
        return np.where(weights[:, : len(bounds)] < 0.0, low, high)  # a corner


@attrs.frozen
class Constant(Kernel):
    """Kernel that is 1 everywhere: ``2.0 * Constant()`` is the prior of an unknown level of variance 2.

    As a part of a sum it lets the level of a function be far from its prior mean.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> (2.0 * sb.Constant() + sb.RBF(0.1)).block([0.0, 1.0]).round(3).tolist()
    [[3.0, 2.0], [2.0, 3.0]]
    """

    stationary: ClassVar[bool] = True

    def fill(self, X: Floats, Z: Floats, out: Floats) -> None:
        out[:] = 1.0

    def diagonal(self, X: Floats) -> Floats:
        return np.ones(len(X))

    def slope(self, X: Floats, Z: Floats, weights: Floats, out: Floats) -> None:
        pass  # the gradient is 0

    def features(self, X: Floats) -> Floats | None:
        return np.ones((len(X), 1))

    def features_slope(self, X: Floats, weights: Floats) -> Floats:
        return np.zeros_like(X)

    def features_peak(self, weights: Floats, bounds: Floats) -> Floats | None:
        return np.full((len(weights), len(bounds)), np.nan)


def _frozen_covariance(value: ArrayLike) -> Floats:
    return checks.frozen(checks.covariance("matrix", value))


@attrs.frozen(eq=False)
class Covariance(Kernel):
    """Covariance matrix of arms: k(i, j) = matrix[i, j] for arm numbers i and j.

    Parameters
    ----------
    matrix
        Covariances (n, n), in squared units of the function; symmetric and positive semi-definite.

    Raises
    ------
    ValueError
        If the matrix is not square, finite, symmetric and positive semi-definite.
    """

    matrix: Floats = attrs.field(converter=_frozen_covariance, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.matrix,)  # default unpickling would make the array writable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Covariance) and np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash((self.matrix.shape, self.matrix.tobytes()))

    def check(self, dimension: int) -> None:
        if dimension != 1:
            checks.refuse("kernel", f"Covariance on points of dimension {dimension}", "arm numbers (dimension 1)")

    def _arms(self, X: Floats) -> np.ndarray:
        arms = X[:, 0].astype(np.int64)
        if len(arms) and (arms.min() < 0 or arms.max() >= len(self.matrix) or (arms != X[:, 0]).any()):
            checks.refuse("arm", X[:, 0], f"arm numbers from 0 to {len(self.matrix) - 1}")
        return arms

    def fill(self, X: Floats, Z: Floats, out: Floats) -> None:
        numba_kernels.lookup(self.matrix, self._arms(X), self._arms(Z), out)

    def diagonal(self, X: Floats) -> Floats:
        arms = self._arms(X)
        return self.matrix[arms, arms]


@attrs.frozen
class TemporalDecay(Constant):
    """Forgetting kernel, (1 - epsilon)^(|t - t'| / 2) between rounds t and t'.

    It multiplies a kernel of x: under ``k * TemporalDecay(epsilon)`` the function is a first-order autoregression,
    f_{t+1} = sqrt(1 - epsilon) f_t + sqrt(epsilon) g_{t+1}, where g_{t+1} is an independent draw from GP(0, k). Within
    one round the forgetting kernel is 1.

    Source: Bogunovic, Scarlett & Cevher 2016, section 2.

    Parameters
    ----------
    epsilon
        Rate of change, from 0 (constant function) to 1 (independent function in every round).

    Raises
    ------
    ValueError
        If epsilon is not between 0 and 1.

    Examples
    --------
    >>> TemporalDecay(0.19).between([1, 1, 3], 1).round(2).tolist()
    [1.0, 1.0, 0.81]
    """

    epsilon: float = attrs.field(converter=checks.to_float, validator=checks.fraction)

    def features(self, X: Floats) -> None:
        """Return None, whatever the points X (n, d): the weights change from round to round."""

    def between(self, t: ArrayLike, other: ArrayLike) -> Floats:
        """Compute the correlation of the function in rounds `t` with the function in rounds `other`, between 0 and 1.

        Parameters
        ----------
        t, other
            Rounds: numbers, or arrays (...,) of shapes that broadcast.

        Returns
        -------
        ndarray
            Correlations (...,) of the broadcast shape.
        """
        lag = np.abs(np.asarray(t, dtype=np.float64) - np.asarray(other, dtype=np.float64))
        result: Floats = np.power(1.0 - self.epsilon, lag / 2.0)
        return result


# ---- coordinates of which some are categories


@attrs.frozen
class Hamming(Lengthscaled):
    """Kernel of categories, exp(-sum over k of [x_k != z_k] / lengthscale_k).

    Parameters
    ----------
    lengthscale
        The larger, the more alike are different categories: one number, or one for each dimension.

    Raises
    ------
    ValueError
        If a lengthscale is not positive.
    """

    stationary: ClassVar[bool] = False

    def fill(self, X: Floats, Z: Floats, out: Floats) -> None:
        numba_kernels.mismatches(X, Z, self.inverse(X.shape[1]), out)
        np.exp(-out, out=out)

    def slope(self, X: Floats, Z: Floats, weights: Floats, out: Floats) -> None:
        pass  # constant, but for jumps

    def diagonal_slope(self, X: Floats) -> Floats:
        return np.zeros_like(X)

    def sensitivity(self, X: Floats, weights: Floats) -> Floats:
        sums = np.zeros(X.shape[1])
        numba_kernels.mismatches_by_dimension(X, self.inverse(X.shape[1]), weights * self.block(X), sums)
        return self.by_lengthscale(sums)


def _dimensions(value: Any) -> tuple[int, ...]:
    found = tuple(value) if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) else (value,)
    numbers = tuple(checks.integer("dimensions", each, 0) for each in found)
    if not numbers or len(set(numbers)) < len(numbers):
        checks.refuse("dimensions", value, "distinct dimensions, counted from 0, at least one")
    return numbers


@attrs.frozen
class OnDimensions(Kernel):
    """Kernel of some of the dimensions, constant in the others; such kernels are multiplied or added.

    Parameters
    ----------
    kernel
        Kernel of these dimensions alone.
    dimensions
        Dimensions, counted from 0.

    Raises
    ------
    ValueError, TypeError
        If the dimensions are not distinct integers from 0 on; if the kernel is not a kernel.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> kernel = sb.OnDimensions(sb.Matern(0.3), [0, 2]) * sb.OnDimensions(sb.Hamming(1.0), [1])
    """

    made_of: ClassVar[str] = "kernel"

    kernel: Kernel = attrs.field(validator=checks.instance_of(Kernel, "a kernel, such as RBF(0.2)"))
    dimensions: tuple[int, ...] = attrs.field(converter=_dimensions)

    def _part(self, X: Floats) -> Floats:
        return np.ascontiguousarray(X[:, self.dimensions])

    def check(self, dimension: int) -> None:
        if max(self.dimensions) >= dimension:
            checks.refuse("dimensions", list(self.dimensions), f"dimensions from 0 to {dimension - 1}")
        self.kernel.check(len(self.dimensions))

    def check_values(self, X: Floats) -> None:
        self.kernel.check_values(self._part(X))

    def fill(self, X: Floats, Z: Floats, out: Floats) -> None:
        self.kernel.fill(self._part(X), self._part(Z), out)

    def diagonal(self, X: Floats) -> Floats:
        return self.kernel.diagonal(self._part(X))

    def slope(self, X: Floats, Z: Floats, weights: Floats, out: Floats) -> None:
        found = np.zeros((len(Z), len(self.dimensions)))
        self.kernel.slope(self._part(X), self._part(Z), weights, found)
        out[:, self.dimensions] += found

    def diagonal_slope(self, X: Floats) -> Floats:
        out = np.zeros_like(X)
        out[:, self.dimensions] = self.kernel.diagonal_slope(self._part(X))
        return out

    @property
    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        own, places = super().hyperparameters, self.dimensions
        within = (places if p.dimensions is None else tuple(places[k] for k in p.dimensions) for p in own)
        return tuple(p._replace(dimensions=mine) for p, mine in zip(own, within, strict=True))

    def sensitivity(self, X: Floats, weights: Floats) -> Floats:
        return self.kernel.sensitivity(self._part(X), weights)

    def features(self, X: Floats) -> Floats | None:
        return self.kernel.features(self._part(X))

    def features_slope(self, X: Floats, weights: Floats) -> Floats:
        out = np.zeros_like(X)
        out[:, self.dimensions] = self.kernel.features_slope(self._part(X), weights)
        return out

    def features_peak(self, weights: Floats, bounds: Floats) -> Floats | None:
        found, out = self.kernel.features_peak(weights, bounds[list(self.dimensions)]), None
        if found is not None:
            out = np.full((len(weights), len(bounds)), np.nan)
            out[:, self.dimensions] = found
        return out


def with_categories(kernel: Kernel, unordered: Sequence[int], dimension: int) -> Kernel:
    """Return a kernel for coordinates of which some are categories.

    Parameters
    ----------
    kernel
        Kernel of the ordered coordinates; a kernel that has an `OnDimensions` is returned as it is.
    unordered
        Coordinates that are categories, counted from 0.
    dimension
        Number of coordinates.

    Returns
    -------
    Kernel
        The kernel on the ordered coordinates, times a `Hamming` kernel with a lengthscale for each of the others.
    """
    if not unordered or names_dimensions(kernel):
        return kernel
    if isinstance(kernel, Scaled):
        return attrs.evolve(kernel, kernel=with_categories(kernel.kernel, unordered, dimension))
    ordered = [k for k in range(dimension) if k not in unordered]
    factor = OnDimensions(Hamming([1.0] * len(unordered)), unordered)
    return OnDimensions(kernel, ordered) * factor if ordered else factor


def names_dimensions(kernel: Kernel) -> bool:
    """Return whether a kernel is, or combines, kernels of some dimensions."""
    return isinstance(kernel, OnDimensions) or any(names_dimensions(part) for part in kernel.parts)
