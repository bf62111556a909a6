"""Kernels for coordinates of which some are categories, without an order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import _numba_kernels as numba_kernels
from scalable_bandits.kernels.base import Hyperparameter, Kernel, Lengthscaled, Scaled


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

    @property
    def stationary(self) -> bool:
        return False

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
        return tuple(p if p.dimension is None else p._replace(dimension=places[p.dimension]) for p in own)

    def sensitivity(self, X: Floats, weights: Floats) -> Floats:
        return self.kernel.sensitivity(self._part(X), weights)


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
