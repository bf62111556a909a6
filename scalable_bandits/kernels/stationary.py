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

    nu: float = attrs.field(default=1.5, converter=checks.number, validator=attrs.validators.gt(0), kw_only=True)

    def radial(self, block: Floats) -> None:
        closed = {0.5: numba_kernels.matern12, 1.5: numba_kernels.matern32, 2.5: numba_kernels.matern52}
        if self.nu in closed:
            closed[self.nu](block)
        elif np.isinf(self.nu):
            numba_kernels.rbf(block)
        else:
            self._bessel(block)

    def _bessel(self, block: Floats) -> None:
        from scipy.special import gammaln, kve

        a = np.sqrt(2.0 * self.nu * block)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            # kve = K_nu(a) exp(a): logarithms keep large a finite.
            log_bessel = np.log(kve(self.nu, a)) - a
            block[:] = np.exp((1.0 - self.nu) * np.log(2.0) - gammaln(self.nu) + self.nu * np.log(a) + log_bessel)
        overflow = ~np.isfinite(log_bessel) & (a < 1.0 + self.nu)  # near 0, where a^nu K_nu(a) is 0 * inf
        if overflow.any():
            s = a[overflow] ** 2 / 4.0  # DLMF 10.31.1; where nu < 2 overflows, s is below rounding
            series = 1.0 - s / (self.nu - 1.0) + s**2 / (2.0 * (self.nu - 1.0) * (self.nu - 2.0))
            block[overflow] = series if self.nu > 2.5 else 1.0


@attrs.frozen
class RationalQuadratic(Stationary):
    """Rational quadratic kernel, (1 + r^2 / (2 alpha))^-alpha: a mixture of RBF kernels."""

    alpha: float = attrs.field(default=1.0, converter=checks.number, validator=checks.positive, kw_only=True)

    def radial(self, block: Floats) -> None:
        numba_kernels.rational_quadratic(block, self.alpha)
