"""Compilation of all compiled code before it is needed."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from scalable_bandits import kernels, policies
from scalable_bandits.policies import Policy
from scalable_bandits.spaces import Arms, Box, Grid, Points

ROUNDS = 70  # enough for windows to be folded and for cells to be split
KERNELS = (
    kernels.RBF(0.3), *(kernels.Matern(0.3, nu=nu) for nu in (0.5, 1.5, 2.5)), kernels.RationalQuadratic(0.3),
    kernels.Periodic(0.3), kernels.RBF(0.3) * kernels.Linear(), kernels.Hamming(),
)  # fmt: skip


def warmup() -> float:
    """Compile all compiled functions, or load them from the cache of this machine.

    Only one process per machine compiles at a time. Others that call this function meanwhile wait and then load the
    result.

    Returns
    -------
    float
        Duration in seconds: a few if something was compiled, otherwise a fraction of one.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> bool(sb.warmup() >= 0.0)
    True
    """
    from filelock import FileLock

    started = time.perf_counter()
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    lock = FileLock(Path(tempfile.gettempdir()) / f"scalable-bandits-warmup-{owner}.lock")
    with lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the policies' numbers do not fit the values, which do not matter here
        for policy in _policies():
            _run(policy)
    return time.perf_counter() - started


def _policies() -> Iterator[Policy]:
    """Yield policies that together call every compiled function with every type of argument."""
    grid, kernel = Grid([[0, 1]], 24), kernels.Matern(0.3, nu=1.5)
    for space in (grid, Points(np.linspace(0, 1, 9))):  # read-only points are a type of their own to the compiler
        yield from (policies.GPEI(space, each) for each in KERNELS)
    yield policies.IGPUCB(Arms(5), kernels.Covariance(np.eye(5)))
    for engine in ("dense", "tiled"):
        yield policies.IGPUCB(grid, kernel, engine=engine)
    yield from (policies.IGPUCB(space, kernels.SphericalLinear([[0, 1]])) for space in (grid, Box([[0, 1]])))
    yield policies.GPTS(grid, kernel)
    for tightening in (False, True):
        yield policies.PiGPUCB(Grid([[0, 1]] * 2, 20), kernel, horizon=200, tightening=tightening)
    yield policies.GPUCB(Box([[0, 1]]), kernel, candidates=32)
    yield from (policies.GPEI(Box([[0, 1]] * 2), each) for each in KERNELS)  # maximised by gradients
    yield from (policies.GPTS(Box([[0, 1]] * 2), each) for each in KERNELS)
    yield policies.TVGPUCB(Grid([[0, 1]], 9), kernel * kernels.TemporalDecay(0.1))
    yield policies.SWGPUCB(Grid([[0, 1]], 9), kernel, memory=5)
    yield policies.RandomSearch(grid)


def _run(policy: Policy) -> None:
    """Ask and tell a policy for some rounds, with availability and pending points, and play some in a loop."""
    whole = policy.domain.by_visit
    half = None if whole else np.arange(policy.domain.size // 2)
    for t in range(4 if whole else ROUNDS):
        asked = policy.ask(available=half) if t % 3 == 0 else policy.ask()
        if t % 5 == 0:
            policy.ask()
            policy.abandon()
        policy.tell(asked, float(np.sin(3.0 * np.sum(asked))))
    policy.best()
    if not whole:
        policy._play(np.zeros(policy.domain.size), np.zeros(3))
