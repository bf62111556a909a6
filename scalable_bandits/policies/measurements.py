"""Measurements: the arguments of `Policy.tell`, checked before any state changes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Space

LARGEST = 1e100  # absolute value of y
ROUNDING = 1e-14  # smallest noise variance, as a fraction of the prior variance
CARRIED = 1e-13  # smallest lambda / T, as a fraction of the prior variance, whose posterior double precision can carry
SMALLEST = 1e-200  # noise variance, so that y over it is finite; one over it is the largest noise variance


class LostInRounding(UserWarning):
    """So many rounds with so small a lambda are more than double precision can carry."""


class Measurements(NamedTuple):
    """Checked measurements."""

    points: Floats  # (k, d)
    values: Floats  # (k,) in units of y
    noise: Floats | None  # (k,) standard deviations, in units of y; None if not given
    variances: Floats  # (k,) noise variances in the posterior


class Measuring:
    """Checks of a policy's measurements, by its noise and by what double precision can carry.

    Parameters
    ----------
    policy
        Name of the policy's class, for messages.
    noise
        Sub-Gaussian constant R of a measurement whose noise is not given, in units of y; None if the model learns a
        factor of all noise variances, so that a measurement's own cannot be given.
    regularization
        Noise variance lambda of such a measurement in the posterior, in squared units of y; None if it is learned.

    Attributes
    ----------
    prior_variance : float
        Largest prior variance in the space, in squared units of y; 0 where the prior is learned.
    """

    def __init__(self, policy: str, noise: float | None, regularization: float | None):
        self.policy, self.learned = policy, noise is None
        self.scale, self.variance = noise or 1.0, regularization or 1.0
        if not SMALLEST <= self.variance <= 1.0 / SMALLEST:
            checks.refuse("regularization", regularization, f"from {SMALLEST:.0e} to {1.0 / SMALLEST:.0e}")
        self.prior_variance = 0.0
        self._most_rounds = math.inf  # number that double precision carries

    def expect_variance(self, largest: float, forgets: bool, horizon: int | None) -> None:
        """Take note of the largest prior variance, of whether the posterior forgets, and of the number of rounds.

        Raises
        ------
        ValueError
            If lambda is lost in the rounding of the prior variance.
        """
        if self.variance < ROUNDING * largest:
            lost = f"less is lost in the rounding of the prior variance {largest:.3g}"
            checks.refuse("regularization", self.variance, f"at least {ROUNDING * largest:.3g}: {lost}")
        self.prior_variance = largest
        if largest and not forgets:
            self._most_rounds = self.variance / (CARRIED * largest)
        self.expect_rounds(horizon or 0)

    def expect_rounds(self, rounds: int) -> None:
        """Warn, once, if double precision cannot carry a posterior of so many rounds that all count.

        They may all be of one point, whose variance is then lambda / rounds.
        """
        if rounds <= self._most_rounds:
            return
        self._most_rounds = math.inf
        least = CARRIED * self.prior_variance
        text = (
            f"{self.policy}: regularization={self.variance:.3g} (lambda) and T = {rounds:,} rounds are more than "
            f"double precision can carry: lambda / T is below {CARRIED:.0e} of the largest prior variance, "
            f"{self.prior_variance:.3g}, and the posterior of a point that is played nearly always may be wrong; "
            f"allowed: at most {self.variance / least:,.0f} rounds, or lambda at least {least * rounds:.3g}"
        )
        checks.warn(text, LostInRounding)

    def measurements(
        self, space: Space, x: ArrayLike, y: ArrayLike, noise: ArrayLike | None, beside: Floats | None = None
    ) -> Measurements:  # fmt: skip
        """Return the measurements that `Policy.tell` was called with; ValueError if they are invalid.

        A value y may be NaN, not measured, where there are values `beside` it.
        """
        points, single = space.parse(x)
        values = (checks.finite("y", y) if beside is None else np.asarray(y)) + 0.0  # -0.0: 0.0, as databases keep it
        if values.shape not in ((len(points),), ()) or (values.ndim == 0 and not single):
            checks.refuse("y", f"shape {values.shape}", f"one value for each of the {len(points)} points")
        known = values if beside is None else values[~np.isnan(values)]
        if np.abs(known).max(initial=0.0) > LARGEST:
            checks.refuse("y", y, f"numbers up to {LARGEST:.0e} in size: squares of larger ones overflow")
        if noise is None:
            return Measurements(points, values.ravel(), None, np.full(len(points), self.variance))
        if self.learned:
            checks.refuse("noise", noise, "None where the policy learns the noise; a policy made with noise= takes it")
        scales = checks.finite("noise", noise)
        if scales.shape not in ((len(points),), ()) or (scales <= 0).any():
            checks.refuse("noise", noise, f"a positive number, or one for each of the {len(points)} points")
        scales = np.broadcast_to(scales, (len(points),))
        with np.errstate(over="ignore", under="ignore"):
            variances = self.variance * (scales / self.scale) ** 2
        floor = max(ROUNDING * self.prior_variance, SMALLEST)
        if variances.min() < floor:
            least = self.scale * (floor / self.variance) ** 0.5
            checks.refuse("noise", noise, f"at least {least:.3g}: less is lost in the rounding of the prior variance")
        if variances.max() > 1.0 / SMALLEST:
            most = self.scale * (1.0 / SMALLEST / self.variance) ** 0.5
            checks.refuse("noise", noise, f"at most {most:.3g}: precisions of larger ones are lost in rounding")
        return Measurements(points, values.ravel(), scales, variances)
