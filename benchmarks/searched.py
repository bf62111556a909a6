"""Grids that are not enumerated: the largest index found beside the enumerated one, and whole runs on 10^10 points."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import scalable_bandits as sb
from benchmarks.measure import Line
from scalable_bandits.posteriors.models.model import Query
from scalable_bandits.posteriors.models.search import surface_of

SHAPES = {"6 x 10": (6, 10), "3 x 100": (3, 100), "2 x 1000": (2, 1000), "20 x 2": (20, 2), "10 x 4": (10, 4)}
LENGTHSCALES = (0.1, 0.3)  # over sqrt(d)
OBSERVATIONS = 100
BLOCK = 2**14  # number of candidates at which the index is computed at once
KINDS: dict[str, Any] = {
    "IGPUCB": sb.IGPUCB, "GPUCB": sb.GPUCB, "GPTS": sb.GPTS, "GPEI": sb.GPEI, "PIMS": sb.PIMS, "BKB": sb.BKB,
}  # fmt: skip


def share(kind: Any, dimension: int, side: int, lengthscale: float, seed: int) -> float:
    """Return the index at the point that a policy asks for over the largest one, given noisy values of a function."""
    grid, rng = sb.Grid([[0.0, 1.0]] * dimension, side), np.random.default_rng(seed)
    kernel = sb.Matern(lengthscale * dimension**0.5)
    x = grid.spread(rng.random((OBSERVATIONS, dimension)))
    f = kernel.block(x, rng.random((30, dimension))) @ rng.standard_normal(30)
    policy = kind(grid, kernel, noise=0.1, regularization=0.01, enumerated=1, seed=seed)
    policy.tell(x, f + 0.1 * rng.standard_normal(OBSERVATIONS))
    surface, index = surface_of(policy.model, Query()), policy.acquisition(None)
    found = float(index(*surface.predict(policy.ask()[None]))[0])
    blocks = (np.arange(i, min(i + BLOCK, grid.size)) for i in range(0, grid.size, BLOCK))
    largest = max(float(index(*surface.predict(grid.points(block))).max()) for block in blocks)
    return float(np.exp(found - largest)) if kind is sb.GPEI else found / largest  # its index is a logarithm


def seconds(kind: Any, rounds: int) -> tuple[float, float]:
    """Return CPU seconds of a run on ten levels in ten dimensions, and its mean value of the last tenth of rounds."""
    grid, rng = sb.Grid([[0.0, 1.0]] * 10, 10), np.random.default_rng(0)
    policy, values = kind(grid, sb.Matern(1.0), noise=0.1, regularization=0.01), []
    started = time.process_time()
    for _ in range(rounds):
        x = policy.ask()
        values.append(-float(((x - 0.4) ** 2).sum()))
        policy.tell(x, values[-1] + 0.1 * rng.standard_normal())
    return time.process_time() - started, float(np.mean(values[-max(1, rounds // 10) :]))


def searched(quick: bool) -> Iterator[Line]:
    """The index that a search finds on a million candidates, and 500 rounds on 10^10."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.UnprovenWidth)
        for name, kind in (("IGPUCB", sb.IGPUCB), ("GPEI", sb.GPEI)):
            for words, (dimension, side) in SHAPES.items():
                if quick and dimension > 10:
                    continue  # a million candidates at the least
                cases = [(lengthscale, seed) for lengthscale in LENGTHSCALES[: 1 if quick else None]
                         for seed in range(1 if quick else 5)]  # fmt: skip
                side = min(side, 6 if dimension < 10 else 2) if quick else side
                found = np.array([share(kind, dimension, side, *case) for case in cases])
                good = f"{np.count_nonzero(found >= 0.99)} of {len(found)}"
                yield Line(f"{name} on {words}", f"least {found.min():.4f}", "", f"{good} at least .99", "95 %")
        rounds = 20 if quick else 500
        for name, kind in KINDS.items():
            taken, mean = seconds(kind, rounds)
            yield Line(f"{name} on 10^10, {rounds} rounds", f"{taken:.1f} s", "", f"f {mean:.2f}", "< 30 s")
