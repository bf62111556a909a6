"""Colours, line styles, ticks and legends that all figures share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatterSciNotation, MaxNLocator, NullLocator, ScalarFormatter

from scalable_bandits.checks import Floats
from scalable_bandits.runs.readable import counted

if TYPE_CHECKING:
    import xarray

# Palette of Okabe & Ito, chosen for colour-blind readers. A policy has the same colour in every figure.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
STYLES: tuple[Any, ...] = ("-", "--", "-.", (0, (1, 1.2)), (0, (5, 1, 1, 1, 1, 1)), (0, (3, 2)), "-", ":")
POINTS = 600  # rounds drawn per curve; more are indistinguishable on a screen
LONGEST = 30  # characters of a name in a figure; longer names are cut


def tidy(ax: Axes, x: str | None = None, y: str | None = None, grid: Literal["both", "x", "y"] = "both") -> Axes:
    """Label axes where labels are given, with all digits at the ticks; a faint grid, no upper and right border."""
    ax.set(**{f"{axis}label": label for axis, label in (("x", x), ("y", y)) if label is not None})
    ax.grid(axis=grid, alpha=0.25)
    for axis in (ax.xaxis, ax.yaxis):
        formatter = axis.get_major_formatter()
        if isinstance(formatter, ScalarFormatter):
            formatter.set_useOffset(False)  # "-0.1" below "-4.05188e4" takes arithmetic
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def inches(ax: Axes) -> tuple[float, float]:
    """Return width and height of axes, before the figure is laid out."""
    extent, figure = ax.get_window_extent(), ax.figure
    assert figure is not None
    return extent.width / figure.dpi, extent.height / figure.dpi


def rows(ax: Axes, names: Iterable[object]) -> None:
    """Name the rows of bars, the first at the top; names take at most half the width."""
    longest = max(8, int(8.0 * inches(ax)[0]))
    labels = [plain(name, longest) for name in names]
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.5, -0.5)


def star(ax: Axes, x: Any, y: Any, label: str | None = None) -> None:
    """Mark a point by a star."""
    ax.plot(x, y, "*", color=COLOURS[4], markersize=13, markeredgecolor="black", markeredgewidth=0.8, zorder=5,
            clip_on=False, label=label)  # fmt: skip


def replicates(result: xarray.Dataset) -> str:
    """Return in words of how many replicates a figure shows the mean."""
    count = result.sizes["replicate"]
    return f"mean of {counted(count, 'replicate')}"


class PlainNumbers(LogFormatterSciNotation):
    """Plain numbers at the ticks that matplotlib chooses to label, or powers of ten instead of many zeros."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        label: str = super().__call__(x, pos)
        assert self.axis is not None
        low, high = sorted(self.axis.get_view_interval())
        return f"{x:,.6g}" if label and low > 5e-4 and high < 9e5 else label


def logarithmic(ax: Axes, which: Literal["both", "x", "y"] = "both") -> None:
    """Make one axis or both logarithmic, with labels such as 20 and 0.5."""
    for axis in {"both": (ax.xaxis, ax.yaxis), "x": (ax.xaxis,), "y": (ax.yaxis,)}[which]:
        ax.set(**{f"{axis.axis_name}scale": "log"})
        axis.set_major_formatter(PlainNumbers())
        axis.set_minor_formatter(PlainNumbers(labelOnlyBase=False, minor_thresholds=(1.0, 0.4)))


def ticks_at(ax: Axes, values: Floats) -> None:
    """Place the ticks of a logarithmic horizontal axis at values (k,), ascending; labels that meet are left out."""
    ax.xaxis.set_major_formatter(PlainNumbers(minor_thresholds=(np.inf, np.inf)))  # not only at powers of ten
    ax.xaxis.set_minor_locator(NullLocator())
    longest = max(len(f"{x:,.6g}") for x in values)
    apart = np.log(values[-1] / values[0]) * 0.1 * (longest + 1) / inches(ax)[0]
    shown = [values[-1]]
    for x in values[-2::-1]:
        shown += [x] if np.log(shown[-1] / x) >= apart else []
    ax.set_xticks(shown)


def ticks(ax: Axes, most: int = 9, whole: bool = False) -> None:
    """Place at most so many intervals between ticks along the horizontal axis, at whole numbers only if asked for."""
    ax.xaxis.set_major_locator(MaxNLocator(most, integer=whole, min_n_ticks=1 if whole else 2))


def legend(ax: Axes, **options: Any) -> None:
    """Add a legend, if anything has a label, on a translucent ground: it can be read where it covers something."""
    if ax.get_legend_handles_labels()[1]:
        size = 8.5 if inches(ax)[0] > 2.6 else 6.5
        ax.legend(facecolor="white", framealpha=0.75, edgecolor="none", fontsize=size, **options)


def line(number: int) -> dict[str, Any]:
    """Return colour, style and width of the curve with this number."""
    lap, place = divmod(number, len(COLOURS))  # a colour comes again with another style
    return {"color": COLOURS[place], "linestyle": STYLES[(place + lap) % len(STYLES)], "linewidth": 1.8}


def plain(text: object, longest: int = LONGEST) -> str:
    """Shorten a long name and escape its dollar signs, which would start a formula in matplotlib."""
    name, longest = str(text), min(longest, LONGEST)
    return (name if len(name) <= longest else f"{name[: longest - 3]}...").replace("$", r"\$")
