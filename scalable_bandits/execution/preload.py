"""Preload for workers: ``dask worker --preload scalable_bandits.execution.preload ...``.

The compiled code is there before the first task, made once a machine. Numba keeps it beside the package, or in the
user's cache folder where that cannot be written; NUMBA_CACHE_DIR (set before the worker starts) names a disk of the
machine's own where both are on a shared one.
"""

from __future__ import annotations

from typing import Any

from scalable_bandits.warmup import warmup


def dask_setup(worker: Any) -> None:
    """Called by Dask as a worker starts."""
    warmup()
