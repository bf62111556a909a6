"""Gaussian-process bandits that keep going where others stop.

Import it as ``sb``: spaces, kernels, policies and environments are names of this module.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

from scalable_bandits.environments import (
    Benchmark,
    DataMissing,
    Environment,
    FunctionEnvironment,
    GaussianNoise,
    GPSample,
    RademacherNoise,
    RKHSFunction,
    StudentTNoise,
    TableEnvironment,
    UniformNoise,
)
from scalable_bandits.information import GreedyInformationGain, growth_rate, improved_matern_rate
from scalable_bandits.kernels import RBF, Covariance, Kernel, Linear, Matern, Periodic, RationalQuadratic
from scalable_bandits.policies import (
    GPEI,
    GPPI,
    GPTS,
    GPUCB,
    IGPUCB,
    Best,
    MeanOnly,
    Policy,
    RandomSearch,
    VarianceOnly,
)
from scalable_bandits.simulate import Trajectory, simulate
from scalable_bandits.spaces import Arms, Box, Grid, Points

if TYPE_CHECKING:
    from scalable_bandits.studies import Study

__version__ = metadata.version("scalable_bandits")

__all__ = [
    "GPEI",
    "GPPI",
    "GPTS",
    "GPUCB",
    "IGPUCB",
    "RBF",
    "Arms",
    "Benchmark",
    "Best",
    "Box",
    "Covariance",
    "DataMissing",
    "Environment",
    "FunctionEnvironment",
    "GPSample",
    "GaussianNoise",
    "GreedyInformationGain",
    "Grid",
    "Kernel",
    "Linear",
    "Matern",
    "MeanOnly",
    "Periodic",
    "Points",
    "Policy",
    "RKHSFunction",
    "RademacherNoise",
    "RandomSearch",
    "RationalQuadratic",
    "StudentTNoise",
    "Study",
    "TableEnvironment",
    "Trajectory",
    "UniformNoise",
    "VarianceOnly",
    "growth_rate",
    "improved_matern_rate",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name == "Study":  # studies bring matplotlib's and xarray's weight in when they run
        return import_module("scalable_bandits.studies").Study
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
