"""Measured data of Chowdhury & Gopalan 2017, section 6 and Fig. 4: IGP-UCB and GP-TS against GP-UCB, EI and PI.

Figs. 1-3, on functions, need no code: ``chowdhury2017-synthetic.toml`` and ``chowdhury2017-benchmarks.toml``.

Differs from the paper in: the paper states neither the scale of the readings, on which R and B depend, nor B. Here one
mean is subtracted from all readings, they are divided by one standard deviation, and B is 1 in one case and the norm of
the ridge interpolant in the other. The temperature data have 50 motes and three training days. The paper does not state
the incumbent of EI and PI; here it is the best posterior mean (with xi = a tenth of the noise for PI, because with
xi = 0 PI plays one point forever), or the best observation ("best y").
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.environments import GaussianNoise, TableEnvironment, load_light, load_temperature
from scalable_bandits.environments.sensors import SensorData, empirical_covariance, reading
from scalable_bandits.kernels import Covariance, Kernel
from scalable_bandits.policies import GPEI, GPPI, GPTS, GPUCB, IGPUCB, Policy
from scalable_bandits.spaces import Arms, FiniteSpace
from scalable_bandits.studies.runs import Problem, Replicate
from scalable_bandits.studies.tables import interpolant_norm

SENSORS = ("B = 1", "B = norm of f")


def policies(space: FiniteSpace, kernel: Kernel, rkhs_norm: float, gain: float, **options: Any) -> dict[str, Policy]:
    """Make the policies of the paper."""
    wide: dict[str, Any] = {"rkhs_norm": rkhs_norm, "information_gain": gain}
    return {
        "IGP-UCB": IGPUCB(space, kernel, **wide, **options),
        "GP-TS": GPTS(space, kernel, **wide, **options),
        "GP-UCB": GPUCB(space, kernel, theorem=3, **wide, **options),
        "GP-EI": GPEI(space, kernel, **options),
        "GP-PI": GPPI(space, kernel, xi=0.1 * options["noise"], **options),
        "GP-EI, best y": GPEI(space, kernel, incumbent="observation", **options),
        "GP-PI, best y": GPPI(space, kernel, incumbent="observation", xi=0.0, **options),
    }


def sensors(data: SensorData, rows: Floats, share: float, replicate: Replicate) -> Problem:
    """Make the problem of a standardised test reading; R^2 = lambda = `share` of the average variance, gamma_t = 1."""
    center, scale = data.train.mean(), float(np.sqrt(data.train.var(axis=0).mean()))
    space, kernel = Arms(data.train.shape[1]), Covariance(empirical_covariance(data.train / scale))
    values, variance = (reading(rows, replicate.number) - center) / scale, share
    environment = TableEnvironment(space, values, GaussianNoise(variance**0.5), replicate.seed)
    norm = 1.0 if replicate.case == "B = 1" else interpolant_norm(kernel, space.points(), values, variance)
    options: dict[str, Any] = {"noise": variance**0.5, "regularization": variance, "delta": 0.1, "seed": replicate.seed}
    return Problem(environment, policies(space, kernel, norm, 1.0, **options))


def light(replicate: Replicate, *, noise_share: float = 0.05) -> Problem:
    """Find the brightest of 41 sensors in one of 192 test readings."""
    data = load_light(replicate.data)
    return sensors(data, data.test, noise_share, replicate)


def temperature(replicate: Replicate, *, noise_share: float = 0.05) -> Problem:
    """Find the warmest of 50 motes in a test reading between 8 and 9 am."""
    data = load_temperature(replicate.data)
    slot = np.arange(len(data.test)) % 48
    return sensors(data, data.test[(slot >= 16) & (slot <= 18)], noise_share, replicate)
