"""Progress bar; where there is no terminal, such as in a log file, a line now and then."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from scalable_bandits import randomness
from scalable_bandits.checks import visible

if TYPE_CHECKING:
    from rich.console import Console

LINE_SECONDS = 30.0  # shortest time between two lines in a log file, and before the first
UPDATE_SECONDS = 0.1  # time between two updates; the rate is that of the last half minute, of at most 1,000 updates


class Advance(Protocol):
    """Function that advances a progress bar."""

    def __call__(self, count: int, /, text: str = "") -> None:
        """Count steps, and show a text behind the bar if one is given."""


def wanted() -> bool:
    """Return whether standard error is a terminal, or this is a notebook that can show a bar."""
    from importlib.util import find_spec

    console = _console()
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


@contextmanager
def progress_bar(
    shown: bool | Advance, name: str, total: int, done: int = 0, dashboard: str = "", unit: str = ""
) -> Iterator[Advance]:
    """Show a bar with the rate of the steps and the remaining time; yield the function that advances it.

    Where standard error is no terminal and this is no notebook, lines say the same.

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
        yield lambda count, /, text="": None
        return
    console = _console()
    if not (console.is_terminal or console.is_jupyter):
        yield _Lines(name, total, done, unit)
        return
    from rich import progress as columns

    with columns.Progress(
        columns.TextColumn("{task.description}", markup=False), columns.BarColumn(), columns.MofNCompleteColumn(),
        columns.TextColumn("{task.fields[rate]}"), columns.TimeElapsedColumn(), columns.TimeRemainingColumn(),
        columns.TextColumn("{task.fields[text]}", markup=False), console=console,
    ) as bar:  # fmt: skip
        if dashboard:
            bar.console.print(f"dashboard: {dashboard}", soft_wrap=True)
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


def _console() -> Console:
    with randomness.others_kept():  # rich draws a number as it is imported
        from scalable_bandits.terminal import PlainConsole
    return PlainConsole(stderr=True)


class _Lines:
    """Function that writes a line to standard error now and then: steps done, and the time that is left.

    What has had a line has one for its last step, too.
    """

    def __init__(self, name: str, total: int, done: int, unit: str):
        self._name, self._total, self._done, self._unit = name, total, done, unit
        self._first, self._start = done, time.monotonic()
        self._next = self._start + LINE_SECONDS
        self._any = False

    def __call__(self, count: int, /, text: str = "") -> None:
        self._done += count
        now = time.monotonic()
        if now < self._next and not (self._any and self._done >= self._total):
            return
        left = (self._total - self._done) * (now - self._start) / max(self._done - self._first, 1)
        about = f"about {_duration(left)} left" if self._done > self._first else "no step yet"
        words = [f"{self._name}: {self._done:,} of {self._total:,}{self._unit}", about, *([text] if text else [])]
        print(visible(", ".join(words)), file=sys.stderr, flush=True)
        self._next = now + max(LINE_SECONDS, (now - self._start) / 20.0)
        self._any = True


def _duration(seconds: float) -> str:
    """Write a time in its largest unit."""
    units = ((86_400.0, "days"), (3600.0, "h"), (60.0, "min"))
    size, unit = next((each for each in units if seconds >= 2.0 * each[0]), (1.0, "s"))
    return f"{seconds / size:,.0f} {unit}"
