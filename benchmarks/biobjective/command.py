"""The command ``python -m benchmarks biobjective``: the tuner with two objectives, beside other packages.

Measured without noise are ZDT1 to ZDT3, DTLZ2 and Branin-Currin, five problems of mechanical design, 15 functions of
the suite bbob-biobj, whose names say their dimension (d), and two tables of HPOLib (loss and training time). Counted is
the hypervolume of all evaluated points, as a share of that of the front (the largest known one, where the front is not
known), with the problem's reference point, which no tuner is told. Where no point dominates the reference point it is
minus the smallest distance to those that do, in units of the sides of the box between ideal and reference point.
Shown is log10 of 1 minus this value: 0 or more is a run without a point that dominates the reference point. Runs are
kept, one line each, seed by seed, and a run that is kept is not played again. CPU seconds are of the tuner, without
evaluations. One thread.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from benchmarks.biobjective import tuners
from benchmarks.biobjective.hypervolume import front_of, indicator
from benchmarks.biobjective.problems import PROBLEMS, Problem
from benchmarks.tuners.lines import Line
from benchmarks.tuners.outputs import Outputs, OutputStudy, Peers, steps
from benchmarks.tuners.standings import LEAST, TIE, Result


def recorded(problem: Problem, outputs: Sequence[Outputs]) -> Line:
    """Return the front's hypervolume, a share of the problem's box, and steps of that of a run, a share of the front's.

    Steps may be below 0; see `indicator`.
    """
    values = []
    for count in range(1, len(outputs) + 1):
        value = indicator(outputs[:count], problem.ideal, problem.reference)
        values.append(value / problem.front if value > 0.0 else value)
    return {"front": problem.front, "hypervolume": steps(values), "points": front_of(outputs).tolist()}


def result_at(line: Line, at: int) -> Result:
    """Return the result of a run after some evaluations; larger values are better."""
    value = [new for step, new in line["hypervolume"] if step <= at][-1]
    return Result(value, 1.0 - value, TIE, line["cpu_seconds"][at - 1], (line["group"],), line["version"])


def found(line: Line) -> str:
    """Return what is printed of a run."""
    return f"{line['hypervolume'][-1][1]:.6g} of the hypervolume"


def median(results: Sequence[Result], comparable: bool) -> str:
    """Return the median of log10 of 1 minus the share of the hypervolume."""
    return f"{statistics.median(math.log10(max(each.regret, LEAST)) for each in results):.2f}" if results else ""


def first_half(kept: Iterable[Line], at: int) -> str:
    """Return the median number of the first evaluation with half of the hypervolume of the front."""
    first = statistics.median(
        next((step for step, value in line["hypervolume"] if value >= 0.5), math.inf) for line in kept
    )
    return f"{first:g}" if first <= at else "none"


STUDY = OutputStudy(
    name="biobjective",
    description=__doc__,
    problems=PROBLEMS,
    ours=(tuners.Ours, lambda problem, seed: tuners.Ours(problem.space, seed)),
    peers=Peers(tuners.PEERS, "benchmarks.biobjective.server"),
    evaluations=(60, 200),
    seeds=5,
    quick="branin-currin",
    recorded=recorded,
    result_at=result_at,
    found=found,
    best=("hypervolume of the front", "front"),
    compared="median of log10 of 1 - hypervolume / that of the front",
    cell=median,
    column=("evaluations to half of the hypervolume (median)", first_half),
)
main = STUDY.main
