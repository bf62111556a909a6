"""Parts of a report: sections of facts, tables, figures, commands and text."""

from __future__ import annotations

import base64
import io
import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (4.7, 3.4)  # inches; a figure of this size is readable when it is shown 370 pixels wide
LIBRARIES = ("scalable_bandits", "numpy", "scipy", "numba", "xarray", "zarr", "dask", "matplotlib")
DPI = 200  # dots per inch of figures that are embedded as PNG


class Block(NamedTuple):
    """One element of a section; the template lays it out according to its kind."""

    kind: str  # "facts", "table", "figures", "command", "text"
    title: str = ""
    headings: Sequence[str] = ()  # column headings of a table
    rows: Sequence[Sequence[str]] = ()  # rows of a table; for "facts", pairs of name and value
    numbers: int = 0  # count of numeric columns, which are a table's last ones and right-aligned
    text: str = ""  # text of the block; for a table, its explanation
    figures: Sequence[Picture] = ()


class Picture(NamedTuple):
    """A figure embedded in the page."""

    source: str  # data URI
    alt: str  # description for readers who cannot see the figure
    caption: str
    wide: bool = False  # whether it takes the whole width of the page


class Section(NamedTuple):
    """Blocks under one heading."""

    title: str
    blocks: Sequence[Block]


class Report(NamedTuple):
    """Content of a whole page."""

    title: str
    subtitle: str
    sections: Sequence[Section]


def facts(pairs: Iterable[tuple[str, object]], title: str = "") -> Block:
    """Make a block of names and values; pairs whose value is None or empty are left out."""
    rows = [(name, str(value)) for name, value in pairs if value is not None and value != ""]
    return Block("facts", title, rows=rows)


def table(title: str, rows: Iterable[Mapping[str, str]], numbers: int, text: str = "") -> Block:
    """Make a table of cells by heading; a case or a horizon T that all rows have in common goes without saying."""
    rows = list(rows)
    headings = list(rows[0]) if rows else []
    shown = [name for name in headings if name not in ("case", "T") or len({row[name] for row in rows}) > 1]
    return Block("table", title, shown, [[row[name] for name in shown] for row in rows], numbers, text)


def new_axes(width: float = SIZE[0], height: float = SIZE[1]) -> Axes:
    """Make axes on a new figure that pyplot does not manage."""
    from matplotlib.figure import Figure

    made: Axes = Figure(figsize=(width, height), layout="constrained").subplots()
    return made


def picture(
    drawn: Axes, alt: str, caption: str = "", *, image: bool = False, legend: bool = False, wide: bool = False
) -> Picture:
    """Embed the figure of some axes as a data URI, SVG unless `image` is set.

    Parameters
    ----------
    drawn
        Axes of the figure.
    alt
        Description for readers who cannot see the figure.
    caption
        Text below the figure.
    image
        Flag to embed a PNG, which is smaller than SVG where a surface is drawn.
    legend
        Flag to add a legend of the axes below them.
    wide
        Flag to show the figure as wide as the page.
    """
    import matplotlib
    from matplotlib.figure import Figure

    figure = drawn.figure
    assert isinstance(figure, Figure)
    if legend:
        handles, labels = drawn.get_legend_handles_labels()
        columns = 2 if max(map(len, labels), default=0) <= 22 else 1
        height = 0.21 * -(-len(labels) // columns)
        figure.set_size_inches(SIZE[0], SIZE[1] - 0.4 + height)
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    buffer, form = io.BytesIO(), "png" if image else "svg"
    with matplotlib.rc_context({"svg.hashsalt": "scalable_bandits"}):
        metadata = {"Software": None} if image else {"Date": None, "Creator": None}
        figure.savefig(buffer, format=form, dpi=DPI, metadata=metadata)
    kind = "image/png" if image else "image/svg+xml"
    return Picture(f"data:{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}", alt, caption, wide)


def processor() -> str:
    """Return the name of the processor; where the system does not give one, its architecture."""
    try:
        for entry in Path("/proc/cpuinfo").read_text().splitlines():
            if entry.startswith("model name"):
                return entry.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine() -> Block:
    """List processor, memory, system and library versions of this process."""
    import psutil

    memory = psutil.virtual_memory().total / 2**30
    pairs = [
        ("processor", processor()),
        ("cores", os.cpu_count()),
        ("memory", f"{memory:.1f} GiB"),
        ("system", platform.platform()),
        ("Python", platform.python_version()),
    ]
    versions = ((name, metadata.version(name)) for name in LIBRARIES)
    return facts([*pairs, *versions], "Machine and libraries that made this page")


def provenance(described: object, versions: Iterable[tuple[str, object]], what: str) -> Section:
    """Make the section of a specification, the versions that started a run or a study, and this machine."""
    text = json.dumps(described, indent=2, default=str, ensure_ascii=False)
    started = facts(versions, f"Version{'s' * (what == 'study')} that started the {what}")
    return Section("Specification", [Block("command", text=text), started, machine()])
