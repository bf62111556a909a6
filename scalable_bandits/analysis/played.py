"""What a policy knows and how it fared: its index, the coverage of its intervals, whose turns there were, its time."""

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
from scalable_bandits.runs.trajectory import Trajectory
from scalable_bandits.spaces import Indices

NORMAL = 1.959964  # standard deviations to either side that hold 95 % of a normal distribution


def indexed(policy: Policy) -> bool:
    """Whether a policy maximises an index over its space that `index_of` knows.

    Parameters
    ----------
    policy
        Any.
    """
    if isinstance(policy, PEGPUCB):
        return True
    return isinstance(policy, GaussianProcessPolicy) and policy.maximizes_index


def index_of(policy: Policy, points: Floats) -> Floats:
    """Index of the round to come: what the policy maximises, pending points apart.

    Parameters
    ----------
    policy
        It is left as it is.
    points
        (k, d), or arm numbers (k,).

    Returns
    -------
    ndarray
        (k,), in units of y of an upper confidence bound; the logarithm of an expected improvement in units of y; the
        standard deviations above the incumbent of a probability of improvement.

    Raises
    ------
    ValueError
        If the policy has no such function: it draws, or keeps an index a cell or a stage.
    """
    checks.kind("policy", policy, Policy, "a policy")
    if indexed(policy) and isinstance(policy, GaussianProcessPolicy):
        mean, std = policy.posterior(points)
        return policy.acquisition(None)(mean, std**2)
    if isinstance(policy, PEGPUCB):
        names = policy.surviving or (policy.priors[-1].name,)
        pairs = [policy.posterior(points, prior=name) for name in names]
        return np.max([mean + policy.width * std for mean, std in pairs], axis=0)
    checks.refuse("policy", type(policy).__name__, "a policy that maximises an index over its space, or PEGPUCB")


class Coverage(NamedTuple):
    """Share of the candidates at which f lies within a policy's intervals, after some rounds."""

    round: Indices  # (k,) after how many rounds
    confidence: Floats  # (k,) within mean +- width x deviation; NaN for a policy without a width
    normal: Floats  # (k,) within mean +- 1.96 deviations, which holds 95 % where the prior is true


def _check_run(run: Trajectory) -> None:
    checks.kind("run", run, Trajectory, "a run: what simulate gave")
    if run.first_round != 1:
        checks.refuse("run", run, "a run from round 1 on")


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
    checks.kind("policy", policy, Policy, "a policy")
    checks.kind("environment", environment, Environment, "an environment on a finite space")
    space, points = policy.finite_space, checks.integer("points", points, 1)
    if environment.space.finite is None:
        checks.refuse("environment", environment, "one on a finite space")
    _check_run(run)
    rounds = np.unique(np.rint(np.geomspace(1, len(run), points)).astype(np.int64))
    fresh, found, before = attrs.evolve(policy), [], 0
    x, y, everywhere = space.x_of(run.candidate), run.y, space.x_of()
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

    Parameters
    ----------
    policy
        That played; it is left as it is.
    run
        From round 1 on.

    Returns
    -------
    ndarray
        (rounds, priors) credits: 1 for the prior whose turn it was; of `FullyBayesianGPUCB` probabilities.
    UnknownPriorPolicy
        The copy, after the run.

    Raises
    ------
    ValueError
        If the policy has no priors to choose among, or the run does not begin with round 1.
    """
    checks.kind("policy", policy, UnknownPriorPolicy, "a policy with several priors, such as PEGPUCB")
    _check_run(run)
    fresh = attrs.evolve(policy)
    x = policy.finite_space.x_of(run.candidate)
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

    Raises
    ------
    ValueError
        If a number of rounds or blocks is not positive; and as `simulate`.
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
    """Points at which to draw a function on a policy's space of one or two dimensions, and their shape as an image.

    A box and a grid are drawn on a lattice of `side` points along each dimension; candidates without order are
    themselves, with no shape. Arms are numbers.

    Parameters
    ----------
    policy
        On whose space.
    side
        Points along each dimension, at least 1.

    Returns
    -------
    points : ndarray
        (k, d), or arm numbers (k,).
    shape : tuple or None
        Points along each dimension, of a lattice.

    Raises
    ------
    ValueError
        If the space has more than two dimensions, or the side no points.
    """
    checks.kind("policy", policy, Policy, "a policy")
    space = policy.space
    if not space.has_coordinates:
        return policy.finite_space.x_of(), None
    if space.dimension not in (1, 2):
        checks.refuse(
            "policy", f"{space.dimension} dimensions", "a policy on a space of one or two dimensions, or arms"
        )
    drawn = space.drawn(checks.integer("side", side, 1))
    points = drawn.points()
    if drawn.lattice is None and space.dimension == 1:
        points = np.sort(points, axis=0)
    return points, drawn.lattice
