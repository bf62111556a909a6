"""Plan of a study: seconds, memory and messages of its runs on so many workers."""

from __future__ import annotations

import functools
import heapq
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from scalable_bandits import checks
from scalable_bandits.execution import connect, resolve
from scalable_bandits.execution.calibration import Messages, measure_messages, side_by_side
from scalable_bandits.planning.pilots import Exchanges, Pilot, pilot, seconds_of
from scalable_bandits.policies import Policy
from scalable_bandits.posteriors.blas import blas_threads
from scalable_bandits.posteriors.placement import cores
from scalable_bandits.studies import Problem, Study
from scalable_bandits.studies.layout import Layout, LayoutChoice, lay_out
from scalable_bandits.studies.runs import uniform_regret

STORED_SECONDS = 0.1  # seconds that a store adds to a run, because of fsync
PAYS = 1.1  # more workers do not pay once the time is so near the shortest


class Row(NamedTuple):
    """What the runs of one policy in one case will take."""

    case: str
    policy: str
    rounds: int  # number of rounds of a run
    runs: int
    found: Pilot  # pilot of one of the runs
    build: float = 0.0  # seconds in which the problem of a replicate is made


class Machine(NamedTuple):
    """What the workers share, and what they take beside the runs."""

    cores: int = 1  # workers that were busy at the same time
    start: float = 0.0  # seconds in which workers start, and end
    slowdown: Mapping[str, float] = {}  # factor on the time of a run while they are busy, by policy
    messages: Messages | None = None  # None if no worker was asked for

    def factor(self, policy: str, workers: int) -> float:
        """Return by what a run takes longer while so many workers are busy."""
        share = (min(workers, self.cores) - 1) / (self.cores - 1) if self.cores > 1 else 0.0
        return 1.0 + share * (self.slowdown.get(policy, 1.0) - 1.0)


class Workers(NamedTuple):
    """A study on so many workers; on one, it is this process."""

    workers: int
    seconds: float  # from the start of the workers to the end of the last run
    busy: float  # share of that time in which workers play
    memory: float  # bytes of the most demanding runs that may run at the same time on one machine
    messages: int  # tasks and results


class Round(NamedTuple):
    """A round of a policy whose shards are on so many workers."""

    case: str
    policy: str
    workers: int
    seconds: float
    enough: int  # smallest number of workers beyond which more gain less than a tenth


class Plan(NamedTuple):
    """What a study will take."""

    study: str
    rows: list[Row]
    workers: list[Workers]
    enough: int  # smallest number of workers beyond which more gain less than a tenth
    rounds: list[Round]  # rounds of the policies whose shards are on workers
    machine: Machine


def plan(
    study: Study, workers: Sequence[int] = (1,), *, seconds: float = 3.0, stored: bool = False, on: Any = None,
    replicates: int | None = None, horizon: int | Sequence[int] | None = None, cases: Sequence[str] | None = None,
    policies: Sequence[str] | None = None, axes: Mapping[str, Sequence[Any]] | None = None,
    data: str | Path | None = None,
) -> Plan:  # fmt: skip
    """Predict what a study takes, from the first rounds of one run of each policy in each case.

    Where more than one worker is asked for, or policies have shards on workers, it is also measured what messages take,
    and how much slower each policy is while all workers of this machine play it. More workers than were measured are
    taken to be like these: on machines that have as many.

    The runs are handed to the workers in the order of the study, each to the first that is free. What is not counted:
    a disk or a network that more workers share.

    Parameters
    ----------
    study
        Study.
    workers
        Numbers of workers; 1 is this process.
    seconds
        Time that each run is played for.
    stored
        Whether runs are stored.
    on
        Cluster that is measured, as in `Study.run`; a process for each core of this machine if not given.
    replicates, horizon
        Number of replicates and rounds of each run; the study's if not given.
    cases, policies, axes
        Names of the cases and of the policies, and values of axes by name; all of the study's if not given.
    data
        Folder of the measured files, for a study that reads them.

    Raises
    ------
    ValueError
        If a number is out of range or a name is unknown.
    """
    counts = [checks.integer(f"workers[{i}]", each, 1) for i, each in enumerate(workers)]
    count = checks.integer("replicates", study.replicates if replicates is None else replicates, 1)
    if not checks.finite("seconds", seconds, ndim=0) > 0.0:
        checks.refuse("seconds", seconds, "a positive number")
    where = f"local:{cores()}" if on is None else on
    resolve(where)
    given = study.horizon if horizon is None else horizon
    folder = study.data if data is None else data

    def problem_at(case: str, rounds: int, values: Mapping[str, Any]) -> Problem:
        with blas_threads():
            return study.build(study.replicate(case, 0, rounds, study.seed, folder, values))

    layout = lay_out(
        problem_at, study.cases, study.labels, study.axes, given, LayoutChoice(cases, policies, axes or {})
    )
    rows, repeats = _pilots(layout, problem_at, count, seconds)
    alone = max(counts) == 1 and not any(row.found.exchanges for row in rows)
    machine = Machine() if alone else measured(where, repeats)
    shown = [_on(rows, each, stored, machine) for each in counts]
    runs = sum(row.runs for row in rows)
    needed = enough(lambda workers: _on(rows, workers, stored, machine).seconds, runs)
    return Plan(study.name, rows, shown, needed, _rounds(rows, counts, machine), machine)


def _pilots(
    layout: Layout, problem_at: Callable[..., Problem], runs: int, seconds: float
) -> tuple[list[Row], dict[str, Callable[[], float]]]:
    """Play a pilot of each policy in each case.

    Returns
    -------
    list of Row
        What the runs will take.
    dict of str to function
        By policy, what plays its last pilot once more, anywhere in one process, and returns its seconds.
    """
    rows: list[Row] = []
    repeats: dict[str, Callable[[], float]] = {}
    for case in layout.cases:
        made: dict[Any, tuple[Problem, Problem, float]] = {}
        for policy in layout.policies:
            if (case.label, policy.name) in layout.absent:
                continue
            rounds, values = layout.rounds(policy), layout.values(case, policy)
            build, key = functools.partial(problem_at, case.name, rounds, values), (rounds, tuple(values.items()))
            first, second, took = made[key] = made.get(key) or _twins(build, rounds)
            twin, own = first.policies[policy.name], second.policies[policy.name]
            with blas_threads(), twin, own:
                found = pilot(twin, own, second.environment, rounds, seconds)
            repeats[policy.label] = functools.partial(_seconds_again, build, policy.name, found.rounds)
            rows.append(Row(case.label, policy.label, rounds, runs, found, took))
    return rows, repeats


def _twins(build: Callable[[], Problem], horizon: int) -> tuple[Problem, Problem, float]:
    """Make a problem twice; return both, and the seconds in which the second was made.

    The policies of the first play some rounds before, so that all is compiled.
    """
    first, began = build(), time.perf_counter()
    second = build()
    uniform_regret(second.environment, horizon)
    return first, second, time.perf_counter() - began


def _seconds_again(build: Callable[[], Problem], name: str, rounds: int) -> float:
    """Return the seconds of the first rounds of a run in one process; only the second call is without compiling."""
    problem = build()
    uniform_regret(problem.environment, rounds)  # before the clock starts, as for the pilot
    policy = problem.policies[name]
    if policy._executor.remote:
        policy = Policy.from_dict(policy.to_dict())
    with blas_threads(), policy:
        return seconds_of(policy, problem.environment, rounds)


def measured(where: Any, calls: Mapping[str, Callable[[], float]]) -> Machine:
    """Measure what messages and busy workers take.

    Parameters
    ----------
    where
        Cluster, as `connect` takes it.
    calls
        Functions without arguments that return the seconds of what workers do, by name.
    """
    with ExitStack() as stack:
        began = time.perf_counter()
        client = stack.enter_context(connect(where))
        client.run(cores)  # they import the package
        start = time.perf_counter() - began
        count, slowdown, messages = len(client.nthreads()), side_by_side(client, calls), measure_messages(client)
        began = time.perf_counter()
        stack.close()
        return Machine(count, start + time.perf_counter() - began, slowdown, messages)


def _on(rows: Sequence[Row], workers: int, stored: bool, machine: Machine) -> Workers:
    """Hand out the runs, replicate by replicate of each case, each to the worker that is free first."""
    extra = STORED_SECONDS * stored
    free = [0.0]
    if workers > 1:
        free = [machine.start] * workers
        extra += machine.messages.task if machine.messages is not None else 0.0
    work = 0.0
    for case in dict.fromkeys(row.case for row in rows):
        mine = [row for row in rows if row.case == case]
        share = min(workers, len(mine)) / len(mine)  # each worker makes a problem once for its runs
        for _ in range(mine[0].runs):
            for row in mine:
                took = row.found.seconds * machine.factor(row.policy, workers) + row.build * share + extra
                work += took
                heapq.heapreplace(free, free[0] + took)
    last = max(free)
    demanding = sorted((row.found.memory for row in rows for _ in range(row.runs)), reverse=True)
    runs = sum(row.runs for row in rows)
    return Workers(workers, last, work / (workers * last), sum(demanding[:workers]), 2 * runs * (workers > 1))


def enough(seconds: Callable[[int], float], most: int, least: float | None = None) -> int:
    """Return the smallest number of workers, a power of two, beyond which more gain less than a tenth.

    Parameters
    ----------
    seconds
        Function that returns the time on so many workers.
    most
        Number of workers that can be busy; no larger one than the first power of two from it on is returned.
    least
        Least time; that on `most` workers if not given.
    """
    shortest, workers = seconds(most) if least is None else least, 1
    while workers < most and seconds(workers) > PAYS * shortest:
        workers *= 2
    return workers


def _rounds(rows: Sequence[Row], counts: Sequence[int], machine: Machine) -> list[Round]:
    """Return the rounds of the policies whose shards are on workers."""
    found = []
    for row in rows:
        seen = row.found.exchanges
        if seen is None or machine.messages is None:
            continue
        took = functools.partial(round_on, seen, machine.messages, functools.partial(machine.factor, row.policy))
        most = max((shards for shards, _, _ in seen.asked), default=1)
        needed = enough(took, most, min(took(2**k) for k in range(math.ceil(math.log2(most)) + 1)))
        found += [Round(row.case, row.policy, each, took(each), needed) for each in counts]
    return found


def round_on(seen: Exchanges, messages: Messages, factor: Callable[[int], float], workers: int) -> float:
    """Return the seconds of a round whose shards are on so many workers.

    Each worker has the same number of shards, up to one. What a round waits beyond the work of the shards is that of
    the pilot, and changes as the exchanges do that were measured.

    Parameters
    ----------
    seen
        What a round of the pilot exchanged.
    messages
        What messages take.
    factor
        Function that returns by what the work takes longer while so many workers are busy.
    workers
        Number of workers.
    """
    questions = sum(often for _, often, _ in seen.asked) or 1.0

    def work(count: int) -> float:
        return factor(count) * sum(math.ceil(k / count) / k * worked for k, _, worked in seen.asked)

    def exchange(count: int) -> float:
        return sum(
            often * messages.exchange(min(count, k), seen.sent, seen.received / questions) for k, often, _ in seen.asked
        )

    scale = 1.0 / factor(seen.workers)  # the work of the pilot was that of so many busy workers
    beyond = max(seen.waited - scale * work(seen.workers), 0.0)
    return seen.driver + scale * work(workers) + max(beyond + exchange(workers) - exchange(seen.workers), 0.0)


PILOT_SECONDS = 0.3  # that each policy is played for
FEW = 20_000  # rounds in all, which are over before a forecast is read
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}


class Forecast(NamedTuple):
    """What a study takes in one process."""

    seconds: float
    slowest: str  # policy that takes most of it; empty if not known


def forecast(
    study: Study, *, replicates: int | None = None, horizon: int | Sequence[int] | None = None,
    cases: Sequence[str] | None = None, policies: Sequence[str] | None = None,
    axes: Mapping[str, Sequence[Any]] | None = None, data: str | Path | None = None,
) -> Forecast | None:  # fmt: skip
    """Predict what a study takes: from its stated duration, or from short pilots of its policies in the first case.

    Parameters
    ----------
    study
        Study.
    replicates, horizon
        Number of replicates and rounds of each run; the study's if not given.
    cases, policies, axes
        Names of the cases and of the policies, and values of axes by name; all of the study's if not given. The stated
        duration, which is that of all of them, serves no part.
    data
        Folder of the measured files, for a study that reads them.

    Returns
    -------
    Forecast or None
        None if it has few rounds.

    Raises
    ------
    ValueError
        If a number is out of range or a name is unknown.
    """
    runs = study.replicates if replicates is None else replicates
    rounds = study.horizon if horizon is None else horizon
    last = rounds if isinstance(rounds, int) else max(rounds)
    stated = re.match(r"(\d+) (\w+)", study.duration)
    if stated and stated[2] in UNITS and cases is None and policies is None and axes is None:
        share = runs / study.replicates * last / study.horizons[-1]
        return Forecast(share * float(stated[1]) * UNITS[stated[2]], "")
    played = list(study.cases if cases is None else cases)
    if runs * last * len(played) < FEW:
        return None
    made = plan(
        study, seconds=PILOT_SECONDS, replicates=runs, horizon=horizon, cases=played[:1], policies=policies, axes=axes,
        data=data,
    )  # fmt: skip
    taken: dict[str, float] = {}
    for row in made.rows:
        taken[row.policy] = taken.get(row.policy, 0.0) + row.runs * row.found.seconds * len(played)
    return Forecast(sum(taken.values()), max(taken, key=taken.__getitem__, default=""))
