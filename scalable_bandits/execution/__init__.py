"""Where work runs: in turn in this process, on its threads, or on the workers of a Dask cluster."""

from __future__ import annotations

from scalable_bandits.execution.base import ClusterError, Event, Execution, InTurn, Threads
from scalable_bandits.execution.places import connect, executing, resolve
from scalable_bandits.execution.warming import warmup

__all__ = ["ClusterError", "Event", "Execution", "InTurn", "Threads", "connect", "executing", "resolve", "warmup"]
