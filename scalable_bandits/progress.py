"""A progress bar, if one is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(
    shown: bool, name: str, total: int, done: int = 0, dashboard: str = "", unit: str = ""
) -> Iterator[Callable[[int], None]]:
    """Show a bar of `total` steps, their rate and the time that remains; gives the function that advances it.

    Parameters
    ----------
    shown
        Nothing happens if not set.
    name, total, done
        What stands before the bar, how many steps, how many of them were made earlier.
    dashboard
        Address to show above the bar, if there is one.
    unit
        Of the steps, in the rate.
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
