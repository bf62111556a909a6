"""Rounding errors of the exact engines after many rounds, beside fresh solves in extended precision."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import scalable_bandits as sb
from benchmarks.measure import Line

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # of which it takes the oracle
from naive import fresh

PIECE = 1_000_000  # rounds that are kept at a time


def play(arms: int, engine: str, lam: float, rounds: int) -> tuple[float, float, float]:
    """Return the largest errors after rounds of IGP-UCB: of means in deviations, of deviations, of the gain."""
    space = sb.Grid([[0, 1]] * 2, 30) if arms == 900 else sb.Grid([[0, 1]], arms)
    kernel = sb.Matern(0.2, nu=2.5)
    function = sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(lam**0.5), seed=0)
    norm = function.rkhs_norm
    policy = sb.IGPUCB(space, kernel, noise=lam**0.5, regularization=lam, rkhs_norm=norm, engine=engine)
    counts, sums = np.zeros(arms, dtype=np.int64), np.zeros(arms, dtype=fresh.FINE)
    for start in range(0, rounds, PIECE):
        run = sb.simulate(policy, function, min(PIECE, rounds - start))
        more = fresh.tally(arms, run.candidate, run.y)
        counts, sums = counts + more[0], sums + more[1]
    return fresh.errors(policy.model.engine, kernel.block(space.points()), counts, sums, lam)


def drift(quick: bool) -> Iterator[Line]:
    """Errors by regularization, horizon, number of arms and engine; the tiled engine plays 10^5 rounds in seconds."""
    horizons = {"dense": (10**3,) if quick else (10**5, 10**6, 10**7), "tiled": (10**2,) if quick else (10**5, 10**6)}
    for engine, many in horizons.items():
        for arms in (20,) if quick else (20, 900):
            for lam in (1e-8, 1.0) if quick else (1e-8, 1e-6, 1e-4, 1e-2, 1.0):
                for rounds in many:
                    started = time.process_time()
                    errors = play(arms, engine, lam, rounds)
                    spent = time.process_time() - started
                    yield Line(
                        f"{engine}, {arms} arms, lambda {lam:.0e}, T = {rounds:,}", f"{spent:.1f} s of CPU",
                        "errors of means, deviations, gain", " ".join(f"{error:.0e}" for error in errors), "<= 1e-3",
                    )  # fmt: skip
