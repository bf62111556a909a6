"""The command, as a user calls it."""

from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from scalable_bandits.cli import app


def command(*words: object, columns: int = 160) -> Any:
    """Call the command with some words, in a terminal of so many columns; return what it printed, and its exit code."""
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(app, [str(word) for word in words])


def write_program(folder: Path, text: str) -> None:
    """Write a program ``run`` of x and y, and the file of their space, to a folder."""
    (folder / "space.toml").write_text("".join(f'[{n}]\ntype = "Real"\nlow = 0.0\nhigh = 1.0\n' for n in "xy"))
    (folder / "run").write_text(text)
    (folder / "run").chmod(0o755)
