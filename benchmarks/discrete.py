"""The command ``python -m benchmarks discrete``: the default tuner on deterministic categories, integers and mixtures.

Twelve kinds of functions that are made, and published tables without their noise. 500 evaluations, with checkpoints at
50, 150 and 500; compared is the best value, with random search that measures no setting twice, and with TPE. Counted
are the distinct settings that each asked for. Runs are kept, one line each (`tuners/lines.py`), seed by seed.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.tuners import lines, peers, report
from benchmarks.tuners.intervals import Parameters, Setting
from benchmarks.tuners.lines import Key, Line
from benchmarks.tuners.report import Sheet
from benchmarks.tuners.standings import Score
from scalable_bandits.environments.published.hpo import HPOLib, HPOTable, NASBench201
from scalable_bandits.environments.sensors import DataMissing

RESULTS, STUDY = Path("docs/results/measured"), "discrete"
CHECKPOINTS = (50, 150, 500)
SEEDS, QUICK = 20, 12
TUNERS = ("ours", "random", "TPE")


class Function(NamedTuple):
    """Function of a setting that is maximised."""

    parameters: Parameters
    value: Callable[[Setting], float]


# ---- functions that are made; a seed makes another one of its kind


def _levels(count: int, levels: int) -> dict[str, list[Any]]:
    return {f"x{i}": [str(level) for level in range(levels)] for i in range(count)}


def _integers(count: int, low: int, high: int) -> dict[str, list[Any]]:
    return {f"x{i}": list(range(low, high + 1)) for i in range(count)}


def _interacting(rng: np.random.Generator, count: int, levels: int, pairs: Sequence[tuple[int, int]]) -> Function:
    """Effects of each category, and interactions of half their size of some pairs."""
    alone, both = rng.standard_normal((count, levels)), 0.5 * rng.standard_normal((len(pairs), levels, levels))

    def value(x: Setting) -> float:
        z = [int(each) for each in x.values()]
        return float(sum(alone[range(count), z]) + sum(both[k, z[i], z[j]] for k, (i, j) in enumerate(pairs)))

    return Function(_levels(count, levels), value)


def _chain(count: int, levels: int) -> Callable[[np.random.Generator], Function]:
    return lambda rng: _interacting(rng, count, levels, list(itertools.pairwise(range(count))))


def _autocorrelation(rng: np.random.Generator) -> Function:
    """Merit factor of a binary sequence of length 20 (Golay 1982), up to a flip of each sign."""
    flips = rng.choice([-1, 1], 20)

    def value(x: Setting) -> float:
        s = flips * np.array([2 * int(each) - 1 for each in x.values()])
        return 200.0 / sum(float(s[k:] @ s[:-k]) ** 2 for k in range(1, 20))

    return Function(_levels(20, 2), value)


def _landscape(rng: np.random.Generator) -> Function:
    """NK landscape (Kauffman & Weinberger 1989): 16 binary variables, each with three others."""
    others = [rng.choice(np.delete(np.arange(16), i), 3, replace=False) for i in range(16)]
    table = rng.random((16, 2, 2, 2, 2))

    def value(x: Setting) -> float:
        z = np.array([int(each) for each in x.values()])
        return float(np.mean([table[(i, z[i], *z[others[i]])] for i in range(16)]))

    return Function(_levels(16, 2), value)


def _cut(rng: np.random.Generator) -> Function:
    """Weight of a cut through a random graph of 20 nodes."""
    weights = np.triu(rng.random((20, 20)) * (rng.random((20, 20)) < 0.3), 1)

    def value(x: Setting) -> float:
        side = np.array([int(each) for each in x.values()])
        return float(weights[side[:, None] != side].sum())

    return Function(_levels(20, 2), value)


def _shifted(count: int, half: int, function: Callable[[Any], float]) -> Callable[[np.random.Generator], Function]:
    """A function of whole numbers from -half to half, moved by up to half of that."""

    def make(rng: np.random.Generator) -> Function:
        shift = rng.integers(-(half // 2), half // 2 + 1, count)
        return Function(
            _integers(count, -half, half), lambda x: -function(np.array(list(x.values()), dtype=float) - shift)
        )

    return make


def _rastrigin(x: Any) -> float:
    return float(np.sum(x**2 / 4.0 + 10.0 * (1.0 - np.cos(2.0 * np.pi * x / 4.0))))


def _rosenbrock(x: Any) -> float:
    return float(np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2))


def _styblinski_tang(x: Any) -> float:
    z = x / 2.0
    return float(0.5 * np.sum(z**4 - 16.0 * z**2 + 5.0 * z))


def _small_table(rng: np.random.Generator) -> Function:
    """A rugged table of 12 x 12 settings."""
    table = np.sin(np.arange(12))[:, None] * np.cos(np.arange(12)) + 0.5 * rng.standard_normal((12, 12))
    return Function(_integers(2, 1, 12), lambda x: float(table[x["x0"] - 1, x["x1"] - 1]))


def _func3c(rng: np.random.Generator) -> Function:
    """Func3C of Ru et al. 2020: three categories choose among functions of two real numbers."""
    parameters: dict[str, Any] = {"h1": list("abc"), "h2": list("abcde"), "h3": list("abcd")}
    order = {name: rng.permutation(len(each)) for name, each in parameters.items()}

    def rosenbrock(x: float, y: float) -> float:
        return (100.0 * (y - x**2) ** 2 + (1.0 - x) ** 2) / 300.0

    def camel(x: float, y: float) -> float:
        return ((4.0 - 2.1 * x**2 + x**4 / 3.0) * x**2 + x * y + (4.0 * y**2 - 4.0) * y**2) / 10.0

    def beale(x: float, y: float) -> float:
        return ((1.5 - x + x * y) ** 2 + (2.25 - x + x * y**2) ** 2 + (2.625 - x + x * y**3) ** 2) / 50.0

    def value(s: Setting) -> float:
        x, y = s["x"], s["y"]
        h1, h2, h3 = (int(order[name][parameters[name].index(s[name])]) for name in ("h1", "h2", "h3"))
        first = (rosenbrock, camel, beale)[h1](x, y)
        second = (rosenbrock, camel, beale, rosenbrock, camel)[h2](x, y)
        third = (5.0 * camel(x, y), 2.0 * rosenbrock(x, y), 2.0 * beale(x, y), 3.0 * beale(x, y))[h3]
        return -(first + second + third)

    return Function({**parameters, "x": (-2.0, 2.0), "y": (-2.0, 2.0)}, value)


def _pressure_vessel(rng: np.random.Generator) -> Function:
    """Cost of a pressure vessel with two thicknesses in steps of 1/16 inch (Sandgren 1990), violations as a penalty."""

    def value(s: Setting) -> float:
        t, h, r, length = s["shell"] / 16.0, s["head"] / 16.0, s["radius"], s["length"]
        cost = 0.6224 * t * r * length + 1.7781 * h * r**2 + 3.1661 * t**2 * length + 19.84 * t**2 * r
        volume = math.pi * r**2 * length + 4.0 / 3.0 * math.pi * r**3
        short = max(0.0193 * r - t, 0.0) + max(0.00954 * r - h, 0.0) + max(1.0 - volume / 1_296_000.0, 0.0)
        return -math.log(cost + 1e5 * short)

    thick = list(range(1, 33))
    return Function({"shell": thick, "head": thick, "radius": (10.0, 200.0), "length": (10.0, 200.0)}, value)


def _table(kind: type[HPOTable], name: str) -> Callable[[np.random.Generator], Function]:
    """A published table without its noise, the same for all seeds."""

    def make(rng: np.random.Generator) -> Function:
        made = kind(name, repeats=False)  # type: ignore[call-arg]
        return Function(kind.PARAMETERS, lambda x: float(made.mean(x)))

    return make


MADE: Mapping[str, Callable[[np.random.Generator], Function]] = {
    "categories 12 x 4": _chain(12, 4),
    "categories 8 x 8": _chain(8, 8),
    "categories 6 x 10": lambda rng: _interacting(rng, 6, 10, list(itertools.combinations(range(6), 2))),
    "autocorrelation": _autocorrelation,
    "NK landscape": _landscape,
    "cut": _cut,
    "integer Rastrigin": _shifted(4, 10, _rastrigin),
    "integer Rosenbrock": _shifted(5, 5, _rosenbrock),
    "integer Styblinski-Tang": _shifted(6, 10, _styblinski_tang),
    "table 12 x 12": _small_table,
    "Func3C": _func3c,
    "pressure vessel": _pressure_vessel,
    **{name: _table(HPOLib, name) for name in HPOLib.TABLES},
    **{f"NAS-Bench-201 {name}": _table(NASBench201, name) for name in NASBench201.TABLES},
}


# ---- runs


class Without(peers.Random):
    """Random settings, none of them twice as long as others are found."""

    def __init__(self, parameters: Parameters, seed: int, budget: int = 0) -> None:
        super().__init__(parameters, seed, budget)
        self._seen: set[tuple[Any, ...]] = set()

    def ask(self) -> Setting:
        for _ in range(1000):
            found = super().ask()
            if (key := tuple(found.values())) not in self._seen:
                break
        self._seen.add(key)
        return found


MAKERS = {"ours": peers.Ours, "random": Without, "TPE": peers.TPE}


def run(name: str, problem: str, seed: int, evaluations: int) -> Line:
    """Play a run of a tuner, and return what is kept of it."""
    made = MADE[problem](np.random.default_rng([seed, 38]))
    tuner, cpu, best, seen = MAKERS[name](made.parameters, seed), 0.0, -math.inf, set()
    checkpoints = []
    for t in range(1, evaluations + 1):
        began = time.process_time()
        x = tuner.ask()
        cpu -= began - time.process_time()
        value = made.value(x)
        seen.add(tuple(x[name] for name in made.parameters))
        best = max(best, value)
        began = time.process_time()
        tuner.tell(x, -value)
        cpu -= began - time.process_time()
        if t in CHECKPOINTS or t == evaluations:
            checkpoints.append({"at": t, "best_value": best, "distinct": len(seen), "cpu_seconds": round(cpu, 3)})
    return {"case": problem, "replicate": seed, "evaluations": evaluations, "checkpoints": checkpoints}


def play(names: Sequence[str], problems: Sequence[str], seeds: int, evaluations: int, folder: Path) -> None:
    """Play and keep what is not kept yet, seed by seed."""
    for seed, name, problem in itertools.product(range(seeds), names, problems):
        kept = lines.load(folder, STUDY, name).get(Key(problem, seed))
        if kept is None or kept["evaluations"] < evaluations:
            try:
                lines.append(folder, STUDY, name, run(name, problem, seed, evaluations))
            except DataMissing as error:
                print(f"{problem} is left out: {error}")


# ---- tables


def _results(folder: Path, name: str, at: int) -> dict[Key, dict[str, Any]]:
    found = lines.load(folder, STUDY, name)
    return {key: each for key, line in found.items() for each in line["checkpoints"] if each["at"] == at}


def _score(ours: Mapping[Key, Any], theirs: Mapping[Key, Any], problem: str | None) -> Score:
    """Count wins, losses and ties of `ours` in the runs of a problem, or of all, that both have."""
    keys = [key for key in ours if key in theirs and problem in (None, key.case)]
    ahead = [ours[key]["best_value"] - theirs[key]["best_value"] for key in keys]
    wins, losses = sum(by > 1e-12 for by in ahead), sum(by < -1e-12 for by in ahead)
    return Score(wins, losses, len(keys) - wins - losses)


def holm(ps: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number (Holm 1979)."""
    found, largest = [1.0] * len(ps), 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min((len(ps) - rank) * ps[i], 1.0))
        found[i] = largest
    return found


def _distinct(results: Mapping[Key, Any], problem: str | None) -> str:
    """Return the median number of distinct settings in the runs of a problem, or of all."""
    counts = [each["distinct"] for key, each in results.items() if problem in (None, key.case)]
    return f"{statistics.median(counts):.0f}" if counts else "-"


def sheets(folder: Path) -> Iterator[Sheet]:
    """Yield a table for each checkpoint that has runs; p-values of problems are adjusted for their number."""
    kept = lines.load(folder, STUDY, "ours").values()
    for at in sorted({each["at"] for line in kept for each in line["checkpoints"]}):
        every = {name: _results(folder, name, at) for name in TUNERS}
        ours = every["ours"]
        problems = [problem for problem in MADE if any(key.case == problem for key in ours)]
        columns: list[list[str]] = []
        for name in TUNERS[1:]:
            scores = [_score(ours, every[name], problem) for problem in (*problems, None)]
            adjusted = [*holm([score.p for score in scores[:-1]]), scores[-1].p]
            columns += [list(map(str, scores)), [f"{p:.2g}" for p in adjusted]]
        columns.append([" / ".join(_distinct(every[name], each) for name in TUNERS) for each in (*problems, None)])
        rows = [list(row) for row in zip([*problems, "all"], *columns, strict=True)]
        head = ["problem", "random", "p", "TPE", "p", "distinct: " + " / ".join(TUNERS)]
        yield Sheet(f"After {at} evaluations: wins-losses-ties of the default tuner", head, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks discrete", description=__doc__, formatter_class=plain)
    parser.add_argument("--tuners", nargs="+", choices=TUNERS, default=list(TUNERS))
    parser.add_argument("--problems", nargs="+", choices=list(MADE), default=list(MADE), metavar="PROBLEM")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--evaluations", type=int, default=CHECKPOINTS[-1])
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument("--no-play", action="store_true", help="print the tables of what is kept")
    parser.add_argument("--markdown", nargs="?", type=Path, const=Path("-"), metavar="PAGE")
    parser.add_argument("--quick", action="store_true", help="a few evaluations of two problems, not kept")
    given = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    numba.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary, threadpool_limits(1):
        folder = Path(temporary) if given.quick else given.results
        if given.quick:
            play(given.tuners, ["categories 12 x 4", "Func3C"], 1, QUICK, folder)
        elif not given.no_play:
            play(given.tuners, given.problems, given.seeds, given.evaluations, folder)
        report.show(list(sheets(folder)), given.markdown, report.marks_of(STUDY))
    return 0
