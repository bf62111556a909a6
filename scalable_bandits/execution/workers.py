"""Tasks on the workers of a Dask cluster.

The function goes to every worker once, also to those that come later, as a plugin (in the tasks' graph it would be
sent with every one of them). A task says when it starts; one that starts a second time was lost with its worker. A
number (float) that it returns comes with the news that it is done: asking for it would take several times as long.
"""

from __future__ import annotations

import math
import os
import queue
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import cloudpickle
from distributed import Client, Future, KilledWorker, WorkerPlugin, get_worker

from scalable_bandits.execution.base import ClusterError, Event, Execution, drained, failed

LOOK_SECONDS = 2.0  # between two looks at how many tasks the workers have room for
ANEW = 3  # submissions of a task whose workers die before it starts
_ON_WORKER = object()  # value of a task whose result is still where it ran


class Held(WorkerPlugin):
    """Brings a function to a worker.

    Parameters
    ----------
    name
        Of the plugin.
    function
        Pickled.
    """

    def __init__(self, name: str, function: bytes):
        self.name, self._pickled = name, function

    def setup(self, worker: Any) -> None:
        """Nothing yet: the function is loaded by the first task, whose error is then the task's."""
        self._guard, self._loaded = threading.Lock(), False

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        with self._guard:
            if not self._loaded:
                self._function: Callable[..., Any] = cloudpickle.loads(self._pickled)
                self._loaded = True
        try:
            return self._function(*arguments)
        except Exception:
            raise
        except BaseException as error:  # SystemExit, say, which would end the client's loop where it is raised again
            raise RuntimeError(f"{type(error).__name__}: {error}") from error


def perform(name: str, key: str, arguments: tuple[Any, ...]) -> Any:
    """What a task does on its worker."""
    worker = get_worker()
    worker.log_event(name, {"key": key, "where": f"{worker.address} (process {os.getpid()})"})
    held: Any = worker.plugins[name]
    result = held(*arguments)
    if isinstance(result, float):
        worker.log_event(name, {"key": key, "value": float(result)})
    return result


class Workers(Execution):
    """Tasks of one function on the workers of a client's cluster.

    Parameters
    ----------
    client
        Used, and never closed.
    function
        Called with the arguments of every task.
    name
        Of the work, for Dask's dashboard.
    """

    def __init__(self, client: Client, function: Callable[..., Any], name: str):
        self._client = client
        self._name = f"scalable-bandits {name} {uuid.uuid4().hex}"
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._futures: dict[str, Future[Any]] = {}
        self._arguments: dict[str, tuple[Any, ...]] = {}
        self._again: Counter[str] = Counter()  # how often a task had to be submitted anew
        self._started: dict[str, str] = {}  # key to worker
        self._looked = -math.inf
        self._count()
        self.dashboard = client.dashboard_link if _has_dashboard(client) else ""
        try:
            pickled = cloudpickle.dumps(function)
        except Exception as error:
            text = f"on: {name} cannot be sent to other processes: {error}"
            raise ClusterError(text) from error
        client.register_plugin(Held(self._name, pickled), name=self._name)
        client.subscribe_topic(self._name, self._noted)

    def submit(self, key: str, *arguments: Any) -> None:
        if self._client.status != "running":
            raise self._lost()
        unique = f"{key}-{self._again[key]}-{self._name[-8:]}"
        future = self._client.submit(perform, self._name, key, arguments, key=unique, pure=False, retries=0)
        self._futures[key], self._arguments[key] = future, arguments
        future.add_done_callback(lambda _: self._events.put(Event("done", key, _ON_WORKER)))

    def _noted(self, event: Any) -> None:
        """Called by the client, in its own thread, as tasks start, and as they return numbers."""
        said = event[1]
        if "value" in said:
            self._events.put(Event("done", said["key"], said["value"]))
        else:
            self._events.put(Event("started", said["key"], where=said["where"]))

    def _count(self) -> None:
        """See, now and then, how much room there is: workers come late, and go."""
        now = time.monotonic()
        if now > self._looked + LOOK_SECONDS and self._client.status == "running":
            self._looked = now
            with suppress(OSError):  # of a connection that is lost the tasks tell
                self.slots = max(sum(self._client.nthreads().values()), 1)

    def events(self, seconds: float | None = None) -> list[Event]:
        self._count()
        found: list[Event] = []
        for event in drained(self._events, seconds):
            if event.key not in self._futures:
                continue
            if event.kind == "started":
                before = self._started.get(event.key)
                self._started[event.key] = event.where
                found += [Event("lost", event.key, where=before)] if before else []
                found.append(event)
                continue
            future, started = self._futures.pop(event.key), self._started.pop(event.key, "")
            arguments = self._arguments.pop(event.key)
            if event.value is not _ON_WORKER:
                future.release()
                found.append(event)
            elif self._innocent(event.key, future, started):
                self._again[event.key] += 1
                self.submit(event.key, *arguments)
            else:
                found.append(self._end(event.key, future))
        return found

    def _innocent(self, key: str, future: Future[Any], started: str) -> bool:
        """Whether a task is given up because workers died on which it only waited, and may be submitted anew."""
        if future.status != "error" or self._again[key] >= ANEW or self._client.status != "running":
            return False
        error = future.exception()
        return isinstance(error, KilledWorker) and not started.startswith(f"{error.last_worker.address} ")

    def _end(self, key: str, future: Future[Any]) -> Event:
        if future.status not in ("finished", "error"):
            raise self._lost()
        try:
            return Event("done", key, future.result())
        except KilledWorker as error:
            return failed(key, error, final=True)  # Dask tried it as often as it is told to
        except Exception as error:
            if self._client.status != "running":
                raise self._lost() from error
            return failed(key, error)
        finally:
            future.release()  # the client keeps its error, whose traceback keeps this frame, which keeps the future

    def _lost(self) -> ClusterError:
        address = self._client.scheduler.address if self._client.scheduler else "its address"
        return ClusterError(
            f"on: the connection to the scheduler at {address} was lost; what came to its end until then stands, "
            "and with a store the same call goes on from there"
        )

    def close(self) -> None:
        """Take back what was submitted; the client is as it was."""
        futures, self._futures = list(self._futures.values()), {}
        if self._client.status != "running":
            return
        try:
            if futures:
                self._client.cancel(futures, force=True)
            self._client.unsubscribe_topic(self._name)
            self._client.unregister_worker_plugin(self._name)
        except (OSError, TimeoutError, RuntimeError):
            pass  # the cluster is going away, and all of this with it


def _has_dashboard(client: Client) -> bool:
    services = client.scheduler_info(n_workers=0).get("services", {})
    return "dashboard" in services
