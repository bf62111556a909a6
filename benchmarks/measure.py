"""Timing, memory and the machine's description."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Line(NamedTuple):
    """One printed measurement."""

    what: str
    ours: str
    against: str
    ratio: str
    asked: str


def timed(function: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Median seconds over repeats, and the last result."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds), result


def interval(ratios: Sequence[float]) -> str:
    """Return the median of ratios, with its 95 % interval (a sign test's, from the order of the ratios)."""
    ordered = np.sort(ratios)
    reach = int(np.ceil(0.98 * len(ordered) ** 0.5))
    low, high = (
        ordered[max(len(ordered) // 2 - reach, 0)],
        ordered[min((len(ordered) - 1) // 2 + reach, len(ordered) - 1)],
    )
    return f"{np.median(ordered):.2f} [{low:.2f}, {high:.2f}]"


def peak_memory() -> float:
    """Largest resident size of this process so far, in GB; not of the process that started it, unlike `ru_maxrss`."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024 / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def fresh(code: str, repeats: int = 1) -> list[float]:
    """Run code in fresh interpreters; it prints numbers, whose medians over the repeats are returned."""
    runs = []
    for _ in range(repeats):
        output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        runs.append([float(number) for number in output.split()])
    return [statistics.median(column) for column in zip(*runs, strict=True)]


def machine() -> str:
    """Processor, cores, and the BLAS with its threads."""
    from threadpoolctl import threadpool_info

    pools = {
        f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')} x{pool['num_threads']}"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":")[1].strip() for line in lines if "model name" in line), "")
    return f"{model or platform.processor()}, {os.cpu_count()} cores, {', '.join(sorted(pools))}"
