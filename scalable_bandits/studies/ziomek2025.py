"""Experiments of Ziomek, Adachi & Osborne 2025, section 7 and Figs. 2 and 4: prior elimination and its baselines.

Differs from the paper in: the paper does not state lengthscale, heights, noise and horizon of the toy problem, nor the
noise of the temperatures. Here the toy problem has a lengthscale of half the domain, so that a wrong prior has small
variance where nothing was observed (with a short lengthscale every policy explores everywhere, and MLE and fully
Bayesian have the least regret), and hills of 1 and 4 prior standard deviations. The mean regrets are ordered as in the
paper; the baselines get stuck in some runs and are faster in the others. The temperatures have three training days,
hence three priors, and two test days (thirteen and one in the paper), in rounds of 30 minutes (10 in the paper). They
are standardised by mean and standard deviation of the training days; replicates alternate between the test days, each
with its own noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.environments import (
    GaussianNoise,
    GPSample,
    MovingSearchSpace,
    SensorPanel,
    TableEnvironment,
    load_temperature,
)
from scalable_bandits.kernels import RBF
from scalable_bandits.policies import MLEGPUCB, PEGPUCB, FullyBayesianGPUCB, Policy, RandomSearch, RegretBalancing
from scalable_bandits.priors import Prior, prior_from_panel
from scalable_bandits.spaces import FiniteSpace, Grid
from scalable_bandits.studies.runs import Problem, Replicate

HILLS = np.linspace(0.0, 1.0, 10)
TRUE = 2
DAY = 48  # rows of temperatures in a day


def policies(space: FiniteSpace, priors: list[Prior], **options: Any) -> dict[str, Policy]:
    """Make the policies of the paper."""
    return {
        "PE-GP-UCB": PEGPUCB(space, priors, on_exhaustion="warn", **options),
        "MLE": MLEGPUCB(space, priors, **options),
        "fully Bayesian": FullyBayesianGPUCB(space, priors, **options),
        "regret balancing": RegretBalancing(space, priors, **options),
        "random": RandomSearch(space, **options),
    }


def hills(x: Floats, tall: int) -> Floats:
    """Return ten hills at points (n, 1); number `tall`, counted from 1, is the tall one; none is tall for 0."""
    heights = np.ones(len(HILLS))
    if tall:
        heights[tall - 1] = 4.0
    return np.exp(-0.5 * ((x - HILLS) / 0.03) ** 2) @ heights


def toy(replicate: Replicate, *, lengthscale: float = 0.5, noise: float = 0.1) -> Problem:
    """Make eleven priors with different tall hills; candidates near the true one are unavailable in even rounds."""
    space, kernel = Grid([[0.0, 1.0]], 100), RBF(lengthscale)
    x = space.points()
    priors = [Prior(str(tall), kernel, hills(x, tall)) for tall in range(len(HILLS) + 1)]
    values = hills(x, TRUE) + GPSample(space, kernel, seed=replicate.seed).table()
    function = TableEnvironment(space, values, GaussianNoise(noise), replicate.seed)
    reachable = np.array([np.ones(space.size, dtype=np.bool_), np.abs(x[:, 0] - HILLS[TRUE - 1]) > 0.05])
    options: dict[str, Any] = {"noise": noise, "regularization": noise**2, "delta": 0.1, "seed": replicate.seed}
    return Problem(MovingSearchSpace(function, reachable), policies(space, priors, **options))


def temperature(replicate: Replicate, *, noise_variance: float = 0.01) -> Problem:
    """Find the warmest of 50 motes in every half hour of a test day, with one prior from each training day."""
    data = load_temperature(replicate.data)
    center, scale, variance = data.train.mean(), float(np.sqrt(data.train.var(axis=0).mean())), noise_variance
    train, test = (data.train - center) / scale, (data.test - center) / scale
    days = np.split(train, len(train) // DAY)
    priors = [
        prior_from_panel(day, f"day {i}", zero_mean=True, noise_variance=variance) for i, day in enumerate(days, 1)
    ]
    played = np.split(test, len(test) // DAY)[replicate.number % (len(test) // DAY)]
    environment = SensorPanel(played, GaussianNoise(variance**0.5), replicate.seed)
    options: dict[str, Any] = {"noise": variance**0.5, "regularization": variance, "delta": 0.1, "seed": replicate.seed}
    space = environment.space
    assert space.finite is not None
    return Problem(environment, policies(space.finite, priors, **options))
