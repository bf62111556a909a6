"""The executor of tasks on the workers of a Dask cluster.

A plugin brings the function to every worker once, also to those that come later; in the tasks' graph it would be sent
with every task. A task reports its start; a second start means that the first was lost with its worker. A number
(float) that a task returns is sent with the report of its end, as fetching the result would take several times as long.
"""

from __future__ import annotations

import asyncio
import math
import os
import queue
import signal
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import cloudpickle
from distributed import Client, Future, KilledWorker, WorkerPlugin, get_worker

from scalable_bandits import randomness
from scalable_bandits.execution.base import ClusterError, Event, Execution, NotOnWorker, drained, failed
from scalable_bandits.execution.clusters import check_versions, connection_lost
from scalable_bandits.forked import ForkedChildrenEnd

COUNT_SECONDS = 2.0  # time after which the threads of the workers are counted again
GONE_SECONDS = 5.0  # longest wait until the scheduler has noticed the end of a worker
MOST_RESUBMISSIONS = 3  # most submissions of a task whose workers die before it starts
TOLD_SECONDS = 0.05  # in which the report of a start has left its process
_NOT_FETCHED = object()  # value of a task whose result has to be fetched


class FunctionPlugin(WorkerPlugin):
    """Plugin that brings a function to a worker.

    Parameters
    ----------
    name
        Name of the plugin.
    function
        The pickled function.
    """

    def __init__(self, name: str, function: bytes):
        self.name, self._pickled = name, function

    @cached_property
    def function(self) -> Any:
        """The function, loaded by the first task, which fails if that raises an error."""
        try:
            return cloudpickle.loads(self._pickled)
        except ModuleNotFoundError as error:
            raise NotOnWorker(error.name or error) from None

    async def teardown(self, worker: Any) -> None:
        """End the calls of a function with a method `end_calls`; Dask calls this at the end of a run or a worker."""
        end_calls = getattr(self.__dict__.get("function"), "end_calls", None)
        if end_calls is not None:
            await asyncio.to_thread(end_calls)


def perform(name: str, key: str, arguments: tuple[Any, ...], again: int = 0) -> Any:
    """Run a task on its worker.

    Parameters
    ----------
    name
        Name of the plugin with the function, and of the topic of reports.
    key
        Key of the task.
    arguments
        Arguments of the function.
    again
        Number of submissions of the task before this one, in which workers died and no start was reported.
    """
    worker = get_worker()
    start = {"kind": "started", "key": key, "where": f"{worker.address} (process {os.getpid()})"}
    worker.log_event(name, {"event": start})
    if again:  # perhaps it is the function that ended them at once, before their reports had left
        time.sleep(TOLD_SECONDS)
    plugin: Any = worker.plugins[name]
    try:
        with ForkedChildrenEnd():
            result = plugin.function(*arguments)
    except Exception:
        raise
    except BaseException as error:  # such as SystemExit, which would end the client's loop when raised again there
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
    if isinstance(result, float):
        worker.log_event(name, {"event": {"kind": "done", "key": key, "value": float(result)}})
    return result


def kill_worker(dask_worker: Any) -> None:
    """Kill the worker process of a nanny, whatever it is doing; called in the nanny's process."""
    os.kill(dask_worker.pid, signal.SIGKILL)


@dataclass
class Task:
    """A task that has not ended."""

    arguments: tuple[Any, ...]
    future: Future[Any]
    again: int  # number of its submissions after the first
    where: str = ""  # worker on which it started


def _has_dashboard(client: Client) -> bool:
    """Return whether the scheduler shows a dashboard: its address exists without one, too."""

    def has_pages(dask_scheduler: Any) -> bool:  # sent as code: the scheduler may not have this package
        return bool(dask_scheduler.http_application.applications)

    try:
        return bool(client.run_on_scheduler(has_pages))
    except Exception:  # the scheduler runs no functions, or has another way to show pages
        return False


def _not_on_worker(name: str, where: str) -> ClusterError:
    """Return the error of a module that a worker cannot import, with the folder where this process has it."""
    top = name.partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None)
    path = "PYTHONPATH=FOLDER" if file is None else f"PYTHONPATH={Path(file).parents[Path(file).stem == '__init__']}"
    return ClusterError(
        f"on: worker {where} cannot import {name!r}: start the workers with {path} in their environment, or install it "
        "there"
    )


class ClusterExecution(Execution):
    """Executor of tasks on the workers of a client's cluster.

    Parameters
    ----------
    client
        The client, which is not closed.
    function
        Function that is called with the arguments of every task.
    name
        Name of the tasks for Dask's dashboard.
    """

    def __init__(self, client: Client, function: Callable[..., Any], name: str):
        self._client = client
        self._name = f"scalable-bandits {name} {uuid.uuid4().hex}"
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._tasks: dict[str, Task] = {}
        self._looked, self._workers = -math.inf, set(client.nthreads())  # addresses of those whose versions are known
        self._count()
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        self.ends_calls = all(worker.get("nanny") for worker in workers)
        if _has_dashboard(client):
            self.dashboard = client.dashboard_link or ""
        try:
            pickled = cloudpickle.dumps(function)
        except Exception as error:
            raise ClusterError(f"on: {name} cannot be sent to other processes: {error}") from error
        client.register_plugin(FunctionPlugin(self._name, pickled), name=self._name)
        client.subscribe_topic(self._name, self._report)

    def submit(self, key: str, *arguments: Any) -> None:
        self._submit(key, arguments, 0)

    def _submit(self, key: str, arguments: tuple[Any, ...], again: int) -> None:
        if self._client.status != "running":
            raise self._lost()
        unique = f"{key}-{again}-{self._name[-8:]}"
        future = self._client.submit(perform, self._name, key, arguments, again, key=unique, pure=False, retries=0)
        self._tasks[key] = Task(arguments, future, again)
        future.add_done_callback(lambda _: self._events.put(Event("done", key, _NOT_FETCHED, time=time.time())))

    def _report(self, event: Any) -> None:
        """Take the report of a task, in the client's thread: it started, or returned a number."""
        self._events.put(Event(**event[1]["event"], time=time.time()))

    def _count(self) -> None:
        """Count the threads of the workers now and then: workers come late, and leave.

        Raises
        ------
        ClusterError
            If one has come that cannot be used.
        """
        now = time.monotonic()
        if now > self._looked + COUNT_SECONDS and self._client.status == "running":
            self._looked = now
            with suppress(OSError):  # if the connection is lost, so are the tasks, which raise an error
                threads = self._client.nthreads()
                self.slots = max(sum(threads.values()), 1)
                if not self._workers.issuperset(threads):
                    check_versions(self._client)
                    self._workers.update(threads)

    def events(self, seconds: float | None = None) -> list[Event]:
        self._count()
        found: list[Event] = []
        for event in drained(self._events, seconds):
            task = self._tasks.get(event.key)
            if task is None:
                continue
            if event.kind == "started":
                found += [Event("lost", event.key, where=task.where)] if task.where else []
                found.append(event)
                task.where = event.where
            elif event.value is _NOT_FETCHED and self._may_resubmit(task):
                self._submit(event.key, task.arguments, task.again + 1)
            else:
                del self._tasks[event.key]
                found.append(self._end(event, task.future, task.where))
        return found

    def _may_resubmit(self, task: Task) -> bool:
        """Return whether a task failed only because workers died on which it waited, and may be submitted again."""
        if task.future.status != "error" or task.again >= MOST_RESUBMISSIONS or self._client.status != "running":
            return False
        error = task.future.exception()
        return isinstance(error, KilledWorker) and not task.where.startswith(f"{error.last_worker.address} ")

    def _end(self, event: Event, future: Future[Any], where: str) -> Event:
        """Return the event of the end of a task on a worker, with its result or error."""
        fetch = event.value is _NOT_FETCHED
        if fetch and future.status not in ("finished", "error"):
            raise self._lost()
        try:
            with randomness.others_kept():  # distributed draws where it fetches from
                return event._replace(value=future.result()) if fetch else event
        except KilledWorker as error:
            return failed(event.key, error, final=True)._replace(time=event.time)  # Dask has repeated it often enough
        except NotOnWorker as error:  # as every other task will
            raise _not_on_worker(str(error), where) from None
        except Exception as error:
            if self._client.status != "running":
                raise self._lost() from error
            return failed(event.key, error)._replace(time=event.time)
        finally:
            future.release()  # the client keeps the error, whose traceback refers to this frame and so to the future

    def _lost(self) -> ClusterError:
        kept = "tasks that ended before are kept, and with a store the same call continues from there"
        return connection_lost(self._client, kept)

    def end(self, key: str) -> None:
        """End a running call with its worker process, which its nanny starts again; other calls there begin again."""
        task, client = self._tasks.pop(key), self._client
        client.cancel([task.future], force=True)
        task.future.release()
        address = task.where.partition(" ")[0]
        with suppress(OSError, TimeoutError, ValueError, KeyError):  # the worker may be gone
            client.run(kill_worker, workers=[address], nanny=True, on_error="ignore")
            until = time.monotonic() + GONE_SECONDS
            while address in client.nthreads() and time.monotonic() < until:  # so that it gets no other call
                time.sleep(0.01)

    def close(self) -> None:
        """Cancel the tasks that have not ended, and remove the plugin."""
        futures, self._tasks = [task.future for task in self._tasks.values()], {}
        if self._client.status != "running":
            return
        with suppress(OSError, TimeoutError, RuntimeError):  # the cluster may be ending
            if futures:
                self._client.cancel(futures, force=True)
            self._client.unsubscribe_topic(self._name)
            self._client.unregister_worker_plugin(self._name)
