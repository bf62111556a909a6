"""Executors of tasks, and clients of clusters, for each value of the argument `on`; recipes.

A recipe is a YAML file that says how a cluster is found or started (`cluster/`). It has one of the keys `workers`
(worker processes of this machine), `scheduler` or `scheduler-file` (a running scheduler) and `cluster` (a class of Dask
or of another package, which is called with `options`).
"""

from __future__ import annotations

import json
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalable_bandits import checks
from scalable_bandits.execution import clusters
from scalable_bandits.execution.base import ClusterError, Execution, InTurn, Threads
from scalable_bandits.posteriors.placement import LOCAL, cores, threads_of
from scalable_bandits.specification import check_name

if TYPE_CHECKING:
    from distributed import Client, Security

ALLOWED = (
    "None, 'local', 'local:4' (worker processes of this machine), 'threads:4' (threads of this process), the address "
    "of a scheduler ('tcp://host:port', 'tls://host:port'), a distributed.Client, or a recipe (a .yaml file, see "
    "cluster/)"
)
NEEDS_CLUSTER = "a cluster: 'local:4', an address, a distributed.Client, or a recipe"
SCHEMES = ("tcp://", "tls://", "ws://", "wss://", "inproc://")

COUNT, NUMBER, TEXT, FLAG, KEYS = "a positive integer", "a positive number", "text", "yes or no", "keys and values"
ADDRESS = {"tls": KEYS, "wait": NUMBER}
KINDS: dict[str, dict[str, str]] = {  # the key that a kind of recipe has, and all its keys with their allowed values
    "workers": {"workers": COUNT, "threads": COUNT, "encrypted": FLAG, "wait": NUMBER},
    "scheduler": {"scheduler": TEXT, **ADDRESS},
    "scheduler-file": {"scheduler-file": TEXT, **ADDRESS},
    "cluster": {"cluster": TEXT, "options": KEYS, "scale": KEYS, "adapt": KEYS, "wait": NUMBER},
}
TLS = {"ca": TEXT, "cert": TEXT, "key": TEXT}
LARGEST = 100_000  # characters of a file; a few aliases of aliases (*) are gigabytes
QUEUE_SECONDS = 3600.0  # wait for the first worker where it is queued, or its image is downloaded


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
    if isinstance(on, str) and LOCAL.fullmatch(on):
        return partial(clusters.local, int(on.partition(":")[2] or cores()))
    if isinstance(on, str) and on.startswith(SCHEMES):
        return partial(clusters.at, on)
    if isinstance(on, str | os.PathLike) and Path(on).suffix in (".yaml", ".yml"):
        return read_recipe(Path(on)).connect
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


# ---- recipes


class Recipe:
    """A recipe that was read from a file.

    Parameters
    ----------
    path
        Path of the file. Other paths in the recipe are relative to its folder; in `options` those that begin with "./".
    given
        Keys and values of the file.
    """

    def __init__(self, path: Path, given: Mapping[str, Any]):
        self.path, self._given = path, given
        kinds = [key for key in KINDS if key in given]
        if len(kinds) != 1:
            checks.refuse(f"keys of {path}", sorted(map(str, given)), f"one of {', '.join(KINDS)}")
        self.kind = kinds[0]
        _check(str(path), given, KINDS[self.kind])

    @contextmanager
    def connect(self) -> Iterator[Client]:
        """Yield the client of the cluster, with at least one worker; a started cluster ends with the context."""
        given, wait = self._given, QUEUE_SECONDS if self.kind == "cluster" else clusters.WORKER_SECONDS
        opened: AbstractContextManager[Client]
        if self.kind == "workers":
            opened = clusters.local(given["workers"], given.get("threads", 1), given.get("encrypted") or None)
        else:
            opened = self._start_cluster() if self.kind == "cluster" else clusters.at(self._address(), self._security())
        with opened as client:
            clusters.await_worker(client, float(given.get("wait", wait)))
            yield client

    def _address(self) -> str:
        """Return the address of the scheduler, perhaps from the file of ``dask scheduler --scheduler-file``."""
        if self.kind == "scheduler":
            return str(self._given["scheduler"])
        file = self._file(self._given["scheduler-file"])
        try:
            return str(json.loads(file.read_text())["address"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ClusterError(f"on: no scheduler has written {file}: {error}") from error

    def _security(self) -> Security | None:
        """Return the certificates for ``tls://``; None for those of Dask's own configuration."""
        given = self._given.get("tls")
        if given is None:
            return None
        _check(f"{self.path}, tls", given, TLS)
        if len(given) < len(TLS):
            checks.refuse(f"keys of {self.path}, tls", sorted(given), f"all of {', '.join(TLS)}")
        files = {key: self._file(name) for key, name in given.items()}
        for key, file in files.items():
            if not file.is_file():
                raise FileNotFoundError(f"{self.path}: tls: {key}: there is no file {file}")
        from distributed import Security

        ca, cert, key = (str(files[name]) for name in TLS)
        return Security(require_encryption=True, tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key)

    def _file(self, name: str) -> Path:
        return self.path.parent / Path(name).expanduser()

    @contextmanager
    def _start_cluster(self) -> Iterator[Client]:
        """Start a cluster of the class that the recipe names and yield its client."""
        make, options = self._class(), self._with_absolute_paths(self._given.get("options", {}))
        if hasattr(make, "job_cls"):
            options.setdefault("job_cls", _closing(make.job_cls))
        with self._start_errors():
            cluster = make(**options)
        with cluster:
            with self._start_errors():
                if "scale" in self._given:
                    _scale(cluster, self._given["scale"])
                if "adapt" in self._given:
                    cluster.adapt(**self._given["adapt"])
            with clusters.at_cluster(cluster) as client:
                yield client

    def _class(self) -> Any:
        name = self._given["cluster"]
        try:
            return pkgutil.resolve_name(name)
        except (ImportError, AttributeError, ValueError) as error:
            package = name.rpartition(".")[0].partition(".")[0].replace("_", "-") or "distributed"
            raise ClusterError(f"on: {self.path} needs {name}: {error}; pip install {package}") from error

    def _with_absolute_paths(self, value: Any) -> Any:
        """Copy options, with paths relative to the recipe made absolute."""
        if isinstance(value, dict):
            return {key: self._with_absolute_paths(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._with_absolute_paths(each) for each in value]
        return str(self._file(value)) if isinstance(value, str) and value.startswith("./") else value

    @contextmanager
    def _start_errors(self) -> Iterator[None]:
        """Raise ClusterError, with the reason that the cluster's class gives, if the cluster does not start."""
        try:
            yield
        except Exception as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())
            hint = "; the log of distributed.deploy has more" if "distributed" in self._given["cluster"] else ""
            raise ClusterError(f"on: the cluster of {self.path} does not start: {why}{hint}") from error


def read_recipe(path: Path) -> Recipe:
    """Read a recipe.

    Raises
    ------
    ValueError
        If the file does not exist, is not YAML, or has invalid keys or values.
    """
    import yaml

    try:
        with path.open() as file:
            text = file.read(LARGEST + 1)
        if len(text) > LARGEST or any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise ValueError(f"it has more than {LARGEST:,} characters, or names parts of itself (*)")
        given = yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        checks.refuse("on", f"{path} ({' '.join(str(error).split())})", "a recipe that can be read, see cluster/")
    if not isinstance(given, dict):
        checks.refuse("on", f"{path}, which holds {given!r}", "a recipe: keys and values, see cluster/")
    return Recipe(path, given)


def _check(name: str, given: Any, allowed: Mapping[str, str]) -> None:
    """Refuse unknown keys, and values of another type."""
    for key, value in given.items():
        check_name(f"key of {name}", key, allowed)
        number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
        fits = {
            COUNT: number and isinstance(value, int), NUMBER: number, TEXT: isinstance(value, str),
            FLAG: isinstance(value, bool), KEYS: isinstance(value, dict),
        }  # fmt: skip
        if not fits[allowed[key]]:
            checks.refuse(f"{name}, {key}", value, allowed[key])


def _scale(cluster: Any, size: Mapping[str, Any]) -> None:
    """Scale a cluster and raise the errors of its workers' start, which clusters with a `worker_spec` only log."""

    async def scaled() -> None:
        cluster.scale(**size)
        await cluster

    if hasattr(cluster, "worker_spec"):
        cluster.sync(scaled)
    else:
        cluster.scale(**size)


def _closing(job: Any) -> Any:
    """Return the job class of dask-jobqueue with its status set on close, which version 0.9 leaves at running."""

    class Job(job):  # type: ignore[misc]
        async def close(self) -> None:
            from distributed import Status

            await super().close()
            self.status = Status.closed

    return Job
