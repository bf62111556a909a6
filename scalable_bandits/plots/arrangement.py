"""Where pictures are drawn: given axes or those of a new figure, panels in rows, titles and legends of several."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.plots.style import legend

AxesArray = NDArray[Any]  # of matplotlib axes

_pyplot: ContextVar[bool] = ContextVar("pyplot", default=True)


@contextlib.contextmanager
def without_pyplot() -> Iterator[None]:
    """Make figures that pyplot does not know: they need no display, are not shown, and need not be closed."""
    token = _pyplot.set(False)
    try:
        yield
    finally:
        _pyplot.reset(token)


def _new_figure(size: tuple[float, float], layout: Any = "constrained") -> Figure:
    """Return an empty figure of a size in inches."""
    if not _pyplot.get():
        return Figure(figsize=size, layout=layout)
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout=layout)


def axes(ax: Axes | None, size: tuple[float, float] = (6.4, 4.2)) -> Axes:
    """Return the given axes, or those of a new figure for None; refuse anything else with a ValueError."""
    if ax is None:
        return _new_figure(size).add_subplot()
    checks.kind("ax", ax, Axes, "matplotlib axes, or None")
    return ax


def panels(
    ax: Axes | Sequence[Axes] | AxesArray | None, rows: Sequence[int], size: tuple[float, float], **options: Any
) -> tuple[AxesArray, Figure | None]:
    """Return axes (n,) for rows of panels, and the figure if it is a new one.

    Parameters
    ----------
    ax
        Array or sequence of at least n axes; one Axes, which is removed and whose place is divided; or None.
    rows
        Number of panels in each row; n is their sum.
    size
        Width and height of a panel in inches.
    options
        Layout of a new figure.

    Raises
    ------
    ValueError
        If `ax` is of another kind, or has too few axes.
    """
    count, columns, figure = sum(rows), max(rows), None
    if ax is None:
        figure = _new_figure((size[0] * columns, size[1] * len(rows)), **options)
        grid: Any = figure.add_gridspec(len(rows), columns)
        owner: Any = figure
    elif isinstance(ax, Axes) and count > 1 and (place := ax.get_subplotspec()) is not None:
        grid, owner = place.subgridspec(len(rows), columns), ax.figure
        ax.remove()
    else:
        given = np.ravel(np.array(ax, dtype=object))
        allowed = f"at least {count} matplotlib axes, one for each panel, axes of a grid to be divided, or None"
        if not all(isinstance(each, Axes) for each in given):
            checks.refuse("ax", ax, allowed)
        if len(given) < count:
            checks.refuse("ax", f"{len(given)} axes", allowed)
        return given[:count], None
    places = [(row, column) for row, number in enumerate(rows) for column in range(number)]
    return np.array([owner.add_subplot(grid[place]) for place in places], dtype=object), figure


def rows_of(count: int, columns: int) -> list[int]:
    """Return the number of panels in each row, given the number of all."""
    return [min(columns, count - first) for first in range(0, count, columns)]


def beginnings(drawn: AxesArray) -> list[bool]:
    """Return which panels (n,) are the first of their row."""
    heights = [ax.get_position().y0 for ax in drawn]
    return [i == 0 or heights[i] != heights[i - 1] for i in range(len(heights))]


def heading(figure: Figure | None, title: str, labelled: Axes | None = None) -> None:
    """Put a title on a new figure, and below its panels the legend of one of them; on given axes that legend alone."""
    if figure is None:
        if labelled is not None:
            legend(labelled)
        return
    width = figure.get_size_inches()[0]
    figure.suptitle(title, fontsize=11 if width > 6.0 else 9)
    if labelled is not None:
        handles, labels = labelled.get_legend_handles_labels()
        fitting = max(1, int(11.0 * width / (max(map(len, labels), default=0) + 7)))  # columns
        lines = max(1, -(-len(labels) // fitting))
        columns = max(1, -(-len(labels) // lines))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
