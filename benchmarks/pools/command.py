"""The command ``python -m benchmarks pools``: batches from pools of published data, beside other packages.

Each tuner measures 2.4 % of a pool in 24 batches of .1 %; counted is the share of the best .1 % of all candidates that
is found after .3, 1 and 2.4 %. A policy of this package has its defaults, without a kernel. A random forest of which
the largest means are chosen is MolPAL's baseline; PHYSBO draws by random features; BayBE has its defaults. These run in
environments of their own, which ``--install`` makes. Molecules are described once, by rdkit in an environment of its
own. Runs are kept, one line each, seed by seed. CPU seconds are those of all choices.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import tempfile
import time
import venv
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import scalable_bandits as sb
from benchmarks.pools import choosers
from benchmarks.pools.problems import PROBLEMS, SCORED, Problem
from benchmarks.tuners import lines, report
from benchmarks.tuners.lines import Key, Line
from benchmarks.tuners.peers.apart import THREADS, folder, python_of
from benchmarks.tuners.report import Sheet
from scalable_bandits.environments.sensors import DataMissing

RESULTS, STUDY = Path("docs/results/measured"), "pools"
OURS = ("MeanOnly", "GPUCB", "GPEI", "GPTS")
REQUIREMENTS = {"forest": "scikit-learn", "PHYSBO": "physbo", "BayBE": "baybe"}
LARGEST = {"PHYSBO": 100_000, "BayBE": 20_000}  # candidates: of more, a run takes days
TUNERS = (*OURS, "random", *REQUIREMENTS)
SEEDS = 5


class Ours:
    """A policy of this package with its defaults, that measures no candidate twice."""

    def __init__(self, name: str, pool: sb.Pool, seed: int):
        self._policy = getattr(sb, name)(sb.Pool(pool.path, repeats=False), seed=seed)
        self._told = 0

    def choose(self, count: int, chosen: list[int], y: Any) -> list[int]:
        """Return the numbers of the next candidates."""
        if new := chosen[self._told :]:
            self._policy.tell(new, y[self._told :])
            self._told = len(chosen)
        return self._policy.ask(count).tolist()  # type: ignore[no-any-return]


class Uniform:
    """Candidates in a random order."""

    def __init__(self, size: int, seed: int):
        self._order = np.random.default_rng(seed).permutation(size).tolist()

    def choose(self, count: int, chosen: list[int], y: Any) -> list[int]:
        """Return the numbers of the next candidates."""
        return self._order[len(chosen) : len(chosen) + count]


def _played(name: str, problem: Problem, seed: int, batches: int) -> tuple[list[int], list[float], str]:
    """Return the candidates chosen, CPU seconds after each batch, and name and version of the package."""
    with tempfile.TemporaryDirectory() as temporary:
        if name not in REQUIREMENTS:
            pool = problem.pool(f"{temporary}/pool.zarr")
            chooser = Uniform(len(problem.values), seed) if name == "random" else Ours(name, pool, seed)
            chosen, seconds = choosers.play(chooser, [problem.batch] * batches, problem.values)
            return chosen, seconds, f"scalable_bandits {sb.__version__}"
        problem.save(path := Path(temporary, "problem.npz"), batches)
        words = [str(python_of(name)), choosers.__file__, name, str(path), str(seed)]
        variables = {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": ""}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=variables)
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr.strip().splitlines()[-1]}")
        found = json.loads(done.stdout.strip().splitlines()[-1])
        return found["chosen"], found["cpu_seconds"], found["with"]


def run(name: str, label: str, problem: Problem, seed: int, batches: int) -> Line:
    """Play a run of a tuner, and return what is kept of it."""
    began = time.perf_counter()
    chosen, seconds, package = _played(name, problem, seed, batches)
    checkpoints = [
        {"at": at, "share": round(problem.share_of_best(chosen[: at * problem.batch]), 4),
         "best_value": float(problem.values[chosen[: at * problem.batch]].max()), "cpu_seconds": seconds[at - 1]}
        for at in sorted({*SCORED.values(), batches}) if at <= batches
    ]  # fmt: skip
    kept = {"case": label, "replicate": seed, "evaluations": len(chosen), "with": package}
    return {**kept, "seconds": round(time.perf_counter() - began, 1), "checkpoints": checkpoints}


def play(names: Sequence[str], problems: Sequence[str], seeds: int, batches: int, where: Path) -> None:
    """Play and keep what is not kept yet, seed by seed."""
    for seed, label, name in itertools.product(range(seeds), problems, names):
        if Key(label, seed) in lines.load(where, STUDY, name):
            continue
        if name in REQUIREMENTS and not python_of(name).exists():
            print(f"{name} is left out: its environment is made by --install {name}")
            continue
        try:
            problem = PROBLEMS[label]()
        except DataMissing as error:
            print(f"{label} is left out: {error}")
            continue
        if len(problem.values) > LARGEST.get(name, len(problem.values)):
            print(f"{name} is left out: {label} has more than {LARGEST[name]:,} candidates")
            continue
        line = run(name, label, problem, seed, batches)
        lines.append(where, STUDY, name, line)
        print(f"{name}, {label}, seed {seed}: {line['checkpoints'][-1]}", flush=True)


def install(name: str) -> None:
    """Make the environment of a package."""
    venv.create(folder() / name, clear=True, with_pip=True)
    subprocess.run([str(python_of(name)), "-m", "pip", "install", REQUIREMENTS[name]], check=True)


# ---- tables


def _at(where: Path, name: str, at: int) -> dict[Key, dict[str, Any]]:
    found = lines.load(where, STUDY, name)
    return {key: each for key, line in found.items() for each in line["checkpoints"] if each["at"] == at}


def sheets(where: Path) -> Iterator[Sheet]:
    """Yield a table of the shares for each length of a run that is kept, and one of the CPU seconds."""
    for share, at in SCORED.items():
        every = {name: found for name in TUNERS if (found := _at(where, name, at))}
        shown = [label for label in PROBLEMS if any(key.case == label for each in every.values() for key in each)]
        if shown:
            title = f"Share of the best .1 % found, after {100 * share:g} % were measured: means over seeds"
            yield Sheet(title, ["pool", *every], [[label, *_row(every, label, "share")] for label in shown])
            if at == max(SCORED.values()):
                rows = [[label, *_row(every, label, "cpu_seconds")] for label in shown]
                yield Sheet("CPU seconds of all choices: medians over seeds", ["pool", *every], rows)


def _row(every: dict[str, dict[Key, Any]], label: str, what: str) -> Iterator[str]:
    for found in every.values():
        own = [each[what] for key, each in found.items() if key.case == label]
        if not own:
            yield "-"
        elif what == "share":
            spread = statistics.stdev(own) / len(own) ** 0.5 if len(own) > 1 else float("nan")
            yield f"{statistics.fmean(own):.3f}" + (f" ± {spread:.3f}" if len(own) > 1 else "")
        else:
            yield f"{statistics.median(own):.3g}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks pools", description=__doc__, formatter_class=plain)
    usual = [label for label in PROBLEMS if not label.startswith("MOSES,")]
    parser.add_argument("--tuners", nargs="+", choices=TUNERS, default=list(TUNERS))
    parser.add_argument("--pools", nargs="+", choices=list(PROBLEMS), default=usual, metavar="POOL")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--batches", type=int, default=max(SCORED.values()))
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument("--no-play", action="store_true", help="print the tables of what is kept")
    parser.add_argument("--markdown", nargs="?", type=Path, const=Path("-"), metavar="PAGE")
    parser.add_argument("--install", choices=list(REQUIREMENTS), help="make the environment of a package")
    parser.add_argument("--quick", action="store_true", help="three batches of a small pool, not kept")
    given = parser.parse_args(arguments)
    if given.install:
        install(given.install)
        return 0
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as temporary, threadpool_limits(1):
        where = Path(temporary) if given.quick else given.results
        if given.quick:
            small = [label for label in PROBLEMS if label.startswith("NAS")][:1]
            play(["GPUCB", "random"], small, 1, min(SCORED.values()), where)
        elif not given.no_play:
            play(given.tuners, given.pools, given.seeds, given.batches, where)
        report.show(list(sheets(where)), given.markdown, report.marks_of(STUDY))
    return 0
