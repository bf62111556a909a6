"""Numbers from a study: means and mean curves, paired differences, ranks of policies, and how often one is better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scalable_bandits import checks
from scalable_bandits.analysis.curves import (
    BEST,
    REGRET,
    bests,
    cases_of,
    curves,
    horizons_of,
    labels_of,
    measure_of,
    of_runs,
    policies_of,
    thinned,
    totals,
)
from scalable_bandits.analysis.exponents import LEVEL
from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Indices

if TYPE_CHECKING:
    import xarray


class Mean(NamedTuple):
    """Regret of a policy in one case up to a horizon, over its finished runs, in units of y."""

    case: str
    policy: str  # without its horizon, if it is played at several
    horizon: int  # number of rounds
    runs: int  # number of finished runs
    regret: float  # mean cumulative regret
    standard_error: float  # standard error of `regret`; NaN for one run
    low: float  # lower end of the confidence interval of the mean (Student's t)
    high: float  # its upper end
    average: float  # regret per round
    last_tenth: float  # regret per round over the last tenth of the rounds; NaN if too few of them were kept
    fraction: float  # regret as a fraction of uniform play's; NaN if uniform play has no regret
    best: float  # mean regret of the best point played; NaN if rounds were not kept
    best_standard_error: float  # standard error of `best`; NaN for one run


class MeanCurve(NamedTuple):
    """Mean regret over rounds of the finished runs of one policy in one case, in units of y."""

    case: str
    policy: str  # without its horizon, if it is played at several
    runs: int  # number of finished runs
    x: Floats  # (k,) rounds, ascending
    mean: Floats  # (k,) mean cumulative regret; that of the best point if the study's measure is "best"
    standard_error: Floats  # (k,) standard error of `mean`; NaN for one run
    shares: dict[str, float]  # share of all rounds that used each prior, by its name; empty without several priors


class Difference(NamedTuple):
    """Regret of a policy minus that of another policy in the same replicates, in units of y.

    The regret is that of the best point if the study's measure is "best", and else the cumulative one.
    """

    case: str
    policy: str
    horizon: int  # number of rounds
    against: str  # label of the other policy
    runs: int  # number of replicates finished by both
    difference: float  # mean; positive if the policy has more regret than `against`
    standard_error: float  # standard error of `difference`; NaN for one replicate
    low: float  # lower end of the confidence interval of the mean (Student's t)
    high: float  # its upper end
    wins: float  # share of the replicates with less regret than `against`


class Rank(NamedTuple):
    """Mean rank of a policy at a horizon."""

    policy: str  # without its horizon, if it is played at several
    horizon: int  # number of rounds
    pairs: int  # number of pairs of a case and a replicate that the policy finished
    rank: float  # mean over these; 1 is the rank of the least regret


class Wins(NamedTuple):
    """How often a policy has less regret than another policy in the same replicate."""

    policy: str  # without its horizon, if it is played at several
    horizon: int  # number of rounds
    against: str  # the other policy
    pairs: int  # number of pairs of a case and a replicate that both finished
    wins: int  # pairs in which the policy has less regret
    losses: int  # pairs in which it has more
    ties: int  # pairs in which both have the same
    p_value: float  # p-value of the two-sided sign test, without the ties; 1 if there are only ties


class Spread(NamedTuple):
    """Mean of independent values with standard error and confidence interval (both NaN for one value)."""

    mean: Any  # a number, or (...,), like all fields in the units of the values
    standard_error: Any  # standard error of the mean
    low: Any  # lower end of the confidence interval
    high: Any  # its upper end


UNKNOWN = Spread(*[float("nan")] * 4)


def spread(values: Floats, level: float = LEVEL) -> Spread:
    """Compute the mean over the first axis with Student's confidence interval.

    Parameters
    ----------
    values
        Values (n, ...), independent along the first axis.
    level
        Confidence level of the interval, between 0 and 1.

    Raises
    ------
    ValueError
        If the level is not between 0 and 1.

    Examples
    --------
    >>> found = spread(np.array([1.0, 2.0, 3.0]))
    >>> round(float(found.mean), 3), round(float(found.low), 3), round(float(found.high), 3)
    (2.0, -0.484, 4.484)
    """
    values = checks.finite("values", values)
    if not values.ndim:
        checks.refuse("values", values, "an array (n, ...)")
    if not 0.0 < checks.finite("level", level, ndim=0) < 1.0:
        checks.refuse("level", level, "a number between 0 and 1, both excluded")
    count, mean = len(values), values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else np.full_like(mean, np.nan)
    return around(mean, error, count, level)


def around(mean: Any, standard_error: Any, count: int, level: float = LEVEL) -> Spread:
    """Return Student's confidence interval around the mean of so many independent values.

    Parameters
    ----------
    mean, standard_error
        Mean and its standard error, numbers or arrays of one shape.
    count
        Number of values; the interval is NaN for one.
    level
        Confidence level of the interval, between 0 and 1.
    """
    from scipy.special import stdtrit

    half = float(stdtrit(max(count - 1, 1), 0.5 + level / 2.0)) * standard_error
    return Spread(mean, standard_error, mean - half, mean + half)


def means(result: xarray.Dataset, level: float = LEVEL) -> list[Mean]:
    """Return the mean regrets of a study at each horizon, best policy first, policies without finished runs last.

    The best policy is that of the least regret of the best point if the study's measure is "best", and else that of the
    least cumulative regret.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    level
        Confidence level of the intervals, between 0 and 1.

    Raises
    ------
    ValueError
        If the level is not between 0 and 1.
    """
    return [
        row
        for case in cases_of(result)
        for horizon in horizons_of(result)
        for row in _means(result, case, horizon, level)
    ]


def _means(result: xarray.Dataset, case: str, horizon: int, level: float) -> list[Mean]:
    """Return the mean regrets of one case at a horizon, best policy first."""
    every, found = result["uniform_regret"].sel(case=case).values, []
    for policy, label in labels_of(result, case, horizon).items():
        rounds, regret = totals(result, case, label, horizon)
        done = np.isfinite(regret).all(axis=1) if rounds[-1:] == horizon else np.zeros(len(regret), np.bool_)
        regret = regret[done]
        if not len(regret):
            found.append(Mean(case, policy, horizon, 0, *(np.nan,) * 9))
            continue
        best = bests(result, case, label, horizon)[1][done, -1]
        of_best = spread(best, level) if np.isfinite(best).all() else UNKNOWN
        total = spread(regret[:, -1], level)
        uniform = every[done & np.isfinite(every)]  # of the same replicates
        of_uniform = float(uniform.mean()) if len(uniform) else 0.0
        average = float(total.mean) / horizon
        tail = _last_tenth(rounds, regret, horizon)
        fraction = average / of_uniform if of_uniform else float("nan")
        numbers = map(float, (*total, average, tail, fraction, *of_best[:2]))
        found.append(Mean(case, policy, horizon, len(regret), *numbers))
    if result.attrs.get("measure") == BEST:
        return sorted(found, key=lambda row: (not row.runs, np.isnan(row.best), np.nan_to_num(row.best), row.regret))
    return sorted(found, key=lambda row: (np.isnan(row.regret), row.regret))


def _last_tenth(rounds: Indices, regret: Floats, horizon: int) -> float:
    """Return the mean regret of one round over the last tenth, given the cumulative regret (runs, k) in rounds (k,).

    The tenth begins after the last round that was kept before it. The mean is NaN if that makes it longer by more than
    a twentieth, as where every k-th round is kept: it would be one over other rounds, not a less exact one.
    """
    tenth = max(1, horizon // 10)
    before = int(np.searchsorted(rounds, horizon - tenth, "right"))
    start, earlier = (int(rounds[before - 1]), regret[:, before - 1]) if before else (0, np.zeros(len(regret)))
    if horizon - start > 1.05 * tenth:
        return float("nan")
    return float((regret[:, -1] - earlier).mean()) / (horizon - start)


def mean_curves(result: xarray.Dataset, points: int = 36) -> list[MeanCurve]:
    """Return the mean regret of each policy in each case over some rounds: the curves of a study in few numbers.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    points
        Number of rounds that are even on a linear axis, and as many on a logarithmic one.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> result = sb.Study.load("srinivas2010-synthetic").run(replicates=2, horizon=5, policies=["GP-EI"])
    >>> [(one.policy, one.runs, one.x.tolist()) for one in mean_curves(result)]
    [('GP-EI', 2, [1.0, 2.0, 3.0, 4.0, 5.0])]
    """
    found = []
    for one in curves(result, BEST if measure_of(result) == BEST else REGRET):
        drawn = thinned(one, points)
        mean, error = spread(drawn.values)[:2]
        shares = prior_shares(result, one.case).get(one.policy, {})
        found.append(MeanCurve(one.case, one.policy, len(one.values), drawn.x, mean, error, shares))
    return found


def curves_of(record: Mapping[str, Any]) -> list[MeanCurve]:
    """Return the mean curves of the record of a study, as they were before they were printed.

    Parameters
    ----------
    record
        Plain data that ``scalable-bandits run NAME --json`` prints.

    Raises
    ------
    ValueError
        If the record has no curves: those of version 0.2 and before do not.
    """
    if "curves" not in record:
        checks.refuse("record", sorted(record), "the record of a study with `curves`, as version 0.3 prints it")
    found = []
    for one in record["curves"]:
        arrays: dict[str, Any] = {name: np.array(one[name], float) for name in ("x", "mean", "standard_error")}
        found.append(MeanCurve(**{**one, **arrays}))
    return found


def prior_shares(result: xarray.Dataset, case: str) -> dict[str, dict[str, float]]:
    """Return the share of all rounds of all replicates that used each prior, by policy and by the prior's name.

    Policies without several priors are left out.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    case
        Name of the case.
    """
    if "plays" not in result:
        return {}
    plays = result["plays"].sel(case=case).sum("replicate", min_count=1).transpose("policy", "prior")
    names, found = plays["prior"].values.astype(str).tolist(), {}
    for policy, row in zip(plays["policy"].values.astype(str).tolist(), plays.values, strict=True):
        known = np.flatnonzero(np.isfinite(row))  # priors of other cases are NaN
        if len(known):
            found[policy] = {names[i]: float(row[i] / row[known].sum()) for i in known}
    return found


def differences(result: xarray.Dataset, against: str | None = None, level: float = LEVEL) -> list[Difference]:
    """Compare the regret of each policy with that of another policy, replicate by replicate.

    The regret is that of the best point if the study's measure is "best", and else the cumulative one. In a replicate
    all policies have the same function and the same noise, so that differences vary less than regrets.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    against
        Label of the policy to compare with; in each case the policy with the least mean regret if not given. (Intervals
        around a winner chosen from the same data are too narrow: name the policy if this matters.)
    level
        Confidence level of the intervals, between 0 and 1.

    Raises
    ------
    ValueError
        If no policy of the study has this label, or the level is not between 0 and 1.
    """
    known = policies_of(result)
    if against is not None and against not in known:
        checks.refuse("against", against, f"one of {', '.join(known)}")
    rows, order = [], means(result)
    regrets = {horizon: _regrets(result, horizon) for horizon in horizons_of(result)}
    for c, case in enumerate(cases_of(result)):
        for horizon, last in regrets.items():
            ranked = [row.policy for row in order if row.case == case and row.horizon == horizon]
            other = ranked[0] if against is None else against
            for policy in (policy for policy in ranked if policy != other and other in last):
                pairs = last[policy][c] - last[other][c]
                pairs = pairs[np.isfinite(pairs)]
                if len(pairs):
                    numbers = map(float, (*spread(pairs, level), (pairs < 0.0).mean()))
                    rows.append(Difference(case, policy, horizon, other, len(pairs), *numbers))
    return rows


def ranks(result: xarray.Dataset) -> list[Rank]:
    """Return the mean rank of each policy over all cases and replicates, least first, at each horizon.

    In each replicate of each case, the policies that finished it are ranked by their regret: that of the best point if
    the study's measure is "best", and else the cumulative one. Equal regrets share the average of their ranks.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.

    Returns
    -------
    list of Rank
        One for each horizon and each policy that finished a replicate.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> study = sb.Study.from_dict({
    ...     "name": "tuning", "horizon": 40, "replicates": 5, "measure": "best",
    ...     "environments": {"branin": {"type": "Benchmark", "name": "branin", "scaled": True,
    ...                                 "space": sb.Grid([[-5, 10], [0, 15]], 40), "noise": sb.GaussianNoise(0.01)}},
    ...     "policies": {"EI": {"type": "GPEI", "kernel": sb.RBF((4.0, 8.0))}, "random": {"type": "RandomSearch"}},
    ...     "shared": {"policies": {"noise": "exact", "regularization": "noise variance"}},
    ... })
    >>> result = study.run()
    >>> [(row.policy, row.pairs) for row in ranks(result)]
    [('EI', 5), ('random', 5)]
    >>> row = wins(result, against="random")[0]
    >>> row.wins, row.losses, row.ties, row.p_value
    (4, 1, 0, 0.375)
    """
    from scipy.stats import rankdata

    found = []
    for horizon in horizons_of(result):
        regrets = _regrets(result, horizon)
        if not regrets:
            continue
        placed = rankdata([each.ravel() for each in regrets.values()], axis=0, nan_policy="omit")  # NaN stays NaN
        rows = []
        for policy, row in zip(regrets, placed, strict=True):
            known = row[np.isfinite(row)]
            rows += [Rank(policy, horizon, len(known), float(known.mean()))] if len(known) else []
        found += sorted(rows, key=lambda row: row.rank)
    return found


def case_ranks(result: xarray.Dataset) -> dict[tuple[str, str, int], float]:
    """Return the mean ranks over the replicates of each case, by case, policy and horizon.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    found: dict[tuple[str, str, int], float] = {}
    for case in cases_of(result):
        found |= {(case, row.policy, row.horizon): row.rank for row in ranks(result.sel(case=[case]))}
    return found


def wins(result: xarray.Dataset, against: str, tie: float = 0.0) -> list[Wins]:
    """Count in how many replicates of all cases each policy has less regret than another policy, at each horizon.

    The regret is that of the best point if the study's measure is "best", and else the cumulative one.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    against
        Label of the policy to compare with.
    tie
        Largest difference, in units of y, of two regrets that count as equal.

    Returns
    -------
    list of Wins
        One for each horizon and each policy that finished a replicate that `against` finished, in the study's order.

    Raises
    ------
    ValueError
        If no policy of the study has this label, or `tie` is negative.
    """
    from scipy.stats import binomtest

    known = policies_of(result)
    if against not in known:
        checks.refuse("against", against, f"one of {', '.join(known)}")
    if checks.finite("tie", tie, ndim=0) < 0.0:
        checks.refuse("tie", tie, "a number of at least 0")
    found = []
    for horizon in horizons_of(result):
        regrets = _regrets(result, horizon)
        if against not in regrets:
            continue
        other = regrets.pop(against)
        for policy, regret in regrets.items():
            difference = regret - other
            difference = difference[np.isfinite(difference)]
            won, lost = int((difference < -tie).sum()), int((difference > tie).sum())
            p_value = float(binomtest(won, won + lost).pvalue) if won + lost else 1.0
            if len(difference):
                ties = len(difference) - won - lost
                found.append(Wins(policy, horizon, against, len(difference), won, lost, ties, p_value))
    return found


def _regrets(result: xarray.Dataset, horizon: int) -> dict[str, Floats]:
    """Return the regrets (cases, replicates) of the policies that play up to a horizon; NaN where one did not."""
    cases, count = cases_of(result), result.sizes["replicate"]
    found: dict[str, Floats] = {}
    for row, case in enumerate(cases):
        for policy, label in labels_of(result, case, horizon).items():
            regrets = found.setdefault(policy, np.full((len(cases), count), np.nan))
            regrets[row] = of_runs(result, None, case, label, horizon)
    return {policy: found[policy] for policy in policies_of(result) if policy in found}
