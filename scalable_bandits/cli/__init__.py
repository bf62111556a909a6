"""The command ``scalable-bandits`` and its subcommands."""

from __future__ import annotations

from typing import Annotated

import typer

from scalable_bandits import __version__
from scalable_bandits.cli import runs, studies, watch
from scalable_bandits.cli.options import option

app = typer.Typer(
    help="Gaussian-process bandits: tune a program, screen a pool, run the papers' experiments and your own.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("list")(studies.list_studies)
app.command("show")(studies.show)
app.command("run")(studies.run)
app.command("plan")(studies.plan)
app.command("tune")(runs.tune)
app.command("screen")(runs.screen)
app.command("status")(runs.show_status)
app.command("watch")(watch.watch)
app.command("check")(runs.check_store)
app.command("resume")(runs.resume_run)
app.command("report")(runs.write_page)
app.command("export")(runs.export_run)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"scalable_bandits {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, option("", "Show the version and exit.", "--version", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Gaussian-process bandits: tune a program, screen a pool, run the papers' experiments and your own."""
