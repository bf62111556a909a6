"""The command ``python -m benchmarks tuners``: plays what is not kept yet, and prints the tables of what is."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numba
from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks.tuners import lines, peers, problems, report, runs, standings, studies
from benchmarks.tuners.peers import apart
from benchmarks.tuners.problems import REPORTED_ON, TABLES, TUNED_ON, Task
from scalable_bandits.environments.sensors import DataMissing
from scalable_bandits.studies import Study

DESCRIPTION = """Play this package's default tuner, other packages' and random search on published problems.

60 evaluations of 14 bbob functions in 2 and 5 dimensions, without and with noise, and 100 of two tables of HPOLib; five
instances or seeds each (slow ones: one). With --study: 500 evaluations (slow ones: 100) of the problems of studies,
with their seeds and noise. Runs are kept, and a run that is kept is not played again. One thread.
"""
INSTANCES = (5, 6, 7, 8, 9)
FEWER = dict.fromkeys(studies.SLOW, (5,))  # instances of a tuner that is slow, where none are chosen
QUICK, QUICK_STUDY = 12, "hpolib-short"  # evaluations of a quick run, and the study of which it plays a task


def parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser("python -m benchmarks tuners", description=DESCRIPTION, formatter_class=plain)
    add = made.add_argument
    add("--tuners", nargs="+", choices=peers.TUNERS, default=["ours", *peers.PEERS], metavar="TUNER",
        help="which are played, of " + ", ".join(peers.TUNERS) + "; the tables show all peers' kept runs")  # fmt: skip
    add("--install", nargs="+", choices=peers.PEERS, default=[], metavar="TUNER",
        help="make an environment for each of these, with all that it needs, and play nothing")  # fmt: skip
    add("--problems", nargs="+", choices=["bbob", *TABLES], default=["bbob", *TABLES], metavar="PROBLEM",
        help="which of bbob, " + ", ".join(TABLES))  # fmt: skip
    add("--functions", nargs="+", type=int, default=[*TUNED_ON, *REPORTED_ON], help="numbers of bbob functions")
    add("--dimensions", nargs="+", type=int, default=[2, 5], help="of bbob functions")
    add("--instances", nargs="+", type=int, help="of bbob functions, which are the seeds as well; 5 to 9 if not given")
    add("--noise", nargs="+", choices=["without", "with"], default=["without", "with"], help="of bbob functions")
    add("--runs", type=Path, default=runs.default_folder(), metavar="FOLDER", help="folder of kept runs (%(default)s)")
    add("--study", nargs="+", default=[], metavar="NAME", help="named studies or study files, played instead")
    add("--cases", nargs="+", metavar="CASE", help="of the studies; all if not given")
    add("--replicates", type=int, help="of each case; 20 if not given (GPSampler: 5, slow ones: 2)")
    add("--evaluations", type=int, help="of a run of a study; 500 if not given (slow ones: 100)")
    add("--results", type=Path, default=lines.FOLDER, metavar="FOLDER",
        help="folder of kept results of studies (%(default)s)")  # fmt: skip
    add("--name", default="ours", help="name under which runs of `ours` are kept and compared (%(default)s)")
    add("--keywords", type=json.loads, default={}, metavar="JSON",
        help='further arguments of `ours`: {"policy": "GPUCB", "scale": 5} plays GPUCB(space, scale=5)')  # fmt: skip
    add("--against", nargs="+", default=[], metavar="NAME", help="further names whose kept runs the tables show")
    add("--no-play", action="store_true", help="print the tables of what is kept")
    add("--markdown", nargs="?", type=Path, const=Path("-"), metavar="PAGE",
        help="print the tables as Markdown, or write them between the marks of a page (of each study)")  # fmt: skip
    add("--quick", action="store_true", help="a few evaluations of a problem of each kind, not kept")
    return made


def tasks_of(tuner: str, given: argparse.Namespace) -> Iterator[Task]:
    """Yield the chosen tasks of a tuner, instance by instance, so that an early end leaves whole instances."""
    for noise in given.noise:
        for instance in given.instances or FEWER.get(tuner, INSTANCES):
            if "bbob" in given.problems:
                for function in given.functions:
                    for dimension in given.dimensions:
                        yield Task("bbob", function, dimension, instance, noise == "with")
            if noise == "without":
                yield from (Task(name, 0, 9, instance) for name in given.problems if name != "bbob")


def quick_tasks() -> Iterator[Task]:
    yield Task("branin", 0, 2, 5)
    yield Task("bbob", 2, 2, 5)
    yield Task("bbob", 2, 2, 5, noisy=True)
    yield Task(TABLES[0], 0, 9, 5)


def available(given: argparse.Namespace, say: Console) -> Iterator[str]:
    """Yield the chosen tuners that are installed."""
    for tuner in given.tuners:
        if apart.is_missing(tuner):
            say.print(f"{tuner} is left out: it is not installed; --install {tuner} makes an environment for it")
        else:
            yield tuner


def play(given: argparse.Namespace, folder: Path, say: Console) -> int:
    """Play what is not kept; return the number of runs that failed."""
    failed = 0
    for tuner in available(given, say):
        every = list(quick_tasks() if given.quick else tasks_of(tuner, given))
        for package in sorted({problems.missing(task) for task in every} - {""}):
            say.print(f"{tuner}: problems that need {package} are left out: it is not installed")
        name, keywords = (given.name, given.keywords) if tuner == "ours" else (tuner, {})
        played = [task for task in every if not problems.missing(task)]
        evaluations = QUICK if given.quick else None
        for task, run in runs.play_missing(folder, name, played, tuner, keywords, evaluations):
            if isinstance(run, peers.NotItsKind):
                say.print(f"{name} {task.file} is left out: {run}", markup=False)
            elif isinstance(run, Exception):
                failed += 1
                say.print(f"{name} {task.file}: {type(run).__name__}: {run}", markup=False)
            else:
                regret = min(run["value"]) - run["optimum"]
                say.print(f"{name} {task.file}: regret {regret:.3g}, {run['cpu_seconds']:.1f} s of CPU", markup=False)
    return failed


def play_study(study: Study, given: argparse.Namespace, folder: Path, say: Console) -> int:
    """Play what is not kept of a study; return the number of runs that failed."""
    failed = 0
    for tuner in available(given, say):
        name, keywords = (given.name, given.keywords) if tuner == "ours" else (tuner, {})
        if given.quick:
            tasks, evaluations = iter([studies.first_task(study)]), QUICK
        else:
            replicates = given.replicates or studies.REPLICATES.get(tuner, 20)
            tasks = studies.tasks_of(study, replicates, given.cases)
            evaluations = given.evaluations or studies.EVALUATIONS.get(tuner, 500)
        try:
            missing = studies.play_missing(folder, name, tasks, tuner, evaluations, keywords, warm_up=not given.quick)
            for task, line in missing:
                what = f"{name} {study.name}, {task.label}, replicate {task.replicate}"
                if isinstance(line, DataMissing):
                    raise line
                if isinstance(line, peers.NotItsKind):
                    say.print(f"{what} is left out: {line}", markup=False)
                elif isinstance(line, Exception):
                    failed += 1
                    say.print(f"{what}: {type(line).__name__}: {line}", markup=False)
                else:
                    last = line["checkpoints"][-1]
                    regret = line["optimum"] - last["recommended_value"]
                    say.print(f"{what}: regret {regret:.3g}, {last['cpu_seconds']:.1f} s of CPU", markup=False)
        except DataMissing as error:
            say.print(f"{tuner}: the study {study.name} is left out: {error}", markup=False)
    return failed


def chosen(kept: Mapping[Task, runs.Run], given: argparse.Namespace) -> dict[Task, runs.Run]:
    """Return the kept runs of the chosen tasks."""
    tasks = set(quick_tasks() if given.quick else tasks_of("", given))
    return {task: run for task, run in kept.items() if task in tasks}


def study_sheets(study: Study, given: argparse.Namespace, folder: Path) -> list[report.Sheet]:
    """Return the tables of the kept runs of a study."""
    kept = {}
    for name in dict.fromkeys([given.name, *peers.PEERS, *given.against]):
        found = lines.load(folder, study.name, name)
        kept[name] = {key: line for key, line in found.items() if is_chosen(key.case, given.cases)}
    return standings.sheets(study.name, {name: found for name, found in kept.items() if found}, given.name)


def is_chosen(label: str, cases: Sequence[str] | None) -> bool:
    """Whether a label of a case, or its name without values, is among the chosen ones."""
    return cases is None or any(label == each or label.startswith(f"{each}, ") for each in cases)


def show(sheets: Sequence[report.Sheet], page: Path | None, marks: tuple[str, str] = report.MARKS) -> None:
    """Print the tables for a terminal, or as Markdown if the page is "-"; or write them between marks of the page."""
    if page is None:
        out = Console(highlight=False)
        for sheet in sheets:
            out.print(sheet.title, report.drawn(sheet), sep="\n")
        return
    text = "\n\n".join(map(report.markdown, sheets))
    if page == Path("-"):
        print(text, end="\n\n")
    else:
        page.write_text(report.inserted(page.read_text(), text, marks))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if a run failed."""
    given = parser().parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"  # torch reads it when it is imported
    warnings.filterwarnings("ignore")  # the peers'
    numba.set_num_threads(1)
    say = Console(stderr=True, soft_wrap=True, highlight=False)
    for tuner in given.install:
        say.print(f"{tuner}: {apart.install(tuner)}")
    if given.install:
        return 0
    chosen_studies = [Study.load(name) for name in given.study]
    with tempfile.TemporaryDirectory() as temporary, threadpool_limits(1):
        quick = Path(temporary) if given.quick else None
        failed = 0
        for study in chosen_studies:
            folder = quick or given.results
            failed += 0 if given.no_play else play_study(study, given, folder, say)
            marks = report.marks_of(study.name)
            show(study_sheets(study, given, folder), given.markdown, marks)
        if not chosen_studies:
            failed += _without_study(given, quick or given.runs, say)
    return int(failed > 0)


def _without_study(given: argparse.Namespace, folder: Path, say: Console) -> int:
    """Play and show the tasks that are no study's, and in a quick run one of a study; return the number of failures."""
    failed = 0 if given.no_play else play(given, folder, say)
    names = dict.fromkeys([given.name, *peers.PEERS, *given.against])
    kept = {name: chosen(runs.load(folder, name), given) for name in names}
    sheets = report.sheets({name: found for name, found in kept.items() if found}, given.name)
    if given.quick and QUICK_STUDY in Study.registry:
        study = Study.load(QUICK_STUDY)
        failed += 0 if given.no_play else play_study(study, given, folder, say)
        sheets += study_sheets(study, given, folder)
    show(sheets, given.markdown)
    return failed
