"""Tuners on the problems of the package's studies, with the studies' seeds and noise; runs are kept by `lines`.

Every tuner of a replicate has the same environment: what is observed is a function of its seed, the setting and the
number of the evaluation. Values are larger where they are better; tuners are told their negatives, which they minimise.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.tuners import lines
from benchmarks.tuners.clock import Clock
from benchmarks.tuners.lines import Key, Line
from benchmarks.tuners.peers import apart
from benchmarks.tuners.spaces import PeerSpace
from benchmarks.tuners.standings import TIE
from scalable_bandits.environments import Environment
from scalable_bandits.environments.published.bbob import BBOB
from scalable_bandits.studies import Study, layout
from scalable_bandits.studies.growth import shown_value

# Numbers of evaluations after which a tuner is asked for its recommendation.
CHECKPOINTS = (10, 20, 50, 100, 200, 500, 1000, 2000)
GROUPS = {  # of the functions of the bbob suite
    "separable": range(1, 6),
    "moderate conditioning": range(6, 10),
    "high conditioning": range(10, 15),
    "multimodal": range(15, 20),
    "multimodal, weak structure": range(20, 25),
}
SLOW = ("BoTorch", "HEBO", "SMAC", "Vizier", "Ax")
EVALUATIONS = dict.fromkeys(SLOW, 100)  # of a run; 500 for all others
REPLICATES = {"GPSampler": 5, **dict.fromkeys(SLOW, 2)}  # 20 for all others
WARM_UP = 12  # evaluations of a run that is not kept
PROBED = 256  # points at which it is seen whether observations have noise


class Task(NamedTuple):
    """Replicate of a case of a study: all that is needed to make its environment again."""

    study: Study
    label: str  # of the case, with its values
    name: str  # of the case, as the study names it
    values: Mapping[str, Any]  # by axis
    replicate: int

    @property
    def key(self) -> Key:
        return Key(self.label, self.replicate)

    @property
    def seed(self) -> int:
        """Seed of the environment and of the tuner: that of the study's own policies."""
        return self._replicate().seed

    def environment(self) -> Environment:
        """Make the environment.

        Raises
        ------
        ValueError
            If it changes from round to round, or does not offer all candidates.
        DataMissing
            If its data are not there.
        """
        made = self.study.build(self._replicate()).environment
        if made.changing or made.available(1) is not None:
            raise ValueError(
                f"study: got {self.study.name}, {self.label}; allowed: cases whose environment is constant"
            )
        return made

    def _replicate(self) -> Any:
        """Return the replicate that the study's own policies play."""
        study, rounds = self.study, self.study.horizons[-1]
        return study.replicate(self.name, self.replicate, rounds, study.seed, study.data, self.values)


def first_task(study: Study) -> Task:
    """Return the first replicate of the first case, at the first value of each axis."""
    return Task(study, study.cases[0], study.cases[0], {}, 0)


def tasks_of(study: Study, replicates: int, cases: Sequence[str] | None = None) -> Iterator[Task]:
    """Yield the tasks of a study, replicate by replicate, so that an early end leaves whole replicates.

    Parameters
    ----------
    study
        Study; an axis on which environments depend makes a case for each value.
    replicates
        Number of replicates.
    cases
        Labels of cases, or their names without values; all if not given.

    Raises
    ------
    ValueError
        If there is no such case.
    """

    def problem_at(case: str, horizon: int, values: Mapping[str, Any]) -> Any:
        return study.build(study.replicate(case, 0, horizon, study.seed, study.data, values))

    choice = layout.LayoutChoice(cases, None, {})
    chosen = layout.lay_out(problem_at, study.cases, study.labels, study.axes, study.horizons[-1], choice).cases
    for number in range(replicates):
        yield from (Task(study, each.label, each.name, dict(each.values), number) for each in chosen)


def is_noisy(environment: Environment) -> bool:
    """Whether observations differ from f, at points spread over the space, each in a round of its own."""
    points = environment.space.sample(0)
    chosen = points[np.linspace(0, len(points) - 1, min(len(points), PROBED)).astype(int)]
    xs = [environment.space.argument(point) for point in chosen]
    return any(environment.observe(x, t) != environment.mean(x, t) for t, x in enumerate(xs, start=1))


def groups_of(environment: Environment, values: Mapping[str, Any]) -> list[str]:
    """Return the groups of cases that a case belongs to: bbob's groups and dimensions, or the values of axes."""
    if isinstance(environment, BBOB):
        group = next(name for name, numbers in GROUPS.items() if environment.function in numbers)
        return [group, f"{environment.space.dimension} dimensions"]
    return [shown_value(axis, value) for axis, value in values.items()]


def play(make: Callable[[int], Any], environment: Environment, seed: int, checkpoints: Sequence[int],
         point: Callable[[Any], Any]) -> list[Line]:  # fmt: skip
    """Play a run up to the last checkpoint, and return what is kept of each.

    Parameters
    ----------
    make
        Function that makes the tuner of a seed.
    environment
        Environment, whose round is the number of the evaluation, from 1.
    seed
        Seed of the tuner.
    checkpoints
        Numbers of evaluations after which the tuner recommends a setting.
    point
        Function that returns the x of the environment of a setting of the tuner.

    Returns
    -------
    list of dict
        By checkpoint: "at", the number of evaluations; "recommended", the values of the point, and
        "recommended_value", its f; "best_value", the largest f of the measured points; "best_measured_value", f where
        the largest value was observed; "cpu_seconds" and "wall_seconds" of the tuner so far, without evaluations.
    """
    clock, kept = Clock(), []
    best, top = -np.inf, (-np.inf, -np.inf)  # of f; of what is observed, with the f of the point
    tuner = clock.timed(make, seed)
    for t in range(1, max(checkpoints) + 1):
        asked = clock.timed(tuner.ask)
        x = point(asked)
        y, value = environment.observe(x, t), environment.mean(x, t)
        clock.timed(tuner.tell, asked, -y)
        best = max(best, value)
        top = (y, value) if y > top[0] else top
        if t in checkpoints:
            recommended = point(clock.timed(tuner.recommend))
            kept.append({
                "at": t, "recommended": _plain(recommended, environment), "recommended_value":
                environment.mean(recommended, t), "best_value": best, "best_measured_value": top[1],
                "cpu_seconds": round(clock.cpu, 4), "wall_seconds": round(clock.wall, 4),
            })  # fmt: skip
    return kept


def _plain(x: Any, environment: Environment) -> list[Any]:
    """Return a point, or the values of a setting (None where a parameter does not exist), as JSON has them."""
    if environment.space.named:
        return [x.get(axis.name) for axis in environment.space.axes]
    return [float(each) for each in np.atleast_1d(x)]


def run(
    tuner: str, task: Task, evaluations: int, keywords: Mapping[str, Any] | None = None, warm: set[str] | None = None
) -> Line:
    """Play a task and return its line.

    Parameters
    ----------
    tuner
        Name of the tuner.
    task
        What is played.
    evaluations
        Number of evaluations.
    keywords
        Further arguments of the tuner.
    warm
        Kinds of spaces that were played before. On another one a short run is played first, so that imports and
        compilation are not counted, and its kind is added. No short run is played if not given.
    """
    environment = task.environment()
    if tuner == "ours":
        given, point = environment.space, _unchanged
    else:
        seen = PeerSpace(environment.space)
        given, point = seen.parameters, seen.point

    def make(seed: int) -> Any:
        return apart.make(tuner, given, seed, evaluations, keywords or {})

    kind = _kind_of(environment)
    if warm is not None and kind not in warm:
        play(make, environment, task.seed, [WARM_UP], point)
        warm.add(kind)
    marks = sorted({at for at in (*CHECKPOINTS, evaluations) if at <= evaluations})
    return {
        "study": task.study.name, "case": task.label, "values": dict(task.values), "replicate": task.replicate,
        "groups": groups_of(environment, task.values), "seed": task.seed, "tuner": tuner,
        "version": apart.version(tuner), "python": platform.python_version(), "keywords": dict(keywords or {}),
        "evaluations": evaluations, "noisy": is_noisy(environment),
        "tie": TIE if isinstance(environment, BBOB) else 0.0, "optimum": environment.optimum(),
        "checkpoints": play(make, environment, task.seed, marks, point),
    }  # fmt: skip


def _kind_of(environment: Environment) -> str:
    """Return the names of the classes of the space and of its parameters."""
    space = environment.space
    search = getattr(space, "space", space)
    return " ".join([type(space).__name__, *sorted({type(each).__name__ for each in getattr(search, "kinds", ())})])


def _unchanged(x: Any) -> Any:
    return x


def play_missing(
    folder: Path, name: str, tasks: Iterable[Task], tuner: str, evaluations: int,
    keywords: Mapping[str, Any] | None = None, *, warm_up: bool = True,
) -> Iterator[tuple[Task, Line | Exception]]:  # fmt: skip
    """Play and keep the runs that are not kept with at least as many evaluations.

    A run that fails is yielded with its error, and not kept. With `warm_up` the first task on a space of a kind is
    played twice, the first time shortly.
    """
    kept: dict[str, dict[Key, Line]] = {}
    warm: set[str] | None = set() if warm_up else None
    keywords = dict(keywords or {})
    for task in tasks:
        study = task.study.name
        if study not in kept:
            kept[study] = lines.load(folder, study, name)
        known = kept[study].get(task.key)
        if known is not None and known["keywords"] != keywords:
            given = known["keywords"]
            yield task, ValueError(f"--keywords: got {keywords}; the kept run had {given}: give another --name")
            continue
        if known is not None and known["evaluations"] >= evaluations:
            continue
        try:
            line = run(tuner, task, evaluations, keywords, warm)
        except Exception as error:  # another package's, of any kind
            yield task, error
            continue
        lines.append(folder, study, name, line)
        kept[study][task.key] = line
        yield task, line
