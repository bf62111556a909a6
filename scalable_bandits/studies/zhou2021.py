"""Functions with a variation budget, after Zhou & Shroff 2021: R-GP-UCB and SW-GP-UCB against IGP-UCB.

The paper has no experiment. Here functions of RKHS norm B = 1 on 100 points of [0, 1], RBF or Matern 5/2 of
lengthscale 0.2, change four times within the horizon: abruptly, to a function drawn anew, or slowly, moving evenly from
one to the next. Noise is Gaussian with R = 0.1, and lambda = R^2. H and w are the paper's, from the true P_T and
without it; g_T in them is the greedy bound.
"""

from __future__ import annotations

from typing import Any

from scalable_bandits.environments import DriftingFunction, GaussianNoise
from scalable_bandits.kernels import RBF, Kernel, Matern
from scalable_bandits.policies import IGPUCB, RGPUCB, SWGPUCB, WGPUCB, Policy, RandomSearch
from scalable_bandits.spaces import Grid
from scalable_bandits.studies.runs import Problem, Replicate
from scalable_bandits.studies.study import Study

PAPER = "Zhou & Shroff 2021"
CASES = {"RBF": RBF(0.2), "Matern 5/2": Matern(0.2, nu=2.5)}
CHANGES, NORM, NOISE = 4, 1.0, 0.1


def knots(horizon: int) -> tuple[int, ...]:
    """Rounds of the changes, evenly over the horizon, and the first round."""
    return tuple(sorted({1 + i * horizon // (CHANGES + 1) for i in range(CHANGES + 1)}))


def policies(space: Grid, kernel: Kernel, horizon: int, budget: float, seed: int) -> dict[str, Policy]:
    """Restart and window from P_T, and without it; a weight that remembers as long as the window does."""
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


def drifting(replicate: Replicate, slow: bool) -> Problem:
    """A function that drifts within its budget; the policies know the budget."""
    space, kernel = Grid([[0.0, 1.0]], 100), CASES[replicate.case]
    environment = DriftingFunction.sparse(
        space, kernel, GaussianNoise(NOISE), knots=knots(replicate.horizon), slow=slow, rkhs_norm=NORM,
        seed=replicate.seed,
    )  # fmt: skip
    budget = environment.variation(replicate.horizon)
    return Problem(environment, policies(space, kernel, replicate.horizon, budget, replicate.seed))


def abrupt(replicate: Replicate) -> Problem:
    """Four jumps."""
    return drifting(replicate, slow=False)


def slow(replicate: Replicate) -> Problem:
    """An even move through the same functions."""
    return drifting(replicate, slow=True)


Study(
    name="zhou2021-abrupt", title="Restart and sliding window on functions that jump four times",
    source=f"{PAPER}, Theorems 1-2", cases=tuple(CASES), build=abrupt, horizon=5000, replicates=10,
    duration="1 min",
).register()  # fmt: skip

Study(
    name="zhou2021-slow", title="Restart and sliding window on functions that move evenly",
    source=f"{PAPER}, Theorems 1-2", cases=tuple(CASES), build=slow, horizon=5000, replicates=10,
    duration="1 min",
).register()  # fmt: skip
