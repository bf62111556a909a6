"""Plans: extrapolation and distribution against numbers worked out by hand, and pilots of real runs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import scalable_bandits as sb
from scalable_bandits.cli import app
from scalable_bandits.planning import Pilot, Row, pilot, pilots, plan
from scalable_bandits.planning.plans import START_SECONDS, STORED_SECONDS, TASK_SECONDS, _enough, _on
from scalable_bandits.studies import Study


def extrapolated(cost: Any, done: int, horizon: int, most: int) -> tuple[float, float]:
    """What is extrapolated from a cost a round, seen at a hundred places, and what the rounds take."""
    rounds = np.unique(np.linspace(0, done, 100).astype(int))
    times = np.concatenate([[0.0], np.cumsum([cost(t) for t in range(1, done + 1)])])[rounds]
    return pilots._extrapolated(rounds, times, horizon, most), sum(cost(t) for t in range(done + 1, horizon + 1))


@pytest.mark.parametrize(
    ("cost", "most"),
    [
        (lambda t: 2.0, 0),
        (lambda t: 2.0 + 30.0 * (t < 10), 0),  # a slow start
        (lambda t: 2.0, 10_000),
        (lambda t: 1.0 + 0.01 * t, 10_000),
        (lambda t: 1.0 + 0.01 * min(t, 700), 700),  # a row for each of 700 candidates
        (lambda t: 0.01 * t, 10_000),
    ],
    ids=["constant", "slow start", "constant, tiled", "growing", "growing to the end", "only growing"],
)
def test_extrapolation(cost: Any, most: int) -> None:
    found, expected = extrapolated(cost, 400, 2000, most)
    assert found == pytest.approx(expected, rel=0.02)


def row(case: str, policy: str, runs: int, seconds: float, memory: float = 0.0) -> Row:
    return Row(case, policy, 10, runs, Pilot(5, 1.0, seconds, memory, False))


def test_distribution_by_hand() -> None:
    """Runs of 5, 3 and 1 s, twice, on two workers: 5 + 3 and 3 + 1 + 5 + ... each to the worker that is free first."""
    rows = [row("a", "p", 2, 5.0, 7.0), row("a", "q", 2, 3.0, 2.0), row("a", "r", 2, 1.0, 1.0)]
    one, two = _on(rows, 1, False), _on(rows, 2, False)
    assert one.seconds == pytest.approx(START_SECONDS + 18.0 + 6 * TASK_SECONDS)
    # In order: p to the first (5), q to the second (3), r to it (4), p to it (9), q to the first (8), r to it (9).
    assert two.seconds == pytest.approx(START_SECONDS + 9.0 + 3 * TASK_SECONDS)
    assert (one.memory, two.memory) == (7.0, 14.0)
    assert (one.messages, two.messages) == (12, 12)
    assert two.busy == pytest.approx((18.0 + 6 * TASK_SECONDS) / (2 * two.seconds))
    assert _on(rows, 1, True).seconds == pytest.approx(one.seconds + 6 * STORED_SECONDS)
    assert _enough(rows, False) == 4


@given(
    seconds=st.lists(st.floats(0.1, 100.0), min_size=1, max_size=5), runs=st.integers(1, 6), workers=st.integers(1, 40)
)
@settings(max_examples=100, deadline=None)
def test_bounds_of_every_distribution(seconds: list[float], runs: int, workers: int) -> None:
    """Between the longest run or the work by the workers, and both together (Graham 1966)."""
    rows = [row("a", str(i), runs, each) for i, each in enumerate(seconds)]
    found = _on(rows, workers, False).seconds - START_SECONDS
    work = sum(runs * (each + TASK_SECONDS) for each in seconds)
    longest = max(seconds) + TASK_SECONDS
    assert max(longest, work / workers) - 1e-9 <= found <= work / workers + longest + 1e-9


def tables(**changes: Any) -> dict[str, Any]:
    return {
        "name": "planned", "horizon": [300, 20_000], "replicates": 3, "axes": {"side": [6, 12]},
        "environments": {"grid": {
            "type": "RKHSFunction.sparse", "kernel": {"type": "Matern", "lengthscale": 0.2, "nu": 1.5},
            "space": {"type": "Grid", "bounds": [[0.0, 1.0], [0.0, 1.0]], "shape": {"axis": "side"}},
        }},
        "policies": {
            "IGP-UCB": {"type": "IGPUCB"}, "pi": {"type": "PiGPUCB", "horizon": "study", "most_candidates": 40},
            "random": {"type": "RandomSearch"},
        },
        "shared": {"policies": {"noise": 1.0}}, **changes,
    }  # fmt: skip


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pilots, "COPIED", 20)


def test_of_a_study(quick: None) -> None:
    """A row for each policy in each case, at its horizon; short pilots do not play the whole."""
    found = plan(Study.from_dict(tables()), (1, 2), seconds=0.02)
    small, large = "grid, side = 6", "grid, side = 12"
    assert [(r.case, r.policy, r.rounds, r.runs) for r in found.rows] == [
        (small, "IGP-UCB", 20_000, 3), (small, "pi, T = 300", 300, 3), (small, "pi, T = 20,000", 20_000, 3),
        (small, "random", 20_000, 3), (large, "IGP-UCB", 20_000, 3), (large, "random", 20_000, 3),
    ]  # fmt: skip
    for each in found.rows:
        assert 0 < each.found.rounds <= each.rounds
        assert each.found.whole == (each.found.rounds == each.rounds)
        assert each.found.seconds >= each.found.measured > 0.0
        assert each.found.memory >= 0.0
    assert not found.rows[0].found.whole
    assert [each.workers for each in found.workers] == [1, 2]
    assert found.workers[1].seconds < found.workers[0].seconds
    assert all(0.0 < each.busy <= 1.0 for each in found.workers)
    one = plan(Study.from_dict(tables()), (1,), seconds=0.02, replicates=1, horizon=300, axes={"side": [6]})
    assert [(r.policy, r.rounds, r.runs) for r in one.rows] == [
        ("IGP-UCB", 300, 1), ("pi", 300, 1), ("random", 300, 1)
    ]  # fmt: skip


def test_memory_of_tiles_grows_with_the_rounds(quick: None) -> None:
    """A row of all candidates for each distinct point."""
    grid = sb.Grid([[0.0, 1.0]] * 2, 90)
    kernel = sb.Matern(0.2, nu=1.5)
    function = sb.RKHSFunction.sparse(grid, kernel, seed=0)
    made = [sb.IGPUCB(grid, kernel, noise=1.0, engine="tiled") for _ in range(2)]
    found = pilot(*made, function, 100_000, seconds=0.05)
    assert found.memory >= 8.0 * 8_100 * (8_100 - found.rounds)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": [0]}, r"^workers\[0\]: got 0"),
        ({"seconds": 0.0}, "^seconds: got 0.0"),
        ({"replicates": 0}, "^replicates: got 0"),
        ({"policies": ["none"]}, "^policies: got 'none'"),
        ({"axes": {"none": [1]}}, "^axes: got 'none'"),
    ],
    ids=["workers", "seconds", "replicates", "policies", "axes"],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(Study.from_dict(tables()), **options)


def test_command(quick: None, tmp_path: Path) -> None:
    words = ["plan", "scalability-horizon", "--horizon", "1000", "--seconds", "0.05", "--workers", "1,2,2000"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    for text in ("what a run takes", "the study", "IGP-UCB", "2,000", "nobody has tried", "workers do not pay"):
        assert text in " ".join(found.stdout.split())
    record = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert [each["workers"] for each in record["workers"]] == [1, 2, 2000]
    assert {each["policy"] for each in record["runs"]} == {"IGP-UCB", "MiniGP-UCB", "pi-GP-UCB", "random"}
    refused = CliRunner().invoke(app, [*words[:2], "--workers", "1,many"])
    assert refused.exit_code == 2
    assert "workers[1]: got 'many'" in refused.stderr
