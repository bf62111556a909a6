"""Output and errors of the command.

Exit codes: 0 success, 1 failure during the work, 2 refused input, 3 a watched run was interrupted, 130 interrupted.
"""

from __future__ import annotations

import math
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from scalable_bandits.checks import showable
from scalable_bandits.terminal import PlainConsole

if TYPE_CHECKING:
    from scalable_bandits.report.blocks import Block

console = PlainConsole()
errors = PlainConsole(stderr=True)

ABOVE = ("case", "T", "growth of")  # columns of a table that become lines above its rows
LEAST_WIDTH = 24  # at which such lines are wrapped; names of policies never are


@contextmanager
def refusals(
    let: tuple[type[Exception], ...] = (), again: str | None = None, kept: Callable[[], str] | None = None
) -> Iterator[None]:
    """Print errors as one line without a traceback and exit: code 2 for refused input, code 1 for failed work.

    Exceptions of the types in `let` pass. `again` is the command that continues the work, and `kept` tells what was
    kept of it; they are printed when the work is interrupted.
    """
    through: tuple[type[Exception], ...] = (typer.Exit, *let)  # typer.Exit is a RuntimeError, too
    try:
        yield
    except through:
        raise
    except KeyboardInterrupt:
        if again is None and kept is None:
            raise
        parts = ["interrupted", "" if kept is None else kept(), "" if again is None else f"continue with: {again}"]
        errors.print("; ".join(filter(None, parts)), soft_wrap=True)
        raise typer.Exit(130) from None
    except Exception as error:
        from scalable_bandits.store import StoreError

        if not isinstance(error, ValueError | OSError | RuntimeError):
            raise
        say("error", error)
        failed = isinstance(error, RuntimeError) and not isinstance(error, StoreError)
        raise typer.Exit(1 if failed else 2) from None


def resume_command(
    store: str, function: str | None = None, classes: Sequence[str] = (), command: str | None = None,
    on: str | None = None,
) -> str:  # fmt: skip
    """Return the command that continues the run or study in a store, with what has to be named again."""
    from scalable_bandits.posteriors.placement import is_local

    named = {"--function": function, "--command": command, "--on": None if is_local(on) else on}
    options = [*named.items(), *(("--class", name) for name in classes)]
    given = (f"{key} {shlex.quote(name)}" for key, name in options if name is not None)
    return " ".join(["scalable-bandits resume", shlex.quote(store), *given])


def say_imports(function: str | None, classes: Sequence[str]) -> None:
    """Let modules in the working folder be imported, as with `python -m`, and say which classes will be."""
    if classes or function is not None:
        sys.path.insert(0, "")
    if classes:
        errors.print(f"importing: {', '.join(classes)}", soft_wrap=True)


def say(heading: str, what: object, colour: str = "red") -> None:
    """Print a message with a coloured heading to standard error."""
    errors.print(Text.assemble((f"{heading}:", colour), f" {what}"), soft_wrap=True)


def show_table(block: Block, without: Collection[str] = ()) -> None:
    """Print a table of a report; case, horizon and what grows, where there are several, as a line above its rows.

    Parameters
    ----------
    block
        The table.
    without
        Headings of columns that are not printed.
    """
    every = list(enumerate(block.headings))
    above = [i for i, heading in every if heading in ABOVE]
    shown = [i for i, heading in every if heading not in (*ABOVE, *without)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i in shown:
        number = i >= len(block.headings) - block.numbers
        table.add_column(block.headings[i], justify="right" if number else "left", no_wrap=i == shown[0])
    width = max([LEAST_WIDTH, *(cell_len(row[shown[0]]) for row in block.rows)])
    last: list[str] = []
    for row in block.rows:
        named = [f"T = {row[i]}" if block.headings[i] == "T" else row[i] for i in above]
        if named != last:
            table.add_section()
            table.add_row(Text(textwrap.fill(", ".join(named), width), style="bold"))
        last = named
        table.add_row(*(Text(showable(row[i], console.encoding)) for i in shown))  # before the columns have widths
    console.print(Text(f"\n{block.title}", style="italic"), table)
    if block.text:
        console.print(Text(block.text, style="dim italic"))


def print_json(value: Any) -> None:
    """Print a value as JSON to standard output; NaN and infinity become null, other objects that JSON lacks text.

    A list of numbers is on one line.
    """
    from json import dumps

    text = dumps(plain(value), indent=2, default=str)
    numbers = r"\[\n\s+((?:-?\d[^\s,]*|null)(?:,\n\s+(?:-?\d[^\s,]*|null))*)\n\s+\]"  # strings have no line breaks
    typer.echo(re.sub(numbers, lambda found: "[" + re.sub(r"\s+", " ", found[1]) + "]", text))


def plain(value: Any) -> Any:
    """Return nested data, named tuples as dicts, arrays as lists, and None in place of NaN and infinity."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
