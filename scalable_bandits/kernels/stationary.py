"""Stationary kernels: functions of the scaled distance r = |(x - z) / lengthscale|, with k(x, x) = 1.

Source: Rasmussen & Williams 2006, chapter 4.
"""

from __future__ import annotations

from abc import abstractmethod

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import _numba_kernels as numba_kernels
from scalable_bandits.kernels.base import Lengthscaled

_CLOSED = {  # Matern kernels by nu
    0.5: numba_kernels.matern12, 1.5: numba_kernels.matern32, 2.5: numba_kernels.matern52, np.inf: numba_kernels.rbf,
}  # fmt: skip


@attrs.frozen
class Stationary(Lengthscaled):
    """Base of the kernels of the scaled distance."""

    def fill(self, X: Floats, Z: Floats, out: Floats) -> None:
        numba_kernels.squared_distances(X, Z, self.inverse(X.shape[1]), out)
        self.radial(out)

    def diagonal(self, X: Floats) -> Floats:
        return np.ones(len(X))

    @abstractmethod
    def radial(self, block: Floats) -> None:
        """Turn squared scaled distances into covariances, in place."""


@attrs.frozen
class RBF(Stationary):
    """Squared exponential kernel, exp(-r^2 / 2)."""

    def radial(self, block: Floats) -> None:
        numba_kernels.rbf(block)


@attrs.frozen
class Matern(Stationary):
    """Matern kernel, 2^(1-nu) / Gamma(nu) a^nu K_nu(a) with a = sqrt(2 nu) r.

    Parameters
    ----------
    lengthscale
        In units of x; one number, or one a dimension.
    nu
        Smoothness. 1/2, 3/2, 5/2 have closed forms, infinity is the RBF kernel, any other positive
        number goes through the modified Bessel function K_nu.
    """

    nu: float = attrs.field(default=1.5, converter=checks.to_float, validator=checks.positive_or_infinite, kw_only=True)

    def radial(self, block: Floats) -> None:
        closed = _CLOSED.get(self.nu)
        if closed is not None:
            closed(block)
        else:
            self._bessel(block)

    def _bessel(self, block: Floats) -> None:
        if self.nu > 150.0:
            block[:] = _matern_of_large_order(np.sqrt(2.0 * self.nu * block), self.nu)
            return
        from scipy.special import gammaln, kve

        a = np.sqrt(2.0 * self.nu * block)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            # kve = K_nu(a) exp(a): logarithms keep large a finite.
            log_bessel = np.log(kve(self.nu, a)) - a
            block[:] = np.exp((1.0 - self.nu) * np.log(2.0) - gammaln(self.nu) + self.nu * np.log(a) + log_bessel)
        overflow = ~np.isfinite(log_bessel) & (a < 1.0 + self.nu)  # near 0, where a^nu K_nu(a) is 0 * inf
        if overflow.any():
            term, total = np.ones(overflow.sum()), np.ones(overflow.sum())
            for k in range(1, min(12, int(np.ceil(self.nu)))):  # DLMF 10.31.1
                term *= -((a[overflow] / 2.0) ** 2) / (k * (self.nu - k))
                total += term
            block[overflow] = total


def _matern_of_large_order(a: Floats, nu: float) -> Floats:
    """2^(1-nu) / Gamma(nu) a^nu K_nu(a) by the uniform expansion of K_nu (DLMF 10.41.4), to 1e-12 for nu > 150.

    Stirling's series of Gamma(nu) is taken out by hand, so that no large logarithms cancel.
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
    """Rational quadratic kernel, (1 + r^2 / (2 alpha))^-alpha: a mixture of RBF kernels."""

    alpha: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.positive, kw_only=True)

    def radial(self, block: Floats) -> None:
        numba_kernels.rational_quadratic(block, self.alpha)
