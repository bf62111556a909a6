"""Stationary kernels: functions of the scaled distance r = |(x - z) / lengthscale|, with k(x, x) = 1.

Source: Rasmussen & Williams 2006, chapter 4.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import _numba_kernels as numba_kernels
from scalable_bandits.kernels.base import Lengthscaled

_CLOSED_FORMS = {  # compiled functions of Matern kernels and of their slopes, by nu
    0.5: (numba_kernels.matern12, numba_kernels.matern12_slope),
    1.5: (numba_kernels.matern32, numba_kernels.matern32_slope),
    2.5: (numba_kernels.matern52, numba_kernels.matern52_slope),
    np.inf: (numba_kernels.rbf, numba_kernels.rbf_slope),
}


@attrs.frozen
class Stationary(Lengthscaled):
    """Base class of kernels of the scaled distance."""

    def fill(self, X: Floats, Z: Floats, out: Floats) -> None:
        if len(Z) == 1:  # one long row is faster than many rows of one number
            X, Z, out = Z, X, out.T
        numba_kernels.squared_distances(X, Z, self.inverse(X.shape[1]), out)
        self.radial(out)

    @abstractmethod
    def radial(self, block: Floats) -> None:
        """Replace squared scaled distances (n, m) by covariances, in place."""

    @abstractmethod
    def radial_slope(self, block: Floats) -> None:
        """Replace squared scaled distances (n, m) by the covariances' derivatives in them, in place."""

    def _slopes(self, X: Floats, Z: Floats) -> tuple[Floats, Floats]:
        """Return 1 / lengthscale (d,) and the derivatives (n, m) of the covariances in the squared distances."""
        inverse, block = self.inverse(X.shape[1]), np.empty((len(X), len(Z)))
        numba_kernels.squared_distances(X, Z, inverse, block)
        self.radial_slope(block)
        return inverse, block

    def slope(self, X: Floats, Z: Floats, weights: Floats, out: Floats) -> None:
        inverse, block = self._slopes(X, Z)
        block *= weights
        numba_kernels.slope_of_squared_distances(X, Z, inverse, block, out)

    def sensitivity(self, X: Floats, weights: Floats) -> Floats:
        inverse, block = self._slopes(X, X)
        block *= weights
        sums = np.zeros(X.shape[1])
        numba_kernels.squared_distances_by_dimension(X, inverse, block, sums)
        return self.by_lengthscale(-2.0 * sums)


@attrs.frozen
class RBF(Stationary):
    """Squared exponential kernel, exp(-r^2 / 2).

    Parameters
    ----------
    lengthscale
        Lengthscale in units of x: one number, or one for each dimension.

    Raises
    ------
    ValueError
        If a lengthscale is not positive.
    """

    def radial(self, block: Floats) -> None:
        numba_kernels.rbf(block)

    def radial_slope(self, block: Floats) -> None:
        numba_kernels.rbf_slope(block)


@attrs.frozen
class Matern(Stationary):
    """Matern kernel, 2^(1-nu) / Gamma(nu) a^nu K_nu(a) with a = sqrt(2 nu) r.

    Parameters
    ----------
    lengthscale
        Lengthscale in units of x: one number, or one for each dimension.
    nu
        Smoothness: 1/2, 3/2 and 5/2 have closed forms, infinity gives the RBF kernel; any other positive number
        requires the modified Bessel function K_nu.

    Raises
    ------
    ValueError
        If a lengthscale or nu is not positive.
    """

    nu: float = attrs.field(default=1.5, converter=checks.to_float, validator=checks.positive_or_infinite, kw_only=True)

    def radial(self, block: Floats) -> None:
        if self.nu in _CLOSED_FORMS:
            _CLOSED_FORMS[self.nu][0](block)
        else:
            block[:] = _matern(self._argument(block), self.nu)

    def radial_slope(self, block: Floats) -> None:
        if self.nu in _CLOSED_FORMS:
            _CLOSED_FORMS[self.nu][1](block)
        else:
            block[:] = _matern_slope(self._argument(block), self.nu)

    def _argument(self, block: Floats) -> Floats:
        """Return a = sqrt(2 nu) r for squared distances r^2, bounded to keep K_nu finite (the kernel is 0 there)."""
        with np.errstate(over="ignore"):
            return np.minimum(np.sqrt(2.0 * self.nu * block), 1e6 * max(self.nu, 1.0))


def _matern(a: Floats, nu: float) -> Floats:
    """Compute 2^(1-nu) / Gamma(nu) a^nu K_nu(a)."""
    if nu > 150.0:
        return _matern_of_large_order(a, nu)
    from scipy.special import gammaln, kve

    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        # kve(nu, a) = K_nu(a) exp(a); the logarithm is finite for large a.
        log_bessel = np.log(kve(nu, a)) - a
        values = np.exp((1.0 - nu) * np.log(2.0) - gammaln(nu) + nu * np.log(a) + log_bessel)
    overflow = ~np.isfinite(log_bessel) & (a < 1.0 + nu)  # near 0, where a^nu K_nu(a) is 0 * inf
    if overflow.any():
        term, total = np.ones(overflow.sum()), np.ones(overflow.sum())
        for k in range(1, min(12, int(np.ceil(nu)))):  # DLMF 10.31.1
            term *= -((a[overflow] / 2.0) ** 2) / (k * (nu - k))
            total += term
        values[overflow] = total
    return values


def _matern_slope(a: Floats, nu: float) -> Floats:
    """Compute the Matern kernel's derivative in r^2, -nu 2^(1-nu) / Gamma(nu) a^(nu-1) K_(nu-1)(a), a = sqrt(2 nu) r.

    It follows from (a^nu K_nu)' = -a^nu K_(nu-1), DLMF 10.29.4. For nu <= 1 it has a pole at 0; the result there is 0.
    """
    if nu > 1.0:
        return -nu / (2.0 * (nu - 1.0)) * _matern(a, nu - 1.0)
    from scipy.special import gamma, kve

    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        slope = -nu * 2.0 ** (1.0 - nu) / gamma(nu) * a ** (nu - 1.0) * kve(1.0 - nu, a) * np.exp(-a)
    return np.where(np.isfinite(slope), slope, 0.0)


def _matern_of_large_order(a: Floats, nu: float) -> Floats:
    """Compute 2^(1-nu) / Gamma(nu) a^nu K_nu(a) by the uniform expansion of K_nu (DLMF 10.41.4), to 1e-12 for nu > 150.

    Gamma(nu) is expanded by Stirling's series and combined analytically, so that no large logarithms cancel.
    """
    w = np.sqrt(1.0 + (a / nu) ** 2)
    p = 1.0 / w
    p2 = p * p
    u1 = p * (3.0 - 5.0 * p2) / 24.0
    u2 = p2 * (81.0 + p2 * (-462.0 + 385.0 * p2)) / 1152.0
    u3 = p * p2 * (30375.0 + p2 * (-369603.0 + p2 * (765765.0 - 425425.0 * p2))) / 414720.0
    u4 = 4465125.0 + p2 * (-94121676.0 + p2 * (349922430.0 + p2 * (-446185740.0 + 185910725.0 * p2)))
    u4 *= p2 * p2 / 39813120.0
    series = np.log1p((-u1 + (u2 + (-u3 + u4 / nu) / nu) / nu) / nu)
    stirling = -1.0 / (12.0 * nu) + 1.0 / (360.0 * nu**3)
    return np.exp(stirling + nu * (1.0 - w + np.log1p((w - 1.0) / 2.0)) - 0.5 * np.log(w) + series)


@attrs.frozen
class RationalQuadratic(Stationary):
    """Rational quadratic kernel, (1 + r^2 / (2 alpha))^-alpha: a mixture of RBF kernels.

    Parameters
    ----------
    lengthscale
        Lengthscale in units of x: one number, or one for each dimension.
    alpha
        Shape of the mixture, positive; the kernel tends to the RBF kernel as alpha grows.

    Raises
    ------
    ValueError
        If a lengthscale or alpha is not positive.
    """

    learned: ClassVar[tuple[str, ...]] = ("lengthscale", "alpha")

    alpha: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.positive, kw_only=True)

    def radial(self, block: Floats) -> None:
        numba_kernels.rational_quadratic(block, self.alpha)

    def radial_slope(self, block: Floats) -> None:
        numba_kernels.rational_quadratic_slope(block, self.alpha)

    def sensitivity(self, X: Floats, weights: Floats) -> Floats:
        block = np.empty((len(X), len(X)))
        numba_kernels.squared_distances(X, X, self.inverse(X.shape[1]), block)
        numba_kernels.rational_quadratic_shape(block, self.alpha)
        return np.append(super().sensitivity(X, weights), (weights * block).sum())
