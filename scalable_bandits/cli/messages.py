"""Output and errors of the command.

Exit codes: 0 success, 1 failure during the work, 2 refused input, 130 interrupted.
"""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.text import Text

from scalable_bandits.terminal import PlainConsole

console = PlainConsole()
errors = PlainConsole(stderr=True)

ON = (
    "Where to run: local:4 (4 worker processes), threads:4, tcp://host:port (a Dask scheduler), or a recipe file "
    "(.yaml). Default: this process."
)
CLASSES = Annotated[
    list[str] | None,
    typer.Option("--class", metavar="NAME", help="Class of yours to import, as module:Class; may be repeated."),
]
JSON = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON, for scripts.")]


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


def say_imports(classes: Sequence[str]) -> None:
    """Let modules in the working folder be imported, as with `python -m`, and say which classes will be."""
    if classes:
        sys.path.insert(0, "")
        errors.print(f"importing: {', '.join(classes)}", soft_wrap=True)


def say(heading: str, what: object, colour: str = "red") -> None:
    """Print a message with a coloured heading to standard error."""
    errors.print(Text.assemble((f"{heading}:", colour), f" {what}"), soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a value as JSON to standard output; NaN and infinity become null, other objects that JSON lacks text."""
    from json import dumps

    typer.echo(dumps(finite(value), indent=2, default=str))


def finite(value: Any) -> Any:
    """Return a copy of nested data with None in place of NaN and infinity."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
