"""Playing the missing runs of a study on an executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from scalable_bandits.execution import executing
from scalable_bandits.posteriors.blas import blas_threads
from scalable_bandits.progress import progress_bar
from scalable_bandits.studies.notes import RUN
from scalable_bandits.studies.runs import Player, Replicate
from scalable_bandits.studies.stored import StudyInMemory, StudyStore

RETRIES = 1  # number of times that a failed run is played again


class RunTask(NamedTuple):
    """Run that is to be played."""

    run: RUN
    replicate: Replicate
    policy: str  # name of the policy in the problem
    labels: tuple[str, str]  # labels of the case and of the policy


def play_all(
    name: str, player: Player, tasks: Sequence[RunTask], total: int, results: StudyInMemory | StudyStore, on: Any,
    progress: bool,
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
                    if event.kind == "done":
                        results.keep(task.run, event.value)
                        advance(1)
                    elif event.final or failures >= RETRIES:
                        failed[f"{', '.join(task.labels)}, replicate {task.replicate.number}"] = event.trace
                    else:
                        submit(task, failures + 1)
        finally:
            results.close()
    return failed
