"""The Dask actors of one run, one on each worker, and the calls to them.

Dask deletes an actor once nothing refers to it: this object, its client and its process may end in any order. Calls to
actors do not keep a scheduler with `idle_timeout` from closing, so that an empty task is submitted every
`KEEPALIVE_SECONDS` of work. Calls go to the workers directly where the client has `direct_to_workers=True`, as clients
made by this package have, and through the scheduler otherwise.
"""

from __future__ import annotations

import math
import time
import uuid
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scalable_bandits.execution.shard_worker import ShardWorker
from scalable_bandits.execution.versions import check_versions

if TYPE_CHECKING:
    from distributed import Client, Future

POLL_SECONDS = 0.2  # time without an answer before the list of workers is read again
KEEPALIVE_SECONDS = 1.0  # time between two empty tasks: less than any sensible idle timeout


class Actors:
    """Actors on the workers of a client, each started by the first message to its worker.

    Parameters
    ----------
    client
        The user's client, which is neither closed nor changed.
    name
        Name of the shards for Dask's dashboard, such as "priors of PEGPUCB".
    """

    def __init__(self, client: Client, name: str):
        self._client, self._name = client, name
        self._run, self._started = uuid.uuid4().hex[:8], 0
        self._actors: dict[str, tuple[Future[Any], Any]] = {}  # future, which keeps an actor alive, and its handle
        self._keepalive_task: Future[Any] | None = None  # the last empty task
        self._keepalive_time = -math.inf  # when it was submitted
        self.release = weakref.finalize(self, _release, self._actors)

    def perform(self, messages: Mapping[str, bytes]) -> dict[str, Any]:
        """Return the answer (bytes) of each worker to its message, or the exception that prevented it."""
        self._keep_scheduler_alive()
        found: dict[str, Any] = self._start([worker for worker in messages if worker not in self._actors])
        calls = {}
        for worker in messages.keys() - found.keys():
            try:
                calls[worker] = self._actors[worker][1].perform(messages[worker])
            except (OSError, RuntimeError) as error:  # Dask has noticed already that the actor is lost
                found[worker] = error
        return found | self._results(calls)

    def drop(self, worker: str) -> None:
        """Forget the actor of a worker."""
        if worker in self._actors:
            _release({worker: self._actors.pop(worker)})

    def _start(self, workers: Sequence[str]) -> dict[str, Any]:
        """Start actors on workers; return the exceptions of those that did not start."""
        if not workers:
            return {}
        check_versions(self._client)  # loading the actor's class in another version could end a worker
        what, _, whose = self._name.partition(" ")  # the dashboard shows the first dozen letters of a task's name
        futures = {}
        for worker in workers:
            self._started += 1
            key = f"{what} {self._started} {whose}-{self._run}"
            futures[worker] = self._client.submit(
                ShardWorker, key=key, actor=True, pure=False, workers=[worker], allow_other_workers=False
            )
        failed = {}
        with self._client.as_current():  # a handle belongs to the current client
            for worker, handle in self._results(futures).items():
                if isinstance(handle, BaseException):
                    failed[worker] = OSError(f"{worker}: {handle!r}")
                    futures[worker].release()
                else:
                    self._actors[worker] = futures[worker], handle
        return failed

    def _results(self, futures: Mapping[str, Any]) -> dict[str, Any]:
        """Wait for the results of futures by worker; an exception is a result, also that the worker is gone."""
        found: dict[str, Any] = {}
        waiting = dict(futures)
        while waiting:
            for worker, future in list(waiting.items()):
                try:
                    found[worker] = future.result(timeout=POLL_SECONDS)
                except TimeoutError:
                    continue
                except Exception as error:
                    found[worker] = error
                del waiting[worker]
            if waiting:
                self._keep_scheduler_alive()
                for worker in waiting.keys() - self._client.nthreads().keys():
                    found[worker] = OSError(f"{worker} is gone")
                    del waiting[worker]
        return found

    def _keep_scheduler_alive(self) -> None:
        """Submit an empty task now and then, by which a scheduler sees that the cluster is in use."""
        now = time.monotonic()
        if now > self._keepalive_time + KEEPALIVE_SECONDS:
            self._keepalive_time = now
            key = f"at work, {self._name}-{uuid.uuid4().hex[:8]}"
            self._keepalive_task = self._client.submit(bool, key=key, pure=False)


def _release(actors: Mapping[str, tuple[Future[Any], Any]]) -> None:
    """Have Dask delete actors now; the futures of handles are part of cycles, which may be collected much later."""
    for future, handle in actors.values():
        future.release()
        if handle._future is not None:
            handle._future.release()
