"""Points by the names of their parameters; values, points and estimates as text.

How many digits a number needs follows from what it is compared with: `places_of` returns the decimals that show a
width, that of a parameter's range or of the values beside it, and texts have at least these.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from scalable_bandits.checks import showable
from scalable_bandits.spaces import Axis, Space
from scalable_bandits.tickets import Ticket

DIGITS = 4  # significant digits of numbers, and of the width of a parameter's range
APART = 3  # significant digits of the spread of values that are shown beside each other
MOST_DIGITS = 15  # significant digits that every float keeps: the next ones are rounding
ANY = -math.inf  # decimals of a number that is compared with none
OF_BATCH = "of the batch measured"  # after the number of evaluations that end with their batch
NONE_KEEPS = "none keeps all constraints"  # in the place of the best observation


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


def places_of(width: float, digits: int = APART) -> float:
    """Return the number of decimals that show a width to some significant digits; `ANY` if it is not positive.

    Parameters
    ----------
    width
        Largest difference of the numbers that are compared, such as high - low of a parameter.
    digits
        Number of significant digits of the width.

    Examples
    --------
    >>> places_of(1551.0 - 1550.0, 4), places_of(50.0), places_of(0.0)
    (4, 1, -inf)
    """
    if not 0.0 < width < math.inf:
        return ANY
    return digits - math.ceil(math.log10(width) - 1e-9)  # 1.1 - 1.0 is a little more than 0.1


def spread_of(values: Any) -> float:
    """Return the difference of the largest and the smallest of some values; 0.0 if none is finite."""
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    return float(np.ptp(finite)) if len(finite) else 0.0


def places_beside(values: Any, std: float) -> float:
    """Return the decimals of a measured value that is shown beside its estimate: those of the error and the spread.

    Parameters
    ----------
    values
        All measured values, in units of y.
    std
        Standard deviation of the estimate, in units of y.
    """
    return max(places_of(spread_of(values)), places_of(std, 2))


def digits_of(number: float, digits: int, places: float) -> int:
    """Return how many significant digits a number has with so many decimals, but at least `digits`."""
    if number == 0.0 or not math.isfinite(number):
        return digits
    return int(max(digits, min(math.floor(math.log10(abs(number))) + 1 + places, MOST_DIGITS)))


def shown(value: Any, digits: int = DIGITS, places: float = ANY) -> str:
    """Return a parameter's value as text: floats rounded to significant digits, others as Python writes them.

    Parameters
    ----------
    value
        Value of a parameter.
    digits
        Number of significant digits.
    places
        Number of decimals, if that is more.

    Examples
    --------
    >>> [shown(value) for value in (0.0031622, 7, "sqrt", None, 12345.67)]
    ['0.003162', '7', 'sqrt', 'None', '12345.7']
    >>> shown(1550.12064, places=4), shown(1550.00001, places=4), shown(1550.0, places=4)
    ('1550.1206', '1550.0000', '1550')
    """
    if not isinstance(value, float | np.floating):
        return str(value)
    number = float(value) + 0.0  # no negative zero
    usual = digits if abs(number) < 10.0**digits else digits + 2
    count = digits_of(number, usual, places)
    text = f"{number:.{count}g}"
    return text if count == usual or float(text) == number else f"{number:#.{count}g}"  # with zeros that are rounded


def told_apart(
    values: Sequence[float], digits: int = DIGITS, text: Callable[[float, int, float], str] = shown
) -> list[str]:
    """Return the texts of numbers that are compared: a column of a table, the ends of an axis.

    The spread has `APART` digits, and different numbers have different texts, if they differ in `MOST_DIGITS`.

    Parameters
    ----------
    values
        Numbers.
    digits
        Smallest number of significant digits.
    text
        Function that returns the text of a number with so many significant digits and decimals.

    Examples
    --------
    >>> told_apart([0.25, 3.0]), told_apart([1e6, 1e6 + 0.75]), told_apart([0.0, 1.0, 1.000002])
    (['0.25', '3'], ['1000000', '1000000.75'], ['0', '1', '1.000002'])
    """
    places, found = places_of(spread_of(values)), list[str]()
    different = len({value for value in values if value == value})  # NaN is no number
    for count in range(digits, MOST_DIGITS + 1):
        found = [text(value, count, places) for value in values]
        if len({each for each, value in zip(found, values, strict=True) if value == value}) >= different:
            break
    return found


def parameter_text(value: Any, axis: Axis | None, digits: int = DIGITS) -> str:
    """Return the value of a parameter as text, with as many decimals as its range needs.

    Parameters
    ----------
    value
        Value of the parameter.
    axis
        Axis of the parameter; None if it is unknown.
    digits
        Smallest number of significant digits.

    Examples
    --------
    >>> parameter_text(1550.12064, Axis("nm", 1550.0, 1551.0)), parameter_text(0.25, Axis("x", 0.0, 1.0))
    ('1550.1206', '0.25')
    """
    if axis is None or not isinstance(value, float | np.floating):
        return shown(value, digits)
    if axis.labels is not None:
        return str(value)  # one of a list: rounded it may be none of them
    width = abs(float(value)) * math.log(axis.high / axis.low) if axis.log else axis.high - axis.low
    return shown(value, digits, places_of(width, DIGITS))


def texts_of(x: Any, digits: int = 6, space: Space | None = None) -> dict[str, str]:
    """Return the texts of a setting by parameter; of other points one text, of all coordinates, called "x".

    Parameters
    ----------
    x
        Point (d,), number of an arm or of a candidate, label of a candidate, or setting (a dict).
    digits
        Smallest number of significant digits.
    space
        Space of x, whose ranges say how many decimals are needed; None if it is unknown.
    """
    axes = () if space is None else space.axes
    if isinstance(x, Mapping):
        by = {axis.name: axis for axis in axes}
        return {str(name): parameter_text(value, by.get(name), digits) for name, value in x.items()}
    values = [x] if isinstance(x, str) else np.ravel(x).tolist()
    pairs = zip(values, axes if len(axes) == len(values) else [None] * len(values), strict=True)
    return {"x": ", ".join(parameter_text(value, axis, digits) for value, axis in pairs)}


def point_text(x: Any, digits: int = 6, space: Space | None = None) -> str:
    """Return a point or a setting in one line.

    Parameters
    ----------
    x, digits, space
        Arguments of `texts_of`.

    Examples
    --------
    >>> point_text({"rate": 0.0031622, "depth": 7}, 3), point_text(np.array([0.5, 1.0]))
    ('rate = 0.00316, depth = 7', 'x = 0.5, 1')
    """
    return ", ".join(f"{name} = {text}" for name, text in texts_of(x, digits, space).items())


def context_text(context: Mapping[Any, Any], space: Space | None = None) -> str:
    """Return a context in one line; a dimension is named as in tables.

    Parameters
    ----------
    context
        Values by parameter, or coordinates by dimension.
    space
        Space of the run; None if it is unknown.

    Examples
    --------
    >>> context_text({"load": 0.7}), context_text({1: 0.5})
    ('load = 0.7', 'x1 = 0.5')
    """
    return point_text({key if isinstance(key, str) else f"x{key}": value for key, value in context.items()}, 6, space)


def with_error(value: float, std: float, places: float = ANY) -> str:
    """Return a value and its standard deviation, rounded to the second digit of the latter.

    Parameters
    ----------
    value, std
        Value and standard deviation, in units of y.
    places
        Number of decimals of a value without a standard deviation.

    Examples
    --------
    >>> with_error(0.103318, 0.00312), with_error(1530.2, 210.0), with_error(0.1, 0.0)
    ('0.1033 ± 0.0031', '1530 ± 210', '0.1')
    """
    if not (math.isfinite(std) and math.isfinite(value) and std > 0.0):
        return shown(value, places=places)
    places = 1 - math.floor(math.log10(std))
    if not -6 < places < 10:
        return f"{shown(value, places=places)} ± {std:.1e}"
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


def significant(value: float, digits: int = 4, places: float = ANY) -> str:
    """Format a number with a fixed count of significant digits, or decimals; large ones in groups of three.

    Examples
    --------
    >>> [significant(value) for value in (31.0, 0.031, 1053.4, 9999.7, 12345.6, 0.0)]
    ['31.00', '0.03100', '1053', '10,000', '12,346', '0']
    >>> significant(66.52, 2), significant(0.7294, 2), significant(1.24e-9, 2), significant(-40518.93, places=2)
    ('67', '0.73', '1.2e-09', '-40,518.93')
    """
    if not math.isfinite(value):
        return str(value)
    if value == 0.0:
        return "0"
    digits = digits_of(value, digits, places)
    decimals = digits - 1 - math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if decimals > digits + 3:
        return f"{value:.{digits - 1}e}"
    text = f"{value:.{max(decimals, 0)}f}"
    return f"{value:,.{max(decimals, 0)}f}" if abs(float(text)) >= 10_000 else text


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
