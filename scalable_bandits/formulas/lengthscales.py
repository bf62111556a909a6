"""Bounds that change with the lengthscale of the kernel, for policies with several candidate lengthscales.

Notation: longest lengthscale theta_0, ratio theta_0 / theta >= 1 of a candidate, dimension d, smoothness nu.
"""

from __future__ import annotations

import math

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.formulas.confidence import check_counts


def norm_bound(rkhs_norm: float, ratio: Floats, dimension: int) -> Floats:
    """Compute B(theta) = (theta_0 / theta)^(d / 2) N, a bound on the norm of f under a shorter lengthscale.

    Source: Ziomek, Adachi & Osborne 2024, Algorithm 1. For kernels whose spectral density decreases with the frequency.

    Parameters
    ----------
    rkhs_norm
        Bound N on the norm of f under its own lengthscale, which is at most theta_0.
    ratio
        Ratios theta_0 / theta, an array (...,) of any shape.
    dimension
        Dimension d of the space.

    Returns
    -------
    ndarray
        Bounds (...,), in the unit of N.
    """
    return np.asarray(rkhs_norm * ratio ** (dimension / 2.0))


def gain_rate(t: Floats, ratio: Floats, dimension: int, nu: float, volume: float = 1.0) -> Floats:
    """Compute the rate at which the maximal information gain grows with the observations and with the lengthscale.

    RBF (nu infinite): (log t)^(d + 1) / theta^d.
    Matern: t^(d (d + 1) / (2 nu + d (d + 1))) (log t)^(2 nu / (2 nu + d)) / theta^d.
    Source: Ziomek, Adachi & Osborne 2024, Proposition 2.2.

    Parameters
    ----------
    t
        Numbers of observations, an array (...,) of any shape; the rate is 0 up to t = 1.
    ratio
        Ratios theta_0 / theta, an array (...,), one for each t.
    dimension
        Dimension d of the space.
    nu
        Smoothness of a Matern kernel; infinity for an RBF kernel.
    volume
        Volume of the space in units of theta_0^d: 1 / theta_0^d for the unit cube.

    Returns
    -------
    ndarray
        Rates (...,) in nats, without their constant.
    """
    d, counts = dimension, np.maximum(t, 1.0)
    if math.isinf(nu):
        rate = np.log(counts) ** (d + 1)
    else:
        rate = counts ** (d * (d + 1) / (2 * nu + d * (d + 1))) * np.log(counts) ** (2 * nu / (2 * nu + d))
    return np.asarray(volume * ratio**d * rate)


def suspected_regret(t: Floats, rkhs_norm: Floats, gain: Floats) -> Floats:
    """Compute sqrt(t) (B sqrt(g) + g), the rate at which the regret of IGP-UCB with a lengthscale grows, for R = 1.

    Such rates are compared with each other only.

    Source: Ziomek, Adachi & Osborne 2024, section 3, from Chowdhury & Gopalan 2017, Theorem 3.

    Parameters
    ----------
    t
        Numbers of rounds, an array (...,) of any shape.
    rkhs_norm
        Bounds B on the norm of f, (...,).
    gain
        Information gains g in nats, (...,).

    Returns
    -------
    ndarray
        Rates (...,), without their constant.
    """
    return np.asarray(np.sqrt(t) * (rkhs_norm * np.sqrt(gain) + gain))


def mean_allowance(t: int, lengthscales: int, delta: float, noise: float) -> float:
    """Compute xi_t, in squared units of y, which bounds mean noises.

    With probability 1 - delta / 2 the mean noise of the n rounds of a lengthscale is at most sqrt(xi_t / n) in size,
    for all lengthscales and rounds.

    xi_t = 2 R^2 log(A pi^2 t^2 / (3 delta)) for A lengthscales introduced so far.
    Source: Ziomek, Adachi & Osborne 2024, Algorithm 1, which bounds A by d log g(t).

    Parameters
    ----------
    t
        Number of the round, from 1 on.
    lengthscales
        Number A of lengthscales introduced so far.
    delta
        Failure probability of the policy.
    noise
        Sub-Gaussian constant R of the noise, in units of y.

    Raises
    ------
    ValueError
        If delta is not between 0 and 1, or a count is not positive.

    Examples
    --------
    >>> mean_allowance(t=1, lengthscales=3, delta=math.pi**2 / math.exp(4), noise=2.0)
    32.0
    """
    check_counts(delta, t=t, lengthscales=lengthscales)
    return 2.0 * noise**2 * math.log(lengthscales * math.pi**2 * t**2 / (3.0 * delta))
