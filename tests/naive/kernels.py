"""Kernels as functions of two points; makers take the parameters and return k(x, z).

Most also take arrays as coordinates, those of many points at a time.

Source: Rasmussen & Williams 2006, chapter 4.
"""

import math

import numpy as np
from scipy.special import gamma, kv


def _scale(lengthscale, k):
    return lengthscale[k] if isinstance(lengthscale, (tuple, list)) else lengthscale


def _exp(a):
    return np.exp(a) if isinstance(a, np.ndarray) else math.exp(a)  # of a number several times as fast


def distance(x, z, lengthscale):
    """|(x - z) / lengthscale|."""
    total = 0.0
    for k in range(len(x)):
        total += ((x[k] - z[k]) / _scale(lengthscale, k)) ** 2
    return np.sqrt(total) if isinstance(total, np.ndarray) else math.sqrt(total)


def rbf(lengthscale=1.0):
    """exp(-r^2 / 2)."""
    return lambda x, z: _exp(-(distance(x, z, lengthscale) ** 2) / 2)


def log_bessel(nu, a):
    """log K_nu(a) for orders at which scipy's overflows: the integral of exp(-a cosh t) cosh(nu t) around its peak."""
    peak = math.asinh(nu / a)
    t = np.arange(max(0.0, peak - 15.0), peak + 10.0, 5e-4)
    cosh_nu_t = nu * t + np.log1p(np.exp(-2 * nu * t)) - math.log(2)
    exponent = cosh_nu_t - a * np.cosh(t)
    largest = exponent.max()
    weights = np.exp(exponent - largest)
    if t[0] == 0:
        weights[0] /= 2  # trapezium rule
    return largest + math.log(weights.sum() * 5e-4)


def matern(lengthscale=1.0, nu=1.5):
    """2^(1-nu) / Gamma(nu) a^nu K_nu(a), a = sqrt(2 nu) r, for any nu."""

    def k(x, z):
        a = math.sqrt(2 * nu) * distance(x, z, lengthscale)
        if a == 0:
            return 1.0
        if nu > 20:
            return math.exp((1 - nu) * math.log(2) - math.lgamma(nu) + nu * math.log(a) + log_bessel(nu, a))
        bessel = kv(nu, a)
        return 1.0 if math.isinf(bessel) else 2 ** (1 - nu) / gamma(nu) * a**nu * bessel  # 1 to rounding

    return k


def matern12(lengthscale=1.0):
    """exp(-r)."""
    return lambda x, z: _exp(-distance(x, z, lengthscale))


def matern32(lengthscale=1.0):
    """(1 + sqrt(3) r) exp(-sqrt(3) r)."""

    def k(x, z):
        r = distance(x, z, lengthscale)
        return (1 + math.sqrt(3) * r) * _exp(-math.sqrt(3) * r)

    return k


def matern52(lengthscale=1.0):
    """(1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r)."""

    def k(x, z):
        r = distance(x, z, lengthscale)
        return (1 + math.sqrt(5) * r + 5 * r**2 / 3) * _exp(-math.sqrt(5) * r)

    return k


def rational_quadratic(lengthscale=1.0, alpha=1.0):
    """(1 + r^2 / (2 alpha))^-alpha."""
    return lambda x, z: (1 + distance(x, z, lengthscale) ** 2 / (2 * alpha)) ** -alpha


def periodic(lengthscale=1.0, period=1.0):
    """exp(-2 sum over k of sin^2(pi (x_k - z_k) / period) / lengthscale_k^2)."""

    def k(x, z):
        total = 0.0
        for i in range(len(x)):
            total += (np.sin(math.pi * (x[i] - z[i]) / period) / _scale(lengthscale, i)) ** 2
        return _exp(-2 * total)

    return k


def linear(lengthscale=1.0, bias=0.0):
    """Bias + sum over k of x_k z_k / lengthscale_k^2."""

    def k(x, z):
        total = bias
        for i in range(len(x)):
            total += x[i] * z[i] / _scale(lengthscale, i) ** 2
        return total

    return k


def constant(variance):
    """The same everywhere."""
    return lambda x, z: variance


def spherical(bounds, lengthscale=1.0, radius=1.0, bias=1.0):
    """(bias + P(z)'P(z')) / (bias + 1), P(z) = (2 z, |z|^2 - 1) / (1 + |z|^2), |z| = radius at the corners."""
    corner = math.sqrt(sum(((high - low) / 2 / _scale(lengthscale, i)) ** 2 for i, (low, high) in enumerate(bounds)))

    def project(x):
        z = [
            (x[i] - (low + high) / 2) / _scale(lengthscale, i) * radius / corner for i, (low, high) in enumerate(bounds)
        ]
        squares = sum(each**2 for each in z)
        return [*(2 * each / (1 + squares) for each in z), (squares - 1) / (1 + squares)]

    return lambda x, z: (bias + sum(a * b for a, b in zip(project(x), project(z), strict=True))) / (bias + 1)


def covariance(table):
    """table[i, j] at arm numbers i and j."""
    return lambda x, z: table[np.intp(x[0]), np.intp(z[0])]


def total(*kernels):
    """k1 + k2 + ..."""
    return lambda x, z: sum(k(x, z) for k in kernels)


def hamming(lengthscale=1.0):
    """exp(-sum over k of [x_k != z_k] / lengthscale_k)."""
    return lambda x, z: _exp(-sum((x[i] != z[i]) / _scale(lengthscale, i) for i in range(len(x))))


def tanimoto(bits=32):
    """|x and z| / |x or z| of sets of bits, `bits` of them in each number; 1 for two empty sets."""

    def elements(x):
        return {(k, bit) for k, number in enumerate(x) for bit in range(bits) if int(number) >> bit & 1}

    def k(x, z):
        x, z = elements(x), elements(z)
        return len(x & z) / len(x | z) if x | z else 1.0

    return k


def min_max():
    """Sum of min(x_k, z_k) over the sum of max(x_k, z_k); 1 for two points of zeros."""

    def k(x, z):
        largest = sum(max(a, b) for a, b in zip(x, z, strict=True))
        return sum(min(a, b) for a, b in zip(x, z, strict=True)) / largest if largest else 1.0

    return k


def on_dimensions(kernel, dimensions):
    """A kernel of some of the dimensions."""
    return lambda x, z: kernel([x[i] for i in dimensions], [z[i] for i in dimensions])


def product(*kernels):
    """k1 k2 ..."""
    return lambda x, z: math.prod(k(x, z) for k in kernels)


def scaled(factor, kernel):
    """Factor times k."""
    return lambda x, z: factor * kernel(x, z)


def matrix(kernel, X, Z=None):
    """K(X, Z), (n, m): of all pairs at once if the kernel takes arrays of coordinates, otherwise pair by pair."""
    X = np.asarray(X, dtype=float)
    Z = X if Z is None else np.asarray(Z, dtype=float)
    rows, others = ([tuple(row) for row in each.tolist()] for each in (X, Z))
    if len(X) * len(Z) > 1:
        try:
            found = kernel(tuple(X.T[:, :, None]), tuple(Z.T[:, None, :]))
        except (TypeError, ValueError):  # it compares or converts its coordinates
            found = None
        if np.shape(found) == (len(X), len(Z)):
            return found
    return np.array([[kernel(x, z) for z in others] for x in rows]).reshape(len(X), len(Z))
