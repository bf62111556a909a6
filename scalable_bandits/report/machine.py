"""Description of the machine on which a report is made."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from scalable_bandits.report.blocks import Block, facts

LIBRARIES = ("scalable_bandits", "numpy", "scipy", "numba", "xarray", "zarr", "dask", "matplotlib")


def processor() -> str:
    """Return the name of the processor; where the system does not give one, its architecture."""
    try:
        for entry in Path("/proc/cpuinfo").read_text().splitlines():
            if entry.startswith("model name"):
                return entry.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine() -> Block:
    """List processor, memory, system and library versions of this process."""
    import psutil

    memory = psutil.virtual_memory().total / 2**30
    pairs = [
        ("processor", processor()),
        ("cores", os.cpu_count()),
        ("memory", f"{memory:.1f} GiB"),
        ("system", platform.platform()),
        ("Python", platform.python_version()),
    ]
    versions = ((name, metadata.version(name)) for name in LIBRARIES)
    return facts([*pairs, *versions], "Machine and libraries that made this page")
