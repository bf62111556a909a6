"""Measured data of Srinivas et al. 2010, section 6 and Fig. 5: GP-UCB against heuristics.

Fig. 5a, on drawn functions, needs no code: ``srinivas2010-synthetic.toml``.

Differs from the paper in: the traffic data are of 207 detectors in Los Angeles, not 357 on I-880. The prior mean of the
sensors, which the paper does not state, is the mean of the training readings. GP-PI has xi = a tenth of the noise.
"""

from __future__ import annotations

from typing import Any

from scalable_bandits.environments import GaussianNoise, TableEnvironment, load_temperature, load_traffic
from scalable_bandits.environments.sensors import SensorData, empirical_covariance, reading
from scalable_bandits.kernels import Covariance, Kernel
from scalable_bandits.policies import GPEI, GPPI, GPUCB, MeanOnly, Policy, RandomSearch, VarianceOnly
from scalable_bandits.spaces import Arms, FiniteSpace
from scalable_bandits.studies.runs import Problem, Replicate


def policies(space: FiniteSpace, kernel: Kernel, **options: Any) -> dict[str, Policy]:
    """Make the policies of the paper, with its beta_t divided by 5."""
    return {
        "GP-UCB": GPUCB(space, kernel, theorem=1, scale=5.0, **options),
        "GP-EI": GPEI(space, kernel, **options),
        "GP-PI": GPPI(space, kernel, xi=0.1 * options["noise"], **options),
        "mean only": MeanOnly(space, kernel, **options),
        "variance only": VarianceOnly(space, kernel, **options),
        "random": RandomSearch(space, kernel, **{key: options[key] for key in options if key != "prior_mean"}),
    }


def sensors(data: SensorData, sign: float, variance: float, replicate: Replicate) -> Problem:
    """Make the problem of one test reading, with mean and covariance of the training readings as prior.

    Parameters
    ----------
    data
        Training and test readings.
    sign
        Sign of f: 1 to find the largest reading, -1 to find the smallest.
    variance
        Noise variance, in squared units of the readings.
    replicate
        Replicate, whose number selects the test reading.
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
