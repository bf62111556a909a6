"""What came of runs and studies, in numbers: means, paired differences, exponents, coverage, time per round."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments import Environment
from scalable_bandits.policies import PEGPUCB, Policy
from scalable_bandits.policies.gaussian_process import IndexPolicy
from scalable_bandits.policies.unknown_prior import UnknownPriorPolicy
from scalable_bandits.simulate import simulate
from scalable_bandits.spaces import Arms, FiniteSpace, Grid, Indices
from scalable_bandits.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray

LEVEL = 0.95  # of confidence intervals
DECADE = 10  # exponents are fitted to the rounds from T / DECADE on
NORMAL = 1.959964  # standard deviations to either side that hold 95 % of a normal distribution


class Mean(NamedTuple):
    """A policy's regret in one case, over its finished runs; in units of y."""

    case: str
    policy: str
    runs: int  # finished
    regret: float  # mean cumulative regret
    standard_error: float  # of that mean; NaN for one run
    low: float  # confidence interval of the mean (Student's t)
    high: float
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
    low: float  # confidence interval of the mean (Student's t)
    high: float
    wins: float  # share of the replicates with less regret than `against`


class Exponent(NamedTuple):
    """Exponent b of a fit R_t ~ t^b to cumulative regret over the last decade of rounds."""

    case: str
    policy: str
    runs: int
    exponent: float  # mean of the runs' fits
    standard_error: float  # of that mean; NaN for one run


class Spread(NamedTuple):
    """Mean of independent values, its standard error and its confidence interval (NaN for one value)."""

    mean: Any
    standard_error: Any
    low: Any
    high: Any


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

    if not 0.0 < level < 1.0:
        checks.refuse("level", level, "a number between 0 and 1, both excluded")
    count, mean = len(values), np.asarray(values).mean(axis=0)
    if count < 2:
        nothing = np.full_like(mean, np.nan)
        return Spread(mean, nothing, nothing, nothing)
    error = np.asarray(values).std(axis=0, ddof=1) / np.sqrt(count)
    half = float(stdtrit(count - 1, 0.5 + level / 2.0)) * error
    return Spread(mean, error, mean - half, mean + half)


def _numbers(found: Spread) -> tuple[float, float, float, float]:
    return float(found.mean), float(found.standard_error), float(found.low), float(found.high)


def case_of(result: xarray.Dataset, case: str | None) -> str:
    """Name of a study's case, which need not be given where there is one; ValueError for what is none."""
    cases = [str(name) for name in result["case"].values]
    if case is None and len(cases) == 1:
        return cases[0]
    if case is None or case not in cases:
        checks.refuse("case", case, f"one of {', '.join(cases)}")
    return case


def finished(result: xarray.Dataset, case: str, policy: str) -> Floats:
    """Regret (runs, rounds) of a policy's finished runs of one case, in units of y."""
    regret = result["regret"].sel(case=case, policy=policy).transpose("replicate", "round").values
    return regret[np.isfinite(regret).all(axis=1)]


def means(result: xarray.Dataset, level: float = LEVEL) -> list[Mean]:
    """Table of a study, best policy first within each case; what no run has finished comes last.

    Parameters
    ----------
    result
        What `Study.run` gave, or `Study.open` opened.
    level
        Of the confidence intervals.
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

    Examples
    --------
    >>> t = np.arange(1, 1001)
    >>> round(float(exponent(t, np.array([3.0 * t**0.5])).mean), 6)
    0.5
    """
    late = rounds >= max(rounds[-1] / DECADE, 1.0)
    t, values = rounds[late], np.asarray(curves)[:, late]
    picked = np.unique(np.searchsorted(t, np.geomspace(t[0], t[-1], 200)))  # evenly on the logarithmic axis
    t, values = t[picked], values[:, picked]
    values = values[(values > 0.0).all(axis=1)]
    if len(t) < 2 or not len(values):
        return Spread(*[float("nan")] * 4)
    steps = np.log(t) - np.log(t).mean()
    return spread(np.log(values) @ steps / (steps @ steps))


def exponents(result: xarray.Dataset) -> list[Exponent]:
    """Fitted exponents of a study's regret curves, in the order of its policies."""
    rows, rounds = [], result["round"].values
    for case in map(str, result["case"].values):
        for policy in map(str, result["policy"].values):
            curves = finished(result, case, policy).cumsum(axis=1)
            found = exponent(rounds, curves)
            rows.append(Exponent(case, policy, len(curves), float(found.mean), float(found.standard_error)))
    return rows


def indexed(policy: Policy) -> bool:
    """Whether a policy maximises an index over its space that `index_of` knows."""
    if isinstance(policy, PEGPUCB):
        return True
    return isinstance(policy, IndexPolicy) and type(policy).choose is IndexPolicy.choose


def index_of(policy: Policy, points: Floats) -> Floats:
    """Index of the round to come at points (k, d): what the policy maximises, pending points apart.

    Raises
    ------
    ValueError
        If the policy has no such function: it draws, or keeps an index a cell or a stage.
    """
    if indexed(policy) and isinstance(policy, IndexPolicy):
        mean, std = policy.posterior(points)
        return policy.acquisition(None)(mean, std**2)
    if isinstance(policy, PEGPUCB):
        names = policy.surviving or (policy.priors[-1].name,)
        pairs = [policy.posterior(points, prior=name) for name in names]
        return np.max([mean + policy.width * std for mean, std in pairs], axis=0)
    checks.refuse("policy", type(policy).__name__, "a policy that maximises an index over its space, or PEGPUCB")


class Coverage(NamedTuple):
    """Share of the candidates at which f lies within a policy's intervals, after some rounds."""

    round: Indices  # (k,)
    confidence: Floats  # (k,) within mean +- width x deviation; NaN for a policy without a width
    normal: Floats  # (k,) within mean +- 1.96 deviations, which holds 95 % where the prior is true


def coverage(policy: Policy, environment: Environment, run: Trajectory, points: int = 40) -> Coverage:
    """How often a policy's intervals held, by telling a fresh copy of it what a run observed.

    Parameters
    ----------
    policy
        That played; it is left as it is.
    environment
        What it played, whose f is known on a finite space.
    run
        From round 1 on.
    points
        After how many rounds to look, at the most, evenly on a logarithmic axis.

    Raises
    ------
    ValueError
        If the environment is on a box, or the run does not begin with round 1.
    """
    space = policy.finite_space
    if not isinstance(environment.space, FiniteSpace):
        checks.refuse("environment", environment, "one on a finite space")
    if run.first_round != 1:
        checks.refuse("run", run, "a run from round 1 on")
    rounds = np.unique(np.rint(np.geomspace(1, len(run), points)).astype(np.int64))
    fresh, found, before = attrs.evolve(policy), [], 0
    arms = isinstance(space, Arms)
    x, y = run.candidate if arms else space.points(run.candidate), run.y
    everywhere = np.arange(space.size) if arms else space.points()
    for t in rounds:
        fresh.tell(x[before:t], y[before:t])
        before = int(t)
        mean, std = fresh.posterior(everywhere)
        error = np.abs(environment.table(before + 1 if environment.changing else 1) - mean)
        wide = (error <= fresh.width * std).mean() if np.isfinite(fresh.width) else np.nan
        found.append((wide, (error <= NORMAL * std).mean()))
    confidence, normal = np.array(found, dtype=np.float64).T
    return Coverage(rounds, confidence, normal)


def plays_over_rounds(policy: UnknownPriorPolicy, run: Trajectory) -> tuple[Floats, UnknownPriorPolicy]:
    """Which prior each round of a run was credited to, by telling a fresh copy of the policy what was observed.

    Returns
    -------
    ndarray
        (rounds, priors) credits: 1 for the prior whose turn it was; of `FullyBayesianGPUCB` probabilities.
    UnknownPriorPolicy
        The copy, after the run.

    Raises
    ------
    ValueError
        If the run does not begin with round 1.
    """
    if run.first_round != 1:
        checks.refuse("run", run, "a run from round 1 on")
    fresh = attrs.evolve(policy)
    x = run.candidate if isinstance(policy.space, Arms) else policy.finite_space.points(run.candidate)
    totals = [list(fresh.plays.values())]
    for point, y in zip(x, run.y, strict=True):
        fresh.tell(point, float(y))
        totals.append(list(fresh.plays.values()))
    return np.diff(np.array(totals, dtype=np.float64), axis=0), fresh


class Times(NamedTuple):
    """Time per round, block by block of a run."""

    round: Indices  # (k,) last of each block
    seconds: Floats  # (k,) a round, mean over the block


def time_rounds(policy: Policy, environment: Environment, horizon: int, blocks: int = 30) -> Times:
    """Play a policy and measure how long its rounds take; the first block has compilation and loading in it.

    Parameters
    ----------
    policy
        It is played, and goes on from where it is.
    environment, horizon
        As in `simulate`.
    blocks
        How many to measure, at the most; evenly on a logarithmic axis.
    """
    ends = np.unique(np.rint(np.geomspace(min(10, horizon), horizon, blocks)).astype(np.int64))
    seconds, before = [], 0
    for end in ends:
        started = time.perf_counter()
        simulate(policy, environment, int(end) - before)
        seconds.append((time.perf_counter() - started) / (int(end) - before))
        before = int(end)
    return Times(ends, np.array(seconds))


def lattice(policy: Policy, side: int) -> tuple[NDArray[Any], tuple[int, ...] | None]:
    """Points at which to draw a function on a policy's space of one or two dimensions, and their shape as an image.

    A box and a grid are drawn on a lattice of `side` points along each dimension; candidates without order are
    themselves, with no shape. Arms are numbers.

    Raises
    ------
    ValueError
        If the space has more than two dimensions.
    """
    space: Any = policy.space
    if isinstance(space, Arms):
        return np.arange(space.size), None
    if space.dimension not in (1, 2):
        checks.refuse(
            "policy", f"{space.dimension} dimensions", "a policy on a space of one or two dimensions, or arms"
        )
    if isinstance(space, FiniteSpace) and not isinstance(space, Grid):
        points = space.points()
        return (np.sort(points, axis=0) if space.dimension == 1 else points), None
    drawn = Grid(space.bounds, side)
    return drawn.points(), drawn.sides
