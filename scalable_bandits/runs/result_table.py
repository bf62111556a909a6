"""Tables and text of a tuning result: one row an evaluation, the best so far, a summary of the best settings."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import pandas

    from scalable_bandits.runs.result import TuningResult

DIGITS = 4  # significant digits of numbers in a summary
MOST_ROWS = 40  # parameters in a summary
OWN = ("value", "error", "seconds")  # columns of a table beside the parameters


class Evaluation(NamedTuple):
    """One evaluation of a tuning run."""

    x: Any  # point (d,), arm number, or setting (a dict)
    value: float  # in units of y; NaN if the evaluation failed
    error: str  # of a failed evaluation; else empty
    seconds: float  # duration; NaN if unknown


def evaluations(found: TuningResult) -> list[Evaluation]:
    """Return the evaluations of a result in the order in which they ended.

    Parameters
    ----------
    found
        Result of `maximize` or `minimize`.
    """
    return [Evaluation(x, y, "", math.nan) for x, y in zip(found.x, found.y.tolist(), strict=True)]


def own_names(names: tuple[str, ...], own: tuple[str, ...] = OWN) -> list[str]:
    """Return names of columns, with underscores after those that a parameter has."""
    return [name if name not in names else f"{name}_" for name in own]


def table(found: TuningResult) -> pandas.DataFrame:
    """Return one row an evaluation, as `TuningResult.table` does.

    Parameters
    ----------
    found
        Result of `maximize` or `minimize`.
    """
    import pandas

    axes, rows = found.policy.space.axes, evaluations(found)
    names = tuple(axis.name for axis in axes)
    if found.policy.space.named:
        columns = {name: [row.x.get(name, math.nan) for row in rows] for name in names}
    else:
        points = np.array([row.x for row in rows]).reshape(len(rows), len(names))
        columns = dict(zip(names, points.T, strict=True))
    value, error, seconds = own_names(names)
    columns |= {value: [row.value for row in rows], error: [row.error for row in rows]}
    if any(math.isfinite(row.seconds) for row in rows):
        columns[seconds] = [row.seconds for row in rows]
    return pandas.DataFrame(columns, index=pandas.RangeIndex(1, len(rows) + 1, name="evaluation"))


def history(found: TuningResult) -> pandas.DataFrame:
    """Return value and best so far by evaluation, as `TuningResult.history` does.

    Parameters
    ----------
    found
        Result of `maximize` or `minimize`.
    """
    import pandas

    values = np.array([row.value for row in evaluations(found)])
    best = np.fmin.accumulate(values) if found.minimize else np.fmax.accumulate(values)
    index = pandas.RangeIndex(1, len(values) + 1, name="evaluation")
    return pandas.DataFrame({"value": values, "best": best}, index=index)


# ---- the summary


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
    ['0.003162', '7', 'sqrt', 'None', '12345.67']
    """
    if isinstance(value, float | np.floating):
        return f"{float(value):.{digits}g}" if abs(value) < 10.0**digits else f"{float(value):.{digits + 3}g}"
    return str(value)


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


class Summary(NamedTuple):
    """Best settings of a result as text."""

    heading: str  # direction, number of evaluations, what ended the run
    columns: tuple[str, ...]  # titles of the settings: one if recommended and best measured setting are the same
    rows: tuple[tuple[str, ...], ...]  # name and one cell a column: parameters, expected value, measured value


def summary(found: TuningResult) -> Summary:
    """Return recommended and best measured setting side by side, with what they are expected to be worth.

    Parameters
    ----------
    found
        Result of `maximize` or `minimize`.
    """
    space = found.policy.space
    points = space.parse(found.x)[0] if len(found.x) else np.empty((0, len(space.axes)))
    settings = [("recommended", found.best.x, found.value, found.std)]
    if found.measured is not None:
        settings.append(("best measured", found.measured.x, found.measured.value, found.measured.std))
    if len(settings) == 2 and np.array_equal(space.parse(settings[0][1])[0], space.parse(settings[1][1])[0]):
        settings = [("recommended and best measured", *settings[0][1:])]
    names = [axis.name for axis in space.axes]
    columns = []
    for _, x, value, std in settings:
        point = space.parse(x)[0][0]
        values = x if space.named else dict(zip(names, point.tolist() if space.has_coordinates else [x], strict=True))
        at = found.y[(points == point).all(axis=1)]
        mean = "" if not len(at) else shown(float(at.mean())) + (f" (mean of {len(at)})" if len(at) > 1 else "")
        cells = [shown(values[name]) if name in values else "-" for name in names[:MOST_ROWS]]
        columns.append((*cells, with_error(value, std), mean or "not measured"))
    left = [*names[:MOST_ROWS], "expected value", "measured value"]
    rows = [(name, *cells) for name, *cells in zip(left, *columns, strict=True)]
    if len(names) > MOST_ROWS:
        rows.insert(MOST_ROWS, (f"({len(names) - MOST_ROWS} more)", *[""] * len(columns)))
    return Summary(_heading(found), tuple(title for title, *_ in settings), tuple(rows))


def _heading(found: TuningResult) -> str:
    failed = len(found.failed)
    count = f"{len(found) + failed:,} evaluations" + (f", {failed:,} failed" if failed else "")
    better = "smaller" if found.minimize else "larger"
    return f"{better} is better; {count}; stopped by {found.stopped_by}"


def text(found: TuningResult) -> str:
    """Return the summary as aligned lines.

    Parameters
    ----------
    found
        Result of `maximize` or `minimize`.
    """
    from rich.cells import cell_len

    summarized = summary(found)
    lines = [("", *summarized.columns), *summarized.rows]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    padded = [
        "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([f"{type(found).__name__}: {summarized.heading}", *padded])


def markup(found: TuningResult) -> str:
    """Return the summary as an HTML table, with all text escaped.

    Parameters
    ----------
    found
        Result of `maximize` or `minimize`.
    """
    import pandas

    summarized = summary(found)
    frame = pandas.DataFrame(summarized.rows, columns=["", *summarized.columns])
    styled = frame.style.hide(axis="index").format(escape="html").set_caption(html.escape(summarized.heading))
    styled.set_table_attributes('class="tex2jax_ignore"')  # a dollar sign in a name starts no formula
    styled.set_table_styles(
        [{"selector": "th, td", "props": "text-align: left"}, {"selector": "caption", "props": "text-align: left"}]
    )
    return styled.to_html()
