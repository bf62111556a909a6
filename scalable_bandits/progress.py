"""Progress bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """Function that advances a progress bar."""

    def __call__(self, count: int, /, text: str = "") -> None:
        """Count steps, and show a text behind the bar if one is given."""


def wanted() -> bool:
    """Return whether standard error is a terminal, or this is a notebook that can show a bar."""
    from importlib.util import find_spec

    from rich.console import Console

    console = Console(stderr=True)
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


@contextmanager
def progress_bar(
    shown: bool, name: str, total: int, done: int = 0, dashboard: str = "", unit: str = ""
) -> Iterator[Advance]:
    """Show a bar with the rate of the steps and the remaining time; yield the function that advances it.

    Parameters
    ----------
    shown
        Flag to show the bar. If it is not set, the function has no effect.
    name
        Text before the bar.
    total, done
        Number of steps in all, and of steps done earlier.
    dashboard
        Address of a dashboard, shown above the bar unless it is empty.
    unit
        Unit of a step, shown after the rate.
    """
    if not shown:
        yield _nothing
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[text]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        if dashboard:
            bar.console.print(f"dashboard: {dashboard}", highlight=False, soft_wrap=True)
        task = bar.add_task(name, total=total, completed=done, rate="", text="")

        def advance(count: int, /, text: str = "") -> None:
            bar.advance(task, count)
            if text:
                bar.update(task, text=text)
            speed = bar.tasks[0].speed
            if speed is not None:
                bar.update(task, rate=f"{speed:>6,.3g}{unit}/s")

        yield advance


def _nothing(count: int, /, text: str = "") -> None:
    """Advance no bar."""
