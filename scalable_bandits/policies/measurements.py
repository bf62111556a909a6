"""Measurements: the arguments of `Policy.tell`, checked before any state changes."""

from __future__ import annotations

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


class UsualNoise(NamedTuple):
    """Noise of a measurement whose own is not given."""

    scale: float  # R, in units of y
    variance: float  # lambda, noise variance of a measurement with noise R, in squared units of y
    floor: float = 0.0  # smallest noise variance that is not lost in the rounding of the prior variance
    learned: bool = False  # whether the model learns a factor of all noise variances, so that none can be given


def check_rounding(regularization: float, prior_variance: float) -> None:
    """Refuse a noise variance lambda that is lost in the rounding of the largest prior variance."""
    floor = ROUNDING * prior_variance
    if regularization < floor:
        lost = f"less is lost in the rounding of the prior variance {prior_variance:.3g}"
        checks.refuse("regularization", regularization, f"at least {floor:.3g}: {lost}")


def warn_of_rounding(name: str, regularization: float, prior_variance: float, rounds: int) -> None:
    """Warn that double precision cannot carry a posterior of so many rounds.

    They may all be of one point, whose variance is then lambda / rounds.

    Parameters
    ----------
    name
        Name of the policy's class.
    regularization, prior_variance
        lambda and the largest prior variance, in squared units of y.
    rounds
        Number of rounds.
    """
    text = (
        f"{name}: regularization={regularization:.3g} (lambda) and T = {rounds:,} rounds are more than double "
        f"precision can carry: lambda / T is below {CARRIED:.0e} of the largest prior variance, {prior_variance:.3g}, "
        f"and the posterior of a point that is played nearly always may be wrong; allowed: at most "
        f"{regularization / (CARRIED * prior_variance):,.0f} rounds, or lambda at least "
        f"{CARRIED * prior_variance * rounds:.3g}"
    )
    checks.warn(text, LostInRounding)


class Measurements(NamedTuple):
    """Checked measurements."""

    points: Floats  # (k, d)
    values: Floats  # (k,) in units of y
    noise: Floats | None  # (k,) standard deviations, in units of y; None if not given
    variances: Floats  # (k,) noise variances in the posterior


def measured(space: Space, x: ArrayLike, y: ArrayLike, noise: ArrayLike | None, usual: UsualNoise) -> Measurements:
    """Return the measurements that `Policy.tell` was called with; ValueError if they are invalid."""
    points, single = space.parse(x)
    values = checks.finite("y", y) + 0.0  # -0.0 becomes 0.0, as databases keep it
    if values.shape not in ((len(points),), ()) or (values.ndim == 0 and not single):
        checks.refuse("y", f"shape {values.shape}", f"one value for each of the {len(points)} points")
    if np.abs(values).max() > LARGEST:
        checks.refuse("y", y, f"numbers up to {LARGEST:.0e} in size: squares of larger ones overflow")
    scales = None
    variances = np.full(len(points), usual.variance)
    if noise is not None:
        if usual.learned:
            allowed = "None where the policy learns the noise; a policy made with noise= takes it"
            checks.refuse("noise", noise, allowed)
        scales = checks.finite("noise", noise)
        if scales.shape not in ((len(points),), ()) or (scales <= 0).any():
            checks.refuse("noise", noise, f"a positive number, or one for each of the {len(points)} points")
        scales = np.broadcast_to(scales, (len(points),))
        with np.errstate(over="ignore", under="ignore"):
            variances *= (scales / usual.scale) ** 2
    floor = max(usual.floor, SMALLEST)
    if variances.min() < floor:
        least = usual.scale * (floor / usual.variance) ** 0.5
        checks.refuse("noise", noise, f"at least {least:.3g}: less is lost in the rounding of the prior variance")
    if variances.max() > 1.0 / SMALLEST:
        most = usual.scale * (1.0 / SMALLEST / usual.variance) ** 0.5
        checks.refuse("noise", noise, f"at most {most:.3g}: precisions of larger ones are lost in rounding")
    return Measurements(points, values.ravel(), scales, variances)
