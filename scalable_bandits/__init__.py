"""Gaussian-process bandits for long horizons, large spaces and many priors.

Import the package as ``sb``; its spaces, kernels, policies and environments are names of this module.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

from scalable_bandits import kernels, policies
from scalable_bandits.commands import Command, CommandFailed
from scalable_bandits.environments import (
    AutoregressiveProcess,
    Benchmark,
    DataMissing,
    DriftingFunction,
    Environment,
    FunctionEnvironment,
    GaussianNoise,
    GPSample,
    MovingSearchSpace,
    RademacherNoise,
    RKHSFunction,
    SensorPanel,
    StudentTNoise,
    TableEnvironment,
    UniformNoise,
)
from scalable_bandits.formulas.information_gain import growth_rate, improved_matern_rate
from scalable_bandits.formulas.rates import cell_gain_rate, cells_rate, partition_exponents, partition_regret_exponent
from scalable_bandits.kernels import *  # noqa: F403 - its `__all__`
from scalable_bandits.policies import *  # noqa: F403 - its `__all__`
from scalable_bandits.policies.confidence import UnprovenWidth
from scalable_bandits.policies.contradiction import AllMeasured, ContradictedModel
from scalable_bandits.policies.measurements import LostInRounding
from scalable_bandits.posteriors.greedy_gain import GreedyInformationGain
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import LogNormal, learn_kernel
from scalable_bandits.posteriors.models.learned import ApproximateModel
from scalable_bandits.posteriors.placement import Executor, register
from scalable_bandits.priors import Prior, prior_from_panel
from scalable_bandits.runs.maximize import maximize, minimize
from scalable_bandits.runs.result import Measured, TuningResult
from scalable_bandits.runs.simulate import simulate
from scalable_bandits.runs.stopping import Deadline, NoImprovement, RegretBelow, RunView
from scalable_bandits.runs.trajectory import Trajectory
from scalable_bandits.spaces import (
    Arms,
    Boolean,
    Box,
    Categorical,
    Grid,
    Integer,
    Ordinal,
    Points,
    Real,
    SearchSpace,
    Settings,
)
from scalable_bandits.transfer import EarlierTasks, priors_from_tables
from scalable_bandits.warmup import warmup

if TYPE_CHECKING:
    from scalable_bandits import analysis, plots
    from scalable_bandits.execution import ClusterError
    from scalable_bandits.runs.recording import record
    from scalable_bandits.status import check
    from scalable_bandits.store import ObservationStore, SpecificationDiffers, StoreDamaged, StoreError, StoreLocked
    from scalable_bandits.store.copying import copy
    from scalable_bandits.studies import Study, StudyIncomplete

# Modules of the names that need zarr, xarray or matplotlib. They are imported on first use.
_LATE = {
    "Study": "studies",
    "check": "status",
    "copy": "store.copying",
    "record": "runs.recording",
    "ClusterError": "execution",
    "StudyIncomplete": "studies",
    "analysis": "",  # a module itself
    "plots": "",
    **dict.fromkeys(("ObservationStore", "SpecificationDiffers", "StoreDamaged", "StoreError", "StoreLocked"), "store"),
}

__version__ = metadata.version("scalable_bandits")

__all__ = [
    "AllMeasured",
    "ApproximateModel",
    "Arms",
    "AutoregressiveProcess",
    "Benchmark",
    "Boolean",
    "Box",
    "Categorical",
    "ClusterError",
    "Command",
    "CommandFailed",
    "ContradictedModel",
    "DataMissing",
    "Deadline",
    "DriftingFunction",
    "EarlierTasks",
    "Environment",
    "FunctionEnvironment",
    "GPSample",
    "GaussianNoise",
    "GreedyInformationGain",
    "Grid",
    "Integer",
    "LogNormal",
    "LostInRounding",
    "Measured",
    "MovingSearchSpace",
    "NoImprovement",
    "ObservationStore",
    "Ordinal",
    "Points",
    "Prior",
    "RKHSFunction",
    "RademacherNoise",
    "Real",
    "RegretBelow",
    "RunView",
    "SearchSpace",
    "SensorPanel",
    "Settings",
    "SpecificationDiffers",
    "StoreDamaged",
    "StoreError",
    "StoreLocked",
    "StudentTNoise",
    "Study",
    "StudyIncomplete",
    "TableEnvironment",
    "Trajectory",
    "TuningResult",
    "UniformNoise",
    "UnprovenWidth",
    "analysis",
    "cell_gain_rate",
    "cells_rate",
    "check",
    "copy",
    "growth_rate",
    "improved_matern_rate",
    "learn_kernel",
    "maximize",
    "minimize",
    "partition_exponents",
    "partition_regret_exponent",
    "plots",
    "prior_from_panel",
    "priors_from_tables",
    "record",
    "simulate",
    "warmup",
]
__all__ += kernels.__all__
__all__ += policies.__all__


def _cluster_executor(on: Any) -> Executor:
    """Make an executor on a cluster; Dask is imported on first use."""
    from scalable_bandits.execution.shard_pool import ClusterExecutor

    return ClusterExecutor(on)


register(_cluster_executor)


def __getattr__(name: str) -> Any:
    if name in _LATE:
        inside = _LATE[name]
        if not inside:
            return import_module(f"scalable_bandits.{name}")
        return getattr(import_module(f"scalable_bandits.{inside}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
