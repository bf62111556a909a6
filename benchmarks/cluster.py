"""What Dask costs: a study on two workers against one, evaluations in flight, a task's round trip.

Speed-ups stand beside those of bare processes on the same arithmetic, measured in turn with ours: cores share memory.
"""

from __future__ import annotations

import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import scalable_bandits as sb
from benchmarks.measure import Line, timed
from benchmarks.problems import policy, problem
from benchmarks.stores import folder
from scalable_bandits.execution import executing
from scalable_bandits.execution.clusters import local
from scalable_bandits.studies import Problem, Replicate, Study
from scalable_bandits.studies.runs import Player

RUNS = 16


def build(replicate: Replicate) -> Problem:
    """IGP-UCB on the 30 x 30 grid."""
    space, kernel, function = problem(30, 2, seed=replicate.seed % 1000)
    return Problem(function, {"IGP-UCB": policy(space, kernel, function)})


def study_of(rounds: int) -> Study:
    """Sixteen equal runs."""
    return Study("cluster-benchmark", ("one",), build, rounds, RUNS)


def bare(job: tuple[int, int]) -> float:
    """One run, by a process that knows nothing of Dask or stores."""
    number, rounds = job
    Player(build)(Replicate("one", number, number, rounds, None), "IGP-UCB", None)
    return 0.0


def bare_seconds(processes: int, rounds: int) -> float:
    """Time of all runs on so many processes, which are warm."""
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(bare, [(number, 50) for number in range(4 * processes)]))
        started = time.perf_counter()
        list(pool.map(bare, [(number, rounds) for number in range(RUNS)], chunksize=1))
        return time.perf_counter() - started


def our_seconds(workers: int, rounds: int) -> float:
    """Time of the study on so many workers, which are warm, every run into its store."""
    with local(workers) as client, folder() as place:
        study_of(50).run(on=client, replicates=4 * workers)
        started = time.perf_counter()
        study_of(rounds).run(on=client, store=place / "study")
        return time.perf_counter() - started


def studies(quick: bool) -> Iterator[Line]:
    """16 runs on 2 workers against 1; on 1 alone if quick, where processes take longer to start than to play."""
    rounds, repeats, most = (100, 1, 1) if quick else (20_000, 3, 2)
    kinds: dict[str, tuple[Callable[[int, int], float], list[float], list[float]]] = {
        "ours": (our_seconds, [], []),
        "bare": (bare_seconds, [], []),
    }
    for _ in range(repeats):
        for measured, one, two in kinds.values():
            two.append(measured(most, rounds))
            one.append(measured(1, rounds) if most > 1 else two[-1])
    (_, one, two), (_, bare_one, bare_two) = kinds.values()
    ours, best = (
        statistics.median(one) / statistics.median(two),
        statistics.median(bare_one) / statistics.median(bare_two),
    )
    yield Line(
        f"study, {RUNS} runs of {rounds:,} rounds, stored, {most} workers", f"{statistics.median(two):.1f} s",
        f"1 worker {statistics.median(one):.1f} s; bare processes {statistics.median(bare_two):.1f} s, "
        f"{statistics.median(bare_one):.1f} s", "", "",
    )  # fmt: skip
    yield Line("... speed-up", f"{ours:.2f}", f"bare processes {best:.2f}", f"{ours / best:.2f}", ">= 0.9")


def seconds_at(x: np.ndarray) -> float:
    """How long an evaluation takes: 50 to 500 ms, by its place."""
    return 0.05 + 0.45 * math.modf(abs(97.0 * float(x[0]) + 57.0 * float(x[1])))[0]


class Experiment:
    """A noisy function that takes its time.

    Parameters
    ----------
    seed
        Of the function.
    pace
        Fraction of the time of `seconds_at` that it takes.
    """

    def __init__(self, seed: int, pace: float = 1.0):
        self.function = problem(30, 2, seed=seed)[2]
        self.pace = pace

    def __call__(self, x: np.ndarray) -> float:
        time.sleep(self.pace * seconds_at(x))
        return float(self.function.mean(x) + 0.2 * np.random.default_rng().standard_normal())

    def policy(self) -> sb.Policy:
        """GP-UCB as it is used in practice."""
        space, kernel = self.function.space, sb.Matern(0.2, nu=1.5)
        return sb.GPUCB(space, kernel, noise=0.2, regularization=0.04, scale=5.0)

    def regret(self, x: np.ndarray) -> float:
        """Cumulative regret of having played points (n, 2)."""
        return float((self.function.optimum() - self.function.mean(x)).sum())


def in_flight(quick: bool) -> Iterator[Line]:
    """Eight evaluations at a time, or two, on one worker."""
    budget, seeds, flight = (8, 2, 2) if quick else (200, 8, 8)
    experiment = Experiment(0)
    with local(1 if quick else flight) as client:
        sb.maximize(experiment, experiment.policy(), 2 * flight, on=client)
        seconds, found = timed(lambda: sb.maximize(experiment, experiment.policy(), budget, on=client, parallel=flight))
    busy = sum(map(seconds_at, found.x)) / (flight * seconds)
    yield Line(
        f"maximize, {budget} evaluations of 50-500 ms, {flight} in flight", f"{seconds:.1f} s",
        f"{flight} worker processes", "", "",
    )  # fmt: skip
    yield Line("... workers busy", f"{busy:.0%}", "", "", ">= 90 %")
    totals = []
    for seed in range(seeds):
        fast = Experiment(seed, pace=0.02)
        together = sb.maximize(fast, fast.policy(), budget, parallel=flight)
        alone = sb.maximize(Experiment(seed, pace=0.0), fast.policy(), budget)
        totals.append((fast.regret(together.x), fast.regret(alone.x)))
    parallel, sequential = np.mean(totals, axis=0)
    yield Line(
        f"... regret, mean of {seeds} functions", f"{parallel:.0f}", f"one at a time {sequential:.0f}",
        f"{parallel / sequential:.2f}", "<= 1.3",
    )  # fmt: skip


def nothing(x: int) -> int:
    """A task that costs nothing."""
    return x


def round_trip(quick: bool) -> Iterator[Line]:
    """From handing a task out to having its result."""
    taken = []
    with executing("local:1", nothing, "nothing") as execution:
        for number in range(20 if quick else 300):
            started = time.perf_counter()
            execution.submit(f"nothing-{number}", number)
            while all(event.kind != "done" for event in execution.events()):
                pass
            taken.append(1e3 * (time.perf_counter() - started))
    yield Line("a task and back", f"median {statistics.median(taken):.1f} ms", "", "", "")


def cluster(quick: bool) -> Iterator[Line]:
    """Studies, evaluations and tasks on worker processes."""
    for part in (studies, in_flight, round_trip):
        yield from part(quick)
