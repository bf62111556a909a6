"""Rates that the papers prove for Matern kernels: exponents, and growth without constants.

Notation: smoothness nu > 1, dimension d, horizon T. All rates hold with high probability and, unless stated otherwise,
up to powers of log T.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats


class PartitionExponents(NamedTuple):
    """Exponents b and q of pi-GP-UCB."""

    b: float  # a cell of side r splits when it has r^(-1/b) observations
    q: float  # the number of cells grows at most as T^q


def _checked(nu: float, dimension: int) -> tuple[float, int]:
    value = checks.to_float(nu)
    if not isinstance(value, float) or not value > 1:
        checks.refuse("nu", nu, "a number above 1")
    return value, checks.integer("dimension", dimension, 1)


def partition_exponents(nu: float, dimension: int) -> PartitionExponents:
    """Compute the exponents b = (d + 1) / (d + 2 nu) and q = d (d + 1) / (d (d + 2) + 2 nu) of pi-GP-UCB.

    Source: Janz et al. 2020, section 3.

    Parameters
    ----------
    nu
        Smoothness of the kernel, above 1.
    dimension
        Dimension d of the space.

    Raises
    ------
    ValueError
        If nu is not above 1, or the dimension is not a positive integer.

    Examples
    --------
    >>> partition_exponents(nu=1.5, dimension=1)
    PartitionExponents(b=0.5, q=0.3333333333333333)
    """
    nu, d = _checked(nu, dimension)
    return PartitionExponents((d + 1) / (d + 2 * nu), d * (d + 1) / (d * (d + 2) + 2 * nu))


def cells_rate(nu: float, t: int | NDArray[Any], dimension: int) -> float | Floats:
    """Compute T^q, the growth of the number of cells in pi-GP-UCB.

    Source: Janz et al. 2020, Lemma 2.

    Parameters
    ----------
    nu
        Smoothness of the kernel, above 1.
    t
        Horizon T: one number, or an array (...,) of any shape.
    dimension
        Dimension d of the space.

    Returns
    -------
    float or ndarray
        Rate without its constant: a number for one t, (...,) of the shape of t for an array.

    Raises
    ------
    ValueError
        If nu is not above 1, t is not finite, or the dimension is not a positive integer.
    """
    rate = np.maximum(checks.finite("t", t), 1.0) ** partition_exponents(nu, dimension).q
    return float(rate) if np.ndim(rate) == 0 else rate


def cell_gain_rate(t: int | NDArray[Any]) -> float | Floats:
    """Compute log T log log T, the growth of the information gain in one cell of pi-GP-UCB, including logarithms.

    The rate is 0 up to T = e. Source: Janz et al. 2020, Lemma 1.

    Parameters
    ----------
    t
        Horizon T: one number, or an array (...,) of any shape.

    Returns
    -------
    float or ndarray
        Rate in nats, without its constant: a number for one t, (...,) of the shape of t for an array.

    Raises
    ------
    ValueError
        If t is not finite.
    """
    logarithm = np.log(np.maximum(checks.finite("t", t), math.e))
    rate = logarithm * np.log(logarithm)
    return float(rate) if np.ndim(rate) == 0 else rate


def most_cells(nu: float, t: int | NDArray[Any], dimension: int) -> float | Floats:
    """Compute N_t = 4 (t + 1)^(b d), a bound on the cells that the cover of pi-GP-UCB can contain after t rounds.

    This is a bound including constants, used in the width of pi-GP-UCB. Source: Janz et al. 2020, Lemma 6.

    Parameters
    ----------
    nu
        Smoothness of the kernel, above 1.
    t
        Rounds: one number, or an array (...,) of any shape.
    dimension
        Dimension d of the space.

    Returns
    -------
    float or ndarray
        Number of cells: one number for one t, (...,) of the shape of t for an array.

    Raises
    ------
    ValueError
        If nu is not above 1, t is not finite, or the dimension is not a positive integer.
    """
    bound = 4.0 * (checks.finite("t", t) + 1.0) ** (partition_exponents(nu, dimension).b * dimension)
    return float(bound) if np.ndim(bound) == 0 else bound


def partition_regret_exponent(nu: float, dimension: int) -> float:
    """Compute the exponent of T in the regret bound of pi-GP-UCB.

    (d (2 d + 3) + 2 nu) / (d (2 d + 4) + 4 nu) = (1 + q) / 2. Source: Janz et al. 2020, Theorem 3.

    Parameters
    ----------
    nu
        Smoothness of the kernel, above 1.
    dimension
        Dimension d of the space.

    Raises
    ------
    ValueError
        If nu is not above 1, or the dimension is not a positive integer.

    Examples
    --------
    >>> partition_regret_exponent(nu=1.5, dimension=1)
    0.6666666666666666
    """
    nu, d = _checked(nu, dimension)
    return (d * (2 * d + 3) + 2 * nu) / (d * (2 * d + 4) + 4 * nu)


def improved_regret_exponent(nu: float, dimension: int) -> float:
    """Compute the exponent of T in the regret bounds of GP-UCB and IGP-UCB, as stated in 2020.

    min(1, (3 d^2 + 2 nu) / (2 d^2 + 4 nu)). Source: Janz et al. 2020, section 1. Inserting the information gain of
    Srinivas et al. 2010, Theorem 5, would give d (d + 1) in place of both d^2.

    Parameters
    ----------
    nu
        Smoothness of the kernel, above 1.
    dimension
        Dimension d of the space.

    Raises
    ------
    ValueError
        If nu is not above 1, or the dimension is not a positive integer.
    """
    nu, d = _checked(nu, dimension)
    return min(1.0, (3 * d**2 + 2 * nu) / (2 * d**2 + 4 * nu))


def least_regret_exponent(nu: float, dimension: int) -> float:
    """Compute the smallest exponent of T that the regret of any algorithm can have, (d + nu) / (d + 2 nu).

    Source: Scarlett, Bogunovic & Cevher 2017.

    Parameters
    ----------
    nu
        Smoothness of the kernel, above 1.
    dimension
        Dimension d of the space.

    Raises
    ------
    ValueError
        If nu is not above 1, or the dimension is not a positive integer.
    """
    nu, d = _checked(nu, dimension)
    return (d + nu) / (d + 2 * nu)
