"""The interface of executors of tasks, and those that use this process alone.

A task is submitted under a key, and its start and end are returned as events. The caller (a study, `maximize`) does not
depend on the executor.
"""

from __future__ import annotations

import queue
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from scalable_bandits.forked import ForkedChildrenEnd


class ClusterError(RuntimeError):
    """A cluster that cannot be reached, cannot be used, or was lost."""


class PlainError(Exception):
    """Error whose text alone says what went wrong, without a traceback."""


class NotOnWorker(PlainError):
    """Error of a worker that cannot import a module, whose name is its argument."""


class Event(NamedTuple):
    """A change of a task."""

    kind: Literal["started", "lost", "done", "failed"]  # lost: with its worker; the task starts again by itself
    key: str
    value: Any = None  # returned value of a task that is done
    error: str = ""  # error of a task that failed, in one line
    trace: str = ""  # the error's traceback
    where: str = ""  # worker of a task that started or was lost
    final: bool = False  # whether another try is of no use
    time: float | None = None  # time of the change, in seconds since 1970, on this process' clock


class Execution(ABC):
    """Executor of the calls of one function.

    Attributes
    ----------
    slots : int
        Number of calls that run at the same time, as of the last call of `events`.
    dashboard : str
        Address of a page that shows the running tasks; empty without a dashboard.
    in_turn : bool
        Whether the function is called by `events`, in the caller's thread.
    ends_calls : bool
        Whether a running call can be ended.
    """

    slots = 1
    dashboard = ""
    in_turn = False
    ends_calls = False

    @abstractmethod
    def submit(self, key: str, *arguments: Any) -> None:
        """Call the function once, under a new key."""

    @abstractmethod
    def events(self, seconds: float | None = None) -> list[Event]:
        """Return the events since the last call; without any, wait for one, for some seconds if given.

        Raises
        ------
        ClusterError
            If the cluster is gone.
        """

    def end(self, key: str) -> None:
        """End a running call, of which no event comes any more; only where `ends_calls`."""
        raise NotImplementedError(f"{type(self).__name__} cannot end a running call")

    def close(self) -> None:  # noqa: B027 - not every executor has something to release
        """Forget all tasks that have not ended."""


def failed(key: str, error: BaseException, final: bool = False) -> Event:
    """Return the event of a task that raised an error; its traceback begins with the function's own frames."""
    text = str(traceback.TracebackException.from_exception(error)).strip().splitlines()[:1]
    if isinstance(error, PlainError):
        return Event("failed", key, error="".join(text), trace=str(error), final=final, time=time.time())
    line = ": ".join([type(error).__name__, *text])  # the first line alone: notes may follow
    frames = error.__traceback__
    inner = frames.tb_next if frames is not None and frames.tb_next is not None else frames
    trace = "".join(traceback.format_exception(type(error), error, inner))
    return Event("failed", key, error=line, trace=trace, final=final, time=time.time())


class InTurn(Execution):
    """Executor that runs one task after the other in this process, while the caller waits for events.

    Parameters
    ----------
    function
        Function that is called with the arguments of every task.
    """

    in_turn = True

    def __init__(self, function: Callable[..., Any]):
        self._function = function
        self._tasks: deque[tuple[str, tuple[Any, ...]]] = deque()

    def submit(self, key: str, *arguments: Any) -> None:
        self._tasks.append((key, arguments))

    def events(self, seconds: float | None = None) -> list[Event]:
        if not self._tasks:
            return []
        key, arguments = self._tasks.popleft()
        start = Event("started", key, where="the run's process", time=time.time())
        try:
            with ForkedChildrenEnd():
                end = Event("done", key, self._function(*arguments), time=time.time())
        except (Exception, SystemExit) as error:
            end = failed(key, error)
        return [start, end]

    def close(self) -> None:
        self._tasks.clear()


class Threads(Execution):
    """Executor that runs tasks in threads of this process.

    Threads suit functions that wait (for an instrument, a program, a network) or release the interpreter's lock. A
    running thread cannot be stopped. Unlike those of `concurrent.futures.ThreadPoolExecutor`, these threads do not keep
    the process from ending.

    Parameters
    ----------
    function
        Function that is called with the arguments of every task.
    slots
        Largest number of threads; further tasks wait.
    """

    def __init__(self, function: Callable[..., Any], slots: int):
        self._function, self.slots = function, slots
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._tasks: deque[tuple[str, tuple[Any, ...]]] = deque()  # tasks that wait for a thread
        self._running = 0  # number of threads

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
                key, arguments = self._tasks.popleft()
            self._events.put(Event("started", key, where="the run's process", time=time.time()))
            try:
                with ForkedChildrenEnd():
                    end = Event("done", key, self._function(*arguments), time=time.time())
            except BaseException as error:  # also SystemExit: it ends the task, not the process
                end = failed(key, error)
            self._events.put(end)

    def events(self, seconds: float | None = None) -> list[Event]:
        return drained(self._events, seconds)

    def close(self) -> None:
        with self._guard:
            self._tasks.clear()


def drained(waiting: queue.SimpleQueue[Event], seconds: float | None) -> list[Event]:
    """Return all events of a queue; without any, wait for one, for some seconds if given."""
    found: list[Event] = []
    try:
        found.append(waiting.get(timeout=seconds))
        while True:
            found.append(waiting.get_nowait())
    except queue.Empty:
        return found
