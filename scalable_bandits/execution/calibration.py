"""Calibration of a cluster: what messages take, and how much slower a worker is while all others are busy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from scalable_bandits.execution.shard_pool import ClusterExecutor

if TYPE_CHECKING:
    from distributed import Client

    from scalable_bandits.posteriors.placement import Shards

REPEATS = 30  # number of repetitions of a measurement of messages; the median counts
TASKS = 30  # tasks that are submitted together
SMALL, LARGE = 1_000, 4_000_000  # bytes of two messages
MOST = 16  # workers that are calibrated; more are taken to be like these


class Messages(NamedTuple):
    """What messages take between this process and its workers."""

    task: float  # seconds of an empty Dask task, of many that are submitted together
    latency: float  # seconds of an empty question to the shards of one worker
    further: float  # seconds more for each further worker
    bandwidth: float  # bytes a second

    def exchange(self, workers: int, sent: float, received: float) -> float:
        """Return the seconds of a question to some workers: bytes sent to each, and bytes received from all."""
        return self.latency + self.further * (workers - 1) + (workers * sent + received) / self.bandwidth


class _Echo:
    """A shard that returns what it is sent."""

    def echo(self, text: bytes) -> bytes:
        return text


def measure_messages(client: Client) -> Messages:
    """Measure what messages take.

    Parameters
    ----------
    client
        Client of a cluster with at least one worker.
    """
    executor = ClusterExecutor(client)
    count = min(len(client.nthreads()), MOST)
    shards = executor.shards(lambda number: _Echo, count, "echoes of a calibration")
    try:
        task = _median(lambda: client.gather(client.map(bool, range(TASKS), pure=False))) / TASKS
        one, each = (_median(lambda n=n: _asked(shards, n, SMALL)) for n in (1, count))  # type: ignore[misc]
        large = _median(lambda: _asked(shards, 1, LARGE))
    finally:
        executor.close()
    further = max(each - one, 0.0) / (count - 1) if count > 1 else 0.0
    return Messages(task, one, further, 2 * (LARGE - SMALL) / max(large - one, 1e-9))


def _asked(shards: Shards[_Echo], count: int, size: int) -> None:
    shards.ask(range(count), _Echo.echo, bytes(size))


def _median(call: Callable[[], Any]) -> float:
    """Return the median time of a call in seconds, after a first one."""
    call()
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def side_by_side(client: Client, calls: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Return how much more a call returns when all workers make it at the same time than when one does.

    Parameters
    ----------
    client
        Client of a cluster with at least one worker.
    calls
        Functions without arguments that return a time, by name.
    """
    workers = sorted(client.nthreads())[:MOST]

    def returned(call: Callable[[], float], where: list[str]) -> list[float]:
        futures = [client.submit(call, pure=False, workers=[worker]) for worker in where]
        return [float(each) for each in client.gather(futures)]

    found = {}
    for name, call in calls.items():
        returned(call, workers)  # what is compiled and loaded, each worker has then
        alone = returned(call, workers[:1])[0]
        found[name] = statistics.fmean(returned(call, workers)) / alone if alone > 0.0 else 1.0
    return found
