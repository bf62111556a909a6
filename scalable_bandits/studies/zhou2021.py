"""Functions with a variation budget, after Zhou & Shroff 2021: R-GP-UCB and SW-GP-UCB against IGP-UCB.

The paper has no experiment. Here functions of RKHS norm B = 1 on 100 points of [0, 1], with an RBF or Matern 5/2 kernel
of lengthscale 0.2, change four times within the horizon: abruptly to a new draw, or slowly, moving linearly from one to
the next. The noise is Gaussian with R = 0.1, and lambda = R^2. H and w are computed as in the paper, with and without
the true P_T; g_T in them is the greedy bound.
"""

from __future__ import annotations

from typing import Any

from scalable_bandits.environments import DriftingFunction, GaussianNoise
from scalable_bandits.kernels import RBF, Kernel, Matern
from scalable_bandits.policies import IGPUCB, RGPUCB, SWGPUCB, WGPUCB, Policy, RandomSearch
from scalable_bandits.spaces import Grid
from scalable_bandits.studies.runs import Problem, Replicate

CASES = {"RBF": RBF(0.2), "Matern 5/2": Matern(0.2, nu=2.5)}
CHANGES, NORM, NOISE = 4, 1.0, 0.1


def knots(horizon: int, changes: int = CHANGES) -> tuple[int, ...]:
    """Return the first round and the rounds of the changes, evenly spaced over the horizon."""
    return tuple(sorted({1 + i * horizon // (changes + 1) for i in range(changes + 1)}))


def policies(space: Grid, kernel: Kernel, horizon: int, budget: float, seed: int) -> dict[str, Policy]:
    """Make restarts and windows with and without P_T, and a weight with the memory of the window."""
    shared: dict[str, Any] = {"noise": NOISE, "regularization": NOISE**2, "delta": 0.1, "seed": seed}
    options = {**shared, "rkhs_norm": NORM, "horizon": horizon}
    known: dict[str, Any] = {"variation_budget": budget} if budget else {}
    window = SWGPUCB(space, kernel, **known, **options)
    return {
        "IGP-UCB": IGPUCB(space, kernel, **options),
        "R-GP-UCB": RGPUCB(space, kernel, **known, **options),
        "SW-GP-UCB": window,
        "SW-GP-UCB, Theorem 2": SWGPUCB(space, kernel, width="theorem", **known, **options),
        "R-GP-UCB, P_T unknown": RGPUCB(space, kernel, **options),
        "SW-GP-UCB, P_T unknown": SWGPUCB(space, kernel, **options),
        "WGP-UCB": WGPUCB(space, kernel, eta=1.0 - 1.0 / (window.memory_length + 1.0), **options),
        "random": RandomSearch(space, **shared),
    }


def drifting(replicate: Replicate, slow: bool, changes: int) -> Problem:
    """Make a drifting function and policies, some of which get its variation budget."""
    space, kernel = Grid([[0.0, 1.0]], 100), CASES[replicate.case]
    environment = DriftingFunction.sparse(
        space, kernel, GaussianNoise(NOISE), knots=knots(replicate.horizon, changes), slow=slow, rkhs_norm=NORM,
        seed=replicate.seed,
    )  # fmt: skip
    budget = environment.variation(replicate.horizon)
    return Problem(environment, policies(space, kernel, replicate.horizon, budget, replicate.seed))


def abrupt(replicate: Replicate, *, changes: int = CHANGES) -> Problem:
    """Make a function that jumps at each change."""
    return drifting(replicate, slow=False, changes=changes)


def slow(replicate: Replicate, *, changes: int = CHANGES) -> Problem:
    """Make a function that moves linearly through the functions between which `abrupt` jumps."""
    return drifting(replicate, slow=True, changes=changes)
