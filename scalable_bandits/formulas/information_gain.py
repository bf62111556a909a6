"""Growth rates of the maximal information gain."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats, finite, integer, refuse
from scalable_bandits.formulas.rates import cells_rate
from scalable_bandits.kernels import RBF, Kernel, Linear, Matern, OnDimensions
from scalable_bandits.kernels.base import Product, Sum, unscaled


def growth_rate(kernel: Kernel, t: int | NDArray[Any], dimension: int) -> float | Floats:
    """Compute the growth of the maximal information gain with the number of observations.

    Linear: d log t. RBF: (log t)^(d + 1). Matern: t^(d (d + 1) / (2 nu + d (d + 1))) log t.

    Parameters
    ----------
    kernel
        Linear, RBF, or Matern with nu > 1. Lengthscales affect only the constant.
    t
        Number of observations: one number, or an array (...,) of any shape.
    dimension
        Dimension d of the space.

    Returns
    -------
    float or ndarray
        Rate in nats, without its constant: a number for one t, (...,) of the shape of t for an array.

    Raises
    ------
    ValueError
        If the theorem does not cover the kernel, or the dimension is below 1.

    References
    ----------
    Srinivas et al. 2010, Theorem 5.
    """
    log_t = np.log(np.maximum(finite("t", t), 1))
    d, kernel = integer("dimension", dimension, 1), unscaled(kernel)
    if isinstance(kernel, Linear):
        rate = d * log_t
    elif isinstance(kernel, RBF):
        rate = log_t ** (d + 1)
    elif isinstance(kernel, Matern) and kernel.nu > 1:
        rate = np.maximum(t, 1) ** (d * (d + 1) / (2 * kernel.nu + d * (d + 1))) * log_t
    else:
        refuse("kernel", kernel, "Linear, RBF, or Matern with nu > 1 (Srinivas et al. 2010, Theorem 5)")
    return float(rate) if np.ndim(rate) == 0 else rate


def improved_matern_rate(nu: float, t: int | NDArray[Any], dimension: int) -> float | Floats:
    """Compute a sharper growth of the maximal information gain for the Matern kernel, up to logarithms.

    t^(d (d + 1) / (d (d + 2) + 2 nu)) for nu > 1. Source: Janz et al. 2020, Theorem 4.

    Parameters
    ----------
    nu
        Smoothness of the kernel, above 1.
    t
        Number of observations: one number, or an array (...,) of any shape.
    dimension
        Dimension d of the space.

    Returns
    -------
    float or ndarray
        Rate in nats, without its constant: a number for one t, (...,) of the shape of t for an array.

    Raises
    ------
    ValueError
        If nu is not above 1, or the dimension is below 1.
    """
    return cells_rate(nu, t, dimension)  # the number of cells grows alike


def gain_exponent(kernel: Kernel, dimension: int) -> float:
    """Return the exponent c of the growth t^c of the maximal information gain, up to logarithms.

    d / (2 nu + d) for the Matern kernel, 0 for smooth ones; of a sum or a product the largest of its parts.
    Source: Vakili, Khezeli & Picheny 2021, Corollary 1.

    Parameters
    ----------
    kernel
        Kernel.
    dimension
        Dimension d of the space.

    Examples
    --------
    >>> gain_exponent(Matern(0.2, nu=1.5) + RBF(0.1), dimension=2)
    0.4
    """
    kernel = unscaled(kernel)
    if isinstance(kernel, Sum | Product):
        return max(gain_exponent(part, dimension) for part in kernel.kernels)
    if isinstance(kernel, OnDimensions):
        return gain_exponent(kernel.kernel, len(kernel.dimensions))
    return dimension / (2.0 * kernel.nu + dimension) if isinstance(kernel, Matern) else 0.0
