"""Tables in the report of a study whose measure is the regret of the best point."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scalable_bandits.analysis import Wins, case_ranks, horizons_of, means, ranks, wins
from scalable_bandits.report.blocks import Block
from scalable_bandits.report.numbers import number

if TYPE_CHECKING:
    import xarray


def at(horizon: int, several: bool) -> tuple[str, ...]:
    """Return the cells of a row that show its horizon: one if there are several horizons, and else none."""
    return (f"{horizon:,}",) if several else ()


def tuning_blocks(result: xarray.Dataset) -> list[Block]:
    """Tabulate regrets of the best points with mean ranks by case, and ranks over all cases."""
    return [_best_regrets(result), _ranks(result)]


def _best_regrets(result: xarray.Dataset) -> Block:
    several, ranked = len(horizons_of(result)) > 1, case_ranks(result)
    rows = [
        (r.case, r.policy, *at(r.horizon, several), str(r.runs), number(r.best, 3), number(r.best_standard_error, 2),
         number(ranked.get((r.case, r.policy, r.horizon), math.nan), 3), number(r.regret), number(r.standard_error, 2),
         number(r.fraction, 3))
        for r in means(result)
    ]  # fmt: skip
    numbers = "runs", "best regret", "std. error", "mean rank", "cumulative regret", "std. error", "of uniform"
    note = (
        "Best regret: regret of the best point played, mean over the runs; mean rank: by best regret, over the "
        "replicates of the case, equal ones share the average; of uniform: cumulative regret as a fraction of uniform "
        "play's."
    )
    heads = ("case", "policy", *("T",) * several, *numbers)
    return Block("table", "Regret of the best point", heads, rows, 7, note)


def _ranks(result: xarray.Dataset) -> Block:
    """Tabulate mean ranks over all cases, and how often each policy is better than the first."""
    several, ranked = len(horizons_of(result)) > 1, ranks(result)
    rows = []
    for horizon in horizons_of(result):
        here = [row for row in ranked if row.horizon == horizon]
        first = here[0].policy if here else ""
        compared: dict[str, Wins] = {}
        if here:
            compared = {row.policy: row for row in wins(result, first) if row.horizon == horizon}
        for row in here:
            one = compared.get(row.policy)  # None for the first
            against, counts = "", [""] * 4
            if one is not None:
                against, counts = first, [str(one.wins), str(one.losses), str(one.ties), number(one.p_value, 2)]
            rows.append((row.policy, *at(horizon, several), against, str(row.pairs), number(row.rank, 3), *counts))
    note = (
        "Mean rank by best regret over all cases and replicates (pairs); wins, losses and ties against the policy with "
        "the least mean rank; p: two-sided sign test of wins against losses, too small because that policy was "
        "selected on the same data."
    )
    numbers = "pairs", "mean rank", "wins", "losses", "ties", "p"
    return Block("table", "Ranks", ("policy", *("T",) * several, "against", *numbers), rows, 6, note)
