"""Points by the names of their parameters; values, points and estimates as text."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scalable_bandits.checks import showable
from scalable_bandits.spaces import Space
from scalable_bandits.tickets import Ticket

DIGITS = 4  # significant digits of numbers


def by_name(space: Space, x: Any) -> dict[str, Any]:
    """Return x as a dict: of a named space the setting itself, of others the coordinates x0, x1, ...

    Parameters
    ----------
    space
        Space of x.
    x
        Point (d,), number of an arm or of a candidate, label of a candidate, or setting (a dict).
    """
    names = (axis.name for axis in space.axes)
    return dict(x) if space.named else dict(zip(names, np.ravel(x).tolist(), strict=True))


def setting_of(space: Space, ticket: Ticket) -> dict[str, Any]:
    """Return what a ticket evaluates, as a dict of values by parameter or coordinate; empty if it has no point.

    Parameters
    ----------
    space
        Space of the run.
    ticket
        Ticket of the run, with the coordinates of its point.
    """
    return by_name(space, space.argument(np.array(ticket.x))) if ticket.x else {}


def shown(value: Any, digits: int = DIGITS) -> str:
    """Return a parameter's value as text: floats rounded to significant digits, others as Python writes them.

    Parameters
    ----------
    value
        Value of a parameter.
    digits
        Number of significant digits.

    Examples
    --------
    >>> [shown(value) for value in (0.0031622, 7, "sqrt", None, 12345.67)]
    ['0.003162', '7', 'sqrt', 'None', '12345.7']
    """
    if not isinstance(value, float | np.floating):
        return str(value)
    number = float(value)
    return f"{number:.{digits if abs(number) < 10.0**digits else digits + 2}g}"


def point_text(x: Any, digits: int = 6) -> str:
    """Return a point or a setting in one line.

    Parameters
    ----------
    x
        Point (d,), arm number, or setting (a dict).
    digits
        Number of significant digits.

    Examples
    --------
    >>> point_text({"rate": 0.0031622, "depth": 7}, 3), point_text(np.array([0.5, 1.0]))
    ('rate = 0.00316, depth = 7', 'x = 0.5, 1')
    """
    if isinstance(x, Mapping):
        return ", ".join(f"{name} = {shown(value, digits)}" for name, value in x.items())
    if isinstance(x, str):
        return f"x = {x}"
    return f"x = {', '.join(shown(float(number), digits) for number in np.ravel(x))}"


def context_text(context: Mapping[Any, Any]) -> str:
    """Return a context in one line; a dimension is named as in tables.

    Parameters
    ----------
    context
        Values by parameter, or coordinates by dimension.

    Examples
    --------
    >>> context_text({"load": 0.7}), context_text({1: 0.5})
    ('load = 0.7', 'x1 = 0.5')
    """
    return point_text({key if isinstance(key, str) else f"x{key}": value for key, value in context.items()})


def with_error(value: float, std: float) -> str:
    """Return a value and its standard deviation, rounded to the second digit of the latter.

    Parameters
    ----------
    value, std
        Value and standard deviation, in units of y.

    Examples
    --------
    >>> with_error(0.103318, 0.00312), with_error(1530.2, 210.0), with_error(0.1, 0.0)
    ('0.1033 ± 0.0031', '1530 ± 210', '0.1')
    """
    if not (math.isfinite(std) and math.isfinite(value) and std > 0.0):
        return shown(value)
    places = 1 - math.floor(math.log10(std))
    if not -6 < places < 10:
        return f"{value:.{DIGITS}g} ± {std:.1e}"
    return " ± ".join(f"{round(number, places) + 0.0:.{max(places, 0)}f}" for number in (value, std))  # 0.0: no "-0"


def counted(number: int, what: str) -> str:
    """Return how many of something there are, in the singular for one.

    Examples
    --------
    >>> counted(1, "run"), counted(2000, "policy"), counted(0, "batch")
    ('1 run', '2,000 policies', '0 batches')
    """
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}{'es' if what.endswith('ch') else 's'}"
    return f"{number:,} {what if number == 1 else plural}"


def listed(names: Sequence[str], most: int) -> str:
    """Return names with commas, and how many there are beyond so many.

    Examples
    --------
    >>> listed(["a", "b", "c"], 3), listed(["a", "b", "c"], 1)
    ('a, b, c', 'a and 2 more')
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


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


def duration_in_words(value: float) -> str:
    """Write seconds in a unit in which they are neither small nor many."""
    long = ((86_400.0, 172_800.0, "days"), (3600.0, 7200.0, "h"), (60.0, 120.0, "min"), (1.0, 0.9995, "s"))
    for size, least, unit in (*long, (1e-3, 0.9995e-3, "ms")):
        if value >= least:
            return f"{significant(value / size, 3)} {unit}"
    return f"{significant(value * 1e6, 3)} us"


class Text(str):
    """Text of several lines that notebooks and the interpreter show as it is, with what the terminal can show."""

    def __str__(self) -> str:
        encoding = getattr(sys.stdout, "encoding", None)
        return "\n".join(showable(line, encoding) for line in self.splitlines())

    __repr__ = __str__
