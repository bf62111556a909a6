"""Progress of a call as one line that is kept up to date; in a log file, as a line now and then."""

from __future__ import annotations

import contextvars
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from scalable_bandits import randomness
from scalable_bandits.checks import showable, visible

if TYPE_CHECKING:
    from rich.console import Console

LINE_SECONDS = 30.0  # shortest time between two lines in a log file, and before the first
UPDATE_SECONDS = 0.1  # shortest time between two updates of a line, and between two records of a pace
PACE_SECONDS = 30.0  # time over which a pace is measured,
FEWEST = 10  # but over so many records at least
WIDTH = 100  # characters of a line in a notebook
SHARE = 0.2  # of a core that showing something takes at most
BAR = (8, 30)  # least and most characters of the bar


class Advance(Protocol):
    """Function that advances a progress bar."""

    def __call__(self, count: int, /) -> None:
        """Count steps."""


class Pace:
    """Rate of the steps in the last half minute, or in the last ten records if these took longer.

    Parameters
    ----------
    done
        Number of steps done before.
    now
        Time of the start in seconds, on any clock.
    """

    def __init__(self, done: int, now: float):
        self._start = (now, done)
        self._records = deque([self._start], maxlen=1000)

    def record(self, done: int, now: float) -> None:
        """Record that so many steps are done at a time."""
        records = self._records
        if done > records[-1][1]:
            records.append((now, done))
        # What is loaded and compiled comes before the first step: the start counts only while little else is known.
        while len(records) > FEWEST and (records[0] is self._start or records[0][0] < now - PACE_SECONDS):
            records.popleft()

    def rate(self, now: float) -> float | None:
        """Return the number of steps per second; None before the first step.

        If the next record is later than those before were apart, it counts as if it came now.
        """
        (first, before), (last, done) = self._records[0], self._records[-1]
        if done == before or last <= first:
            return None
        return (done - before + self._overdue(now)) / (max(now, last) - first if self._overdue(now) else last - first)

    def left(self, steps: int, now: float) -> float | None:
        """Return the seconds that so many steps will take; None if that is unknown."""
        rate, late = self.rate(now), self._overdue(now)
        if rate is None:
            return None
        return max((steps - late) / rate - (0.0 if late else now - self._records[-1][0]), 0.0)

    def _overdue(self, now: float) -> float:
        """Return the steps of an average record, if it should have come by now; otherwise 0."""
        (first, before), (last, done), count = self._records[0], self._records[-1], len(self._records) - 1
        return (done - before) / count if count and now - last > (last - first) / count else 0.0


def rate_text(rate: float, unit: str = "") -> str:
    """Write a number of steps per second, in the unit of time in which it is at least one if possible.

    Examples
    --------
    >>> [rate_text(rate) for rate in (12345.6, 0.5, 0.0007)], rate_text(0.02, " runs")
    (['12,346/s', '30/min', '2.52/h'], '1.2 runs/min')
    """
    seconds, name = next((each for each in ((1, "s"), (60, "min")) if rate * each[0] >= 1), (3600, "h"))
    number = rate * seconds
    return f"{number:,.0f}{unit}/{name}" if number >= 100 else f"{number:.3g}{unit}/{name}"


def time_text(seconds: float) -> str:
    """Write a duration in seconds or, from a minute on, in hours, minutes and seconds.

    Examples
    --------
    >>> time_text(12.3), time_text(67.8), time_text(200_000.0)
    ('12 s', '0:01:07', '2 days, 7:33:20')
    """
    return f"{int(seconds)} s" if seconds < 60.0 else str(timedelta(seconds=int(seconds)))


def wanted() -> bool:
    """Return whether standard error is a terminal, or this is a notebook."""
    console = _console()
    return console.is_terminal or console.is_jupyter


def in_notebook() -> bool:
    """Return whether this process runs the cells of a notebook."""
    return _console().is_jupyter


@contextmanager
def progress_bar(
    shown: bool | Advance, name: str, total: int, done: int = 0, dashboard: str = "", unit: str = "",
    text: Callable[[], str] | None = None,
) -> Iterator[Advance]:  # fmt: skip
    """Show steps done of all, their rate, and the time that has passed and is left; yield a function that counts steps.

    A terminal and a notebook have one line, with a bar, which is replaced at most ten times a second. In a notebook
    nothing is needed for that but IPython's own display. Where there is neither, lines say the same now and then.

    Parameters
    ----------
    shown
        Flag to show the line. If it is not set, the function has no effect. A function takes the place of the line.
    name
        Text before the line.
    total, done
        Number of steps in all, and of steps done earlier.
    dashboard
        Address of a dashboard, shown above the line unless it is empty.
    unit
        Unit of a step, shown after the number of steps and the rate.
    text
        Function that returns the text at the end of the line. It is called, in a thread, whenever the line is shown.
    """
    if not isinstance(shown, bool):
        yield shown
        return
    if not shown:
        yield lambda count, /: None
        return
    console, line = _console(), _Line(name, total, done, unit, text or str)
    if not (console.is_terminal or console.is_jupyter):
        yield line.count_in_log
        return
    if dashboard:
        console.print(f"dashboard: {dashboard}", soft_wrap=True)
    with _terminal(console, line) if console.is_terminal else _notebook(line):
        yield line.count


def _console() -> Console:
    with randomness.others_kept():  # rich draws a number as it is imported
        from scalable_bandits.terminal import PlainConsole
    return PlainConsole(stderr=True)


class _Line:
    """Count of the steps, and the line that says it."""

    def __init__(self, name: str, total: int, done: int, unit: str, text: Callable[[], str]):
        self._name, self._total, self._done, self._unit, self._text = name, total, done, unit, text
        self._start = time.monotonic()
        self._pace, self._record = Pace(done, self._start), -math.inf  # and when it is recorded next
        self._log = self._start + LINE_SECONDS  # when the log has its next line
        self._logged = False

    def count(self, count: int, /) -> None:
        """Count steps."""
        self._done += count
        now = time.monotonic()
        if now >= self._record:
            self._pace.record(self._done, now)
            self._record = now + UPDATE_SECONDS

    def count_in_log(self, count: int, /) -> None:
        """Count steps, and write a line now and then: ever more rarely, and after one for the last step, too."""
        self.count(count)
        now = time.monotonic()
        if now < self._log and not (self._logged and self._done >= self._total):
            return
        print(visible(f"{self._name}: {', '.join(self._parts(now).values())}"), file=sys.stderr, flush=True)
        self._log = now + max(LINE_SECONDS, (now - self._start) / 20.0)
        self._logged = True

    def _parts(self, now: float) -> dict[str, str]:
        """Return the parts of the line by name; those that are unknown are missing."""
        rate, left = self._pace.rate(now), self._pace.left(self._total - self._done, now)
        over = self._done >= self._total
        found = {
            "steps": f"{self._done:,} of {self._total:,}{self._unit}",
            "rate": "" if rate is None else rate_text(rate, self._unit),
            "elapsed": f"{time_text(now - self._start)} elapsed",
            "left": "" if left is None or over else f"{time_text(left)} left",
            "text": self._text(),
        }
        return {key: value for key, value in found.items() if value}

    def shown(self, width: int, encoding: str = "utf-8") -> str:
        """Return the line with its bar, in so many characters: what is less important is left out first."""
        from rich.cells import cell_len, set_cell_size

        parts = self._parts(time.monotonic())
        for dropped in ("", "elapsed", "rate", "bar", "left"):
            parts.pop(dropped, None)
            said = showable(", ".join(parts.values()), encoding)
            room = width - cell_len(self._name) - cell_len(said) - 2
            if room >= (BAR[0] if dropped in ("", "elapsed", "rate") else -1):
                break
        length = min(room, BAR[1])
        if length < BAR[0]:
            return set_cell_size(f"{self._name} {said}", width).rstrip()
        filled = round(length * min(self._done / max(self._total, 1), 1.0))
        full, rest = "\u2501\u2500" if showable("\u2501\u2500", encoding) == "\u2501\u2500" else "#-"
        return f"{self._name} {full * filled}{rest * (length - filled)} {said}"


@contextmanager
def _terminal(console: Console, line: _Line) -> Iterator[None]:
    """Show a line in a terminal; what the program prints comes above it."""
    from rich.live import Live
    from rich.text import Text

    def shown() -> Text:
        return Text(line.shown(console.width - 1, console.encoding), no_wrap=True)

    with Live(get_renderable=shown, console=console, refresh_per_second=1.0 / UPDATE_SECONDS):
        yield


@contextmanager
def _notebook(line: _Line) -> Iterator[None]:
    """Show a line in a notebook."""

    def frames() -> Iterator[dict[str, str]]:
        while True:
            yield {"text/plain": line.shown(WIDTH)}

    output = LiveOutput(frames(), UPDATE_SECONDS)
    try:
        yield
    finally:
        output.stop()


def paced(seconds: float, stopped: threading.Event | None = None) -> Iterator[None]:
    """Yield every so many seconds, or less often if the work between takes long: at most `SHARE` of a core.

    Parameters
    ----------
    seconds
        Least time from one to the next.
    stopped
        Event that ends it.
    """
    stopped = threading.Event() if stopped is None else stopped
    while not stopped.is_set():
        began, used = time.monotonic(), time.thread_time()
        yield
        idle = (1.0 / SHARE - 1.0) * (time.thread_time() - used)
        stopped.wait(max(began + seconds - time.monotonic(), idle))


class LiveOutput:
    """Output of a notebook's cell that a thread replaces, by IPython's display alone.

    Parameters
    ----------
    frames
        What is shown, by MIME type, one after another. If it ends, the last one stays.
    seconds
        Time between two of them.
    """

    def __init__(self, frames: Iterator[dict[str, str]], seconds: float):
        from IPython.display import display

        self._frames, self._seconds, self._last = frames, seconds, next(frames)
        self._handle: Any = display(self._last, raw=True, display_id=True)
        self._stopped = threading.Event()
        context = contextvars.copy_context()  # which says to which cell the output belongs
        self._thread = threading.Thread(target=context.run, args=(self._run,), name="live output", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Show what is to be shown last, and replace it no more."""
        if not self._stopped.is_set():
            self._stopped.set()
            self._thread.join()
            self._update()

    def _ipython_display_(self) -> None:
        """Show nothing more where it is the last value of a cell."""

    def _run(self) -> None:
        for _ in paced(self._seconds, self._stopped):
            if not self._update():
                return

    def _update(self) -> bool:
        """Show the next frame; return whether there was one."""
        frame = next(self._frames, None)
        if frame is not None and frame != self._last:
            self._handle.update(frame, raw=True)
            self._last = frame
        return frame is not None
