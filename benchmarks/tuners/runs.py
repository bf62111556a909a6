"""Runs: played once, kept as one JSON file each."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tuners.clock import Clock
from benchmarks.tuners.intervals import Setting
from benchmarks.tuners.peers import apart
from benchmarks.tuners.problems import EVALUATIONS, Problem, Task, noise_at, problem

Run = dict[str, Any]
Make = Callable[..., Any]  # a tuner of parameters and seed


def default_folder() -> Path:
    """Return the folder of runs in the user's cache directory."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "scalable_bandits" / "tuner-runs"


def play(make: Make, task: Task, made: Problem, evaluations: int) -> Run:
    """Play one run; CPU seconds are of the tuner's making, asks, tells and recommendation, not of evaluations."""
    names = list(made.parameters)
    clock = Clock()
    timed = clock.timed
    tuner = timed(make, made.parameters, task.instance)
    run: Run = {**task._asdict(), "parameters": names, "noise": made.noise, "optimum": made.optimum}
    run |= {"evaluations": evaluations, "x": [], "y": [], "value": []}
    for evaluation in range(evaluations):
        x = timed(tuner.ask)
        value = made.value(x)
        y = value + made.noise * noise_at(task, evaluation) if made.noise else value
        timed(tuner.tell, x, y)
        for key, each in (("x", _plain(x, names)), ("y", y), ("value", value)):
            run[key].append(each)
    recommended = timed(tuner.recommend)
    run |= {"recommended": _plain(recommended, names), "recommended_value": made.value(recommended)}
    return run | {"cpu_seconds": clock.cpu, "wall_seconds": clock.wall}


def _plain(x: Setting, names: list[str]) -> list[Any]:
    """Return the values of a setting, numpy's numbers as Python's."""
    return [x[name].item() if isinstance(x[name], np.generic) else x[name] for name in names]


def path_of(folder: Path, name: str, task: Task) -> Path:
    """Return the path of a run's file."""
    return folder / name / task.file


def keep(folder: Path, name: str, task: Task, run: Run) -> None:
    """Write a run's file, whole or not at all."""
    path = path_of(folder, name, task)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(json.dumps(run))
    partial.replace(path)


def load(folder: Path, name: str) -> dict[Task, Run]:
    """Load all kept runs of a name."""
    runs = (json.loads(path.read_text()) for path in sorted((folder / name).glob("*.json")))
    return {Task(*(run[field] for field in Task._fields)): run for run in runs}


def play_missing(
    folder: Path,
    name: str,
    tasks: Iterable[Task],
    tuner: str,
    keywords: dict[str, Any] | None = None,
    evaluations: int | None = None,
) -> Iterator[tuple[Task, Run | Exception]]:
    """Play and keep the runs that are not kept yet; a run that fails is yielded with its error, and not kept.

    The first task of a kind is played twice, the first time shortly, so that imports and compilation are not counted.
    """
    keywords = keywords or {}
    warm: set[str] = set()  # kinds of problems

    def make(parameters: Any, seed: int) -> Any:
        return apart.make(tuner, parameters, seed, budget, keywords)

    for task in tasks:
        kept = path_of(folder, name, task)
        if kept.exists():
            if (given := json.loads(kept.read_text())["keywords"]) != keywords:
                yield task, ValueError(f"--keywords: got {keywords}; the kept run had {given}: give another --name")
            continue
        try:
            made, budget = problem(task), evaluations or EVALUATIONS[task.kind]
            if task.kind not in warm:
                play(make, task, made, EVALUATIONS["branin"])
                warm.add(task.kind)
            run = play(make, task, made, budget)
        except Exception as error:  # another package's, of any kind
            yield task, error
            continue
        made_by = {"tuner": tuner, "name": name, "version": apart.version(tuner), "keywords": keywords}
        run = {**made_by, "python": platform.python_version(), **run}
        keep(folder, name, task, run)
        yield task, run
