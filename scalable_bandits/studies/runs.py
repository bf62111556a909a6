"""A study's runs as tasks: handed out, played wherever the execution is, gathered as summaries."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scalable_bandits.environments import Environment
from scalable_bandits.execution import Event, Execution
from scalable_bandits.policies import Policy
from scalable_bandits.policies.unknown_prior import UnknownPriorPolicy
from scalable_bandits.posteriors.blas import blas_threads
from scalable_bandits.runs.simulate import simulate
from scalable_bandits.runs.trajectory import Trajectory
from scalable_bandits.spaces import Box
from scalable_bandits.store import StoreError, StoreLocked
from scalable_bandits.store.notes import RUN
from scalable_bandits.store.studies import SERIES

if TYPE_CHECKING:
    import xarray

SOBOL = 1024  # points of a box, at which the regret of uniform play is measured
RETRIES = 1  # of a failed run
LOCKED_SECONDS = 60.0  # to wait for a writer of the same run: one that was given up, and goes on for a while


class Problem(NamedTuple):
    """What one replicate of one case plays."""

    environment: Environment
    policies: Mapping[str, Policy]  # label to a fresh policy


class Replicate(NamedTuple):
    """Which replicate of which case, and its seed."""

    case: str
    number: int  # from 0
    seed: int  # a function of the study's seed, the case and the number
    horizon: int
    data: Path | None  # folder of measured data; None for the default places


class Played(NamedTuple):
    """What comes back from a run."""

    uniform: float  # regret a round of uniform play
    seconds: float  # that the run took
    series: dict[str, Any]  # over the rounds; of a stored run those that its store does not have
    plays: dict[str, float]  # of each prior, by a policy that has several


class StudyIncomplete(RuntimeError):
    """Some runs of a study failed; all others were played.

    Attributes
    ----------
    failed : dict
        Traceback by the name of the run.
    result : xarray.Dataset
        The study, NaN where a run failed.
    """

    def __init__(self, name: str, failed: dict[str, str], result: xarray.Dataset, stored: bool):
        alike: dict[str, list[str]] = {}
        for run, trace in failed.items():
            alike.setdefault(trace.rstrip(), []).append(run)
        listed = "".join("\n\n" + "".join(f"{run}:\n" for run in runs) + trace for trace, runs in alike.items())
        hint = "; the same call plays these again" if stored else ""
        super().__init__(f"study {name}: {len(failed)} runs failed, all others are there{hint}: {listed.lstrip()}")
        self.failed, self.result = failed, result


class Player:
    """Plays one run: what is sent to the workers, once.

    Parameters
    ----------
    build, series
        The study's.
    """

    def __init__(
        self, build: Callable[[Replicate], Problem], series: Callable[[Policy], Mapping[str, Any]] | None = None
    ):
        self._build, self._series = build, series

    def labels(self, replicate: Replicate) -> list[str]:
        """Names of the policies that a replicate plays."""
        _made.problem = self._make(replicate)
        return list(_made.problem[2])

    def __call__(self, replicate: Replicate, label: str, place: str | None) -> Played:
        """Play a policy in a replicate; in a store, if there is a place for it."""
        if place is not None and "://" not in place and not Path(place).parent.is_dir():
            folder, machine = Path(place).parents[2], socket.gethostname()
            reached = "a folder that all workers reach by this name, or a URL"
            raise StoreError(f"store: {machine}, which plays the run, has no {folder}: it has to be {reached}")
        with blas_threads():
            environment, policy = self._problem(replicate, label)
            uniform = uniform_regret(environment, replicate.horizon)
            started = time.perf_counter()
            run = _patiently(lambda: simulate(policy, environment, replicate.horizon, store=place))
            seconds = time.perf_counter() - started
            series = {} if self._series is None else dict(self._series(policy))
            if place is None:
                series.update({name: getattr(run, name) for name in SERIES if name not in series})
            plays = dict(policy.plays) if isinstance(policy, UnknownPriorPolicy) else {}
            return Played(uniform, seconds, series, plays)

    def _problem(self, replicate: Replicate, label: str) -> tuple[Environment, Policy]:
        """A replicate's environment, made once for its policies where they follow each other, and a fresh policy."""
        held = getattr(_made, "problem", None)
        if held is None or held[0] != (replicate, self._build) or label not in held[2]:
            held = _made.problem = self._make(replicate)
        return held[1], held[2].pop(label)

    def _make(self, replicate: Replicate) -> tuple[Any, Environment, dict[str, Policy]]:
        with blas_threads():
            environment, policies = self._build(replicate)
        return (replicate, self._build), environment, dict(policies)


_made = threading.local()


def _patiently(play: Callable[[], Trajectory]) -> Trajectory:
    stop = time.monotonic() + LOCKED_SECONDS
    while True:
        try:
            return play()
        except StoreLocked:
            if time.monotonic() > stop:
                raise
            time.sleep(0.5)


class Task(NamedTuple):
    """One run to be played."""

    run: RUN
    replicate: Replicate
    label: str  # of the policy
    place: str | None

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.replicate.case}, {self.label}, replicate {self.replicate.number}"


def play_all(
    execution: Execution, name: str, tasks: Iterable[Task], keep: Callable[[Task, Played], None]
) -> dict[str, str]:
    """Play all runs; `keep` takes what comes back, in the order in which it does.

    Returns
    -------
    dict
        Tracebacks of the runs that failed twice, by their names.
    """
    waiting: dict[str, tuple[Task, int]] = {}  # by key: the run, and how often it failed

    def hand_out(task: Task, failures: int) -> None:
        words = f"run {name} {task.replicate.case} {task.label}".replace("-", " ")
        key = f"{words}-{task.replicate.number}-{failures}"
        waiting[key] = task, failures
        execution.submit(key, task.replicate, task.label, task.place)

    for task in tasks:
        hand_out(task, 0)
    failed: dict[str, str] = {}
    while waiting:
        for event in execution.events():
            if event.key in waiting and event.kind in ("done", "failed"):
                _conclude(event, *waiting.pop(event.key), keep, hand_out, failed)
    return failed


def _conclude(
    event: Event, task: Task, failures: int, keep: Callable[[Task, Played], None],
    hand_out: Callable[[Task, int], None], failed: dict[str, str],
) -> None:  # fmt: skip
    if event.kind == "done":
        keep(task, event.value)
    elif event.final or failures >= RETRIES:
        failed[task.name] = event.trace
    else:
        hand_out(task, failures + 1)


def uniform_regret(environment: Environment, horizon: int) -> float:
    """Mean regret a round of uniform play on what is available, over `horizon` rounds; on a box by Sobol points."""
    if not environment.changing and environment.available(1) is None:
        box = environment.space if isinstance(environment.space, Box) else None
        values = environment.table() if box is None else environment.evaluate(box.candidates(SOBOL, 0).points())
        return float(environment.optimum() - values.mean())
    total = 0.0
    for t in range(1, horizon + 1):
        available = environment.available(t)
        values = environment.table(t) if available is None else environment.table(t)[available]
        total += float(values.max() - values.mean())
    return total / horizon
