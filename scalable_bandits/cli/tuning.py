"""The subcommand `tune`: programs that are not Python."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from scalable_bandits.cli.messages import JSON, console, errors, print_json, refusals, resume_command
from scalable_bandits.cli.tuning_output import plain_result, show_best, show_failures


def tune(
    space: Annotated[Path, typer.Option(metavar="FILE", help="Space: a TOML file with a table for each parameter.")],
    command: Annotated[
        str, typer.Option(metavar="LINE", help='Command, such as "./train --rate {rate}"; it is run without a shell.')
    ],
    store: Annotated[str, typer.Option(metavar="FOLDER", help="Store of the run; one that is there is continued.")],
    budget: Annotated[int, typer.Option(min=1, metavar="N", help="Number of evaluations.")],
    minimize: Annotated[
        bool | None, typer.Option("--minimize/--maximize", help="Whether smaller values are better, or larger ones.")
    ] = None,
    parallel: Annotated[int, typer.Option(min=1, metavar="N", help="Number of evaluations in flight at once.")] = 1,
    value_from: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Key of the value in the last line of output, a JSON object. Default: the line itself.",
        ),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds after which an evaluation is ended, and has failed.")
    ] = None,
    retries: Annotated[int, typer.Option(min=0, metavar="N", help="Tries of a failed evaluation after the first.")] = 0,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of all random numbers.")] = 0,
    json: JSON = False,
) -> None:
    """Tune a program: find the setting whose run prints the best value. Every value is stored as it comes."""
    from scalable_bandits.commands import Command
    from scalable_bandits.runs import maximize as runs
    from scalable_bandits.spaces import SearchSpace

    again = resume_command(store, command=command)
    with refusals(again=again), terminated_like_interrupted(), chdir("."):
        if minimize is None:
            raise ValueError("tune: say which values are better: --minimize or --maximize")
        find = runs.minimize if minimize else runs.maximize
        found = find(
            Command(command, value_from), SearchSpace.from_toml(space), budget, parallel=parallel, retries=retries,
            timeout=timeout, store=store, seed=seed, progress=True,
        )  # fmt: skip
    if json:
        print_json(plain_result(found))
    else:
        show_best(found)
    show_failures(found.failed)
    if found.interrupted:
        errors.print(f"interrupted; continue with: {again}", soft_wrap=True)
        raise typer.Exit(130)
    if not json:
        more = f"more evaluations: {again} --rounds {2 * len(found.tickets)}"
        console.print(f"{more}\na page about the run: scalable-bandits report {shlex.quote(store)}", soft_wrap=True)


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, so that programs that are running are ended."""

    def interrupt(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
