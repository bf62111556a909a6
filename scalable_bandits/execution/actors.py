"""The Dask actors of one run, one on each of its workers, and how they are called.

Dask deletes an actor once nothing refers to it: this object, its client and its process may end in any order. Calls to
actors are no activity for a scheduler that closes when it is idle, so that an empty task is submitted every
`BEAT_SECONDS` of work. They are sent to the workers directly where the client has `direct_to_workers=True`, as those
made by this package have, and by way of the scheduler otherwise.
"""

from __future__ import annotations

import math
import time
import uuid
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scalable_bandits.execution.shard_worker import ShardWorker
from scalable_bandits.execution.versions import check_versions

if TYPE_CHECKING:
    from distributed import Client, Future

PULSE_SECONDS = 0.2  # without an answer, between two looks at whether the workers are still there
BEAT_SECONDS = 1.0  # between two empty tasks: less than any idle timeout that makes sense

Answer = bytes | BaseException


class Actors:
    """Actors on the workers of a client.

    Parameters
    ----------
    client
        Used, and neither closed nor changed.
    name
        Name of what the run computes, for Dask's dashboard: what, and whose, as in "priors of PEGPUCB".
    """

    def __init__(self, client: Client, name: str):
        self._client, self._name = client, name
        self._run, self._made = uuid.uuid4().hex[:8], 0
        self._futures: dict[str, Future[Any]] = {}  # worker to its actor, which exists as long as its future
        self._handles: dict[str, Any] = {}
        self._beat: Future[Any] | None = None  # the last empty task
        self._beaten = -math.inf
        self.release = weakref.finalize(self, _release, self._futures, self._handles)

    def __iter__(self) -> Any:
        """Addresses of the workers with an actor."""
        return iter(self._handles)

    def perform(self, messages: Mapping[str, bytes]) -> dict[str, Answer]:
        """Answers of workers to their messages, or what kept a worker from answering."""
        found: dict[str, Answer] = {}
        waiting: dict[str, Any] = {}
        self._show_activity()
        for worker, handle in self._handles_of(messages).items():
            try:
                if isinstance(handle, BaseException):
                    raise handle
                waiting[worker] = handle.perform(messages[worker])
            except (OSError, RuntimeError) as error:  # Dask knows already that the actor is lost
                found[worker] = error
        while waiting:
            for worker in list(waiting):
                try:
                    found[worker] = waiting[worker].result(timeout=PULSE_SECONDS)
                except TimeoutError:
                    continue
                except Exception as error:
                    found[worker] = error
                del waiting[worker]
            if waiting:
                self._show_activity()
                known = self._client.nthreads()
                for worker in [worker for worker in waiting if worker not in known]:
                    found[worker] = OSError(f"{worker} is gone")
                    del waiting[worker]
        return found

    def drop(self, worker: str) -> None:
        """Forget the actor of a worker."""
        _release({worker: self._futures.pop(worker, None)}, {worker: self._handles.pop(worker, None)})

    def _show_activity(self) -> None:
        """Now and then an empty task: by it a scheduler sees that the cluster is in use."""
        now = time.monotonic()
        if now > self._beaten + BEAT_SECONDS:
            self._beaten = now
            key = f"at work, {self._name}-{uuid.uuid4().hex[:8]}"
            self._beat = self._client.submit(bool, key=key, pure=False)

    def _handles_of(self, workers: Mapping[str, bytes]) -> dict[str, Any]:
        """Handles of actors, which are made where there are none, or what kept one from being made."""
        found = {worker: self._handles[worker] for worker in workers if worker in self._handles}
        new = [worker for worker in workers if worker not in found]
        if new:
            check_versions(self._client)  # a worker that does not know an actor's class would not survive its arrival
        what, _, whose = self._name.partition(" ")  # the dashboard shows the first dozen letters of a task's name
        for worker in new:
            self._made += 1
            key = f"{what} {self._made} {whose}-{self._run}"
            self._futures[worker] = self._client.submit(
                ShardWorker, key=key, actor=True, pure=False, workers=[worker], allow_other_workers=False
            )
        for worker in new:
            found[worker] = self._handle(worker)
        return found

    def _handle(self, worker: str) -> Any:
        """Handle of a new actor, once it is there, or what kept it from being made."""
        while True:
            try:
                with self._client.as_current():
                    self._handles[worker] = self._futures[worker].result(timeout=PULSE_SECONDS)
                return self._handles[worker]
            except TimeoutError:
                self._show_activity()
                if worker not in self._client.nthreads():
                    return OSError(f"{worker} is gone")
            except Exception as error:
                return OSError(f"{worker}: {error!r}")


def _release(futures: Mapping[str, Future[Any] | None], handles: Mapping[str, Any]) -> None:
    """Have Dask delete actors. What a handle refers to would otherwise be released with the cycles it is part of."""
    for each in (*futures.values(), *(handle._future for handle in handles.values() if handle is not None)):
        if each is not None:
            each.release()
