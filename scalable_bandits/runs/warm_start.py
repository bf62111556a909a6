"""Earlier observations that a run begins with."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies.measurements import LARGEST
from scalable_bandits.runs.result import TuningResult
from scalable_bandits.spaces import Space
from scalable_bandits.spaces.parameters import Choice, Parameter
from scalable_bandits.specification import nearest

ALLOWED = (
    "a pair of points and values, a table (structured array or DataFrame) with a column for each parameter and one of "
    "values, or an earlier result"
)
VALUE_NAMES = ("value", "y")  # names of the column of values if several columns are not parameters


class Earlier(NamedTuple):
    """Earlier observations."""

    x: Any  # points (k, d), arm numbers (k,), or a list of k dicts
    y: Floats  # (k,) in units of y
    points: Floats  # (k, d) of x


def earlier_observations(given: Any, space: Space, argument: str = "warm_start", anywhere: bool = False) -> Earlier:
    """Convert observations of another run to points and values.

    Parameters
    ----------
    given
        Pair of points and values, table with a column a parameter and one of values, or earlier result.
    space
        Space of the policy.
    argument
        Name of the argument in messages.
    anywhere
        Whether points with the coordinates of the space need not be in it.

    Raises
    ------
    ValueError
        If what was given is of another kind, a point is not in the space, or a value is not a finite number.
    """
    x: Any
    if isinstance(given, TuningResult):
        x, y = given.x, given.y
    elif isinstance(given, tuple | list) and len(given) == 2:
        x, y = given
    elif _columns(given) is not None:
        x, y = _rows(given, space, argument)
    else:
        checks.refuse(argument, given, ALLOWED)
    try:
        points, _ = space.parse(list(x) if space.named and not isinstance(x, Mapping) else x)
        points = points if anywhere else space.check(points)
        values = np.atleast_1d(checks.finite("y", y))
    except ValueError as error:
        raise ValueError(f"{argument}: {error}") from None
    if values.shape != (len(points),):
        checks.refuse(argument, f"values of shape {values.shape}", f"one for each of the {len(points)} points")
    if np.abs(values).max() > LARGEST:
        checks.refuse(argument, f"values up to {np.abs(values).max()}", f"values up to {LARGEST:.0e} in size")
    return Earlier(x, values, points)


def _columns(table: Any) -> list[str] | None:
    """Return the names of a table's columns; None if it is no table."""
    if isinstance(table, np.ndarray) and table.dtype.names:
        return list(table.dtype.names)
    if hasattr(table, "columns") and hasattr(table, "to_dict"):
        return [str(name) for name in table.columns]
    return None


def _rows(table: Any, space: Space, argument: str) -> tuple[list[dict[str, Any]], Any]:
    """Return the settings in a table's rows that have a value, and the values."""
    columns = _columns(table) or []
    if not space.named:
        checks.refuse(argument, f"a table with columns {columns}", "points and values: the space has no names")
    names: Sequence[str] = space.names  # type: ignore[attr-defined]
    for name in names:
        if name not in columns:
            checks.refuse(argument, f"a table without the column {name!r}", f"one; {nearest(name, columns)}")
    others = [name for name in columns if name not in names]
    value = others if len(others) == 1 else [name for name in VALUE_NAMES if name in others]
    if not value:
        allowed = f"one column besides the parameters, or one named {' or '.join(map(repr, VALUE_NAMES))}"
        checks.refuse(argument, f"a table with other columns {others}", allowed)
    kinds: Sequence[Parameter] = space.kinds  # type: ignore[attr-defined]
    y = np.asarray(table[value[0]])
    measured = [each == each for each in y.tolist()]  # an evaluation that failed has NaN
    if not any(measured):
        checks.refuse(argument, "a table without a value", "one with at least one evaluation that did not fail")
    rows = zip(*(_values(table[name], kind) for name, kind in zip(names, kinds, strict=True)), strict=True)
    return [dict(zip(names, row, strict=True)) for row in itertools.compress(rows, measured)], y[measured]


def _values(column: Any, kind: Parameter) -> list[Any]:
    """Return a column as values of a parameter: None, if that is one, is NaN in a table that was read from a file."""
    values = np.asarray(column).tolist()
    if isinstance(kind, Choice) and None in kind.values:
        return [None if value != value else value for value in values]
    return values
