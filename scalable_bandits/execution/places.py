"""``on=``: where to run, resolved in one place. A client that was given is used, and neither closed nor changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalable_bandits import checks
from scalable_bandits.execution import clusters
from scalable_bandits.execution.base import ClusterError, Execution, InTurn, Threads
from scalable_bandits.execution.recipes import read
from scalable_bandits.execution.versions import check_versions

if TYPE_CHECKING:
    from distributed import Client

ALLOWED = (
    "None, 'local', 'local:4' (worker processes of this machine), the address of a scheduler ('tcp://host:port', "
    "'tls://host:port'), a distributed.Client, or a recipe (a .yaml file, see cluster/)"
)
SCHEMES = ("tcp://", "tls://", "ws://", "wss://", "inproc://")
WORKER_SECONDS = 60.0  # to wait for the first worker


@contextmanager
def executing(on: Any, function: Callable[..., Any], name: str, threads: int | None = None) -> Iterator[Execution]:
    """Execution of a function, where `on` says.

    Parameters
    ----------
    on
        As in `connect`; None for this process.
    function
        Called with the arguments of every task.
    name
        Of the work, in half a sentence.
    threads
        In this process: how many at the same time, on threads of their own; one after the other if not given.
    """
    if on is None:
        execution: Execution = InTurn(function) if threads is None else Threads(function, threads)
        try:
            yield execution
        finally:
            execution.close()
        return
    with connect(on) as client:
        from scalable_bandits.execution.workers import Workers

        workers = Workers(client, function, name)
        try:
            yield workers
        finally:
            workers.close()


@contextmanager
def connect(on: Any) -> Iterator[Client]:
    """Client of the cluster that `on` names, with at least one worker, whose versions are those of this process.

    Raises
    ------
    ValueError
        If it names nothing, or a recipe says what is not allowed.
    ClusterError
        If nobody answers there, no worker comes, or the workers have other versions.
    """
    place = resolve(on)
    with place() as client:
        await_worker(client)
        check_versions(client)
        yield client


def resolve(on: Any) -> Callable[[], Any]:
    """What makes a context manager of the client; ValueError if `on` names nothing."""
    if isinstance(on, str):
        head, _, count = on.partition(":")
        if head == "local" and (on == "local" or (count.isdecimal() and int(count) > 0)):
            return lambda: clusters.local(int(count) if count else clusters.cores())
        if on.startswith(SCHEMES):
            return lambda: clusters.at(on)
    if isinstance(on, str | os.PathLike) and Path(on).suffix in (".yaml", ".yml"):
        return read(Path(on)).connect
    if "distributed" in sys.modules:
        from distributed import Client

        if isinstance(on, Client):
            return lambda: _given(on)
    checks.refuse("on", on, ALLOWED)


@contextmanager
def _given(client: Client) -> Iterator[Client]:
    """The user's own client, as it is."""
    if client.asynchronous:
        checks.refuse("on", "an asynchronous client", "one that blocks: distributed.Client(asynchronous=False)")
    if client.status != "running":
        raise ClusterError(f"on: the client is not connected, its status is {client.status!r}")
    yield client


def await_worker(client: Client) -> None:
    """Wait for the first worker; ClusterError if none comes."""
    if client.scheduler_info(n_workers=-1)["workers"]:
        return
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError:
        address = client.scheduler.address if client.scheduler else "?"
        text = f"on: the scheduler at {address} has no workers, and none came in {WORKER_SECONDS:.0f} s"
        raise ClusterError(text) from None
