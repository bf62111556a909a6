"""Threads of this process that share a piece of work."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any, TypeVar

from scalable_bandits.posteriors.blas import one_thread

Result = TypeVar("Result")


class ThreadTeam:
    """Threads that each work on a run of consecutive numbers.

    They start when they are first needed, and end when this object is deleted. Copies, also by pickle, and forked
    processes start their own.

    Parameters
    ----------
    count
        Number of threads, including the calling one.
    """

    def __init__(self, count: int = 1):
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0  # process of the pool's threads

    def each(self, work: Callable[[int, int], Result], first: int, stop: int, least: int = 1) -> list[Result]:
        """Divide a range of numbers into runs and return `work(start, end)` of each, in order.

        The calling thread takes the first run. An exception is raised after all runs have ended.

        Parameters
        ----------
        work
            Function of the first number of a run and the one after its last.
        first, stop
            First number of the range, and the one after the last.
        least
            Least number of numbers in a run; with fewer than twice as many there is one run.
        """
        runs = min(self.count, (stop - first) // least)
        if runs <= 1:
            return [work(first, stop)]
        edges = [first + (stop - first) * i // runs for i in range(runs + 1)]
        mine, *theirs = pairwise(edges)
        with one_thread:
            others = [self._started().submit(work, *run) for run in theirs]
            try:
                own = work(*mine)
            finally:
                wait(others)
        return [own, *(other.result() for other in others)]

    def close(self) -> None:
        """End the threads."""
        self._pool = None

    def _started(self) -> ThreadPoolExecutor:
        if self._pool is None or self._process != os.getpid():
            self._pool, self._process = ThreadPoolExecutor(self.count - 1, "tiles"), os.getpid()
        return self._pool

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}
