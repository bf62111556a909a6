"""Colours, lines and axes that all pictures share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from scalable_bandits import checks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe & Ito's palette, which colour-blind readers can tell apart; each policy keeps its colour in every picture.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
STYLES: tuple[Any, ...] = ("-", "--", "-.", (0, (1, 1.2)), (0, (5, 1, 1, 1, 1, 1)), (0, (3, 2)), "-", ":")
POINTS = 600  # rounds drawn of a curve; more cannot be told apart on a screen
LONGEST = 30  # characters of a name in a picture


def axes(ax: Axes | None, size: tuple[float, float] = (6.4, 4.2)) -> Axes:
    """The given axes, or those of a new figure; ValueError for what is none."""
    if ax is not None:
        if not hasattr(ax, "get_xaxis_transform"):
            checks.refuse("ax", ax, "matplotlib axes, or None")
        return ax
    import matplotlib.pyplot as plt

    made: Axes = plt.subplots(figsize=size, layout="constrained")[1]
    return made


def tidy(ax: Axes, grid: Literal["both", "x", "y"] = "both") -> Axes:
    """A faint grid, no box."""
    ax.grid(axis=grid, alpha=0.25)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def logarithmic(ax: Axes, which: Literal["both", "x"] = "both") -> None:
    """Logarithmic axes whose ticks say 20 and 0.5, not 2 x 10^1; powers where some would have many zeros."""
    from matplotlib.ticker import LogFormatterSciNotation

    class Plain(LogFormatterSciNotation):
        """Which ticks have a label is matplotlib's choice."""

        def __call__(self, x: float, pos: int | None = None) -> str:
            label: str = super().__call__(x, pos)
            assert self.axis is not None
            low, high = sorted(self.axis.get_view_interval())
            return f"{x:,.6g}" if label and low > 5e-4 and high < 9e5 else label

    ax.set_xscale("log")
    if which == "both":
        ax.set_yscale("log")
    for axis in (ax.xaxis, ax.yaxis)[: 1 + (which == "both")]:
        axis.set_major_formatter(Plain())
        axis.set_minor_formatter(Plain(labelOnlyBase=False, minor_thresholds=(1.0, 0.4)))


def line(number: int) -> dict[str, Any]:
    """Colour and style of the curve of a number."""
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": STYLES[number % len(STYLES)], "linewidth": 1.8}


def plain(text: object) -> str:
    """A name as it is, shortened if it is long: matplotlib takes what is between dollar signs for mathematics."""
    name = str(text)
    return (name if len(name) <= LONGEST else f"{name[: LONGEST - 3]}...").replace("$", r"\$")
