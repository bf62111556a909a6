"""The command ``python -m benchmarks dimensions``: simple regret in 20 and 80 dimensions, given bounds alone.

Functions of bbob-largescale, sums of functions of pairs of dimensions, and a published function of six hidden
dimensions, without noise. Tuners are this package's default, TuRBO's trust regions (trust-bo), CMA-ES (cma) and random
search; those that are not installed are left out. Compared is the smallest regret after all evaluations, by function
and seed. Runs are kept as one JSON file each, and a run that is kept is not played again.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import scalable_bandits as sb
from benchmarks.tuners.command import show
from benchmarks.tuners.report import Sheet, marks_of
from scalable_bandits.environments import Environment
from scalable_bandits.environments.published import LargeScaleBBOB
from scalable_bandits.environments.published.sources import COCO

Floats = NDArray[np.float64]
Run = dict[str, Any]
DIMENSIONS = (20, 80)
BBOB = {
    1: "sphere",
    3: "Rastrigin",
    8: "Rosenbrock",
    10: "ellipsoid, rotated",
    15: "Rastrigin, rotated",
    20: "Schwefel",
}
HALF = 2.0  # CMA-ES begins in the middle of [-5, 5]^d with this deviation


def _bbob(number: int) -> Callable[[int, int], Environment]:
    return lambda dimension, seed: LargeScaleBBOB(number, dimension, 1 + seed)


def _pairs(dimension: int, seed: int) -> Environment:
    return sb.AdditiveFunction.sparse(sb.Box([[-5.0, 5.0]] * dimension), sb.Matern(2.0, nu=2.5), seed=seed)


def _hidden(dimension: int, seed: int) -> Environment:
    return sb.AdditiveFunction.embedded(sb.Benchmark("hartmann6"), sb.Box([[-5.0, 5.0]] * dimension), seed=seed)


PROBLEMS: dict[str, Callable[[int, int], Environment]] = {
    **{name: _bbob(number) for number, name in BBOB.items()}, "pairs": _pairs, "hidden hartmann6": _hidden,
}  # fmt: skip


class Regret:
    """Regret at points of [-5, 5]^d, to be minimised; it keeps the smallest, and the time that it takes."""

    def __init__(self, environment: Environment):
        self.environment, self.optimum = environment, environment.optimum()
        self.dimension = environment.space.dimension
        self.smallest: list[float] = []
        self.cpu = 0.0

    def __call__(self, x: Floats) -> float:
        began = time.process_time()
        point = np.clip(np.asarray(x, dtype=np.float64), -5.0, 5.0)[None]
        regret = self.optimum - float(self.environment.evaluate(point)[0])
        self.smallest.append(min([regret, *self.smallest[-1:]]))
        self.cpu += time.process_time() - began
        return regret


def ours(regret: Regret, evaluations: int, seed: int) -> None:
    """`minimize` with its defaults."""
    sb.minimize(regret, sb.Box([[-5.0, 5.0]] * regret.dimension), budget=evaluations, seed=seed, progress=False)


def turbo(regret: Regret, evaluations: int, seed: int) -> None:
    """`TRustBOEngine` with its defaults, one point at a time."""
    from trust_bo import Float, TRustBOEngine

    names = [f"x{i}" for i in range(regret.dimension)]
    engine = TRustBOEngine(space=[Float(name, -5.0, 5.0) for name in names], direction="minimize", seed=seed)
    for _ in range(evaluations):
        (setting,) = engine.ask(batch_size=1)
        value = regret(np.array([setting[name] for name in names]))
        engine.tell([setting], [{"value": value, "feasible": True}])


def cma_es(regret: Regret, evaluations: int, seed: int) -> None:
    """`CMAEvolutionStrategy` from the middle of the box, restarted there where it ends."""
    import cma

    options = {"bounds": [-5.0, 5.0], "verbose": -9, "verb_log": 0}
    for restart in itertools.count(1):
        strategy = cma.CMAEvolutionStrategy(
            np.zeros(regret.dimension), HALF, {**options, "seed": 1 + seed + 1000 * restart}
        )
        while not strategy.stop():
            points = strategy.ask()
            if len(regret.smallest) + len(points) > evaluations:
                for point in points[: evaluations - len(regret.smallest)]:
                    regret(point)
                return
            strategy.tell(points, [regret(point) for point in points])


def randomly(regret: Regret, evaluations: int, seed: int) -> None:
    """Independent uniform points."""
    for point in np.random.default_rng([seed, 21]).uniform(-5.0, 5.0, (evaluations, regret.dimension)):
        regret(point)


TUNERS: dict[str, tuple[Callable[[Regret, int, int], None], str]] = {  # with the modules that they need
    "ours": (ours, "scalable_bandits"), "TuRBO": (turbo, "trust_bo"), "CMA-ES": (cma_es, "cma"),
    "random": (randomly, "numpy"),
}  # fmt: skip


def played(tuner: str, problem: str, dimension: int, evaluations: int, seed: int) -> Run:
    """Play one run; CPU seconds are the tuner's own, without those of the evaluations."""
    regret, began = Regret(PROBLEMS[problem](dimension, seed)), time.process_time()
    TUNERS[tuner][0](regret, evaluations, seed)
    cpu = time.process_time() - began - regret.cpu
    return {"tuner": tuner, "problem": problem, "dimension": dimension, "seed": seed, "smallest": regret.smallest,
            "cpu_seconds": cpu}  # fmt: skip


def kept(
    folder: Path | None, plays: bool, tuner: str, problem: str, dimension: int, evaluations: int, seed: int
) -> Run | None:
    """Return a run from its file; if it is not kept, play it and write the file, or return None unless `plays`."""
    path = folder and folder / f"{problem.replace(' ', '-')}-{dimension}-{tuner}-{evaluations}-{seed}.json"
    if path is not None and path.exists():
        return dict(json.loads(path.read_text()))
    if not plays:
        return None
    run = played(tuner, problem, dimension, evaluations, seed)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(run))
        partial.replace(path)
    return run


def compared(runs: Sequence[Run], evaluations: int) -> Sheet:
    """Return the table of the runs: median regrets by function, wins and losses of this package's, CPU seconds."""
    tuners = [name for name in TUNERS if any(run["tuner"] == name for run in runs)]
    last = {(run["tuner"], run["problem"], run["dimension"], run["seed"]): run["smallest"][-1] for run in runs}
    rows = []
    for problem, dimension in dict.fromkeys((run["problem"], run["dimension"]) for run in runs):
        cells = []
        for name in tuners:
            regrets = [regret for key, regret in last.items() if key[:3] == (name, problem, dimension)]
            cells.append(f"{statistics.median(regrets):.3g} ({len(regrets)})" if regrets else "")
        rows.append([problem, str(dimension), *cells])
    counts, seconds = [], []
    for name in tuners:
        both = [(last["ours", *key[1:]], value) for key, value in last.items()
                if key[0] == name != "ours" and ("ours", *key[1:]) in last]  # fmt: skip
        counts.append(f"{sum(own < other for own, other in both)}-{sum(own > other for own, other in both)}")
        spent = [run["cpu_seconds"] / evaluations for run in runs if run["tuner"] == name]
        seconds.append(f"{statistics.median(spent):.2g} s")
    rows.append(["wins-losses of ours", "", *("" if count == "0-0" else count for count in counts)])
    rows.append(["CPU an evaluation, median", "", *seconds])
    title = f"Simple regret after {evaluations:,} evaluations: median (number of runs)"
    return Sheet(title, ["function", "dimensions", *tuners], rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is not kept yet; print a row for each function, and how often this package's runs are better."""
    parser = argparse.ArgumentParser("python -m benchmarks dimensions", description=__doc__)
    parser.add_argument("--tuners", nargs="+", choices=TUNERS, default=list(TUNERS), metavar="TUNER")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS), metavar="PROBLEM")
    parser.add_argument("--dimensions", nargs="+", type=int, default=list(DIMENSIONS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--evaluations", type=int, default=1000)
    parser.add_argument("--runs", type=Path, help="folder of kept runs; they are not kept if it is not given")
    parser.add_argument("--no-play", action="store_true", help="print the table of what is kept")
    parser.add_argument("--markdown", nargs="?", type=Path, const=Path("-"), metavar="PAGE",
        help="print the table as Markdown, or write it between the marks of a page")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="thirty evaluations of two functions and one seed")
    given = parser.parse_args(arguments)
    if given.quick:
        given.seeds, given.evaluations, given.problems, given.dimensions = [0], 30, ["Rastrigin", "pairs"], [20]
    warnings.filterwarnings("ignore")  # the peers'
    numba.set_num_threads(1)
    tuners = [name for name in given.tuners if given.no_play or importlib.util.find_spec(TUNERS[name][1])]
    problems = [name for name in given.problems if given.no_play or name not in BBOB.values() or COCO.installed]
    left_out = [name for name in (*given.tuners, *given.problems) if name not in (*tuners, *problems)]
    with threadpool_limits(1):
        found = [
            kept(given.runs, not given.no_play, name, problem, dimension, given.evaluations, seed)
            for problem, dimension in itertools.product(problems, given.dimensions)
            for name in tuners
            for seed in given.seeds
        ]
    show([compared([run for run in found if run], given.evaluations)], given.markdown, marks_of("dimensions"))
    if left_out:
        print(f"Left out, since their packages are not installed: {', '.join(left_out)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
