"""The command ``python -m benchmarks constrained``: the default tuner with unknown constraints, beside other packages.

Measured without noise are four problems of mechanical design and 24 functions of the suite bbob-constrained, whose
names say their constraints (c) and dimension (d). Counted is the best value that kept all constraints. A run without
one loses against a run with one; of two without one, that with the smaller violation wins, which is the sum of what
constraints exceed 0 by, at the point where it is the smallest. Runs are kept, one line each, seed by seed, and a run
that is kept is not played again. CPU seconds are of the tuner, without evaluations. One thread.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from benchmarks.constrained import tuners
from benchmarks.constrained.problems import PROBLEMS, Problem
from benchmarks.tuners.lines import Line
from benchmarks.tuners.outputs import Outputs, OutputStudy, Peers, steps
from benchmarks.tuners.standings import TIE, Result

WORST = 1e100  # value of a run without a feasible point, times 1 + its violation


def recorded(problem: Problem, outputs: Sequence[Outputs]) -> Line:
    """Return the best known value, and the steps of the best feasible value and of the smallest violation of a run."""
    violations = [math.fsum(max(each, 0.0) for each in constraints) for _, *constraints in outputs]
    feasible = (math.nan if violation else y[0] for y, violation in zip(outputs, violations, strict=True))
    return {"best": problem.best, "feasible": steps(feasible, -1.0), "violations": steps(violations, -1.0)}


def result_at(line: Line, at: int) -> Result:
    """Return the result of a run after some evaluations; larger values are better."""
    feasible, violations = ([new for step, new in line[kind] if step <= at] for kind in ("feasible", "violations"))
    value = feasible[-1] if feasible else WORST * (1.0 + violations[-1])
    return Result(-value, value - line["best"], TIE, line["cpu_seconds"][at - 1], (line["group"],), line["version"])


def found(line: Line) -> str:
    """Return what is printed of a run."""
    return f"{line['feasible'][-1][1]:.6g}" if line["feasible"] else "no feasible point"


def median(results: Sequence[Result], comparable: bool) -> str:
    """Return the median value, where a run without a feasible point has the worst, and the share of runs with one."""
    if not results:
        return ""
    share = f"({statistics.fmean(each.value > -WORST for each in results):.0%})"
    middle = statistics.median(-each.value for each in results)
    shown = f"{middle:.6g}" if middle < WORST / 2 else "none"  # the mean of a value and the worst is at least that
    return f"{shown} {share}" if comparable else share


def first_feasible(kept: Iterable[Line], at: int) -> str:
    """Return the median number of the first feasible evaluation."""
    first = statistics.median(next((step for step, _ in line["feasible"]), math.inf) for line in kept)
    return f"{first:g}" if first <= at else "none"


STUDY = OutputStudy(
    name="constrained",
    description=__doc__,
    problems=PROBLEMS,
    ours=(tuners.Ours, lambda problem, seed: tuners.Ours(problem.space, seed, problem.limits)),
    peers=Peers(tuners.PEERS, "benchmarks.constrained.server"),
    evaluations=(50, 100),
    seeds=5,
    quick="spring",
    recorded=recorded,
    result_at=result_at,
    found=found,
    best=("best known", "best"),
    compared="median of the best feasible values (runs with one)",
    cell=median,
    column=("first feasible evaluation (median)", first_feasible),
)
main = STUDY.main
