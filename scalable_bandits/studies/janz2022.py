"""Comparison of Janz 2022 (PhD thesis, Cambridge), chapter 5: partitioned and phased policies on benchmark functions.

Differs from the thesis in: settings are those of Janz et al. 2020, section 5 (functions scaled to [-1, 1] on a
30^2 grid, noise uniform on [-0.1, 0.1], B = 1); SupKernelUCB has no tuned constant.
"""

from __future__ import annotations

from typing import Any

from scalable_bandits.environments import Benchmark, UniformNoise
from scalable_bandits.policies import IGPUCB, PiGPUCB, SupKernelUCB
from scalable_bandits.studies.janz2020 import KERNEL, grid
from scalable_bandits.studies.runs import Problem, Replicate
from scalable_bandits.studies.study import Study


def hierarchical(replicate: Replicate) -> Problem:
    """R = 0.1 is known, B = 1 assumed."""
    space = grid(2)
    environment = Benchmark(replicate.case, space, UniformNoise(0.1), unit_cube=True, scaled=True, seed=replicate.seed)
    known: dict[str, Any] = {"noise": 0.1, "rkhs_norm": 1.0, "delta": 0.1, "seed": replicate.seed}
    timed: dict[str, Any] = {"horizon": replicate.horizon, **known}
    return Problem(
        environment,
        {
            "IGP-UCB": IGPUCB(space, KERNEL, **known),
            "pi-GP-UCB": PiGPUCB(space, KERNEL, **timed),
            "pi-GP-UCB, tightened": PiGPUCB(space, KERNEL, tightening=True, **timed),
            "SupKernelUCB": SupKernelUCB(space, KERNEL, **timed),
        },
    )


Study(
    name="janz2022-hierarchical", title="Plain and tightened pi-GP-UCB, SupKernelUCB, IGP-UCB on benchmark functions",
    source="Janz 2022, chapter 5", cases=("eggholder", "rosenbrock", "camel", "schaffer2", "bukin6"),
    build=hierarchical, horizon=10_000, replicates=12, cover="pi-GP-UCB, tightened", duration="5 min",
).register()  # fmt: skip
