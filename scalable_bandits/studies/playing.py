"""Playing the missing runs of a study on an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from scalable_bandits.execution import Execution, executing
from scalable_bandits.posteriors.blas import blas_threads
from scalable_bandits.progress import progress_bar
from scalable_bandits.studies.layout import Layout
from scalable_bandits.studies.notes import RUN, RunSummary
from scalable_bandits.studies.runs import Player, Replicate
from scalable_bandits.studies.stored import StudyInMemory, StudyStore

RETRIES = 1  # number of times that a failed run is played again


class Jobs(NamedTuple):
    """Runs that are asked of a study."""

    name: str  # name of the study
    layout: Layout  # cases and policies
    replicates: int
    replicate: Callable[..., Replicate]  # given case, number, horizon and the values of the axes


class RunTask(NamedTuple):
    """Run that is to be played."""

    run: RUN
    replicate: Replicate
    policy: str  # name of the policy in the problem
    place: str | None  # store of the run
    labels: tuple[str, str]  # labels of the case and of the policy

    @property
    def name(self) -> str:
        """Name of the run in messages."""
        return f"{', '.join(self.labels)}, replicate {self.replicate.number}"


def play_all(
    execution: Execution, name: str, tasks: Iterable[RunTask], keep: Callable[[RunTask, RunSummary], None]
) -> dict[str, str]:
    """Play all runs and pass each result to `keep` as it arrives.

    Returns
    -------
    dict
        Tracebacks of the runs that failed twice, by name of the run.
    """
    running: dict[str, tuple[RunTask, int]] = {}  # by key: task, and how often it has failed

    def submit(task: RunTask, failures: int) -> None:
        words = f"run {name} {' '.join(task.labels)}".replace("-", " ")
        key = f"{words}-{task.replicate.number}-{failures}"
        running[key] = task, failures
        execution.submit(key, task.replicate, task.policy, task.place)

    for task in tasks:
        submit(task, 0)
    failed: dict[str, str] = {}
    while running:
        for event in execution.events():
            if event.key not in running or event.kind not in ("done", "failed"):
                continue
            task, failures = running.pop(event.key)
            if event.kind == "done":
                keep(task, event.value)
            elif event.final or failures >= RETRIES:
                failed[task.name] = event.trace
            else:
                submit(task, failures + 1)
    return failed


def play_missing(
    jobs: Jobs, player: Player, results: StudyInMemory | StudyStore, on: Any, progress: bool
) -> dict[str, str]:
    """Play the runs that the results do not have; return the tracebacks of those that failed."""
    known = results.record
    cases, policies = ({one.label: one for one in each} for each in (jobs.layout.cases, jobs.layout.policies))
    tasks = []
    for run in results.missing(jobs.layout.horizons[-1]):
        case, policy = cases.get(known["cases"][run[0]]), policies.get(known["policies"][run[1]])
        if case is None or policy is None or run[2] >= jobs.replicates:
            continue
        values = jobs.layout.values(case, policy)
        replicate = jobs.replicate(case.name, run[2], jobs.layout.rounds(policy), values=values)
        tasks.append(RunTask(run, replicate, policy.name, results.place_of(run), (case.label, policy.label)))
    pairs = [(case.label, policy.name) for case in jobs.layout.cases for policy in jobs.layout.policies]
    total = sum(pair not in jobs.layout.absent for pair in pairs) * jobs.replicates
    with (
        blas_threads(),  # set before any thread starts a run: threadpoolctl keeps the limits of the first thread
        executing(on, player, jobs.name) as execution,
        progress_bar(progress, jobs.name, total, total - len(tasks), execution.dashboard, " runs") as advance,
    ):

        def keep(task: RunTask, summary: RunSummary) -> None:
            results.keep(task.run, summary)
            advance(1)

        try:
            return play_all(execution, jobs.name, tasks, keep)
        finally:
            results.close()
