"""Diagnostics of a policy and its run: index, coverage of the intervals, plays of each prior, time per round."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import attrs
import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments import Environment
from scalable_bandits.policies import PEGPUCB, Policy
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.policies.unknown_prior import UnknownPriorPolicy
from scalable_bandits.runs.simulate import simulate
from scalable_bandits.runs.summary import NORMAL
from scalable_bandits.runs.trajectory import Trajectory
from scalable_bandits.spaces import Grid, Indices


def indexed(policy: Policy) -> bool:
    """Return whether `index_of` can compute the index that a policy maximises.

    Parameters
    ----------
    policy
        Any policy.
    """
    if isinstance(policy, PEGPUCB):
        return True
    return isinstance(policy, GaussianProcessPolicy) and policy._maximizes_index


def index_of(policy: Policy, points: Floats) -> Floats:
    """Compute the index that the policy maximises in the next round, without regard to pending points.

    Parameters
    ----------
    policy
        Policy, which is not changed.
    points
        Points (k, d), in units of x, or arm numbers (k,).

    Returns
    -------
    ndarray
        Index (k,): an upper confidence bound in units of y (of -y if the policy minimises); the logarithm of the
        expected improvement in units of y; or, for the probability of improvement, the standard deviations above the
        incumbent. Where the kernel is learned, y is the transformed one. With constraints, or once an evaluation has
        failed, the logarithm of the expected improvement times the probability that all limits hold.

    Raises
    ------
    ValueError
        If the policy has no index on the whole space: it draws functions, or has an index for each cell or stage.
    """
    checks.kind("policy", policy, Policy, "a policy")
    if indexed(policy) and isinstance(policy, GaussianProcessPolicy):
        with policy._lock:
            return policy.index_at(policy._described_points(points)[0])
    if isinstance(policy, PEGPUCB):
        names = policy.surviving or (policy.priors[-1].name,)
        pairs = [policy.posterior(points, prior=name) for name in names]
        return np.max([policy._oriented(mean) + policy.width * std for mean, std in pairs], axis=0)
    checks.refuse("policy", type(policy).__name__, "a policy that maximises an index over its space, or PEGPUCB")


class Coverage(NamedTuple):
    """Share of the candidates at which f lies within a policy's intervals, after some of the rounds."""

    round: Indices  # (k,) number of rounds after which the share is computed
    confidence: Floats  # (k,) share within mean +- width * std; NaN for a policy without a width
    normal: Floats  # (k,) share within mean +- 1.96 std, expected to be 95 % if the prior is correct


def _check_run(run: Trajectory) -> None:
    checks.kind("run", run, Trajectory, "a run returned by simulate")
    if run.first_round != 1 or not run.complete:
        checks.refuse("run", run, "a run from round 1 on, with all its rounds: simulate(..., keep='all')")


def coverage(policy: Policy, environment: Environment, run: Trajectory, points: int = 40) -> Coverage:
    """Compute the coverage of a policy's intervals by telling a new copy of the policy the observations of a run.

    Parameters
    ----------
    policy
        Policy that played the run; it is not changed.
    environment
        Environment of the run, on a finite space.
    run
        Run from round 1 on.
    points
        Maximum number of rounds at which coverage is computed, evenly spaced on a logarithmic axis.

    Raises
    ------
    ValueError
        If the environment is on a box or a grid that is not enumerated, or the run does not start with round 1.
    """
    checks.kind("policy", policy, Policy, "a policy")
    checks.kind("environment", environment, Environment, "an environment on a finite space")
    space, points = policy.domain.numbered, checks.integer("points", points, 1)
    if environment.space.finite is None or environment.space.size != space.size:
        checks.refuse("environment", environment, "an environment on a finite space, all of which the policy numbers")
    _check_run(run)
    rounds = np.unique(np.rint(np.geomspace(1, len(run), points)).astype(np.int64))
    copy, found, before = attrs.evolve(policy), [], 0
    x, y, everywhere = space.x_of(run.candidate), run.y, space.x_of()
    for t in rounds:
        copy.tell(x[before:t], y[before:t])
        before = int(t)
        mean, std = copy.posterior(everywhere)
        error = np.abs(environment.table_at(before + 1 if environment.changing else 1) - mean)
        within = (error <= copy.width * std).mean() if np.isfinite(copy.width) else np.nan
        found.append((within, (error <= NORMAL * std).mean()))
    confidence, normal = np.array(found, dtype=np.float64).T
    return Coverage(rounds, confidence, normal)


def plays_over_rounds(policy: UnknownPriorPolicy, run: Trajectory) -> tuple[Floats, UnknownPriorPolicy]:
    """Compute the prior played in each round by telling a new copy of the policy the observations of a run.

    Parameters
    ----------
    policy
        Policy that played the run; it is not changed.
    run
        Run from round 1 on.

    Returns
    -------
    ndarray
        Plays (rounds, priors): 1 for the prior that was played; for `FullyBayesianGPUCB`, probabilities of the priors.
        Priors that the policy added on the way are among them.
    UnknownPriorPolicy
        Copy of the policy after the run.

    Raises
    ------
    ValueError
        If the policy does not have several priors, or the run does not start with round 1.
    """
    checks.kind("policy", policy, UnknownPriorPolicy, "a policy with several priors, such as PEGPUCB")
    _check_run(run)
    copy = attrs.evolve(policy)
    x = policy.domain.numbered.x_of(run.candidate)
    history = [copy.plays]
    for point, y in zip(x, run.y, strict=True):
        copy.tell(point, float(y))
        history.append(copy.plays)
    totals = [[plays.get(prior.name, 0.0) for prior in copy.priors] for plays in history]
    return np.diff(np.array(totals, dtype=np.float64), axis=0), copy


class Times(NamedTuple):
    """Time per round in successive blocks of rounds."""

    round: Indices  # (k,) last round of each block
    seconds: Floats  # (k,) mean time per round of the block


def time_rounds(policy: Policy, environment: Environment, horizon: int, blocks: int = 30) -> Times:
    """Play a policy and measure the time per round; the first block includes compilation and loading.

    Parameters
    ----------
    policy
        Policy to play; it continues from its present state.
    environment, horizon
        Environment, and number of rounds to play.
    blocks
        Maximum number of blocks, evenly spaced on a logarithmic axis.

    Raises
    ------
    ValueError
        If the number of rounds or blocks is not positive, or `simulate` refuses an argument.
    """
    horizon, blocks = checks.integer("horizon", horizon, 1), checks.integer("blocks", blocks, 1)
    ends = np.unique(np.rint(np.geomspace(min(10, horizon), horizon, blocks)).astype(np.int64))
    seconds, before = [], 0
    for end in ends:
        started = time.perf_counter()
        simulate(policy, environment, int(end) - before)
        seconds.append((time.perf_counter() - started) / (int(end) - before))
        before = int(end)
    return Times(ends, np.array(seconds))


def lattice(policy: Policy, side: int) -> tuple[NDArray[Any], tuple[int, ...] | None]:
    """Return points at which a function on a policy's space is drawn, and their shape as an image.

    For a box or a grid they are a lattice of `side` points along each dimension. For other candidates they are the
    candidates, without a shape; for arms, the arm numbers.

    Parameters
    ----------
    policy
        Policy on a space of one or two dimensions, or on arms.
    side
        Number of points along each dimension, at least 1.

    Returns
    -------
    points : ndarray
        Points (k, d), in units of x, or arm numbers (k,).
    shape : tuple or None
        Number of points along each dimension of a lattice.

    Raises
    ------
    ValueError
        If the space has more than two dimensions, or the side is not positive.
    """
    checks.kind("policy", policy, Policy, "a policy")
    space = policy.space
    if not space.has_coordinates:
        return policy.domain.numbered.x_of(), None
    if space.dimension not in (1, 2):
        checks.refuse(
            "policy", f"{space.dimension} dimensions", "a policy on a space of one or two dimensions, or arms"
        )
    side = checks.integer("side", side, 1)
    if space.box is not None:
        drawn = Grid(space.box, side)
        return drawn.points(), drawn.sides
    points = policy.domain.points()
    return (np.sort(points, axis=0) if space.dimension == 1 else points), None
