"""What the papers prove for Matern kernels, as functions: exponents, and growth without constants.

Notation: nu smoothness, d dimension, T horizon. All statements are for nu > 1, up to powers of log T unless they say
otherwise, and with high probability.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats


class PartitionExponents(NamedTuple):
    """b and q of pi-GP-UCB."""

    b: float  # a cell of side r splits at r^(-1/b) observations
    q: float  # T^q cells are ever made, at the most


def _checked(nu: float, dimension: int) -> tuple[float, int]:
    value = checks.to_float(nu)
    if not isinstance(value, float) or not value > 1:
        checks.refuse("nu", nu, "a number above 1")
    return value, checks.integer("dimension", dimension, 1)


def partition_exponents(nu: float, dimension: int) -> PartitionExponents:
    """b = (d + 1) / (d + 2 nu) and q = d (d + 1) / (d (d + 2) + 2 nu). Source: Janz et al. 2020, section 3.

    Parameters
    ----------
    nu
        Smoothness of the kernel, above 1.
    dimension
        d, of the points.

    Raises
    ------
    ValueError
        If nu is not above 1, or the dimension not a positive whole number.

    Examples
    --------
    >>> partition_exponents(nu=1.5, dimension=1)
    PartitionExponents(b=0.5, q=0.3333333333333333)
    """
    nu, d = _checked(nu, dimension)
    return PartitionExponents((d + 1) / (d + 2 * nu), d * (d + 1) / (d * (d + 2) + 2 * nu))


def cells_rate(nu: float, t: int | NDArray[Any], dimension: int) -> float | Floats:
    """T^q, the growth of the number of cells that pi-GP-UCB ever makes, at one horizon or at many.

    Source: Janz et al. 2020, Lemma 2.

    Parameters
    ----------
    nu
        Smoothness of the kernel, above 1.
    t
        Rounds: one number, or an array (...,) of any shape.
    dimension
        d, of the points.

    Returns
    -------
    float or ndarray
        Without its constant: a number for one t, (...,) of the shape of t for an array.

    Raises
    ------
    ValueError
        If nu is not above 1, t not finite, or the dimension not a positive whole number.
    """
    rate = np.maximum(checks.finite("t", t), 1.0) ** partition_exponents(nu, dimension).q
    return float(rate) if np.ndim(rate) == 0 else rate


def cell_gain_rate(t: int | NDArray[Any]) -> float | Floats:
    """log T log log T (nats), the growth of the information gain in any one cell, all logarithms included.

    Zero up to T = e. Source: Janz et al. 2020, Lemma 1.

    Parameters
    ----------
    t
        Rounds: one number, or an array (...,) of any shape.

    Returns
    -------
    float or ndarray
        In nats, without its constant: a number for one t, (...,) of the shape of t for an array.

    Raises
    ------
    ValueError
        If t is not finite.
    """
    logarithm = np.log(np.maximum(checks.finite("t", t), math.e))
    rate = logarithm * np.log(logarithm)
    return float(rate) if np.ndim(rate) == 0 else rate


def most_cells(nu: float, t: int | NDArray[Any], dimension: int) -> float | Floats:
    """4 (t + 1)^(b d), N_t of pi-GP-UCB: cells that could be in its cover after t rounds, constants included.

    Source: Janz et al. 2020, Lemma 6.

    Parameters
    ----------
    nu
        Smoothness of the kernel, above 1.
    t
        Rounds: one number, or an array (...,) of any shape.
    dimension
        d, of the points.

    Returns
    -------
    float or ndarray
        Cells: a number for one t, (...,) of the shape of t for an array.

    Raises
    ------
    ValueError
        If nu is not above 1, t not finite, or the dimension not a positive whole number.
    """
    bound = 4.0 * (checks.finite("t", t) + 1.0) ** (partition_exponents(nu, dimension).b * dimension)
    return float(bound) if np.ndim(bound) == 0 else bound


def partition_regret_exponent(nu: float, dimension: int) -> float:
    """(d (2d + 3) + 2 nu) / (d (2d + 4) + 4 nu) = (1 + q) / 2, of pi-GP-UCB. Source: Janz et al. 2020, Theorem 3.

    Parameters
    ----------
    nu
        Smoothness of the kernel, above 1.
    dimension
        d, of the points.

    Raises
    ------
    ValueError
        If nu is not above 1, or the dimension not a positive whole number.

    Examples
    --------
    >>> partition_regret_exponent(nu=1.5, dimension=1)
    0.6666666666666666
    """
    nu, d = _checked(nu, dimension)
    return (d * (2 * d + 3) + 2 * nu) / (d * (2 * d + 4) + 4 * nu)


def improved_regret_exponent(nu: float, dimension: int) -> float:
    """min(1, (3 d^2 + 2 nu) / (2 d^2 + 4 nu)), of GP-UCB and IGP-UCB as known in 2020.

    Source: Janz et al. 2020, section 1, from the information gain of Srinivas et al. 2010, Theorem 5.

    Parameters
    ----------
    nu
        Smoothness of the kernel, above 1.
    dimension
        d, of the points.

    Raises
    ------
    ValueError
        If nu is not above 1, or the dimension not a positive whole number.
    """
    nu, d = _checked(nu, dimension)
    return min(1.0, (3 * d**2 + 2 * nu) / (2 * d**2 + 4 * nu))


def least_regret_exponent(nu: float, dimension: int) -> float:
    """(d + nu) / (d + 2 nu): no algorithm's is smaller. Source: Scarlett, Bogunovic & Cevher 2017.

    Parameters
    ----------
    nu
        Smoothness of the kernel, above 1.
    dimension
        d, of the points.

    Raises
    ------
    ValueError
        If nu is not above 1, or the dimension not a positive whole number.
    """
    nu, d = _checked(nu, dimension)
    return (d + nu) / (d + 2 * nu)
