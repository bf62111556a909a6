"""Whole numbers from formulas that double precision would round to the next one: 10,001 for 10,000."""

from __future__ import annotations

import math
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
