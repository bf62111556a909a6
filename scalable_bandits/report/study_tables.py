"""Tables of a study's result, as the page and the command show them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from scalable_bandits import analysis
from scalable_bandits.report.blocks import Block, table
from scalable_bandits.report.numbers import bytes_in_words, duration_in_words, estimate, interval, number

if TYPE_CHECKING:
    import xarray

    from scalable_bandits.studies import Study

UNIFORM = "of uniform: cumulative regret as a fraction of uniform play's."
COSTS: dict[str, tuple[str, Callable[[float], str]]] = {  # headings and formats of what a timed study measures
    "round_seconds": ("a round", duration_in_words), "round_seconds_90": ("90 %", duration_in_words),
    "round_seconds_99": ("99 %", duration_in_words), "seconds": ("run", duration_in_words),
    "warm_up_seconds": ("warm-up", duration_in_words),
    "peak_memory": ("memory", bytes_in_words), "peak_memory_of_workers": ("of workers", bytes_in_words),
    "messages": ("messages", "{:,.0f}".format), "bytes_sent": ("sent", bytes_in_words),
}  # fmt: skip


def regrets_table(result: xarray.Dataset) -> Block:
    """Tabulate mean regrets, the best policy first; those of the best points with mean ranks if they are the measure.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    best, unit = analysis.measure_of(result) == analysis.BEST, result.attrs["unit"]
    ranked, rows = analysis.case_ranks(result) if best else {}, []
    for r in analysis.means(result):
        row = {"case": r.case, "T": f"{r.horizon:,}", "policy": r.policy, "runs": f"{r.runs:,}"}
        regret = estimate(r.regret, r.standard_error)
        if best:
            rank = number(ranked.get((r.case, r.policy, r.horizon), math.nan), 3)
            least = estimate(r.best, r.best_standard_error, 3)
            row |= {"best regret": least, "mean rank": rank, "cumulative regret": regret}
        else:
            row |= {"regret": regret, "95 % interval": interval(r.low, r.high)}
            row |= {"per round": number(r.average, 3), "last tenth": number(r.last_tenth, 3)}
        rows.append(row | {"of uniform": number(r.fraction, 3)})
    if best:
        text = (
            f"Best regret: that of the best point played, mean over the runs ± standard error, in {unit}; mean rank: "
            f"by best regret, over the replicates of the case, equal ones share the average; {UNIFORM}"
        )
        return table("Regret of the best point", rows, 5, text)
    text = (
        f"Mean cumulative regret over the runs ± standard error, in {unit}; per round: mean regret of "
        f"one round; last tenth: the same over the last tenth of the rounds; {UNIFORM}"
    )
    return table("Cumulative regret", rows, 6, text)


def ranks_table(result: xarray.Dataset) -> Block:
    """Tabulate mean ranks over all cases, and how often each policy is better than the first.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    ranked, rows = analysis.ranks(result), []
    for horizon in analysis.horizons_of(result):
        here = [row for row in ranked if row.horizon == horizon]
        first = here[0].policy if here else ""
        compared = {row.policy: row for row in analysis.wins(result, first) if row.horizon == horizon} if here else {}
        for row in here:
            one = compared.get(row.policy)  # None for the first
            counts = ("",) * 4 if one is None else (*map(str, one[4:7]), number(one.p_value, 2))
            cells = {"T": f"{horizon:,}", "policy": row.policy, "against": "" if one is None else first}
            cells |= {"pairs": str(row.pairs), "mean rank": number(row.rank, 3)}
            rows.append(cells | dict(zip(("wins", "losses", "ties", "p"), counts, strict=True)))
    text = (
        "Mean rank by best regret over all cases and replicates (pairs); wins, losses and ties against the policy with "
        "the least mean rank; p: two-sided sign test of wins against losses, too small because that policy was "
        "selected on the same data."
    )
    return table("Ranks", rows, 6, text)


def differences_table(result: xarray.Dataset) -> Block:
    """Tabulate paired differences from the best policy.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    rows = [
        {"case": r.case, "T": f"{r.horizon:,}", "policy": r.policy, "against": r.against, "pairs": str(r.runs),
         "difference": estimate(r.difference, r.standard_error), "95 % interval": interval(r.low, r.high),
         "wins": f"{r.wins:.0%}"}
        for r in analysis.differences(result)
    ]  # fmt: skip
    what = "Regret of the best point" if analysis.measure_of(result) == analysis.BEST else "Cumulative regret"
    text = (
        f"{what} minus that of the policy with the least mean regret, replicate by replicate, mean ± standard error; "
        "wins: share of the replicates with less regret than that policy. An interval that excludes 0 is evidence of a "
        "difference, but weaker than 95 %, because the best policy was selected on the same data."
    )
    return table("Paired differences", rows, 4, text)


def exponents_table(result: xarray.Dataset, expected: Mapping[str, Any]) -> Block:
    """Tabulate fitted exponents beside those of the theory.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    expected
        Exponents of the theory, as in `Study`.
    """
    rows = []
    for r in analysis.all_exponents(result):
        theory = expected.get(r.over, {}).get(r.quantity, {}).get(r.policy, math.nan)
        rows.append(
            {"growth of": f"{r.quantity} over {r.over}", "case": r.case, "policy": r.policy, "runs": str(r.runs),
             "range": f"{r.first:,.6g} to {r.last:,.6g}", "exponent": number(r.exponent, 3),
             "95 % interval": interval(r.low, r.high), "expected": "" if math.isnan(theory) else f"{theory:.3g}"}
        )  # fmt: skip
    text = (
        "Exponent b of a power law x^b fitted to the mean over the runs: over the last decade of rounds, or over an "
        "axis from its first to its last value. The interval is that of the bootstrap over runs, which is too narrow "
        "for fewer than five."
    )
    return table("Exponents of growth", rows, 5, text)


def costs_of(result: xarray.Dataset) -> list[dict[str, Any]]:
    """Return what the runs of a timed study took, means over the replicates: a row for each case and policy.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    known = [name for name in COSTS if name in result and np.isfinite(result[name].values).any()]
    mean, played, rows = result[known].mean("replicate"), analysis.present(result), []
    for c, p in zip(*np.nonzero(played), strict=True):
        numbers = {name: float(mean[name].values[c, p]) for name in known}
        labels = {"case": str(result["case"].values[c]), "policy": str(result["policy"].values[p])}
        rows.append({**labels, **{name: None if math.isnan(each) else each for name, each in numbers.items()}})
    return rows


def costs_table(result: xarray.Dataset) -> Block:
    """Tabulate what the runs of a timed study took.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    rows = costs_of(result)
    known = [name for name in COSTS if name in rows[0]]
    written = [
        {"case": row["case"], "policy": row["policy"],
         **{COSTS[name][0]: "" if row[name] is None else COSTS[name][1](row[name]) for name in known}}
        for row in rows
    ]  # fmt: skip
    text = (
        "Means over the replicates; a round: median, and what 90 and 99 of 100 rounds do not exceed; warm-up: "
        "compiling, loading and the first rounds of a copy; memory: largest, beyond what was there before."
    )
    return table("Time, memory and messages", written, len(known), text)


def published_table(study: Study, result: xarray.Dataset) -> Block:
    """Tabulate our numbers beside the published ones.

    Parameters
    ----------
    study
        Study that has published numbers.
    result
        Result of `Study.run` or `Study.open`.
    """
    rows = [] if study.published is None else study.published(result)
    cells = [
        {"case": r.case, "policy": r.policy, "quantity": r.quantity, "ours": estimate(r.ours, r.standard_error, 3),
         "published": r.published}
        for r in rows
    ]  # fmt: skip
    return table("Compared with the published results", cells, 2)
