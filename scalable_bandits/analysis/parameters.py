"""What a posterior says of each parameter: slices through one point, and how much of its variance each explains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies import ConstrainedGPEI, Policy
from scalable_bandits.runs.importance import Importance as Importance
from scalable_bandits.runs.importance import importance_of
from scalable_bandits.runs.result import TuningResult
from scalable_bandits.spaces import Axis, Space

DRAWN = 201  # points along a continuous parameter


class Slice(NamedTuple):
    """Posterior along one parameter, the others as they are at a point."""

    axis: Axis  # the parameter
    dimension: int  # number of the parameter, from 0
    points: Floats  # (k, d) points of the space
    mean: Floats  # (k,) posterior mean, in units of y
    std: Floats  # (k,) posterior standard deviation, in units of y
    low: Floats  # (k,) lower end of the central 95 % interval, in units of y
    high: Floats  # (k,) upper end of the central 95 % interval, in units of y
    allowed: NDArray[np.bool_]  # (k,) mask of the points that fulfil the space's constraints
    numbers: Floats  # (k,) numbers of the parameter
    at: float  # number of the parameter at the point through which the slice goes
    feasible: Floats | None = None  # (k,) probability that all constraints hold; None without constraints


def played_policy(found: Policy | TuningResult) -> Policy:
    """Return a policy, or the one of a result; ValueError for anything else.

    Parameters
    ----------
    found
        Policy, or result of `maximize` or `minimize`.
    """
    policy = found.policy if isinstance(found, TuningResult) else found
    checks.kind("found", policy, Policy, "a policy, or a result of maximize or minimize")
    assert policy is not None
    return policy


def slices(found: Policy | TuningResult, at: Any = None, names: Sequence[str] | None = None) -> list[Slice]:
    """Compute the posterior along each parameter through one point.

    Where a parameter takes a value under which others exist that do not exist at the point (`when`), these are as in
    the best observation with that value; without one, in the middle of their scales.

    Parameters
    ----------
    found
        Policy with observations, or result of `maximize` or `minimize`.
    at
        Point (d,), or setting (a dict), through which the slices go. Default: the recommended one.
    names
        Names of the parameters ("x0", "x1", ... on spaces without names). Default: all that exist at the point and
        have several values.

    Returns
    -------
    list of Slice
        One for each parameter.

    Raises
    ------
    ValueError
        If the policy has no posterior or plays a pool, a name is unknown, its parameter does not exist at the point, or
        the point is not in the space.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> space = sb.SearchSpace({"rate": sb.Real(1e-4, 0.1, log=True), "depth": sb.Integer(1, 8)})
    >>> policy = sb.GPEI(space, sb.RBF(0.5), noise=0.01, regularization=1e-4)
    >>> policy.tell([{"rate": 0.01, "depth": 3}, {"rate": 0.05, "depth": 6}], [1.0, 0.5])
    >>> rate, depth = sb.analysis.slices(policy)
    >>> depth.numbers.tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    >>> round(float(depth.mean[2]), 2)
    1.0
    """
    policy = played_policy(found)
    space = policy.space
    if space.scanned:
        checks.refuse("found", space, "a space of parameters: the candidates of a pool have no order")
    if at is None and isinstance(found, TuningResult):
        at = found.recommended.x  # the best one in its context
    point = space.check(policy.best().x if at is None else at)[0]
    exist = space.active(point[None])[0]
    every = [axis.name for axis in space.axes]
    for name in names or ():
        if name not in every:
            checks.refuse("names", name, f"names of parameters: {', '.join(every)}")
        if not exist[every.index(name)]:
            checks.refuse("names", name, f"parameters that exist at {space.argument(point)}")
    observed = _observed(policy)
    found_slices = []
    for i, axis in enumerate(space.axes):
        if (axis.name in names) if names is not None else (exist[i] and axis.low < axis.high):
            found_slices.append(_slice(policy, point, i, observed))
    return found_slices


def _observed(policy: Policy) -> Floats:
    """Return the observed points (m, d) of a policy, the best first."""
    told = policy.observations
    if told is None:
        return np.empty((0, policy.space.dimension))
    return told.x[np.argsort(told.y if policy.minimize else -told.y, kind="stable")]


def _slice(policy: Policy, point: Floats, i: int, observed: Floats) -> Slice:
    space, axis = policy.space, policy.space.axes[i]
    numbers = axis.drawn(DRAWN)
    if axis.values is None or len(axis.values) > len(numbers) or point[i] not in numbers:
        numbers = np.union1d(numbers, point[i])
    points = _along(space, point, i, numbers, observed)
    x = points if space.has_coordinates else points[:, 0].astype(np.int64)
    (mean, std), (low, high) = policy.posterior(x), policy.interval(x)
    if not np.isfinite(mean).all():
        checks.refuse("found", type(policy).__name__, "a policy with a posterior at all points")
    feasible = policy.feasibility(x) if isinstance(policy, ConstrainedGPEI) else None
    return Slice(axis, i, points, mean, std, low, high, space.fulfilled(points), numbers, float(point[i]), feasible)


def _along(space: Space, point: Floats, i: int, numbers: Floats, observed: Floats) -> Floats:
    """Return points (k, d) that are a point (d,) but for numbers (k,) of parameter i, and for those that need it."""
    exist = space.active(point[None])[0]
    points = np.tile(point, (len(numbers), 1))
    points[:, i] = numbers
    for row in np.flatnonzero((space.active(points) & ~exist).any(axis=1)):
        alike = observed[observed[:, i] == numbers[row]]
        others = alike[0] if len(alike) else space.spread(np.full((1, len(point)), 0.5))[0]
        points[row] = np.where(exist, points[row], others)
    return points


def importance(found: Policy | TuningResult, *, points: int = 256, error: float = 0.01, seed: int = 0) -> Importance:
    """Estimate how much of the variance of the posterior mean over the space each parameter explains.

    Parameters are drawn independently and uniformly on their scales (logarithmic ones on the logarithm). A parameter
    that does not exist in a setting has no effect there. Constraints (`where`) are disregarded. Indices are exact but
    for sampling, whose standard error is given; what the model does not know yet is not part of them.

    Parameters
    ----------
    found
        Policy with observations, or result of `maximize` or `minimize`.
    points
        Number n of scrambled Sobol points of an estimate, a power of two; the posterior is computed at n (p + 2)
        settings. The indices are averages of 8 to 32 independent estimates.
    error
        Standard error below which no more estimates are made.
    seed
        Seed of the scrambling.

    Returns
    -------
    Importance
        First-order and total indices (p,) with standard errors (p,). All are 0 if the posterior mean is constant.

    Raises
    ------
    ValueError
        If the policy has no posterior, its space is not a product of parameters (`Points`, `Arms`), the number of
        points is not a power of two, or the error is not positive.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.GPEI(sb.Grid([[0, 1], [0, 1]], 5), 10.0 * sb.RBF(1.0), noise=0.01, regularization=1e-4)
    >>> policy.tell(policy.space.points(), policy.space.points() @ [2.0, 1.0])
    >>> found = sb.analysis.importance(policy)
    >>> found.names, found.total.round(2).tolist()
    (('x0', 'x1'), [0.8, 0.2])
    """
    return importance_of(played_policy(found), points, error, seed)
