"""Linear kernel on a sphere onto which a box is mapped: d + 2 features in d dimensions.

    z = (x - centre) / (a lengthscale),  a so that |z| = radius at the corners of the box
    P(z) = (2 z, |z|^2 - 1) / (|z|^2 + 1)      (inverse stereographic projection onto the unit sphere)
    k(x, x') = (bias + P(z)'P(z')) / (bias + 1)

Source: Doumont, Fan, Maus, Gardner, Moss & Pleiss 2025, arXiv 2512.00170, as their code has it: its two weights, a
softmax, are (bias, 1) / (bias + 1) here; a^2 is the sigmoid of a parameter times the corners' sum of squares, so that
the radius is one over the root of the sigmoid, and at least 1.
"""

from __future__ import annotations

import functools
from typing import ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import _numba_kernels as numba_kernels
from scalable_bandits.kernels.base import Lengthscaled, to_lengthscales
from scalable_bandits.spaces.base import Bounds, frozen_bounds


@attrs.frozen
class SphericalLinear(Lengthscaled):
    """Spherical linear kernel: linear on a sphere onto which a box is mapped, so that the prior variance is 1 on it.

    A linear kernel has its largest variances at the corners of the box; this one has the same everywhere, and its
    functions may have their optima inside. It is for many dimensions, 20 to 1,000.

    Parameters
    ----------
    bounds
        Lower and upper ends (d, 2) of the box, in units of x: those of the space, or [0, 1] for each number of a
        `SearchSpace`. The kernel is defined outside of them, too.
    lengthscale
        Lengthscale in units of x: one number, or one for each dimension. Only the ratios matter.
    radius
        Distance |z| of the corners of the box from its centre: 1 maps them to the equator of the sphere, so that the
        functions are nearly linear; the larger, the more curved they are.
    bias
        Variance of the constant part, as a multiple of the rest's.

    Raises
    ------
    ValueError
        If a lower end is not below its upper end, a lengthscale or the radius is not positive, or the bias is negative.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> kernel = sb.SphericalLinear([[0, 1]] * 2)
    >>> kernel.block([[0.5, 0.5], [0.0, 0.0]]).round(4).tolist()
    [[1.0, 0.3333], [0.3333, 1.0]]
    """

    learned: ClassVar[tuple[str, ...]] = ("lengthscale", "radius", "bias")
    stationary: ClassVar[bool] = False

    bounds: Bounds = attrs.field(converter=frozen_bounds)
    lengthscale: float | tuple[float, ...] = attrs.field(default=1.0, converter=to_lengthscales)  # after the bounds
    radius: float = attrs.field(default=2.0**0.5, converter=checks.to_float, validator=checks.positive, kw_only=True)
    bias: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.nonnegative, kw_only=True)

    def check(self, dimension: int) -> None:
        """Raise ValueError unless there are bounds for each dimension, and one lengthscale or one for each."""
        if len(self.bounds) != dimension:
            checks.refuse("bounds", f"bounds of {len(self.bounds)} dimensions", f"those of {dimension}")
        super().check(dimension)

    @property
    def _shares(self) -> tuple[float, float]:
        """Variances of the constant part and of the rest, which sum to 1."""
        return self.bias / (1.0 + self.bias), 1.0 / (1.0 + self.bias)

    @functools.cached_property
    def _geometry(self) -> tuple[Floats, Floats, Floats]:
        """Centre (d,) of the box, factors (d,) from x - centre to z, and shares (d,) of the dimensions in |z|^2."""
        low, high = np.array(self.bounds).T
        squared = (0.5 * (high - low) * self.inverse(len(low))) ** 2  # of the corners' distances, in lengthscales
        scale = self.inverse(len(low)) * (self.radius / np.sqrt(squared.sum()))
        return 0.5 * (low + high), scale, squared / squared.sum()

    def _flat(self, X: Floats) -> Floats:
        """Return z (n, d)."""
        centre, scale, _ = self._geometry
        return np.asarray((X - centre) * scale)

    def _sphere(self, X: Floats) -> Floats:
        """Return P(z) of points X (n, d), shape (n, d + 1)."""
        out = np.empty((len(X), X.shape[1] + 1))
        numba_kernels.spherical_points(X, *self._geometry[:2], out)
        return out

    def fill(self, X: Floats, Z: Floats, out: Floats) -> None:
        constant, rest = self._shares
        X, Z = self._sphere(X), self._sphere(Z)
        numba_kernels.inner_products(X, Z, np.full(X.shape[1], np.sqrt(rest)), constant, out)

    def slope(self, X: Floats, Z: Floats, weights: Floats, out: Floats) -> None:
        X, flat = self._sphere(X), self._flat(Z)
        pulls = np.zeros((len(flat), X.shape[1]))
        numba_kernels.slope_of_inner_products(X, pulls, np.full(X.shape[1], self._shares[1] ** 0.5), weights, pulls)
        out += _pulled_back(flat, pulls) * self._geometry[1]

    def diagonal_slope(self, X: Floats) -> Floats:
        return np.zeros_like(X)

    def sensitivity(self, X: Floats, weights: Floats) -> Floats:
        flat, projected, rest = self._flat(X), self._sphere(X), self._shares[1]
        pulls = weights @ projected
        by_z = (_pulled_back(flat, 2.0 * rest * pulls) * flat).sum(axis=0)  # by the logarithms of |z_k|
        by_length = self._geometry[2] * by_z.sum() - by_z
        by_bias = rest * (1.0 - rest) * (weights.sum() - float((projected * pulls).sum()))
        return np.append(self.by_lengthscale(by_length), [by_z.sum(), *([by_bias] if self.bias else [])])

    def features(self, X: Floats) -> Floats:
        """Return P(z) of points X (n, d) and, unless the bias is 0, a constant, times the roots of their variances."""
        constant, rest = np.sqrt(self._shares)
        d = X.shape[1]
        out = np.full((len(X), d + 2 if self.bias else d + 1), constant)
        numba_kernels.spherical_points(X, *self._geometry[:2], out)
        out[:, : d + 1] *= rest
        return out

    def features_slope(self, X: Floats, weights: Floats) -> Floats:
        pulls = np.sqrt(self._shares[1]) * weights[:, : X.shape[1] + 1]
        return np.asarray(_pulled_back(self._flat(X), pulls) * self._geometry[1])

    def features_peak(self, weights: Floats, bounds: Floats) -> Floats:
        """Return the points (k, d) of a box with bounds (d, 2) where features(x)'weights[i] is largest; weights (k, p).

        By Dinkelbach's method (1967): with (v, u) for weights[i] the quotient (2 v'z + u (|z|^2 - 1)) / (|z|^2 + 1) is
        at least q where the numerator less q times the denominator is at least 0. The largest of these differences is
        found coordinate by coordinate.
        """
        centre, scale = self._geometry[:2]
        low, high = self._flat(np.ascontiguousarray(bounds.T))
        z = np.empty((len(weights), len(bounds)))
        numba_kernels.spherical_peaks(np.ascontiguousarray(weights), low, high, z)
        x = np.clip(centre + z / scale, *bounds.T)
        return np.where(z <= low, bounds[:, 0], np.where(z >= high, bounds[:, 1], x))  # the ends exactly


def _pulled_back(z: Floats, pulls: Floats) -> Floats:
    """Return the gradients (n, d) of P(z)'pulls in z (n, d), for pulls (n, d + 1)."""
    flat, last = pulls[:, :-1], pulls[:, -1:]
    denominator = (z * z).sum(axis=1, keepdims=True) + 1.0
    radial = 2.0 * (last - (flat * z).sum(axis=1, keepdims=True)) / denominator
    return np.asarray(2.0 * (flat + radial * z) / denominator)
