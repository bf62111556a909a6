"""What came of a study, in numbers: means, paired differences, exponents of growth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Indices

if TYPE_CHECKING:
    import xarray

LEVEL = 0.95  # of confidence intervals
DECADE = 10  # exponents are fitted to the rounds from T / DECADE on


class Mean(NamedTuple):
    """A policy's regret in one case, over its finished runs; in units of y."""

    case: str
    policy: str
    runs: int  # finished
    regret: float  # mean cumulative regret
    standard_error: float  # of that mean; NaN for one run
    low: float  # lower end of the confidence interval of the mean (Student's t)
    high: float  # its upper end
    average: float  # regret a round
    last_tenth: float  # regret a round over the last tenth of the rounds
    fraction: float  # regret as a fraction of uniform play's; NaN where that has none


class Difference(NamedTuple):
    """Cumulative regret of a policy minus another's in the same replicates; in units of y."""

    case: str
    policy: str
    against: str
    runs: int  # replicates that both finished
    difference: float  # mean; positive: more regret than `against`
    standard_error: float  # of that mean; NaN for one replicate
    low: float  # lower end of the confidence interval of the mean (Student's t)
    high: float  # its upper end
    wins: float  # share of the replicates with less regret than `against`


class Exponent(NamedTuple):
    """Exponent b of a fit R_t ~ t^b to cumulative regret over the last decade of rounds."""

    case: str
    policy: str
    runs: int  # finished, and so fitted
    exponent: float  # mean of the runs' fits
    standard_error: float  # of that mean; NaN for one run


class Spread(NamedTuple):
    """Mean of independent values, its standard error and its confidence interval (NaN for one value)."""

    mean: Any  # a number, or (...,), in the units of the values; so are the others
    standard_error: Any  # of that mean
    low: Any  # lower end of the confidence interval
    high: Any  # its upper end


def spread(values: Floats, level: float = LEVEL) -> Spread:
    """Mean over the first axis with a Student interval.

    Parameters
    ----------
    values
        (n, ...) independent along the first axis.
    level
        Of the interval.

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
    """Name of a study's case, which need not be given where there is one.

    Parameters
    ----------
    result
        What `Study.run` gave, or `Study.open` opened.
    case
        Its name.

    Raises
    ------
    ValueError
        If there is no such case, or several and none is named.
    """
    cases = [str(name) for name in result["case"].values]
    if case is None and len(cases) == 1:
        return cases[0]
    if case is None or case not in cases:
        checks.refuse("case", case, f"one of {', '.join(cases)}")
    return case


def finished(result: xarray.Dataset, case: str, policy: str) -> Floats:
    """Regret of a policy's finished runs of one case.

    Parameters
    ----------
    result
        What `Study.run` gave, or `Study.open` opened.
    case, policy
        Their names.

    Returns
    -------
    ndarray
        (runs, rounds) in units of y.
    """
    regret = result["regret"].sel(case=case, policy=policy).transpose("replicate", "round").values
    return regret[np.isfinite(regret).all(axis=1)]


def means(result: xarray.Dataset, level: float = LEVEL) -> list[Mean]:
    """Table of a study, best policy first within each case; what no run has finished comes last.

    Parameters
    ----------
    result
        What `Study.run` gave, or `Study.open` opened.
    level
        Of the confidence intervals, between 0 and 1.

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
    """Cumulative regret of each policy minus another's, replicate by replicate.

    A replicate gives all policies the same function and the same noise, so that differences vary less than regrets.

    Parameters
    ----------
    result
        What `Study.run` gave.
    against
        Label of the policy to compare with; in each case the one of least mean regret if not given. (An interval beside
        a winner chosen by the same data is too optimistic: name the policy where it matters.)
    level
        Of the confidence intervals.

    Raises
    ------
    ValueError
        If no policy of the study has that label, or the level is not between 0 and 1.
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
    """Fitted exponent b of curves R_t ~ t^b: least squares in logarithms over the last decade, curve by curve.

    Parameters
    ----------
    rounds
        (k,) ascending.
    curves
        (n, k) cumulative regret; one that is not positive there has no exponent and is left out.

    Raises
    ------
    ValueError
        If a number is not finite, or there is not one value a round.

    Examples
    --------
    >>> t = np.arange(1, 1001)
    >>> round(float(exponent(t, np.array([3.0 * t**0.5])).mean), 6)
    0.5
    """
    t, values = checks.finite("rounds", rounds, ndim=1), checks.finite("curves", curves, ndim=2)
    if not len(t) or values.shape[1] != len(t):
        checks.refuse("curves", f"shape {values.shape}", f"(n, {len(t)}), one value a round, of at least one")
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
    """Fitted exponents of a study's regret curves, case by case in the order of its policies.

    Parameters
    ----------
    result
        What `Study.run` gave, or `Study.open` opened.
    """
    rows, rounds = [], result["round"].values
    for case in map(str, result["case"].values):
        for policy in map(str, result["policy"].values):
            curves = finished(result, case, policy).cumsum(axis=1)
            found = exponent(rounds, curves)
            rows.append(Exponent(case, policy, len(curves), float(found.mean), float(found.standard_error)))
    return rows
