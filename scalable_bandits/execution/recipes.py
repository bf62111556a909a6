"""Recipes: files that say how a cluster is started or found (`cluster/`); every one is something `on=` reads.

A recipe is YAML: its ``kind``, and what that kind needs; in all of them ``wait``, the seconds in which the first worker
has to come. A key it does not know is refused, with the nearest one.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scalable_bandits import checks
from scalable_bandits.execution import clusters
from scalable_bandits.execution.base import ClusterError
from scalable_bandits.execution.jobs import renewed
from scalable_bandits.specification import nearest

if TYPE_CHECKING:
    from distributed import Client
    from distributed.security import Security

TLS = {"ca": str, "cert": str, "key": str}
QUEUE_SECONDS = 3600.0  # to wait for the first worker where it has to be given a place, or its image fetched
PRELOAD = "scalable_bandits.execution.preload"


class Recipe:
    """A recipe as it was read.

    Parameters
    ----------
    path
        Of the file; other paths in it are relative to its folder.
    given
        What it says.
    """

    def __init__(self, path: Path, given: Mapping[str, Any]):
        self.path = path
        kind = given.get("kind")
        if kind not in KINDS:
            checks.refuse(f"kind of {path}", kind, nearest(str(kind), KINDS))
        self.kind: str = kind
        self._settings = {key: value for key, value in given.items() if key != "kind"}
        _check(str(path), self._settings, KINDS[kind])
        self.wait: float = self.get("wait", KINDS[kind].wait)

    @contextmanager
    def connect(self) -> Iterator[Client]:
        """Client of the cluster; one that was started for it is ended with the context."""
        with KINDS[self.kind].connect(self) as client:
            yield client

    def get(self, key: str, default: Any = None) -> Any:
        """What the recipe says of a key."""
        return self._settings.get(key, default)

    def file(self, name: str) -> Path:
        """Path of a file that the recipe names."""
        return self.path.parent / Path(name).expanduser()

    def security(self) -> Security | None:
        """Certificates for ``tls://``; None where the recipe names none (then Dask's own configuration counts)."""
        given = self.get("tls")
        if given is None:
            return None
        _check(f"{self.path}, tls", given, Kind(clusters.at, TLS, wait=None))
        files = {key: self.file(name) for key, name in given.items()}
        for key, file in files.items():
            if not file.is_file():
                raise FileNotFoundError(f"{self.path}: tls: {key}: there is no file {file}")
        from distributed.security import Security

        ca, cert, key = (str(files[name]) for name in TLS)
        return Security(
            require_encryption=True, tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key, tls_worker_cert=cert,
            tls_worker_key=key, tls_scheduler_cert=cert, tls_scheduler_key=key,
        )  # fmt: skip


def read(path: Path) -> Recipe:
    """Read a recipe.

    Raises
    ------
    ValueError
        If there is no such file, it is no YAML, or says what is not allowed.
    """
    import yaml

    try:
        given = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        checks.refuse("on", f"{path} ({' '.join(str(error).split())})", "a recipe that can be read, see cluster/")
    if not isinstance(given, dict):
        checks.refuse("on", f"{path}, which holds {given!r}", "a recipe: keys and values, see cluster/")
    return Recipe(path, given)


def _check(name: str, given: Mapping[str, Any], kind: Kind) -> None:
    known = {**kind.required, **kind.optional, **({} if kind.wait is None else {"wait": int})}
    for key, value in given.items():
        if key not in known:
            checks.refuse(f"key of {name}", key, nearest(str(key), known))
        wanted = known[key]
        low = wanted is int and isinstance(value, int) and value < 1
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)) or low:
            allowed = {
                int: "a positive integer",
                str: "text",
                dict: "keys and values",
                list: "a list",
                bool: "yes or no",
            }
            checks.refuse(f"{name}, {key}", value, allowed[wanted])
    for key in kind.required:
        if key not in given:
            checks.refuse(f"keys of {name}", sorted(given), f"also {key}")


@contextmanager
def _starting(recipe: Recipe, logger: str | None = None) -> Iterator[None]:
    """ClusterError where a cluster does not start; with a logger's last words, where the error does not say why."""
    said: list[str] = []
    listener = logging.Handler(logging.INFO)
    listener.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    speaker, callbacks = logging.getLogger(logger), logging.getLogger("tornado.application")
    if logger is not None:
        speaker.addHandler(listener)
    before, callbacks.disabled = callbacks.disabled, True  # the same error is raised here
    try:
        yield
    except Exception as error:
        why = "; ".join(" ".join(text.split()) for text in (*said[-1:], f"{type(error).__name__}: {error}"))
        raise ClusterError(f"on: the cluster of {recipe.path} does not start: {why}") from error
    finally:
        callbacks.disabled = before
        speaker.removeHandler(listener)


# ---- the kinds


@contextmanager
def _local(recipe: Recipe) -> Iterator[Client]:
    """Worker processes of this machine."""
    security = True if recipe.get("encrypted") else None
    with clusters.local(recipe.get("workers", clusters.cores()), recipe.get("threads", 1), security) as client:
        yield client


@contextmanager
def _address(recipe: Recipe) -> Iterator[Client]:
    """A scheduler that runs already: by its address, or the file that `dask scheduler --scheduler-file` wrote."""
    address, file = recipe.get("scheduler"), recipe.get("scheduler-file")
    if (address is None) == (file is None):
        checks.refuse(str(recipe.path), {"scheduler": address, "scheduler-file": file}, "one of the two")
    if file is not None:
        try:
            address = json.loads(recipe.file(file).read_text())["address"]
        except (OSError, ValueError, KeyError) as error:
            raise ClusterError(f"on: no scheduler has written {recipe.file(file)}: {error}") from error
    with clusters.at(str(address), recipe.security()) as client:
        yield client


@contextmanager
def _ssh(recipe: Recipe) -> Iterator[Client]:
    """Machines that this one reaches by ssh without a password."""
    from distributed import SSHCluster

    options = {
        "nthreads": 1, "n_workers": recipe.get("workers", 1), "preload": [PRELOAD],
        "env": dict.fromkeys(clusters.THREADS, str(recipe.get("threads", 1))), **recipe.get("worker-options", {}),
    }  # fmt: skip
    with _starting(recipe, "distributed.deploy.ssh"):
        cluster = SSHCluster(
            [recipe.get("scheduler"), *recipe.get("hosts")], connect_options=recipe.get("connect", {}),
            worker_options=options, scheduler_options=recipe.get("scheduler-options", {}),
            remote_python=recipe.get("python"),
        )  # fmt: skip
    with cluster, clusters.at_cluster(cluster) as client:
        yield client


def slurm_cluster(recipe: Recipe) -> Any:
    """Cluster object of dask-jobqueue, without any job yet."""
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError as error:
        raise ClusterError(f"on: {recipe.path} needs dask-jobqueue: pip install dask-jobqueue") from error
    makers = (*SLURMCluster.__mro__, *SLURMCluster.job_cls.__mro__)
    parameters = (each for maker in makers for each in inspect.signature(maker.__init__).parameters.values())
    loose = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
    known = {each.name for each in parameters if each.name != "self" and each.kind not in loose}
    for key in recipe.get("options"):
        if key not in known:
            checks.refuse(f"key of {recipe.path}, options", key, nearest(str(key), known))
    with _starting(recipe):
        return SLURMCluster(**recipe.get("options"))


@contextmanager
def _slurm(recipe: Recipe) -> Iterator[Client]:
    """Jobs of a SLURM cluster; for one whose time is up another is submitted."""
    with ExitStack() as stack:
        cluster = stack.enter_context(slurm_cluster(recipe))
        with _starting(recipe):
            stack.enter_context(renewed(cluster, recipe.get("jobs", 1)))
        yield stack.enter_context(clusters.at_cluster(cluster))


@contextmanager
def _kubernetes(recipe: Recipe) -> Iterator[Client]:
    """A DaskCluster of the operator of dask-kubernetes."""
    try:
        from dask_kubernetes.operator import KubeCluster
    except ImportError as error:
        raise ClusterError(f"on: {recipe.path} needs dask-kubernetes: pip install dask-kubernetes") from error
    manifest, namespace = str(recipe.file(recipe.get("manifest"))), recipe.get("namespace")
    with _starting(recipe):
        cluster = KubeCluster(custom_cluster_spec=manifest, namespace=namespace)
    with cluster, clusters.at_cluster(cluster) as client:
        yield client


class Kind(NamedTuple):
    """What a recipe of one kind may say."""

    connect: Callable[..., Any]
    required: Mapping[str, type] = {}
    optional: Mapping[str, type] = {}
    wait: float | None = clusters.WORKER_SECONDS


KINDS = {
    "local": Kind(_local, {}, {"workers": int, "threads": int, "encrypted": bool}),
    "address": Kind(_address, {}, {"scheduler": str, "scheduler-file": str, "tls": dict}),
    "ssh": Kind(
        _ssh,
        {"scheduler": str, "hosts": list},
        {
            "workers": int, "threads": int, "python": str, "connect": dict, "worker-options": dict,
            "scheduler-options": dict,
        },
    ),
    "slurm": Kind(_slurm, {"options": dict}, {"jobs": int}, QUEUE_SECONDS),
    "kubernetes": Kind(_kubernetes, {"manifest": str}, {"namespace": str}, QUEUE_SECONDS),
}  # fmt: skip
