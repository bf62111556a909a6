"""What a report is made of: facts, tables, figures and commands, in sections."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from scalable_bandits.report.numerals import significant

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (4.7, 3.4)  # inches of a figure: its text can be read on 370 pixels
NOTHING = "\N{EN DASH}"  # of a number
DOTS = 200  # an inch, of a figure that is an image


class Block(NamedTuple):
    """One thing on the page; the template knows how each kind looks."""

    kind: str  # "facts", "table", "figures", "command", "text"
    title: str = ""
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()  # of facts: pairs
    numbers: int = 0  # how many of the last columns are numbers
    text: str = ""
    figures: Sequence[Picture] = ()


class Picture(NamedTuple):
    """A figure with all of its data."""

    source: str  # a data URI
    alt: str
    caption: str


class Section(NamedTuple):
    """Blocks under a heading."""

    title: str
    blocks: Sequence[Block]


class Report(NamedTuple):
    """All of a page."""

    title: str
    subtitle: str
    sections: Sequence[Section]


def facts(pairs: Iterable[tuple[str, object]]) -> Block:
    """Names and values; what is None or empty is left out."""
    return Block("facts", rows=[(name, str(value)) for name, value in pairs if value is not None and value != ""])


def number(value: float, digits: int = 4) -> str:
    """So many digits; a dash where there is no number."""
    return NOTHING if math.isnan(value) else significant(value, digits)


def interval(low: float, high: float) -> str:
    """A confidence interval."""
    return NOTHING if math.isnan(low) else f"{number(low, 3)} to {number(high, 3)}"


def new_axes(width: float = SIZE[0], height: float = SIZE[1]) -> Axes:
    """Axes of a figure that no window manager knows."""
    from matplotlib.figure import Figure

    made: Axes = Figure(figsize=(width, height), layout="constrained").subplots()
    return made


def picture(drawn: Axes | Figure, alt: str, caption: str = "", *, image: bool = False, legend: bool = False) -> Picture:
    """A drawing as a data URI: lines as SVG; as PNG where `image` is set.

    Parameters
    ----------
    drawn
        Axes (of their own figure), or a figure.
    alt
        What it shows, for those who cannot see it.
    caption
        Below it.
    legend
        Put the axes' legend below them.
    """
    import matplotlib
    from matplotlib.figure import Figure

    figure = drawn if isinstance(drawn, Figure) else drawn.figure
    if legend and not isinstance(drawn, Figure):
        handles, labels = drawn.get_legend_handles_labels()
        columns = 2 if max(map(len, labels), default=0) <= 22 else 1
        assert isinstance(figure, Figure)
        height = 0.21 * -(-len(labels) // columns)
        figure.set_size_inches(SIZE[0], SIZE[1] - 0.4 + height)
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    buffer, form = io.BytesIO(), "png" if image else "svg"
    with matplotlib.rc_context({"svg.hashsalt": "scalable_bandits"}):
        metadata = {"Software": None} if image else {"Date": None, "Creator": None}
        figure.savefig(buffer, format=form, dpi=DOTS, metadata=metadata)  # type: ignore[union-attr]
    kind = "image/png" if image else "image/svg+xml"
    return Picture(f"data:{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}", alt, caption)
