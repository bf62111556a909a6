"""Forgetting kernel: correlation of a changing function between two rounds."""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels.base import Kernel


@attrs.frozen
class TemporalDecay(Kernel):
    """Forgetting kernel, (1 - epsilon)^(|t - t'| / 2) between rounds t and t'.

    It multiplies a kernel of x: under ``k * TemporalDecay(epsilon)`` the function is a first-order autoregression,
    f_{t+1} = sqrt(1 - epsilon) f_t + sqrt(epsilon) g_{t+1}, where g_{t+1} is an independent draw from GP(0, k). Within
    one round the forgetting kernel is 1.

    Source: Bogunovic, Scarlett & Cevher 2016, section 2.

    Parameters
    ----------
    epsilon
        Rate of change, from 0 (constant function) to 1 (independent function in every round).

    Raises
    ------
    ValueError
        If epsilon is not between 0 and 1.

    Examples
    --------
    >>> TemporalDecay(0.19).between([1, 1, 3], 1).round(2).tolist()
    [1.0, 1.0, 0.81]
    """

    epsilon: float = attrs.field(converter=checks.to_float, validator=checks.fraction)

    def between(self, t: ArrayLike, other: ArrayLike) -> Floats:
        """Compute the correlation of the function in rounds `t` with the function in rounds `other`, between 0 and 1.

        Parameters
        ----------
        t, other
            Rounds: numbers, or arrays (...,) of shapes that broadcast.

        Returns
        -------
        ndarray
            Correlations (...,) of the broadcast shape.
        """
        lag = np.abs(np.asarray(t, dtype=np.float64) - np.asarray(other, dtype=np.float64))
        result: Floats = np.power(1.0 - self.epsilon, lag / 2.0)
        return result

    @property
    def stationary(self) -> bool:
        return True

    def fill(self, X: Floats, Z: Floats, out: Floats) -> None:
        out[...] = 1.0

    def diagonal(self, X: Floats) -> Floats:
        return np.ones(len(X))
