"""Measured data of Srinivas et al. 2010, section 6 and Fig. 5: GP-UCB against heuristics.

Fig. 5a, on drawn functions, is all in ``srinivas2010-synthetic.toml``.

Differs from the paper in: the traffic data are 207 detectors in Los Angeles, not 357 on I-880; sensors are
played with the training readings' mean as prior mean, which the paper does not state; MPI
asks for a tenth of the noise more than the incumbent.
"""

from __future__ import annotations

from typing import Any

from scalable_bandits.environments import GaussianNoise, TableEnvironment, load_temperature, load_traffic
from scalable_bandits.environments.sensors import SensorData, empirical_covariance, reading
from scalable_bandits.kernels import Covariance, Kernel
from scalable_bandits.policies import GPEI, GPPI, GPUCB, MeanOnly, Policy, RandomSearch, VarianceOnly
from scalable_bandits.spaces import Arms, FiniteSpace
from scalable_bandits.studies.builders import BUILDERS, Builder
from scalable_bandits.studies.runs import Problem, Replicate


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


def temperature(replicate: Replicate, *, noise_variance: float = 0.5) -> Problem:
    """Find the warmest mote."""
    return sensors(load_temperature(replicate.data), 1.0, noise_variance, replicate)


def traffic(replicate: Replicate, *, noise_variance: float = 4.78) -> Problem:
    """Find the slowest detector."""
    return sensors(load_traffic(replicate.data), -1.0, noise_variance, replicate)


BUILDERS["srinivas2010-temperature"] = Builder(temperature, ("temperature",), needs_data=True)
BUILDERS["srinivas2010-traffic"] = Builder(traffic, ("traffic",), needs_data=True)
