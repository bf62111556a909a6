"""The command ``python -m benchmarks constrained``: the default tuner with unknown constraints, beside other packages.

Measured without noise are four problems of mechanical design and 24 functions of the suite bbob-constrained, whose
names say their constraints (c) and dimension (d). Counted is the best value that kept all constraints. A run without
one loses against a run with one; of two without one, that with the smaller violation wins, which is the sum of what
constraints exceed 0 by, at the point where it is the smallest. Runs are kept, one line each, seed by seed, and a run
that is kept is not played again. CPU seconds are of the tuner, without evaluations. One thread.
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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numba
from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks.constrained import tuners
from benchmarks.constrained.problems import PROBLEMS, Problem
from benchmarks.tuners import lines, peers, report, standings
from benchmarks.tuners.clock import Clock
from benchmarks.tuners.command import show
from benchmarks.tuners.lines import Key, Line
from benchmarks.tuners.peers import apart
from benchmarks.tuners.problems import TIE
from benchmarks.tuners.report import Sheet
from benchmarks.tuners.spaces import PeerSpace
from benchmarks.tuners.standings import Result, Results, Score, score
from scalable_bandits.environments.sensors import DataMissing

RESULTS, STUDY = Path("docs/results/measured"), "constrained"
OURS, TUNERS = "ours", ("ours", *tuners.PEERS)
EVALUATIONS, SEEDS, QUICK = (50, 100), 5, 12
WORST = 1e100  # value of a run without a feasible point, times 1 + its violation


def play(tuner: str, problem: Problem, seed: int, evaluations: int) -> Line:
    """Play one run.

    Returns
    -------
    Line
        Steps of the best feasible value and of the smallest violation, as lists of [evaluation, value] from 1 on, and
        the tuner's CPU seconds up to each evaluation.
    """
    clock, space = Clock(), PeerSpace(problem.space)
    if tuner == OURS:
        made = clock.timed(tuners.Ours, problem.space, seed, problem.limits)
    else:
        made = clock.timed(tuners.make, tuner, space.parameters, seed, evaluations)
    feasible: list[list[float]] = []
    violations: list[list[float]] = []
    seconds: list[float] = []
    for evaluation in range(1, evaluations + 1):
        x = clock.timed(made.ask)
        value, *constraints = problem.evaluate(x if tuner == OURS else space.point(x))
        clock.timed(made.tell, x, [value, *constraints])
        violation = math.fsum(max(each, 0.0) for each in constraints)
        for steps, new in ((violations, violation), *(((feasible, value),) if not violation else ())):
            if not steps or new < steps[-1][1]:
                steps.append([evaluation, new])
        seconds.append(round(clock.cpu, 3))
    return {"feasible": feasible, "violations": violations, "cpu_seconds": seconds}


def run(tuner: str, name: str, seed: int, evaluations: int) -> Line:
    """Play a run of a tuner, and return what is kept of it."""
    problem = PROBLEMS[name]()
    played = play(tuner, problem, seed, evaluations)
    kept = {"case": name, "replicate": seed, "group": problem.group, "best": problem.best, "evaluations": evaluations}
    return {**kept, "version": apart.version(tuner), "python": platform.python_version(), **played}


def play_missing(given: argparse.Namespace, where: Path, say: Console) -> int:
    """Play and keep what is not kept with as many evaluations, seed by seed; return the number of runs that failed."""
    warm: set[str] = set()
    failed, evaluations = 0, max(given.evaluations)
    present = [name for name in given.tuners if not apart.is_missing(name)]
    for name in sorted(set(given.tuners) - set(present)):
        say.print(f"{name} is left out: python -m benchmarks tuners --install {name} makes an environment for it")
    for seed, name, tuner in itertools.product(range(given.seeds), given.problems, present):
        known = lines.load(where, STUDY, tuner).get(Key(name, seed))
        if known is not None and known["evaluations"] >= evaluations:
            continue
        what = f"{tuner}, {name}, seed {seed}"
        try:
            if tuner not in warm:
                run(tuner, name, seed, QUICK)  # imports and compilation are not counted
                warm.add(tuner)
            line = run(tuner, name, seed, evaluations)
        except DataMissing as error:
            say.print(f"{what} is left out: {error}", markup=False)
        except Exception as error:  # another package's, of any kind
            failed += 1
            say.print(f"{what}: {type(error).__name__}: {error}", markup=False)
        else:
            lines.append(where, STUDY, tuner, line)
            found = f"{line['feasible'][-1][1]:.6g}" if line["feasible"] else "no feasible point"
            say.print(f"{what}: {found}, {line['cpu_seconds'][-1]:.1f} s of CPU", markup=False)
    return failed


# ---- tables


def result_at(line: Line, at: int) -> Result:
    """Return the result of a run after some evaluations; larger values are better."""
    feasible, violations = ([new for step, new in line[kind] if step <= at] for kind in ("feasible", "violations"))
    value = feasible[-1] if feasible else WORST * (1.0 + violations[-1])
    return Result(-value, value - line["best"], TIE, line["cpu_seconds"][at - 1], (line["group"],), line["version"])


def sheets(where: Path, problems: Sequence[str], evaluations: Sequence[int]) -> Iterator[Sheet]:
    """Yield two tables of the kept runs for each number of evaluations: by problem, and by tuner."""
    kept = {name: lines.load(where, STUDY, name) for name in TUNERS}
    for at in evaluations:
        chosen = {
            name: {key: line for key, line in each.items() if key.case in problems and line["evaluations"] >= at}
            for name, each in kept.items()
        }
        chosen = {name: each for name, each in chosen.items() if each}
        found = {name: {key: result_at(line, at) for key, line in each.items()} for name, each in chosen.items()}
        if found:
            yield _by_problem(f"constrained, {at} evaluations", chosen, found)
            yield _by_tuner(f"constrained, {at} evaluations", at, chosen, found)


def _by_problem(title: str, kept: Mapping[str, Mapping[Key, Line]], found: Mapping[str, Results]) -> Sheet:
    best = {key.case: line["best"] for each in kept.values() for key, line in each.items()}
    groups = {key: result.groups for each in found.values() for key, result in each.items()}
    parts: dict[str, list[Key]] = {name: [] for name in PROBLEMS if name in best}
    for key in sorted(groups, key=lambda key: list(parts).index(key.case)):
        for part in (key.case, *groups[key]):
            parts.setdefault(part, []).append(key)
    parts["all"] = list(groups)
    others = [name for name in found if name != OURS and OURS in found]
    rows = [
        [
            part, f"{best[part]:.6g}" if part in best else "",
            *(_median([each[key] for key in keys if key in each], part in best) for each in found.values()),
            *(str(score(found[OURS], found[other], keys)) for other in others),
        ]
        for part, keys in parts.items()
    ]  # fmt: skip
    what = f"{title}: median of the best feasible values (runs with one); wins-losses-ties of {OURS}"
    return Sheet(what, ["problem", "best known", *found, *(f"against {other}" for other in others)], rows)


def _median(results: Sequence[Result], comparable: bool) -> str:
    """Return the median value, where a run without a feasible point has the worst, and the share of runs with one."""
    if not results:
        return ""
    share = f"({statistics.fmean(each.value > -WORST for each in results):.0%})"
    middle = statistics.median(-each.value for each in results)
    shown = f"{middle:.6g}" if middle < WORST / 2 else "none"  # the mean of a value and the worst is at least that
    return f"{shown} {share}" if comparable else share


def _by_tuner(title: str, at: int, kept: Mapping[str, Mapping[Key, Line]], found: Mapping[str, Results]) -> Sheet:
    ranks, common = standings.mean_ranks(found)
    rows = []
    for name, each in found.items():
        against = score(found.get(OURS, {}), each) if name != OURS else Score(0, 0, 0)
        firsts = [next((step for step, _ in line["feasible"]), math.inf) for line in kept[name].values()]
        first = statistics.median(firsts)
        rows.append([
            name, str(len(each)), "" if math.isnan(ranks[name]) else f"{ranks[name]:.2f}", str(against),
            f"{against.p:.2g}" if sum(against) else "", f"{first:g}" if first <= at else "none",
            f"{statistics.median(result.seconds for result in each.values()):.3g}",
            ", ".join(sorted({result.version for result in each.values()})),
        ])  # fmt: skip
    header = [
        "tuner", "runs", f"mean rank ({common} runs of all)", f"{OURS} against it: wins-losses-ties",
        "p of the sign test", "first feasible evaluation (median)", "CPU seconds a run (median)", "version",
    ]  # fmt: skip
    return Sheet(title, header, rows)


def parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser("python -m benchmarks constrained", description=__doc__, formatter_class=plain)
    add = made.add_argument
    add("--problems", nargs="+", default=["*"], metavar="PROBLEM",
        help="names or patterns, such as '*-d2', of " + ", ".join(PROBLEMS))  # fmt: skip
    add("--tuners", nargs="+", choices=TUNERS, default=list(TUNERS), help="that are played; the tables show all")
    add("--seeds", type=int, default=SEEDS, help="number of runs of each problem (%(default)s)")
    add("--evaluations", nargs="+", type=int, default=list(EVALUATIONS), help="of tables; the largest is played")
    add("--results", type=Path, default=RESULTS, metavar="FOLDER", help="folder of kept results (%(default)s)")
    add("--no-play", action="store_true", help="print the tables of what is kept")
    add("--markdown", nargs="?", type=Path, const=Path("-"), metavar="PAGE",
        help="print the tables as Markdown, or write them between the marks of a page")  # fmt: skip
    add("--quick", action="store_true", help="a few evaluations of one problem, not kept")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is not kept yet, and print the tables of what is; return 1 if a run failed."""
    given = parser().parse_args(arguments)
    chosen = [name for name in PROBLEMS if any(fnmatch.fnmatch(name, each) for each in given.problems)]
    if not chosen:
        parser().error(
            f"--problems: got {' '.join(given.problems)}; allowed: names or patterns of {', '.join(PROBLEMS)}"
        )
    given.problems = chosen
    os.environ["OMP_NUM_THREADS"] = "1"  # torch reads it when it is imported
    warnings.filterwarnings("ignore")  # the peers'
    numba.set_num_threads(1)
    say = Console(stderr=True, soft_wrap=True, highlight=False)
    with tempfile.TemporaryDirectory() as temporary, threadpool_limits(1):
        if given.quick:
            given.problems, given.seeds, given.evaluations = ["spring"], 1, [QUICK]
            given.tuners = [name for name in given.tuners if peers.is_here(name)]
        where = Path(temporary) if given.quick else given.results
        failed = 0 if given.no_play else play_missing(given, where, say)
        show(list(sheets(where, given.problems, sorted(given.evaluations))), given.markdown, report.marks_of(STUDY))
    return int(failed > 0)
