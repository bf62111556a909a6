"""Recipes: files that say how a cluster is started or found (`cluster/`); every one is something `on=` reads.

A recipe is YAML: its ``kind``, and what that kind needs; in all of them ``wait``, the seconds in which the first worker
has to come. A key it does not know is refused, with the nearest one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scalable_bandits import checks
from scalable_bandits.execution import clusters
from scalable_bandits.execution.base import ClusterError
from scalable_bandits.posteriors.placement import cores
from scalable_bandits.specification import nearest

if TYPE_CHECKING:
    from distributed import Client
    from distributed.security import Security

TLS = {"ca": str, "cert": str, "key": str}
ADAPT = {"minimum_jobs": int, "maximum_jobs": int}
LEAST = {"minimum_jobs": 0}  # integer that a key may have; 1 for all others
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
        always: dict[str, type] = {"wait": int}
        _check(str(path), self._settings, KINDS[kind].required, {**KINDS[kind].optional, **always})
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
        _check(f"{self.path}, tls", given, TLS)
        files = {key: self.file(name) for key, name in given.items()}
        for key, file in files.items():
            if not file.is_file():
                raise FileNotFoundError(f"{self.path}: tls: {key}: there is no file {file}")
        from distributed.security import Security

        ca, cert, key = (str(files[name]) for name in TLS)
        return Security(require_encryption=True, tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key)


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


def _check(
    name: str,
    given: Mapping[str, Any],
    required: Mapping[str, type],
    optional: Mapping[str, type] | None = None,
) -> None:
    """Refuse keys that are unknown or missing, and values of another type."""
    known = {**required, **(optional or {})}
    for key, value in given.items():
        if key not in known:
            checks.refuse(f"key of {name}", key, nearest(str(key), known))
        wanted = known[key]
        low = wanted is int and isinstance(value, int) and value < LEAST.get(key, 1)
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)) or low:
            allowed = {
                int: "a positive integer",
                str: "text",
                dict: "keys and values",
                list: "a list",
                bool: "yes or no",
            }
            checks.refuse(f"{name}, {key}", value, allowed[wanted])
    for key in required:
        if key not in given:
            checks.refuse(f"keys of {name}", sorted(given), f"also {key}")


@contextmanager
def _starting(recipe: Recipe, hint: str = "") -> Iterator[None]:
    """ClusterError, with the reason that Dask gives, where a cluster does not start."""
    try:
        yield
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise ClusterError(f"on: the cluster of {recipe.path} does not start: {why}{hint}") from error


# ---- the kinds


@contextmanager
def _local(recipe: Recipe) -> Iterator[Client]:
    """Worker processes of this machine."""
    security = True if recipe.get("encrypted") else None
    with clusters.local(recipe.get("workers", cores()), recipe.get("threads", 1), security) as client:
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
    with _starting(recipe, "; the log of distributed.deploy.ssh has what the other machine said"):
        cluster = SSHCluster(
            [recipe.get("scheduler"), *recipe.get("hosts")], connect_options=recipe.get("connect", {}),
            worker_options=options, scheduler_options=recipe.get("scheduler-options", {}),
            remote_python=recipe.get("python"),
        )  # fmt: skip
    with cluster, clusters.at_cluster(cluster) as client:
        yield client


@contextmanager
def _slurm(recipe: Recipe) -> Iterator[Client]:
    """Jobs of a SLURM cluster: so many, or as many as there is work for."""
    try:
        from dask_jobqueue.slurm import SLURMCluster, SLURMJob
    except ImportError as error:
        raise ClusterError(f"on: {recipe.path} needs dask-jobqueue: pip install dask-jobqueue") from error
    from distributed import Status

    class Job(SLURMJob):  # type: ignore[misc]
        async def close(self) -> None:
            await super().close()
            self.status = Status.closed  # dask-jobqueue 0.9 leaves it; Dask then may fail to close the cluster

    adapt, options = recipe.get("adapt"), recipe.get("options")
    if adapt is not None:
        _check(f"{recipe.path}, adapt", adapt, ADAPT)
        if options.get("processes") != 1:  # dask-jobqueue 0.9 does not see that a job of several workers has ended
            checks.refuse(f"{recipe.path}, adapt", adapt, "jobs of one worker: with `processes: 1` among the options")
    with _starting(recipe):
        cluster = SLURMCluster(job_cls=Job, **options)
    with cluster:
        with _starting(recipe):
            cluster.sync(_submit, cluster, recipe.get("jobs", 1))
        if adapt is not None:
            cluster.adapt(**adapt)
        with clusters.at_cluster(cluster) as client:
            yield client


async def _submit(cluster: Any, jobs: int) -> None:
    """Submit jobs as `cluster.scale(jobs=...)` does, which only logs what Slurm says of one that it refuses."""
    while len(cluster.worker_spec) < jobs:
        cluster.worker_spec.update(cluster.new_worker_spec())
    await cluster


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
    wait: float = clusters.WORKER_SECONDS


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
    "slurm": Kind(_slurm, {"options": dict}, {"jobs": int, "adapt": dict}, QUEUE_SECONDS),
    "kubernetes": Kind(_kubernetes, {"manifest": str}, {"namespace": str}, QUEUE_SECONDS),
}  # fmt: skip
