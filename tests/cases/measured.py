"""Where the measured data are, and the named studies, those without their data skipped."""

import os
from pathlib import Path

import pytest

from cases.paths import ROOT
from scalable_bandits.studies import Study

DATA = Path(os.environ.get("SCALABLE_BANDITS_DATA") or ROOT / "../shared/data")
HAS_DATA = (DATA / "light_sensors.mat").is_file()
NAMES = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            study.needs_data and not HAS_DATA, reason=f"the measured data files are not in {DATA.resolve()}"
        ),
    )
    for name, study in sorted(Study.registry.items())
]
