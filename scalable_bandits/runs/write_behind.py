"""Writing of what was played, while the next rounds are played."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Self

MOST_WAITING = 4  # largest number of calls in the queue


class WriteBehind:
    """Thread that makes calls in their order; a context manager, at whose end all have been made.

    After a call has failed, later calls are skipped. `put`, `drain` or the end of the context raises the error, unless
    another exception is on its way.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._failed = False
        self._waiting: deque[Future[None]] = deque()
        self._thread = ThreadPoolExecutor(1, "store")

    def put(self, call: Callable[[], None]) -> None:
        """Make a call soon; waits while there are too many."""
        while self._waiting and (self._waiting[0].done() or len(self._waiting) >= MOST_WAITING):
            self._end_first()
        self._waiting.append(self._thread.submit(self._make, call))

    def drain(self) -> None:
        """Wait until all calls have been made."""
        while self._waiting:
            self._end_first()

    def _end_first(self) -> None:
        """Wait for the first call, and raise its error; it stays in the queue if Ctrl-C comes before its end."""
        try:
            self._waiting[0].result()
        finally:
            if self._waiting[0].done():
                self._waiting.popleft()

    def _make(self, call: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            call()
        except BaseException:
            self._failed = True
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._process:  # a forked child does not have the thread
            return
        interrupt: KeyboardInterrupt | None = None
        while True:
            try:
                wait(self._waiting)  # a thread whose join was interrupted counts as ended, whatever it does
                break
            except KeyboardInterrupt as another:  # what was played is written all the same
                interrupt = another
        self._thread.shutdown()
        if interrupt is not None:
            raise interrupt
        if kind is None:
            self.drain()
