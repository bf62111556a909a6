"""Figures over rounds and over the axes of studies: regret, coverage, time; growth with fitted exponents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from scalable_bandits import analysis, checks
from scalable_bandits.analysis import DECADE, Coverage, MeanCurve, Spread, Times, around, exponent, spread
from scalable_bandits.analysis.curves import (
    BEST,
    REGRET,
    Curve,
    case_of,
    dense,
    horizons_of,
    numeric_axes,
    policies_of,
    thinned,
    totals,
)
from scalable_bandits.analysis.exponents import MISFIT, spaced
from scalable_bandits.checks import Floats
from scalable_bandits.plots.arrangement import AxesArray, axes, heading, panels
from scalable_bandits.plots.style import COLOURS, POINTS, legend, line, logarithmic, plain, rows, ticks_at, tidy
from scalable_bandits.runs.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray

FEW = 4  # runs; fewer are drawn one by one, without a band
EXPECTED = "_expected"  # label of the lines of expected slopes; no legend has it
TICKS = 8  # values of an axis; fewer or as many are its ticks
APART = 8.0  # factor between regrets from which on their axis is logarithmic
LABELS = {"cumulative": "cumulative regret", "average": "average regret", BEST: "regret of the best point"}
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

T = TypeVar("T")


def _named(argument: str, given: Any, kind: type[T]) -> Mapping[str, T]:
    """Refuse with a ValueError what is not a mapping from labels to instances of a class."""
    if not isinstance(given, Mapping) or not all(isinstance(one, kind) for one in given.values()):
        study = "" if kind is Coverage else ", or a study's result"
        checks.refuse(argument, given, f"a {kind.__name__}, or several by their labels{study}")
    return given


def _of_runs(runs: Mapping[str, Trajectory], best: bool) -> dict[int, Curve]:
    """Return the regret curves of runs, by number; of the best point up to the first round that was not kept."""
    found: dict[int, Curve] = {}
    for number, (label, run) in enumerate(runs.items()):
        if best:
            whole = int((run.round == run.first_round + np.arange(len(run))).sum())
            places = dense(whole, POINTS) - 1 if whole else np.arange(0)
            rounds, values = run.round[places], np.minimum.accumulate(run.regret[:whole])[places]
        else:
            even, log = run.curve(POINTS), run.curve(POINTS, log=True)
            rounds, first = np.unique(np.concatenate([even.round, log.round]), return_index=True)
            values = np.concatenate([even.cumulative_regret, log.cumulative_regret])[first]
        found |= {number: Curve("", label, rounds.astype(np.float64), values[None])} if len(rounds) else {}
    return found


def _of_study(result: Any, case: str | None, quantity: str) -> dict[int, Curve]:
    """Return the regret curves of the policies that have finished runs of a case, by the policy's number."""
    case, names = case_of(result, case), list(policies_of(result))
    found = analysis.curves(result.sel(case=[case]), quantity)
    return {names.index(one.policy): thinned(one, POINTS) for one in found}


def _of_record(record: Mapping[str, Any], case: str | None, measure: str) -> dict[int, MeanCurve]:
    """Return the mean curves of a case, by the policy's number."""
    case, found = case_of(record, case), analysis.curves_of(record)
    if BEST in (measure, kept := record.get("measure", measure)) and kept != measure:
        checks.refuse("measure", measure, f"that of the record: {kept!r}")
    names = list(dict.fromkeys(one.policy for one in found))
    return {names.index(one.policy): one for one in found if one.case == case}


def regret_curves(
    result: xarray.Dataset | Trajectory | Mapping[str, Any],
    case: str | None = None,
    ax: Axes | None = None,
    measure: str | None = None,
    *,
    log: bool | None = None,
    fit: bool = False,
    looks: Mapping[str, Mapping[str, Any]] | None = None,
) -> Axes:
    """Draw the regret of each policy over rounds: mean over replicates with a 95 % confidence band.

    The band is Student's t interval in each round; on logarithmic axes it reaches from mean / e^r to mean e^r with
    r = half width / mean, and thus stays above 0. Fewer than four replicates, whose band would fill the figure, are
    thin lines instead.

    Parameters
    ----------
    result
        Result of a study, as `Study.run` returns it; or its record, the plain data that ``scalable-bandits run NAME
        --json`` prints, which has means and standard errors alone; or a trajectory, or several by their labels.
    case
        Case of the study. Default: its only case.
    ax
        Axes to draw on. Default: those of a new figure.
    measure
        Regret to draw: "cumulative", "average" (per round), or "best", that of the best point played so far, which is
        drawn up to the first round that was not kept. Default: the study's measure; "cumulative" for trajectories.
    log
        Flag for logarithmic axes. Default: set if the final cumulative regrets differ by more than a factor of 8. For
        "best" the regret alone has a logarithmic axis by default, if all means are positive and span such a factor.
    fit
        Flag to draw the power law t^b fitted to the last decade of rounds, with b [95 % interval] in the label.
    looks
        Properties of some policies' lines by label, such as ``{"GP-EI": {"color": "black"}}``; a band has the colour
        of its line. Default: colour and style by the policy's place in the study.

    Raises
    ------
    ValueError
        If the study lacks the case, if it has several cases and none is given, or if the measure is unknown or not
        that of the record.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> space = sb.Grid([[0, 1]], 20)
    >>> policy = sb.GPEI(space, sb.RBF(0.2), noise=0.1, regularization=0.01)
    >>> run = sb.simulate(policy, sb.Benchmark("forrester", space, sb.GaussianNoise(0.1)), horizon=30)
    >>> sb.plots.regret_curves({"GP-EI": run}, log=True).get_xscale()
    'log'
    """
    if isinstance(result, Trajectory):
        result = {str(result.specification.get("policy", {}).get("type", "run")): result}
    looks = {} if looks is None else looks
    if not isinstance(looks, Mapping) or not all(isinstance(each, Mapping) for each in looks.values()):
        checks.refuse("looks", looks, "properties of lines by label, such as {'GP-EI': {'color': 'black'}}")
    given: Any = result
    record = not hasattr(given, "attrs") and isinstance(given, Mapping) and isinstance(given.get("curves"), list)
    attributes = given if record else getattr(given, "attrs", {})
    measure = str(attributes.get("measure", "cumulative")) if measure is None else measure
    if measure not in LABELS:
        checks.refuse("measure", measure, "'cumulative', 'average' or 'best'")
    best, curves = measure == BEST, dict[int, Any]()
    if record:
        curves |= _of_record(given, case, measure)
    elif hasattr(result, "attrs"):
        curves |= _of_study(result, case, BEST if best else REGRET)
    else:
        curves |= _of_runs(_named("result", result, Trajectory), best)
    ax = axes(ax)
    found = [_spread(one, one.x if measure == "average" else 1.0) for one in curves.values()]
    seen = np.concatenate([np.zeros(0), *(each.mean if best else each.mean[-1:] for each in found)])
    which = _logarithmic(measure, seen, log)
    for (number, one), each in zip(curves.items(), found, strict=True):
        look = line(number) | dict(looks.get(one.policy, {}))
        drawn = _draw(one, each, look, measure, ax, which is not None)
        if fit:
            _fit(one, each.mean, measure, drawn, ax)
    last = max((int(one.x[-1]) for one in curves.values()), default=2)
    ax.set_xlim(*((1, last) if last > 1 else (0.5, 1.5)))
    if which is not None:  # the axis of the regret begins a little below the means
        logarithmic(ax, which)
        ax.set_ylim(bottom=(0.3 if best else 0.03) * float(seen[seen > 0.0].min()))
    elif not (seen < 0.0).any():
        ax.set_ylim(bottom=0.0)
    return tidy(ax, "round", f"{LABELS[measure]}\n({attributes.get('unit', 'units of y')})")


def _spread(one: Curve | MeanCurve, per: Any) -> Spread:
    """Return mean and confidence interval (k,) of a curve, divided by numbers (k,)."""
    if isinstance(one, MeanCurve):
        return around(one.mean / per, one.standard_error / per, one.runs)
    return spread(one.values / per)


def _logarithmic(measure: str, seen: Floats, log: bool | None) -> Literal["both", "y"] | None:
    """Return which axes are logarithmic, given the means (k,) of "best" or the last means of the other measures."""
    if measure == BEST:
        seen = seen[seen > 0.0]  # the best point of all has none
    apart = measure != "average" and seen.size > 0 and bool(seen.max() > APART * seen.min() > 0.0)
    if not (apart if log is None else log) or not (seen > 0.0).any():
        return None
    return "y" if measure == BEST and log is None else "both"


def _draw(
    one: Curve | MeanCurve, found: Spread, look: dict[str, Any], measure: str, ax: Axes, logarithmic: bool
) -> Line2D:
    """Draw the mean over the runs of one policy, with its band or the runs; return the mean's line."""
    mean, _, low, high = found
    runs = one.runs if isinstance(one, MeanCurve) else len(one.values)
    (drawn,) = ax.plot(one.x, mean, label=plain(one.policy), marker="o" if len(one.x) == 1 else "", **look)
    if runs >= FEW:
        if logarithmic:
            factor = np.exp(np.divide(high - mean, mean, out=np.zeros_like(mean), where=mean > 0.0))
            low, high = mean / factor, mean * factor
        ax.fill_between(one.x, low, high, color=look["color"], alpha=0.18, linewidth=0)
    elif runs > 1 and isinstance(one, Curve):
        values = one.values / (one.x if measure == "average" else 1.0)
        ax.plot(one.x, values.T, color=look["color"], alpha=0.35, linewidth=0.7, label="_")
    return drawn


def _fit(one: Curve | MeanCurve, mean: Floats, measure: str, drawn: Line2D, ax: Axes) -> None:
    """Draw the fitted power law a little above the line of the mean, and add its exponent to the line's label."""
    power = exponent(one.x, one.mean[None] if isinstance(one, MeanCurve) else one.values)
    if not np.isfinite(power.exponent):
        return
    interval = f" [{power.low:.2f}, {power.high:.2f}]" if np.isfinite(power.low) else ""
    drawn.set_label(f"{plain(one.policy)}: t^{power.exponent:.2f}{interval}")
    slope = power.exponent - (measure == "average")
    late = one.x[one.x >= one.x[-1] / DECADE]
    level = np.exp(np.log(np.maximum(mean[-len(late) :], 1e-300)).mean() - slope * np.log(late).mean())
    ax.plot(late, 1.25 * level * late**slope, color=drawn.get_color(), linewidth=0.9, linestyle=":")


def coverage(found: Coverage | Mapping[str, Coverage], ax: Axes | None = None) -> Axes:
    """Draw over rounds the share of the candidates at which f lies within a policy's intervals.

    Solid: within mean +- width x standard deviation, which the theorems guarantee at all candidates with high
    probability. Dotted: within 1.96 standard deviations, 95 % on average if the prior is true.

    Parameters
    ----------
    found
        Coverage, as `analysis.coverage` returns it, or several by their labels.
    ax
        Axes to draw on. Default: those of a new figure.

    Raises
    ------
    ValueError
        If `found` is neither a `Coverage` nor a mapping of them.
    """
    drawn = {"": found} if isinstance(found, Coverage) else _named("found", found, Coverage)
    ax = axes(ax)
    for number, (label, one) in enumerate(drawn.items()):
        colour, before = COLOURS[number % len(COLOURS)], f"{plain(label)}: " if label else ""
        if np.isfinite(one.confidence).any():
            ax.plot(one.round, one.confidence, color=colour, linewidth=1.8, label=f"{before}confidence width")
        ax.plot(one.round, one.normal, color=colour, linewidth=1.6, linestyle=":", label=f"{before}1.96 deviations")
    ax.axhline(0.95, color="black", linewidth=0.8, linestyle="--")
    ax.text(0.995, 0.945, "0.95", transform=ax.get_yaxis_transform(), ha="right", va="top", fontsize=8)
    logarithmic(ax, "x")
    ax.set_ylim(min(0.5, ax.get_ylim()[0]), 1.02)
    legend(ax)
    return tidy(ax, "round", "share of the candidates\nat which f is inside")


def time_per_round(
    found: xarray.Dataset | Times | Mapping[str, Times], case: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the time per round: for a timed study the mean of each policy, for measured runs a curve over rounds.

    Parameters
    ----------
    found
        Times, as `analysis.time_rounds` returns them, or several by their labels; or the result of a timed study.
    case
        Case of the study. Default: its only case.
    ax
        Axes to draw on. Default: those of a new figure.

    Raises
    ------
    ValueError
        If the study is not timed, if it lacks the case, or if it has several cases and none is given.
    """
    if not isinstance(found, Times) and hasattr(found, "attrs"):
        return _times_of_study(found, case, ax)
    drawn = {"": found} if isinstance(found, Times) else _named("found", found, Times)
    ax = axes(ax)
    for number, (label, one) in enumerate(drawn.items()):
        ax.plot(one.round, 1e3 * one.seconds, label=plain(label), marker="o", markersize=3, **line(number))
    logarithmic(ax)
    if any(drawn):
        ax.legend(frameon=False)
    return tidy(ax, "round", "time per round (ms)")


def _times_of_study(result: Any, case: str | None, ax: Axes | None) -> Axes:
    """Draw each policy's mean time per round as a bar, with its confidence interval."""
    if "seconds" not in result:
        checks.refuse("found", f"study {result.attrs.get('study')!r}", "a timed study (with `seconds`)")
    case = case_of(result, case)
    labels = [str(label) for label in result["policy"].values]
    ax = axes(ax, (6.4, 1.2 + 0.36 * len(labels)))
    for row, label in enumerate(labels):
        rounds = totals(result, case, label)[0]
        times = result["seconds"].sel(case=case, policy=label).values / max(rounds[-1:], default=1) * 1e3
        times = times[np.isfinite(times)]
        if not len(times):
            continue
        mean, _, low, high = (float(value) for value in spread(times))
        ax.barh(row, mean, height=0.6, color=COLOURS[row % len(COLOURS)])
        if np.isfinite(low):
            ax.plot([max(low, 0.0), high], [row, row], color="black", linewidth=1.2)
        ax.annotate(f"{mean:.3g}", (max(mean, high if np.isfinite(high) else mean), row), (5, 0),
                    textcoords="offset points", va="center", fontsize=9)  # fmt: skip
    rows(ax, labels)
    ax.margins(x=0.12)
    ax.set_xlim(left=0.0)
    return tidy(ax, "time per round (ms): mean over runs, 95 % confidence interval", grid="x")


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
    known = analysis.curves(result, quantity, over)
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
            _draw_fitted(scaled, number, fitted, over, ax, (expected or {}).get(one.policy))
    logarithmic(ax, "y" if apart else "both")
    values = np.unique([x for one in known if one.case == case for x in one.x])
    if not apart and len(values) <= TICKS:
        ticks_at(ax, values)
    unit = result.attrs.get("unit", "units of y")
    return tidy(ax, over, f"cumulative regret\n({unit})" if quantity == "regret" else label)


def _draw_fitted(one: Curve, number: int, span: str | None, over: str, ax: Axes, slope: float | None) -> None:
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
        ax.plot(x, mean[-1] * (x / x[-1]) ** slope, color="0.45", linewidth=0.9, label=EXPECTED)
        ax.annotate(f"{slope:.3g}", (x[0], mean[-1] * (x[0] / x[-1]) ** slope), (-3, 0), textcoords="offset points",
                    ha="right", va="center", fontsize=8, color="0.35")  # fmt: skip


def _thinned(one: Curve, points: int = 300) -> Curve:
    """Return some points of a curve, evenly spaced on a logarithmic axis."""
    if len(one.x) <= points or one.x[0] <= 0:
        return one
    picked = spaced(one.x, points)
    return one._replace(x=one.x[picked], values=one.values[:, picked])


def scaling_panels(
    result: xarray.Dataset, expected: Expected | None = None, ax: Axes | Sequence[Axes] | AxesArray | None = None
) -> AxesArray:
    """Draw how regret, time and memory of a study grow over rounds and along its axes, a row for each case.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    expected
        Exponents of the theory, by "round" or axis, then by quantity, then by policy.
    ax
        Array or sequence of axes, one for each panel; or axes whose place is divided into the panels. Default: those of
        a new figure, with a title.

    Returns
    -------
    ndarray
        Axes (n,) of the panels.

    Raises
    ------
    ValueError
        If the study has nothing that grows: no axis of numbers, a single horizon, and no times.
    """
    drawn = growing(result)
    if not drawn:
        allowed = "a study with an axis of numbers, several horizons or times"
        checks.refuse("result", f"study {result.attrs.get('study')!r}", allowed)
    rows = Counter(case for case, _, _ in drawn)
    boxes, figure = panels(ax, list(rows.values()), (4.9, 4.2))
    for one, (case, quantity, over) in zip(boxes, drawn, strict=True):
        scaling(result, quantity, over, case, one, expected=(expected or {}).get(over, {}).get(quantity))
        if len(rows) > 1:
            one.set_title(case, fontsize=10)
    _legends(boxes, figure, len(rows))
    count = result.sizes["replicate"]
    note = f"mean and all of {count} runs, bootstrap intervals over runs" if count > 1 else "one run"
    grey = any(each.get_label() == EXPECTED for one in boxes for each in one.lines)
    heading(figure, f"{result.attrs['title']}\n{note}{'; grey: expected slope' if grey else ''}")
    return boxes


def _legends(boxes: AxesArray, figure: Figure | None, rows: int) -> None:
    """Add the legend of each panel: below it on a new figure, which becomes higher for it, and else inside."""
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "borderaxespad": 4.5}
    for one in boxes:
        legend(one, title="exponent [95 % interval]", title_fontsize=8.5, **below if figure is not None else {})
    if figure is not None:
        most = max(len(one.get_legend_handles_labels()[1]) for one in boxes)
        figure.set_figheight(rows * (4.0 + 0.18 * most))


def growing(result: xarray.Dataset) -> list[tuple[str, str, str]]:
    """Return what of a study is drawn by `scaling_panels`: case, quantity and axis of each panel, case by case.

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
    found: dict[str, list[tuple[str, str, str]]] = {}
    for quantity, over in wanted:
        for case in dict.fromkeys(one.case for one in analysis.curves(result, quantity, over) if len(one.x) > 1):
            found.setdefault(case, []).append((case, quantity, over))
    return [panel for case in found.values() for panel in case]
