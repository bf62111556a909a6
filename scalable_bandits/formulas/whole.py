"""Whole numbers from formulas that double precision would round to the next one: 10,001 for 10,000."""

from __future__ import annotations

import math
import sys
from decimal import Context, Decimal
from fractions import Fraction

DIGITS, ROUNDING = Context(prec=50), Decimal("1e-30")


def as_fraction(number: float) -> Fraction:
    """Return the fraction that a number stands for, such as 3/10 for 0.3, instead of the nearest double.

    That is the one with a denominator up to 10^6 which is rounded to the number, if there is one.

    Examples
    --------
    >>> as_fraction(0.3), as_fraction(1 / 3)
    (Fraction(3, 10), Fraction(1, 3))
    """
    simple = Fraction(number).limit_denominator(10**6)
    return simple if float(simple) == number else Fraction(number)


def ceiling(number: Decimal) -> int:
    """Return the smallest integer that is at least a number, both in the context of `DIGITS`; 1e-30 are rounding."""
    return math.ceil(number - ROUNDING)


def number_of_plays(shrinkage: float, noise_variance: float, variance: float) -> int:
    """Return for how many rounds a point is played: max(1, floor((C^2 - 1) lambda / s^2)).

    What is less than a whole number by 1e-9 of it is rounding. Source: Calandriello et al. 2022.

    Parameters
    ----------
    shrinkage
        Factor C by which deviations may shrink meanwhile, at least 1.
    noise_variance, variance
        Noise variance lambda of an observation, and posterior variance s^2 of the point, in squared units of y.

    Examples
    --------
    >>> number_of_plays(shrinkage=1.2, noise_variance=100.0, variance=1.0)
    44
    """
    plays = (shrinkage**2 - 1.0) * noise_variance / max(variance, sys.float_info.min)
    return max(1, math.floor(min(plays * (1.0 + 1e-9), 2.0**53)))
