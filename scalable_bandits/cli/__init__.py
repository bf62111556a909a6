"""The command ``scalable-bandits``."""

from __future__ import annotations

import typer

from scalable_bandits.cli import stored, studies

app = typer.Typer(
    help="Gaussian-process bandits: run the papers' experiments and your own.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("list")(studies.list_studies)
app.command("show")(studies.show)
app.command("run")(studies.run)
app.command("status")(stored.show_status)
app.command("resume")(stored.resume_run)
app.command("report")(stored.write_page)


@app.callback()
def main() -> None:
    """Gaussian-process bandits: run the papers' experiments and your own."""
