"""Recipes: files that say how a cluster is started or found (`cluster/`); every one is something `on=` reads.

A recipe is YAML: its ``kind``, and what that kind needs. A key it does not know is refused, with the nearest one.
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
from scalable_bandits.specification import nearest

if TYPE_CHECKING:
    from distributed import Client
    from distributed.security import Security

TLS = {"ca": str, "cert": str, "key": str}
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
        _check(f"{self.path}, tls", given, Kind(clusters.at, TLS))
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
    known = {**kind.required, **kind.optional}
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
    return SLURMCluster(**recipe.get("options"))


@contextmanager
def _slurm(recipe: Recipe) -> Iterator[Client]:
    """Jobs of a SLURM cluster."""
    with slurm_cluster(recipe) as cluster:
        cluster.scale(jobs=recipe.get("jobs", 1))
        with clusters.at_cluster(cluster) as client:
            yield client


@contextmanager
def _kubernetes(recipe: Recipe) -> Iterator[Client]:
    """A DaskCluster of the operator of dask-kubernetes."""
    try:
        from dask_kubernetes.operator import KubeCluster
    except ImportError as error:
        raise ClusterError(f"on: {recipe.path} needs dask-kubernetes: pip install dask-kubernetes") from error
    namespace = recipe.get("namespace")
    with (
        KubeCluster(custom_cluster_spec=str(recipe.file(recipe.get("manifest"))), namespace=namespace) as cluster,
        clusters.at_cluster(cluster) as client,
    ):
        yield client


class Kind(NamedTuple):
    """What a recipe of one kind may say."""

    connect: Callable[..., Any]
    required: Mapping[str, type] = {}
    optional: Mapping[str, type] = {}


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
    "slurm": Kind(_slurm, {"options": dict}, {"jobs": int}),
    "kubernetes": Kind(_kubernetes, {"manifest": str}, {"namespace": str}),
}  # fmt: skip
