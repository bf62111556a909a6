"""A progress bar, if one is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(shown: bool, name: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Show a bar of `total` steps; gives the function that advances it by some."""
    if not shown:
        yield lambda count: None
        return
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
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task(name, total=total, completed=done)
        yield lambda count: bar.advance(task, count)
