"""The command ``python -m benchmarks tuners``: plays what is not kept yet, and prints the tables of what is."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numba
from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks.tuners import lines, peers, report, standings, studies
from benchmarks.tuners.peers import apart
from scalable_bandits.environments.sensors import DataMissing
from scalable_bandits.studies import Study

DESCRIPTION = """Play this package's default tuner, other packages' and random search on published problems.

500 evaluations (slow ones: 100) of the problems of studies, with their seeds and noise. Runs are kept, and a run that
is kept is not played again. One thread.
"""
STUDIES = ("bbob", "bbob-noisy", "hpolib-short")  # where none are chosen
QUICK = 12  # evaluations of a quick run


def parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser("python -m benchmarks tuners", description=DESCRIPTION, formatter_class=plain)
    add = made.add_argument
    add("--tuners", nargs="+", choices=peers.TUNERS, default=["ours", *peers.PEERS], metavar="TUNER",
        help="which are played, of " + ", ".join(peers.TUNERS) + "; the tables show all peers' kept runs")  # fmt: skip
    add("--install", nargs="+", choices=peers.PEERS, default=[], metavar="TUNER",
        help="make an environment for each of these, with all that it needs, and play nothing")  # fmt: skip
    add("--study", nargs="+", default=STUDIES, metavar="NAME",
        help="named studies or study files; " + ", ".join(STUDIES) + " if not given")  # fmt: skip
    add("--cases", nargs="+", metavar="CASE", help="of the studies; all if not given")
    add("--replicates", type=int, help="of each case; 20 if not given (GPSampler: 5, slow ones: 2)")
    add("--evaluations", type=int, help="of a run; 500 if not given (slow ones: 100)")
    add("--results", type=Path, default=lines.FOLDER, metavar="FOLDER",
        help="folder of kept results (%(default)s)")  # fmt: skip
    add("--name", default="ours", help="name under which runs of `ours` are kept and compared (%(default)s)")
    add("--keywords", type=json.loads, default={}, metavar="JSON",
        help='further arguments of `ours`: {"policy": "GPUCB", "scale": 5} plays GPUCB(space, scale=5)')  # fmt: skip
    add("--against", nargs="+", default=[], metavar="NAME", help="further names whose kept runs the tables show")
    add("--no-play", action="store_true", help="print the tables of what is kept")
    add("--markdown", nargs="?", type=Path, const=Path("-"), metavar="PAGE",
        help="print the tables as Markdown, or write them between the marks of a page")  # fmt: skip
    add("--quick", action="store_true", help="a few evaluations of a problem of each study, not kept")
    return made


def available(given: argparse.Namespace, say: Console) -> Iterator[str]:
    """Yield the chosen tuners that are installed."""
    for tuner in given.tuners:
        if apart.is_missing(tuner):
            say.print(f"{tuner} is left out: it is not installed; --install {tuner} makes an environment for it")
        else:
            yield tuner


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
    chosen = [Study.load(name) for name in given.study]
    with tempfile.TemporaryDirectory() as temporary, threadpool_limits(1):
        folder = Path(temporary) if given.quick else given.results
        failed = 0
        for study in chosen:
            failed += 0 if given.no_play else play_study(study, given, folder, say)
            report.show(study_sheets(study, given, folder), given.markdown, report.marks_of(study.name))
    return int(failed > 0)
