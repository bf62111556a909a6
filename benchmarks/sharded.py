"""What it brings to have workers or threads hold a policy's shards: priors, tiles of candidates, cells of a partition.

Two workers and two threads stand beside two bare processes on the very same arithmetic (`bare.py`), which exchange no
message and choose nothing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

import scalable_bandits as sb
from benchmarks import bare
from benchmarks.measure import Line
from benchmarks.problems import problem
from scalable_bandits.execution.clusters import local
from scalable_bandits.execution.shard_pool import ClusterExecutor

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


def tiles(candidates: int, on: Any = None) -> Made:
    """IGP-UCB on many candidates."""
    space, kernel = sb.Grid([[0, 1]] * 2, sides(candidates)), sb.Matern(0.1, nu=2.5)
    function = sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(0.3), seed=1)
    policy = sb.IGPUCB(
        space, kernel, noise=0.3, rkhs_norm=function.rkhs_norm, regularization=0.09, engine="tiled", on=on
    )
    return policy, function


def cells(dimension: int, on: Any = None) -> Made:
    """pi-GP-UCB on a box, each of whose cells is maximised over its own cube."""
    box, kernel = sb.Box([[0, 1]] * dimension), sb.Matern(0.3, nu=2.5)
    function = sb.RKHSFunction.sparse(box, kernel, sb.GaussianNoise(0.3), seed=1)
    return sb.PiGPUCB(box, kernel, noise=0.3, rkhs_norm=2.0, horizon=1_000, on=on), function


def cube(side: int, on: Any = None) -> Made:
    """IGP-UCB on side^3 candidates, as in `problems`."""
    space, kernel, function = problem(side, 3)
    return sb.IGPUCB(
        space, kernel, noise=1.0, regularization=1.0, rkhs_norm=function.rkhs_norm, engine="tiled", on=on
    ), function


def rounds_of(made: Made, count: int, after: Callable[[], None] = lambda: None, flight: int = 1) -> list[float]:
    """Seconds of the policy in each round, after some that make the shards, with so many evaluations in flight."""
    policy, function = made
    taken, pending = [], [policy.ask() for _ in range(flight - 1)]
    for t in range(1, count + WARM + 1):
        if t == WARM + 1:
            after()
        asking = time.perf_counter()
        pending.append(policy.ask())
        asked = time.perf_counter()
        x = pending.pop(0)
        y = float(function.evaluate(x[None])[0] + function.noise_at(t))
        telling = time.perf_counter()
        policy.tell(x, y)
        taken.append(time.perf_counter() - telling + asked - asking)
    policy.close()
    return taken[WARM:]


def recorded(make: Callable[..., Made], size: int, count: int, flight: int = 1) -> bare.Recorded:
    """What the shards are asked in so many rounds."""
    executor = bare.Recording()
    with mock.patch("scalable_bandits.policies.base.executor", return_value=executor):
        made = make(size, "recorded")

    def warm() -> None:
        executor.held.warm = len(executor.held.calls)

    rounds_of(made, count, warm, flight)
    executor.held.forget()
    return executor.held


class Case(NamedTuple):
    """A sharded policy, and how much of it is measured."""

    name: str
    make: Callable[..., Made]
    unit: str  # of its size
    size: int
    rounds: int
    repeats: int
    sizes: tuple[int, ...]  # for the table of where it pays
    flight: int = 1  # evaluations in flight


CASES = (
    Case(f"PE-GP-UCB, {PRIORS} priors, changing", changing_priors, "candidates", 3_000, 100, 9, (300, 1_000)),
    Case(f"PE-GP-UCB, {PRIORS} priors", priors, "candidates", 5_900, 600, 3, (1_000, 3_000)),
    Case("IGP-UCB, tiles", tiles, "candidates", 1_990_000, 100, 3, (30_000, 100_000, 300_000)),
    Case("pi-GP-UCB on a box, 16 in flight, cells", cells, "dimensions", 6, 60, 3, (2, 4), 16),
    Case("pi-GP-UCB on a box, cells", cells, "dimensions", 6, 60, 3, (2, 4)),
)
QUICK = (
    Case(f"PE-GP-UCB, {PRIORS} priors", priors, "candidates", 100, 20, 1, (30,)),
    Case("IGP-UCB, tiles", tiles, "candidates", 30_000, 20, 0, (30_000,)),  # repeats: beside bare processes, or not
    Case("pi-GP-UCB on a box, 4 in flight, cells", cells, "dimensions", 1, 5, 0, (1,), 4),
)


def sharded(quick: bool) -> Iterator[Line]:
    """Each sharded policy on 2 workers and on 2 threads against 2 bare processes, and from which size on they pay.

    BLAS has one thread everywhere.
    """
    with threadpool_limits(1, user_api="blas"), local(2) as client:
        yield from messages(client, quick)
        for case in QUICK if quick else CASES:
            if case.repeats:
                yield from _against_bare(case, client)
            for size in case.sizes:
                yield from _sizes(case, size, max(10, min(case.rounds, 300)), client)
        yield from threads(quick)


def _against_bare(case: Case, client: Any) -> Iterator[Line]:
    def played(on: Any) -> float:
        return sum(rounds_of(case.make(case.size, on), case.rounds, flight=case.flight))

    asked = recorded(case.make, case.size, case.rounds, case.flight)
    found: dict[str, list[float]] = {name: [] for name in ("workers", "threads", "bare", "here")}
    for _ in range(case.repeats):
        found["workers"].append(played(client))
        found["bare"].append(bare.seconds(2, asked))
        found["threads"].append(played("threads:2"))
        found["here"].append(played(None))
    ms = {name: 1e3 * statistics.median(each) / case.rounds for name, each in found.items()}
    yield Line(
        f"{case.name}, {case.size:,} {case.unit}, {case.rounds} rounds, a round on 2 workers",
        f"{ms['workers']:.1f} ms", f"2 bare processes {ms['bare']:.1f} ms", f"{ms['bare'] / ms['workers']:.2f}",
        ">= 0.85",
    )  # fmt: skip
    yield Line("... overhead of a round", f"{ms['workers'] - ms['bare']:.1f} ms", "", "", "")
    yield Line(
        "... on 2 threads", f"{ms['threads']:.1f} ms", f"2 bare processes {ms['bare']:.1f} ms",
        f"{ms['bare'] / ms['threads']:.2f}", "",
    )  # fmt: skip
    yield Line(
        "... speed-up over this process", f"{ms['here'] / ms['workers']:.2f} on workers",
        f"{ms['here'] / ms['threads']:.2f} on threads; this process {ms['here']:.1f} ms", "", "",
    )  # fmt: skip


def _sizes(case: Case, size: int, rounds: int, client: Any) -> Iterator[Line]:
    # Means: of some policies a few rounds take most of the time.
    here, threads, there = (
        1e3 * statistics.fmean(rounds_of(case.make(size, on), rounds, flight=case.flight))
        for on in (None, "threads:2", client)
    )
    yield Line(
        f"... a round, {size:,} {case.unit}, {rounds} rounds, 2 workers", f"{there:.1f} ms",
        f"this process {here:.1f} ms, 2 threads {threads:.1f} ms", f"{here / there:.2f}", "pays above 1",
    )  # fmt: skip


def threads(quick: bool) -> Iterator[Line]:
    """The tiles of a cube in this process, on one thread and on two."""
    side, rounds = (12, 60) if quick else (30, 10_000)
    seconds = {on: sum(rounds_of(cube(side, on), rounds)) for on in (None, "threads:2")}
    alone, together = seconds.values()
    yield Line(
        f"IGP-UCB, {side}^3 grid, T = {rounds:,}, 2 threads", f"{together:.1f} s", f"1 thread {alone:.1f} s",
        f"{alone / together:.2f}x", "> 1",
    )  # fmt: skip


class Idle:
    """A shard that has nothing to do."""

    def nothing(self, number: int) -> None:
        """Nothing."""


def messages(client: Any, quick: bool) -> Iterator[Line]:
    """A question to shards on two workers, sent to them directly and by way of the scheduler."""
    found = []
    usual = client.direct_to_workers
    for direct in (True, False):
        client.direct_to_workers = direct
        shards = ClusterExecutor(client).shards(lambda number: Idle, 2, "idle")
        taken = []
        for number in range(30 if quick else 1_000):
            started = time.perf_counter()
            shards.ask([0, 1], Idle.nothing, number)
            taken.append(1e3 * (time.perf_counter() - started))
        found.append(statistics.median(taken))
    client.direct_to_workers = usual
    yield Line(
        "a question to 2 workers and back, median", f"{found[0]:.2f} ms", f"through the scheduler {found[1]:.2f} ms",
        "", "",
    )  # fmt: skip
