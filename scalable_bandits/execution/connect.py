"""Executors of tasks, and clients of clusters, for each value of the argument `on`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalable_bandits import checks
from scalable_bandits.execution import clusters
from scalable_bandits.execution.base import ClusterError, Execution, InTurn, Threads
from scalable_bandits.execution.recipes import read
from scalable_bandits.posteriors.placement import cores, threads_of

if TYPE_CHECKING:
    from distributed import Client, Security

ALLOWED = (
    "None, 'local', 'local:4' (worker processes of this machine), 'threads:4' (threads of this process), the address "
    "of a scheduler ('tcp://host:port', 'tls://host:port'), a distributed.Client, or a recipe (a .yaml file, see "
    "cluster/)"
)
NEEDS_CLUSTER = "a cluster: 'local:4', an address, a distributed.Client, or a recipe"
SCHEMES = ("tcp://", "tls://", "ws://", "wss://", "inproc://")


@contextmanager
def executing(on: Any, function: Callable[..., Any], name: str, threads: int | None = None) -> Iterator[Execution]:
    """Yield the executor of a function's calls that `on` names.

    Parameters
    ----------
    on
        None for this process, "threads" or "threads:4" for its threads, or a cluster; see `connect`.
    function
        Function that is called with the arguments of every task.
    name
        Name of the tasks, for messages and Dask's dashboard.
    threads
        Number of threads of this process if `on` is None; one call after the other if not given.
    """
    threads = threads if on is None else threads_of(on)
    with ExitStack() as stack:
        if threads is not None:
            execution: Execution = Threads(function, threads)
        elif on is None:
            execution = InTurn(function)
        else:
            from scalable_bandits.execution.workers import ClusterExecution

            execution = ClusterExecution(stack.enter_context(connect(on)), function, name)
        stack.callback(execution.close)
        yield execution


@contextmanager
def connect(on: Any) -> Iterator[Client]:
    """Yield the client of a cluster with at least one worker, after a comparison of the workers' versions.

    Parameters
    ----------
    on
        "local" or "local:4" (worker processes of this machine), an address ("tcp://...", "tls://..."), a
        `distributed.Client`, which is neither closed nor changed, or a recipe file (.yaml).

    Raises
    ------
    ValueError
        If `on` does not name a cluster, or a recipe is invalid.
    ClusterError
        If the scheduler does not answer, there is no worker, or a worker has another release of Python or of this
        package.
    """
    with resolve(on)() as client:
        clusters.await_worker(client)
        clusters.check_versions(client)
        yield client


class SecureAddress:
    """Address of a scheduler, and the certificates of a client that was connected to it.

    A pickle has the names of the certificates' files. Without files it is the address alone: no private key leaves
    the process.

    Parameters
    ----------
    address
        Address of the scheduler.
    security
        `distributed.Security` of the client.
    """

    def __init__(self, address: str, security: Security):
        self.address, self.security = address, security

    def __deepcopy__(self, _: Any) -> SecureAddress:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        values = [getattr(self.security, name) for name in self.security.__slots__]
        in_memory = any(isinstance(value, str) and "\n" in value for value in values)  # as Dask itself tells them apart
        if in_memory or self.security.extra_conn_args:
            return str, (self.address,)
        return type(self), (self.address, self.security)


def resolve(on: Any) -> Callable[[], AbstractContextManager[Client]]:
    """Return the function that connects to what `on` names; nothing is started before it is called.

    Parameters
    ----------
    on
        Value as for `connect`, or "threads:4" (threads of this process), whose function raises ValueError.

    Raises
    ------
    ValueError
        If `on` has no meaning, or a recipe is invalid.
    """
    if threads_of(on) is not None:
        return partial(checks.refuse, "on", on, NEEDS_CLUSTER)
    if isinstance(on, str):
        head, _, count = on.partition(":")
        if head == "local" and (on == "local" or (count.isdecimal() and int(count) > 0)):
            return partial(clusters.local, int(count or cores()))
        if on.startswith(SCHEMES):
            return partial(clusters.at, on)
    if isinstance(on, str | os.PathLike) and Path(on).suffix in (".yaml", ".yml"):
        return read(Path(on)).connect
    if isinstance(on, SecureAddress):
        return lambda: clusters.at(on.address, on.security)
    if "distributed" in sys.modules:
        from distributed import Client

        if isinstance(on, Client):
            return partial(_given, on)
    checks.refuse("on", on, ALLOWED)


def _given(client: Client) -> AbstractContextManager[Client]:
    """Return the user's own client as a context that does not close it."""
    if client.asynchronous:
        checks.refuse("on", "an asynchronous client", "one that blocks: distributed.Client(asynchronous=False)")
    if client.status != "running":
        raise ClusterError(f"on: the client is not connected, its status is {client.status!r}")
    return nullcontext(client)
