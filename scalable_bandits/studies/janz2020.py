"""Comparison of pi-GP-UCB's partition with the theory of Janz, Burt & Gonzalez 2020: cells, gains and regret.

The problems need no code: ``janz2020-table1.toml``, ``janz2020-benchmarks.toml`` and ``janz2020-theory.toml``. The name
of a case ends with its dimension ("d = 2"); the kernel is a Matern kernel with nu = 3/2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.rates import cell_gain_rate, cells_rate, partition_exponents, partition_regret_exponent
from scalable_bandits.policies import PiGPUCB, Policy
from scalable_bandits.studies.summary import Comparison, slope

if TYPE_CHECKING:
    import xarray


def cells(policy: Policy) -> dict[str, Floats]:
    """Count the cells made up to each round (rounds,), including cells without observations."""
    if not isinstance(policy, PiGPUCB):
        checks.refuse("analysis", type(policy).__name__, "PiGPUCB: the analysis counts its cells")
    first = policy.cover[0]
    bounds = np.array(policy.space.bounds)  # type: ignore[attr-defined]
    side = (first.upper - first.lower)[0] / np.ptp(bounds, axis=1)[0]
    splits = np.zeros(policy.rounds + 1)
    np.add.at(splits, [element.split for element in policy.cover if element.split is not None], 1.0)
    dimension = policy.space.dimension
    return {"cells": round(1.0 / side) ** dimension + 2.0**dimension * splits.cumsum()[1:]}


def rates(case: str, rounds: Floats) -> dict[str, Floats]:
    """Return the rates (k,) of Lemma 2, Lemma 1 and Theorem 3 at rounds (k,)."""
    d, nu = int(case[-1]), 1.5
    found = {
        "cells": cells_rate(nu, rounds, d), "information_gain": cell_gain_rate(rounds),
        "regret": rounds ** partition_regret_exponent(nu, d),
    }  # fmt: skip
    return {name: np.asarray(rate) for name, rate in found.items()}


def growth(result: xarray.Dataset) -> list[Comparison]:
    """Compare exponents over the last decade of rounds, and gains divided by their rate, with the theory."""
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
