"""Where the measured data are, and the named studies, those without their data skipped."""

import os
from pathlib import Path
from typing import Any

import pytest

from cases.paths import ROOT
from scalable_bandits.studies import Study

DATA = Path(os.environ.get("SCALABLE_BANDITS_DATA") or ROOT / "../shared/data")
HAS_DATA = (DATA / "light_sensors.mat").is_file()


def first_values(name: str) -> dict[str, list[Any]] | None:
    """The first two values of each axis of a named study; None without axes."""
    return {axis: list(values[:2]) for axis, values in Study.registry[name].axes.items()} or None


NAMES = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            study.needs_data and not HAS_DATA, reason=f"the measured data files are not in {DATA.resolve()}"
        ),
    )
    for name, study in sorted(Study.registry.items())
    if name != "scalability-workers"  # which starts a cluster for each run: a test of its own
]
