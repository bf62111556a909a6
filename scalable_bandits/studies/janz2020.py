"""Experiments of Janz, Burt & Gonzalez 2020, section 5, and their theory at work: pi-GP-UCB against IGP-UCB.

Differs from the paper in: Fig. 2 does not name its four functions in the text, nor its horizon; here they are the first
four of Janz 2022, chapter 5, over 10,000 rounds, on the 30^2 grid of section 5. Run times are those of one core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.environments import Benchmark, RKHSFunction, UniformNoise
from scalable_bandits.kernels import Matern
from scalable_bandits.policies import IGPUCB, PiGPUCB, Policy
from scalable_bandits.spaces import Grid
from scalable_bandits.studies.runs import Problem, Replicate
from scalable_bandits.studies.study import Study
from scalable_bandits.studies.summary import Comparison, beside, slope
from scalable_bandits.theory import cell_gain_rate, cells_rate, partition_exponents, partition_regret_exponent

if TYPE_CHECKING:
    import xarray

PAPER = "Janz, Burt & Gonzalez 2020"
KERNEL = Matern(0.2, nu=1.5)
TABLE_1 = {  # regret as a fraction of uniform play's, run time
    "d = 1": {"IGP-UCB": ("0.11", "82 min"), "pi-GP-UCB": ("0.09", "12 min")},
    "d = 2": {"IGP-UCB": ("0.71", "118 min"), "pi-GP-UCB": ("0.52", "97 s")},
    "d = 3": {"IGP-UCB": ("0.97", "30 hours"), "pi-GP-UCB": ("0.77", "29 min")},
}
FIGURE_2 = ("eggholder", "rosenbrock", "camel", "schaffer2")
SIDES = {"d = 1": 3001, "d = 2": 151, "d = 3": 41}  # fine enough for the cells that the rounds of the study make


def grid(dimension: int, side: int = 30) -> Grid:
    """Regular grid on the unit cube."""
    return Grid([[0.0, 1.0]] * dimension, side)


def table1(replicate: Replicate) -> Problem:
    """Sums of 30 d kernel functions on 30^d points, noise uniform on [-1, 1]; R = 1 and the exact norm are known."""
    space = grid(int(replicate.case[-1]))
    environment = RKHSFunction.sparse(space, KERNEL, UniformNoise(1.0), seed=replicate.seed)
    known: dict[str, Any] = {"noise": 1.0, "rkhs_norm": environment.rkhs_norm, "delta": 0.1, "seed": replicate.seed}
    return Problem(
        environment,
        {
            "IGP-UCB": IGPUCB(space, KERNEL, **known),
            "pi-GP-UCB": PiGPUCB(space, KERNEL, horizon=replicate.horizon, **known),
        },
    )


def benchmarks(replicate: Replicate) -> Problem:
    """Functions scaled to [-1, 1] on a 30^2 grid, noise uniform on [-0.1, 0.1]; R = 0.1 is known, B = 1 assumed."""
    space = grid(2)
    environment = Benchmark(
        replicate.case, space, UniformNoise(0.1), unit_cube=True, scaled=True, seed=replicate.seed
    )  # fmt: skip
    known: dict[str, Any] = {"noise": 0.1, "rkhs_norm": 1.0, "delta": 0.1, "seed": replicate.seed}
    return Problem(
        environment,
        {
            "IGP-UCB": IGPUCB(space, KERNEL, **known),
            "pi-GP-UCB": PiGPUCB(space, KERNEL, horizon=replicate.horizon, **known),
        },
    )


def theory(replicate: Replicate) -> Problem:
    """The functions of Table 1 on finer grids; the first cover is one cube, or T^q cubes."""
    space = grid(int(replicate.case[-1]), SIDES[replicate.case])
    environment = RKHSFunction.sparse(space, KERNEL, UniformNoise(1.0), seed=replicate.seed)
    known: dict[str, Any] = {"noise": 1.0, "rkhs_norm": environment.rkhs_norm, "delta": 0.1, "seed": replicate.seed}
    return Problem(
        environment,
        {
            "one cube at first": PiGPUCB(space, KERNEL, **known),
            "T^q cubes at first": PiGPUCB(space, KERNEL, horizon=replicate.horizon, **known),
        },
    )


def cells(policy: Policy) -> dict[str, Floats]:
    """Number of cells made up to each round, those that nothing fell into included."""
    assert isinstance(policy, PiGPUCB)
    first = policy.cover[0]
    bounds = np.array(policy.space.bounds)  # type: ignore[attr-defined]
    side = (first.upper - first.lower)[0] / np.ptp(bounds, axis=1)[0]
    splits = np.zeros(policy.rounds + 1)
    np.add.at(splits, [element.split for element in policy.cover if element.split is not None], 1.0)
    dimension = policy.space.dimension
    return {"cells": round(1.0 / side) ** dimension + 2.0**dimension * splits.cumsum()[1:]}


def rates(case: str, rounds: Floats) -> dict[str, Floats]:
    """Lemma 2, Lemma 1 and Theorem 3."""
    d, nu = int(case[-1]), 1.5
    found = {
        "cells": cells_rate(nu, rounds, d), "information_gain": cell_gain_rate(rounds),
        "regret": rounds ** partition_regret_exponent(nu, d),
    }  # fmt: skip
    return {name: np.asarray(rate) for name, rate in found.items()}


def growth(result: xarray.Dataset) -> list[Comparison]:
    """Exponents over the last decade of rounds, and gains over their rate, beside the theory."""
    rows = []
    for case in map(str, result["case"].values):
        d, nu = int(case[-1]), 1.5
        bounds = {"cells": partition_exponents(nu, d).q, "regret": partition_regret_exponent(nu, d)}
        for policy in map(str, result["policy"].values):
            for variable, bound in bounds.items():
                estimate = slope(result, variable, case, policy)
                rows.append(Comparison(case, policy, f"exponent of {variable}", *estimate, f"at most {bound:.3f}"))
            gains = result["information_gain"].sel(case=case, policy=policy).values.max(axis=0)
            for rounds in (result.sizes["round"] // 10, result.sizes["round"]):
                largest = float(gains[: max(rounds, 1)].max())
                rate = float(cell_gain_rate(rounds))
                ratio = largest / rate if rate else float("nan")
                what = f"gain in a cell / (log t log log t), t = {rounds:,}"
                rows.append(Comparison(case, policy, what, ratio, float("nan"), "bounded"))
    return rows


Study(
    name="janz2020-table1", title="pi-GP-UCB and IGP-UCB on functions of the Matern RKHS, d = 1, 2, 3",
    source=f"{PAPER}, Table 1", cases=tuple(TABLE_1), build=table1, horizon=10_000, replicates=12,
    published=lambda result: beside(result, TABLE_1), timed=True, cover="pi-GP-UCB", duration="15 min",
).register()  # fmt: skip

Study(
    name="janz2020-benchmarks", title="pi-GP-UCB and IGP-UCB on two-dimensional benchmark functions",
    source=f"{PAPER}, Fig. 2", cases=FIGURE_2, build=benchmarks, horizon=10_000, replicates=12, cover="pi-GP-UCB",
    duration="3 min",
).register()  # fmt: skip

Study(
    name="janz2020-theory", title="What the partition costs: cells, gain in a cell and regret of pi-GP-UCB",
    source=f"{PAPER}, Theorem 3", cases=tuple(SIDES), build=theory, horizon=100_000, replicates=4,
    published=growth, series=cells, rates=rates, duration="3 min",
).register()  # fmt: skip
