"""Executors: in turn in this process, on its threads, or on the workers of a Dask cluster."""

from scalable_bandits.execution.base import ClusterError, Event, Execution, InTurn, Threads
from scalable_bandits.execution.connect import connect, executing, resolve

__all__ = ["ClusterError", "Event", "Execution", "InTurn", "Threads", "connect", "executing", "resolve"]
