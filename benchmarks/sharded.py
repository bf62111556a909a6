"""What it brings to have workers hold a policy's shards: priors of PE-GP-UCB, blocks of candidates.

The speed-up of two workers over one stands beside that of two bare processes over one on the very same arithmetic
(`bare.py`), which says what memory shared by the cores leaves of it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

import scalable_bandits as sb
from benchmarks import bare
from benchmarks.measure import Line
from scalable_bandits.execution.clusters import local
from scalable_bandits.posteriors import BlockedEngine

PRIORS = 8
WARM = 10  # rounds before those that are timed

Made = tuple[Any, sb.Environment]


def sides(candidates: int) -> tuple[int, int]:
    """Of a grid of about so many points."""
    side = max(round(candidates**0.5), 1)
    return side, -(-candidates // side)


def priors(candidates: int, on: Any = None, epsilon: float = 0.0) -> Made:
    """PE-GP-UCB whose eight priors all stay, on a function that may change over rounds."""
    space = sb.Grid([[0, 1]] * 2, sides(candidates))
    lengthscales = np.linspace(0.12, 0.2, PRIORS).tolist()
    kernels: list[sb.Kernel] = [sb.Matern(scale, nu=2.5) for scale in lengthscales]
    if epsilon:
        kernels = [kernel * sb.TemporalDecay(epsilon) for kernel in kernels]
    named = [sb.Prior(f"{scale:.2f}", kernel) for scale, kernel in zip(lengthscales, kernels, strict=True)]
    policy = sb.PEGPUCB(space, named, noise=0.3, regularization=0.09, on=on)
    return policy, sb.RKHSFunction.sparse(space, sb.Matern(0.16, nu=2.5), sb.GaussianNoise(0.3), seed=1)


def changing_priors(candidates: int, on: Any = None) -> Made:
    """The same for a function that changes: the covariances of all candidates are moved on in every round."""
    return priors(candidates, on, epsilon=0.02)


def blocks(candidates: int, on: Any = None) -> Made:
    """IGP-UCB on many candidates."""
    space, kernel = sb.Grid([[0, 1]] * 2, sides(candidates)), sb.Matern(0.1, nu=2.5)
    function = sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(0.3), seed=1)
    policy = sb.IGPUCB(
        space, kernel, noise=0.3, rkhs_norm=function.rkhs_norm, regularization=0.09, engine="blocked", on=on
    )
    return policy, function


def cells(dimension: int, on: Any = None) -> Made:
    """pi-GP-UCB on a box, each of whose cells is maximised over its own cube."""
    box, kernel = sb.Box([[0, 1]] * dimension), sb.Matern(0.3, nu=2.5)
    function = sb.RKHSFunction.sparse(box, kernel, sb.GaussianNoise(0.3), seed=1)
    return sb.PiGPUCB(box, kernel, noise=0.3, rkhs_norm=2.0, horizon=1_000, on=on), function


def rounds_of(made: Made, count: int, after: Callable[[], None] = lambda: None) -> list[float]:
    """Seconds of the policy in each round, after some that make the shards."""
    policy, function = made
    taken = []
    for t in range(1, count + WARM + 1):
        if t == WARM + 1:
            after()
        asking = time.perf_counter()
        x = policy.ask()
        asked = time.perf_counter()
        y = float(function.evaluate(x[None])[0] + function.noise_at(t))
        telling = time.perf_counter()
        policy.tell(x, y)
        taken.append(time.perf_counter() - telling + asked - asking)
    return taken[WARM:]


def recorded(make: Callable[[int], Made], candidates: int, count: int) -> bare.Recorded:
    """What the shards are asked in so many rounds."""
    policy, function = make(candidates)
    place = bare.Recording()
    if isinstance(policy, sb.PEGPUCB):
        policy._place = place
        policy._shards = policy._make_shards(policy.finite_space)
    else:
        points = policy.space.points()
        policy._engine = BlockedEngine(policy.kernel, points, np.zeros(len(points)), place, policy.space)

    def warm() -> None:
        place.held.warm = len(place.held.calls)

    rounds_of((policy, function), count, warm)
    place.held.forget()
    return place.held


class Case(NamedTuple):
    """A sharded policy, and how much of it is measured."""

    name: str
    make: Callable[..., Made]
    candidates: int
    rounds: int
    repeats: int
    sizes: tuple[int, ...]  # for the table of where it pays


CASES = (
    Case(f"PE-GP-UCB, {PRIORS} priors", priors, 3_000, 1_000, 5, (300, 1_000, 3_000, 6_000)),
    Case(f"PE-GP-UCB, {PRIORS} priors, changing", changing_priors, 3_000, 100, 3, (100, 300, 1_000)),
    Case("IGP-UCB, blocks", blocks, 100_000, 1_000, 1, (10_000, 30_000, 300_000)),
)
QUICK = (
    Case(f"PE-GP-UCB, {PRIORS} priors", priors, 300, 20, 1, (30,)),
    Case("IGP-UCB, blocks", blocks, 30_000, 20, 1, (10_000,)),
)


def sharded(quick: bool) -> Iterator[Line]:
    """Each sharded policy on 2 workers against 1, what a message costs, and from which size on it pays."""
    with ExitStack() as stack:
        one, two = (stack.enter_context(local(workers)) for workers in (1, 2))
        for case in QUICK if quick else CASES:
            yield from _speed_up(case, one, two)
            for size in case.sizes:
                rounds = max(10, min(case.rounds, 300 if size <= case.candidates else 60))
                yield from _sizes(case.make, size, rounds, f"{size:,} candidates", one, two)
        for dimension in (1,) if quick else (2, 4):
            yield Line("pi-GP-UCB, cells of a box", "", "", "", "")
            yield from _sizes(cells, dimension, 5 if quick else 60, f"dimension {dimension}", one, two)


def _speed_up(case: Case, one: Any, two: Any) -> Iterator[Line]:
    asked = recorded(case.make, case.candidates, case.rounds)
    found: dict[str, list[float]] = {name: [] for name in ("two", "one", "bare two", "bare one")}
    single: list[float] = []
    for _ in range(case.repeats):
        found["two"].append(sum(rounds_of(case.make(case.candidates, two), case.rounds)))
        single = rounds_of(case.make(case.candidates, one), case.rounds)
        found["one"].append(sum(single))
        found["bare two"].append(bare.seconds(2, asked))
        found["bare one"].append(bare.seconds(1, asked))
    seconds = {name: statistics.median(each) for name, each in found.items()}
    ours, best = seconds["one"] / seconds["two"], seconds["bare one"] / seconds["bare two"]
    per_round = {name: 1e3 * value / case.rounds for name, value in seconds.items()}
    here = rounds_of(case.make(case.candidates), case.rounds)
    yield Line(
        f"{case.name}, {case.candidates:,} candidates, {case.rounds} rounds, a round on 2 workers",
        f"{per_round['two']:.1f} ms",
        f"1 worker {per_round['one']:.1f} ms; bare {per_round['bare two']:.1f} ms, {per_round['bare one']:.1f} ms; "
        f"this process {1e3 * statistics.fmean(here):.1f} ms",
        "", "",
    )  # fmt: skip
    yield Line("... speed-up", f"{ours:.2f}", f"bare processes {best:.2f}", f"{ours / best:.2f}", ">= 0.9")
    over = 1e3 * (statistics.median(single) - statistics.median(here))
    yield Line("... 1 worker over this process, median", f"{over:.1f} ms", "", "", "< 5 ms")


def _sizes(make: Callable[..., Made], size: int, rounds: int, what: str, one: Any, two: Any) -> Iterator[Line]:
    # Means: of some policies a few rounds take most of the time.
    here, there, single = (1e3 * statistics.fmean(rounds_of(make(size, on), rounds)) for on in (None, two, one))
    yield Line(
        f"... a round, {what}, {rounds} rounds, 2 workers", f"{there:.1f} ms",
        f"this process {here:.1f} ms, 1 worker {single:.1f} ms", f"{here / there:.2f}", "pays above 1",
    )  # fmt: skip
