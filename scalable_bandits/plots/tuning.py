"""Figures of a tuning result: its history, importance of the parameters, all settings, slices of the posterior."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba_array
from matplotlib.ticker import LogLocator, MaxNLocator

from scalable_bandits import analysis, checks
from scalable_bandits.analysis import Importance, Slice
from scalable_bandits.analysis.parameters import played_policy
from scalable_bandits.checks import Floats
from scalable_bandits.plots.arrangement import AxesArray, axes, beginnings, panels, rows_of
from scalable_bandits.plots.front import growth
from scalable_bandits.plots.style import COLOURS, LONGEST, inches, legend, logarithmic, plain, rows, star, ticks, tidy
from scalable_bandits.policies import Policy
from scalable_bandits.runs.readable import NONE_KEEPS, digits_of, told_apart
from scalable_bandits.runs.result import TuningResult
from scalable_bandits.runs.summary import NORMAL
from scalable_bandits.spaces import Axis, Mask

RANGE = 1000.0  # ratio of the largest to the smallest value to be minimised from which their axis is logarithmic
FIRST, FAR = 10, 10.0  # first values, and how many times as far from the best as their median a picture reaches
MANY = 300  # evaluations from which dots are small
MOST_BARS = 20  # parameters whose importance is drawn
BELOW = -0.13  # place of parameters that do not exist in a setting, and of the values of failed evaluations
MOST_LABELS = 12  # categories of an axis that are labelled
APART = 0.07  # smallest distance of two labels of an axis, as a share of its length
LIGHTEST = 0.08  # share of the colour map that is left out at its light end
COLUMNS = {1: 1, 2: 2, 4: 2, 7: 4, 8: 4}  # panels in a row, by the number of all
BEYOND = 0.3  # how far beyond the worst mean bands are drawn, as a share of the range of the means
EDGE = 0.025  # room beside the ends of a parameter, as a share of its scale
STEPS = 40  # largest number of values of a parameter that are drawn as steps
NEAR = 0.25  # distance from a slice, as a share of the space's sides, at which a dot has faded to a third
FAINTEST = 0.06  # opacity below which a dot is left out
LABEL = 2.0  # inches that the label of an axis of values takes in one line
GREY, SHADE = "0.5", 0.3  # colour and opacity of what constraints hardly allow
CHARACTER = 0.072  # inches of a character of a label
CHARACTERS = 18  # characters of all category labels of a panel together, above which the labels are turned


def value_label(policy: Policy, room: float = math.inf) -> str:
    """Return the label of an axis of values, in two lines if its room, in inches, is too small for one.

    With several outputs it names the objective, or the first of several.
    """
    name, better = _objective(policy) or "value", "smaller" if policy.minimize else "larger"
    return f"{name}{' ' if room > LABEL and len(name) < LONGEST / 2 else chr(10)}({better} is better)"


def _objective(policy: Policy) -> str:
    """Return the name of the objective of a policy with several outputs, or of the first of several; else ""."""
    return plain((policy.outputs and policy.outputs.objective) or "")


class Shown(NamedTuple):
    """Values that a picture shows; worse ones are drawn at its edge."""

    low: float
    high: float
    log: bool

    def clip(self, values: Floats) -> Floats:
        """Return values (k,), those outside moved to the edge."""
        return np.clip(values, self.low, self.high)

    def limits(self) -> tuple[float, float]:
        """Return the ends of an axis, with some room beside the values."""
        if self.log:
            room = (self.high / self.low) ** 0.05
            return self.low / room, self.high * room
        room = 0.05 * (self.high - self.low) or 0.5 * max(abs(self.high), 1e-12)
        return self.low - room, self.high + room


def shown_values(values: Floats, minimize: bool, log: bool | None = None) -> Shown:
    """Return the range of values without those that are so bad that they would hide the others.

    Parameters
    ----------
    values
        Values (k,), in units of y, all finite, in the order of the evaluations.
    minimize
        Whether smaller values are better.
    log
        Whether the axis is logarithmic. Default: set if positive values that are minimised differ by more than a factor
        of 1000.

    Raises
    ------
    ValueError
        If the axis cannot be logarithmic.
    """
    low, high = float(values.min()), float(values.max())
    if log is None:
        log = minimize and low > 0.0 and high > RANGE * low
    if log and low <= 0.0:
        checks.refuse("log", log, "False or None, since a value is not positive")
    if log:
        return Shown(low, high, True)
    best = low if minimize else high
    far = best + FAR * (float(np.median(values[:FIRST])) - best)
    if far == best:
        return Shown(low, high, False)
    return Shown(low, min(high, far), False) if minimize else Shown(max(low, far), high, False)


def history(found: TuningResult, ax: Axes | None = None, *, log: bool | None = None) -> Axes:
    """Draw the measured values, the best so far, and what the recommended setting is expected to be worth.

    Crosses at the edge are failed evaluations; triangles there are values so bad that they would hide the others. With
    constraints, circles are values that do not keep them. Those of other contexts than the run's are pale. With several
    objectives it is the hypervolume of the front.

    Parameters
    ----------
    found
        Result of `maximize` or `minimize`.
    ax
        Axes to draw on. Default: those of a new figure.
    log
        Flag for a logarithmic axis of values. Default: set if positive values that are minimised differ by more than a
        factor of 1000.

    Raises
    ------
    ValueError
        If `found` is not a result, or the axis cannot be logarithmic.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.2), noise=0.01, regularization=1e-4)
    >>> found = sb.maximize(lambda x: -((x[0] - 0.3) ** 2), policy, budget=10)
    >>> sb.plots.history(found).get_ylabel()
    'value (larger is better)'
    """
    checks.kind("found", found, TuningResult, "a result of maximize or minimize")
    if found.objectives:
        return growth(found, axes(ax))
    past, evaluations = found.history(), found.evaluations()
    numbers, values = past.index.to_numpy(), past["value"].to_numpy()
    ax, here = axes(ax), found.in_context(evaluations)
    measured, failed = np.isfinite(values), np.array([bool(row.error) for row in evaluations], dtype=np.bool_)
    if measured.any():
        kept = np.array([row.feasible for row in evaluations])
        _measured(numbers[measured], values[measured], kept[measured], here[measured], found, log, ax)
        ax.step(numbers, past["best"], where="post", color=COLOURS[0], linewidth=1.8, label="best so far", zorder=3)
    edge = 0.98 if found.minimize else 0.02  # on the side of bad values
    if failed.any():
        ax.plot(numbers[failed], np.full(failed.sum(), edge), "x", color=COLOURS[1], markersize=6,
                transform=ax.get_xaxis_transform(), label="failed", clip_on=False)  # fmt: skip
    ax.set_xlim(0.5, max(len(numbers), 1) + 0.5)
    ticks(ax, whole=True)
    place = ("upper right", 0.96) if found.minimize else ("lower right", 0.04)
    if here.all():
        legend(ax, loc=place[0], bbox_to_anchor=(1.0, place[1]))
    else:  # those of other contexts may be anywhere
        legend(ax, loc="best")
    return tidy(ax, "evaluation", value_label(found.policy, inches(ax)[1]))


def _measured(
    numbers: Any, values: Floats, kept: Mask, here: Mask, found: TuningResult, log: bool | None, ax: Axes
) -> None:  # fmt: skip
    """Draw measured values (k,) of the evaluations with some numbers (k,), and the expected value of the best.

    Those that do not keep the constraints, by the mask (k,), are hollow; those of another context, pale.
    """
    shown = shown_values(values, found.minimize, log)
    inside = shown.clip(values) == values
    low, high = found.policy.interval(found.recommended.x)
    low, high = (low, high) if np.isfinite([low, high]).all() else (found.value, found.value)
    ax.axhspan(low, high, color=COLOURS[2], alpha=0.18, linewidth=0)
    ax.axhline(found.value, color=COLOURS[2], linewidth=1.2, linestyle="--", label="recommended: expected value")
    many = len(values) > MANY
    size = 2.5 if many else 4.5
    full, hollow, away = inside & kept & here, inside & ~kept & here, inside & ~here
    ax.plot(numbers[full], values[full], "o", color=COLOURS[5], markersize=size, label="measured",
            markeredgecolor="white", markeredgewidth=0.0 if many else 0.4)  # fmt: skip
    if hollow.any():
        ax.plot(numbers[hollow], values[hollow], "o", color=COLOURS[5], markersize=size - 0.8, fillstyle="none",
                label="measured, not feasible")  # fmt: skip
    if away.any():
        ax.plot(numbers[away], values[away], "o", color=COLOURS[5], markersize=size - 0.8, alpha=0.3,
                markeredgewidth=0.0, label="measured, in another context")  # fmt: skip
    if not inside.all():
        ax.plot(numbers[~inside], np.full((~inside).sum(), 0.98 if found.minimize else 0.02), color=COLOURS[5],
                marker="^" if found.minimize else "v", linestyle="", markersize=5, label="measured, off the scale",
                transform=ax.get_xaxis_transform())  # fmt: skip
    if shown.log:
        logarithmic(ax, "y")
    bottom, top = shown.limits()
    if not shown.log:
        bottom, top = min(bottom, low), max(top, high)
    ax.set_ylim(bottom, top)


def importance(found: Policy | TuningResult | Importance, ax: Axes | None = None) -> Axes:
    """Draw how much of the posterior mean's variance over the space each parameter explains, the largest first.

    Dark: alone (first-order Sobol index). Light: with its interactions (total index), with the 95 % confidence interval
    of the estimate.

    Parameters
    ----------
    found
        Result of `maximize` or `minimize`, a policy with observations, or what `analysis.importance` returns.
    ax
        Axes to draw on. Default: those of a new figure.

    Raises
    ------
    ValueError
        If `analysis.importance` refuses the result or the policy.
    """
    shares = found if isinstance(found, Importance) else analysis.importance(found)
    order = np.argsort(-shares.total, kind="stable")[:MOST_BARS]
    ax = axes(ax, (6.4, 1.3 + 0.34 * len(order)))
    bars = np.arange(len(order))
    lines: Any = {"ecolor": "black", "elinewidth": 0.9, "capsize": 2.0}
    ax.barh(bars, shares.total[order], xerr=NORMAL * shares.total_error[order], height=0.7, color=COLOURS[5],
            alpha=0.55, label="with interactions", error_kw=lines)  # fmt: skip
    ax.barh(bars, np.maximum(shares.first[order], 0.0), height=0.36, color=COLOURS[0], label="alone")
    rows(ax, [shares.names[i] for i in order])
    ax.set_xlim(0.0, max(1.0, float((shares.total + NORMAL * shares.total_error).max())))
    left_out = len(shares.names) - len(order)
    note = f"\n({left_out} less important parameters left out)" if left_out else ""
    note += "" if shares.total.any() else "\n(none: the posterior mean is the same everywhere)"
    legend(ax, loc="lower right")
    of = "" if isinstance(found, Importance) else _objective(played_policy(found))
    return tidy(ax, f"share of the variance{of and f' of {of}'}{note}", grid="x")


def parallel(found: TuningResult, ax: Axes | None = None) -> Axes:
    """Draw every evaluation as a line across the parameters' axes, the darker the better its value.

    Those of other contexts than the run's are grey. The recommended setting is drawn on top. Below an axis pass the
    settings in which its parameter does not exist and, at the axis of values, failed evaluations. Values that are so
    bad that they would hide the others are at its end.

    Parameters
    ----------
    found
        Result of `maximize` or `minimize`.
    ax
        Axes to draw on. Default: those of a new figure.

    Raises
    ------
    ValueError
        If `found` is not a result, has no evaluation, or is one of a pool.

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
    if space.scanned:
        checks.refuse("found", space, "a space of parameters: the candidates of a pool have no order")
    parameters = space.axes
    ax = axes(ax, (1.2 * len(parameters) + 2.6, 4.4))
    values = np.array([row.value for row in rows])
    measured = np.isfinite(values)
    shown = shown_values(values[measured], found.minimize) if measured.any() else Shown(0.0, 1.0, False)
    low, high, log = shown
    end = Axis("value", *((high, low) if found.minimize else (low, high)), log)  # the best value is at the top
    recommended = rows[-1].x if found.recommended.x is None else found.recommended.x  # the former is not drawn twice
    points = space.parse(space.gather([*(row.x for row in rows), recommended]))[0]
    exist = space.active(points)
    heights = np.full((len(points), len(parameters) + 1), BELOW)
    for i, axis in enumerate(parameters):
        heights[exist[:, i], i] = axis.places(points[exist[:, i], i])
    if measured.any():
        heights[np.append(measured, True), -1] = end.places(shown.clip(np.append(values[measured], found.value)))
    _lines(heights, values, found._counted(rows), found.in_context(rows), found, ax)
    gap = inches(ax)[0] / (len(parameters) + 0.9)  # inches between two axes
    for place, axis in enumerate((*parameters, end)):
        _axis(axis, place, max(int((gap - 0.15) / CHARACTER), 6), ax)
    for place in np.flatnonzero((heights == BELOW).any(axis=0)).tolist():
        ax.text(place + 0.05, BELOW, "none" if place < len(parameters) else "failed", va="center", fontsize=8)
    longest = max(len(axis.name) for axis in parameters)
    turned = 0 if longest <= 9.5 * gap else 20 if gap > 0.5 else 45
    names = [plain(axis.name, LONGEST if turned < 45 else 14) for axis in parameters]
    names.append(value_label(found.policy, 0.0 if turned != 20 else math.inf))
    ax.set_xticks(range(len(names)), names, rotation=turned, ha="left" if turned else "center")
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.set_xlim(-0.3, len(parameters) + 0.6)
    ax.set_ylim(BELOW - 0.05 if (heights == BELOW).any() else -0.04, 1.04)
    legend(ax, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3 if inches(ax)[0] > 4.0 else 1)
    return ax


def _lines(heights: Floats, values: Floats, counted: Floats, here: Mask, found: TuningResult, ax: Axes) -> None:
    """Draw lines through heights (n + 1, p + 1): evaluations of values (n,), the best last, then the recommendation.

    The best is that of the values (n,) that count; those that do not, such as ones that miss a limit, are NaN there.
    Evaluations in another context, by the mask (n,), are grey and below the others.
    """
    if not here.all():
        across = np.arange(heights.shape[1], dtype=np.float64)
        lines = [np.column_stack([across, row]) for row in heights[:-1][~here]]
        ax.add_collection(LineCollection(lines, colors=(0.6, 0.6, 0.6, 0.35), linewidths=0.7, zorder=0.5))
        ax.plot([], [], color=(0.6, 0.6, 0.6), alpha=0.6, linewidth=1.0, label="in another context")
        heights, values, counted = heights[np.append(here, True)], values[here], counted[here]
    across = np.arange(heights.shape[1], dtype=np.float64)
    order = np.argsort(values if found.minimize else -values, kind="stable")[::-1]  # failed ones, which are NaN, first
    count = int(np.isfinite(values).sum())
    shares = np.append(np.zeros(len(values) - count), np.linspace(0.0, 1.0, count))  # 1 for the best
    colours = matplotlib.colormaps["viridis_r"](LIGHTEST + (1.0 - LIGHTEST) * shares)
    colours[:, 3] = (0.25 + 0.65 * shares**2) * min(1.0, math.sqrt(MANY / len(values)))
    colours[: len(values) - count] = matplotlib.colors.to_rgba(COLOURS[1], 0.5)
    lines = [np.column_stack([across, heights[row]]) for row in order]
    ax.add_collection(LineCollection(lines, colors=colours, linewidths=0.7 + 0.9 * shares))
    if count > 1:
        ax.plot([], [], color=colours[-count][:3], alpha=0.6, linewidth=1.0, label="worst measured")
    if not count or found.recommended.x is None:
        return
    label = "recommended"
    if np.isfinite(counted).any():
        place = int(np.flatnonzero(np.isfinite(counted[order]))[-1])
        best, same = heights[order[place]], bool((heights[order[place], :-1] == heights[-1, :-1]).all())
        both = "best measured and recommended" if same else "best measured"
        ax.plot(across, best, color=colours[place][:3], linewidth=1.8, label=both)
        if same:
            return
    elif not found.feasible.any():
        label = f"recommended ({NONE_KEEPS})"
    ax.plot(across, heights[-1], color=COLOURS[4], linewidth=2.4, label=label)


def _axis(axis: Axis, place: int, room: int, ax: Axes) -> None:
    """Draw the vertical axis of a parameter at a place; labels of categories have two lines of so many characters."""
    ax.plot([place, place], [0.0, 1.0], color="black", linewidth=0.9, zorder=3)
    around: Any = {"facecolor": "white", "edgecolor": "none", "alpha": 0.65, "pad": 0.6}
    for number, label in _labels(axis):
        height = float(axis.places(np.array([number]))[0])
        ax.plot([place - 0.03, place], [height, height], color="black", linewidth=0.9, zorder=3)
        if axis.labels is not None:
            label = "\n".join(textwrap.wrap(label, room, max_lines=2, placeholder="..."))
        ax.text(place + 0.05, height, label, va="center", fontsize=8, bbox=around, zorder=4)


def _labels(axis: Axis) -> list[tuple[float, str]]:
    """Return numbers on an axis and their labels."""
    if axis.labels is not None:
        every = -(-len(axis.labels) // MOST_LABELS)
        return [(float(i), plain(label)) for i, label in enumerate(axis.labels) if i % every == 0]
    low, high = min(axis.low, axis.high), max(axis.low, axis.high)
    whole = axis.values is not None and bool((axis.values == np.rint(axis.values)).all())
    locator = LogLocator(numticks=6) if axis.log and high >= 10.0 * low else MaxNLocator(5, integer=whole)
    inner = np.array([tick for tick in locator.tick_values(low, high) if low < tick < high])
    places = axis.places(inner)
    kept = inner[(places > APART) & (places < 1.0 - APART)]
    numbers = [low, *kept.tolist(), high] if low < high else [low]
    return list(zip(numbers, told_apart(numbers, 3, _short), strict=True))


def _short(number: float, digits: int, places: float) -> str:
    """Return a number with few digits, without an exponent where it has at most six digits before the point."""
    whole = abs(number) < 1e6
    return f"{number:,.{digits_of(number, digits, max(places, 0.0) if whole else places)}g}"


def slices(
    found: Policy | TuningResult,
    at: Any = None,
    names: Sequence[str] | None = None,
    ax: Axes | Sequence[Axes] | AxesArray | None = None,
    *,
    log: bool | None = None,
) -> AxesArray:
    """Draw the posterior along each parameter through one point, a panel each.

    Each panel has the mean, a band of the central 95 %, a star at the point, and the observations as dots,
    which fade with their distance from the slice. With constraints it is grey where they hold with a probability below
    one half. Values that the space's constraints exclude are left out. On a
    logarithmic axis means and bands below its lower end, such as negative ones, are drawn there.

    Parameters
    ----------
    found
        Result of `maximize` or `minimize`, or a policy with observations.
    at
        Point (d,), or setting (a dict), through which the slices go. Default: the recommended one.
    names
        Names of the parameters ("x0", "x1", ... on spaces without names). Default: all that exist at the point.
    ax
        Array or sequence of axes, one for each panel; or axes whose place is divided into the panels. Default: those of
        a new figure.
    log
        Flag for a logarithmic axis of values. Default: set if positive values that are minimised differ by more than a
        factor of 1000.

    Returns
    -------
    ndarray
        Axes (n,), one for each parameter.

    Raises
    ------
    ValueError
        If `analysis.slices` raises it, or the axis cannot be logarithmic because a value is not positive.
    """
    policy = played_policy(found)
    drawn = analysis.slices(found, at, names)
    if not drawn:
        checks.refuse("found", policy.space, "a space with a parameter of several values")
    minimize, told = policy.minimize, policy.observations
    values = np.concatenate([one.mean for one in drawn]) if told is None or not len(told.y) else told.y
    shown = values if shown_values(values, minimize, log).log else None
    low, high = _limits(drawn, minimize, shown)
    columns = COLUMNS.get(len(drawn), 4 if len(drawn) > 12 else 3)
    boxes, _ = panels(ax, rows_of(len(drawn), columns), (3.1, 2.4) if len(drawn) > 1 else (5.4, 3.5))
    for one, panel, begins in zip(drawn, boxes, beginnings(boxes), strict=True):
        _panel(one, panel, -np.inf if shown is None else low)
        _dots(policy, one, panel)
        _forbidden(one, panel)
        if shown is not None:
            logarithmic(panel, "y")
        panel.set_ylim(low, high)
        panel.set_ylabel(value_label(policy, inches(panel)[1]) if begins else "")
        panel.tick_params(axis="y", which="both", labelleft=begins)
    return boxes


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


def _forbidden(one: Slice, ax: Axes) -> None:
    """Shade the part of a slice where constraints hardly hold."""
    if one.feasible is None:
        return
    x, hardly = one.numbers, one.feasible < 0.5
    if one.axis.labels is not None:
        for place in x[hardly].tolist():
            ax.axvspan(place - 0.5, place + 0.5, color=GREY, alpha=SHADE, linewidth=0, zorder=0)
        return
    step: Any = "mid" if one.axis.values is not None and len(x) <= STEPS else None
    ax.fill_between(x, 0.0, 1.0, where=hardly, transform=ax.get_xaxis_transform(), color=GREY, alpha=SHADE,
                    linewidth=0, step=step, zorder=0)  # fmt: skip


def _scale(axis: Axis, ax: Axes) -> None:
    """Set scale, ends and labels of the axis of a parameter."""
    if axis.labels is not None:
        places, labels = zip(*_labels(axis), strict=True)
        turned = sum(map(len, labels)) > CHARACTERS
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
