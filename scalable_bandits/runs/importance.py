"""How much of the variance of a posterior mean over the space each parameter explains.

Source: Sobol 1993 (indices); Saltelli et al. 2010, Table 2 (estimators b and f, the latter of Jansen 1999), by
`scipy.stats.sobol_indices`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies import Policy
from scalable_bandits.randomness import derived_seed

FEWEST, MOST = 8, 32  # independent estimates, from whose differences the standard errors follow
BLOCK = 4096  # points at which the posterior is computed at a time


class Importance(NamedTuple):
    """Sobol indices of the parameters: shares of the variance of the posterior mean over the space."""

    names: tuple[str, ...]  # (p,) names of the parameters
    first: Floats  # (p,) first-order indices: what each parameter explains alone
    first_error: Floats  # (p,) standard errors of the first-order indices
    total: Floats  # (p,) total indices: what is lost without a parameter, its interactions included
    total_error: Floats  # (p,) standard errors of the total indices
    variance: float  # variance of the posterior mean over the space, in squared units of y


def importance_of(policy: Policy, points: int = 256, error: float = 0.01, seed: int = 0) -> Importance:
    """Estimate Sobol indices of a policy's posterior mean, as `analysis.importance` describes.

    Parameters
    ----------
    policy
        Policy with observations.
    points
        Number of scrambled Sobol points of an estimate, a power of two.
    error
        Standard error of the shares below which no more estimates are made.
    seed
        Seed of the scrambling.

    Raises
    ------
    ValueError
        If an argument is invalid, or the policy's parameters are not independent.
    """
    points, seed = checks.integer("points", points, 2), checks.integer("seed", seed, 0)
    if points & (points - 1):
        checks.refuse("points", points, "a power of two")
    error = checks.to_float(error)
    if not (isinstance(error, float) and error > 0.0):
        checks.refuse("error", error, "a positive number")
    space = policy.space
    if space.scanned or (space.box is None and not space.named):
        checks.refuse("found", space, "a policy on a box, a grid or a search space, whose parameters are independent")

    def mean(uniform: Floats) -> Floats:
        settings = space.spread(uniform)
        blocks = [settings[first : first + BLOCK] for first in range(0, len(settings), BLOCK)]
        with policy._lock:
            values = np.concatenate([policy._means(block) for block in blocks])
        if not np.isfinite(values).all():
            checks.refuse("found", type(policy).__name__, "a policy with a posterior at all points")
        return values

    estimates: list[Floats] = []
    while len(estimates) < MOST:
        rng = np.random.default_rng(derived_seed(seed, f"importance {len(estimates)}"))
        estimates.append(_explained(mean, len(space.axes), points, rng))
        if len(estimates) >= FEWEST and _ratios(estimates)[1].max() < error:
            break
    shares, errors, variance = _ratios(estimates)
    return Importance(tuple(axis.name for axis in space.axes), shares[0], errors[0], shares[1], errors[1], variance)


def _explained(mean: Callable[[Floats], Floats], dimension: int, points: int, rng: np.random.Generator) -> Floats:
    """Estimate the variances that parameters explain alone and with interactions, and the whole one: (3, p)."""
    from scipy.stats import sobol_indices, uniform

    if dimension == 1:  # for which scipy's function fails
        return np.full((3, 1), np.var(mean(rng.random((points, 1)))))
    values: list[Floats] = []

    def function(x: Floats) -> Floats:
        values.append(mean(x.T))
        return values[-1]

    dists: Any = [uniform()] * dimension
    found = sobol_indices(func=function, n=points, dists=dists, rng=rng)
    variance = float(np.var(values[:2]))
    return np.array([found.first_order * variance, found.total_order * variance, np.full(dimension, variance)])


def _ratios(estimates: Sequence[Floats]) -> tuple[Floats, Floats, float]:
    """Return shares (2, p), their standard errors (2, p), and the whole variance, of r estimates (3, p).

    A share is a ratio of two averages over the estimates; its error is that of the average residual.
    """
    explained, whole = np.array(estimates)[:, :2], np.array(estimates)[:, 2:]
    variance = float(whole.mean())
    if not variance > 0.0:
        return np.zeros_like(explained[0]), np.zeros_like(explained[0]), 0.0
    shares = explained.mean(axis=0) / variance
    residuals = explained - shares * whole
    return shares, residuals.std(axis=0, ddof=1) / np.sqrt(len(estimates)) / variance, variance
