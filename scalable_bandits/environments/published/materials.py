"""Silver nanoparticles made with 164 settings of a machine. Source: Mekki-Berrada et al. 2021. Read from bocode."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.environments.noise import Noise
from scalable_bandits.environments.published.sources import BOCODE, PublishedTable, Source, cached
from scalable_bandits.spaces import Settings

COLUMNS = ("QAgNO3", "Qpva", "Qtsc", "Qseed", "Qtot")  # as in the file, without the units


class SilverNanoparticles(PublishedTable):
    """Minus the loss of silver nanoparticles at 164 settings of five flows, each measured 4 to 48 times.

    The loss is that between the measured spectrum and the one that is wanted; it has no unit. A pull returns one of the
    measurements. QAgNO3, Qpva, Qtsc and Qseed are flows in per cent of the total flow Qtot, which is in microlitres a
    minute. The four flows add up to less than 100 per cent.

    Parameters
    ----------
    noise, seed
        Noise that is added, none if not given; seed of the choice of measurements and of the noise.

    Raises
    ------
    DataMissing
        If the package bocode is not installed.
    """

    SOURCE: ClassVar[Source] = BOCODE

    def __init__(self, *, noise: Noise | None = None, seed: int = 0):
        settings, measured = _read(BOCODE.file("opt_problems", "materials", "data", "AgNP_dataset.csv"))
        super().__init__(settings, measured, noise, seed)


@cached
def _read(path: Path) -> tuple[Settings, Floats]:
    """Read the settings, and minus the losses (n, r) that were measured."""
    from scalable_bandits.environments.table_columns import arms_of, read  # late, since pandas is heavy

    *columns, losses = np.loadtxt(path, delimiter=",", skiprows=1, encoding="utf-8-sig").T
    table = read({**dict(zip(COLUMNS, columns, strict=True)), "loss": losses})
    settings, measured = arms_of(table, "loss", list(COLUMNS))
    return settings, -measured
