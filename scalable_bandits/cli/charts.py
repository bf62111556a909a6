"""Charts of dots in a terminal: curves and points in a rectangle of characters, each of two by four dots (Braille)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.cells import set_cell_size
from rich.text import Text

from scalable_bandits.checks import Floats, showable
from scalable_bandits.runs.readable import told_apart

# Bits of the dots of a Braille character by row and column.
_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
STYLES = ("bright_blue", "yellow", "green", "magenta", "cyan", "red", "white", "bright_black")  # of curves


class DrawnCurve(NamedTuple):
    """Curve, or points, of a chart."""

    x: Floats  # (k,)
    y: Floats  # (k,)
    style: str = STYLES[0]
    joined: bool = True  # whether the points are joined by lines

    def finite(self) -> DrawnCurve:
        """Return the curve without points that are not finite."""
        x, y = np.asarray(self.x, float), np.asarray(self.y, float)
        finite = np.isfinite(x) & np.isfinite(y)
        return self._replace(x=x[finite], y=y[finite])


def chart(
    curves: Sequence[DrawnCurve], width: int, height: int, title: str, *, log: bool = False,
    ends: tuple[str, str] | None = None, limits: tuple[float, float] | None = None, encoding: str = "utf-8",
) -> Text:  # fmt: skip
    """Draw curves, later ones over earlier ones; points that are not finite are left out.

    Parameters
    ----------
    curves
        Curves. Where none has a finite point, the title and a line that says so are all that is returned.
    width, height
        Size in characters, title and labels included.
    title
        Text above.
    log
        Flag for a logarithmic vertical axis.
    ends
        Labels of the ends of the horizontal axis. Default: the smallest and the largest x.
    limits
        Lowest and highest y that are shown; others are at the edge. Default: those of the curves.
    encoding
        Encoding of the terminal; one without Braille has stars.
    """
    curves = [each.finite() for each in curves]
    x, y = (np.concatenate([each[i] for each in curves]) for i in (0, 1))
    heading = Text(set_cell_size(title, width), style="bold", no_wrap=True)
    if not len(y):
        return Text("\n").join([heading, Text(set_cell_size("no finite value yet", width), style="dim")])
    low, high = limits or (float(y.min()), float(y.max()))
    labels = told_apart([low, high])
    margin = max(map(len, labels)) + 1
    columns, rows = max(width - margin, 4), max(height - 2, 1)
    scale = np.log if log else np.asarray
    bottom, top, left, right = float(scale(low)), float(scale(high)), float(x.min()), float(x.max())
    first, last = ends or (f"{left:,.12g}", f"{right:,.12g}")
    left, right = (left, right) if right > left else (left - 1.0, right + 1.0)  # a single one is in the middle
    bottom, top = (bottom, top) if top > bottom else (bottom - 1.0, top + 1.0)
    shown, styles = np.full((rows, columns), 0x2800), np.full((rows, columns), "", object)  # characters
    for each in curves:
        across = np.interp(each.x, (left, right), (0, 2 * columns - 1))
        up = np.interp(scale(np.clip(each.y, low, high)), (bottom, top), (0, 4 * rows - 1))
        if each.joined and len(across) > 1:
            lengths = np.maximum(np.abs(np.diff(across)), np.abs(np.diff(up)))
            at = np.append(0.0, np.cumsum(lengths))
            steps = np.linspace(0.0, at[-1], int(2 * at[-1]) + 2)
            across, up = np.interp(steps, at, across), np.interp(steps, at, up)
        column, row = np.rint(across).astype(int), 4 * rows - 1 - np.rint(up).astype(int)
        cells = row // 4, column // 2
        if each.joined:
            shown[cells] = np.where(shown[cells] < 0x2800, 0x2800, shown[cells])  # over points
            np.bitwise_or.at(shown, cells, _BITS[row % 4, column % 2])
        else:
            shown[cells] = ord("\u2022")
        styles[cells] = each.style
    braille = showable("\u28ff", encoding) == "\u28ff"
    lines = [heading]
    for i in range(rows):
        label = labels[1] if i == 0 else labels[0] if i == rows - 1 else ""
        text = Text(f"{label:>{margin - 1}} ", style="dim")
        for number, style in zip(shown[i], styles[i], strict=True):
            text.append(" " if number == 0x2800 else chr(number) if braille else "*", style or None)
        lines.append(text)
    room = max(columns - len(first), len(last) + 1)
    lines.append(Text(set_cell_size(f"{'':{margin}}{first}{last:>{room}}", width), style="dim"))
    return Text("\n").join(lines)


def stroke(encoding: str) -> str:
    """Return the character of bars in a terminal of some encoding."""
    return "\u2501" if showable("\u2501", encoding) == "\u2501" else "="


def bars(shares: Sequence[tuple[str, float]], width: int, height: int, title: str, encoding: str = "utf-8") -> Text:
    """Draw shares from 0 to 1 as bars, the largest first.

    Parameters
    ----------
    shares
        Names and shares.
    width, height
        Size in characters; shares for which there is no room are left out.
    title
        Text above.
    encoding
        Encoding of the terminal.
    """
    found = sorted(shares, key=lambda each: -each[1])[: max(height - 1, 1)]
    names = min(max((len(name) for name, _ in found), default=0), width // 2)
    room = max(width - names - 7, 1)
    lines = [Text(set_cell_size(title, width), style="bold", no_wrap=True)]
    for name, share in found:
        filled = round(min(max(share, 0.0), 1.0) * room)
        bar = Text.assemble((f"{set_cell_size(name, names)} ", ""), (stroke(encoding) * filled, STYLES[0]))
        lines.append(bar.append(f" {min(share, 1.0):.0%}", style="dim"))
    return Text("\n").join(lines)
