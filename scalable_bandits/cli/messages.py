"""What the command says, where, and with which code it leaves: 0 done, 1 something failed, 2 bad usage, 130 stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

console = Console()
errors = Console(stderr=True)

ON = "Where it runs: local:4 (worker processes), threads:4, tcp://host:port (a Dask scheduler), or a recipe (.yaml)."
JSON = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON, for scripts.")]


@contextmanager
def refusals(let: tuple[type[Exception], ...] = (), again: str | None = None) -> Iterator[None]:
    """Print what is refused, without a traceback, and leave with code 2; what failed as it ran, with code 1.

    What is `let` through goes on. `again` is the command that goes on where the user stops this one.
    """
    through: tuple[type[Exception], ...] = (typer.Exit, *let)  # typer's is a RuntimeError too
    try:
        yield
    except through:
        raise
    except KeyboardInterrupt:
        if again is None:
            raise
        stop(again)
    except Exception as error:
        from scalable_bandits.runs.evaluations import trace_of
        from scalable_bandits.store import StoreError

        trace = trace_of(error)
        if trace is not None:  # a user's function raised: its own lines say where, ours say nothing
            errors.print(escape(trace.rstrip()), highlight=False, soft_wrap=True)
            hint = "" if again is None else f"; what was evaluated before is kept: go on with: {again}"
            say("failed", f"an evaluation ended with {type(error).__name__}{hint}")
            raise typer.Exit(1) from None
        if not isinstance(error, ValueError | OSError | RuntimeError):
            raise
        say("error", error)
        failed = isinstance(error, RuntimeError) and not isinstance(error, StoreError)
        raise typer.Exit(1 if failed else 2) from None


def stop(again: str) -> None:
    """With code 130, and the command that goes on."""
    errors.print(f"interrupted; go on with: {again}", highlight=False, soft_wrap=True)
    raise typer.Exit(130) from None


def command_again(store: str, function: str | None = None) -> str:
    """What goes on with a store."""
    return f"scalable-bandits resume {store}" + ("" if function is None else f" --function {function}")


def say(heading: str, what: object, colour: str = "red") -> None:
    """On standard error."""
    errors.print(f"[{colour}]{heading}:[/{colour}] {escape(str(what))}", highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """On standard output, and nothing else there."""
    from json import dumps

    typer.echo(dumps(value, indent=2))
