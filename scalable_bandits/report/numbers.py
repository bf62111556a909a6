"""Numbers as readable text."""

from __future__ import annotations

import math

MISSING = "\N{EN DASH}"  # shown for NaN


def significant(value: float, digits: int = 4) -> str:
    """Format a number with a fixed count of significant digits; numbers from 10,000 on are rounded to whole ones.

    Examples
    --------
    >>> [significant(value) for value in (31.0, 0.031, 1053.4, 9999.7, 12345.6, 0.0)]
    ['31.00', '0.03100', '1053', '10,000', '12,346', '0']
    >>> significant(66.52, 2), significant(0.7294, 2), significant(1.24e-9, 2)
    ('67', '0.73', '1.2e-09')
    """
    if not math.isfinite(value):
        return str(value)
    if value == 0.0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if places > digits + 3:
        return f"{value:.{digits - 1}e}"
    text = f"{value:.{max(places, 0)}f}"
    return f"{float(text):,.0f}" if abs(float(text)) >= 10_000 else text


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


def duration_in_words(value: float) -> str:
    """Write seconds in a unit in which they are neither small nor many."""
    long = ((86_400.0, 172_800.0, "days"), (3600.0, 7200.0, "h"), (60.0, 120.0, "min"), (1.0, 0.9995, "s"))
    for size, least, unit in (*long, (1e-3, 0.9995e-3, "ms")):
        if value >= least:
            return f"{significant(value / size, 3)} {unit}"
    return f"{significant(value * 1e6, 3)} us"


def bytes_in_words(value: float) -> str:
    """Write a number of bytes in kB, MB or GB."""
    unit, size = next((each for each in (("GB", 1e9), ("MB", 1e6)) if value >= each[1]), ("kB", 1e3))
    return f"{significant(value / size, 3)} {unit}"
