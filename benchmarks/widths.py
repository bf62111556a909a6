"""IGP-UCB with the confidence widths of three papers: regret, and how often the bounds hold.

After Flynn & Reeb 2024, section 6, with RKHS functions on other grids. The study of the regret alone is
``flynn2024-widths``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from scalable_bandits.environments import GaussianNoise, RKHSFunction
from scalable_bandits.formulas.confidence import WIDTHS
from scalable_bandits.kernels import RBF, Kernel, Matern
from scalable_bandits.policies import IGPUCB, Policy
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.randomness import derived_seed
from scalable_bandits.spaces import Grid
from scalable_bandits.studies.runs import Problem, Replicate

KERNELS: dict[str, Kernel] = {"RBF": RBF(0.2), "Matern 3/2": Matern(0.2, nu=1.5)}


def widths(replicate: Replicate) -> Problem:
    """Make the problem of an RKHS function on a 20 x 20 grid, with standard Gaussian noise and lambda = 1."""
    space, kernel = Grid([[0.0, 1.0]] * 2, 20), KERNELS[replicate.case]
    function = RKHSFunction.sparse(space, kernel, GaussianNoise(1.0), seed=replicate.seed)
    options: dict[str, Any] = {"noise": 1.0, "rkhs_norm": function.rkhs_norm, "delta": 0.1, "seed": replicate.seed}
    policies: dict[str, Policy] = {name: IGPUCB(space, kernel, confidence=name, **options) for name in WIDTHS}
    return Problem(function, policies)


class WidthCoverage(NamedTuple):
    """Coverage and regret of a confidence width in one case."""

    case: str
    width: str
    covered: float  # fraction of the runs whose bounds held at all candidates in all rounds
    mean_width: float  # mean over rounds and runs
    tightest: float  # largest |f - mean| / (width std) over candidates, rounds and runs; above 1 a bound failed
    regret: float  # mean cumulative regret, in units of y


def coverage(replicates: int = 50, horizon: int = 300, seed: int = 0) -> list[WidthCoverage]:
    """Play the problems of the study and check in every round whether all f(x) are within the bounds."""
    rows = []
    for case in KERNELS:
        kept: dict[str, list[tuple[float, float, float]]] = {name: [] for name in WIDTHS}
        for i in range(replicates):
            problem = widths(Replicate(case, i, derived_seed(seed, "widths", case, i), horizon, None))
            for name, policy in problem.policies.items():
                assert isinstance(policy, GaussianProcessPolicy)
                kept[name].append(_played(policy, problem.environment, horizon))
        for name, runs in kept.items():
            ratios, means, regrets = np.array(runs).T
            covered, tightest = float((ratios <= 1.0).mean()), float(ratios.max())
            rows.append(WidthCoverage(case, name, covered, float(means.mean()), tightest, float(regrets.mean())))
    return rows


def _played(policy: GaussianProcessPolicy, function: Any, horizon: int) -> tuple[float, float, float]:
    """Play a run; return the largest |f - mean| / (width std), the mean width and the regret."""
    truth, engine = function.table(), policy.model.engine
    largest, total, regret = 0.0, 0.0, 0.0
    for t in range(1, horizon + 1):
        width = policy.width
        total += width
        largest = max(largest, float((np.abs(truth - engine.mean()) / np.sqrt(engine.variance())).max()) / width)
        candidate = policy.propose()
        policy.observe(candidate, truth[candidate] + function.noise_at(t))
        regret += float(truth.max() - truth[candidate])
    return largest, total / horizon, regret
