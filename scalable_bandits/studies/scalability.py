"""Scalability studies: what rounds, candidates, dimensions and workers cost, and the regret beside it.

The functions are those of Janz et al. 2020, section 5: sums of 30 d Matern 3/2 kernel functions of lengthscale 0.2 on a
grid, noise uniform on [-1, 1]; policies get R = 1 and the exact norm. A policy is left out where it cannot take so many
candidates, or takes hours. In many dimensions the functions are sums over pairs of dimensions, functions of two hidden
dimensions, and planted peaks, with noise that hides less; their optima are known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scalable_bandits.environments import (
    AdditiveFunction,
    GaussianNoise,
    RKHSFunction,
    UniformNoise,
)
from scalable_bandits.kernels import Matern
from scalable_bandits.policies import (
    BBKB,
    GPEI,
    GPTS,
    IGPUCB,
    PEGPUCB,
    AddGPUCB,
    MiniGPUCB,
    PiGPUCB,
    Policy,
    RandomSearch,
)
from scalable_bandits.priors import Prior
from scalable_bandits.spaces import Box, Grid
from scalable_bandits.studies.runs import Problem, Replicate

MOST = {"IGP-UCB": 200_000, "MiniGP-UCB": 200_000, "GP-TS": 1_000_000, "BBKB": 50_000}  # candidates
PRIORS = 8


def grids(replicate: Replicate, *, arms: int = 900, dimension: int = 2, lengthscale: float = 0.2) -> Problem:
    """Make a function on the grid with as many points along each dimension, in all about `arms`."""
    side = max(round(arms ** (1.0 / dimension)), 2)
    space, kernel = Grid([[0.0, 1.0]] * dimension, side), Matern(lengthscale, nu=1.5)
    function = RKHSFunction.sparse(space, kernel, UniformNoise(1.0), seed=replicate.seed)
    shared: dict[str, Any] = {"noise": 1.0, "regularization": 1.0, "delta": 0.1, "seed": replicate.seed}
    norm = {**shared, "rkhs_norm": function.rkhs_norm}
    makers: dict[str, Callable[[], Policy]] = {
        "IGP-UCB": lambda: IGPUCB(space, kernel, **norm),
        "MiniGP-UCB": lambda: MiniGPUCB(space, kernel, **norm),
        "BBKB": lambda: BBKB(space, kernel, **norm),
        "GP-TS": lambda: GPTS(space, kernel, **norm),
        "pi-GP-UCB": lambda: PiGPUCB(space, kernel, horizon=replicate.horizon, **norm),
        "random": lambda: RandomSearch(space, seed=replicate.seed),
    }
    return Problem(
        function, {name: make() for name, make in makers.items() if space.size <= MOST.get(name, space.size)}
    )


def structures(
    replicate: Replicate, *, dimension: int = 10, side: int = 10, lengthscale: float = 0.2, noise: float = 0.1
) -> Problem:
    """Make a function with structure, or a peak without, on the grid of `side` points along each dimension.

    "pairs" is a sum of functions of two dimensions each, "hidden" depends on two dimensions, and "planted" is one
    kernel function. Policies get the exact norm and a kernel of all dimensions, whose lengthscale grows with the root
    of their number but for "planted". Add-GP-UCB has the pairs of dimensions that matter together, and any pairs of the
    dimensions that are in none.
    """
    space, pair = Grid([[0.0, 1.0]] * dimension, side), Matern(lengthscale, nu=1.5)
    seed, measured = replicate.seed, GaussianNoise(noise)
    wide = Matern(lengthscale * (dimension / 2.0) ** 0.5, nu=1.5)
    function: RKHSFunction | AdditiveFunction
    if replicate.case == "planted":
        function = RKHSFunction.planted(space, pair, measured, seed=seed)
    else:
        relevant = 2 if replicate.case == "hidden" else dimension
        function = AdditiveFunction.sparse(space, pair, measured, relevant=relevant, seed=seed)
    kernel = pair if replicate.case == "planted" else wide
    shared: dict[str, Any] = {"noise": noise, "regularization": noise**2, "seed": seed}
    proven = {**shared, "rkhs_norm": function.rkhs_norm, "confidence": "flynn-reeb", "delta": 0.1}
    groups = function.groups if isinstance(function, AdditiveFunction) else ()
    rest = sorted(set(range(dimension)).difference(*groups))
    pairs = [*groups, *(rest[i : i + 2] for i in range(0, len(rest), 2))]
    policies: dict[str, Policy] = {
        "IGP-UCB": IGPUCB(space, kernel, **proven),
        "GP-EI": GPEI(space, kernel, **shared),
        "Add-GP-UCB": AddGPUCB(space, pair, groups=pairs, **shared),
        "pi-GP-UCB": PiGPUCB(
            space, kernel, horizon=replicate.horizon, noise=noise, rkhs_norm=function.rkhs_norm, delta=0.1, seed=seed
        ),
        "random": RandomSearch(space, seed=seed),
    }
    return Problem(function, policies)


def workers(
    replicate: Replicate, *, workers: int = 0, candidates: int = 3_000, tiled: int = 100_000, dimension: int = 4
) -> Problem:
    """Make a policy whose priors, tiles or cells are on workers of this machine; on none: in this process."""
    on = f"local:{workers}" if workers else None
    seed = replicate.seed
    shared: dict[str, Any] = {"noise": 0.3, "regularization": 1.0, "seed": seed, "on": on}
    if replicate.case == "cells":
        box, kernel = Box([[0.0, 1.0]] * dimension), Matern(0.3, nu=2.5)
        function = RKHSFunction.sparse(box, kernel, GaussianNoise(0.3), seed=seed)
        policy: Policy = PiGPUCB(box, kernel, rkhs_norm=2.0, horizon=replicate.horizon, **shared)
        return Problem(function, {"pi-GP-UCB": policy})
    size = candidates if replicate.case == "priors" else tiled
    side = max(round(size**0.5), 2)
    grid, kernel = Grid([[0.0, 1.0]] * 2, side), Matern(0.1 if replicate.case == "tiles" else 0.16, nu=2.5)
    function = RKHSFunction.sparse(grid, kernel, GaussianNoise(0.3), seed=seed)
    if replicate.case == "tiles":
        norm = function.rkhs_norm
        return Problem(function, {"IGP-UCB": IGPUCB(grid, kernel, rkhs_norm=norm, engine="tiled", **shared)})
    lengthscales = [0.12 + 0.01 * i for i in range(PRIORS)]
    priors = [Prior(f"{scale:.2f}", Matern(scale, nu=2.5)) for scale in lengthscales]
    return Problem(function, {"PE-GP-UCB": PEGPUCB(grid, priors, **shared)})
