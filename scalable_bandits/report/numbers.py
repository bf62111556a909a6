"""Numbers as readable text."""

from __future__ import annotations

import math

from scalable_bandits.runs.readable import significant

MISSING = "\N{EN DASH}"  # shown for NaN


def number(value: float, digits: int = 4) -> str:
    """Format a number as `significant` does; NaN becomes a dash."""
    return MISSING if math.isnan(value) else significant(value, digits)


def estimate(value: float, error: float, digits: int = 4) -> str:
    """Format a number with its standard error, which is left out if it is NaN.

    Examples
    --------
    >>> estimate(8.4619, 6.12), estimate(34.66, math.nan)
    ('8.462 ± 6.1', '34.66')
    """
    return number(value, digits) + ("" if math.isnan(error) else f" ± {significant(error, 2)}")


def interval(low: float, high: float) -> str:
    """Format a confidence interval; NaN becomes a dash."""
    return MISSING if math.isnan(low) else f"{number(low, 3)} to {number(high, 3)}"


def bytes_in_words(value: float) -> str:
    """Write a number of bytes in kB, MB or GB."""
    unit, size = next((each for each in (("GB", 1e9), ("MB", 1e6)) if value >= each[1]), ("kB", 1e3))
    return f"{significant(value / size, 3)} {unit}"
