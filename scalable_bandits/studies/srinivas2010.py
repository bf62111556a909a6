"""Experiments of Srinivas et al. 2010, section 6 and Fig. 5: GP-UCB against heuristics.

Differs from the paper in: the traffic data are 207 detectors in Los Angeles, not 357 on I-880; sensors are
played with the training readings' mean as prior mean, which the paper does not state; MPI
asks for a tenth of the noise more than the incumbent.
"""

from __future__ import annotations

from typing import Any

from scalable_bandits.environments import GaussianNoise, GPSample, TableEnvironment, load_temperature, load_traffic
from scalable_bandits.environments.sensors import SensorData, empirical_covariance, reading
from scalable_bandits.kernels import RBF, Covariance, Kernel
from scalable_bandits.policies import GPEI, GPPI, GPUCB, MeanOnly, Policy, RandomSearch, VarianceOnly
from scalable_bandits.spaces import Arms, FiniteSpace, Grid
from scalable_bandits.studies.runs import Problem, Replicate
from scalable_bandits.studies.study import Study

PAPER = "Srinivas, Krause, Kakade & Seeger 2010"


def policies(space: FiniteSpace, kernel: Kernel, **options: Any) -> dict[str, Policy]:
    """The paper's policies; beta_t is divided by 5, as there."""
    return {
        "GP-UCB": GPUCB(space, kernel, theorem=1, scale=5.0, **options),
        "GP-EI": GPEI(space, kernel, **options),
        "GP-PI": GPPI(space, kernel, xi=0.1 * options["noise"], **options),
        "mean only": MeanOnly(space, kernel, **options),
        "variance only": VarianceOnly(space, kernel, **options),
        "random": RandomSearch(space, kernel, **_shared(options)),
    }


def _shared(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key != "prior_mean"}


def synthetic(replicate: Replicate) -> Problem:
    """Functions drawn from an RBF prior on 1000 points of [0, 1], noise variance 0.025."""
    space, kernel, variance = Grid([[0.0, 1.0]], 1000), RBF(0.2), 0.025
    environment = GPSample(space, kernel, GaussianNoise(variance**0.5), seed=replicate.seed)
    options: dict[str, Any] = {"noise": variance**0.5, "regularization": variance, "delta": 0.1, "seed": replicate.seed}
    return Problem(environment, policies(space, kernel, **options))


def sensors(data: SensorData, sign: float, variance: float, replicate: Replicate) -> Problem:
    """One test reading of all sensors, with the training readings' mean and covariance as prior.

    Parameters
    ----------
    data
        Readings.
    sign
        1 to look for the largest reading, -1 for the smallest.
    variance
        Of the noise, in squared units of the readings.
    replicate
        Its number picks the test reading: spread evenly over them, then around again.
    """
    space, kernel = Arms(data.train.shape[1]), Covariance(empirical_covariance(data.train))
    values = sign * reading(data.test, replicate.number)
    environment = TableEnvironment(space, values, GaussianNoise(variance**0.5), replicate.seed)
    options: dict[str, Any] = {"noise": variance**0.5, "regularization": variance, "delta": 0.1, "seed": replicate.seed}
    return Problem(environment, policies(space, kernel, prior_mean=sign * data.train.mean(axis=0), **options))


def temperature(replicate: Replicate) -> Problem:
    """Find the warmest mote; noise variance 0.5."""
    return sensors(load_temperature(replicate.data), 1.0, 0.5, replicate)


def traffic(replicate: Replicate) -> Problem:
    """Find the slowest detector; noise variance 4.78."""
    return sensors(load_traffic(replicate.data), -1.0, 4.78, replicate)


Study(
    name="srinivas2010-synthetic", title="GP-UCB and heuristics on functions drawn from an RBF prior",
    source=f"{PAPER}, Fig. 5a", cases=("rbf",), build=synthetic, horizon=1000, replicates=30, measure="average",
    duration="15 s",
).register()  # fmt: skip

Study(
    name="srinivas2010-temperature", title="The warmest of 50 motes, Intel Berkeley lab",
    source=f"{PAPER}, Fig. 5b", cases=("temperature",), build=temperature, horizon=50, replicates=960,
    measure="average", unit="degrees Celsius", duration="30 s", needs_data=True,
).register()  # fmt: skip

Study(
    name="srinivas2010-traffic", title="The slowest of 207 traffic detectors, Los Angeles highways",
    source=f"{PAPER}, Fig. 5c", cases=("traffic",), build=traffic, horizon=207, replicates=200,
    measure="average", unit="miles per hour", duration="30 s", needs_data=True,
).register()  # fmt: skip
