"""Figure of all settings of a tuning result in parallel coordinates."""

from __future__ import annotations

import math
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import LogLocator, MaxNLocator

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.plots.style import COLOURS, axes, legend, plain
from scalable_bandits.plots.tuning import MANY, Shown, shown_values, value_label
from scalable_bandits.runs.result import TuningResult
from scalable_bandits.spaces import Axis

BELOW = -0.13  # place of parameters that do not exist in a setting, and of the values of failed evaluations
MOST_LABELS = 12  # categories of an axis that are labelled
APART = 0.07  # smallest distance of two labels of an axis, as a share of its length
LIGHTEST = 0.08  # share of the colour map that is left out at its light end


def parallel(found: TuningResult, ax: Axes | None = None) -> Axes:
    """Draw every evaluation as a line across the parameters' axes, the darker the better its value.

    The recommended setting is drawn on top. Below an axis pass the settings in which its parameter does not exist and,
    at the axis of values, failed evaluations. Values that are so bad that they would hide the others are at its end.

    Parameters
    ----------
    found
        Result of `maximize` or `minimize`.
    ax
        Axes to draw on. Default: those of a new figure.

    Raises
    ------
    ValueError
        If `found` is not a result, or has no evaluation.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> space = sb.SearchSpace({"rate": sb.Real(1e-4, 0.1, log=True), "depth": sb.Integer(1, 8)})
    >>> policy = sb.GPEI(space, sb.RBF(0.5), noise=0.01, regularization=1e-4)
    >>> found = sb.maximize(lambda setting: setting["rate"] * setting["depth"], policy, budget=5)
    >>> [label.get_text() for label in sb.plots.parallel(found).get_xticklabels()][:2]
    ['rate', 'depth']
    """
    checks.kind("found", found, TuningResult, "a result of maximize or minimize")
    rows, space = found.evaluations(), found.policy.space
    if not rows:
        checks.refuse("found", "a result without evaluations", "a result with at least one")
    parameters = space.axes
    ax = axes(ax, (1.2 * len(parameters) + 2.6, 4.4))
    values = np.array([row.value for row in rows])
    measured = np.isfinite(values)
    shown = shown_values(values[measured], found.minimize) if measured.any() else Shown(0.0, 1.0, False)
    low, high, log = shown
    end = Axis("value", *((high, low) if found.minimize else (low, high)), log)  # the best value is at the top
    points = space.parse(space.gather([*(row.x for row in rows), found.recommended.x]))[0]
    exist = space.active(points)
    heights = np.full((len(points), len(parameters) + 1), BELOW)
    for i, axis in enumerate(parameters):
        heights[exist[:, i], i] = axis.places(points[exist[:, i], i])
    if measured.any():
        heights[np.append(measured, True), -1] = end.places(shown.clip(np.append(values[measured], found.value)))
    _lines(heights, values, found.minimize, ax)
    for place, axis in enumerate((*parameters, end)):
        _axis(axis, place, ax)
    for place in np.flatnonzero((heights == BELOW).any(axis=0)).tolist():
        ax.text(place + 0.05, BELOW, "none" if place < len(parameters) else "failed", va="center", fontsize=8)
    names = [*(plain(axis.name) for axis in parameters), value_label(found.minimize)]
    turned = max(map(len, names[:-1])) > 11
    if not turned:
        names[-1] = names[-1].replace(" (", "\n(")
    ax.set_xticks(range(len(names)), names, rotation=20 if turned else 0, ha="left" if turned else "center")
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.set_xlim(-0.3, len(parameters) + 0.6)
    ax.set_ylim(BELOW - 0.05 if (heights == BELOW).any() else -0.04, 1.04)
    legend(ax, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3)
    return ax


def _lines(heights: Floats, values: Floats, minimize: bool, ax: Axes) -> None:
    """Draw lines through heights (n + 1, p + 1): evaluations of values (n,), the best last, then the recommendation."""
    across = np.arange(heights.shape[1], dtype=np.float64)
    order = np.argsort(values if minimize else -values, kind="stable")[::-1]  # failed ones, which are NaN, first
    count = int(np.isfinite(values).sum())
    shares = np.append(np.zeros(len(values) - count), np.linspace(0.0, 1.0, count))  # 1 for the best
    colours = matplotlib.colormaps["viridis_r"](LIGHTEST + (1.0 - LIGHTEST) * shares)
    colours[:, 3] = (0.25 + 0.65 * shares**2) * min(1.0, math.sqrt(MANY / len(values)))
    colours[: len(values) - count] = matplotlib.colors.to_rgba(COLOURS[1], 0.5)
    lines = [np.column_stack([across, heights[row]]) for row in order]
    ax.add_collection(LineCollection(lines, colors=colours, linewidths=0.7 + 0.9 * shares))
    best = order[-1]
    if count > 1:
        ax.plot([], [], color=colours[-count][:3], alpha=0.6, linewidth=1.0, label="worst measured")
    if count:
        label = "best measured" if (heights[best, :-1] != heights[-1, :-1]).any() else "best measured and recommended"
        ax.plot(across, heights[best], color=colours[-1][:3], linewidth=1.8, label=label)
        if label == "best measured":
            ax.plot(across, heights[-1], color=COLOURS[4], linewidth=2.4, label="recommended")


def _axis(axis: Axis, place: int, ax: Axes) -> None:
    """Draw the vertical axis of a parameter at a place, with labels."""
    ax.plot([place, place], [0.0, 1.0], color="black", linewidth=0.9, zorder=3)
    around: Any = {"facecolor": "white", "edgecolor": "none", "alpha": 0.65, "pad": 0.6}
    for number, label in _labels(axis):
        height = float(axis.places(np.array([number]))[0])
        ax.plot([place - 0.03, place], [height, height], color="black", linewidth=0.9, zorder=3)
        ax.text(place + 0.05, height, label, va="center", fontsize=8, bbox=around, zorder=4)


def _labels(axis: Axis) -> list[tuple[float, str]]:
    """Return numbers on an axis and their labels."""
    if axis.labels is not None:
        every = -(-len(axis.labels) // MOST_LABELS)
        return [(float(i), plain(label)) for i, label in enumerate(axis.labels) if i % every == 0]
    low, high = min(axis.low, axis.high), max(axis.low, axis.high)
    if low == high:
        return [(low, _short(low))]
    whole = axis.values is not None and bool((axis.values == np.rint(axis.values)).all())
    locator = LogLocator(numticks=6) if axis.log and high >= 10.0 * low else MaxNLocator(5, integer=whole)
    inner = np.array([tick for tick in locator.tick_values(low, high) if low < tick < high])
    places = axis.places(inner)
    kept = inner[(places > APART) & (places < 1.0 - APART)]
    return [(number, _short(number)) for number in (low, *kept.tolist(), high)]


def _short(number: float) -> str:
    """Return a number with few digits, without an exponent where it has at most six digits before the point."""
    return f"{number:,.0f}" if 1000.0 <= abs(number) < 1e6 else f"{number:.3g}"
