"""Figures of a whole study, one panel per case; and the cover of a partitioned policy in two dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments import Environment
from scalable_bandits.plots.arrangement import AxesArray, axes, heading, panels, rows_of
from scalable_bandits.plots.beliefs import function_at, prior_histogram
from scalable_bandits.plots.curves import FEW, regret_curves
from scalable_bandits.plots.style import COLOURS, POINTS, STYLES, logarithmic, replicates, tidy
from scalable_bandits.policies import PiGPUCB
from scalable_bandits.spaces import Indices

if TYPE_CHECKING:
    import xarray

SERIES = {"regret": "cumulative regret", "information_gain": "largest gain (nats)"}  # labels in a growth figure
SHADE, EDGE = (0.0, 0.447, 0.698), "#00446b"  # fill colour of cells (RGB), and colour of their edges
PIXELS = 120  # per side of the image of f on a box


def study_panels(result: xarray.Dataset, ax: Axes | Sequence[Axes] | AxesArray | None = None) -> AxesArray:
    """Draw the regret curves of a study, one panel per case; a second one shows the priors used, if there are any.

    Parameters
    ----------
    result
        Result of a study, as `Study.run` and `Study.open` return it.
    ax
        Array or sequence of axes, one for each panel; or axes whose place is divided into the panels. Default: those of
        a new figure, with a title.

    Returns
    -------
    ndarray
        Axes (n,) of the panels.
    """
    cases = [str(case) for case in result["case"].values]
    drawn = [(case, draw) for case in cases for draw in (regret_curves, prior_histogram)[: 1 + ("plays" in result)]]
    boxes, figure = panels(ax, rows_of(len(drawn), 2), (5.2, 3.9))
    for one, (case, draw) in zip(boxes, drawn, strict=True):
        draw(result, case, one)
        if len(cases) > 1:
            one.set_title(case, fontsize=10)
    count = result.sizes["replicate"]
    spread = ", 95 % confidence band" if count >= FEW else ", each a thin line" if count > 1 else ""
    heading(figure, f"{result.attrs['title']}\n{replicates(result)}{spread}", boxes[0])
    return boxes


def cover_panels(
    played: Mapping[str, Played], title: str = "", ax: Axes | Sequence[Axes] | AxesArray | None = None
) -> AxesArray:
    """Draw the covers of partitioned policies, one panel per case.

    Parameters
    ----------
    played
        Policies in two dimensions after their runs, by the name of the case.
    title
        Title above all panels of a new figure.
    ax
        Axes, as in `study_panels`. Default: those of a new figure.

    Returns
    -------
    ndarray
        Axes (n,) of the panels.

    Raises
    ------
    ValueError
        If there is no policy, or a space does not have two dimensions.
    """
    if not isinstance(played, Mapping) or not played:
        checks.refuse("played", played, "policies after their runs (`Played`) by the names of cases, at least one")
    boxes, figure = panels(ax, rows_of(len(played), 2), (4.8, 4.8), layout="compressed")
    for one, (case, each) in zip(boxes, played.items(), strict=True):
        partition(*each, one)
        cells = sum(element.split is None and element.observations > 0 for element in each.policy.cover)
        one.set_title(f"{case}: {cells:,} cells with data after {each.policy.rounds:,} rounds", fontsize=10)
    heading(figure, f"{title}\ngrey: f; darker blue: deeper cell; larger dot: chosen more often".lstrip())
    return boxes


def growth_panels(
    result: xarray.Dataset, rates: Callable[[str, Floats], Mapping[str, Floats]],
    ax: Axes | Sequence[Axes] | AxesArray | None = None,
) -> AxesArray:  # fmt: skip
    """Draw series of a study and their theoretical growth over rounds, one row per series, one column per case.

    Parameters
    ----------
    result
        Result of a study, as `Study.run` returns it.
    rates
        Function of a case and rounds (k,) that returns the theoretical rate (k,) of each series, by the name of the
        series. A rate lacks its constant: it is scaled to meet the end of the first curve.
    ax
        Axes, as in `study_panels`. Default: those of a new figure.

    Returns
    -------
    ndarray
        Axes (series, cases) of the panels.
    """
    rounds = result["round"].values
    drawn = np.unique(np.geomspace(max(len(rounds) / 1000, 1), len(rounds), POINTS).astype(int))
    cases = [str(case) for case in result["case"].values]
    expected = {case: rates(case, drawn.astype(np.float64)) for case in cases}
    names = list(expected[cases[0]])
    flat, figure = panels(ax, [len(cases)] * len(names), (3.6 if len(cases) > 1 else 5.2, 3.0))
    boxes = flat.reshape(len(names), len(cases))
    for row, name in zip(boxes, names, strict=True):
        for one, case in zip(row, cases, strict=True):
            _growth(result[name].sel(case=case), drawn, expected[case][name], one)
        row[0].set_ylabel(SERIES.get(name, name))
    for column, case in zip(boxes.T, cases, strict=True):
        column[0].set_title(case, fontsize=10)
        column[-1].set_xlabel("round")
    heading(figure, f"{result.attrs['title']}\n{replicates(result)}", flat[0])
    return boxes


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
    for element in policy.cover:
        if element.split is not None:  # cubes of half its side without observations are no cells
            (x, y), (right, top) = element.lower.tolist(), element.upper.tolist()
            ax.vlines((x + right) / 2, y, top, color=EDGE, linewidth=0.7)
            ax.hlines((y + top) / 2, x, right, color=EDGE, linewidth=0.7)
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
