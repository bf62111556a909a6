"""Smooth functions without noise: evaluations until the regret is 1e-8 of the range, beside local optimisers.

The functions are a sphere, an ellipsoid whose curvatures differ by a factor of a million, rotated, and Rosenbrock's
(on [-2, 2]^d); the first two have their minimum at random. The range is that of 2,000 random points. L-BFGS-B (SciPy,
numerical gradients) and BOBYQA (Py-BOBYQA, first radius a tenth of a side) begin at a random point, CMA-ES in the
middle of the box. Medians over seeds; a run that does not get there counts as infinite.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import scalable_bandits as sb
from benchmarks.measure import Line
from benchmarks.tuners.peers import CMAES

Floats = NDArray[np.float64]
Function = Callable[[Floats], float]  # of a point of the unit cube; smaller values are better
TARGET = 1e-8  # of the range
MOST = 3000  # evaluations of a local optimiser
OURS = {2: 150, 5: 400, 10: 1200}  # evaluations of ours, by dimension


class Reached(Exception):
    """The target was reached, which ends another package's loop."""


class Counted:
    """Function whose evaluations are counted, until the target is reached or there are too many."""

    def __init__(self, function: Function, target: float, most: int):
        self.function, self.target, self.most = function, target, most
        self.evaluations, self.reached = 0, False

    def __call__(self, x: Any) -> float:
        self.evaluations += 1
        value = self.function(np.clip(np.asarray(x, dtype=float), 0.0, 1.0))
        self.reached = value <= self.target
        if self.reached or self.evaluations >= self.most:
            raise Reached
        return value


def sphere(d: int, rng: np.random.Generator) -> Function:
    optimum = rng.uniform(0.3, 0.7, d)
    return lambda x: float(((x - optimum) ** 2).sum())


def ellipsoid(d: int, rng: np.random.Generator) -> Function:
    optimum, turned = rng.uniform(0.3, 0.7, d), np.linalg.qr(rng.standard_normal((d, d)))[0]
    axes = 10.0 ** (6.0 * np.arange(d) / (d - 1))
    return lambda x: float((axes * (turned @ (x - optimum)) ** 2).sum())


def rosenbrock(d: int, rng: np.random.Generator) -> Function:
    def value(x: Floats) -> float:
        z = 4.0 * x - 2.0
        return float((100.0 * (z[1:] - z[:-1] ** 2) ** 2 + (1.0 - z[:-1]) ** 2).sum())

    return value


def ours(function: Counted, d: int, seed: int) -> None:
    policy = sb.GPEI(sb.Box([[0.0, 1.0]] * d), seed=seed, minimize=True)
    while True:
        x = policy.ask()
        policy.tell(x, function(x))


def lbfgsb(function: Counted, d: int, seed: int) -> None:
    from scipy.optimize import minimize

    minimize(function, np.random.default_rng(seed).random(d), method="L-BFGS-B", bounds=[(0.0, 1.0)] * d,
             options={"maxfun": MOST, "maxiter": MOST, "ftol": 0.0, "gtol": 0.0})  # fmt: skip


def cma_es(function: Counted, d: int, seed: int) -> None:
    tuner = CMAES({f"x{i}": (0.0, 1.0) for i in range(d)}, seed, MOST)
    while True:
        x = tuner.ask()
        tuner.tell(x, function(list(x.values())))


def bobyqa(function: Counted, d: int, seed: int) -> None:
    import pybobyqa  # type: ignore[import-not-found, unused-ignore]

    pybobyqa.solve(function, np.random.default_rng(seed).random(d), bounds=(np.zeros(d), np.ones(d)), maxfun=MOST,
                   rhobeg=0.1, rhoend=1e-12)  # fmt: skip


PEERS: dict[str, tuple[Callable[[Counted, int, int], None], str]] = {  # with the modules that they need
    "L-BFGS-B": (lbfgsb, "scipy"), "CMA-ES": (cma_es, "cma"), "BOBYQA": (bobyqa, "pybobyqa"),
}  # fmt: skip


def evaluations(play: Callable[[Counted, int, int], None], make: Any, d: int, most: int, seeds: int) -> list[float]:
    """Return the number of evaluations that each run takes to the target, infinite where it does not get there."""
    found = []
    for seed in range(seeds):
        function = make(d, np.random.default_rng([seed, d]))
        values = [function(x) for x in np.random.default_rng(0).random((2000, d))]
        counted = Counted(function, TARGET * float(np.ptp(values)), most)
        with contextlib.suppress(Reached):
            play(counted, d, seed)
        found.append(float(counted.evaluations) if counted.reached else math.inf)
    return found


def refinement(quick: bool) -> Iterator[Line]:
    """Evaluations of each to the target, and the ratio to the best of the others."""
    seeds, dimensions = (1, (2,)) if quick else (5, tuple(OURS))
    for make in (sphere, ellipsoid, rosenbrock):
        for d in dimensions:
            own = evaluations(ours, make, d, OURS[d], seeds)
            others = {name: statistics.median(evaluations(play, make, d, MOST, seeds))
                      for name, (play, module) in PEERS.items() if importlib.util.find_spec(module)}  # fmt: skip
            asked = f"<= {(d + 1) * (d + 2) // 2 + 20} evaluations" if make is sphere else "<= 1.5"
            ratio = statistics.median(own) / min(others.values())
            yield Line(
                f"{make.__name__}, d = {d}, evaluations to {TARGET:g} of the range",
                f"{statistics.median(own):.0f} ({', '.join(f'{each:.0f}' for each in own)})",
                ", ".join(f"{name} {middle:.0f}" for name, middle in others.items()), f"{ratio:.2f}", asked,
            )  # fmt: skip
