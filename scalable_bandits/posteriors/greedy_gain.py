"""Upper bound on the maximal information gain of a finite space, by greedy maximisation."""

from __future__ import annotations

import math

import numpy as np

from scalable_bandits.checks import finite, kind, refuse
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.registry import make_engine
from scalable_bandits.spaces import FiniteSpace


class GreedyInformationGain:
    """Upper bound on the information gain of any t observations: the greedy maximum divided by 1 - 1/e.

    Source: Srinivas et al. 2010, section 5.1, with the bound of Nemhauser et al. 1978 for submodular functions.

    Parameters
    ----------
    kernel, space
        Prior covariance, and the finite space of the observed points.
    regularization
        Noise variance lambda, in squared units of y.

    Raises
    ------
    ValueError
        If the kernel has a `TemporalDecay`, the space is not finite, or the regularization is not positive.

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
            allowed = "a kernel without TemporalDecay, because the bound is for a function that does not change"
            refuse("kernel", kernel, allowed)
        self._engine = make_engine("auto", kernel, space.points(), np.zeros(space.size))
        self._regularization = regularization
        self._gains = [0.0]

    def __call__(self, t: int) -> float:
        """Return the bound for t >= 0 observations, in nats."""
        while len(self._gains) <= t:
            x, _ = self._engine.argmax(UpperConfidence(width=1.0, mean_weight=0.0), salt=0)
            self._engine.observe(x, 0.0, self._regularization)
            self._gains.append(self._engine.information_gain)
        return self._gains[t] / (1.0 - math.exp(-1.0))
