"""Progress bar."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

UPDATE_SECONDS = 0.1  # time between two updates; the rate is that of the last half minute, of at most 1,000 updates


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
    shown: bool | Advance, name: str, total: int, done: int = 0, dashboard: str = "", unit: str = ""
) -> Iterator[Advance]:
    """Show a bar with the rate of the steps and the remaining time; yield the function that advances it.

    Parameters
    ----------
    shown
        Flag to show the bar. If it is not set, the function has no effect. A function takes the place of the bar.
    name
        Text before the bar.
    total, done
        Number of steps in all, and of steps done earlier.
    dashboard
        Address of a dashboard, shown above the bar unless it is empty.
    unit
        Unit of a step, shown after the rate.
    """
    if not isinstance(shown, bool):
        yield shown
        return
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
        waiting, updated = 0, -math.inf  # steps that the bar does not show yet, and when it was last updated

        def advance(count: int, /, text: str = "") -> None:
            nonlocal waiting, updated
            waiting += count
            if text:
                bar.update(task, text=text)
            if text or bar.get_time() >= updated + UPDATE_SECONDS:
                show()

        def show() -> None:
            nonlocal waiting, updated
            bar.advance(task, waiting)
            waiting, updated = 0, bar.get_time()
            speed = bar.tasks[0].speed
            if speed is not None:
                bar.update(task, rate=f"{speed:>6,.3g}{unit}/s")

        try:
            yield advance
        finally:
            show()


def _nothing(count: int, /, text: str = "") -> None:
    """Advance no bar."""
