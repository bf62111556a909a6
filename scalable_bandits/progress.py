"""Progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(
    shown: bool, name: str, total: int, done: int = 0, dashboard: str = "", unit: str = ""
) -> Iterator[Callable[[int], None]]:
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
        yield lambda count: None
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
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        if dashboard:
            bar.console.print(f"dashboard: {dashboard}", highlight=False, soft_wrap=True)
        task = bar.add_task(name, total=total, completed=done, rate="")

        def advance(count: int) -> None:
            bar.advance(task, count)
            speed = bar.tasks[0].speed
            if speed is not None:
                bar.update(task, rate=f"{speed:>6,.3g}{unit}/s")

        yield advance
