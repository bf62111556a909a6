"""Plans: extrapolation and distribution against numbers worked out by hand, and pilots of real runs."""

import json
import time
from typing import Any

import numpy as np
import pytest
from cases.command import command
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st

import scalable_bandits as sb
from scalable_bandits import planning
from scalable_bandits.execution import calibration, connect
from scalable_bandits.planning import (
    Exchanges,
    Machine,
    Messages,
    Pilot,
    Plan,
    Row,
    forecast,
    pilot,
    pilots,
    plan,
    plans,
)
from scalable_bandits.planning.plans import STORED_SECONDS, _on, enough, round_on
from scalable_bandits.studies import Study

MESSAGES = Messages(0.012, 0.002, 0.001, 1e6)
IDEAL = Machine(1, 3.0, {}, MESSAGES)


def extrapolated(cost: Any, done: int, horizon: int, most: int) -> tuple[float, float]:
    """What is extrapolated from a cost a round, seen at a hundred places, and what the rounds take."""
    rounds = np.unique(np.linspace(0, done, 100).astype(int))
    times = np.concatenate([[0.0], np.cumsum([cost(t) for t in range(1, done + 1)])])[rounds]
    seen = np.array([rounds, times, np.minimum(rounds, most)], dtype=float)
    points = pilots.PilotPoints.of(seen[0], seen[2], most)
    found = pilots.extrapolated(seen, horizon, points, lambda m: 1.0 * m)
    return found, sum(cost(t) for t in range(done + 1, horizon + 1))


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


def test_new_points_cost() -> None:
    """A round costs 1 and each new point 50; the points are 10 sqrt(t), of which nine tenths come later."""
    rounds = np.arange(401.0)
    points = 10.0 * np.sqrt(rounds)
    seen = np.array([rounds, rounds + 50.0 * points, points])
    found = pilots.extrapolated(seen, 40_000, pilots.PilotPoints.of(rounds, points, 1e9), lambda m: 0.0 * m)
    assert found == pytest.approx(39_600 + 50.0 * 1800, rel=1e-6)


def test_distinct_points_by_hand() -> None:
    """As the square root of the rounds: 20 after 400 rounds, 40 after 1,600, at most 50."""
    rounds = np.arange(401.0)
    points = pilots.PilotPoints.of(rounds, np.sqrt(rounds), 50)
    np.testing.assert_allclose(points(np.array([400.0, 1600.0, 90_000.0])), [20.0, 40.0, 50.0], rtol=1e-9)
    assert pilots.PilotPoints.of(rounds, 0.0 * rounds, 50)(1600.0) == 0.0


def row(case: str, policy: str, runs: int, seconds: float, memory: float = 0.0) -> Row:
    return Row(case, policy, 10, runs, Pilot(5, 1.0, seconds, memory, False))


def test_distribution_by_hand() -> None:
    """Runs of 5, 3 and 1 s, twice, on two workers: 5 + 3 and 3 + 1 + 5 + ... each to the worker that is free first."""
    rows = [row("a", "p", 2, 5.0, 7.0), row("a", "q", 2, 3.0, 2.0), row("a", "r", 2, 1.0, 1.0)]
    one, two = _on(rows, 1, False, IDEAL), _on(rows, 2, False, IDEAL)
    assert one.seconds == pytest.approx(18.0)
    # In order: p to the first (5), q to the second (3), r to it (4), p to it (9), q to the first (8), r to it (9).
    assert two.seconds == pytest.approx(3.0 + 9.0 + 3 * 0.012)
    assert (one.memory, two.memory) == (7.0, 14.0)
    assert (one.messages, two.messages) == (0, 12)
    assert two.busy == pytest.approx((18.0 + 6 * 0.012) / (2 * two.seconds))
    assert _on(rows, 1, True, IDEAL).seconds == pytest.approx(one.seconds + 6 * STORED_SECONDS)
    assert enough(lambda workers: _on(rows, workers, False, IDEAL).seconds, 6) == 4
    crowded = Machine(2, 3.0, {"p": 2.0, "q": 2.0, "r": 2.0}, MESSAGES)
    assert _on(rows, 1, False, crowded).seconds == pytest.approx(18.0)
    assert _on(rows, 2, False, crowded).seconds == pytest.approx(3.0 + 18.0 + 3 * 0.012)


def test_busy_workers_by_hand() -> None:
    """The factor of four workers on 2 of 4 is a third of the way; more workers are on machines like this one."""
    machine = Machine(4, 0.0, {"p": 1.6})
    assert [machine.factor("p", count) for count in (1, 2, 4, 100)] == pytest.approx([1.0, 1.2, 1.6, 1.6])
    assert machine.factor("q", 4) == Machine().factor("p", 4) == 1.0


@given(
    seconds=st.lists(st.floats(0.1, 100.0), min_size=1, max_size=5), runs=st.integers(1, 6), workers=st.integers(2, 40)
)
@settings(max_examples=100, deadline=None)
def test_bounds_of_every_distribution(seconds: list[float], runs: int, workers: int) -> None:
    """Between the longest run or the work by the workers, and both together (Graham 1966)."""
    rows = [row("a", str(i), runs, each) for i, each in enumerate(seconds)]
    found = _on(rows, workers, False, IDEAL).seconds - IDEAL.start
    work = sum(runs * (each + MESSAGES.task) for each in seconds)
    longest = max(seconds) + MESSAGES.task
    assert max(longest, work / workers) - 1e-9 <= found <= work / workers + longest + 1e-9


def test_a_round_with_shards_by_hand() -> None:
    """Eight shards that are asked once a round and work 80 ms in all; 5 ms elsewhere, 3 ms of waiting beyond."""
    seen = Exchanges(1, 0.005, 0.083, ((8, 1.0, 0.080),), 1000.0, 500.0)

    def took(workers: int, factor: float = 1.0) -> float:
        return round_on(seen, MESSAGES, lambda count: 1.0 if count == 1 else factor, workers)

    assert took(1) == pytest.approx(0.088)
    assert took(2) == pytest.approx(0.005 + 0.040 + 0.003 + 0.001 + 0.001)  # a worker more, 1,000 bytes more
    assert took(3) == pytest.approx(0.005 + 0.030 + 0.003 + 2 * 0.002)  # three shards on a worker
    assert took(8) == pytest.approx(0.005 + 0.010 + 0.003 + 7 * 0.002)
    assert took(100) == took(8)
    assert took(2, 1.5) == pytest.approx(took(2) + 0.020)


@pytest.mark.slow
def test_messages_and_busy_workers_measured(client: Client) -> None:
    """On worker processes of this machine."""
    with connect(client):
        found = calibration.measure_messages(client)
        assert 1e-5 < found.task < 1.0
        assert 1e-5 < found.latency < 1.0
        assert 0.0 <= found.further < 1.0
        assert found.bandwidth > 1e6
        assert found.exchange(3, 10.0, 20.0) == found.latency + 2 * found.further + 50.0 / found.bandwidth
        factors = calibration.side_by_side(client, {"same": lambda: 2.0, "nothing": lambda: 0.0})
        assert factors == {"same": 1.0, "nothing": 1.0}


FEW = {"workers": {"axis": "workers"}, "candidates": 400}  # of the named study's 3,000: as many shards and messages


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_a_policy_with_shards_on_workers(quick: None) -> None:
    """Eight priors, asked once a round; the plan for one worker is what the pilot took."""
    study = Study.from_dict(Study.load("scalability-workers").to_dict() | {"parameters": FEW})
    found = plan(study, (1, 2), seconds=0.2, cases=["priors"], axes={"workers": [1]}, horizon=60)
    (made,) = found.rows
    seen = made.found.exchanges
    assert seen is not None
    assert seen.workers == 1
    assert max(shards for shards, _, _ in seen.asked) <= 8
    assert seen.sent > 0
    assert [each.workers for each in found.rounds] == [1, 2]
    assert found.rounds[0].seconds == pytest.approx(seen.driver + seen.waited)
    assert found.rounds[0].enough in (1, 2, 4, 8)
    assert found.machine.messages is not None
    assert found.machine.slowdown.keys() == {made.policy}


def test_forecasts(quick: None) -> None:
    """From the stated duration by the rounds; none of few rounds."""
    named = Study.load("srinivas2010-synthetic")  # 15 s for 30 x 1,000
    assert forecast(named, replicates=60, horizon=[10, 2000]) == (60.0, "")
    assert forecast(named) == (15.0, "")
    own = Study.from_dict(tables())
    assert forecast(own, replicates=1, horizon=300) is None
    with pytest.raises(ValueError, match=r"^policies: got 'none'"):
        forecast(own, policies=["none"])


def test_a_forecast_from_pilots_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first case stands for both, the runs of a policy at two horizons are summed: 2 x (6 + 20), 2 x 15, 2 x 9."""
    asked: list[dict[str, Any]] = []

    def made(study: Study, **options: Any) -> Plan:
        asked.append(options)
        rows = [row("one", "p", 3, 2.0), row("one", "q", 3, 5.0), row("one", "p", 2, 10.0), row("one", "r", 9, 1.0)]
        return Plan(study.name, rows, [], 1, [], Machine())

    monkeypatch.setattr(plans, "plan", made)
    own = Study.from_dict(tables() | {"duration": "1 s", "axes": {"side": [6, 12]}})
    assert forecast(own, cases=["grid, side = 6", "grid, side = 12"], replicates=2) == (100.0, "p")
    assert (asked[0]["cases"], asked[0]["replicates"]) == (["grid, side = 6"], 2)
    for part in ({"policies": ["random"]}, {"axes": {"side": [6]}}):  # the stated second is not of a part
        assert forecast(own, **part) == (50.0, "p")
    assert forecast(own) == (1.0, "")


def tables(**changes: Any) -> dict[str, Any]:
    return {
        "name": "planned", "horizon": [300, 400_000], "replicates": 3, "axes": {"side": [6, 12]},
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


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_of_a_study(quick: None, client: Client) -> None:
    """A row for each policy in each case, at its horizon; short pilots do not play the whole."""
    found = plan(Study.from_dict(tables()), (1, 2), seconds=0.02, on=client)
    small, large = "grid, side = 6", "grid, side = 12"
    assert [(r.case, r.policy, r.rounds, r.runs) for r in found.rows] == [
        (small, "IGP-UCB", 400_000, 3), (small, "pi, T = 300", 300, 3), (small, "pi, T = 400,000", 400_000, 3),
        (small, "random", 400_000, 3), (large, "IGP-UCB", 400_000, 3), (large, "random", 400_000, 3),
    ]  # fmt: skip
    for each in found.rows:
        assert 0 < each.found.rounds <= each.rounds
        assert each.found.whole == (each.found.rounds == each.rounds)
        assert each.found.seconds >= each.found.measured > 0.0
        assert each.found.memory >= 0.0
    assert not found.rows[0].found.whole
    assert [each.workers for each in found.workers] == [1, 2]
    assert found.rounds == []
    assert found.machine.slowdown.keys() == {row.policy for row in found.rows}
    assert all(0.0 < each.busy <= 1.0 for each in found.workers)
    one = plan(Study.from_dict(tables()), (1,), seconds=0.02, replicates=1, horizon=300, axes={"side": [6]})
    assert [(r.policy, r.rounds, r.runs) for r in one.rows] == [
        ("IGP-UCB", 300, 1), ("pi", 300, 1), ("random", 300, 1)
    ]  # fmt: skip


def test_first_rounds_again() -> None:
    """As many rounds as were asked for, and no more time than the call took."""
    policy, environment = sb.RandomSearch(sb.Arms(3)), sb.TableEnvironment(sb.Arms(3), [1.0, 2.0, 3.0])
    began = time.perf_counter()
    found = pilots.seconds_of(policy, environment, 30)
    assert 0.0 < found < time.perf_counter() - began
    assert policy.rounds == 30


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
        ({"on": "nowhere", "workers": [2], "replicates": 1, "horizon": 30}, "^on: got 'nowhere'"),
    ],
    ids=["workers", "seconds", "replicates", "policies", "axes", "on"],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(Study.from_dict(tables()), **options)


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_command(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables and the record of one plan, which takes the same time whatever is printed."""
    words = ["plan", "scalability-horizon", "--horizon", "1000", "--seconds", "0.05", "--workers", "1,2,2000"]
    asked: list[Any] = []
    made: list[Plan] = []

    def once(study: Study, *given: Any, **options: Any) -> Plan:
        asked.append((study.name, given, options))
        if not made:
            made.append(plan(study, *given, **options))
        return made[0]

    with monkeypatch.context() as patch:
        patch.setattr(planning, "plan", once)
        found = command(*words)
        recorded = command(*words, "--json")
    assert found.exit_code == recorded.exit_code == 0, found.output + recorded.output
    assert len(asked) == 2
    assert asked[0] == asked[1]
    for text in ("what a run takes", "the study", "IGP-UCB", "2,000", "untested", "do not pay: they save"):
        assert text in " ".join(found.stdout.split())
    record = json.loads(recorded.stdout)
    assert [each["workers"] for each in record["workers"]] == [1, 2, 2000]
    assert {each["policy"] for each in record["rows"]} == {"IGP-UCB", "MiniGP-UCB", "pi-GP-UCB", "random"}
    refused = command(*words[:2], "--workers", "1,many")
    assert refused.exit_code == 2
    assert "--workers: got 'many'" in refused.stderr
