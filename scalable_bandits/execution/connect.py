"""``on=``: where to run, resolved in one place. A client that was given is used, and neither closed nor changed."""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from scalable_bandits import checks
from scalable_bandits.execution import clusters
from scalable_bandits.execution.base import ClusterError, Execution, InTurn, Threads
from scalable_bandits.execution.recipes import read
from scalable_bandits.execution.versions import check_versions
from scalable_bandits.posteriors.placement import cores, threads_of

if TYPE_CHECKING:
    from distributed import Client, Security

logger = logging.getLogger(__name__)

ALLOWED = (
    "None, 'local', 'local:4' (worker processes of this machine), 'threads:4' (threads of this process), the address "
    "of a scheduler ('tcp://host:port', 'tls://host:port'), a distributed.Client, or a recipe (a .yaml file, see "
    "cluster/)"
)
SCHEMES = ("tcp://", "tls://", "ws://", "wss://", "inproc://")
ASKING = "scalable_bandits asks for a worker"  # no "-": Dask shows a task by what stands before it
PATIENCE_SECONDS = 10.0  # of which it is said that there is no worker yet


@contextmanager
def executing(on: Any, function: Callable[..., Any], name: str, threads: int | None = None) -> Iterator[Execution]:
    """Execution of a function, where `on` says.

    Parameters
    ----------
    on
        As in `connect`; or None for this process, "threads" or "threads:4" for its threads.
    function
        Called with the arguments of every task.
    name
        Of the work, in half a sentence.
    threads
        Number of threads of this process if `on` is None; one call after the other if not given.
    """
    threads = threads if on is None else threads_of(on)
    if on is None or threads is not None:
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
    """Client of the cluster that `on` names, with at least one worker, whose versions were compared with ours.

    Parameters
    ----------
    on
        "local" or "local:4" (worker processes of this machine), an address ("tcp://...", "tls://..."), a
        `distributed.Client`, or a recipe file (.yaml).

    Raises
    ------
    ValueError
        If it names no cluster, or a recipe says what is not allowed.
    ClusterError
        If nobody answers there, no worker comes, or a worker has another release of Python or of this package.
    """
    place = resolve(on)
    with place.connect() as client:
        await_worker(client, place.wait)
        check_versions(client)
        yield client


class Place(NamedTuple):
    """What `on` names."""

    connect: Callable[[], Any]  # gives a context manager of the client
    wait: float | None = None  # seconds for the first worker; `WORKER_SECONDS` if not given


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


def resolve(on: Any) -> Place:
    """What `on` names; nothing is started yet.

    Parameters
    ----------
    on
        "local" or "local:4" (worker processes of this machine), "threads:4" (threads of this process), an address
        ("tcp://...", "tls://..."), a `distributed.Client`, or a recipe file (.yaml).

    Raises
    ------
    ValueError
        If it names nothing, or a recipe says what is not allowed.
    """
    if threads_of(on) is not None:
        return Place(lambda: _no_cluster(on))
    if isinstance(on, str):
        head, _, count = on.partition(":")
        if head == "local" and (on == "local" or (count.isdecimal() and int(count) > 0)):
            return Place(lambda: clusters.local(int(count) if count else cores()))
        if on.startswith(SCHEMES):
            return Place(lambda: clusters.at(on))
    if isinstance(on, str | os.PathLike) and Path(on).suffix in (".yaml", ".yml"):
        recipe = read(Path(on))
        return Place(recipe.connect, recipe.wait)
    if isinstance(on, SecureAddress):
        return Place(lambda: clusters.at(on.address, on.security))
    if "distributed" in sys.modules:
        from distributed import Client

        if isinstance(on, Client):
            return Place(lambda: _given(on))
    checks.refuse("on", on, ALLOWED)


def _no_cluster(on: str) -> NoReturn:
    checks.refuse("on", on, "where a cluster is needed: 'local:4', an address, a distributed.Client, or a recipe")


@contextmanager
def _given(client: Client) -> Iterator[Client]:
    """The user's own client, as it is."""
    if client.asynchronous:
        checks.refuse("on", "an asynchronous client", "one that blocks: distributed.Client(asynchronous=False)")
    if client.status != "running":
        raise ClusterError(f"on: the client is not connected, its status is {client.status!r}")
    yield client


def await_worker(client: Client, seconds: float | None = None) -> None:
    """Wait for the first worker, so many seconds; ClusterError if none comes."""
    if client.scheduler_info(n_workers=-1)["workers"]:
        return
    seconds = clusters.WORKER_SECONDS if seconds is None else seconds
    address = client.scheduler.address if client.scheduler else "?"
    text = f"on: the scheduler at {address} has no workers"
    soon = min(PATIENCE_SECONDS, seconds)
    key = f"{ASKING}-{uuid.uuid4().hex}"
    asking = client.submit(bool, key=key, pure=False)  # an adaptive cluster starts workers only where there is work
    try:
        if not _came(client, soon):
            if seconds > soon:
                logger.warning("%s yet; waiting up to %.0f s for the first", text, seconds)
            if not _came(client, seconds - soon):
                raise ClusterError(f"{text}, and none came in {seconds:.0f} s (a recipe may say `wait:`)")
    finally:
        asking.release()


def _came(client: Client, seconds: float) -> bool:
    """Whether a worker came in time."""
    try:
        client.wait_for_workers(1, timeout=max(seconds, 0.01))
    except TimeoutError:
        return False
    return True
