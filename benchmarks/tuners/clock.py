"""Time that a tuner takes, here or in its own process, without that of evaluations."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks.tuners.peers.apart import cpu_seconds


class Clock:
    """CPU and wall seconds of the steps of a tuner."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    def timed(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a step, whose time counts."""
        started, began = cpu_seconds(), time.perf_counter()
        result = step(*arguments)
        self.cpu, self.wall = self.cpu + cpu_seconds() - started, self.wall + time.perf_counter() - began
        return result
