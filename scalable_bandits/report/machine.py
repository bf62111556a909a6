"""On what a report was made."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from scalable_bandits.report.blocks import Block, facts

LIBRARIES = ("scalable_bandits", "numpy", "scipy", "numba", "xarray", "zarr", "dask", "matplotlib")


def processor() -> str:
    """Name of the processor, as far as the system tells."""
    try:
        for entry in Path("/proc/cpuinfo").read_text().splitlines():
            if entry.startswith("model name"):
                return entry.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine() -> Block:
    """Machine and versions of this process."""
    import psutil

    memory = psutil.virtual_memory().total / 2**30
    pairs = [
        ("processor", processor()),
        ("cores", os.cpu_count()),
        ("memory", f"{memory:.1f} GiB"),
        ("system", platform.platform()),
        ("Python", platform.python_version()),
    ]
    return facts([*pairs, *((name, metadata.version(name)) for name in LIBRARIES)])
