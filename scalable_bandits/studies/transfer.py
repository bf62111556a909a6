"""Priors made from the tables of other tasks, against a start from nothing, on the pools of HPO-B.

A case is a search space of HPO-B (Pineda-Arango et al. 2021) with six or seven data sets; replicate i plays the i-th of
them, and the tables of the others are what is known beforehand. Pools of more than 5,000 rows are played on 5,000 drawn
ones; the tables are whole. `priors_from_tables` makes the priors; the policies that are optimistic over all of them do
without those that are wider than the earlier tasks. How much narrower than the theory's the widths are was chosen on
the spaces 4796 and 5970, for each policy.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from scalable_bandits.environments import GaussianNoise, TableEnvironment
from scalable_bandits.environments.published import HPOB
from scalable_bandits.policies import GPEI, MLEGPUCB, PEGPUCB, FullyBayesianGPUCB, Policy, RandomSearch, RegretBalancing
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Points
from scalable_bandits.studies.runs import Problem, Replicate
from scalable_bandits.transfer import EarlierTasks, priors_from_tables

MOST = 5000  # rows of a pool that are played
DENSE = 1000  # candidates up to which a prior has a covariance matrix
# Number by which each policy's squared confidence width is divided.
SCALES = {"PE-GP-UCB": 6000.0, "fully Bayesian": 20.0, "MLE": 60.0, "regret balancing": 2000.0}
WIDER = ", variance x 10"  # end of the names of priors that vary more than the earlier tasks
LEAST_NOISE = 1e-3  # smallest standard deviation of the noise that is assumed, in units of accuracy


@functools.lru_cache(maxsize=8)  # the tasks of a search space
def task(space: str, number: int) -> tuple[Points, Any, EarlierTasks]:
    """Return the points that are played, their accuracies (n,), and what the other tables say."""
    pools = [HPOB(space, dataset) for dataset in HPOB.TASKS.get(space, ("",))]  # which refuses an unknown space
    tables = {
        f"data set {pool.task[1]}": (pool.space.finite.points(), pool.table())
        for i, pool in enumerate(pools)
        if i != number and pool.space.finite is not None
    }
    points, values = np.asarray(pools[number].space.finite.points()), pools[number].table()  # type: ignore[union-attr]
    if len(points) > MOST:
        rows = np.sort(generator(0, "rows that are played", number).permutation(len(points))[:MOST])
        points, values = points[rows], values[rows]
    played = Points(points)
    return played, values, priors_from_tables(tables, played)


def policies(space: Points, known: EarlierTasks, seed: int) -> dict[str, Policy]:
    """Make policies that know the other tables, and policies that know nothing."""
    noise = max(known.noise, LEAST_NOISE)
    options: dict[str, Any] = {
        "noise": noise, "regularization": noise**2, "seed": seed,
        "engine": "auto" if space.size <= DENSE else "tiled",  # up to 40 priors, each with a covariance matrix
    }  # fmt: skip
    narrow = [prior for prior in known.priors if not prior.name.endswith(WIDER)]
    return {
        "PE-GP-UCB": PEGPUCB(space, narrow, scale=SCALES["PE-GP-UCB"], on_exhaustion="warn", **options),
        "fully Bayesian": FullyBayesianGPUCB(space, known.priors, scale=SCALES["fully Bayesian"], **options),
        "MLE": MLEGPUCB(space, known.priors, scale=SCALES["MLE"], **options),
        "regret balancing": RegretBalancing(space, narrow, scale=SCALES["regret balancing"], **options),
        "GP-EI, cold": GPEI(space, seed=seed),
        "random": RandomSearch(space, seed=seed),
    }


def tasks(space: str) -> int:
    """Return the number of data sets of a search space, named as above, which replicates play in turn."""
    return len(HPOB.TASKS.get(space.rpartition(" ")[2], ("",)))


def transfer(replicate: Replicate, *, space: str = "rpart 4796") -> Problem:
    """Make a task of a search space, named by its learner and its number in HPO-B."""
    points, values, known = task(space.rpartition(" ")[2], replicate.number % tasks(space))
    environment = TableEnvironment(points, values, GaussianNoise(0.0), replicate.seed)
    return Problem(environment, policies(points, known, replicate.seed))
