"""What an execution is: tasks go in by key, what becomes of them comes out as events.

Whoever hands tasks out (a study, a `maximize` in flight) does not know where they run.
"""

from __future__ import annotations

import queue
import threading
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, NamedTuple


class ClusterError(RuntimeError):
    """A cluster cannot be had, cannot be used, or was lost."""


class Event(NamedTuple):
    """Something that became of a task."""

    kind: Literal["started", "lost", "done", "failed"]  # lost: with its worker; it starts again by itself
    key: str
    value: Any = None  # what it returned, if it is done
    error: str = ""  # in one line, if it failed
    trace: str = ""  # the same as a traceback
    where: str = ""  # the worker, if it started or was lost
    final: bool = False  # it is of no use to try it again


class Execution(ABC):
    """Where one function is called, on other arguments each time.

    Attributes
    ----------
    slots : int
        How many calls run at the same time, as of the last look at the events.
    dashboard : str
        Address of a page that shows what runs; empty if there is none.
    """

    slots = 1
    dashboard = ""

    @abstractmethod
    def submit(self, key: str, *arguments: Any) -> None:
        """Call the function, once, under a key of its own."""

    @abstractmethod
    def events(self, seconds: float | None = None) -> list[Event]:
        """What happened since the last time; waits for something to happen, or so long.

        Raises
        ------
        ClusterError
            If the cluster is gone.
        """

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Forget all tasks that have not come to their end."""


def failed(key: str, error: BaseException, final: bool = False) -> Event:
    """Event of a task that raised, being handled."""
    said = str(traceback.TracebackException.from_exception(error)).strip().splitlines()[:1]
    line = ": ".join([type(error).__name__, *said])  # without notes, and what else may stand below
    return Event("failed", key, error=line, trace="".join(traceback.format_exception(error)), final=final)


class InTurn(Execution):
    """In this process, one task after the other, while its events are waited for.

    Parameters
    ----------
    function
        Called with the arguments of every task.
    """

    def __init__(self, function: Callable[..., Any]):
        self._function = function
        self._tasks: deque[tuple[str, tuple[Any, ...]]] = deque()

    def submit(self, key: str, *arguments: Any) -> None:
        self._tasks.append((key, arguments))

    def events(self, seconds: float | None = None) -> list[Event]:
        if not self._tasks:
            return []
        key, arguments = self._tasks.popleft()
        try:
            end = Event("done", key, self._function(*arguments))
        except Exception as error:
            end = failed(key, error)
        return [Event("started", key, where="this process"), end]

    def close(self) -> None:
        self._tasks.clear()


class Threads(Execution):
    """Threads of this process.

    Right for functions that wait (for an instrument, a program, a network) or that let go of the interpreter's lock.
    A thread cannot be stopped: those left running at the end do not keep the process from ending, which is why this
    is no `concurrent.futures.ThreadPoolExecutor`.

    Parameters
    ----------
    function
        Called with the arguments of every task.
    slots
        Most threads at the same time; tasks beyond that wait for their turn.
    """

    def __init__(self, function: Callable[..., Any], slots: int):
        self._function, self.slots = function, slots
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._tasks: deque[tuple[str, tuple[Any, ...]]] = deque()  # that wait for a thread
        self._running = 0  # threads

    def submit(self, key: str, *arguments: Any) -> None:
        with self._guard:
            self._tasks.append((key, arguments))
            if self._running == self.slots:
                return
            self._running += 1
        threading.Thread(target=self._work, name=key, daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._guard:
                if not self._tasks:
                    self._running -= 1
                    return
                task = self._tasks.popleft()
            self._call(*task)

    def _call(self, key: str, arguments: tuple[Any, ...]) -> None:
        self._events.put(Event("started", key, where="this process"))
        try:
            end = Event("done", key, self._function(*arguments))
        except BaseException as error:  # also SystemExit: it is the task's end, not the process's
            end = failed(key, error)
        self._events.put(end)

    def events(self, seconds: float | None = None) -> list[Event]:
        return drained(self._events, seconds)

    def close(self) -> None:
        with self._guard:
            self._tasks.clear()


def drained(waiting: queue.SimpleQueue[Event], seconds: float | None) -> list[Event]:
    """All events there are; if there is none, the next one, or none after so long."""
    found: list[Event] = []
    try:
        found.append(waiting.get(timeout=seconds))
        while True:
            found.append(waiting.get_nowait())
    except queue.Empty:
        return found
