"""Clients of clusters at an address or on this machine, and whether their workers can be used.

A cluster that is started here listens on loopback, has one thread a worker, and is always ended. A worker can be used
if functions can be pickled to it (the same minor version of Python) and if it has the same release of scalable_bandits.
Another numpy, scipy or numba may change the last digits of a result and causes a warning.
"""

from __future__ import annotations

import gc
import importlib.util
import logging
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from scalable_bandits import checks
from scalable_bandits.execution.base import ClusterError

if TYPE_CHECKING:
    from distributed import Client

    Versions = Mapping[str, str | None]  # version by name; None for a package that is not installed

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0  # longest wait for an answer from an address
RETURN_TIME = "15 minutes"  # time for a dead worker to come back; distributed's 15 s are short on a busy machine
PROFILE_INTERVAL = "100ms"  # interval of the dashboard's profiles; distributed's 10 ms take 1 % of every worker
WORKER_SECONDS = 60.0  # longest wait for the first worker
PATIENCE_SECONDS = 10.0  # wait after which a message says that there is no worker yet
ASKING = "scalable_bandits asks for a worker"  # name of a task, without "-": Dask shows the text before it
SCRATCH = "dask-scratch-space"  # part of the folders that scheduler and nannies put into this process's `sys.path`
TRIM = "MALLOC_TRIM_THRESHOLD_"  # distributed's value makes every round return and map its memory again
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
DECISIVE = ("python", "scalable_bandits")  # releases that have to be the same
DIGITS = ("numpy", "scipy", "numba")  # versions that may change the last digits of a result
LISTED = 5  # most workers that a message names
GUARD = "worker processes import the script that started them: put what it does under 'if __name__ == \"__main__\":'"


def at(address: str, security: Any = None) -> Client:
    """Return a client of the scheduler at an address; for `security` see `distributed.Client`."""
    from distributed import Client

    try:
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False, security=security)
    except (OSError, TypeError, ValueError) as error:
        problem = str(error)
        if address.startswith("tls://") and isinstance(error, TypeError):
            problem = (
                "it asks for certificates: a recipe names them, see cluster/tls.yaml (a pickled policy keeps the "
                "certificates of its client where they are in files, not those in memory)"
            )
    gc.collect()  # the incomplete client: its end blocks the thread in which it is collected
    raise ClusterError(f"on: no scheduler can be reached at {address}: {problem}")


def at_cluster(cluster: Any) -> Client:
    """Return a client of a cluster object of Dask."""
    from distributed import Client

    return Client(cluster, set_as_default=False, direct_to_workers=True)  # its workers can be reached from here


@contextmanager
def local(workers: int, threads: int = 1, security: Any = None) -> Iterator[Client]:
    """Start worker processes of this machine and yield their client; they end with the context.

    Parameters
    ----------
    workers
        Number of worker processes, each with one task at a time.
    threads
        Number of threads of BLAS and numba in each worker.
    security
        True for encryption with certificates made now, which also excludes other users of this machine.
    """
    import dask
    from distributed import LocalCluster

    from scalable_bandits.execution import local_worker

    _check_may_start_processes(within_worker=local_worker.inside[0])
    dashboard = "127.0.0.1:0" if importlib.util.find_spec("bokeh") else None
    environment = {**dask.config.get("distributed.nanny.pre-spawn-environ"), **dict.fromkeys(THREADS, threads)}
    environment.pop(TRIM, None)
    settings = {
        "distributed.nanny.pre-spawn-environ": environment,
        "distributed.worker.memory.terminate": False,  # an experiment may use the machine's whole memory
        "distributed.worker.profile.interval": PROFILE_INTERVAL,
    }
    path = list(sys.path)
    with ExitStack() as stack:
        stack.enter_context(dask.config.set({"distributed.deploy.lost-worker-timeout": RETURN_TIME}))  # read at a loss
        with dask.config.set(settings):
            try:
                cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,  # one task at a time: Python code holds the interpreter's lock
                    worker_class=local_worker.LocalNanny,
                    host="127.0.0.1",  # no access from other machines
                    security=security,
                    dashboard_address=dashboard,  # any free port: 8787 may belong to another cluster
                    scheduler_kwargs=None if dashboard else {"dashboard_address": "127.0.0.1:0"},  # any free port
                    memory_limit=0,  # no limit: workers neither spill nor pause
                    silence_logs=logging.CRITICAL,  # errors are reported by the caller of the tasks
                    preload=["scalable_bandits.execution.local_worker"],
                )
            except RuntimeError as error:
                raise ClusterError(f"on: no worker process could be started ({error}): {GUARD}") from error
        stack.callback(cluster.close)
        sys.path[:] = [each for each in sys.path if each in path or SCRATCH not in each]
        yield stack.enter_context(at_cluster(cluster))


def _check_may_start_processes(within_worker: bool) -> None:
    """Raise ClusterError in a worker process, also while it imports the user's script."""
    import multiprocessing.process

    process = multiprocessing.process.current_process()
    if getattr(process, "_inheriting", False):
        raise ClusterError(f"on: {GUARD}")
    if process.daemon or within_worker:
        raise ClusterError(
            "on: a worker process cannot start a cluster: use its own cluster, on=distributed.get_client(), or None"
        )


def await_worker(client: Client, seconds: float | None = None) -> None:
    """Wait for the first worker for some seconds (`WORKER_SECONDS` if not given).

    Raises
    ------
    ClusterError
        If there is no worker after that time.
    """
    if client.scheduler_info(n_workers=-1)["workers"]:
        return
    seconds = WORKER_SECONDS if seconds is None else seconds
    text = f"on: the scheduler at {_address(client)} has no workers"
    soon = min(PATIENCE_SECONDS, seconds)
    task = client.submit(bool, key=f"{ASKING}-{uuid.uuid4().hex}", pure=False)  # an adaptive cluster needs a task
    try:
        if _has_worker(client, soon):
            return
        if seconds > soon:
            logger.warning("%s yet; waiting up to %.0f s for the first", text, seconds)
        if not _has_worker(client, seconds - soon):
            raise ClusterError(f"{text}, and none came in {seconds:.0f} s (a recipe may say `wait:`)")
    finally:
        task.release()


def connection_lost(client: Client, kept: str) -> ClusterError:
    """Return the error of a lost connection, with a sentence about what is kept."""
    return ClusterError(f"on: the connection to the scheduler at {_address(client)} was lost; {kept}")


def _address(client: Client) -> str:
    return str(client.scheduler.address) if client.scheduler else "its address"


def _has_worker(client: Client, seconds: float) -> bool:
    """Return whether there is a worker within some seconds."""
    try:
        client.wait_for_workers(1, timeout=max(seconds, 0.01))
    except TimeoutError:
        return False
    return True


# ---- software on the workers


def check_versions(client: Client) -> None:
    """Compare the versions on all workers with those of this process; warn if the last digits may differ.

    Raises
    ------
    ClusterError
        If a worker cannot be used.
    """
    found: Any = client.get_versions(packages=[*DECISIVE[1:], *DIGITS])
    ours, workers = found["client"]["packages"], {w: info["packages"] for w, info in sorted(found["workers"].items())}
    if unfit := _differences(ours, workers, DECISIVE, release):
        raise ClusterError(
            "on: every worker needs the same release of scalable_bandits and the same minor version of Python as this "
            f"process:{unfit}"
        )
    if other := _differences(ours, workers, DIGITS, lambda version: version):
        checks.warn(f"on: the last digits may differ from those of one process:{other}")


def release(version: str | None) -> str | None:
    """Return the first two numbers of a version.

    Examples
    --------
    >>> release("3.11.7")
    '3.11'
    """
    return None if version is None else ".".join(version.split(".")[:2])


def _differences(
    ours: Versions, workers: Mapping[str, Versions], names: Sequence[str], part: Callable[[str | None], str | None]
) -> str:
    """Return a line for each of the first workers in which a part of some versions is another than ours."""
    lines = []
    for worker, theirs in workers.items():
        different = [name for name in names if part(theirs.get(name)) != part(ours.get(name))]
        said = [f"{name} {theirs.get(name) or 'is missing'} (here {ours.get(name)})" for name in different]
        lines += [f"{worker}: {', '.join(said)}"] if said else []
    more = [f"and {len(lines) - LISTED} more"] if len(lines) > LISTED else []
    return "".join(f"\n  {line}" for line in lines[:LISTED] + more)
