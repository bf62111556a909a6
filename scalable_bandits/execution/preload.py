"""Preload module for workers: ``dask worker --preload scalable_bandits.execution.preload ...``.

It compiles everything before the first task, once a machine. Numba stores compiled code beside the package, or in the
user's cache folder if that is read-only. If both are on a disk shared between machines, set NUMBA_CACHE_DIR to a folder
of the machine before the worker starts.
"""

from __future__ import annotations

from typing import Any

from scalable_bandits.warmup import warmup


def dask_setup(worker: Any) -> None:
    """Compile everything as a worker starts; Dask calls this function."""
    warmup()
