"""Numbers from a study: means, paired differences, exponents of growth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Indices

if TYPE_CHECKING:
    import xarray

LEVEL = 0.95  # confidence level of the intervals
DECADE = 10  # exponents are fitted to the rounds from T / DECADE on


class Mean(NamedTuple):
    """Regret of a policy in one case, over its finished runs, in units of y."""

    case: str
    policy: str
    runs: int  # number of finished runs
    regret: float  # mean cumulative regret
    standard_error: float  # of that mean; NaN for one run
    low: float  # lower end of the confidence interval of the mean (Student's t)
    high: float  # its upper end
    average: float  # regret per round
    last_tenth: float  # regret per round over the last tenth of the rounds
    fraction: float  # regret as a fraction of uniform play's; NaN if uniform play has no regret


class Difference(NamedTuple):
    """Cumulative regret of a policy minus that of another policy in the same replicates, in units of y."""

    case: str
    policy: str
    against: str  # label of the other policy
    runs: int  # number of replicates finished by both
    difference: float  # mean; positive if the policy has more regret than `against`
    standard_error: float  # of that mean; NaN for one replicate
    low: float  # lower end of the confidence interval of the mean (Student's t)
    high: float  # its upper end
    wins: float  # share of the replicates with less regret than `against`


class Exponent(NamedTuple):
    """Exponent b of a fit R_t ~ t^b to cumulative regret over the last decade of rounds."""

    case: str
    policy: str
    runs: int  # number of finished runs, which are fitted
    exponent: float  # mean exponent of the runs
    standard_error: float  # of that mean; NaN for one run


class Spread(NamedTuple):
    """Mean of independent values with standard error and confidence interval (both NaN for one value)."""

    mean: Any  # a number, or (...,), like all fields in the units of the values
    standard_error: Any  # of that mean
    low: Any  # lower end of the confidence interval
    high: Any  # its upper end


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
    from scipy.special import stdtrit

    values = checks.finite("values", values)
    if not values.ndim:
        checks.refuse("values", values, "an array (n, ...)")
    if not 0.0 < checks.finite("level", level, ndim=0) < 1.0:
        checks.refuse("level", level, "a number between 0 and 1, both excluded")
    count, mean = len(values), values.mean(axis=0)
    if count < 2:
        nothing = np.full_like(mean, np.nan)
        return Spread(mean, nothing, nothing, nothing)
    error = values.std(axis=0, ddof=1) / np.sqrt(count)
    half = float(stdtrit(count - 1, 0.5 + level / 2.0)) * error
    return Spread(mean, error, mean - half, mean + half)


def _numbers(found: Spread) -> tuple[float, float, float, float]:
    return float(found.mean), float(found.standard_error), float(found.low), float(found.high)


def case_of(result: xarray.Dataset, case: str | None) -> str:
    """Return the name of a study's case; the name may be omitted if the study has one case.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    case
        Name of the case, or None.

    Raises
    ------
    ValueError
        If the case is unknown, or omitted although the study has several.
    """
    cases = [str(name) for name in result["case"].values]
    if case is None and len(cases) == 1:
        return cases[0]
    if case is None or case not in cases:
        checks.refuse("case", case, f"one of {', '.join(cases)}")
    return case


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
        Regret (runs, rounds), in units of y.
    """
    regret = result["regret"].sel(case=case, policy=policy).transpose("replicate", "round").values
    return regret[np.isfinite(regret).all(axis=1)]


def means(result: xarray.Dataset, level: float = LEVEL) -> list[Mean]:
    """Return the mean regrets of a study, best policy first in each case, policies without finished runs last.

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
    rows = []
    for case in map(str, result["case"].values):
        uniform = result["uniform_regret"].sel(case=case).values
        uniform = uniform[np.isfinite(uniform)]
        of_uniform = float(uniform.mean()) if len(uniform) else 0.0
        found = []
        for policy in map(str, result["policy"].values):
            regret = finished(result, case, policy)
            if not len(regret):
                found.append(Mean(case, policy, 0, *_numbers(Spread(*[np.nan] * 4)), *(np.nan,) * 3))
                continue
            total, rounds = spread(regret.sum(axis=1), level), regret.shape[1]
            average = float(total.mean) / rounds
            tail = float(regret[:, -max(1, rounds // 10) :].mean())
            fraction = average / of_uniform if of_uniform else float("nan")
            found.append(Mean(case, policy, len(regret), *_numbers(total), average, tail, fraction))
        rows += sorted(found, key=lambda row: (np.isnan(row.regret), row.regret))
    return rows


def differences(result: xarray.Dataset, against: str | None = None, level: float = LEVEL) -> list[Difference]:
    """Compare the cumulative regret of each policy with that of another policy, replicate by replicate.

    In a replicate all policies have the same function and the same noise, so that differences vary less than regrets.

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
    labels = [str(policy) for policy in result["policy"].values]
    if against is not None and against not in labels:
        checks.refuse("against", against, f"one of {', '.join(labels)}")
    rows, order = [], means(result)
    for case in map(str, result["case"].values):
        ranked = [row.policy for row in order if row.case == case]
        other = ranked[0] if against is None else against
        totals = result["regret"].sel(case=case).sum("round", skipna=False).transpose("policy", "replicate").values
        for policy in ranked:
            if policy == other:
                continue
            pairs = totals[labels.index(policy)] - totals[labels.index(other)]
            pairs = pairs[np.isfinite(pairs)]
            if len(pairs):
                numbers = _numbers(spread(pairs, level))
                rows.append(Difference(case, policy, other, len(pairs), *numbers, float((pairs < 0.0).mean())))
    return rows


def exponent(rounds: Indices, curves: Floats) -> Spread:
    """Fit the exponent b of each curve R_t ~ t^b by least squares in logarithms over the last decade of rounds.

    Parameters
    ----------
    rounds
        Rounds (k,), ascending.
    curves
        Cumulative regret (n, k), in units of y. Curves that are not positive over the last decade are left out.

    Raises
    ------
    ValueError
        If a number is not finite, or there is not one value for each round.

    Examples
    --------
    >>> t = np.arange(1, 1001)
    >>> round(float(exponent(t, np.array([3.0 * t**0.5])).mean), 6)
    0.5
    """
    t, values = checks.finite("rounds", rounds, ndim=1), checks.finite("curves", curves, ndim=2)
    if not len(t) or values.shape[1] != len(t):
        checks.refuse("curves", f"shape {values.shape}", f"(n, {len(t)}), one value for each of at least one round")
    late = t >= max(t[-1] / DECADE, 1.0)
    t, values = t[late], values[:, late]
    picked = np.unique(np.searchsorted(t, np.geomspace(t[0], t[-1], 200)))  # evenly on the logarithmic axis
    t, values = t[picked], values[:, picked]
    values = values[(values > 0.0).all(axis=1)]
    if len(t) < 2 or not len(values):
        return Spread(*[float("nan")] * 4)
    steps = np.log(t) - np.log(t).mean()
    return spread(np.log(values) @ steps / (steps @ steps))


def exponents(result: xarray.Dataset) -> list[Exponent]:
    """Fit the exponents of a study's regret curves, by case, in the order of its policies.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    rows, rounds = [], result["round"].values
    for case in map(str, result["case"].values):
        for policy in map(str, result["policy"].values):
            curves = finished(result, case, policy).cumsum(axis=1)
            found = exponent(rounds, curves)
            rows.append(Exponent(case, policy, len(curves), float(found.mean), float(found.standard_error)))
    return rows
