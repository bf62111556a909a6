"""Studies of tuners that are told several outputs of an evaluation: the command, its kept runs, and the tables.

Runs are kept, one line each, seed by seed, and a run that is kept is not played again. CPU seconds are of the tuner,
without evaluations. One thread.
"""

from __future__ import annotations

import argparse
import fnmatch
import itertools
import math
import os
import platform
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numba
from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks.tuners import lines, report, standings
from benchmarks.tuners.clock import Clock
from benchmarks.tuners.intervals import Parameters
from benchmarks.tuners.lines import Key, Line
from benchmarks.tuners.peers import apart, is_importable
from benchmarks.tuners.peers.server import version_of
from benchmarks.tuners.report import Sheet
from benchmarks.tuners.spaces import PeerSpace
from benchmarks.tuners.standings import Result, Results, Score, score
from scalable_bandits.environments.sensors import DataMissing
from scalable_bandits.spaces import Space

RESULTS, OURS, QUICK = Path("docs/results/measured"), "ours", 12
WARM = 24  # evaluations of a run that is not counted: more than any tuner begins with
Outputs = list[float]


class Problem(Protocol):
    """What is evaluated."""

    @property
    def space(self) -> Space: ...
    @property
    def evaluate(self) -> Callable[[Any], Outputs]: ...
    @property
    def group(self) -> str: ...


class Peers(NamedTuple):
    """Tuners of other packages, each in this process if its modules are installed here, else in its own environment."""

    classes: Mapping[str, Any]
    server: str  # module that answers in the environments

    def is_here(self, name: str) -> bool:
        """Whether the modules of a tuner are installed in this environment."""
        return is_importable(self.classes[name])

    def is_missing(self, name: str) -> bool:
        """Whether a tuner is installed neither here nor in an environment of its own."""
        return not (self.is_here(name) or apart.python_of(name).exists())

    def version(self, name: str) -> str:
        """Return name and version of a tuner's package."""
        if self.is_here(name):
            return version_of(self.classes[name])
        return apart.process_of(name, self.server).version

    def make(self, name: str, parameters: Parameters, seed: int, budget: int) -> Any:
        """Make a tuner."""
        if self.is_here(name):
            return self.classes[name](parameters, seed, budget)
        return apart.Apart(apart.process_of(name, self.server), parameters, seed, budget)


@dataclass(frozen=True)
class OutputStudy:
    """Study of tuners that are told several outputs of an evaluation.

    Parameters
    ----------
    name
        Name of the study: of its command, its tables, and the folder of its results.
    description
        Description of the command.
    problems
        Functions that make the problems, by name.
    ours
        Class of this package's tuner, and function that makes it from a problem and a seed.
    peers
        Other tuners.
    evaluations, seeds
        Numbers of evaluations with tables, of which the largest is played, and number of runs of each problem.
    quick
        Name of the problem of a smoke run.
    recorded
        Function from a problem and the outputs of each evaluation of a run to what is kept of the run.
    result_at
        Function from a kept run and a number of evaluations to the result, of which larger values are better.
    found
        Function from a result to what is printed when a run ends.
    best
        Title of the column with what is best, and its key in a kept run.
    compared, cell
        What the table by problem shows, and function from results, and whether they are of one problem, to a cell.
    column
        Title of a column of the table by tuner, and function from kept runs and a number of evaluations to its cell.
    """

    name: str
    description: str
    problems: Mapping[str, Callable[[], Any]]
    ours: tuple[Any, Callable[[Any, int], Any]]
    peers: Peers
    evaluations: tuple[int, ...]
    seeds: int
    quick: str
    recorded: Callable[[Any, Sequence[Outputs]], Line]
    result_at: Callable[[Line, int], Result]
    found: Callable[[Line], str]
    best: tuple[str, str]
    compared: str
    cell: Callable[[Sequence[Result], bool], str]
    column: tuple[str, Callable[[Iterable[Line], int], str]]

    @property
    def tuners(self) -> tuple[str, ...]:
        """Names of the tuners."""
        return (OURS, *self.peers.classes)

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Play what is not kept yet, and print the tables of what is; return 1 if a run failed."""
        parser = self.parser()
        given = parser.parse_args(arguments)
        chosen = [name for name in self.problems if any(fnmatch.fnmatch(name, each) for each in given.problems)]
        if not chosen:
            names = ", ".join(self.problems)
            parser.error(f"--problems: got {' '.join(given.problems)}; allowed: names or patterns of {names}")
        given.problems = chosen
        os.environ["OMP_NUM_THREADS"] = "1"  # torch reads it when it is imported
        warnings.filterwarnings("ignore")  # the peers'
        numba.set_num_threads(1)
        say = Console(stderr=True, soft_wrap=True, highlight=False)
        with tempfile.TemporaryDirectory() as temporary, threadpool_limits(1):
            if given.quick:
                given.problems, given.seeds, given.evaluations = [self.quick], 1, [QUICK]
                given.tuners = [name for name in given.tuners if name == OURS or self.peers.is_here(name)]
            where = Path(temporary) if given.quick else given.results
            failed = 0 if given.no_play else play_missing(self, given, where, say)
            made = sheets(self, where, given.problems, sorted(given.evaluations))
            report.show(list(made), given.markdown, report.marks_of(self.name))
        return int(failed > 0)

    def parser(self) -> argparse.ArgumentParser:
        """Make the parser of the command."""
        plain = argparse.RawDescriptionHelpFormatter
        made = argparse.ArgumentParser(
            f"python -m benchmarks {self.name}", description=self.description, formatter_class=plain
        )
        add = made.add_argument
        add("--problems", nargs="+", default=["*"], metavar="PROBLEM",
            help="names or patterns, such as '*-d2', of " + ", ".join(self.problems))  # fmt: skip
        add("--tuners", nargs="+", choices=self.tuners, default=list(self.tuners),
            help="that are played; the tables show all")  # fmt: skip
        add("--seeds", type=int, default=self.seeds, help="number of runs of each problem (%(default)s)")
        add("--evaluations", nargs="+", type=int, default=list(self.evaluations),
            help="of tables; the largest is played")  # fmt: skip
        add("--results", type=Path, default=RESULTS, metavar="FOLDER", help="folder of kept results (%(default)s)")
        add("--no-play", action="store_true", help="print the tables of what is kept")
        add("--markdown", nargs="?", type=Path, const=Path("-"), metavar="PAGE",
            help="print the tables as Markdown, or write them between the marks of a page")  # fmt: skip
        add("--quick", action="store_true", help="a few evaluations of one problem, not kept")
        return made


# ---- runs


def steps(values: Iterable[float], sign: float = 1.0) -> list[list[float]]:
    """Return a list of [evaluation, value], from 1 on, where a value is larger than all before; smaller if sign is -1.

    NaN is never larger.
    """
    found: list[list[float]] = []
    for evaluation, value in enumerate(values, start=1):
        if not math.isnan(value) and (not found or sign * value > sign * found[-1][1]):
            found.append([evaluation, value])
    return found


def play(study: OutputStudy, tuner: str, problem: Problem, seed: int, evaluations: int) -> Line:
    """Play one run, and return what the study keeps of it, and the tuner's CPU seconds up to each evaluation."""
    clock, space = Clock(), PeerSpace(problem.space)
    if tuner == OURS:
        made = clock.timed(study.ours[1], problem, seed)
    else:
        made = clock.timed(study.peers.make, tuner, space.parameters, seed, evaluations)
    outputs: list[Outputs] = []
    seconds: list[float] = []
    for _ in range(evaluations):
        x = clock.timed(made.ask)
        outputs.append(problem.evaluate(x if tuner == OURS else space.point(x)))
        clock.timed(made.tell, x, outputs[-1])
        seconds.append(round(clock.cpu, 3))
    return {**study.recorded(problem, outputs), "cpu_seconds": seconds}


def run(study: OutputStudy, tuner: str, name: str, seed: int, evaluations: int) -> Line:
    """Play a run of a tuner, and return the line that is kept."""
    problem = study.problems[name]()
    played = play(study, tuner, problem, seed, evaluations)
    version = version_of(study.ours[0]) if tuner == OURS else study.peers.version(tuner)
    key = {"case": name, "replicate": seed, "group": problem.group, "evaluations": evaluations}
    return {**key, "version": version, "python": platform.python_version(), **played}


def play_missing(study: OutputStudy, given: argparse.Namespace, where: Path, say: Console) -> int:
    """Play and keep what is not kept with as many evaluations, seed by seed; return the number of runs that failed."""
    warm: set[str] = set()
    failed, evaluations = 0, max(given.evaluations)
    present = [name for name in given.tuners if name == OURS or not study.peers.is_missing(name)]
    for name in sorted(set(given.tuners) - set(present)):
        say.print(f"{name} is left out: python -m benchmarks tuners --install {name} makes an environment for it")
    for seed, name, tuner in itertools.product(range(given.seeds), given.problems, present):
        known = lines.load(where, study.name, tuner).get(Key(name, seed))
        if known is not None and known["evaluations"] >= evaluations:
            continue
        what = f"{tuner}, {name}, seed {seed}"
        try:
            if tuner not in warm:
                run(study, tuner, name, seed, WARM)  # imports and compilation are not counted
                warm.add(tuner)
            line = run(study, tuner, name, seed, evaluations)
        except DataMissing as error:
            say.print(f"{what} is left out: {error}", markup=False)
        except Exception as error:  # another package's, of any kind
            failed += 1
            say.print(f"{what}: {type(error).__name__}: {error}", markup=False)
        else:
            lines.append(where, study.name, tuner, line)
            say.print(f"{what}: {study.found(line)}, {line['cpu_seconds'][-1]:.1f} s of CPU", markup=False)
    return failed


# ---- tables


def sheets(study: OutputStudy, where: Path, problems: Sequence[str], evaluations: Sequence[int]) -> Iterator[Sheet]:
    """Yield two tables of the kept runs for each number of evaluations: by problem, and by tuner."""
    kept = {name: lines.load(where, study.name, name) for name in study.tuners}
    for at in evaluations:
        chosen = {
            name: {key: line for key, line in each.items() if key.case in problems and line["evaluations"] >= at}
            for name, each in kept.items()
        }
        chosen = {name: each for name, each in chosen.items() if each}
        found = {name: {key: study.result_at(line, at) for key, line in each.items()} for name, each in chosen.items()}
        if found:
            yield _by_problem(study, at, chosen, found)
            yield _by_tuner(study, at, chosen, found)


def _by_problem(
    study: OutputStudy, at: int, kept: Mapping[str, Mapping[Key, Line]], found: Mapping[str, Results]
) -> Sheet:
    title, field = study.best
    best = {key.case: line[field] for each in kept.values() for key, line in each.items()}
    groups = {key: result.groups for each in found.values() for key, result in each.items()}
    parts: dict[str, list[Key]] = {name: [] for name in study.problems if name in best}
    for key in sorted(groups, key=lambda key: list(parts).index(key.case)):
        for part in (key.case, *groups[key]):
            parts.setdefault(part, []).append(key)
    parts["all"] = list(groups)
    others = [name for name in found if name != OURS and OURS in found]
    rows = [
        [
            part, f"{best[part]:.6g}" if part in best else "",
            *(study.cell([each[key] for key in keys if key in each], part in best) for each in found.values()),
            *(str(score(found[OURS], found[other], keys)) for other in others),
        ]
        for part, keys in parts.items()
    ]  # fmt: skip
    what = f"{study.name}, {at} evaluations: {study.compared}; wins-losses-ties of {OURS}"
    return Sheet(what, ["problem", title, *found, *(f"against {other}" for other in others)], rows)


def _by_tuner(
    study: OutputStudy, at: int, kept: Mapping[str, Mapping[Key, Line]], found: Mapping[str, Results]
) -> Sheet:
    ranks, common = standings.mean_ranks(found)
    title, shown = study.column
    rows = []
    for name, each in found.items():
        against = score(found.get(OURS, {}), each) if name != OURS else Score(0, 0, 0)
        rows.append([
            name, str(len(each)), "" if math.isnan(ranks[name]) else f"{ranks[name]:.2f}", str(against),
            f"{against.p:.2g}" if sum(against) else "", shown(kept[name].values(), at),
            f"{statistics.median(result.seconds for result in each.values()):.3g}",
            ", ".join(sorted({result.version for result in each.values()})),
        ])  # fmt: skip
    header = [
        "tuner", "runs", f"mean rank ({common} runs of all)", f"{OURS} against it: wins-losses-ties",
        "p of the sign test", title, "CPU seconds a run (median)", "version",
    ]  # fmt: skip
    return Sheet(f"{study.name}, {at} evaluations", header, rows)
