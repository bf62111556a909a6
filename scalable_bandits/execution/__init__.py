"""Executors: in turn in this process, on its threads, or on the workers of a Dask cluster."""

from __future__ import annotations

from typing import Any

from scalable_bandits._renamed import renamed
from scalable_bandits.execution.base import ClusterError, Event, Execution, InTurn, Threads
from scalable_bandits.execution.connect import connect, executing, resolve

__all__ = ["ClusterError", "Event", "Execution", "InTurn", "Threads", "connect", "executing", "resolve"]


def __getattr__(name: str) -> Any:
    if name == "warmup":
        return renamed("execution", "warmup", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
