"""The command ``python -m benchmarks in_flight``: the default tuner with many evaluations in flight, by assumed values.

With q evaluations in flight, q points are asked for at first. Then the value of the oldest is told and another point is
asked for, until 100 points have been asked for and told. Played are the problems of the study `bbob`, replicate by
replicate from instance 5 on, by `GPEI(space)` that assumes posterior means at pending points ("mean") or draws
("sample"), and by `GPTS(space)` ("Thompson"). Runs are kept, one line each (`tuners/lines.py`), and a run that is kept
is not played again. One thread: two processes may play different policies.
"""

from __future__ import annotations

import argparse
import math
import platform
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numba
from threadpoolctl import threadpool_limits

import scalable_bandits as sb
from benchmarks.tuners import lines, report, standings, studies
from benchmarks.tuners.lines import Key, Line
from benchmarks.tuners.report import Sheet
from benchmarks.tuners.standings import LEAST, TIE, Results, Score, score
from benchmarks.tuners.studies import Task
from scalable_bandits.environments import Environment
from scalable_bandits.environments.sensors import DataMissing
from scalable_bandits.spaces import Space
from scalable_bandits.studies import Study

STUDY, RESULTS = "bbob", Path("docs/results/in_flight")
EVALUATIONS, QUICK, REPLICATES = 100, 14, 3  # instances 5 to 7
FLIGHTS = (1, 4, 16, 64)
POLICIES: dict[str, Callable[[Space, int], sb.Policy]] = {
    "mean": lambda space, seed: sb.GPEI(space, seed=seed),
    "sample": lambda space, seed: sb.GPEI(space, seed=seed, pending="sample"),
    "Thompson": lambda space, seed: sb.GPTS(space, seed=seed),
}
PAIRS = (("sample", "mean"), ("sample", "Thompson"), ("mean", "Thompson"))


def play(policy: sb.Policy, environment: Environment, flight: int, evaluations: int) -> Line:
    """Play one run; seconds are of the whole run, with the evaluations, which take next to no time."""
    best, cpu, wall = -math.inf, time.process_time(), time.perf_counter()
    policy.ask(min(flight, evaluations))
    for t in range(1, evaluations + 1):
        oldest = policy.pending[0]
        value = environment.mean(oldest, t)
        policy.tell(oldest, value)
        best = max(best, value)
        if t + flight <= evaluations:
            policy.ask()
    seconds = {"cpu_seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - wall}
    return {"checkpoints": [{"at": evaluations, "best_value": best, **seconds}]}


def run(name: str, flight: int, task: Task, evaluations: int) -> Line:
    """Play a run of a policy, and return what is kept of it."""
    environment = task.environment()
    return {
        "study": task.study.name, "case": task.label, "values": dict(task.values), "replicate": task.replicate,
        "groups": studies.groups_of(environment, task.values), "seed": task.seed, "policy": name, "flight": flight,
        "version": sb.__version__, "python": platform.python_version(), "evaluations": evaluations, "noisy": False,
        "tie": TIE, "optimum": environment.optimum(),
        **play(POLICIES[name](environment.space, task.seed), environment, flight, evaluations),
    }  # fmt: skip


def file_of(name: str, flight: int) -> str:
    """Return the name under which the runs of a policy are kept."""
    return f"{name}-{flight}"


def play_missing(
    folder: Path, tasks: Sequence[Task], names: Sequence[str], flights: Sequence[int], evaluations: int
) -> Iterator[str]:
    """Play and keep the runs that are not kept with as many evaluations; yield a line about each."""
    kept = {(n, q): set(_enough(lines.load(folder, STUDY, file_of(n, q)), evaluations)) for n in names for q in flights}
    if any(task.key not in found for found in kept.values() for task in tasks):
        for name in names:  # imports and compilation are not counted
            run(name, 2, tasks[0], QUICK)
    for task in tasks:
        for (name, flight), found in kept.items():
            if task.key in found:
                continue
            line = run(name, flight, task, evaluations)
            lines.append(folder, STUDY, file_of(name, flight), line)
            (last,), what = line["checkpoints"], f"{name}, {flight} in flight, {task.label}, replicate {task.replicate}"
            yield f"{what}: regret {line['optimum'] - last['best_value']:.3g}, {last['cpu_seconds']:.1f} s of CPU"


def _enough(kept: Mapping[Key, Line], evaluations: int) -> dict[Key, Line]:
    return {key: line for key, line in kept.items() if line["evaluations"] == evaluations}


def sheets(folder: Path, flights: Sequence[int], evaluations: int) -> list[Sheet]:
    """Make the tables of the kept runs: over all problems, and wins by group for each number in flight."""
    kept = {q: {n: lines.load(folder, STUDY, file_of(n, q)) for n in POLICIES} for q in flights}
    found = {q: {n: standings.results_at(each, evaluations) for n, each in by.items()} for q, by in kept.items()}
    title = f"{STUDY}, best of {evaluations} evaluations"
    compared = [f"{one} against {other}: wins-losses-ties (p)" for one, other in PAIRS]
    header = ["in flight", "runs", *compared, *(f"{n}, median log10 regret (CPU seconds)" for n in POLICIES)]
    rows = [
        [
            str(q), " ".join(str(len(by[n])) for n in POLICIES), *(_shown(score(by[a], by[b])) for a, b in PAIRS),
            *(_middle(by[n]) for n in POLICIES),
        ]
        for q, by in found.items()
    ]  # fmt: skip
    made = [Sheet(title, header, rows)]
    for q, by in found.items():
        groups = [
            [group, *(str(score(by[one], by[other], keys)) for one, other in PAIRS)]
            for group, keys in standings.rows_of({name: each for name, each in by.items() if each})
        ]
        pairs = [f"{one} against {other}" for one, other in PAIRS]
        made.append(Sheet(f"{title}, {q} in flight: wins-losses-ties", ["problems", *pairs], groups))
    return made


def _shown(found: Score) -> str:
    return f"{found} ({found.p:.2g})" if sum(found) else ""


def _middle(results: Results) -> str:
    if not results:
        return ""
    regret = statistics.median(math.log10(max(each.regret, LEAST)) for each in results.values())
    return f"{regret:.2f} ({statistics.median(each.seconds for each in results.values()):.3g})"


def parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser("python -m benchmarks in_flight", description=__doc__, formatter_class=plain)
    add = made.add_argument
    add("--policies", nargs="+", choices=POLICIES, default=list(POLICIES), metavar="POLICY",
        help="which are played, of " + ", ".join(POLICIES) + "; the tables show all that are kept")  # fmt: skip
    add("--flights", nargs="+", type=int, default=list(FLIGHTS), help="numbers of evaluations in flight")
    add("--cases", nargs="+", metavar="CASE", help="labels of cases of the study; all if not given")
    add("--replicates", type=int, default=REPLICATES, help="of each case (%(default)s)")
    add("--evaluations", type=int, default=EVALUATIONS, help="of a run (%(default)s)")
    add("--results", type=Path, default=RESULTS, metavar="FOLDER", help="folder of kept results (%(default)s)")
    add("--no-play", action="store_true", help="print the tables of what is kept")
    add("--markdown", nargs="?", type=Path, const=Path("-"), metavar="PAGE",
        help="print the tables as Markdown, or write them between the marks of a page")  # fmt: skip
    add("--quick", action="store_true", help="a few evaluations of one problem, not kept")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is not kept yet, and print the tables of what is."""
    given: Any = parser().parse_args(arguments)
    warnings.filterwarnings("ignore", message=".*guarantees assume a known kernel")
    numba.set_num_threads(1)
    study = Study.load(STUDY)
    with tempfile.TemporaryDirectory() as temporary, threadpool_limits(1):
        if given.quick:
            given.results, given.evaluations, given.flights = Path(temporary), QUICK, [1, 4]
        try:
            tasks = [studies.first_task(study)] if given.quick else []
            tasks = tasks or list(studies.tasks_of(study, given.replicates, given.cases))
            found = play_missing(given.results, tasks, given.policies, given.flights, given.evaluations)
            for line in () if given.no_play else found:
                print(line, flush=True)
        except DataMissing as error:
            print(f"in_flight is left out: {error}")
        made = sheets(given.results, given.flights, given.evaluations)
        report.show(made, given.markdown, report.marks_of("in flight"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
