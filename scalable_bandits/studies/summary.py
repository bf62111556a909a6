"""Comparison of a study's results with published numbers; a study's results in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import attrs
import numpy as np

from scalable_bandits import analysis, checks
from scalable_bandits.checks import Floats
from scalable_bandits.runs.readable import counted, listed, significant, with_error
from scalable_bandits.specification import check_name

if TYPE_CHECKING:
    import xarray


class Comparison(NamedTuple):
    """Number computed by a study, and the published number."""

    case: str
    policy: str
    quantity: str  # compared quantity, with its unit
    ours: float  # mean over replicates
    standard_error: float  # standard error of `ours`; NaN if unknown
    published: str  # as printed in the paper


class Estimate(NamedTuple):
    """Estimate from replicates with its standard error."""

    value: float
    standard_error: float  # NaN for one replicate


def fraction_of(result: xarray.Dataset, case: str, policy: str) -> Estimate:
    """Compute the mean over replicates of regret / regret of uniform play (`analysis.means` has the ratio of means).

    Of the finished runs; NaN without any, and where uniform play has no regret.
    """
    total = result["regret"].sel(case=case, policy=policy).sum("round", skipna=False).values
    uniform = result.sizes["round"] * result["uniform_regret"].sel(case=case).values
    done = np.isfinite(total)
    if not done.any() or not uniform[done].all():
        return Estimate(float("nan"), float("nan"))
    return _estimate(total[done] / uniform[done])


def _estimate(values: Floats) -> Estimate:
    """Return the mean of independent values (n,) with its standard error."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return Estimate(float(values.mean()), float(error))


PUBLISHED = ("fraction", "time")  # regret as a fraction of uniform play's, and run time


@attrs.frozen
class Published:
    """Comparison with a table of published numbers: the `Study.published` of a study file.

    By case and policy, the table has texts like {fraction = "0.11", time = "82 min"}; the time is optional.
    """

    table: Mapping[str, Mapping[str, Mapping[str, str]]] = attrs.field()

    @table.validator
    def _check(self, _: object, table: Mapping[str, Mapping[str, Mapping[str, str]]]) -> None:
        for case, policies in table.items():
            if not isinstance(policies, Mapping):
                checks.refuse(f"published.{case}", policies, "a table of policies")
            for policy, words in policies.items():
                name = f"published.{case}.{policy}"
                if not isinstance(words, Mapping) or "fraction" not in words:
                    checks.refuse(name, words, "a table with the key fraction and optionally time")
                for key, value in words.items():
                    check_name(f"key of {name}", key, PUBLISHED)
                    if not isinstance(value, str):
                        checks.refuse(f"{name}.{key}", value, "text")

    def __call__(self, result: xarray.Dataset) -> list[Comparison]:
        rows = []
        for case in map(str, result["case"].values):
            for policy in map(str, result["policy"].values):
                if policy not in self.table.get(case, {}):
                    continue
                words = self.table[case][policy]
                regret = fraction_of(result, case, policy)
                rows.append(Comparison(case, policy, "fraction of uniform play's regret", *regret, words["fraction"]))
                if words.get("time") and "seconds" in result:
                    seconds = float(result["seconds"].sel(case=case, policy=policy).mean())
                    rows.append(Comparison(case, policy, "run time (s)", seconds, float("nan"), words["time"]))
        return rows


def slope(result: xarray.Dataset, variable: str, case: str, policy: str) -> Estimate:
    """Estimate the exponent of growth of a series, or of cumulative regret, over the last decade of rounds."""
    series = result[variable].sel(case=case, policy=policy).transpose("replicate", "round").values
    if variable == "regret":
        series = series.cumsum(axis=1)
    rounds = series.shape[1]
    first = max(rounds // 10, 1)
    if first == rounds:
        return Estimate(float("nan"), float("nan"))
    return _estimate(np.log(series[:, -1] / series[:, first - 1]) / np.log(rounds / first))


MOST_CASES, MOST_POLICIES = 5, 4  # of which a summary says something


def sentences(result: xarray.Dataset, compared: Sequence[Comparison] = ()) -> list[str]:
    """Return up to ten sentences on a study's result: its size, the best policies, ranks, published numbers.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    compared
        Numbers of the study beside published ones.
    """
    runs, horizon = analysis.complete(result), analysis.horizons_of(result)[-1]
    planned = analysis.present(result)[..., None] & np.ones_like(runs)
    left = int((planned & ~runs).sum())
    size = [counted(result.sizes[name], name) for name in ("case", "policy", "replicate")]
    rounds = " and ".join(f"{each:,}" for each in analysis.horizons_of(result))
    unfinished = f"; {left:,} of {counted(int(planned.sum()), 'run')} unfinished" if left else ""
    lines = [f"{result.attrs['title']}: {', '.join(size)}, {rounds} rounds{unfinished}"]
    if not runs.any():
        return lines
    means = [row for row in analysis.means(result) if row.horizon == horizon]
    differences = [row for row in analysis.differences(result) if row.horizon == horizon]
    tuning, cases = analysis.measure_of(result) == analysis.BEST, list(dict.fromkeys(row.case for row in means))
    first = {case: next(row for row in means if row.case == case) for case in cases}  # the best policy of each case
    for case in cases[:MOST_CASES]:
        others = [row for row in differences if row.case == case]
        waiting = any(row.case == case and not row.runs for row in means)
        lines.append(f"{case}: {_best(first[case], others, waiting, tuning, result.attrs['unit'])}")
    if len(cases) > MOST_CASES:
        often = Counter(row.policy for row in first.values() if row.runs).most_common(MOST_POLICIES)
        lines.append("Best of a case: " + ", ".join(f"{policy} in {count}" for policy, count in often))
    if len(cases) > 1:
        lines.append(_ranks(result, horizon))
    agrees = [agreed for agreed in map(_agrees, compared) if agreed is not None]
    if agrees:
        lines.append(f"Published numbers: {sum(agrees)} of {len(agrees)} are within 2 standard errors of ours")
    return [line for line in lines if line]


def _best(row: analysis.Mean, others: Sequence[analysis.Difference], waiting: bool, tuning: bool, unit: str) -> str:
    """Say which policy is best in a case, and which others are not clearly worse."""
    if not row.runs:
        return "no finished run"
    if tuning:
        regret = f"regret of the best point {with_error(row.best, row.best_standard_error)} {unit}"
    elif np.isfinite(row.fraction) and row.regret:
        share = with_error(row.fraction, row.standard_error * row.fraction / row.regret)
        regret = f"{share} of uniform play's regret"
    else:
        regret = f"regret {with_error(row.regret, row.standard_error)} {unit}"
    if row.runs == 1:
        return f"{row.policy} is best, {regret}; one run says nothing of chance"
    near = [each.policy for each in others if not each.low > 0.0]
    if near:
        chance = f"not clearly worse: {listed(near, MOST_POLICIES)}"
    elif others:
        chance = f"all others{' with finished runs' if waiting else ''} are clearly worse"
    else:
        chance = "no other has finished runs"
    return f"{row.policy} is best, {regret}; {chance}"


def _ranks(result: xarray.Dataset, horizon: int) -> str:
    """Say which policies have the least mean ranks, and how often the first has less regret than the second."""
    ranked = [row for row in analysis.ranks(result) if row.horizon == horizon]
    if len(ranked) < 2:
        return ""
    first, second = (row.policy for row in ranked[:2])
    won = next(row for row in analysis.wins(result, second) if (row.policy, row.horizon) == (first, horizon))
    listed = ", ".join(f"{row.policy} {row.rank:.2f}" for row in ranked[:MOST_POLICIES])
    against = f"{first} has less regret than {second} in {won.wins:,} of {won.pairs:,} runs"
    return f"Mean ranks over all cases: {listed}; {against} (sign test: p = {significant(won.p_value, 2)})"


def _agrees(row: Comparison) -> bool | None:
    """Return whether a published number, or bound, is within two standard errors of ours; None if it is neither."""
    bound = row.published.startswith("at most ")
    try:
        published = float(row.published.removeprefix("at most "))
    except ValueError:
        return None
    if not np.isfinite([row.ours, row.standard_error]).all():
        return None
    return (row.ours - published if bound else abs(row.ours - published)) <= 2.0 * row.standard_error
