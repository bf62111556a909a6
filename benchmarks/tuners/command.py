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

from benchmarks.tuners import peers, problems, report, runs, tables
from benchmarks.tuners.problems import REPORTED_ON, TUNED_ON, Task

DESCRIPTION = """Play this package's default tuner, other packages' and random search on published problems.

60 evaluations of 14 bbob functions in 2 and 5 dimensions, without and with noise, and 100 of two tables of HPOLib; five
instances or seeds each (BoTorch: one). Runs are kept, and a run that is kept is not played again. One thread.
"""
INSTANCES = (5, 6, 7, 8, 9)
FEWER = {"BoTorch": (5,)}  # instances of a tuner that is slow, where none are chosen


def parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser("python -m benchmarks tuners", description=DESCRIPTION, formatter_class=plain)
    add = made.add_argument
    add("--tuners", nargs="+", choices=peers.TUNERS, default=["ours", *peers.PEERS], metavar="TUNER",
        help="which are played, of " + ", ".join(peers.TUNERS) + "; the tables show all peers' kept runs")  # fmt: skip
    add("--problems", nargs="+", choices=["bbob", *tables.NAMES], default=["bbob", *tables.NAMES], metavar="PROBLEM",
        help="which of bbob, " + ", ".join(tables.NAMES))  # fmt: skip
    add("--functions", nargs="+", type=int, default=[*TUNED_ON, *REPORTED_ON], help="numbers of bbob functions")
    add("--dimensions", nargs="+", type=int, default=[2, 5], help="of bbob functions")
    add("--instances", nargs="+", type=int, help="of bbob functions, which are the seeds as well; 5 to 9 if not given")
    add("--noise", nargs="+", choices=["without", "with"], default=["without", "with"], help="of bbob functions")
    add("--runs", type=Path, default=runs.default_folder(), metavar="FOLDER", help="folder of kept runs (%(default)s)")
    add("--name", default="ours", help="name under which runs of `ours` are kept and compared (%(default)s)")
    add("--keywords", type=json.loads, default={}, metavar="JSON",
        help='further arguments of `ours`: {"policy": "GPUCB", "scale": 5} plays GPUCB(space, scale=5)')  # fmt: skip
    add("--against", nargs="+", default=[], metavar="NAME", help="further names whose kept runs the tables show")
    add("--no-play", action="store_true", help="print the tables of what is kept")
    add("--markdown", nargs="?", type=Path, const=Path("-"), metavar="PAGE",
        help="print the tables as Markdown, or write them between the two marks of a page")  # fmt: skip
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
    yield Task(tables.NAMES[0], 0, 9, 5)


def play(given: argparse.Namespace, folder: Path, say: Console) -> int:
    """Play what is not kept; return the number of runs that failed."""
    failed = 0
    for tuner in given.tuners:
        if peers.missing(tuner):
            say.print(f"{tuner} is left out: {peers.missing(tuner)} is not installed")
            continue
        every = list(quick_tasks() if given.quick else tasks_of(tuner, given))
        for package in sorted({problems.missing(task) for task in every} - {""}):
            say.print(f"{tuner}: problems that need {package} are left out: it is not installed")
        name, keywords = (given.name, given.keywords) if tuner == "ours" else (tuner, {})
        played = [task for task in every if not problems.missing(task)]
        evaluations = 12 if given.quick else None
        for task, run in runs.play_missing(folder, name, played, tuner, keywords, evaluations):
            if isinstance(run, Exception):
                failed += 1
                say.print(f"{name} {task.file}: {type(run).__name__}: {run}", markup=False)
            else:
                regret = min(run["value"]) - run["optimum"]
                say.print(f"{name} {task.file}: regret {regret:.3g}, {run['cpu_seconds']:.1f} s of CPU", markup=False)
    return failed


def chosen(kept: Mapping[Task, runs.Run], given: argparse.Namespace) -> dict[Task, runs.Run]:
    """Return the kept runs of the chosen tasks."""
    tasks = set(quick_tasks() if given.quick else tasks_of("", given))
    return {task: run for task, run in kept.items() if task in tasks}


def show(sheets: Sequence[report.Sheet], page: Path | None) -> None:
    """Print the tables for a terminal, or as Markdown if the page is "-"; or write them to the page."""
    if page is None:
        out = Console(highlight=False)
        for sheet in sheets:
            out.print(sheet.title, report.drawn(sheet), sep="\n")
        return
    text = "\n\n".join(map(report.markdown, sheets))
    if page == Path("-"):
        print(text)
    else:
        page.write_text(report.inserted(page.read_text(), text))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if a run failed."""
    given = parser().parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"  # torch reads it when it is imported
    warnings.filterwarnings("ignore")  # the peers'
    numba.set_num_threads(1)
    say = Console(stderr=True, soft_wrap=True, highlight=False)
    with tempfile.TemporaryDirectory() as temporary, threadpool_limits(1):
        folder = Path(temporary) if given.quick else given.runs
        failed = 0 if given.no_play else play(given, folder, say)
        names = dict.fromkeys([given.name, *peers.PEERS, *given.against])
        kept = {name: chosen(runs.load(folder, name), given) for name in names}
    show(report.sheets({name: found for name, found in kept.items() if found}, given.name), given.markdown)
    return int(failed > 0)
