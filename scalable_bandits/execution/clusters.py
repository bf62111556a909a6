"""Clusters that are found at an address or started on this machine, each as a context manager of its client.

What is started here listens on loopback, has one thread a worker, and is ended whatever happens.
"""

from __future__ import annotations

import gc
import importlib.util
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from scalable_bandits.execution.base import ClusterError

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 10.0  # to wait for an answer from an address
RETURN_TIME = "15 minutes"  # for a worker that died to come back; distributed's 15 s are short on a busy machine
PROFILE_INTERVAL = "100ms"  # of the dashboard's profiles; distributed's 10 ms take a hundredth of every worker
WORKER_SECONDS = 60.0  # to wait for the first worker
TRIM = "MALLOC_TRIM_THRESHOLD_"  # as distributed sets it, every round's arrays are given back and mapped anew
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@contextmanager
def at(address: str, security: Any = None) -> Iterator[Client]:
    """Client of the scheduler at an address; `security` as of `distributed.Client`."""
    from distributed import Client

    client, problem = None, ""
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False, security=security)
    except (OSError, TypeError, ValueError) as error:
        problem = str(error)
        if address.startswith("tls://") and isinstance(error, TypeError):
            problem = (
                "it asks for certificates: a recipe names them, see cluster/tls.yaml (a pickled policy keeps the "
                "certificates of its client where they are in files, not those in memory)"
            )
    if client is None:
        gc.collect()  # the client that was half made: its end blocks whichever thread it comes in
        raise ClusterError(f"on: no scheduler can be reached at {address}: {problem}")
    try:
        yield client
    finally:
        client.close()


@contextmanager
def local(workers: int, threads: int = 1, security: Any = None) -> Iterator[Client]:
    """Client of worker processes of this machine, on loopback, started now and ended with the context.

    Parameters
    ----------
    workers
        How many; each has one task at a time.
    threads
        Of BLAS and numba in each.
    security
        True: encrypted, with certificates made for the occasion, which keeps other users of the machine out too.
    """
    import dask
    from distributed import LocalCluster

    _check_main()
    dashboard = "127.0.0.1:0" if importlib.util.find_spec("bokeh") else None
    environment = {**dask.config.get("distributed.nanny.pre-spawn-environ"), **dict.fromkeys(THREADS, threads)}
    environment.pop(TRIM, None)
    settings = {
        "distributed.nanny.pre-spawn-environ": environment,
        "distributed.worker.memory.terminate": False,  # an experiment may take what the machine has
        "distributed.worker.profile.interval": PROFILE_INTERVAL,
    }
    before = {name: os.environ.get(name) for name in (*THREADS, TRIM)}
    with ExitStack() as stack:
        stack.callback(_restore, before)  # distributed leaves them in the environment of this process
        stack.enter_context(dask.config.set({"distributed.deploy.lost-worker-timeout": RETURN_TIME}))  # read at a loss
        with dask.config.set(settings):
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,  # one task at a time: Python code holds the interpreter's lock
                processes=True,
                host="127.0.0.1",  # nobody else's machine gets in
                security=security,
                dashboard_address=dashboard,  # any free port: 8787 may be another cluster's
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"} if dashboard is None else None,  # the same
                memory_limit=0,  # none, as `terminate` above: neither spilled nor paused
                silence_logs=logging.CRITICAL,  # what fails is reported by whoever gave it out
                preload=["scalable_bandits.execution.ignore_sigint"],
            )
        stack.callback(cluster.close)
        with at_cluster(cluster) as client:
            yield client


@contextmanager
def at_cluster(cluster: Any) -> Iterator[Client]:
    """Client of a cluster object of Dask."""
    from distributed import Client

    client = Client(cluster, set_as_default=False, direct_to_workers=True)  # its workers can be reached from here
    try:
        yield client
    finally:
        client.close()


def _restore(environment: dict[str, str | None]) -> None:
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _check_main() -> None:
    """ClusterError in a process that may start no others: a worker, maybe as it imports the user's script."""
    import multiprocessing.process

    process = multiprocessing.process.current_process()
    if getattr(process, "_inheriting", False):
        raise ClusterError(
            "on: worker processes import the script that started them: put what it does under "
            "'if __name__ == \"__main__\":'"
        )
    if process.daemon:
        raise ClusterError(
            "on: a worker process cannot start others: use its own cluster, on=distributed.get_client(), or None"
        )
