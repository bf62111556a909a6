"""Information gain: realised (the engines keep it), greedy over the space, and the papers' growth rates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.acquisition import UpperConfidence
from scalable_bandits.checks import Floats, finite, integer, kind, refuse, to_float
from scalable_bandits.kernels import RBF, Kernel, Linear, Matern
from scalable_bandits.posteriors import make_engine
from scalable_bandits.spaces import FiniteSpace


class GreedyInformationGain:
    """Upper bound on the largest gain of t observations: the greedy maximum over (1 - 1/e).

    Source: Srinivas et al. 2010, section 5.1 (the gain is submodular: Nemhauser et al. 1978).

    Parameters
    ----------
    kernel, space
        Prior covariance and finite space.
    regularization
        lambda, in squared units of y.

    Raises
    ------
    ValueError
        If the function changes over rounds (`TemporalDecay`), the space is not finite, or the regularization not
        positive.

    Examples
    --------
    >>> from scalable_bandits import RBF, Points
    >>> gain = GreedyInformationGain(RBF(), Points([0.0]), regularization=1.0)
    >>> round(gain(1) * (1 - math.exp(-1)), 4)  # 1/2 log 2
    0.3466
    """

    def __init__(self, kernel: Kernel, space: FiniteSpace, regularization: float):
        kind("kernel", kernel, Kernel, "a kernel, such as RBF(0.2)")
        kind("space", space, FiniteSpace, "a Grid, Points or Arms")
        if not finite("regularization", regularization, ndim=0) > 0.0:
            refuse("regularization", regularization, "a positive number")
        if kernel.epsilon:
            refuse("kernel", kernel, "one without TemporalDecay: the bound is for a function that stays as it is")
        self._engine = make_engine("auto", kernel, space.points(), np.zeros(space.size))
        self._regularization = regularization
        self._gains = [0.0]

    def __call__(self, t: int) -> float:
        """Gain bound of t >= 0 observations, in nats."""
        while len(self._gains) <= t:
            x, _ = self._engine.maximize(UpperConfidence(width=1.0, mean_weight=0.0), salt=0)
            self._engine.observe(x, 0.0, self._regularization)
            self._gains.append(self._engine.information_gain)
        return self._gains[t] / (1.0 - math.exp(-1.0))


def growth_rate(kernel: Kernel, t: int | NDArray[Any], dimension: int) -> float | Floats:
    """Growth of the maximal information gain in t, without its constant.

    Linear d log t; RBF (log t)^(d + 1); Matern t^(d (d + 1) / (2 nu + d (d + 1))) log t.

    Parameters
    ----------
    kernel
        Linear, RBF, or Matern with nu > 1; lengthscales enter the constant only.
    t
        Observations: one number, or an array (...,) of any shape.
    dimension
        d, of the points.

    Returns
    -------
    float or ndarray
        In nats: a number for one t, (...,) of the shape of t for an array.

    Raises
    ------
    ValueError
        For a kernel that the theorem does not treat, or a dimension below 1.

    References
    ----------
    Srinivas et al. 2010, Theorem 5.
    """
    log_t = np.log(np.maximum(finite("t", t), 1))
    d = integer("dimension", dimension, 1)
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
    """Sharper growth for the Matern kernel, t^(d (d + 1) / (d (d + 2) + 2 nu)), up to logarithms.

    Source: Janz et al. 2020, Theorem 4 (nu > 1).

    Parameters
    ----------
    nu
        Smoothness of the kernel, above 1.
    t
        Observations: one number, or an array (...,) of any shape.
    dimension
        d, of the points.

    Returns
    -------
    float or ndarray
        In nats, without its constant: a number for one t, (...,) of the shape of t for an array.

    Raises
    ------
    ValueError
        If nu is not above 1, or the dimension below 1.
    """
    d, smoothness = integer("dimension", dimension, 1), to_float(nu)
    if not isinstance(smoothness, float) or not smoothness > 1.0:
        refuse("nu", nu, "a number above 1")
    rate = np.maximum(finite("t", t), 1) ** (d * (d + 1) / (d * (d + 2) + 2 * nu))
    return float(rate) if np.ndim(rate) == 0 else rate
