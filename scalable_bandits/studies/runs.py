"""Runs of a study as tasks of an executor, and what they take: seconds a round and their tails, memory, messages."""

from __future__ import annotations

import math
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments import Environment
from scalable_bandits.environments.base import TABLE_LIMIT
from scalable_bandits.execution import executing
from scalable_bandits.execution.resources import forget_peak, peak_memory, traffic
from scalable_bandits.policies import Policy
from scalable_bandits.policies.unknown_prior import UnknownPriorPolicy
from scalable_bandits.posteriors.blas import blas_threads
from scalable_bandits.progress import progress_bar
from scalable_bandits.randomness import generator
from scalable_bandits.runs.simulate import simulate
from scalable_bandits.runs.thinning import Keep
from scalable_bandits.runs.trajectory import Trajectory
from scalable_bandits.store import StoreError, StoreLocked
from scalable_bandits.store.locations import locate, writing_for
from scalable_bandits.studies.growth import Value
from scalable_bandits.studies.stored import ELAPSED, ROUND, RUN, SERIES, TOTAL, RunSummary, StudyResults, marks

if TYPE_CHECKING:
    import xarray

SOBOL_POINTS = 1024  # points of a box over which the regret of uniform play is averaged
DRAWN = 2**17  # candidates over which it is averaged where there are too many for a table
RETRIES = 1  # number of times that a failed run is played again
LOCKED_SECONDS = 60.0  # time to wait for a run's lock: a worker considered lost may still be writing the run
SHARED = "a folder that all workers reach by the same name, or a URL"
WARM = 10  # rounds that are not counted: they make shards and load code
COPIED = 200  # rounds of a copy, at most, that are played first so that all is compiled
QUANTILES = {"round_seconds": 0.5, "round_seconds_90": 0.9, "round_seconds_99": 0.99}
SMALLEST, PER_DECADE, BINS = -9.0, 200, 3000  # bins of the times: from 1 ns on, 1.2 % wide


class Problem(NamedTuple):
    """Environment and policies of one replicate of one case."""

    environment: Environment
    policies: Mapping[str, Policy]  # new policies, by label; those that are not played in the case are missing


class Replicate(NamedTuple):
    """Replicate of a case, with its seed."""

    case: str
    number: int  # from 0
    seed: int  # a function of the study's seed, the case and the number
    horizon: int
    data: Path | None  # folder of measured data; None for the default folders
    at: tuple[tuple[str, Value], ...] = ()  # names and values of the study's axes

    @property
    def values(self) -> dict[str, Value]:
        """Value of each axis of the study, by its name."""
        return dict(self.at)


class StudyIncomplete(RuntimeError):
    """Error of a study with failed runs; all other runs are complete.

    Attributes
    ----------
    failed : dict
        Tracebacks by name of the run.
    result : xarray.Dataset
        Result of the study, NaN where a run failed.
    """

    def __init__(self, name: str, failed: dict[str, str], total: int, result: xarray.Dataset, stored: bool):
        alike: dict[str, list[str]] = {}  # by the error, which is the last line: paths in the traceback may differ
        for run, trace in failed.items():
            alike.setdefault(trace.rstrip().rpartition("\n")[2], []).append(run)
        listed = "".join(
            "\n\n" + "".join(f"{run}:\n" for run in runs) + failed[runs[0]].rstrip() for runs in alike.values()
        )
        others = ", all others are complete" if len(failed) < total else ""
        hint = "; the same call plays the failed runs again" if stored else ""
        super().__init__(f"study {name}: {len(failed)} runs failed{others}{hint}: {listed.lstrip()}")
        self.failed, self.result = failed, result


class Player:
    """Function that plays a run of a study; sent to each worker once.

    Parameters
    ----------
    build, series
        Functions of the study; see `Study`.
    keep, ends
        Rounds that are kept, and those that are kept in any case, as in `simulate`.
    timed
        Whether time, memory and messages are measured. A copy of each policy is then played first in each process, so
        that all is compiled.
    name
        Name of the study, for warnings.
    """

    def __init__(
        self, build: Callable[[Replicate], Problem], series: Callable[[Policy], Mapping[str, Any]] | None = None,
        keep: Keep = "all", ends: Sequence[int] = (), timed: bool = False, name: str = "",
    ):  # fmt: skip
        self._build, self._series, self._timed, self._name = build, series, timed, name
        self._keep, self._ends = keep, tuple(ends)
        self._call = uuid.uuid4().hex

    def problem(self, replicate: Replicate) -> Problem:
        """Return the problem of a replicate, which the next runs of the replicate use."""
        with self._naming(replicate):
            environment, policies = self._make(replicate)
        _cache.problem = (replicate, self._build), environment, policies
        return Problem(environment, dict(policies))

    def __call__(self, replicate: Replicate, label: str, place: str | None) -> RunSummary:
        """Play a policy in a replicate; record the run in a store if `place` names one."""
        if place is not None and "://" not in place and not Path(place).parent.is_dir():
            folder, machine = Path(place).parents[2], socket.gethostname()
            raise StoreError(f"store: worker {machine} has no folder {folder}; allowed: {SHARED}")
        with blas_threads(), self._naming(replicate):
            warm_up = self._warm_up(replicate, label) if self._timed else {}
            meter = Meter(replicate.horizon) if self._timed else None
            environment, policy = self._problem(replicate, label)
            with policy:
                uniform = uniform_regret(environment, replicate.horizon)
                if meter is not None:
                    meter.start(policy)
                started = time.perf_counter()
                with checks.naming(f"policy {label}"), writing_for(self._call):
                    run = _retry_while_locked(
                        lambda: simulate(
                            policy, environment, replicate.horizon, store=place, keep=self._keep,
                            ends=[end for end in self._ends if end <= replicate.horizon],
                            progress=False if meter is None else meter.advance,
                        ),
                        place, self._call,
                    )  # fmt: skip
                seconds = time.perf_counter() - started
                costs = {} if meter is None else {**warm_up, **meter.costs(policy)}
                series = {} if self._series is None else dict(self._series(policy))
                plays = dict(policy.plays) if isinstance(policy, UnknownPriorPolicy) else {}
            if place is None:
                names = SERIES if run.complete else (*SERIES, TOTAL)
                series.update({name: getattr(run, name) for name in names if name not in series})
                series.update({} if run.complete else {ROUND: run.round})
            if meter is not None:
                series[ELAPSED] = meter.elapsed
            return RunSummary(uniform, seconds, series, plays, costs)

    def _naming(self, replicate: Replicate) -> AbstractContextManager[None]:
        return checks.naming(f"study {self._name}, case {replicate.case}")

    def _warm_up(self, replicate: Replicate, label: str) -> dict[str, float]:
        """Play some rounds of a copy, unless this process has done so; return how long it took."""
        key = (replicate.case, replicate.at, label)
        warm = _cache.__dict__.setdefault("warm", set())
        if key in warm:
            return {}
        warm.add(key)
        environment, policies = self._make(replicate)
        started = time.perf_counter()
        with policies[label] as policy:
            simulate(policy, environment, min(replicate.horizon, COPIED))
        return {"warm_up_seconds": time.perf_counter() - started}

    def _problem(self, replicate: Replicate, label: str) -> tuple[Environment, Policy]:
        """Return a replicate's environment and a new policy; successive runs of a replicate share the environment."""
        last: Any = getattr(_cache, "problem", (None, None, {}))
        key, environment, policies = last
        if self._timed or key != (replicate, self._build) or label not in policies:  # others would be in memory, too
            environment, policies = self._make(replicate)
            _cache.problem = (replicate, self._build), environment, policies
        return environment, policies.pop(label)

    def _make(self, replicate: Replicate) -> tuple[Environment, dict[str, Policy]]:
        with blas_threads():
            environment, policies = self._build(replicate)
        return environment, dict(policies)


_cache = threading.local()  # the thread's last problem, without the policies that have been played


def _retry_while_locked(play: Callable[[], Trajectory], place: str | None, call: str) -> Trajectory:
    """Play a run as soon as no process writes it; after a while also if the lock is of an earlier try of this call.

    The cluster has given up the worker of that try. If it still runs, on a file system that does not know its lock, it
    writes the same numbers.
    """
    stop = time.monotonic() + LOCKED_SECONDS
    while True:
        try:
            return play()
        except StoreLocked as locked:
            if time.monotonic() > stop:
                if locked.owner is None or locked.owner.get("call") != call:
                    raise
                locate(place).release(locked.owner)
            time.sleep(0.5)


def uniform_regret(environment: Environment, horizon: int) -> float:
    """Compute the mean regret per round of uniform play on the available candidates; on a box, on Sobol points."""
    if not environment.changing and environment.available(1) is None:
        space, candidates = environment.space, environment.space.finite
        if candidates is not None and candidates.size > TABLE_LIMIT:
            drawn = generator(0, "uniform play").integers(candidates.size, size=DRAWN)
            return float(environment.optimum() - environment.values_at(candidates.points(drawn)).mean())
        points = None if candidates is not None else space.candidate_set(SOBOL_POINTS, 0).points()
        values = environment.table_at() if points is None else environment.values_at(points)
        return float(environment.optimum() - values.mean())
    total = 0.0
    for t in range(1, horizon + 1):
        available = environment.available(t)
        values = environment.table_at(t) if available is None else environment.table_at(t)[available]
        total += float(values.max() - values.mean())
    return total / horizon


class RunTask(NamedTuple):
    """Run that is to be played."""

    run: RUN
    replicate: Replicate
    policy: str  # name of the policy in the problem
    labels: tuple[str, str]  # labels of the case and of the policy


def play_all(
    name: str, player: Player, tasks: Sequence[RunTask], total: int, results: StudyResults, on: Any, progress: bool,
) -> dict[str, str]:  # fmt: skip
    """Play runs and keep their results.

    Parameters
    ----------
    name
        Name of the study.
    player
        Function that plays a run.
    tasks
        Runs that are to be played.
    total
        Number of runs, those included that have been played before.
    results
        What keeps the results.
    on
        Executor, as in `Study.run`.
    progress
        Whether to show a progress bar.

    Returns
    -------
    dict
        Tracebacks of the runs that failed twice, by name of the run.
    """
    failed: dict[str, str] = {}
    running: dict[str, tuple[RunTask, int]] = {}  # by key: task, and how often it has failed
    with (
        blas_threads(),  # set before any thread starts a run: threadpoolctl keeps the limits of the first thread
        executing(on, player, name) as execution,
        progress_bar(progress, name, total, total - len(tasks), execution.dashboard, " runs") as advance,
    ):

        def submit(task: RunTask, failures: int) -> None:
            words = f"run {name} {' '.join(task.labels)}".replace("-", " ")
            key = f"{words}-{task.replicate.number}-{failures}"
            running[key] = task, failures
            execution.submit(key, task.replicate, task.policy, results.place_of(task.run))

        try:
            for task in tasks:
                submit(task, 0)
            while running:
                for event in execution.events():
                    if event.key not in running or event.kind not in ("done", "failed"):
                        continue
                    task, failures = running.pop(event.key)
                    if event.kind == "done" and not results.reaches(task.run, task.replicate.horizon):
                        where = f"store: a worker has written {results.place_of(task.run)} where this process finds"
                        event = event._replace(kind="failed", trace=f"{where} nothing; allowed: {SHARED}", final=True)
                    if event.kind == "done":
                        results.keep(task.run, event.value)
                        advance(1)
                    elif event.final or failures >= RETRIES:
                        failed[f"{', '.join(task.labels)}, replicate {task.replicate.number}"] = event.trace
                    else:
                        submit(task, failures + 1)
        finally:
            results.write()
    return failed


class Meter:
    """Measurement of one run, begun before its problem is made.

    Rounds that are played in one compiled loop have the mean time of the loop. Memory is what the processes have at
    most beyond what they had before; that of workers counts if the policy has its shards there.

    Parameters
    ----------
    horizon
        Number of rounds of the run.
    """

    def __init__(self, horizon: int):
        self._memory = forget_peak()
        self._of_workers: dict[str, int] = {}  # bytes that they had before
        self._marks, self._elapsed, self._next = marks(horizon), np.full(len(marks(horizon)), np.nan), 0
        self._times = np.zeros(BINS, dtype=np.int64)  # rounds by their time
        self._horizon, self._rounds = horizon, 0

    def start(self, policy: Policy) -> None:
        """Begin the first round."""
        client = client_of(policy)
        if client is not None:
            self._of_workers = client.run(forget_peak)
        self._traffic = traffic.messages, traffic.sent, traffic.received
        self._last = time.perf_counter()

    def advance(self, count: int, /) -> None:
        """Count rounds, when they have been played."""
        before, self._last = self._last, time.perf_counter()
        seconds = max((self._last - before) / count, 10.0**SMALLEST) if count else 0.0
        first, self._rounds = self._rounds, self._rounds + count
        if self._rounds > WARM:
            place = int(PER_DECADE * (math.log10(seconds) - SMALLEST))
            self._times[min(place, BINS - 1)] += self._rounds - max(first, WARM)
        while self._next < len(self._marks) and self._marks[self._next] <= self._rounds:
            self._elapsed[self._next] = before + (self._marks[self._next] - first) * seconds
            self._next += 1

    @property
    def elapsed(self) -> Floats:
        """Seconds (k,) from round `WARM` to each mark; NaN before it, and if the run was not played as a whole."""
        begun = self._elapsed[self._marks == WARM]
        if self._rounds < self._horizon or not len(begun):
            return np.full(len(self._marks), np.nan)
        return np.where(self._marks > WARM, self._elapsed - begun, np.nan)

    def costs(self, policy: Policy) -> dict[str, float]:
        """Return the costs by name; none if the run was not played as a whole."""
        if self._rounds < self._horizon:
            return {}
        found: dict[str, float] = {}
        if self._times.any():
            share = np.cumsum(self._times) / self._times.sum()
            middles = 10.0 ** (SMALLEST + (np.arange(BINS) + 0.5) / PER_DECADE)
            found = {name: float(middles[np.searchsorted(share, q)]) for name, q in QUANTILES.items()}
        found["peak_memory"] = float(max(peak_memory() - self._memory, 0))
        client = client_of(policy)
        if client is not None:
            now = client.run(peak_memory)
            workers = sum(now[worker] - self._of_workers.get(worker, now[worker]) for worker in now)
            found["peak_memory_of_workers"] = float(max(workers, 0))
            after = traffic.messages, traffic.sent, traffic.received
            names = ("messages", "bytes_sent", "bytes_received")
            found |= {n: float(b - a) for n, a, b in zip(names, self._traffic, after, strict=True)}
        return found


def client_of(policy: Policy) -> Any:
    """Return the client of the workers that have a policy's shards; None if it has none."""
    executor = policy._executor
    return getattr(executor, "client", None) if executor.remote else None
