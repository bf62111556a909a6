"""Networks of LCBench on 35 data sets. Source: Zimmer, Lindauer & Hutter 2021. Read from a file of bocode."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments.noise import Noise
from scalable_bandits.environments.published.sources import BOCODE, PublishedTable, Source, cached, check_name
from scalable_bandits.spaces import Integer, Parameter, Real, SearchSpace, Settings

PARAMETERS: dict[str, Parameter] = {  # in the order of the file; the scales are those on which the values are uniform
    "batch_size": Integer(16, 512, log=True),
    "learning_rate": Real(1e-4, 1e-1, log=True),
    "max_dropout": Real(0.0, 1.0),
    "max_units": Integer(64, 1024, log=True),
    "momentum": Real(0.1, 0.99, log=True),
    "num_layers": Integer(1, 4),
    "weight_decay": Real(1e-5, 1e-1),
}


class LCBench(PublishedTable):
    """Validation accuracy, in per cent, of a network after training, at 2,000 settings of seven parameters.

    The settings are the same for all data sets, and each was measured once. The file has all numbers in 32 bits, so a
    learning rate of 0.001 is 0.0010000000474974513 here.

    Parameters
    ----------
    dataset
        Name of the data set, one of `DATASETS`.
    noise, seed
        Noise that is added, none if not given; seed of the noise.

    Attributes
    ----------
    DATASETS : tuple of str
        Names of the data sets.

    Raises
    ------
    ValueError
        If the data set is unknown.
    DataMissing
        If the package bocode is not installed.
    """

    SOURCE: ClassVar[Source] = BOCODE
    DATASETS: ClassVar[tuple[str, ...]] = (
        "APSFailure", "Amazon_employee_access", "Australian", "Fashion_MNIST", "KDDCup09_appetency", "MiniBooNE",
        "adult", "airlines", "albert", "bank_marketing", "blood_transfusion_service_center", "car", "christine",
        "cnae_9", "connect_4", "covertype", "credit_g", "dionis", "fabert", "helena", "higgs", "jannis", "jasmine",
        "jungle_chess_2pcs_raw_endgame_complete", "kc1", "kr_vs_kp", "mfeat_factors", "nomao", "numerai28_6",
        "phoneme", "segment", "shuttle", "sylvine", "vehicle", "volkert",
    )  # fmt: skip

    def __init__(self, dataset: str, *, noise: Noise | None = None, seed: int = 0):
        self.dataset = check_name("dataset", dataset, self.DATASETS)
        settings, values = _read(BOCODE.file("opt_problems", "hpo", "data", "lcbench_data.npz"), dataset)
        super().__init__(settings, values, noise, seed, dataset=dataset)


@cached
def _read(path: Path, dataset: str) -> tuple[Settings, Floats]:
    """Read the settings of a data set, and their accuracies (n,)."""
    with np.load(path, allow_pickle=False) as file:
        table = np.asarray(file[dataset], dtype=np.float64)
    return Settings(SearchSpace(PARAMETERS), table[:, :-1]), checks.frozen(table[:, -1].copy())
