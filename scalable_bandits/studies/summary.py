"""Comparison of a study's results with published numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.specification import nearest

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
    """Compute the mean over replicates of regret / regret of uniform play (`analysis.means` has the ratio of means)."""
    total = result["regret"].sel(case=case, policy=policy).sum("round").values
    uniform = result.sizes["round"] * result["uniform_regret"].sel(case=case).values
    if not uniform.all():
        return Estimate(float("nan"), float("nan"))
    return _estimate(total / uniform)


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
                    if key not in PUBLISHED:
                        checks.refuse(f"key of {name}", key, nearest(key, PUBLISHED))
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
