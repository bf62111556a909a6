"""Figures of growth: regret, time and memory over rounds or over an axis, with fitted exponents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scalable_bandits import checks
from scalable_bandits.analysis import Curve, curves, exponent, horizons_of, numeric_axes, policies_of
from scalable_bandits.analysis.exponents import MISFIT, spaced
from scalable_bandits.plots.style import axes, legend, line, logarithmic, panels, plain, tidy

if TYPE_CHECKING:
    import xarray

UNITS = {  # axis label of each quantity, and factor to its unit
    "elapsed": ("seconds since round 10", 1.0),
    "seconds": ("seconds of the run", 1.0),
    "round_seconds": ("time per round, median (ms)", 1e3),
    "round_seconds_99": ("time per round, 99 % (ms)", 1e3),
    "peak_memory": ("peak memory (MB)", 1e-6),
    "peak_memory_of_workers": ("peak memory of workers (MB)", 1e-6),
    "bytes_sent": ("bytes sent (MB)", 1e-6),
}
QUANTITIES = ("round_seconds", "peak_memory", "messages")  # over an axis, beside regret

Expected = Mapping[str, Mapping[str, Mapping[str, float]]]  # exponents by axis, quantity and policy


def scaling(
    result: xarray.Dataset, quantity: str = "regret", over: str = "round", case: str | None = None,
    ax: Axes | None = None, *, span: str | None = None, expected: Mapping[str, float] | None = None,
) -> Axes:  # fmt: skip
    """Draw a quantity of each policy over rounds or an axis on logarithmic axes, with a fitted power law.

    Solid: mean over the runs; the band has all runs. Dotted: the fit, over the range that it was fitted to, unless it
    misses the mean by a factor of more than two; its exponent [95 % interval, bootstrap over runs] is in the legend.
    Thin and grey: the expected slope, through the curve's end.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    quantity, over
        What is drawn over what, as in `analysis.curves`.
    case
        Case, without the value of the axis. Default: the only one.
    ax
        Axes to draw on. Default: those of a new figure.
    span
        Fitted range, "last decade" or "whole". Default: the last decade of rounds, or the whole axis.
    expected
        Exponents of the theory by policy.

    Raises
    ------
    ValueError
        If the study has no such quantity, axis or case.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> study = sb.Study.load("janz2020-table1")
    >>> result = study.run(replicates=2, horizon=100, cases=["d = 1"], policies=["IGP-UCB"])
    >>> sb.plots.scaling(result, "elapsed").get_xscale()
    'log'
    """
    known = curves(result, quantity, over)
    apart = over != "round" and any(one.x[0] <= 0.0 for one in known)  # side by side, for want of a logarithm
    cases = list(dict.fromkeys(one.case for one in known))
    case = cases[0] if case is None and len(cases) == 1 else case
    if case not in cases:
        checks.refuse("case", case, f"one of {', '.join(cases)}")
    ax = axes(ax)
    names, (label, factor) = list(policies_of(result)), UNITS.get(quantity, (quantity.replace("_", " "), 1.0))
    fitted = None if apart else span or ("last decade" if over == "round" else "whole")
    for one in known:
        if one.case == case:
            number = names.index(one.policy) if one.policy in names else len(ax.lines)
            scaled = one._replace(values=factor * one.values)
            if apart:
                shown = dict.fromkeys(f"{x:g}" for x in one.x)
                ax.set_xticks(range(len(shown)), list(shown))
                scaled = scaled._replace(x=np.arange(len(one.x), dtype=np.float64))
            _draw(scaled, number, fitted, over, ax, (expected or {}).get(one.policy))
    logarithmic(ax, "y" if apart else "both")
    unit = result.attrs.get("unit", "units of y")
    return tidy(ax, over, f"cumulative regret\n({unit})" if quantity == "regret" else label)


def _draw(one: Curve, number: int, span: str | None, over: str, ax: Axes, slope: float | None) -> None:
    """Draw the curve of one policy, its fit and the expected slope."""
    drawn, look = _thinned(one), line(number)
    mean = drawn.values.mean(axis=0)
    fitted = exponent(one.x, one.values, span) if span is not None else None
    name = plain(one.policy)
    if fitted is not None and fitted.misfit <= MISFIT:
        interval = f" [{fitted.low:.2f}, {fitted.high:.2f}]" if np.isfinite(fitted.low) else ""
        name = f"{name}: {fitted.exponent:.2f}{interval}"
        x = np.array([fitted.first, fitted.last])
        ax.plot(x, fitted.factor * x**fitted.exponent, color=look["color"], linestyle=":", linewidth=2.2, label="_")
    ax.plot(drawn.x, mean, label=name, marker="o" if len(drawn.x) < 12 else "", markersize=4, **look)
    if len(drawn.values) > 1:
        low, high = drawn.values.min(axis=0), drawn.values.max(axis=0)
        ax.fill_between(drawn.x, low, high, color=look["color"], alpha=0.15, linewidth=0)
    if slope is not None and mean[-1] > 0.0:
        x = np.array([drawn.x[-1] / 30.0 if over == "round" else drawn.x[0], drawn.x[-1]])
        ax.plot(x, mean[-1] * (x / x[-1]) ** slope, color="0.45", linewidth=0.9, label="_")
        ax.annotate(f"{slope:.3g}", (x[0], mean[-1] * (x[0] / x[-1]) ** slope), (-3, 0), textcoords="offset points",
                    ha="right", va="center", fontsize=8, color="0.35")  # fmt: skip


def _thinned(one: Curve, points: int = 300) -> Curve:
    """Return some points of a curve, evenly spaced on a logarithmic axis."""
    if len(one.x) <= points or one.x[0] <= 0:
        return one
    picked = spaced(one.x, points)
    return one._replace(x=one.x[picked], values=one.values[:, picked])


def scaling_figure(result: xarray.Dataset, expected: Expected | None = None) -> Figure:
    """Draw how regret, time and memory of a study grow over rounds and along its axes, a row for each case.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    expected
        Exponents of the theory, by "round" or axis, then by quantity, then by policy.
    """
    drawn = scaling_panels(result)
    rows: dict[str, list[tuple[str, str]]] = {}
    for case, quantity, over in drawn:
        rows.setdefault(case, []).append((quantity, over))
    columns = max(map(len, rows.values()), default=1)
    shape = max(len(rows), 1), columns
    figure, boxes = panels(shape, (4.9 * columns, 4.0 * shape[0] + 0.6))
    for row, (case, pairs) in zip(boxes, rows.items(), strict=False):
        for ax, (quantity, over) in zip(row, pairs, strict=False):
            scaling(result, quantity, over, case, ax, expected=(expected or {}).get(over, {}).get(quantity))
            ax.set_title(case if len(rows) > 1 else "", fontsize=10)
            legend(ax, title="exponent [95 % interval]", title_fontsize=8.5)
        for ax in row[len(pairs) :]:
            ax.set_visible(False)
    count = result.sizes["replicate"]
    note = f"mean and all of {count} runs, bootstrap intervals over runs" if count > 1 else "one run"
    figure.suptitle(f"{result.attrs['title']}\n{note}; grey: expected slope", fontsize=11)
    return figure


def scaling_panels(result: xarray.Dataset) -> list[tuple[str, str, str]]:
    """Return what a study has to be drawn: case, quantity and axis of each panel.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    wanted = [("elapsed", "round")] if "elapsed" in result else []
    wanted += [("regret", "round")] if wanted or len(horizons_of(result)) > 1 else []
    if along := list(numeric_axes(result)):  # over the axes instead
        measured = [q for q in QUANTITIES if q in result and np.isfinite(result[q].values).any()]
        wanted = [(quantity, axis) for axis in along for quantity in ("regret", *measured)]
    found: dict[tuple[str, str, str], Any] = {}
    for quantity, over in wanted:
        found |= {(one.case, quantity, over): None for one in curves(result, quantity, over) if len(one.x) > 1}
    return list(found)
