"""The command ``python -m benchmarks failing``: functions that fail at some settings, and say nothing else there.

The problems of ``constrained``, which fail where a constraint is violated, and nine functions of the suite bbob in five
dimensions, of which one evaluation in five fails by accident: at the same evaluations for all tuners. Counted is the
best value; runs without one are level. GPSampler and TPE are told that a trial has failed, and random search needs to
know nothing. Runs are kept, one line each, seed by seed, and a run that is kept is not played again. CPU seconds are of
the tuner, without evaluations. One thread.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.constrained.command import found
from benchmarks.constrained.problems import PROBLEMS, Problem
from benchmarks.constrained.tuners import FAILING, FailingOurs, has_failed
from benchmarks.tuners.intervals import Setting
from benchmarks.tuners.lines import Line
from benchmarks.tuners.outputs import Outputs, OutputStudy, Peers, steps
from benchmarks.tuners.standings import TIE, Result
from scalable_bandits.environments.published.bbob import BBOB
from scalable_bandits.randomness import generator

ACCIDENTS, SHARE = (1, 4, 5, 8, 11, 12, 15, 20, 23), 0.2
INSTANCE, DIMENSION = 31, 5
WORST = 1e100  # value of a run in which all evaluations failed


def _by_accident(function: int) -> Problem:
    """Make a function of bbob with a constraint that every fifth evaluation violates, at random."""
    truth: Any = BBOB(function, DIMENSION, INSTANCE)
    rng = generator(function, "accidents", INSTANCE)

    def evaluate(x: Setting) -> Outputs:
        failed = rng.random() < SHARE
        return [-truth.mean(x), 1.0 if failed else -1.0]

    return Problem(truth.space, ("accident",), evaluate, -truth.optimum(), "by accident")


FAIL: dict[str, Callable[[], Problem]] = {
    **PROBLEMS,
    **{f"bbob-f{each}-d{DIMENSION}": functools.partial(_by_accident, each) for each in ACCIDENTS},
}


def recorded(problem: Problem, outputs: Sequence[Outputs]) -> Line:
    """Return the best known value, the steps of the best value, and the numbers of the evaluations that failed."""
    values = (math.nan if has_failed(y) else y[0] for y in outputs)
    failed = [number for number, y in enumerate(outputs, start=1) if has_failed(y)]
    return {"best": problem.best, "feasible": steps(values, -1.0), "failed": failed}


def result_at(line: Line, at: int) -> Result:
    """Return the result of a run after some evaluations; larger values are better."""
    value = next((new for step, new in reversed(line["feasible"]) if step <= at), WORST)
    return Result(-value, value - line["best"], TIE, line["cpu_seconds"][at - 1], (line["group"],), line["version"])


def median(results: Sequence[Result], comparable: bool) -> str:
    """Return the median of the best values."""
    middle = statistics.median(-each.value for each in results) if results and comparable else math.nan
    return "" if math.isnan(middle) else f"{middle:.6g}" if middle < WORST else "all failed"


def share_of_failures(kept: Iterable[Line], at: int) -> str:
    """Return the share of the evaluations that failed."""
    return f"{statistics.fmean(sum(number <= at for number in line['failed']) / at for line in kept):.0%}"


STUDY = OutputStudy(
    name="failing",
    description=__doc__,
    problems=FAIL,
    ours=(FailingOurs, lambda problem, seed: FailingOurs(problem.space, seed)),
    peers=Peers(FAILING, "benchmarks.constrained.failing_server"),
    evaluations=(50, 100),
    seeds=5,
    quick="spring",
    recorded=recorded,
    result_at=result_at,
    found=found,
    best=("best known", "best"),
    compared="median of the best values",
    cell=median,
    column=("evaluations that failed", share_of_failures),
)
main = STUDY.main
