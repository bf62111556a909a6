"""Plan of a study: seconds, memory and messages of its runs on so many workers."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scalable_bandits import checks
from scalable_bandits.planning.pilots import Pilot, pilot
from scalable_bandits.posteriors.blas import blas_threads
from scalable_bandits.studies import Study
from scalable_bandits.studies.layout import Choice, lay_out, wider

TASK_SECONDS = 0.012  # of a run as a Dask task: sending it, and its result
STORED_SECONDS = 0.1  # of a run with a store: fsync
START_SECONDS = 3.0  # of worker processes
PAYS = 1.1  # more workers do not pay once the time is so near that of the longest run


class Row(NamedTuple):
    """What the runs of one policy in one case will take."""

    case: str
    policy: str
    rounds: int  # of a run
    runs: int
    found: Pilot  # of one of them


class Workers(NamedTuple):
    """A study on so many workers."""

    workers: int
    seconds: float  # from the start of the workers to the end of the last run
    busy: float  # share of that time in which workers play
    memory: float  # bytes of the most demanding runs that may run at the same time on one machine
    messages: int  # tasks and results


class Plan(NamedTuple):
    """What a study will take."""

    study: str
    rows: list[Row]
    workers: list[Workers]
    enough: int  # smallest number of workers beyond which more gain less than a tenth


def plan(
    study: Study, workers: Sequence[int] = (1,), *, seconds: float = 2.0, stored: bool = False,
    replicates: int | None = None, horizon: int | Sequence[int] | None = None, cases: Sequence[str] | None = None,
    policies: Sequence[str] | None = None, axes: Mapping[str, Sequence[Any]] | None = None,
    data: str | Path | None = None,
) -> Plan:  # fmt: skip
    """Predict what a study takes, from the first rounds of one run of each policy in each case.

    The runs are handed to the workers in the order of the study, each to the first that is free. Every worker has a
    processor of its own; what they share (memory bandwidth, a disk) slows them down more than this says.

    Parameters
    ----------
    study
        Study.
    workers
        Numbers of workers.
    seconds
        Time that each run is played for.
    stored
        Whether runs are stored.
    replicates, horizon, cases, policies, axes, data
        As in `Study.run`.

    Raises
    ------
    ValueError
        If a number is out of range or a name is unknown.
    """
    counts = [checks.integer(f"workers[{i}]", each, 1) for i, each in enumerate(workers)]
    count = checks.integer("replicates", study.replicates if replicates is None else replicates, 1)
    if not checks.finite("seconds", seconds, ndim=0) > 0.0:
        checks.refuse("seconds", seconds, "a positive number")
    given = study.horizon if horizon is None else horizon
    known, folder = wider(study.axes, axes or {}), study.data if data is None else data

    def problem_at(case: str, rounds: int, values: Mapping[str, Any]) -> Any:
        with blas_threads():
            return study.build(study.replicate(case, 0, rounds, study.seed, folder, values))

    layout = lay_out(problem_at, study.cases, study.labels, known, given, cases)
    layout = layout.chosen(Choice(cases, policies, axes or {}))
    rows = []
    for case in layout.cases:
        for policy in layout.policies:
            if (case.label, policy.name) in layout.absent:
                continue
            at = case.name, layout.rounds(policy), layout.values(case, policy)
            copy, problem = problem_at(*at).policies[policy.name], problem_at(*at)
            with blas_threads(), copy, problem.policies[policy.name] as played:
                found = pilot(copy, played, problem.environment, at[1], seconds)
            rows.append(Row(case.label, policy.label, at[1], count, found))
    return Plan(study.name, rows, [_on(rows, each, stored) for each in counts], _enough(rows, stored))


def _on(rows: Sequence[Row], workers: int, stored: bool) -> Workers:
    """Hand out the runs, replicate by replicate of each case, each to the worker that is free first."""
    extra = TASK_SECONDS + STORED_SECONDS * stored
    free = [START_SECONDS] * workers
    work = 0.0
    for case in dict.fromkeys(row.case for row in rows):
        mine = [row for row in rows if row.case == case]
        for _ in range(mine[0].runs):
            for row in mine:
                took = row.found.seconds + extra
                work += took
                heapq.heapreplace(free, free[0] + took)
    last = max(free)
    demanding = sorted((row.found.memory for row in rows for _ in range(row.runs)), reverse=True)
    runs = sum(row.runs for row in rows)
    return Workers(workers, last, work / (workers * last), sum(demanding[:workers]), 2 * runs)


def _enough(rows: Sequence[Row], stored: bool) -> int:
    """Return the smallest number of workers, a power of two, whose time is near that of the longest run."""
    runs = sum(row.runs for row in rows)
    least = START_SECONDS + max(row.found.seconds for row in rows) + TASK_SECONDS + STORED_SECONDS * stored
    workers = 1
    while workers < runs and _on(rows, workers, stored).seconds > PAYS * least:
        workers *= 2
    return workers
