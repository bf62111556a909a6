"""Few choices: MiniGPUCB, which plays a chosen point several times, beside IGPUCB."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import scalable_bandits as sb
from benchmarks.measure import Line
from benchmarks.problems import policy, problem


class Played(NamedTuple):
    """Averages over functions."""

    regret: float  # as a fraction of uniform play's
    choices: float
    seconds: float


def play(dimension: int, horizon: int, seeds: int, shrinkage: float | None) -> Played:
    """Play MiniGPUCB, or IGPUCB without a shrinkage, on the functions of Table 1 of Janz et al. 2020."""
    found = []
    for seed in range(seeds):
        space, kernel, function = problem(30, dimension, seed)
        kind, options = (sb.IGPUCB, {}) if shrinkage is None else (sb.MiniGPUCB, {"shrinkage": shrinkage})
        player = policy(space, kernel, function, kind, seed=seed, **options)
        started = time.perf_counter()
        run = sb.simulate(player, function, horizon, keep="all")
        seconds = time.perf_counter() - started
        uniform = function.optimum() - float(np.mean(function.table()))
        found.append((float(run.regret.mean()) / uniform, getattr(player, "choices", horizon), seconds))
    return Played(*np.mean(found, axis=0).tolist())


def repeats(quick: bool) -> Iterator[Line]:
    """Regret, choices and time by how often a chosen point is played."""
    cases = ((1, 12, (1.1, 2.0)), (2, 12, (1.1, 2.0)), (3, 1, (1.1, 1.5, 2.0)))
    for dimension, seeds, shrinkages in cases[: 1 if quick else 3]:
        horizon, count = (500, 1) if quick else (10_000, seeds)
        play(dimension, 50, 1, None)  # compiles
        play(dimension, 50, 1, 1.1)
        every = play(dimension, horizon, count, None)
        for shrinkage in shrinkages:
            few = play(dimension, horizon, count, shrinkage)
            asked = "regret <= 1.1" + (", choices <= 0.25" if dimension < 3 and shrinkage == 1.1 else "")
            yield Line(
                f"MiniGPUCB, C = {shrinkage}, 30^{dimension} grid, T = {horizon:,}, {count} functions",
                f"regret {few.regret:.3f}, {few.choices:,.0f} choices, {few.seconds:.2f} s",
                f"IGPUCB: {every.regret:.3f}, {every.seconds:.2f} s",
                f"{few.regret / every.regret:.2f}; {few.seconds / every.seconds:.2f}", asked,
            )  # fmt: skip
