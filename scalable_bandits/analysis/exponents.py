"""Exponents of growth, with confidence intervals from replicates drawn again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scalable_bandits import checks
from scalable_bandits.analysis.curves import REGRET, ROUND, curves, numeric_axes
from scalable_bandits.checks import Floats
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Indices

if TYPE_CHECKING:
    import xarray

DECADE = 10  # the last decade is that from the end / DECADE on
SPANS = ("whole", "last decade")
POINTS = 200  # largest number of points of a curve that are fitted, evenly spaced on the logarithmic axis
DRAWS = 2000  # number of draws of the bootstrap
LEVEL = 0.95  # confidence level of the intervals
MISFIT = 0.7  # largest misfit of a curve that is called a power law (a factor of two)


class Power(NamedTuple):
    """Power law c x^b fitted to a curve; NaN where nothing can be fitted."""

    exponent: float  # b
    standard_error: float  # standard error of b, by the bootstrap over runs; NaN for one run
    low: float  # lower end of the confidence interval of b
    high: float  # its upper end
    factor: float  # c
    first: float  # smallest fitted x
    last: float  # largest fitted x
    runs: int  # number of runs
    misfit: float  # root mean square of log(mean / fit): about 0.1 where the fit misses the mean by 10 %


class Exponent(NamedTuple):
    """Exponent b of a fit x^b to a quantity of a policy in one case."""

    case: str
    policy: str
    quantity: str  # as in `curves`
    over: str  # "round", or an axis
    runs: int  # number of finished runs, which are fitted
    exponent: float  # exponent of the mean over runs
    standard_error: float  # standard error of the exponent, by the bootstrap over runs; NaN for one run
    low: float  # lower end of its confidence interval
    high: float  # upper end of its confidence interval
    first: float  # smallest fitted round, or value of the axis
    last: float  # largest fitted round, or value of the axis
    misfit: float  # root mean square of log(mean / fit)


def exponent(x: Indices | Floats, values: Floats, span: str = "last decade", level: float = LEVEL) -> Power:
    """Fit c x^b to the mean of curves, by least squares in logarithms.

    The interval has the percentiles of the exponents of 2,000 means of as many runs drawn with replacement, the same
    draws in every call. Of fewer than five runs it is too narrow: five values have an interval of about 85 % instead of
    95 %, and two of about 50 %.

    Parameters
    ----------
    x
        Rounds or values of an axis (k,), positive, ascending.
    values
        Curves (n, k), such as cumulative regrets in units of y. Those that are not positive over the span are left out.
    span
        "last decade", from a tenth of the last x on, or "whole".
    level
        Confidence level of the interval, between 0 and 1.

    Raises
    ------
    ValueError
        If a number is not finite, the x are not positive, or there is not one value for each of them.

    Examples
    --------
    >>> t = np.arange(1, 1001)
    >>> round(exponent(t, np.array([3.0 * t**0.5])).exponent, 6)
    0.5
    """
    at, curves_ = checks.finite("x", x, ndim=1), checks.finite("values", values, ndim=2)
    if not len(at) or curves_.shape[1] != len(at):
        checks.refuse("values", f"shape {curves_.shape}", f"(n, {len(at)}), one value for each of at least one x")
    if at[0] <= 0.0:
        checks.refuse("x", float(at[0]), "positive numbers")
    if span not in SPANS:
        checks.refuse("span", span, f"one of {', '.join(SPANS)}")
    if not 0.0 < checks.finite("level", level, ndim=0) < 1.0:
        checks.refuse("level", level, "a number between 0 and 1, both excluded")
    if span == "last decade":
        late = at >= at[-1] / DECADE
        at, curves_ = at[late], curves_[:, late]
    picked = spaced(at, POINTS)
    at, curves_ = at[picked], curves_[:, picked]
    curves_ = curves_[(curves_ > 0.0).all(axis=1)]
    runs = len(curves_)
    if len(at) < 2 or not runs:
        return Power(*(np.nan,) * 7, runs, np.nan)
    mean = np.log(curves_.mean(axis=0))
    slope = _slopes(at, mean)
    factor = float(np.exp(mean.mean() - slope * np.log(at).mean()))
    error = low = high = float("nan")
    if runs > 1:
        drawn = generator(0, "bootstrap").integers(runs, size=(DRAWS, runs))
        weights = np.stack([(drawn == i).sum(axis=1) for i in range(runs)], axis=1) / runs
        again = _slopes(at, np.log(weights @ curves_))
        error = float(again.std(ddof=1))
        low, high = (float(each) for each in np.quantile(again, [0.5 - level / 2.0, 0.5 + level / 2.0]))
    misfit = float(np.sqrt(np.mean((mean - np.log(factor) - slope * np.log(at)) ** 2)))
    return Power(float(slope), error, low, high, factor, float(at[0]), float(at[-1]), runs, misfit)


def spaced(x: Floats, count: int) -> Indices:
    """Return the places (j,) of at most so many of the numbers (k,), evenly spaced on a logarithmic axis."""
    return np.unique(np.searchsorted(x, np.geomspace(x[0], x[-1], count)).clip(max=len(x) - 1))


def _slopes(x: Floats, logarithms: Floats) -> Floats:
    """Return the slopes (...,) of curves (..., k) over log x."""
    steps = np.log(x) - np.log(x).mean()
    return np.asarray(logarithms @ steps / (steps @ steps))


def exponents(
    result: xarray.Dataset, quantity: str = REGRET, over: str = ROUND, span: str = "last decade", level: float = LEVEL
) -> list[Exponent]:
    """Fit the exponents of a study's curves, by case, in the order of its policies.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    quantity, over
        What is fitted, over rounds or over an axis, as in `curves`.
    span, level
        Fitted range and confidence level, as in `exponent`.

    Raises
    ------
    ValueError
        If the study has no such quantity or axis.
    """
    rows = []
    for one in curves(result, quantity, over):
        if one.x[0] <= 0.0:  # such as no workers
            one = one._replace(x=one.x[one.x > 0.0], values=one.values[:, one.x > 0.0])
        if len(one.x) < 2:
            continue
        power = exponent(one.x, one.values, span, level)
        numbers = power.exponent, power.standard_error, power.low, power.high, power.first, power.last, power.misfit
        rows.append(Exponent(one.case, one.policy, quantity, over, power.runs, *numbers))
    return rows


def all_exponents(result: xarray.Dataset) -> list[Exponent]:
    """Fit what follows a power law: regret, time, memory and messages over each axis; without axes, regret and time
    over rounds.

    Fits that miss the mean by more than a factor of about two (`MISFIT`) are left out.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    axes, found = numeric_axes(result), []
    if not axes:
        found = exponents(result) + (exponents(result, "elapsed") if "elapsed" in result else [])
    for axis in axes:
        found += exponents(result, over=axis, span="whole") if (result[axis].values > 0.0).all() else []
        for quantity in ("round_seconds", "peak_memory", "messages"):
            known = quantity in result and np.isfinite(result[quantity].values).any()
            found += exponents(result, quantity, axis, "whole") if known else []
    return [row for row in found if row.misfit <= MISFIT]
