"""Figure of a posterior along each parameter through one point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure

from scalable_bandits import analysis, checks
from scalable_bandits.analysis import Slice
from scalable_bandits.analysis.slices import played_policy
from scalable_bandits.checks import Floats
from scalable_bandits.plots.style import COLOURS, logarithmic, plain, star, ticks, tidy
from scalable_bandits.plots.tuning import shown_values, value_label
from scalable_bandits.policies import Policy
from scalable_bandits.runs.result import TuningResult
from scalable_bandits.spaces import Axis

COLUMNS = {1: 1, 2: 2, 4: 2, 7: 4, 8: 4}  # panels in a row, by the number of all
BEYOND = 0.3  # how far beyond the worst mean bands are drawn, as a share of the range of the means
EDGE = 0.025  # room beside the ends of a parameter, as a share of its scale
STEPS = 40  # largest number of values of a parameter that are drawn as steps
NEAR = 0.25  # distance from a slice, as a share of the space's sides, at which a dot has faded to a third
FAINTEST = 0.06  # opacity below which a dot is left out
MOST_LABELS = 12  # categories of a panel that are labelled
CHARACTERS = 18  # characters of all category labels of a panel together, above which the labels are turned


def slices(
    found: Policy | TuningResult,
    at: Any = None,
    names: Sequence[str] | None = None,
    figure: Figure | None = None,
    *,
    log: bool | None = None,
) -> list[Axes]:
    """Draw the posterior along each parameter through one point, a panel each.

    Each panel has the mean, a band of the central 95 %, a star at the point, and the observations as dots,
    which fade with their distance from the slice. Values that the space's constraints exclude are left out. On a
    logarithmic axis means and bands below its lower end, such as negative ones, are drawn there.

    Parameters
    ----------
    found
        Result of `maximize` or `minimize`, or a policy with observations.
    at
        Point (d,), or setting (a dict), through which the slices go. Default: the recommended one.
    names
        Names of the parameters ("x0", "x1", ... on spaces without names). Default: all that exist at the point.
    figure
        Figure to draw on. Default: a new one.
    log
        Flag for a logarithmic axis of values. Default: set if positive values that are minimised differ by more than a
        factor of 1000.

    Returns
    -------
    list of Axes
        One for each parameter.

    Raises
    ------
    ValueError
        If `analysis.slices` raises it, or the axis cannot be logarithmic because a value is not positive.
    """
    import matplotlib.pyplot as plt

    policy = played_policy(found)
    drawn = analysis.slices(found, at, names)
    if not drawn:
        checks.refuse("found", policy.space, "a space with a parameter of several values")
    rows, columns = shape = arrangement(len(drawn))
    figure = plt.figure(figsize=figure_size(shape), layout="constrained") if figure is None else figure
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True)
    minimize, told = policy.minimize, policy.observations
    values = np.concatenate([one.mean for one in drawn]) if told is None or not len(told.y) else told.y
    shown = values if shown_values(values, minimize, log).log else None
    low, high = _limits(drawn, minimize, shown)
    for one, ax in zip(drawn, panels.flat, strict=False):
        _panel(one, ax, -np.inf if shown is None else low)
        _dots(policy, one, ax)
    for ax in panels.flat[len(drawn) :]:
        ax.set_axis_off()
    if shown is not None:
        logarithmic(panels.flat[0], "y")
    panels.flat[0].set_ylim(low, high)
    figure.supylabel(value_label(minimize), fontsize=10)
    return list(panels.flat[: len(drawn)])


def arrangement(count: int) -> tuple[int, int]:
    """Return the numbers of rows and columns in which so many panels are arranged."""
    columns = COLUMNS.get(count, 4 if count > 12 else 3)
    return -(-count // columns), columns


def figure_size(shape: tuple[int, int]) -> tuple[float, float]:
    """Return width and height, in inches, of a figure with rows and columns of panels."""
    rows, columns = shape
    return (2.9 * columns + 0.6, 2.3 * rows + 0.3) if rows * columns > 1 else (5.4, 3.5)


def _limits(drawn: Sequence[Slice], minimize: bool, values: Floats | None) -> tuple[float, float]:
    """Return the ends of the axis of values: those of all bands, but not far beyond the worst mean.

    With measured values (k,), all positive, the axis is logarithmic, and does not reach far below the smallest.
    """
    mean = np.concatenate([one.mean[one.allowed] for one in drawn])
    low = min(float(one.low[one.allowed].min()) for one in drawn)
    high = max(float(one.high[one.allowed].max()) for one in drawn)
    if values is not None:
        low, high = max(low, 0.3 * float(values.min())), min(high, 30.0 * float(mean.max()))
        return low, high if high > low else float(values.max())
    beyond = BEYOND * float(np.ptp(mean))
    if beyond > 0.0 and minimize:
        high = min(high, float(mean.max()) + beyond)
    elif beyond > 0.0:
        low = max(low, float(mean.min()) - beyond)
    room = 0.04 * (high - low) or 1.0
    return low - room, high + room


def _panel(one: Slice, ax: Axes, least: float) -> None:
    """Draw mean, band and the point of one slice; on a logarithmic axis what is below its end, `least`, at that."""
    axis, x = one.axis, one.numbers
    at, low, high = (np.maximum(values, least) for values in (one.mean, one.low, one.high))
    mean = np.where(one.allowed, at, np.nan)
    if axis.labels is not None:
        ax.errorbar(x, mean, [at - low, high - at], fmt="o", markersize=4, linewidth=1.4, color=COLOURS[0])
        if axis.ordered:
            ax.plot(x, mean, color=COLOURS[0], linewidth=0.8, alpha=0.6)
    else:
        steps = axis.values is not None and len(x) <= STEPS
        ax.fill_between(x, low, high, where=one.allowed, color=COLOURS[0], alpha=0.2, linewidth=0,
                        step="mid" if steps else None)  # fmt: skip
        ax.plot(x, mean, color=COLOURS[0], linewidth=1.8, drawstyle="steps-mid" if steps else "default")
    star(ax, one.at, at[x == one.at][:1])
    _scale(axis, ax)
    tidy(ax, plain(axis.name))


def _scale(axis: Axis, ax: Axes) -> None:
    """Set scale, ends and labels of the axis of a parameter."""
    if axis.labels is not None:
        every = -(-len(axis.labels) // MOST_LABELS)
        labels = [plain(label) for label in axis.labels[::every]]
        turned = sum(map(len, labels)) > CHARACTERS
        places = np.arange(0, len(axis.labels), every)
        ax.set_xticks(places, labels, rotation=30 if turned else 0, ha="right" if turned else "center")
        ax.set_xlim(-0.5, len(axis.labels) - 0.5)
        return
    if axis.log:
        logarithmic(ax, "x")
        room = (axis.high / axis.low) ** EDGE
        ax.set_xlim(axis.low / room, axis.high * room)
        return
    whole = axis.values is not None and bool((axis.values == np.rint(axis.values)).all())
    ticks(ax, 5 if max(abs(axis.low), abs(axis.high)) < 100.0 and axis.high - axis.low > 0.1 else 3, whole)
    room = EDGE * (axis.high - axis.low)
    ax.set_xlim(axis.low - room, axis.high + room)


def _dots(policy: Policy, one: Slice, ax: Axes) -> None:
    """Draw the observations, which fade with their distance from a slice."""
    told = policy.observations
    if told is None or not len(told.x):
        return
    opacity = _nearness(policy, told.x, one)
    seen = opacity > FAINTEST
    colours = to_rgba_array(COLOURS[1], opacity[seen])
    ax.scatter(told.x[seen, one.dimension], told.y[seen], s=16, color=colours, linewidth=0, zorder=4)


def _nearness(policy: Policy, points: Floats, one: Slice) -> Floats:
    """Return opacities (m,) of points (m, d): 1 on a slice, less with the distance in the other parameters."""
    axes = policy.space.axes
    through = one.points[np.flatnonzero(one.numbers == one.at)[0]]
    apart = np.zeros(len(points))
    for i, axis in enumerate(axes):
        if i != one.dimension:
            gap = np.abs(axis.places(points[:, i]) - axis.places(through[[i]]))
            apart += np.square(gap if axis.labels is None or axis.ordered else np.where(gap > 0.0, 1.0, 0.0))
    return np.exp(-apart / max(math.sqrt(len(axes) - 1), 1.0) / NEAR**2)
