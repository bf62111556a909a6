"""Gaussian-process bandits for long horizons, large spaces and many priors.

Import the package as ``sb``; its spaces, kernels, policies and environments are names of this module.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

from scalable_bandits.commands import Command as Command
from scalable_bandits.commands import CommandFailed as CommandFailed
from scalable_bandits.environments import AdditiveFunction as AdditiveFunction
from scalable_bandits.environments import AutoregressiveProcess as AutoregressiveProcess
from scalable_bandits.environments import Benchmark as Benchmark
from scalable_bandits.environments import ContextualEnvironment as ContextualEnvironment
from scalable_bandits.environments import DataMissing as DataMissing
from scalable_bandits.environments import DriftingFunction as DriftingFunction
from scalable_bandits.environments import Environment as Environment
from scalable_bandits.environments import FunctionEnvironment as FunctionEnvironment
from scalable_bandits.environments import GaussianNoise as GaussianNoise
from scalable_bandits.environments import GPSample as GPSample
from scalable_bandits.environments import MovingSearchSpace as MovingSearchSpace
from scalable_bandits.environments import RademacherNoise as RademacherNoise
from scalable_bandits.environments import RKHSFunction as RKHSFunction
from scalable_bandits.environments import SensorPanel as SensorPanel
from scalable_bandits.environments import StudentTNoise as StudentTNoise
from scalable_bandits.environments import TableEnvironment as TableEnvironment
from scalable_bandits.environments import UniformNoise as UniformNoise
from scalable_bandits.formulas.information_gain import growth_rate as growth_rate
from scalable_bandits.formulas.information_gain import improved_matern_rate as improved_matern_rate
from scalable_bandits.formulas.rates import cell_gain_rate as cell_gain_rate
from scalable_bandits.formulas.rates import cells_rate as cells_rate
from scalable_bandits.formulas.rates import partition_exponents as partition_exponents
from scalable_bandits.formulas.rates import partition_regret_exponent as partition_regret_exponent
from scalable_bandits.kernels import *  # noqa: F403 - its `__all__`
from scalable_bandits.policies import *  # noqa: F403 - its `__all__`
from scalable_bandits.policies.confidence import UnprovenWidth as UnprovenWidth
from scalable_bandits.policies.contradiction import AllMeasured as AllMeasured
from scalable_bandits.policies.contradiction import ContradictedModel as ContradictedModel
from scalable_bandits.policies.measurements import LostInRounding as LostInRounding
from scalable_bandits.posteriors import placement
from scalable_bandits.posteriors.greedy_gain import GreedyInformationGain as GreedyInformationGain
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import LogNormal as LogNormal
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import learn_kernel as learn_kernel
from scalable_bandits.posteriors.models.learned import ApproximateModel as ApproximateModel
from scalable_bandits.priors import Prior as Prior
from scalable_bandits.priors import prior_from_panel as prior_from_panel
from scalable_bandits.runs.maximize import maximize as maximize
from scalable_bandits.runs.maximize import minimize as minimize
from scalable_bandits.runs.replay import LoggedRounds as LoggedRounds
from scalable_bandits.runs.replay import Replay as Replay
from scalable_bandits.runs.replay import replay as replay
from scalable_bandits.runs.result import Measured as Measured
from scalable_bandits.runs.result import TuningResult as TuningResult
from scalable_bandits.runs.screen import screen as screen
from scalable_bandits.runs.simulate import simulate as simulate
from scalable_bandits.runs.stopping import Deadline as Deadline
from scalable_bandits.runs.stopping import NoImprovement as NoImprovement
from scalable_bandits.runs.stopping import RegretBelow as RegretBelow
from scalable_bandits.runs.stopping import RunView as RunView
from scalable_bandits.runs.trajectory import Trajectory as Trajectory
from scalable_bandits.spaces import Arms as Arms
from scalable_bandits.spaces import Boolean as Boolean
from scalable_bandits.spaces import Box as Box
from scalable_bandits.spaces import Categorical as Categorical
from scalable_bandits.spaces import Grid as Grid
from scalable_bandits.spaces import Integer as Integer
from scalable_bandits.spaces import Ordinal as Ordinal
from scalable_bandits.spaces import Points as Points
from scalable_bandits.spaces import Pool as Pool
from scalable_bandits.spaces import Real as Real
from scalable_bandits.spaces import SearchSpace as SearchSpace
from scalable_bandits.spaces import Settings as Settings
from scalable_bandits.spaces import pool
from scalable_bandits.transfer import EarlierTasks as EarlierTasks
from scalable_bandits.transfer import priors_from_tables as priors_from_tables
from scalable_bandits.warmup import warmup as warmup

if TYPE_CHECKING:
    from scalable_bandits import analysis as analysis
    from scalable_bandits import plots as plots
    from scalable_bandits.execution import ClusterError as ClusterError
    from scalable_bandits.integrations.export import export as export
    from scalable_bandits.report.watched_page import watch as watch
    from scalable_bandits.runs.recording import record as record
    from scalable_bandits.status import check as check
    from scalable_bandits.store import ObservationStore as ObservationStore
    from scalable_bandits.store import SpecificationDiffers as SpecificationDiffers
    from scalable_bandits.store import StoreDamaged as StoreDamaged
    from scalable_bandits.store import StoreError as StoreError
    from scalable_bandits.store import StoreLocked as StoreLocked
    from scalable_bandits.store.copying import copy as copy
    from scalable_bandits.studies import Study as Study
    from scalable_bandits.studies import StudyIncomplete as StudyIncomplete

# Modules of the names that need zarr, xarray or matplotlib. They are imported on first use.
_LATE = {
    "Study": "studies",
    "check": "status",
    "copy": "store.copying",
    "export": "integrations.export",
    "record": "runs.recording",
    "watch": "report.watched_page",
    "ClusterError": "execution",
    "StudyIncomplete": "studies",
    "analysis": "",  # a module itself
    "plots": "",
    **dict.fromkeys(("ObservationStore", "SpecificationDiffers", "StoreDamaged", "StoreError", "StoreLocked"), "store"),
}

__version__ = metadata.version("scalable_bandits")

_OURS = [name for name, value in vars().items() if getattr(value, "__module__", "").startswith("scalable_bandits.")]
__all__ = sorted({*_OURS, *_LATE})


def _cluster_executor(on: Any) -> placement.Executor:
    """Make an executor on a cluster; Dask is imported on first use."""
    from scalable_bandits.execution.shard_pool import ClusterExecutor

    return ClusterExecutor(on)


def _stored_pools() -> pool.StoredPools:
    """Return the module that opens and writes pools; zarr is imported on first use."""
    from scalable_bandits.store import pool as stored

    return stored


placement.register(_cluster_executor)
pool.register(_stored_pools)


def __getattr__(name: str) -> Any:
    if name in _LATE:
        inside = _LATE[name]
        if not inside:
            return import_module(f"scalable_bandits.{name}")
        return getattr(import_module(f"scalable_bandits.{inside}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
