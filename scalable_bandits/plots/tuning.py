"""Figures of a tuning result: its history, and the importance of the parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from scalable_bandits import analysis, checks
from scalable_bandits.analysis import NORMAL, Importance
from scalable_bandits.checks import Floats
from scalable_bandits.plots.style import COLOURS, axes, legend, logarithmic, rows, ticks, tidy
from scalable_bandits.policies import Policy
from scalable_bandits.runs.result import TuningResult

RANGE = 1000.0  # ratio of the largest to the smallest value to be minimised from which their axis is logarithmic
FIRST, FAR = 10, 10.0  # first values, and how many times as far from the best as their median a picture reaches
MANY = 300  # evaluations from which dots are small
MOST_BARS = 20  # parameters whose importance is drawn


def value_label(minimize: bool) -> str:
    """Return the label of an axis of values."""
    return f"value ({'smaller' if minimize else 'larger'} is better)"


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

    Crosses at the edge are failed evaluations; triangles there are values so bad that they would hide the others.

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
    past = found.history()
    numbers, values = past.index.to_numpy(), past["value"].to_numpy()
    ax = axes(ax)
    measured = np.isfinite(values)
    if measured.any():
        _measured(numbers[measured], values[measured], found, log, ax)
        ax.step(numbers, past["best"], where="post", color=COLOURS[0], linewidth=1.8, label="best so far", zorder=3)
    edge = 0.98 if found.minimize else 0.02  # on the side of bad values
    if not measured.all():
        ax.plot(numbers[~measured], np.full((~measured).sum(), edge), "x", color=COLOURS[1], markersize=6,
                transform=ax.get_xaxis_transform(), label="failed", clip_on=False)  # fmt: skip
    ax.set_xlim(0.5, max(len(numbers), 1) + 0.5)
    ticks(ax, whole=True)
    place = ("upper right", 0.96) if found.minimize else ("lower right", 0.04)
    legend(ax, loc=place[0], bbox_to_anchor=(1.0, place[1]))
    return tidy(ax, "evaluation", value_label(found.minimize))


def _measured(numbers: Any, values: Floats, found: TuningResult, log: bool | None, ax: Axes) -> None:
    """Draw measured values (k,) of the evaluations with some numbers (k,), and the expected value of the best."""
    shown = shown_values(values, found.minimize, log)
    inside = shown.clip(values) == values
    low, high = found.policy.interval(found.recommended.x)
    low, high = (low, high) if np.isfinite([low, high]).all() else (found.value, found.value)
    ax.axhspan(low, high, color=COLOURS[2], alpha=0.18, linewidth=0)
    ax.axhline(found.value, color=COLOURS[2], linewidth=1.2, linestyle="--", label="recommended: expected value")
    many = len(values) > MANY
    ax.plot(numbers[inside], values[inside], "o", color=COLOURS[5], markersize=2.5 if many else 4.5, label="measured",
            markeredgecolor="white", markeredgewidth=0.0 if many else 0.4)  # fmt: skip
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
    legend(ax, loc="lower right")
    return tidy(ax, f"share of the variance{note}", grid="x")
