"""Numbers out of a study's result."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import xarray


class Row(NamedTuple):
    """One policy in one case."""

    case: str
    policy: str
    regret: float  # mean over replicates of the cumulative regret, in units of y
    standard_error: float  # of that mean; NaN for one replicate
    average: float  # regret a round
    last_tenth: float  # regret a round over the last tenth of the rounds
    fraction: float  # regret as a fraction of uniform play's; NaN where that has none


def summarize(result: xarray.Dataset) -> list[Row]:
    """Table of a study, best policy first within each case."""
    regret = result["regret"].transpose("case", "policy", "replicate", "round").values
    uniform = result["uniform_regret"].transpose("case", "replicate").values
    replicates, rounds = regret.shape[2:]
    total = regret.sum(axis=3)
    tail = regret[..., -max(1, rounds // 10) :].mean(axis=(2, 3))
    rows = []
    for c, case in enumerate(result["case"].values):
        order = np.argsort(total[c].mean(axis=1), kind="stable")
        for p in order:
            mean = float(total[c, p].mean())
            error = float(total[c, p].std(ddof=1) / np.sqrt(replicates)) if replicates > 1 else float("nan")
            of_uniform = rounds * float(uniform[c].mean())
            fraction = mean / of_uniform if of_uniform else float("nan")
            label = str(result["policy"].values[p])
            rows.append(Row(str(case), label, mean, error, mean / rounds, float(tail[c, p]), fraction))
    return rows
