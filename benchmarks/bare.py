"""The arithmetic of sharded rounds on bare processes: no Dask, no messages, each with its share of the shards."""

from __future__ import annotations

import multiprocessing
import pickle
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
from threadpoolctl import threadpool_limits

from benchmarks.stores import folder
from scalable_bandits.posteriors.placement import Call, InProcess, Shards, Source


class Recorded(Shards[Any]):
    """Shards in this process; keeps what they are told and asked.

    Parameters
    ----------
    source, count
        Source of the shards, and their number.
    """

    def __init__(self, source: Source[Any], count: int):
        self.makers: list[Callable[[], Any]] = [source(number) for number in range(count)]
        self.calls: list[tuple[tuple[int, ...], Callable[..., Any], bytes]] = []
        super().__init__(source, count)
        self.warm = 0  # calls before those that are timed

    def ask_call(self, numbers: Sequence[int], call: Call) -> list[Any]:
        """Call a method of some shards with the same arguments, and note it down."""
        self.calls.append((tuple(numbers), call.method, pickle.dumps((call.arguments, call.named))))
        return super().ask_call(numbers, call)

    def here(self) -> None:
        """Nothing: shards are asked, as those of other processes are."""

    def forget(self) -> None:
        """Let go of the shards; what they were asked stays."""
        self._shards = []


class Recording(InProcess):
    """An executor that keeps what its shards are asked.

    Attributes
    ----------
    held : Recorded
        The shards that were made last.
    """

    remote = True  # tiles are cut into shards for those who are
    held: Recorded

    def shards(self, source: Source[Any], count: int, name: str) -> Recorded:
        """Shards, one after the other."""
        self.held = Recorded(source, count)
        return self.held


def _again(file: Path, first: int, step: int, meet: Any, out: Any) -> None:
    """Do a share of what was recorded; the seconds go to a queue."""
    makers, calls, warm = cloudpickle.loads(file.read_bytes())
    shards = {number: makers[number]() for number in range(first, len(makers), step)}
    mine = [([n for n in numbers if n in shards], method, given) for numbers, method, given in calls]
    mine = [(numbers, method, pickle.loads(given)) for numbers, method, given in mine]
    started = 0.0
    with threadpool_limits(1, user_api="blas"):  # as workers have
        for number, (numbers, method, given) in enumerate(mine):
            if number == warm:
                meet.wait()
                started = time.perf_counter()
            arguments, named = given
            for shard in numbers:
                method(shards[shard], *arguments, **named)
    out.put(time.perf_counter() - started)


def seconds(processes: int, recorded: Recorded) -> float:
    """Time of all that was recorded after the first calls, shared out to so many processes that do not talk."""
    context = multiprocessing.get_context("spawn")
    meet, out = context.Barrier(processes), context.Queue()
    with folder() as place:
        file = place / "calls"
        file.write_bytes(cloudpickle.dumps((recorded.makers, recorded.calls, recorded.warm)))
        started = [context.Process(target=_again, args=(file, n, processes, meet, out)) for n in range(processes)]
        for process in started:
            process.start()
        found = max(out.get() for _ in started)
        for process in started:
            process.join()
    return float(found)
