"""Tables of the package bocode: pools of HPO-B, networks of LCBench, and silver nanoparticles.

HPO-B: Pineda-Arango, Jomaa, Wistuba & Grabocka 2021; its authors' file has logarithms of columns that HPO-B has
on a linear scale, and scales all columns to [0, 1], as FixedHPO-B does. LCBench: Zimmer, Lindauer & Hutter 2021. Silver
nanoparticles: Mekki-Berrada et al. 2021.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments.noise import Noise
from scalable_bandits.environments.published.sources import BOCODE, PublishedTable, Source, cached
from scalable_bandits.spaces import Integer, Parameter, Points, Real, SearchSpace, Settings
from scalable_bandits.specification import check_name

_RPART = "minsplit minsplit.na minbucket cp maxdepth maxdepth.na"
_SVM = "cost gamma gamma.na degree degree.na kernel.ohe._INVALID kernel.ohe._linear kernel.ohe._polynomial"
_GLMNET = "alpha lambda"
_REPLACE = "replace.ohe._FALSE replace.ohe._INVALID"
_RESPECT = "respect.unordered.factors.ohe._INVALID respect.unordered.factors.ohe._TRUE"
_RANGER = f"num.trees num.trees.na mtry sample.fraction min.node.size min.node.size.na {_REPLACE} {_RESPECT}"
_RANGER_2 = f"num.trees num.trees.na mtry min.node.size sample.fraction {_RESPECT} {_REPLACE}"
_DEPTH = "max_depth max_depth.na min_child_weight min_child_weight.na"
_COLUMNS = "colsample_bytree colsample_bytree.na colsample_bylevel colsample_bylevel.na"
_BOOSTER = "booster.ohe._INVALID booster.ohe._gblinear"
_XGBOOST = f"eta {_DEPTH} subsample {_COLUMNS} lambda alpha nrounds nrounds.na {_BOOSTER}"
_XGBOOST_2 = f"eta subsample lambda alpha nthread nthread.na nrounds nrounds.na {_DEPTH} {_COLUMNS} {_BOOSTER}"
NAMES = {  # columns by space
    "4796": "minsplit minbucket cp", "5527": _SVM, "5636": _RPART, "5859": _RPART,
    "5889": f"num.trees num.trees.na mtry sample.fraction {_REPLACE}", "5891": _SVM, "5906": _XGBOOST, "5965": _RANGER,
    "5970": _GLMNET, "5971": _XGBOOST, "6766": _GLMNET, "6767": _XGBOOST_2, "6794": _RANGER, "7607": _RANGER_2,
    "7609": _RANGER_2,
}  # fmt: skip


class HPOB(PublishedTable):
    """Accuracy, in [0, 1], of a learner at the hyperparameters that were tried on an OpenML data set.

    The arms are points of the unit cube: each hyperparameter is scaled to [0, 1]. A column whose name ends in ".na" is
    1 where that hyperparameter was not set, and one with ".ohe." is 1 where its value was chosen. Equal rows (at most
    16 pairs, in pools of space 5527) are repeats of one arm, and a pull returns one of them. The file has all numbers
    in 32 bits.

    Parameters
    ----------
    space
        Identifier of the search space, a key of `TASKS`, such as "5970".
    dataset
        Identifier of the OpenML task, one of `TASKS[space]`, such as "37".
    noise, seed
        Noise that is added, none if not given; seed of the choice of repeats and of the noise.

    Attributes
    ----------
    TASKS : dict of str to tuple of str
        Identifiers of the data sets by search space; 92 pools of 100 to 102,306 rows.
    names : tuple of str
        Names of the columns.

    Raises
    ------
    ValueError
        If the space is unknown, or has no such data set.
    DataMissing
        If the package bocode is not installed.
    """

    SOURCE: ClassVar[Source] = BOCODE
    TASKS: ClassVar[dict[str, tuple[str, ...]]] = {space: tuple(ids.split()) for space, ids in {
        "4796": "23 3549 3918 9903 9906 9946",
        "5527": "31 9914 10101 145804 146064 146065",
        "5636": "31 9914 10101 145804 146064 146065",
        "5859": "31 37 3902 9977 9983 125923",
        "5889": "31 49 3493 3918 3950 9971",
        "5891": "3492 3891 3899 6566 9889 9980",
        "5906": "3889 3896 3918 9970 9971 9977",
        "5965": "49 3903 9889 9914 9946 10101 145836",
        "5970": "37 49 3492 9952 14951 34536",
        "5971": "43 3954 6566 9970 10093 34536",
        "6766": "31 3903 10101 145804 145953 146064",
        "6767": "31 9914 9967 145804 146064 146065",
        "6794": "3 31 9914 10101 145804 146065",
        "7607": "3896 3903 3913 9946 9967 145976",
        "7609": "3903 9967 34537 125923 145853 145854 145878",
    }.items()}  # fmt: skip

    def __init__(self, space: str, dataset: str, *, noise: Noise | None = None, seed: int = 0):
        self.task = check_name("space", space, self.TASKS), check_name("dataset", dataset, self.TASKS[space])
        self.names = tuple(NAMES[space].split())
        path = BOCODE.file("opt_problems", "hpo", "data", "hpob_data.npz")
        points, measured = _pool(path, f"{space}_{dataset}")
        super().__init__(points, measured, noise, seed, space=space, dataset=dataset)


@cached
def _pool(path: Path, key: str) -> tuple[Points, Floats]:
    """Read the distinct rows of a pool, and their accuracies (n, r), or (n,) if no row is repeated."""
    from scalable_bandits.environments.table_columns import distinct  # late, since pandas is heavy

    with np.load(path, allow_pickle=False) as file:
        table = np.asarray(file[key], dtype=np.float64)
    rows, measured = distinct(table[:, :-1], table[:, -1:])
    return Points(rows), checks.frozen(measured)


NETWORKS: dict[str, Parameter] = {  # in the order of the file; the scales are those on which the values are uniform
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
        settings, values = _networks(BOCODE.file("opt_problems", "hpo", "data", "lcbench_data.npz"), dataset)
        super().__init__(settings, values, noise, seed, dataset=dataset)


@cached
def _networks(path: Path, dataset: str) -> tuple[Settings, Floats]:
    """Read the settings of a data set, and their accuracies (n,)."""
    with np.load(path, allow_pickle=False) as file:
        table = np.asarray(file[dataset], dtype=np.float64)
    return Settings(SearchSpace(NETWORKS), table[:, :-1]), checks.frozen(table[:, -1].copy())


FLOWS = ("QAgNO3", "Qpva", "Qtsc", "Qseed", "Qtot")  # as in the file, without the units


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
        settings, measured = _flows(BOCODE.file("opt_problems", "materials", "data", "AgNP_dataset.csv"))
        super().__init__(settings, measured, noise, seed)


@cached
def _flows(path: Path) -> tuple[Settings, Floats]:
    """Read the settings, and minus the losses (n, r) that were measured."""
    from scalable_bandits.environments.table_columns import arms_of, read  # late, since pandas is heavy

    *columns, losses = np.loadtxt(path, delimiter=",", skiprows=1, encoding="utf-8-sig").T
    table = read({**dict(zip(FLOWS, columns, strict=True)), "loss": losses})
    settings, measured = arms_of(table, "loss", list(FLOWS))
    return settings, -measured
