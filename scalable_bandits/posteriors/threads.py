"""Threads of this process among which runs of tiles are shared out."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any, TypeVar

from scalable_bandits.posteriors.blas import one_thread

Result = TypeVar("Result")


class Threads:
    """Threads that do a piece of work on consecutive numbers, each on a run of its own.

    The threads are started when they are first needed. They end when this object is deleted. Copies, pickled or not,
    and processes that are forked start threads of their own.

    Parameters
    ----------
    count
        Number of threads, with the calling one.
    """

    def __init__(self, count: int = 1):
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0  # whose threads those of the pool are

    def each(self, work: Callable[[int, int], Result], first: int, stop: int, least: int = 1) -> list[Result]:
        """Results of `work(start, end)` on runs that make up the numbers from `first` to `stop`, in their order.

        The calling thread takes the first run. An exception is raised after all runs have ended.

        Parameters
        ----------
        work
            Function of the first number of a run and the one after its last.
        first, stop
            First number, and the one after the last.
        least
            Numbers in a run, at the least: with fewer than twice as many all are done in the calling thread.
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

    def _started(self) -> ThreadPoolExecutor:
        if self._pool is None or self._process != os.getpid():
            self._pool, self._process = ThreadPoolExecutor(self.count - 1, "tiles"), os.getpid()
        return self._pool

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}
