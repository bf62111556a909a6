"""Environments: functions that are observed with noise, and whose optimum is known."""

from scalable_bandits.environments.additive import AdditiveFunction as AdditiveFunction
from scalable_bandits.environments.base import Environment as Environment
from scalable_bandits.environments.benchmark import Benchmark as Benchmark
from scalable_bandits.environments.changing import AutoregressiveProcess as AutoregressiveProcess
from scalable_bandits.environments.changing import ChangingEnvironment as ChangingEnvironment
from scalable_bandits.environments.changing import DriftingFunction as DriftingFunction
from scalable_bandits.environments.changing import MovingSearchSpace as MovingSearchSpace
from scalable_bandits.environments.changing import SensorPanel as SensorPanel
from scalable_bandits.environments.contextual import ContextualEnvironment as ContextualEnvironment
from scalable_bandits.environments.noise import GaussianNoise as GaussianNoise
from scalable_bandits.environments.noise import Noise as Noise
from scalable_bandits.environments.noise import RademacherNoise as RademacherNoise
from scalable_bandits.environments.noise import StudentTNoise as StudentTNoise
from scalable_bandits.environments.noise import UniformNoise as UniformNoise
from scalable_bandits.environments.sensors import DataMissing as DataMissing
from scalable_bandits.environments.sensors import empirical_covariance as empirical_covariance
from scalable_bandits.environments.sensors import load_intel_raw as load_intel_raw
from scalable_bandits.environments.sensors import load_light as load_light
from scalable_bandits.environments.sensors import load_temperature as load_temperature
from scalable_bandits.environments.sensors import load_traffic as load_traffic
from scalable_bandits.environments.sensors import load_traffic_days as load_traffic_days
from scalable_bandits.environments.synthetic import FunctionEnvironment as FunctionEnvironment
from scalable_bandits.environments.synthetic import GPSample as GPSample
from scalable_bandits.environments.synthetic import RKHSFunction as RKHSFunction
from scalable_bandits.environments.tables import TableEnvironment as TableEnvironment
