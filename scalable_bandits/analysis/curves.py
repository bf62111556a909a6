"""Curves of a study: regret, time or memory of each policy over rounds, or over the values of an axis."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Indices

if TYPE_CHECKING:
    import xarray

ROUND = "round"
REGRET = "regret"
HORIZON, HORIZONS = "horizon", "horizons"  # the longest; all, in ascending order, if a study has a list of them
ABSENT = "absent"  # label of a case and name of a policy, of each pair that is not played
BEST = "best"  # measure of a study, and quantity: regret of the best point played so far

Value = int | float | str  # of an axis


class Curve(NamedTuple):
    """A quantity of the finished runs of one policy."""

    case: str  # without the axis that the curve is over
    policy: str  # without its horizon, if it is played at several
    x: Floats  # (k,) rounds, or values of the axis, ascending
    values: Floats  # (runs, k) cumulative regret or regret of the best point in units of y, seconds, or bytes


def shown_value(axis: str, value: Value) -> str:
    """Return the value of an axis as it stands in labels.

    Parameters
    ----------
    axis
        Name of the axis.
    value
        Its value.
    """
    shown = value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:.12g}"
    return f"{'T' if axis == HORIZON else axis} = {shown}"


def case_of(result: xarray.Dataset | Mapping[str, Any], case: str | None) -> str:
    """Return the name of a study's case; the name may be omitted if the study has one case.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`, or a record of a study with its curves.
    case
        Name of the case, or None.

    Raises
    ------
    ValueError
        If the case is unknown, or omitted although the study has several.
    """
    if "curves" in result:  # plain data
        cases = list(dict.fromkeys(str(one["case"]) for one in result["curves"]))
    else:
        cases = cases_of(cast("xarray.Dataset", result))
    if case is None and len(cases) == 1:
        return cases[0]
    if case is None or case not in cases:
        checks.refuse("case", case, f"one of {', '.join(cases)}")
    return case


def cases_of(result: xarray.Dataset) -> list[str]:
    """Return the labels of the cases of a study.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.

    Raises
    ------
    ValueError
        If cases, policies or replicates were selected so that they are no dimension any more.
    """
    for name in ("case", "policy", "replicate"):
        if name in result.coords and name not in result.sizes:
            alone = result[name].item()
            checks.refuse("result", f"{name} {alone!r} without a dimension", f"one selected as sel({name}=[{alone!r}])")
    return list(map(str, result["case"].values))


def horizons_of(result: xarray.Dataset) -> list[int]:
    """Return the horizons of a study, ascending.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.

    Raises
    ------
    ValueError
        If cases, policies or replicates were selected so that they are no dimension any more.
    """
    cases_of(result)
    last = int(result[ROUND].values[-1])
    return sorted({int(each) for each in np.atleast_1d(result.attrs.get(HORIZONS, last)) if each <= last})


def policies_of(result: xarray.Dataset) -> dict[str, dict[int, str]]:
    """Return the labels of each policy by its horizon; its name is that of the label without a horizon.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    cases_of(result)
    last = int(result[ROUND].values[-1])
    labels = [str(label) for label in result["policy"].values]
    own = result[HORIZON].values.tolist() if HORIZON in result.coords else [last] * len(labels)
    found: dict[str, dict[int, str]] = {}
    for label, horizon in zip(labels, own, strict=True):
        found.setdefault(label.removesuffix(f", {shown_value(HORIZON, horizon)}"), {})[min(horizon, last)] = label
    return found


def _series(result: xarray.Dataset, name: str, case: str, policy: str, horizon: int | None) -> tuple[Indices, Floats]:
    """Return the rounds (k,) up to a horizon, that of the label if None, and a series (replicates, k) of its runs."""
    if horizon is None:
        horizon = next(at for known in policies_of(result).values() for at, each in known.items() if each == policy)
    rounds = result[ROUND].values[: int(np.searchsorted(result[ROUND].values, horizon, "right"))]
    values = result[name].sel(case=case, policy=policy).transpose("replicate", ROUND).values
    return rounds, values[:, : len(rounds)]


def totals(result: xarray.Dataset, case: str, policy: str, horizon: int | None = None) -> tuple[Indices, Floats]:
    """Return the cumulative regret of all runs of one label, up to a horizon.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    case, policy
        Labels of the case and the policy.
    horizon
        Last round; that of the policy if not given.

    Returns
    -------
    rounds : ndarray
        Rounds (k,) that were kept.
    regret : ndarray
        Cumulative regret (replicates, k) in units of y, NaN from the first round on that has not been played; of a
        study that keeps some rounds those that all finished runs have, or the last alone if none is finished.
    """
    whole = "cumulative_regret" not in result
    rounds, values = _series(result, REGRET if whole else "cumulative_regret", case, policy, horizon)
    if whole:
        return rounds, values.cumsum(axis=1)
    done = np.isfinite(values[:, -1])
    kept = np.isfinite(values[done]).all(axis=0) if done.any() else np.arange(values.shape[1]) == values.shape[1] - 1
    return rounds[kept], values[:, kept]


def bests(result: xarray.Dataset, case: str, policy: str, horizon: int | None = None) -> tuple[Indices, Floats]:
    """Return the regret of the best point played so far in all runs of one label, up to a horizon.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    case, policy
        Labels of the case and the policy.
    horizon
        Last round; that of the policy if not given.

    Returns
    -------
    rounds : ndarray
        Rounds (k,) in the result.
    regret : ndarray
        Smallest regret (replicates, k) of a point played up to each round, without noise, in units of y; NaN from the
        first round on that was not played or not kept.
    """
    rounds, regret = _series(result, REGRET, case, policy, horizon)
    whole = rounds == np.arange(1, len(rounds) + 1)
    return rounds, np.minimum.accumulate(np.where(whole, regret, np.nan), axis=1)  # NaN stays NaN


def measure_of(result: xarray.Dataset) -> str:
    """Return the measure of a study: "cumulative", "average" or "best".

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    return str(result.attrs.get("measure", "cumulative"))


def labels_of(result: xarray.Dataset, case: str, horizon: int) -> dict[str, str]:
    """Return the label of each policy that plays a case up to a horizon: that of the horizon, or one that goes on.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    case
        Name of the case.
    horizon
        Number of rounds.
    """
    found, known = {}, [str(label) for label in result["policy"].values]
    here = present(result)[[str(each) for each in result["case"].values].index(case)]
    for policy, labels in policies_of(result).items():
        if not all(here[known.index(label)] for label in labels.values()):
            continue
        if horizon in labels or (len(labels) == 1 and horizon <= max(labels)):
            found[policy] = labels.get(horizon) or labels[max(labels)]
    return found


def present(result: xarray.Dataset) -> NDArray[np.bool_]:
    """Return which policies are played in which cases (cases, policies).

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    absent = {tuple(pair) for pair in json.loads(result.attrs.get(ABSENT, "[]"))}
    names = result.coords.get("policy_name", result["policy"]).values
    return np.array([[(str(case), str(name)) not in absent for name in names] for case in result["case"].values])


def complete(result: xarray.Dataset) -> NDArray[Any]:
    """Return which runs (cases, policies, replicates) have all their rounds.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    cases, policies = ([str(label) for label in result[name].values] for name in ("case", "policy"))
    ends = [[totals(result, case, policy)[1][:, -1:] for policy in policies] for case in cases]
    found = [[np.isfinite(end[:, 0]) if end.size else np.zeros(len(end), bool) for end in row] for row in ends]
    return np.array(found)


def finished(result: xarray.Dataset, case: str, policy: str) -> Floats:
    """Return the regret of a policy's finished runs of one case.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    case, policy
        Name of the case and label of the policy.

    Returns
    -------
    ndarray
        Regret (runs, rounds) of the rounds that were kept, in units of y.
    """
    rounds = totals(result, case, policy)[0]
    regret = result[REGRET].sel(case=case, policy=policy, round=rounds).transpose("replicate", ROUND).values
    return regret[np.isfinite(regret).all(axis=1)]


def curves(result: xarray.Dataset, quantity: str = REGRET, over: str = ROUND) -> list[Curve]:
    """Return a quantity of a study over rounds, or over the values of an axis.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    quantity
        "regret", the cumulative regret, or "best", the regret of the best point; over an axis that of all rounds. Over
        an axis also any variable over cases, policies and replicates, such as "seconds"; over rounds also "elapsed",
        the seconds since the start of a run.
    over
        "round", or an axis of numbers. Over rounds, a policy that is played at several horizons has its last regret at
        each.

    Raises
    ------
    ValueError
        If the study has no such quantity or axis.
    """
    if over == ROUND:
        return _over_rounds(result, quantity)
    return _over_axis(result, quantity, over)


def thinned(one: Curve, points: int) -> Curve:
    """Return a curve over rounds at some of them, dense on both a linear and a logarithmic axis.

    Parameters
    ----------
    one
        Curve over rounds.
    points
        Number of rounds along each of the two axes.
    """
    rounds = dense(int(one.x[-1]), points)
    at = np.unique(np.searchsorted(one.x, rounds))
    return one._replace(x=one.x[at], values=one.values[:, at])


def dense(horizon: int, points: int) -> Indices:
    """Return rounds (k,) from 1 to a horizon that are dense on both a linear and a logarithmic axis.

    Parameters
    ----------
    horizon
        Last round.
    points
        Number of rounds along each of the two axes.
    """
    even, log = np.linspace(1, horizon, min(points, horizon)), np.geomspace(1, horizon, min(points, horizon))
    return np.unique(np.rint(np.concatenate([even, log])).astype(np.int64))


def _over_rounds(result: xarray.Dataset, quantity: str) -> list[Curve]:
    if quantity not in (REGRET, BEST, "elapsed") or (quantity == "elapsed" and quantity not in result):
        measured = ", or 'elapsed'" if "elapsed" in result else "; 'elapsed' is measured by timed studies"
        checks.refuse("quantity", quantity, f"'regret', 'best'{measured}")
    found, series = [], _bests_of_finished if quantity == BEST else totals
    for case in cases_of(result):
        for name, labels in policies_of(result).items():
            if quantity == "elapsed":
                label = labels[max(labels)]
                x, values = result["mark"].values, result["elapsed"].sel(case=case, policy=label).values
            elif len(labels) == 1:
                x, values = series(result, case, labels[max(labels)])
            else:
                x = np.array(sorted(labels))
                values = np.stack([of_runs(result, quantity, case, labels[at]) for at in x], axis=1)
            found += _curve(case, name, x, values)
    return found


def _bests_of_finished(result: xarray.Dataset, case: str, policy: str) -> tuple[Indices, Floats]:
    """Return `bests`; of a study that keeps some rounds, those of the finished runs."""
    rounds, values = bests(result, case, policy)
    if "cumulative_regret" in result:
        values = values[np.isfinite(totals(result, case, policy)[1][:, -1])]
    return rounds, values


def _curve(case: str, policy: str, x: Any, values: Floats) -> list[Curve]:
    """Return the curve of the runs that have all values which any run has; none if there is no such run."""
    known = np.isfinite(values).any(axis=0)
    x, values = np.asarray(x, dtype=np.float64)[known], values[:, known]
    values = values[np.isfinite(values).all(axis=1)]
    return [Curve(case, policy, x, values)] if values.size else []


def numeric_axes(result: xarray.Dataset) -> dict[str, str]:
    """Return the axes of a study that have numbers, and the dimension of each: "case" or "policy".

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    axes = {str(name): result[name].dims for name in result.coords if name not in ("case", "policy", HORIZON)}
    known = {name: str(dims[0]) for name, dims in axes.items() if dims in (("case",), ("policy",))}
    return {name: dimension for name, dimension in known.items() if result[name].dtype.kind in "if"}


def _over_axis(result: xarray.Dataset, quantity: str, over: str) -> list[Curve]:
    numbers = numeric_axes(result)
    if over not in numbers:
        checks.refuse("over", over, f"'round', or an axis of numbers: {', '.join(numbers) or 'this study has none'}")
    costs = [str(n) for n, each in result.data_vars.items() if each.dims == ("case", "policy", "replicate")]
    known = [REGRET, BEST, *costs]
    if quantity not in known:
        checks.refuse("quantity", quantity, f"one of {', '.join(known)}")
    cases = _groups(result, "case", over)
    policies = _groups(result, "policy", over)
    found = []
    for case, members in cases.items():
        for policy, labels in policies.items():
            if len(members) == len(labels) == 1:
                continue  # the axis is not theirs
            pairs = [(x if numbers[over] == "case" else z, c, p) for x, c in members for z, p in labels]
            pairs.sort(key=lambda pair: pair[0])
            values = np.stack([of_runs(result, quantity, c, p) for _, c, p in pairs], axis=1)
            found += _curve(case, policy, [pair[0] for pair in pairs], values)
    return found


def _groups(result: Any, dimension: str, over: str) -> dict[str, list[tuple[float, str]]]:
    """Return value and label of what differs in one axis alone, by the label without it; policies at the last T."""
    labels = [str(label) for label in result[dimension].values]
    if dimension == "policy":
        labels = [known[max(known)] for known in policies_of(result).values()]
    there = over in result.coords and result[over].dims == (dimension,)
    found: dict[str, list[tuple[float, str]]] = {}
    for label in labels:
        value = result[over].sel({dimension: label}).item() if there else np.nan
        shown = f", {shown_value(over, value)}"
        name = label.replace(shown, "") if there and np.isfinite(value) else label
        if HORIZON in result.coords and dimension == "policy":
            name = name.removesuffix(f", {shown_value(HORIZON, result[HORIZON].sel(policy=label).item())}")
        found.setdefault(name, []).append((value, label))
    return found


def of_runs(result: Any, quantity: str | None, case: str, policy: str, horizon: int | None = None) -> NDArray[Any]:
    """Return a quantity (replicates,) of the runs of one label, NaN of those that are not finished.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    quantity
        Name of the quantity, one that `curves` has over an axis; None for the regret by which policies are compared.
    case, policy
        Labels of the case and the policy.
    horizon
        Last round of regrets; that of the policy if not given.
    """
    if quantity is None:
        quantity = BEST if measure_of(result) == BEST else REGRET
    if quantity in (REGRET, BEST):
        return (bests if quantity == BEST else totals)(result, case, policy, horizon)[1][:, -1]
    return np.asarray(result[quantity].sel(case=case, policy=policy).values)
