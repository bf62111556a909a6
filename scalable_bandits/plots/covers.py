"""Figure of the cover of a partitioned policy in two dimensions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments import Environment
from scalable_bandits.plots.posteriors import function_at
from scalable_bandits.plots.style import COLOURS, axes
from scalable_bandits.policies import PiGPUCB
from scalable_bandits.spaces import Indices

SHADE, EDGE = (0.0, 0.447, 0.698), "#00446b"  # fill colour of cells (RGB), and colour of their edges
PIXELS = 120  # per side of the image of f on a box


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
        points = policy.finite_space.points(distinct)
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
