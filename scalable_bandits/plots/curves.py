"""Figures over rounds: regret, coverage, time per round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np

from scalable_bandits import checks
from scalable_bandits.analysis import BEST, DECADE, Coverage, Times, case_of, exponent, policies_of, spread, totals
from scalable_bandits.analysis import curves as study_curves
from scalable_bandits.analysis.curves import REGRET
from scalable_bandits.checks import Floats
from scalable_bandits.plots import style
from scalable_bandits.plots.style import COLOURS, POINTS, axes, line, plain, tidy
from scalable_bandits.runs.trajectory import Trajectory
from scalable_bandits.spaces import Indices

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

FEW = 4  # runs; fewer are drawn one by one, without a band
APART = 8.0  # factor between regrets from which on their axis is logarithmic
LABELS = {"cumulative": "cumulative regret", "average": "average regret", BEST: "regret of the best point"}

T = TypeVar("T")


class _Curves(NamedTuple):
    """Regret of one policy: cumulative, or that of the best point so far."""

    number: int  # number of the curve's colour and line style
    label: str
    rounds: Indices  # (k,)
    values: Floats  # (runs, k)


def _named(argument: str, given: Any, kind: type[T]) -> Mapping[str, T]:
    """Refuse with a ValueError what is not a mapping from labels to instances of a class."""
    if not isinstance(given, Mapping) or not all(isinstance(one, kind) for one in given.values()):
        checks.refuse(argument, given, f"a {kind.__name__}, several by their labels, or a study's result")
    return given


def _rounds(horizon: int) -> Indices:
    """Return rounds (k,) that are dense on both a linear and a logarithmic axis."""
    even, log = np.linspace(1, horizon, min(POINTS, horizon)), np.geomspace(1, horizon, min(POINTS, horizon))
    return np.unique(np.rint(np.concatenate([even, log])).astype(np.int64))


def _of_runs(runs: Mapping[str, Trajectory]) -> list[_Curves]:
    """Return the regret curve of each run, by label."""
    found = []
    for number, (label, run) in enumerate(runs.items()):
        even, log = run.curve(POINTS), run.curve(POINTS, log=True)
        rounds, first = np.unique(np.concatenate([even.round, log.round]), return_index=True)
        values = np.concatenate([even.cumulative_regret, log.cumulative_regret])[first]
        found.append(_Curves(number, label, rounds, values[None]))
    return found


def _bests_of_runs(runs: Mapping[str, Trajectory]) -> list[_Curves]:
    """Return the regret of the best point of each run, by label, up to the first round that was not kept."""
    found = []
    for number, (label, run) in enumerate(runs.items()):
        rounds = run.round
        whole = len(rounds) if run.complete else int((rounds == run.first_round + np.arange(len(rounds))).sum())
        drawn = _rounds(whole) - 1 if whole else np.arange(0)
        best = np.minimum.accumulate(run.regret[:whole])
        found += [_Curves(number, label, rounds[drawn], best[drawn][None])] if whole else []
    return found


def _of_study(result: Any, case: str | None, quantity: str) -> list[_Curves]:
    """Return the regret curves of each policy that has finished runs of a case."""
    case, found, names = case_of(result, case), [], list(policies_of(result))
    for one in study_curves(result.sel(case=[case]), quantity):
        drawn = np.unique(np.searchsorted(one.x, _rounds(int(one.x[-1]))))
        found.append(_Curves(names.index(one.policy), one.policy, one.x[drawn].astype(np.int64), one.values[:, drawn]))
    return found


def regret_curves(
    result: xarray.Dataset | Trajectory | Mapping[str, Trajectory],
    case: str | None = None,
    ax: Axes | None = None,
    measure: str | None = None,
    *,
    log: bool | None = None,
    fit: bool = False,
) -> Axes:
    """Draw the regret of each policy over rounds: mean over replicates with a 95 % confidence band.

    The band is Student's t interval in each round; on logarithmic axes it reaches from mean / e^r to mean e^r with
    r = half width / mean, and thus stays above 0. Fewer than four replicates, whose band would fill the figure, are
    thin lines instead.

    Parameters
    ----------
    result
        Result of a study, as `Study.run` returns it; or a trajectory, or several by their labels.
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

    Raises
    ------
    ValueError
        If the study lacks the case, if it has several cases and none is given, or if the measure is unknown.

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
    of_study, attributes = hasattr(result, "attrs"), getattr(result, "attrs", {})
    measure = str(attributes.get("measure", "cumulative")) if measure is None else measure
    if measure not in LABELS:
        checks.refuse("measure", measure, "'cumulative', 'average' or 'best'")
    if of_study:
        curves = _of_study(result, case, BEST if measure == BEST else REGRET)
    else:
        curves = (_bests_of_runs if measure == BEST else _of_runs)(_named("result", result, Trajectory))
    ax = axes(ax)
    scaled = [one.values / (one.rounds if measure == "average" else 1.0) for one in curves]
    which = _logarithmic(measure, [values.mean(axis=0) for values in scaled], log)
    for one, values in zip(curves, scaled, strict=True):
        _draw(one, values, ax, which is not None)
        if fit:
            _fit(one, values.mean(axis=0), measure, ax)
    ax.set_xlabel("round")
    ax.set_ylabel(f"{LABELS[measure]}\n({attributes.get('unit', 'units of y')})")
    last = max((int(one.rounds[-1]) for one in curves), default=2)
    ax.set_xlim(*((1, last) if last > 1 else (0.5, 1.5)))
    _regret_axis(measure, [values.mean(axis=0) for values in scaled], which, ax)
    return tidy(ax)


def _logarithmic(measure: str, means: list[Floats], log: bool | None) -> Literal["both", "y"] | None:
    """Return which axes are logarithmic for the means (k,) of some curves; None if none is."""
    if measure == BEST:
        values = np.concatenate(means) if means else np.zeros(0)
        values = values[values > 0.0]  # the best point of all has none
        apart = values.size > 0 and bool(values.max() > APART * values.min())
        return ("y" if apart else None) if log is None else ("both" if log and values.size else None)
    ends = [float(mean[-1]) for mean in means]
    apart = measure == "cumulative" and len(ends) > 0 and max(ends) > APART * min(ends) > 0.0
    return "both" if (apart if log is None else log) and any(end > 0.0 for end in ends) else None


def _regret_axis(measure: str, means: list[Floats], which: Literal["both", "y"] | None, ax: Axes) -> None:
    """Make axes logarithmic where asked, and let that of the regret begin a little below the means, or at 0."""
    seen = [mean if measure == BEST else mean[-1:] for mean in means]
    if which is not None:
        style.logarithmic(ax, which)
        lowest = min(float(values[values > 0.0].min()) for values in seen if (values > 0.0).any())
        ax.set_ylim(bottom=(0.3 if measure == BEST else 0.03) * lowest)
    elif not any((values < 0.0).any() for values in seen):
        ax.set_ylim(bottom=0.0)


def _draw(one: _Curves, values: Floats, ax: Axes, logarithmic: bool) -> None:
    """Draw the mean over runs of one policy's values (runs, k), with its band or with the runs themselves."""
    mean, _, low, high = spread(values)
    look = line(one.number)
    ax.plot(one.rounds, mean, label=plain(one.label), marker="o" if len(one.rounds) == 1 else "", **look)
    if FEW > len(values) > 1:
        ax.plot(one.rounds, values.T, color=look["color"], alpha=0.35, linewidth=0.7, label="_")
    elif len(values) > 1:
        if logarithmic:
            factor = np.exp(np.divide(high - mean, mean, out=np.zeros_like(mean), where=mean > 0.0))
            low, high = mean / factor, mean * factor
        ax.fill_between(one.rounds, low, high, color=look["color"], alpha=0.18, linewidth=0)


def _fit(one: _Curves, mean: Floats, measure: str, ax: Axes) -> None:
    """Draw the fitted power law a little above the policy's curve, and add its exponent to the curve's label."""
    power = exponent(one.rounds, one.values)
    if not np.isfinite(power.exponent):
        return
    interval = f" [{power.low:.2f}, {power.high:.2f}]" if np.isfinite(power.low) else ""
    drawn = next(curve for curve in reversed(ax.lines) if curve.get_label() == plain(one.label))
    drawn.set_label(f"{plain(one.label)}: t^{power.exponent:.2f}{interval}")
    slope = power.exponent - (measure == "average")
    late = one.rounds[one.rounds >= one.rounds[-1] / DECADE]
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
    style.logarithmic(ax, "x")
    ax.set_ylim(min(0.5, ax.get_ylim()[0]), 1.02)
    ax.set_xlabel("round")
    ax.set_ylabel("share of the candidates\nat which f is inside")
    ax.legend(frameon=False, loc="lower right")
    return tidy(ax)


def time_per_round(found: xarray.Dataset | Times | Mapping[str, Times], case: str | None = None, ax: Axes | None = None
) -> Axes:  # fmt: skip
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
    style.logarithmic(ax)
    ax.set_xlabel("round")
    ax.set_ylabel("time per round (ms)")
    if any(drawn):
        ax.legend(frameon=False)
    return tidy(ax)


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
    ax.set_yticks(range(len(labels)), [plain(label) for label in labels])
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.margins(x=0.12)
    ax.set_xlim(left=0.0)
    ax.set_xlabel("time per round (ms): mean over runs, 95 % confidence interval")
    return tidy(ax, "x")
