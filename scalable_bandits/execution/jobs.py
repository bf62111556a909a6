"""Jobs of a batch system end when their time is up: for each that has ended another is submitted.

dask-jobqueue's own `adapt` does so only for jobs of one worker: the workers of a larger one have other names than it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PULSE_SECONDS = 10.0  # between two looks at who is there
PATIENCE = 2  # looks in which all workers of a job must be missing: one that was killed is started again in its job


class Renewal:
    """Keeps so many jobs in the queue or at work.

    A job that ends before any of its workers came is not submitted again: it would fail in the same way.

    Parameters
    ----------
    cluster
        Of dask-jobqueue.
    jobs
        How many.
    """

    def __init__(self, cluster: Any, jobs: int):
        self._cluster, self._jobs = cluster, jobs
        self._seen: set[str] = set()  # jobs whose workers came
        self._missing: Counter[str] = Counter()  # looks without any of them

    async def look(self) -> None:
        """See who is there; to be called by the cluster's event loop, again and again."""
        cluster, here = self._cluster, set(self._cluster.observed)
        for job, spec in list(cluster.worker_spec.items()):
            workers = {f"{job}{suffix}" for suffix in spec.get("group", [""])}
            if workers & here:
                self._seen.add(job)
                self._missing[job] = 0
            elif job in self._seen:
                self._missing[job] += 1
        gone = [job for job, looks in self._missing.items() if looks >= PATIENCE]
        if gone:
            for job in gone:  # its name may be given again
                self._seen.discard(job)
                del self._missing[job]
            await cluster.scale_down(gone)
            cluster.scale(jobs=self._jobs)


@contextmanager
def renewed(cluster: Any, jobs: int) -> Iterator[None]:
    """Submit so many jobs, and one for each that ends, within the context; raises what keeps them from being taken."""
    from distributed import Status
    from tornado.ioloop import PeriodicCallback

    async def submitted() -> None:
        while len(cluster.workers) < jobs:  # they are there once they were submitted, also in vain
            await asyncio.sleep(0.05)
        waiting = list(cluster.workers.values())
        for job, said in zip(waiting, await asyncio.gather(*waiting, return_exceptions=True), strict=True):
            if isinstance(said, BaseException):
                job.status = Status.failed  # dask-jobqueue leaves it as one that is not started yet
                refused.append(said)

    refused: list[BaseException] = []

    cluster.scale(jobs=jobs)
    cluster.sync(submitted)
    if refused:
        raise refused[0]
    pulse = PeriodicCallback(Renewal(cluster, jobs).look, 1e3 * PULSE_SECONDS)
    cluster.loop.add_callback(pulse.start)
    try:
        yield
    finally:
        cluster.loop.add_callback(pulse.stop)
