"""Problems of small studies."""

from typing import Any

import numpy as np

import scalable_bandits as sb
from scalable_bandits.studies import Problem, Replicate


def arms(replicate: Replicate, label: str = "ucb", count: int = 6) -> Problem:
    """Arms of independent priors, values by the replicate's seed, for a policy of that label and random play."""
    space, kernel = sb.Arms(count), sb.Covariance(np.eye(count))
    environment = sb.GPSample(space, kernel, sb.GaussianNoise(0.3), seed=replicate.seed)
    options: dict[str, Any] = {"noise": 0.3, "regularization": 0.09, "seed": replicate.seed}
    policies = {label: sb.IGPUCB(space, kernel, **options), "random": sb.RandomSearch(space, **options)}
    return Problem(environment, policies)
