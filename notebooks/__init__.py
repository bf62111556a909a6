"""Notebooks with their outputs, made from percent sources.

`sources/NAME.py` is written by hand, `NAME.ipynb` is made from it: `python -m notebooks` executes a source in a fresh
kernel, in an empty folder, and writes what its cells show without what differs from run to run.

The tag "times" of a cell (`# %% tags=["times"]`) says that it shows times, versions or memory: where outputs are
compared, its numbers are not, its words are.
"""

from __future__ import annotations

import base64
import hashlib
import io
import math
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in (FOLDER / "sources").glob("*.py"))
LARGEST = 400_000  # bytes of a notebook: code hosts show no larger ones, or only after a click
SECONDS = 600  # longest time of a cell, on a machine that does much else
TOLERANCE = 1e-3  # relative, of printed numbers that are no integers: processors and BLAS libraries differ in last bits
WIDGET = "application/vnd.jupyter.widget-view+json"
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w)")
VARYING = re.compile(r"(?<![A-Za-z])[-+]?\d[\w.,:]*%?(?: (?:[mun]?s|min|h|days?|[kMG]?B)\b)?")  # with unit, a version
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PICTURE = "[picture]"


def source_of(name: str) -> Any:
    """Read a percent source as a notebook without outputs, with ids that are functions of the cells' text."""
    import jupytext

    notebook = jupytext.read(FOLDER / "sources" / f"{name}.py")
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        cell.metadata = {"tags": tags} if (tags := cell.metadata.get("tags")) else {}
        text = hashlib.sha256(cell.source.encode()).hexdigest()[:12]
        seen[text] = seen.get(text, 0) + 1
        cell.id = text if seen[text] == 1 else f"{text}-{seen[text]}"
    return notebook


def kept(name: str) -> Any:
    """Read the notebook with the outputs that are kept; None if there is none."""
    import nbformat

    path = FOLDER / f"{name}.ipynb"
    return nbformat.read(path, as_version=4) if path.exists() else None


def execute(name: str) -> Any:
    """Execute a source in a fresh kernel, in an empty folder, and return the notebook with clean outputs.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell raises.
    """
    import matplotlib
    import nbclient

    notebook = source_of(name)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as profile:
        environment = {
            "SCALABLE_BANDITS_DATA": str(FOLDER.parents[1] / "shared" / "data"),  # where tests look, too
            **os.environ,
            # The kernels of OpenBLAS round differently from processor to processor; these run on each that has AVX2.
            "OPENBLAS_CORETYPE": "Haswell",
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(FOLDER.parent), os.environ.get("PYTHONPATH")])),
            "JUPYTER_PLATFORM_DIRS": "1",  # without it jupyter_core warns
            "IPYTHONDIR": profile,  # no settings of whoever runs this
            "MATPLOTLIBRC": str(Path(matplotlib.get_data_path()) / "matplotlibrc"),
        }
        environment.pop("MPLBACKEND", None)
        nbclient.NotebookClient(
            notebook, timeout=SECONDS, kernel_name="python3", coalesce_streams=True, store_widget_state=False,
            record_timing=False, extra_arguments=["--log-level=ERROR"], resources={"metadata": {"path": folder}},
        ).execute(env=environment)  # fmt: skip
        private = {os.path.realpath(folder): "/home/you/here", folder: "/home/you/here", sys.prefix: "/home/you/.venv",
                   str(FOLDER.parent): "/home/you/scalable_bandits", str(Path.home()): "/home/you"}  # fmt: skip
    identifiers: dict[str, str] = {}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [clean(output, private, identifiers) for output in cell.outputs if not _passing(output)]
    return notebook


def _passing(output: Any) -> bool:
    """Return whether an output is a progress bar, which depends on what is installed and how fast it is."""
    if output.output_type == "stream":
        return output.name == "stderr" and "\r" in output.text
    data = output.get("data", {})
    html = data.get("text/html", "text")
    return WIDGET in data or not re.sub("<.*?>", "", html).strip()


def clean(output: Any, private: dict[str, str], identifiers: dict[str, str]) -> Any:
    """Return an output without paths, memory addresses, random identifiers, colour codes, and with small pictures.

    `private` has what is shown in place of which path, `identifiers` the numbered ones of those that have occurred.
    """

    def numbered(found: re.Match[str]) -> str:
        return identifiers.setdefault(found[0], f"00000000-0000-0000-0000-{len(identifiers):012d}")

    def plain(text: str) -> str:
        for path, shown in private.items():
            text = text.replace(path, shown)
        text = ANSI.sub("", text)
        text = re.sub(r" at 0x[0-9a-f]+", "", text)
        text = re.sub(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", numbered, text)
        return re.sub(r"[ \t\r]+$", "", text, flags=re.MULTILINE)

    if output.output_type == "stream":
        output.text = plain(output.text)
        return output
    output.metadata = {}
    for kind, data in output.data.items():
        if kind == "image/png":
            output.data[kind] = _small(data)
        elif isinstance(data, str):
            output.data[kind] = plain(data)
    return output


def _small(picture: str) -> str:
    """Return a picture with 256 colours, as its base64 text: a quarter of the bytes, and looks the same."""
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    written = io.BytesIO()
    image.quantize(256, dither=Image.Dither.NONE).save(written, "PNG", optimize=True)
    return base64.b64encode(written.getvalue()).decode()


# ---- comparing


class _Text(HTMLParser):
    """Text of HTML, a line an element that begins one, without styles."""

    def __init__(self, html: str):
        super().__init__()
        self.pieces, self._style = [""], False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._style = tag == "style"
        self.pieces.append("\n" if tag in ("tr", "div", "li", "pre", "dt") else " ")

    def handle_endtag(self, tag: str) -> None:
        self._style = False

    def handle_data(self, data: str) -> None:
        self.pieces.append("" if self._style else data)


def shown(cell: Any) -> list[str]:
    """Return what a cell shows, as lines of text with single blanks; "[picture]" for a picture."""
    pieces = []
    for output in cell.get("outputs", ()):
        if output.output_type == "stream":
            pieces.append(output.text)
        elif "image/png" in output.get("data", {}):
            pieces.append(PICTURE)
        elif "xr-wrap" not in output.get("data", {}).get("text/html", "xr-wrap"):  # xarray's changes with its version
            pieces.append("".join(_Text(output.data["text/html"]).pieces))
        else:
            pieces.append(output.get("data", {}).get("text/plain", ""))
    lines = (re.sub(r"(?:\s|[─-]{3,})+", " ", line).strip() for piece in pieces for line in piece.splitlines())
    return [line for line in lines if line]


def differences(old: Any, new: Any) -> Iterator[str]:
    """Yield how outputs differ from those that are kept, and what a new one warns of: cell by cell, a line each.

    Words, pictures' places and integers are to be equal, other numbers to `TOLERANCE`; those of cells with the tag
    "times" are not compared.
    """
    for number, (before, after) in enumerate(zip(old.cells, new.cells, strict=True), 1):
        name = f"cell {number} ({after.source.strip().splitlines()[0][:60] if after.source.strip() else 'empty'})"
        for output in after.get("outputs", ()):
            if output.output_type == "stream" and (output.name == "stderr" or "Warning" in output.text):
                yield f"{name} warns: {output.text.strip()[:500]}"
        is_timed = "times" in after.metadata.get("tags", ())
        lines, again = shown(before), shown(after)
        if len(lines) != len(again):
            yield f"{name} shows {len(again)} lines where {len(lines)} are kept: {again[:12]} where {lines[:12]}"
            continue
        for line, other in zip(lines, again, strict=True):
            if not (_same_words(line, other) if is_timed else _same(line, other)):
                yield f"{name} shows {other!r} where {line!r} is kept"


def _same_words(line: str, other: str) -> bool:
    """Return whether two lines are equal but for their numbers."""
    return VARYING.sub("#", line) == VARYING.sub("#", other)


def _same(line: str, other: str) -> bool:
    """Return whether two lines are equal, numbers that are no integers to a tolerance."""
    if NUMBER.sub("#", line) != NUMBER.sub("#", other):
        return False
    pairs = zip(NUMBER.findall(line), NUMBER.findall(other), strict=True)
    return all(_close(a.replace(",", ""), b.replace(",", "")) for a, b in pairs)


def _close(a: str, b: str) -> bool:
    """Return whether two printed numbers are equal, two that are no integers to a tolerance."""
    is_whole = a.lstrip("+-").isdigit() and b.lstrip("+-").isdigit()
    return math.isclose(float(a), float(b), rel_tol=0.0 if is_whole else TOLERANCE)


def contents(notebook: Any) -> list[tuple[str, str, list[str]]]:
    """Return kind, text and tags of the cells: a notebook and its source have the same."""
    return [(cell.cell_type, cell.source, cell.metadata.get("tags", [])) for cell in notebook.cells]


def make(name: str) -> list[str]:
    """Execute a source and write its notebook; return what it warns of.

    Outputs of cells tagged "times" stay as they are kept while they say the same words and no cell has changed, so that
    a second run changes nothing but what is new.
    """
    import nbformat

    new, old = execute(name), kept(name)
    if old is not None and contents(old) == contents(new):
        for before, after in zip(old.cells, new.cells, strict=True):
            if "times" in after.metadata.get("tags", ()) and not [*differences(_alone(before), _alone(after))]:
                after.outputs = before.outputs
    (FOLDER / f"{name}.ipynb").write_text(nbformat.writes(new) + "\n")
    return [*differences(new, new)]


def _alone(cell: Any) -> Any:
    """Return a notebook of one cell."""
    import nbformat

    return nbformat.v4.new_notebook(cells=[cell])


def check(name: str) -> list[str]:
    """Execute a source again and return how it differs from the notebook that is kept; nothing if it does not."""
    from nbclient.exceptions import CellExecutionError

    if problems := look(name):
        return problems
    try:
        return [*differences(kept(name), execute(name))]
    except CellExecutionError as error:
        return [f"a cell raises: {ANSI.sub('', str(error))}"]


def look(name: str) -> list[str]:
    """Return what is wrong with a kept notebook, without executing it: its cells, its size, its pictures."""
    old = kept(name)
    if old is None or contents(old) != contents(source_of(name)):
        return [f"is not that of its source: python -m notebooks {name}"]
    size, problems = (FOLDER / f"{name}.ipynb").stat().st_size, []
    if size > LARGEST:
        problems.append(f"has {size:,} bytes, more than {LARGEST:,}")
    if not any(PICTURE in shown(cell) for cell in old.cells):
        problems.append("has no picture")
    return problems
