"""The command, as a user calls it."""

from typing import Any

from typer.testing import CliRunner

from scalable_bandits.cli import app


def command(*words: object, columns: int = 160) -> Any:
    """Call the command with some words, in a terminal of so many columns; return what it printed, and its exit code."""
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(app, [str(word) for word in words])
