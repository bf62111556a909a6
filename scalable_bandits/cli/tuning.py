"""The subcommand `tune`: programs that are not Python; and the results of tuning runs as the command prints them."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from scalable_bandits.cli import options
from scalable_bandits.cli.messages import console, errors, print_json, refusals, resume_command, say, show_table
from scalable_bandits.cli.options import option
from scalable_bandits.runs.readable import point_text

if TYPE_CHECKING:
    from scalable_bandits.runs.result import TuningResult


def tune(
    space: Annotated[Path, option("FILE", "Space: a TOML file with a table for each parameter.")],
    command: Annotated[str, option("LINE", 'Command, such as "./train --rate {rate}"; it is run without a shell.')],
    store: Annotated[str, option("FOLDER", "Store of the run; one that is there is continued.")],
    budget: Annotated[int, option("N", "Number of evaluations.", min=1)],
    minimize: Annotated[
        bool | None, typer.Option("--minimize/--maximize", help="Whether smaller values are better, or larger ones.")
    ] = None,
    parallel: Annotated[int, option("N", "Number of evaluations in flight at once.", min=1)] = 1,
    value_from: Annotated[
        str | None,
        option("KEY", "Key of the value in the last line of output, a JSON object. Default: the line itself."),
    ] = None,
    timeout: Annotated[float | None, option("S", "Seconds after which an evaluation is ended, and has failed.")] = None,
    retries: Annotated[int, option("N", "Tries of a failed evaluation after the first.", min=0)] = 0,
    seed: Annotated[int, option("N", "Seed of all random numbers.", min=0)] = 0,
    json: options.JSON = False,
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
        print_json(
            {"evaluations": len(found.tickets), "minimize": found.minimize, "interrupted": found.interrupted,
             "best": found.recommended, "measured": found.measured, "failed": plain_failures(found)}
        )  # fmt: skip
    else:
        show_best(found)
    show_failures(found, again)
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


def plain_failures(found: TuningResult) -> list[dict[str, Any]]:
    """Return failed evaluations as plain data."""
    return [{"ticket": ticket.number, "error": ticket.error} for ticket in found.failed]


def show_best(found: TuningResult) -> None:
    """Print the recommended and the best measured point as a table, and the former in one line with more digits."""
    from scalable_bandits.report.blocks import Block

    summarized, best = found.summary(), found.recommended
    numbers = len(summarized.columns)
    show_table(Block("table", summarized.heading, ("", *summarized.columns), summarized.rows, numbers))
    if best.x is not None:
        line = f"best: {point_text(best.x)}, posterior mean {best.mean:.4g} +- {best.std:.2g}"
        console.print(Text(line), soft_wrap=True)


def show_failures(found: TuningResult, again: str) -> None:
    """Print how many evaluations failed, by error; exit with code 130 if the user interrupted the run.

    Parameters
    ----------
    found
        Result of the run.
    again
        Command that continues it.
    """
    alike: dict[str, list[int]] = {}
    for ticket in found.failed:
        alike.setdefault(ticket.error, []).append(ticket.number)
    for error, numbers in alike.items():
        tickets = ", ".join(map(str, numbers))
        say("failed", f"{len(numbers)} evaluation{'s' * (len(numbers) > 1)}: {error} (tickets {tickets})", "yellow")
    if found.interrupted:
        errors.print(f"interrupted; continue with: {again}", soft_wrap=True)
        raise typer.Exit(130)
