"""Where the measured data are, and the named studies, those without their data skipped."""

import os
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

from cases.paths import ROOT
from scalable_bandits.studies import Study

DATA = Path(os.environ.get("SCALABLE_BANDITS_DATA") or ROOT / "../shared/data")
MEASURED = (  # variables of a timed study, which differ from run to run
    "seconds", "warm_up_seconds", "round_seconds", "round_seconds_90", "round_seconds_99", "elapsed", "peak_memory",
    "peak_memory_of_workers", "messages", "bytes_sent", "bytes_received",
)  # fmt: skip
HAS_DATA = (DATA / "light_sensors.mat").is_file()
needs_data = pytest.mark.skipif(not HAS_DATA, reason=f"the measured data files are not in {DATA.resolve()}")


def first_values(name: str) -> dict[str, list[Any]] | None:
    """The first two values of each axis of a named study; None without axes."""
    return {axis: list(values[:2]) for axis, values in Study.registry[name].axes.items()} or None


def installed(package: str) -> bool:
    """Whether a package of the index is installed."""
    try:
        return bool(distribution(package))
    except PackageNotFoundError:
        return False


def missing(name: str) -> list[str]:
    """The packages with data of a named study that are not installed."""
    return [package for package in Study.registry[name].packages if not installed(package)]


def needs(name: str) -> list[pytest.MarkDecorator]:
    """Marks of tests of a named study: its files and packages have to be there."""
    packages = pytest.mark.skipif(bool(missing(name)), reason=f"not installed: {', '.join(missing(name))}")
    return [packages, *[needs_data] * Study.registry[name].needs_data]


# Not in `NAMES`: starts a cluster for each run; those that are large, or differ from another one by their data alone.
OWN_TESTS = ("scalability-workers", "hpolib-long", "hpob-transfer", "bbob-noisy", "nasbench201", "chemistry")

NAMES = [pytest.param(name, marks=needs(name)) for name in sorted(Study.registry) if name not in OWN_TESTS]
