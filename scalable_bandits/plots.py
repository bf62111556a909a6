"""Pictures. Every function draws on the axes it is given, or makes some, and returns them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments import Environment
from scalable_bandits.policies import PiGPUCB
from scalable_bandits.spaces import Box, FiniteSpace, Grid, Indices

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito's palette, which colour-blind readers can tell apart; each policy keeps its colour in every picture.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
STYLES = ("-", "--", "-.", (0, (1, 1.2)), (0, (5, 1, 1, 1, 1, 1)), (0, (3, 2)), "-", ":")
SHADE, EDGE = (0.0, 0.447, 0.698), "#00446b"  # of cells
SERIES = {"regret": "cumulative regret", "information_gain": "largest gain (nats)"}  # what growth is drawn of
PIXELS = 120  # along each side of the image of a function on a box
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


def prior_histogram(result: xarray.Dataset, case: str, ax: Axes | None = None) -> Axes:
    """How often each policy played each prior: share of all rounds of all replicates.

    Parameters
    ----------
    result
        What `Study.run` gave, of a study whose policies have several priors; one without is left out.
    case, ax
        As in `regret_curves`.
    """
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")[1]
    shares = result["plays"].sel(case=case).mean("replicate").transpose("policy", "prior").values
    drawn = [i for i in range(len(shares)) if np.isfinite(shares[i]).all()]
    places, width = np.arange(shares.shape[1]), 0.85 / max(1, len(drawn))
    for position, i in enumerate(drawn):
        label = str(result["policy"].values[i])
        left = places + (position - (len(drawn) - 1) / 2) * width
        ax.bar(left, shares[i] / shares[i].sum(), width, color=COLOURS[i % len(COLOURS)], label=label)
    ax.set_xticks(places, [str(name) for name in result["prior"].values])
    ax.set_xlabel("prior")
    ax.set_ylabel("share of the rounds")
    ax.grid(axis="y", alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def study_figure(result: xarray.Dataset) -> Figure:
    """Picture of a study: one panel of regret curves a case (and one of the priors played, if any), one legend."""
    from matplotlib.figure import Figure

    cases = [str(case) for case in result["case"].values]
    panels = [(case, draw) for case in cases for draw in (regret_curves, prior_histogram)[: 1 + ("plays" in result)]]
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5.2 * columns + 1.2, 3.7 * rows + 0.5), layout="constrained", dpi=130)
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax, (case, draw) in zip(axes.flat, panels, strict=False):
        draw(result, case, ax)
        ax.set_title(case if len(cases) > 1 else "", fontsize=10)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    replicates = result.sizes["replicate"]
    note = f"{result.attrs['title']}\nmean of {replicates} replicate{'s' if replicates > 1 else ''}"
    figure.suptitle(note + (", 95 % confidence band" if replicates > 1 else ""), fontsize=11)
    return figure


class Played(NamedTuple):
    """A partitioned policy, where it played, and what."""

    policy: PiGPUCB
    environment: Environment
    candidates: Indices  # (t,) played


def partition(
    policy: PiGPUCB, environment: Environment, candidates: Indices | None = None, ax: Axes | None = None
) -> Axes:
    """Cover of a partitioned policy in two dimensions, over the image of f.

    Cells are shaded by depth (the deeper, the stronger); those that nothing fell into are drawn in outline only.

    Parameters
    ----------
    policy
        That has played.
    environment
        What it played.
    candidates
        (t,) played, as in `Trajectory.candidate`: a dot for each distinct one, the larger the more often.
    ax
        Axes to draw on; new ones if not given.

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
    from matplotlib.patches import Rectangle

    if policy.space.dimension != 2:
        checks.refuse("policy", f"{policy.space.dimension} dimensions", "a policy on a space of two dimensions")
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(6.2, 5.2), layout="constrained")[1]
    low, high = _image(environment, ax)
    leaves = [element for element in policy.cover if element.split is None]
    first = next((element for element in policy.cover if element.depth == 0), None)
    if first is not None:  # the first cover, from any of its cubes
        side = first.upper - first.lower
        ax.vlines(np.arange(low[0], high[0] + side[0] / 2, side[0]), low[1], high[1], color=EDGE, linewidth=0.3)
        ax.hlines(np.arange(low[1], high[1] + side[1] / 2, side[1]), low[0], high[0], color=EDGE, linewidth=0.3)
    deepest = max((element.depth for element in leaves), default=0)
    for element in sorted(leaves, key=lambda e: e.depth):
        x, y = element.lower.tolist()
        width, height = (element.upper - element.lower).tolist()
        shade = 0.0 if not element.observations else 0.06 + 0.34 * element.depth / max(deepest, 1)
        ax.add_patch(Rectangle((x, y), width, height, facecolor=(*SHADE, shade), edgecolor="none"))
        ax.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=EDGE, linewidth=0.7))
    if candidates is not None:
        distinct, counts = np.unique(candidates, return_counts=True)
        points = policy.finite_space.points(distinct)
        ax.scatter(
            points[:, 0],
            points[:, 1],
            s=2.0 + 5.0 * np.log10(counts) ** 2,
            color=COLOURS[1],
            edgecolor="white",
            linewidth=0.3,
            zorder=3,
        )
    span = high - low
    ax.set_aspect(span[0] / span[1])
    ax.set_xlim(low[0] - 0.01 * span[0], high[0] + 0.01 * span[0])
    ax.set_ylim(low[1] - 0.01 * span[1], high[1] + 0.01 * span[1])
    ax.set_xlabel("$x_1$")
    ax.set_ylabel("$x_2$")
    return ax


def _image(environment: Environment, ax: Axes) -> tuple[Floats, Floats]:
    """Draw f; the corners of the box around its space."""
    space = environment.space
    drawn = Grid(space.bounds, PIXELS) if isinstance(space, Box) else space
    assert isinstance(drawn, FiniteSpace)
    points = drawn.points()
    values = environment.evaluate(points) if isinstance(space, Box) else environment.table()
    low, high = points.min(axis=0), points.max(axis=0)
    grey: dict[str, Any] = {"cmap": "Greys", "vmin": values.min(), "vmax": values.min() + 1.7 * np.ptp(values)}
    if isinstance(drawn, Grid):
        cell = (high - low) / (np.array(drawn.sides) - 1.0) / 2.0
        extent = (low[0] - cell[0], high[0] + cell[0], low[1] - cell[1], high[1] + cell[1])
        image = values.reshape(drawn.sides).T
        ax.imshow(image, origin="lower", extent=extent, interpolation="bilinear", **grey)
    else:
        ax.scatter(points[:, 0], points[:, 1], c=values, s=6, linewidth=0, **grey)
    return low, high


def cover_figure(played: Mapping[str, Played], title: str) -> Figure:
    """Covers side by side, one panel a case."""
    from matplotlib.figure import Figure

    columns = min(2, len(played))
    rows = -(-len(played) // columns)
    figure = Figure(figsize=(4.6 * columns + 0.4, 4.4 * rows + 0.9), layout="compressed", dpi=130)
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax, (case, one) in zip(axes.flat, played.items(), strict=False):
        partition(*one, ax)
        cells = sum(element.split is None and element.observations > 0 for element in one.policy.cover)
        ax.set_title(f"{case}: {cells:,} cells with data after {one.policy.rounds:,} rounds", fontsize=10)
    for ax in axes.flat[len(played) :]:
        ax.set_visible(False)
    note = "f in grey; cells: the bluer, the deeper; points: the larger, the more often played"
    figure.suptitle(f"{title}\n{note}", fontsize=11 if columns > 1 else 9)
    return figure


def growth_figure(result: xarray.Dataset, rates: Callable[[str, Floats], Mapping[str, Floats]]) -> Figure:
    """Series of a study over rounds, beside the rates at which theory has them grow: a row a series, a column a case.

    Parameters
    ----------
    result
        What `Study.run` gave.
    rates
        From a case and rounds (k,) to the rate (k,) of each series; it is drawn through the first curve's end.
    """
    from matplotlib.figure import Figure

    rounds = result["round"].values
    drawn = np.unique(np.geomspace(max(len(rounds) / 1000, 1), len(rounds), POINTS).astype(int))
    cases = [str(case) for case in result["case"].values]
    names = list(rates(cases[0], drawn.astype(np.float64)))
    figure = Figure(figsize=(3.6 * len(cases) + 1.6, 2.7 * len(names) + 0.9), layout="constrained", dpi=130)
    axes = figure.subplots(len(names), len(cases), squeeze=False, sharex=True)
    for column, case in zip(axes.T, cases, strict=True):
        expected = rates(case, drawn.astype(np.float64))
        for ax, name in zip(column, names, strict=True):
            _growth(result[name].sel(case=case), drawn, expected[name], ax)
            ax.set_ylabel(SERIES.get(name, name) if case == cases[0] else "")
        column[0].set_title(case, fontsize=10)
        column[-1].set_xlabel("round")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    replicates = result.sizes["replicate"]
    note = f"mean of {replicates} replicate{'s' if replicates > 1 else ''}"
    figure.suptitle(f"{result.attrs['title']}\n{note}", fontsize=11)
    return figure


def _growth(series: xarray.DataArray, rounds: Indices, rate: Floats, ax: Axes) -> None:
    """Each policy's series of one case: of the regret its sum, of others the largest value so far."""
    total = np.cumsum if series.name == "regret" else np.maximum.accumulate
    curves = [
        total(series.sel(policy=label).transpose("replicate", "round").values, axis=1).mean(axis=0)[rounds - 1]
        for label in series["policy"].values
    ]
    for i, (label, curve) in enumerate(zip(series["policy"].values, curves, strict=True)):
        ax.plot(rounds, curve, color=COLOURS[i % len(COLOURS)], linestyle=STYLES[i % len(STYLES)], label=str(label))
    through = curves[0][-1] / rate[-1] if rate[-1] else 1.0
    ax.plot(rounds, rate * through, color="black", linestyle=":", linewidth=1.2, label="rate of the theory")
    ax.set_xscale("log")
    ax.set_yscale("log")
    positive = np.concatenate(curves)
    positive = positive[positive > 0]
    if len(positive):
        ax.set_ylim(0.7 * positive.min(), 1.5 * positive.max())
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
