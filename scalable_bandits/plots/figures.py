"""Figures of a whole study, one panel per case; and the cover of a partitioned policy in two dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments import Environment
from scalable_bandits.plots.beliefs import function_at, prior_histogram
from scalable_bandits.plots.curves import FEW, regret_curves
from scalable_bandits.plots.style import COLOURS, POINTS, STYLES, axes, logarithmic, panels, replicates, tidy
from scalable_bandits.policies import PiGPUCB
from scalable_bandits.spaces import Indices

if TYPE_CHECKING:
    import xarray

SERIES = {"regret": "cumulative regret", "information_gain": "largest gain (nats)"}  # labels in a growth figure
SHADE, EDGE = (0.0, 0.447, 0.698), "#00446b"  # fill colour of cells (RGB), and colour of their edges
PIXELS = 120  # per side of the image of f on a box


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


class Played(NamedTuple):
    """A partitioned policy after a run, its environment, and the run's candidates."""

    policy: PiGPUCB
    environment: Environment
    candidates: Indices  # (t,), candidate of each round


def partition(
    policy: PiGPUCB, environment: Environment, candidates: Indices | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the cover of a partitioned policy in two dimensions over an image of f.

    Deeper cells have a stronger shade; cells without observations have an outline only.

    Parameters
    ----------
    policy
        Partitioned policy, usually after a run.
    environment
        Environment of the run, whose f is the image.
    candidates
        (t,) candidate of each round, as in `Trajectory.candidate`. Each distinct one is a dot, larger the more rounds
        chose it.
    ax
        Axes to draw on. Default: those of a new figure.

    Raises
    ------
    ValueError
        If the policy has no cover, or its space does not have two dimensions.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> from scalable_bandits import plots
    >>> space = sb.Grid([[0, 1], [0, 1]], 12)
    >>> policy = sb.PiGPUCB(space, sb.Matern(0.2, nu=1.5), horizon=100)
    >>> function = sb.Benchmark("cosines", space)
    >>> run = sb.simulate(policy, function, 100)
    >>> plots.partition(policy, function, run.candidate).get_aspect()
    1.0
    """
    checks.kind("policy", policy, PiGPUCB, "a PiGPUCB")
    checks.kind("environment", environment, Environment, "an environment on the policy's space")
    if policy.space.dimension != 2:
        checks.refuse("policy", f"{policy.space.dimension} dimensions", "a policy on a space of two dimensions")
    ax = axes(ax, (6.2, 5.2))
    low, high = _image(environment, ax)
    _cells(policy, low, high, ax)
    if candidates is not None:
        distinct, counts = np.unique(candidates, return_counts=True)
        points = policy.domain.points(distinct)
        sizes = 2.0 + 5.0 * np.log10(counts) ** 2
        ax.scatter(points[:, 0], points[:, 1], s=sizes, color=COLOURS[1], edgecolor="white", linewidth=0.3, zorder=3)
    span = high - low
    ends = np.array([low - 0.01 * span, high + 0.01 * span]).T
    ax.set(aspect=span[0] / span[1], xlim=ends[0], ylim=ends[1], xlabel="$x_1$", ylabel="$x_2$")
    return ax


def _cells(policy: PiGPUCB, low: Floats, high: Floats, ax: Axes) -> None:
    """Draw the cells of the cover and the grid of the initial cover."""
    leaves = [element for element in policy.cover if element.split is None]
    first = next((element for element in policy.cover if element.depth == 0), None)
    if first is not None:  # all cells of the initial cover have the same size
        side = first.upper - first.lower
        ax.vlines(np.arange(low[0], high[0] + side[0] / 2, side[0]), low[1], high[1], color=EDGE, linewidth=0.3)
        ax.hlines(np.arange(low[1], high[1] + side[1] / 2, side[1]), low[0], high[0], color=EDGE, linewidth=0.3)
    deepest = max((element.depth for element in leaves), default=0)
    for element in sorted(leaves, key=lambda e: e.depth):
        x, y = element.lower.tolist()
        sides = (element.upper - element.lower).tolist()
        shade = 0.0 if not element.observations else 0.06 + 0.34 * element.depth / max(deepest, 1)
        ax.add_patch(Rectangle((x, y), *sides, facecolor=(*SHADE, shade), edgecolor=EDGE, linewidth=0.7))


def _image(environment: Environment, ax: Axes) -> tuple[Floats, Floats]:
    """Draw f and return the lower and upper corner (2,) of the box around its space."""
    points, values, sides = function_at(environment, 1, PIXELS)
    low, high = points.min(axis=0), points.max(axis=0)
    grey: dict[str, Any] = {"cmap": "Greys", "vmin": values.min(), "vmax": values.min() + 1.7 * np.ptp(values)}
    if sides is not None:
        cell = (high - low) / (np.array(sides) - 1.0) / 2.0
        extent = tuple(np.array([low - cell, high + cell]).T.ravel())
        ax.imshow(values.reshape(sides).T, origin="lower", extent=extent, interpolation="bilinear", **grey)
    else:
        ax.scatter(points[:, 0], points[:, 1], c=values, s=6, linewidth=0, **grey)
    return low, high
