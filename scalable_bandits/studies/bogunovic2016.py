"""Autoregressive processes, after Bogunovic, Scarlett & Cevher 2016: TV-GP-UCB and policies without epsilon.

Functions drawn from an RBF prior of lengthscale 0.2 on a 20 x 20 grid of the unit square follow the paper's
autoregression; noise variance 0.01. R-GP-UCB restarts every min(T, 12 epsilon^(-1/4)) rounds, the paper's value for
this kernel; window and weights have the same memory.

Differs from the paper in: beta_t is that of Srinivas et al. 2010, Theorem 1, divided by 5. R-GP-UCB, SW-GP-UCB and
WGP-UCB have the width of Zhou & Shroff 2021 with B = 2; the paper's R-GP-UCB has the width of GP-UCB.
"""

from __future__ import annotations

import math
from typing import Any

from scalable_bandits.environments import AutoregressiveProcess, GaussianNoise
from scalable_bandits.kernels import RBF, TemporalDecay
from scalable_bandits.policies import GPUCB, RGPUCB, SWGPUCB, TVGPUCB, WGPUCB, Policy, RandomSearch
from scalable_bandits.spaces import Grid
from scalable_bandits.studies.runs import Problem, Replicate

CASES = {f"epsilon = {epsilon}": epsilon for epsilon in (0.001, 0.01, 0.03)}
VARIANCE = 0.01


def synthetic(replicate: Replicate, *, noise_variance: float = VARIANCE, lengthscale: float = 0.2) -> Problem:
    """Make a process and the policies, of which TV-GP-UCB alone gets epsilon."""
    space, kernel, epsilon = Grid([[0.0, 1.0]] * 2, 20), RBF(lengthscale), CASES[replicate.case]
    decaying = kernel * TemporalDecay(epsilon)
    environment = AutoregressiveProcess(space, decaying, GaussianNoise(noise_variance**0.5), seed=replicate.seed)
    shared: dict[str, Any] = {
        "noise": noise_variance**0.5, "regularization": noise_variance, "delta": 0.1, "seed": replicate.seed
    }  # fmt: skip
    memory = min(replicate.horizon, math.ceil(12.0 * epsilon**-0.25))
    wide: dict[str, Any] = {"rkhs_norm": 2.0, **shared}
    policies: dict[str, Policy] = {
        "TV-GP-UCB": TVGPUCB(space, decaying, scale=5.0, **shared),
        "R-GP-UCB": RGPUCB(space, kernel, memory=memory, **wide),
        "SW-GP-UCB": SWGPUCB(space, kernel, memory=memory, **wide),
        "WGP-UCB": WGPUCB(space, kernel, eta=1.0 - 1.0 / (memory + 1.0), **wide),
        "GP-UCB": GPUCB(space, kernel, scale=5.0, **shared),
        "random": RandomSearch(space, **shared),
    }
    return Problem(environment, policies)
