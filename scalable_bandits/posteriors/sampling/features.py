"""Finite features of stationary kernels, phi(x)'phi(z) close to k(x, z).

Random Fourier features (Rahimi & Recht 2007): frequencies drawn from the kernel's spectral measure, its Fourier
transform. Quadrature Fourier features (Mutny & Krause 2018): for the RBF kernel, whose spectral measure is Gaussian,
frequencies and weights of Gauss-Hermite quadrature, whose error falls exponentially in the number of nodes.

    phi(x) = (a_j cos(w_j'x), a_j sin(w_j'x)) for frequencies w_j with amplitudes a_j
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import RBF, Constant, Kernel, Matern, OnDimensions, Periodic, RationalQuadratic
from scalable_bandits.kernels.base import Product, Scaled, Sum
from scalable_bandits.posteriors.sampling import _numba_features as numba_features

MOST_FEATURES = 2**20  # largest number of frequencies


class Features(NamedTuple):
    """Frequencies and amplitudes of Fourier features."""

    frequencies: Floats  # (m, d), in radians a unit of x
    amplitudes: Floats  # (m,), in units of y

    def __call__(self, x: Floats) -> Floats:
        """Return phi at points x (k, d), shape (k, 2 m): the cosines, then the sines."""
        angles = x @ self.frequencies.T
        return np.hstack([np.cos(angles) * self.amplitudes, np.sin(angles) * self.amplitudes])

    def combined(self, x: Floats, weights: Floats) -> Floats:
        """Return phi(x)'weights at points x (k, d), shape (k,), with one shifted cosine for each frequency."""
        along, across = (weights * np.tile(self.amplitudes, 2)).reshape(2, -1)
        shifts = -np.arctan2(across, along) / (2.0 * np.pi)
        out = np.zeros(len(x))
        frequencies = self.frequencies / (2.0 * np.pi)
        numba_features.add_waves(
            np.ascontiguousarray(x.T), frequencies, shifts, np.hypot(along, across), np.empty(len(x)), out
        )
        return out

    def slopes(self, x: Floats, weights: Floats) -> Floats:
        """Return the gradient of phi(x)'weights at points x (k, d), shape (k, d)."""
        along, across = (weights * np.tile(self.amplitudes, 2)).reshape(2, -1)
        angles = x @ self.frequencies.T
        return np.asarray((across * np.cos(angles) - along * np.sin(angles)) @ self.frequencies)


def random_features(kernel: Kernel, dimension: int, count: int, rng: np.random.Generator) -> Features:
    """Draw features with random frequencies for a stationary kernel.

    Parameters
    ----------
    kernel
        Stationary kernel.
    dimension
        Dimension d of the points.
    count
        Number m of frequencies; there are twice as many features.
    rng
        Random generator of the frequencies.

    Raises
    ------
    ValueError
        If the kernel is not stationary.
    """
    if not kernel.stationary:
        checks.refuse("kernel", kernel, "a stationary kernel: others have no spectral measure")
    variance = float(kernel.diagonal(np.zeros((1, dimension)))[0])
    return Features(_spectral(kernel, dimension, count, rng), np.full(count, np.sqrt(variance / count)))


def _spectral(kernel: Kernel, d: int, n: int, rng: np.random.Generator) -> Floats:
    """Draw frequencies (n, d) from the normalised spectral measure."""
    if isinstance(kernel, Scaled):
        return _spectral(kernel.kernel, d, n, rng)
    if isinstance(kernel, Sum):  # a mixture
        variances = np.array([float(part.diagonal(np.zeros((1, d)))[0]) for part in kernel.kernels])
        which = rng.choice(len(variances), n, p=variances / variances.sum())
        return np.array([_spectral(part, d, n, rng) for part in kernel.kernels])[which, np.arange(n)]
    if isinstance(kernel, Product):  # a convolution
        return np.sum([_spectral(part, d, n, rng) for part in kernel.kernels], axis=0)
    for kind in type(kernel).__mro__:
        if kind in _frequencies:
            return _frequencies[kind](kernel, d, n, rng)
    known = ", ".join(kind.__name__ for kind in _frequencies)
    others = "others with samples='exact', on a box or few candidates, or after `register_frequencies`"
    checks.refuse("kernel", kernel, f"{known}, and their sums, products and multiples; {others}")


# Function of kernel, d, n and generator that returns frequencies (n, d).
Frequencies = Callable[[Any, int, int, np.random.Generator], Floats]

_frequencies: dict[type, Frequencies] = {}


def register_frequencies(kernel: type[Kernel], draw: Frequencies) -> None:
    """Make random features, and so pathwise samples, available for a stationary kernel.

    Parameters
    ----------
    kernel
        Class of the kernel. A class that is registered already gets the new function.
    draw
        Function ``draw(kernel, d, n, rng)`` that returns n frequencies (n, d) from the kernel's spectral measure, the
        Fourier transform of k(x, 0) / k(0, 0), in radians a unit of x.

    Raises
    ------
    TypeError
        If the class is not a subclass of `Kernel`.
    """
    if not (isinstance(kernel, type) and issubclass(kernel, Kernel)):
        raise TypeError(f"kernel: got {kernel!r}; allowed: a subclass of Kernel")
    _frequencies[kernel] = draw


def _of_rbf(kernel: RBF | Matern | RationalQuadratic, d: int, n: int, rng: np.random.Generator) -> Floats:
    return np.asarray(rng.standard_normal((n, d)) * kernel.inverse(d))


def _of_matern(kernel: Matern, d: int, n: int, rng: np.random.Generator) -> Floats:
    normal = _of_rbf(kernel, d, n, rng)
    if np.isfinite(kernel.nu):  # Student's t with 2 nu degrees of freedom
        normal *= np.sqrt(2.0 * kernel.nu / rng.chisquare(2.0 * kernel.nu, (n, 1)))
    return normal


def _of_rational_quadratic(kernel: RationalQuadratic, d: int, n: int, rng: np.random.Generator) -> Floats:
    normal = _of_rbf(kernel, d, n, rng)  # RBF kernels with inverse squared lengthscales from a gamma distribution
    normal *= np.sqrt(rng.gamma(kernel.alpha, 1.0 / kernel.alpha, (n, 1)))
    return normal


def _of_periodic(kernel: Periodic, d: int, n: int, rng: np.random.Generator) -> Floats:
    return np.stack([_periodic(c, kernel.period, n, rng) for c in kernel.inverse(d) ** 2], axis=1)


def _periodic(c: float, period: float, n: int, rng: np.random.Generator) -> Floats:
    """Draw frequencies (n,) of one dimension: weights exp(-c) I_j(c) at j / period, where c = 1 / lengthscale^2."""
    from scipy.special import ive

    reach = int(np.ceil(10.0 * np.sqrt(c) + 20.0))
    orders = np.arange(-reach, reach + 1)
    weights = ive(np.abs(orders), c)
    return 2.0 * np.pi / period * rng.choice(orders, n, p=weights / weights.sum())


def _of_constant(kernel: Constant, d: int, n: int, rng: np.random.Generator) -> Floats:
    return np.zeros((n, d))


def _of_some_dimensions(kernel: OnDimensions, d: int, n: int, rng: np.random.Generator) -> Floats:
    out = np.zeros((n, d))
    out[:, kernel.dimensions] = _spectral(kernel.kernel, len(kernel.dimensions), n, rng)
    return out


register_frequencies(RBF, _of_rbf)
register_frequencies(Matern, _of_matern)
register_frequencies(RationalQuadratic, _of_rational_quadratic)
register_frequencies(Periodic, _of_periodic)
register_frequencies(Constant, _of_constant)
register_frequencies(OnDimensions, _of_some_dimensions)


def quadrature_features(kernel: Kernel, dimension: int, nodes: int) -> Features:
    """Return features with the frequencies of Gauss-Hermite quadrature for an RBF kernel, or a multiple of one.

    Frequencies w and -w have the same features: one of each pair is used, with twice the weight.

    Parameters
    ----------
    kernel
        RBF kernel, or a multiple of one.
    dimension
        Dimension d of the points.
    nodes
        Number of nodes of the quadrature in each dimension.

    Raises
    ------
    ValueError
        If the kernel is another, or there would be more than 2^20 frequencies.
    """
    factor, base = (kernel.factor, kernel.kernel) if isinstance(kernel, Scaled) else (1.0, kernel)
    if not isinstance(base, RBF):
        checks.refuse("kernel", kernel, "RBF, or a multiple of it, for quadrature features")
    if nodes**dimension > MOST_FEATURES:
        checks.refuse("features", f"{nodes} nodes in {dimension} dimensions", f"at most {MOST_FEATURES} in all")
    x, w = np.polynomial.hermite.hermgauss(nodes)
    grid = np.stack(np.meshgrid(*[np.arange(nodes)] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
    weights = np.prod(w[grid] / np.sqrt(np.pi), axis=1)
    mirrored = np.arange(len(grid)) < len(grid) // 2  # row i and row -1 - i are w and -w
    weights = np.where(mirrored, 2.0 * weights, weights)[: (len(grid) + 1) // 2]
    frequencies = (np.sqrt(2.0) * x[grid] * base.inverse(dimension))[: len(weights)]
    return Features(frequencies, np.sqrt(factor * weights))
