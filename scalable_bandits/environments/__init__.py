"""Environments: functions that are observed with noise, and whose optimum is known."""

from scalable_bandits.environments.base import Environment
from scalable_bandits.environments.benchmark import Benchmark
from scalable_bandits.environments.changing import (
    AutoregressiveProcess,
    ChangingEnvironment,
    DriftingFunction,
    MovingSearchSpace,
    SensorPanel,
)
from scalable_bandits.environments.noise import GaussianNoise, Noise, RademacherNoise, StudentTNoise, UniformNoise
from scalable_bandits.environments.sensors import (
    DataMissing,
    empirical_covariance,
    load_intel_raw,
    load_light,
    load_temperature,
    load_traffic,
    load_traffic_days,
)
from scalable_bandits.environments.synthetic import FunctionEnvironment, GPSample, RKHSFunction
from scalable_bandits.environments.tables import TableEnvironment

__all__ = [
    "AutoregressiveProcess",
    "Benchmark",
    "ChangingEnvironment",
    "DataMissing",
    "DriftingFunction",
    "Environment",
    "FunctionEnvironment",
    "GPSample",
    "GaussianNoise",
    "MovingSearchSpace",
    "Noise",
    "RKHSFunction",
    "RademacherNoise",
    "SensorPanel",
    "StudentTNoise",
    "TableEnvironment",
    "UniformNoise",
    "empirical_covariance",
    "load_intel_raw",
    "load_light",
    "load_temperature",
    "load_traffic",
    "load_traffic_days",
]
