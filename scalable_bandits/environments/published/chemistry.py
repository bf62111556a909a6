"""Ten measured campaigns of chemistry and materials science. Source: Haese et al. 2021 (Olympus).

Read from the files of the package olymp. Its configurations do not always fit its data, so names and units are listed
here:

- the configuration of alkox names the parameters of snar;
- the measurement of snar is called impurity, and is an e-factor by its description;
- the descriptions of photo_pce10 and photo_wf3 call the first material PCE10 or WF3. All 65 blends without the second
  material have the same measurements in both files, so the second is PCE10 or WF3, and the first P3HT.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.environments.noise import Noise
from scalable_bandits.environments.published.sources import OLYMPUS, PublishedTable, Source, cached
from scalable_bandits.spaces import Settings
from scalable_bandits.specification import check_name


class Campaign(NamedTuple):
    """Columns of a campaign, and what is measured."""

    columns: tuple[str, ...]  # parameters, in the order of the file
    measured: str
    unit: str  # unit of the measurement; empty if it is not published
    minimize: bool = False


CAMPAIGNS = {
    "alkox": Campaign(
        ("catalase", "horseradish_peroxidase", "alcohol_oxidase", "pH"), "conversion", ""
    ),
    "benzylation": Campaign(("flow_rate", "ratio", "solvent", "temperature"), "impurity", "per cent", True),
    "colors_bob": Campaign(("red", "orange", "yellow", "blue", "green"), "difference_to_green", "", True),
    "colors_n9": Campaign(("red", "green", "blue"), "difference_to_green", "distance of RGB in [0, 1]^3", True),
    "fullerenes": Campaign(("reaction_time", "sultine", "temperature"), "product", "mole fraction"),
    "hplc": Campaign(
        ("sample_loop", "additional_volume", "tubing_volume", "sample_flow", "push_speed", "wait_time"), "peak_area", ""
    ),
    "photo_pce10": Campaign(("P3HT", "PCE10", "PCBM", "oIDTBR"), "degradation", "", True),
    "photo_wf3": Campaign(("P3HT", "WF3", "PCBM", "oIDTBR"), "degradation", "", True),
    "snar": Campaign(("residence_time", "ratio", "concentration", "temperature"), "e_factor", "mass by mass", True),
    "suzuki": Campaign(("temperature", "pd_mol", "arbpin", "k3po4"), "yield", "per cent"),
}  # fmt: skip


class Chemistry(PublishedTable):
    """Measured campaign of chemistry or materials science; its arms are the settings that were measured.

    f is the average measurement of a setting, negated where small measurements are wanted. Rows with equal settings are
    repeats of one arm, and a pull returns one of them. Rows with a cell that is empty or not a finite number are left
    out; the version read has none. Measurements of 0 are kept, such as the 229 peak areas of 0 in hplc. In alkox the
    two rows of each setting are copies of each other.

    Parameters
    ----------
    campaign
        Name of the campaign, one of `CAMPAIGNS`.
    noise, seed
        Noise that is added, none if not given; seed of the choice of repeats and of the noise.

    Attributes
    ----------
    CAMPAIGNS : dict
        Names of the parameters, name and unit of the measurement, and whether it is minimised, by campaign.

    Raises
    ------
    ValueError
        If the campaign is unknown.
    DataMissing
        If the package olymp is not installed.
    """

    SOURCE: ClassVar[Source] = OLYMPUS
    CAMPAIGNS: ClassVar[dict[str, Campaign]] = CAMPAIGNS

    def __init__(self, campaign: str, *, noise: Noise | None = None, seed: int = 0):
        self.campaign = check_name("campaign", campaign, CAMPAIGNS)
        path = OLYMPUS.file("datasets", f"dataset_{campaign}", "data.csv")
        settings, measured = _read(path, CAMPAIGNS[campaign])
        super().__init__(settings, measured, noise, seed, campaign=campaign)


@cached
def _read(path: Path, campaign: Campaign) -> tuple[Settings, Floats]:
    """Read the settings of a campaign, and f of its rows (n, r), or (n,) if no setting is repeated."""
    from scalable_bandits.environments.table_columns import arms_of, read  # late, since pandas is heavy

    rows = np.genfromtxt(path, delimiter=",", ndmin=2)
    rows = rows[np.isfinite(rows).all(axis=1)]
    *columns, values = rows.T
    table = read({**dict(zip(campaign.columns, columns, strict=True)), campaign.measured: values})
    settings, measured = arms_of(table, campaign.measured, list(campaign.columns))
    return settings, -measured if campaign.minimize else measured
