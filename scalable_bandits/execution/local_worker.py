"""Worker processes of `on="local"`: their environment, and what they do as they start (this is their preload module).

Limits of BLAS' threads have to be in the environment that a process starts with: a script may import numpy or torch
before any of its workers' code runs. Dask's nanny, which lives in the user's process, puts them into `os.environ`
there, for good. Numba reads that before every compilation, and raises an error if it has started more threads.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Mapping
from typing import Any

from distributed import Nanny

MARK = "__DASK_PARENT_PID"  # variable that every start of a worker leaves in `os.environ`


class LocalNanny(Nanny):
    """Nanny that gives its worker an environment and leaves that of its own process, `os.environ`, as it is."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self._environment, self.pre_spawn_env = Inherited(self.pre_spawn_env), {}

    async def instantiate(self) -> Any:
        """Start the worker process, also after its death."""
        with self._environment:
            return await super().instantiate()


class Inherited:
    """Context in which processes that start inherit variables that `os.environ` of this process does not show.

    Workers start side by side: the first one that enters the context sets the variables, the last one that leaves it
    gives them the values of `os.environ` again.

    Parameters
    ----------
    variables
        Their values, by name.
    """

    _lock, _starting = threading.Lock(), 0
    _marked, _chosen = False, True  # whether the mark was there before, and a start method of multiprocessing chosen

    def __init__(self, variables: Mapping[str, str]):
        self._variables = variables

    def __enter__(self) -> None:
        with Inherited._lock:
            if not Inherited._starting:
                Inherited._marked = MARK in os.environ
                Inherited._chosen = multiprocessing.get_start_method(allow_none=True) is not None
            Inherited._starting += 1
            for name, value in self._variables.items():
                os.putenv(name, value)

    def __exit__(self, *_: object) -> None:
        with Inherited._lock:
            Inherited._starting -= 1
            if Inherited._starting:
                return
            if not Inherited._marked:
                os.environ.pop(MARK, None)
            if not Inherited._chosen:  # multiprocessing chose one as it started a process; the user still may
                multiprocessing.set_start_method(None, force=True)
            for name in self._variables:
                if name in os.environ:
                    os.putenv(name, os.environ[name])
                else:
                    os.unsetenv(name)


inside = [False]  # whether this process is a worker of `on="local"`, or a child of one


def dask_setup(worker: Any) -> None:
    """Have a starting worker ignore Ctrl-C, and let its tasks start processes; Dask calls this function.

    Ctrl-C interrupts the main process, which then ends its workers. There, a worker is a daemon, which is ended with
    the process. In the worker itself, multiprocessing would let no daemon start processes, and start them as Dask has
    started the worker: by importing the function, which a function of the user's script does not allow.
    """
    inside[0] = True
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    multiprocessing.current_process().daemon = False
    multiprocessing.set_start_method(None, force=True)  # Python's default, as in the script
