"""`RegretBelow`: how often the recommended point is as good as it says when a run stops, and how much is saved.

RKHS functions on a grid, noise R = 0.1, eps a tenth of the function's range, at most 2,000 evaluations. With the kernel
and the norm known, the regret is to be at most eps in 1 - delta = 90 % of the stops; where the kernel is learned, the
share of right stops is reported: nothing guarantees it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import scalable_bandits as sb
from benchmarks.measure import Line

NOISE, BUDGET, LEARNED_BUDGET = 0.1, 2000, 200
KERNELS = {"RBF 0.2": sb.RBF(0.2), "Matern 5/2 0.3": sb.Matern(0.3, nu=2.5)}


class Stop(NamedTuple):
    """How one run ended."""

    stopped: bool  # whether by the rule
    evaluations: int
    excess: float  # regret of the recommended point over eps


def play(kernel: sb.Kernel, side: int, seed: int, learned: bool = False, budget: int = BUDGET) -> Stop:
    """Maximise one function until the rule says that it is good enough."""
    space = sb.Grid([[0.0, 1.0], [0.0, 1.0]], side)
    function = sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(NOISE), seed=seed)
    table, rng = function.table(), np.random.default_rng([seed, side])
    eps = 0.1 * float(table.max() - table.min())

    def measure(x: np.ndarray) -> float:
        return float(table[space.index(x)[0]] + NOISE * rng.standard_normal())

    given = {"noise": NOISE, "regularization": NOISE**2, "seed": seed}
    policy: sb.Policy
    if learned:
        policy = sb.GPEI(space, seed=seed)
    else:
        policy = sb.IGPUCB(space, kernel, rkhs_norm=function.rkhs_norm, confidence="flynn-reeb", **given)
    found = sb.maximize(measure, policy, budget, stop=sb.RegretBelow(eps), progress=False)
    regret = float(table.max() - table[space.index(found.recommended.x)[0]])
    return Stop(found.stopped_by is not None, len(found), regret / eps)


def lines(name: str, runs: list[Stop], budget: int, asked: str) -> Iterator[Line]:
    """Say how many stopped, how many of these were right, and what was saved on average."""
    stops = [run for run in runs if run.stopped]
    right = sum(run.excess <= 1.0 for run in stops)
    saved = 1.0 - sum(run.evaluations for run in runs) / (len(runs) * budget)
    share = f"{right}/{len(stops)}" + (f" = {right / len(stops):.3f}" if stops else "")
    what = f"RegretBelow, {name}, {len(runs)} functions, budget {budget}"
    yield Line(what, f"{share} at most eps", f"{len(stops)} of {len(runs)} stopped", f"{saved:.0%} saved", asked)


def stopping(quick: bool) -> Iterator[Line]:
    """Runs that end when the regret is bounded."""
    side, count = (8, 3) if quick else (30, 200)
    for name, kernel in KERNELS.items():
        few = count if name.startswith("RBF") else min(count, 10)  # rough functions take longer, and most the budget
        asked = ">= 0.9, >= 50%" if name.startswith("RBF") else ""
        runs = list(map(functools.partial(play, kernel, side), range(few)))
        yield from lines(f"{name} known", runs, BUDGET, asked)
    budget, count = (15, 2) if quick else (LEARNED_BUDGET, 40)
    for name, kernel in KERNELS.items():
        runs = [play(kernel, side, seed, learned=True, budget=budget) for seed in range(count)]
        yield from lines(f"{name} learned", runs, budget, "")
