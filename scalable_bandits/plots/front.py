"""Figures of results with several objectives: the front, and how it grew."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from scalable_bandits import checks
from scalable_bandits.plots.arrangement import axes
from scalable_bandits.plots.style import COLOURS, legend, plain, star, ticks, tidy
from scalable_bandits.runs.result import TuningResult


def front(found: TuningResult, ax: Axes | None = None, *, objectives: Sequence[str] | None = None) -> Axes:
    """Draw the measured values of two objectives, and the settings that no other one beats in all of them.

    Circles are settings that do not keep the constraints. Of two objectives, the line is the edge of what the front
    dominates; bars are standard deviations where values are noisy. The star is the recommended setting.

    Parameters
    ----------
    found
        Result of `maximize` or `minimize` with `objectives`.
    ax
        Axes to draw on; if not given, those of a new figure.
    objectives
        Names of the two objectives that are drawn; if not given, the first two.

    Raises
    ------
    ValueError
        If the result has one objective, or there are no two of those names.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> found = sb.minimize(lambda s: {"a": s["x"], "b": 1 - s["x"]}, {"x": sb.Real(0, 1)}, 5, objectives=["a", "b"])
    >>> sb.plots.front(found).get_xlabel()
    'a (smaller is better)'
    """
    checks.kind("found", found, TuningResult, "a result of maximize or minimize")
    best, directions = found.front, found.directions
    names = list(directions)[:2] if objectives is None else list(objectives)
    if len(names) != 2 or len({*names, *directions}) > len(directions):
        checks.refuse("objectives", objectives, f"two of {', '.join(directions)}")
    ax = axes(ax)
    values = [found.outputs.get(name, found.y) for name in names]  # those of the first are y
    kept = found.feasible
    size = 3.0 if len(kept) > 200 else 4.5
    ax.plot(*(v[kept] for v in values), "o", color=COLOURS[5], markersize=size, label="measured", alpha=0.6)
    if not kept.all():
        ax.plot(*(v[~kept] for v in values), "o", color=COLOURS[5], markersize=size - 0.8, fillstyle="none",
                label="measured, not feasible")  # fmt: skip
    if best:
        x, y = (np.array([point.values[name] for point in best]) for name in names)
        errors = [np.array([point.stds[name] for point in best]) for name in names]
        if len(directions) == 2:
            order, smaller = np.argsort(x), directions[names[0]] == "minimize"
            ax.step(x[order], y[order], where="post" if smaller else "pre", color=COLOURS[0], linewidth=1.4)
        ax.errorbar(x, y, errors[1], errors[0], fmt="o", color=COLOURS[0], markersize=5.5, elinewidth=0.8,
                    label="front", zorder=3)  # fmt: skip
        at = found.policy.space.parse(found.recommended.x)[0]
        for i, point in enumerate(best):
            if np.array_equal(found.policy.space.parse(point.x)[0], at):
                star(ax, x[i], y[i], "recommended")
    legend(ax)
    better = {"minimize": "smaller", "maximize": "larger"}
    first, second = (f"{plain(name)} ({better[directions[name]]} is better)" for name in names)
    return tidy(ax, first, second)


def growth(found: TuningResult, ax: Axes) -> Axes:
    """Draw the hypervolume of the front by evaluation, as a share of the last one."""
    past = found.history()
    ax.step(past.index, past["hypervolume"], where="post", color=COLOURS[0], linewidth=1.8)
    ax.set_xlim(0.5, max(len(past), 1) + 0.5)
    ax.set_ylim(0.0, 1.05)
    ticks(ax, whole=True)
    return tidy(ax, "evaluation", "hypervolume of the front / last one")
