"""Sketched against exact: IGP-UCB, BKB and BBKB on grids, after Calandriello et al. 2019 and 2020.

Differs from the papers in: their experiments are on regression data sets (Abalone, Cadata, a neural-network search
space); here f is of the RKHS, with exact norm, so that the width is the guaranteed one. All policies have IGP-UCB's
width. Times over horizons and numbers of arms: ``python -m benchmarks sketched``.
"""

from __future__ import annotations

from typing import Any

from scalable_bandits.environments import RKHSFunction, UniformNoise
from scalable_bandits.kernels import Matern
from scalable_bandits.policies import BBKB, BKB, IGPUCB
from scalable_bandits.spaces import Grid
from scalable_bandits.studies.runs import Problem, Replicate
from scalable_bandits.studies.study import Study

PAPER = "Calandriello et al. 2020"
SHAPES = {"900 arms": (30, 30), "8,000 arms": (20, 20, 20)}


def grids(replicate: Replicate) -> Problem:
    """Matern 3/2, lengthscale 0.2, noise uniform on [-1, 1], lambda = 1: the problems of Janz et al. 2020."""
    shape = SHAPES[replicate.case]
    space, kernel = Grid([[0.0, 1.0]] * len(shape), shape), Matern(0.2, nu=1.5)
    function = RKHSFunction.sparse(space, kernel, UniformNoise(1.0), seed=replicate.seed)
    options: dict[str, Any] = {"noise": 1.0, "rkhs_norm": function.rkhs_norm, "delta": 0.1, "seed": replicate.seed}
    policies = {
        "IGP-UCB": IGPUCB(space, kernel, **options),
        "BKB": BKB(space, kernel, **options),
        "BKB, qbar = 0.5": BKB(space, kernel, oversampling=0.5, **options),
        "BBKB": BBKB(space, kernel, **options),
        "BBKB, C = 4": BBKB(space, kernel, threshold=4.0, **options),
    }
    return Problem(function, policies)


Study(
    name="calandriello2020-sketches", title="Sketched and exact posteriors: BKB, BBKB and IGP-UCB",
    source=f"{PAPER}, section 6", cases=tuple(SHAPES), build=grids, horizon=2000, replicates=6, duration="10 min",
).register()  # fmt: skip
