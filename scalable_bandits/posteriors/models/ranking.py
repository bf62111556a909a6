"""Which points of a generation need no evaluation: those that a quadratic model ranks behind, while it ranks well.

    model   f(u) = a + b'u + u'Q u by weighted least squares, of the observations nearest to the strategy's mean, twice
            as many as coefficients; the best one weighs 20 times as much as the worst. Q is diagonal where they are
            fewer than 1.1 times the coefficients, and 0 where they are too few for that
    first   the fifth of the points that the model has best are evaluated
    enough  if the last 15 values are ordered as they were predicted, by a Kendall's tau of at least .75: the other
            points have the values of a model that has seen these, shifted so that the best ones that were evaluated
            are as good in both, and none is better than that
            else half as many points again are evaluated, the best ones of a model that has seen these, and so on

Source: Hansen 2019, A global surrogate assisted CMA-ES.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from scipy.linalg import lstsq

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.state import StateEntry, Stateful, array, number

FIRST, MORE = 0.2, 1.5  # share of the points that are evaluated first; factor of their number where it is not enough
COMPARED, RELIABLE = 15, 0.75  # number of the last values that are compared; tau from which on the model is relied on
ROOM = 1.1  # least number of observations for each coefficient
MOST = 500  # largest number of observations of the model
HEAVIEST = 20.0  # weight of the best observation, relative to that of the worst
SINGULAR = 1e-10  # relative size below which the fit neglects a direction of the coefficients


class Ranking(Stateful):
    """Predicted values of a generation's points, and the last values beside what was predicted of them.

    Attributes
    ----------
    predicted : ndarray
        Predictions (size,); NaN where there are too few observations for a model.
    enough : int
        Number of points to be evaluated before the next comparison.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        number("enough", int), array("_compared", "(2, 15)"), array("predicted", "(size,)"),
    )  # fmt: skip

    def __init__(self) -> None:
        self._compared = np.full((2, COMPARED), np.nan)
        self.begin(0)

    def begin(self, size: int) -> None:
        """Begin a generation of a size, without predictions."""
        self.predicted, self.enough = np.full(size, np.nan), math.ceil(FIRST * size)

    def predict(self, points: Floats, x: Floats, y: Floats) -> None:
        """Predict the values of the generation's points.

        Parameters
        ----------
        points
            Points (size, d), with the strategy's mean as origin and its steps as units.
        x, y
            Observations (n, d), in the same coordinates, and their values (n,).
        """
        distances = np.linalg.norm(x, axis=1)
        d = x.shape[1]
        nearest = np.argsort(distances, kind="stable")[: min(MOST, 2 * coefficients(d))]
        scale = max(1.0, float(distances[nearest[-1]]))
        self.predicted[:] = least_squares(x[nearest] / scale, y[nearest])(points / scale)

    def compare(self, position: int, value: float) -> None:
        """Set the value of a point beside what was predicted."""
        self._compared[:, :-1] = self._compared[:, 1:]
        self._compared[:, -1] = self.predicted[position], value

    @property
    def reliable(self) -> bool:
        """Whether the last values are ordered as they were predicted."""
        predicted, values = (np.sign(row[:, None] - row) for row in self._compared)
        return bool(np.vdot(predicted, values) >= RELIABLE * COMPARED * (COMPARED - 1))

    def need_more(self, known: int) -> None:
        """Need more values than a number that are known."""
        self.enough = math.ceil(MORE * known)

    def completed(self, values: Floats) -> Floats:
        """Return values (size,) with those that are not known, NaN, as predicted."""
        known, best = ~np.isnan(values), np.nanmax(values)
        return np.where(known, values, np.minimum(best, best + self.predicted - self.predicted[known].max()))


def least_squares(x: Floats, y: Floats) -> Callable[[Floats], Floats]:
    """Return the quadratic model (m, d) -> (m,) of observations (n, d) and (n,); NaN where they are too few."""
    n, d = x.shape
    if n < ROOM * (d + 1):
        return lambda u: np.full(len(u), np.nan)
    first, second = np.triu_indices(d)
    if n < ROOM * coefficients(d):
        first = second = np.arange(d if n >= ROOM * (2 * d + 1) else 0)

    def terms(u: Floats) -> Floats:
        return np.hstack([np.ones((len(u), 1)), u, u[:, first] * u[:, second]])

    best, weights = y.max(), np.empty(n)
    weights[np.argsort(-y, kind="stable")] = np.sqrt(np.linspace(HEAVIEST, 1.0, n))
    found, *_ = lstsq(
        terms(x) * weights[:, None], (y - best) * weights, cond=SINGULAR, lapack_driver="gelsy", check_finite=False
    )
    return lambda u: np.asarray(best + terms(u) @ found)


def coefficients(d: int) -> int:
    """Return the number of coefficients of a quadratic function of d variables."""
    return (d + 1) * (d + 2) // 2
