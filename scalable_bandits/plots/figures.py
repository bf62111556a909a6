"""Figures of a whole study, one panel per case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scalable_bandits.checks import Floats
from scalable_bandits.plots.covers import Played, partition
from scalable_bandits.plots.curves import FEW, regret_curves
from scalable_bandits.plots.priors import prior_histogram
from scalable_bandits.plots.style import COLOURS, POINTS, STYLES, logarithmic, panels, replicates, tidy
from scalable_bandits.spaces import Indices

if TYPE_CHECKING:
    import xarray

SERIES = {"regret": "cumulative regret", "information_gain": "largest gain (nats)"}  # labels in a growth figure


def study_figure(result: xarray.Dataset) -> Figure:
    """Draw the regret curves of a study, one panel per case; a second one shows the priors used, if there are any.

    Parameters
    ----------
    result
        Result of a study, as `Study.run` and `Study.open` return it.
    """
    cases = [str(case) for case in result["case"].values]
    drawn = [(case, draw) for case in cases for draw in (regret_curves, prior_histogram)[: 1 + ("plays" in result)]]
    columns = min(2, len(drawn))
    rows = -(-len(drawn) // columns)
    beside = columns * rows == len(drawn)  # no empty panel has room for the legend
    figure, axes = panels((rows, columns), (5.2 * columns + 1.2 * beside, 3.7 * rows + 0.5))
    for ax, (case, draw) in zip(axes.flat, drawn, strict=False):
        draw(result, case, ax)
        ax.set_title(case if len(cases) > 1 else "", fontsize=10)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    if beside:
        figure.legend(handles, labels, loc="outside right center", frameon=False)
    else:
        axes.flat[-1].set_axis_off()
        axes.flat[-1].legend(handles, labels, loc="center", frameon=False)
    count = result.sizes["replicate"]
    spread = ", 95 % confidence band" if count >= FEW else ", each a thin line" if count > 1 else ""
    figure.suptitle(f"{result.attrs['title']}\n{replicates(result)}{spread}", fontsize=11)
    return figure


def cover_figure(played: Mapping[str, Played], title: str) -> Figure:
    """Draw the covers of partitioned policies, one panel per case.

    Parameters
    ----------
    played
        Policies in two dimensions after their runs, by the name of the case.
    title
        Title above all panels.

    Raises
    ------
    ValueError
        If a space does not have two dimensions.
    """
    columns = min(2, len(played))
    rows = -(-len(played) // columns)
    figure, axes = panels((rows, columns), (4.6 * columns + 0.4, 4.4 * rows + 0.9), "compressed")
    for ax, (case, one) in zip(axes.flat, played.items(), strict=False):
        partition(*one, ax)
        cells = sum(element.split is None and element.observations > 0 for element in one.policy.cover)
        ax.set_title(f"{case}: {cells:,} cells with data after {one.policy.rounds:,} rounds", fontsize=10)
    for ax in axes.flat[len(played) :]:
        ax.set_visible(False)
    note = "grey: f; darker blue: deeper cell; larger dot: chosen more often"
    figure.suptitle(f"{title}\n{note}", fontsize=11 if columns > 1 else 9)
    return figure


def growth_figure(result: xarray.Dataset, rates: Callable[[str, Floats], Mapping[str, Floats]]) -> Figure:
    """Draw series of a study and their theoretical growth over rounds, one row per series, one column per case.

    Parameters
    ----------
    result
        Result of a study, as `Study.run` returns it.
    rates
        Function of a case and rounds (k,) that returns the theoretical rate (k,) of each series, by the name of the
        series. A rate lacks its constant: it is scaled to meet the end of the first curve.
    """
    rounds = result["round"].values
    drawn = np.unique(np.geomspace(max(len(rounds) / 1000, 1), len(rounds), POINTS).astype(int))
    cases = [str(case) for case in result["case"].values]
    names = list(rates(cases[0], drawn.astype(np.float64)))
    size = (3.6 * len(cases) + 1.6, 2.7 * len(names) + 0.9)
    figure, axes = panels((len(names), len(cases)), size, sharex=True)
    for column, case in zip(axes.T, cases, strict=True):
        expected = rates(case, drawn.astype(np.float64))
        for ax, name in zip(column, names, strict=True):
            _growth(result[name].sel(case=case), drawn, expected[name], ax)
            ax.set_ylabel(SERIES.get(name, name) if case == cases[0] else "")
        column[0].set_title(case, fontsize=10)
        column[-1].set_xlabel("round")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(f"{result.attrs['title']}\n{replicates(result)}", fontsize=11)
    return figure


def _growth(series: xarray.DataArray, rounds: Indices, rate: Floats, ax: Axes) -> None:
    """Draw the series of each policy in one case: the cumulative sum of regret, the running maximum of other series."""
    total = np.cumsum if series.name == "regret" else np.maximum.accumulate
    curves = [
        total(series.sel(policy=label).transpose("replicate", "round").values, axis=1).mean(axis=0)[rounds - 1]
        for label in series["policy"].values
    ]
    for i, (label, curve) in enumerate(zip(series["policy"].values, curves, strict=True)):
        ax.plot(rounds, curve, color=COLOURS[i % len(COLOURS)], linestyle=STYLES[i % len(STYLES)], label=str(label))
    through = curves[0][-1] / rate[-1] if rate[-1] else 1.0
    ax.plot(rounds, rate * through, color="black", linestyle=":", linewidth=1.2, label="rate of the theory")
    logarithmic(ax)
    positive = np.concatenate(curves)
    positive = positive[positive > 0]
    if len(positive):
        ax.set_ylim(0.7 * positive.min(), 1.5 * positive.max())
    tidy(ax)
