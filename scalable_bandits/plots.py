"""Pictures. Every function draws on the axes it is given, or makes some, and returns them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito's palette, which colour-blind readers can tell apart; each policy keeps its colour in every picture.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
STYLES = ("-", "--", "-.", (0, (1, 1.2)), (0, (5, 1, 1, 1, 1, 1)), (0, (3, 2)), "-", ":")
POINTS = 600  # rounds drawn of a curve; more cannot be told apart on a screen


def regret_curves(result: xarray.Dataset, case: str, ax: Axes | None = None, measure: str | None = None) -> Axes:
    """Regret of each policy over rounds: mean over replicates with a 95 % confidence band.

    Cumulative regrets that end more than a factor of 8 apart are drawn on logarithmic axes.

    Parameters
    ----------
    result
        What `Study.run` gave.
    case
        Which of its cases.
    ax
        Axes to draw on; new ones if not given.
    measure
        "cumulative" or "average" regret; the study's own if not given.
    """
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")[1]
    measure = result.attrs["measure"] if measure is None else measure
    rounds = result["round"].values
    drawn = np.unique(np.linspace(0, len(rounds) - 1, min(POINTS, len(rounds))).astype(int))
    ends = []
    for i, label in enumerate(result["policy"].values):
        curves = np.cumsum(result["regret"].sel(case=case, policy=label).values, axis=-1)
        if measure == "average":
            curves = curves / np.arange(1, len(rounds) + 1)
        curves = curves[:, drawn]
        mean = curves.mean(axis=0)
        ends.append(mean[-1])
        colour, style = COLOURS[i % len(COLOURS)], STYLES[i % len(STYLES)]
        ax.plot(rounds[drawn], mean, color=colour, linestyle=style, linewidth=1.8, label=str(label))
        if len(curves) > 1:
            half = 1.96 * curves.std(axis=0, ddof=1) / np.sqrt(len(curves))
            ax.fill_between(rounds[drawn], mean - half, mean + half, color=colour, alpha=0.18, linewidth=0)
    ax.set_xlabel("round")
    ax.set_ylabel(f"{measure} regret\n({result.attrs['unit']})")
    ax.set_xlim(1, max(2, len(rounds)))
    if measure == "cumulative" and max(ends) > 8.0 * min(ends) > 0.0:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(bottom=0.03 * min(ends))
    else:
        ax.set_ylim(bottom=0.0)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def study_figure(result: xarray.Dataset) -> Figure:
    """Picture of a study: one panel of regret curves a case, one legend."""
    from matplotlib.figure import Figure

    cases = [str(case) for case in result["case"].values]
    columns = min(2, len(cases))
    rows = -(-len(cases) // columns)
    figure = Figure(figsize=(5.2 * columns + 1.2, 3.7 * rows + 0.5), layout="constrained", dpi=130)
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax, case in zip(axes.flat, cases, strict=False):
        regret_curves(result, case, ax)
        ax.set_title(case if len(cases) > 1 else "", fontsize=10)
    for ax in axes.flat[len(cases) :]:
        ax.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    replicates = result.sizes["replicate"]
    note = f"{result.attrs['title']}\nmean of {replicates} replicate{'s' if replicates > 1 else ''}"
    figure.suptitle(note + (", 95 % confidence band" if replicates > 1 else ""), fontsize=11)
    return figure
