"""`python -m benchmarks constrained`: published optima of its problems, which run wins, and runs that are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cases.paths import ROOT

SCALES = {  # of the constraints, where it is not 1
    "welded-beam": (13600.0, 30000.0, 1.0, 5.0, 1.0, 0.25, 6000.0),
    "pressure-vessel": (1.0, 1.0, 1296000.0, 240.0),
}
ACTIVE = {"welded-beam": 4, "spring": 2, "pressure-vessel": 2, "speed-reducer": 4}  # constraints that are almost 0


@pytest.fixture(autouse=True)
def _root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)


@pytest.mark.parametrize("name", ACTIVE)
def test_published_optima_are_reached_and_nothing_near_is_better(name: str) -> None:
    from benchmarks.constrained.problems import BEST, PROBLEMS

    problem, published = PROBLEMS[name](), BEST[name]
    names, kinds = problem.space.names, problem.space.kinds
    scales = np.array(SCALES.get(name, (1.0,) * len(problem.names)))

    def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, *constraints = problem.evaluate(dict(zip(names, x.tolist(), strict=True)))
        return value, np.array(constraints) / scales

    at = np.array(published.x)
    value, constraints = evaluate(at)
    assert round(value, 6) == published.value == problem.best
    assert constraints.max() <= 1e-8  # so many digits of x are published
    assert (constraints > -1e-6).sum() == ACTIVE[name]
    assert list(problem.limits) == list(problem.names)

    low, high = np.array([(kind.low, kind.high) for kind in kinds], dtype=float).T
    reals = np.array([type(kind).__name__ == "Real" for kind in kinds])
    steps = np.random.default_rng(0).uniform(-0.02, 0.02, (2000, len(at))) * (high - low) * reals
    near = [evaluate(x) for x in np.clip(at + steps, low, high)]
    assert all(each > value for each, g in near if g.max() <= 0.0)


@pytest.mark.parametrize("name", ["sphere-c1-d2", "slope-c9-d2", "bent-cigar-c9-d2", "powers-c3-d5"])
def test_optima_of_bbob_are_feasible_and_nothing_else_is_better(name: str) -> None:
    pytest.importorskip("cocoex")
    from benchmarks.constrained.problems import PROBLEMS

    problem, before = PROBLEMS[name](), sorted(Path().iterdir())
    assert len(problem.names) == int(name.split("-c")[-1].split("-")[0])
    drawn = np.random.default_rng(0).uniform(-5.0, 5.0, (3000, problem.space.dimension))
    values = [problem.evaluate(dict(zip(problem.space.names, x, strict=True))) for x in drawn]
    feasible = [value for value, *constraints in values if max(constraints) <= 0.0]
    assert feasible
    assert min(feasible) > problem.best
    PROBLEMS[name]()
    assert sorted(Path().iterdir()) == before  # the file of the package is elsewhere


def test_families_have_each_dimension_and_number_of_constraints_once() -> None:
    from benchmarks.constrained.problems import BEST, COUNTS, DIMENSIONS, FAMILIES, PROBLEMS

    parts = [name.rsplit("-", 2) for name in PROBLEMS if name not in BEST]
    for family in FAMILIES:
        found = [(count, dimension) for each, count, dimension in parts if each == family]
        assert {count for count, _ in found} == {f"c{count}" for count in COUNTS}
        assert [dimension for _, dimension in found] == [f"d{dimension}" for dimension in DIMENSIONS]


def test_a_run_with_a_feasible_point_wins_then_the_smaller_violation() -> None:
    from benchmarks.constrained.command import result_at
    from benchmarks.tuners.standings import Score, score

    def line(feasible: list[list[float]], violations: list[list[float]]) -> dict[str, object]:
        kept = {"best": 0.0, "group": "made", "version": "", "cpu_seconds": [0.1] * 10}
        return {**kept, "feasible": feasible, "violations": violations}

    better, worse = line([[3, 9.0], [8, 1.0]], [[1, 5.0], [3, 0.0]]), line([[4, 7.0]], [[1, 5.0], [4, 0.0]])
    near, far = line([], [[1, 0.01]]), line([], [[1, 400.0], [2, 300.0]])
    for at, ours, theirs, expected in [
        (10, better, worse, (1, 0, 0)), (7, better, worse, (0, 1, 0)), (3, better, worse, (1, 0, 0)),
        (10, worse, near, (1, 0, 0)), (10, far, near, (0, 1, 0)), (10, near, near, (0, 0, 1)),
        (2, better, worse, (0, 0, 1)),
    ]:  # fmt: skip
        assert score({0: result_at(ours, at)}, {0: result_at(theirs, at)}) == Score(*expected)  # type: ignore[dict-item]


def test_functions_that_fail() -> None:
    """Where a constraint is violated, or by accident at the same evaluations of each run; the best value counts."""
    from benchmarks.constrained import failing

    problem, again = failing.FAIL["bbob-f1-d5"](), failing.FAIL["bbob-f1-d5"]()
    x = dict.fromkeys(problem.space.names, 0.0)
    outputs = [problem.evaluate(x) for _ in range(100)]
    assert outputs == [again.evaluate(x) for _ in range(100)]
    kept = failing.recorded(problem, [[9.0, 1.0], [8.0, -1.0], [9.0, -1.0], [3.0, -1.0, 0.1], [7.0, 0.0]])
    assert (kept["feasible"], kept["failed"]) == ([[2, 8.0], [5, 7.0]], [1, 4])
    assert 10 <= len(failing.recorded(problem, outputs)["failed"]) <= 32  # one of five: 20, standard deviation 4
    line = {**kept, "group": "made", "version": "", "cpu_seconds": [0.1] * 5}
    assert [-failing.result_at(line, at).value for at in (1, 2, 5)] == [failing.WORST, 8.0, 7.0]
    assert failing.share_of_failures([line], 4) == "50%"


def test_runs_are_kept_and_not_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.constrained import command
    from benchmarks.tuners import outputs

    given = ["--problems", "pressure*", "--tuners", "random", "--seeds", "2", "--results", str(tmp_path)]
    assert command.main([*given, "--evaluations", "5", "20"]) == 0
    monkeypatch.setattr(outputs, "run", None)
    assert command.main([*given, "--evaluations", "10"]) == 0
    shown = capsys.readouterr().out
    assert "constrained, 5 evaluations" in shown
    assert "constrained, 10 evaluations" in shown
    assert "6059.71" in shown
