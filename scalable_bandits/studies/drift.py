"""Sensors on their real time axis: policies that forget beside policies that do not.

Data: speeds at 207 loop detectors on Los Angeles highways every five minutes, the first four days to learn the prior,
the next three played, night and day (Li et al. 2018); temperatures of 50 motes of the Intel Berkeley lab every half
hour, three days to learn the prior, two played. A round is a row. Readings are standardised by one mean and one
deviation of the days before. What is sought is the slowest detector, and the warmest mote.

The prior of most policies is the mean and covariance of the days before; the rate at which it is forgotten is the
likeliest one there (`prior_from_panel`), and memories are one over this rate. Those of PE-GP-UCB forget too: one has
this mean, the mean of the other goes with the time of day.
"""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.environments import GaussianNoise, SensorPanel, load_temperature
from scalable_bandits.environments.sensors import SensorData, empirical_covariance, load_traffic_days
from scalable_bandits.kernels import Covariance
from scalable_bandits.policies import (
    ETGPUCB,
    GPEI,
    GPUCB,
    PEGPUCB,
    RGPUCB,
    SWGPUCB,
    TVGPUCB,
    WGPUCB,
    MeanOnly,
    Policy,
    RandomSearch,
)
from scalable_bandits.priors import Prior, prior_from_panel
from scalable_bandits.spaces import FiniteSpace
from scalable_bandits.specification import Specification
from scalable_bandits.studies.baselines import GivenScores
from scalable_bandits.studies.runs import Problem, Replicate


@attrs.frozen(eq=False)
class TimeOfDay(Specification):
    """Prior mean that goes with the time of day: a row of a profile (times, n) for each round, in turn."""

    profile: Floats

    def __call__(self, points: Floats, t: int) -> Floats:
        return np.asarray(self.profile[(t - 1) % len(self.profile)][points[:, 0].astype(np.int64)])


def policies(space: FiniteSpace, train: Floats, day: int, **options: Any) -> dict[str, Policy]:
    """Make policies that forget, that do not, and that only know the days before.

    Parameters
    ----------
    space
        Arms.
    train
        Readings (times, n) of whole days before, in units of y.
    day
        Number of rows of a day.
    options
        Arguments of all policies.
    """
    static = Covariance(empirical_covariance(train))
    forgetting = prior_from_panel(train, noise_variance=options["regularization"]).kernel
    memory = max(2, round(1.0 / forgetting.epsilon))
    given = {"prior_mean": train.mean(axis=0), **options}
    profile = train.reshape(-1, day, train.shape[1]).mean(axis=0)
    about = train - np.tile(profile, (len(train) // day, 1))
    timed = prior_from_panel(about, "time of day", zero_mean=True, noise_variance=options["regularization"])
    priors = [Prior("average", forgetting, given["prior_mean"]), attrs.evolve(timed, mean=TimeOfDay(profile))]
    seed = options["seed"]
    return {
        "PE-GP-UCB": PEGPUCB(space, priors, on_exhaustion="warn", scale=20.0, **options),
        "TV-GP-UCB": TVGPUCB(space, forgetting, theorem=1, scale=5.0, **given),
        "SW-GP-UCB": SWGPUCB(space, static, memory=memory, **given),
        "R-GP-UCB": RGPUCB(space, static, memory=memory, **given),
        "ET-GP-UCB": ETGPUCB(space, static, theorem=1, scale=5.0, **given),
        "WGP-UCB": WGPUCB(space, static, eta=1.0 - 1.0 / (memory + 1.0), **given),
        "GP-UCB": GPUCB(space, static, theorem=1, scale=5.0, **given),
        "GP-EI": GPEI(space, static, **given),
        "mean only": MeanOnly(space, static, **given),
        "time of day": GivenScores(space, scores=profile, seed=seed),
        "average": GivenScores(space, scores=profile.mean(axis=0)[None], seed=seed),
        "random": RandomSearch(space, seed=seed),
    }


def panel(data: SensorData, sign: float, day: int, variance: float, replicate: Replicate) -> Problem:
    """Make the days that are played, with standardised readings."""
    center, scale = float(data.train.mean()), math.sqrt(data.train.var(axis=0).mean())
    train, test = (sign * (rows - center) / scale for rows in (data.train, data.test))
    deviation = math.sqrt(variance) / scale
    environment = SensorPanel(test, GaussianNoise(deviation), replicate.seed)
    options: dict[str, Any] = {"noise": deviation, "regularization": deviation**2, "delta": 0.1, "seed": replicate.seed}
    assert environment.space.finite is not None
    return Problem(environment, policies(environment.space.finite, train, day, **options))


def traffic(replicate: Replicate, *, noise_variance: float = 4.78) -> Problem:
    """Find the slowest detector through three days; the noise variance, in squared miles per hour, is Srinivas'."""
    return panel(load_traffic_days(replicate.data), -1.0, 288, noise_variance, replicate)


def temperature(replicate: Replicate, *, noise_variance: float = 0.5) -> Problem:
    """Find the warmest mote through two days; the noise variance, in squared degrees, is that of Srinivas et al."""
    return panel(load_temperature(replicate.data), 1.0, 48, noise_variance, replicate)
