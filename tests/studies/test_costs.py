"""What timed studies measure: seconds a round, memory, messages."""

import json
from pathlib import Path

import numpy as np
import pytest
from cases.command import command

import scalable_bandits as sb
from scalable_bandits.execution.resources import forget_peak, peak_memory, traffic
from scalable_bandits.studies import Problem, Replicate, Study, runs
from scalable_bandits.studies.runs import Meter
from scalable_bandits.studies.stored import marks


class Clock:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(runs.time, "perf_counter", made)
    return made


def test_marks_are_ten_a_decade() -> None:
    assert marks(1).tolist() == [1]
    assert marks(100).tolist() == [1, 2, 3, 4, 6, 7, 8, 10, 13, 16, 20, 26, 32, 40, 51, 64, 80, 100]
    assert set(marks(1000).tolist()) >= set(marks(100).tolist())
    assert marks(10**7)[-1] == 10**7


def test_quantiles_and_elapsed_by_hand(clock: Clock) -> None:
    """Ten rounds to warm up, 89 of 2 ms and ten of 50 ms: in blocks and one by one."""
    policy = sb.RandomSearch(sb.Arms(3))
    for blocks in ([(10, 1.0), (89, 0.178), (10, 0.5)], [(10, 1.0), *[(1, 0.002)] * 89, *[(1, 0.05)] * 10]):
        meter = Meter(109)
        meter.start(policy)
        for count, seconds in blocks:
            clock.now += seconds
            meter.advance(count)
        found = meter.costs(policy)
        assert found["round_seconds"] == pytest.approx(0.002, rel=0.012)
        assert found["round_seconds_90"] == pytest.approx(0.05, rel=0.012)
        assert found["round_seconds_99"] == pytest.approx(0.05, rel=0.012)
        at = dict(zip(marks(109).tolist(), meter.elapsed, strict=True))
        assert np.isnan(at[8])
        assert np.isnan(at[10])
        assert at[64] == pytest.approx(54 * 0.002)
        assert at[100] == pytest.approx(89 * 0.002 + 0.05)


def test_a_run_that_was_not_played_as_a_whole_has_no_costs(clock: Clock) -> None:
    """Such as one that was continued from its store."""
    meter = Meter(50)
    meter.start(sb.RandomSearch(sb.Arms(3)))
    meter.advance(49)
    assert meter.costs(sb.RandomSearch(sb.Arms(3))) == {}
    assert np.isnan(meter.elapsed).all()


def test_peak_memory_counts_what_was_given_back() -> None:
    before = forget_peak()
    large = np.ones(20_000_000)
    assert large.sum() == 20_000_000
    del large
    assert peak_memory() - before > 150e6
    if Path("/proc/self/clear_refs").exists():  # other systems cannot forget
        assert peak_memory() - forget_peak() < 1e9
        assert peak_memory() < before + 150e6


def build(replicate: Replicate) -> Problem:
    space, kernel = sb.Grid([[0.0, 1.0]], 30), sb.Matern(0.2, nu=1.5)
    environment = sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(0.3), seed=replicate.seed)
    policies = {"UCB": sb.IGPUCB(space, kernel, noise=0.3), "random": sb.RandomSearch(space, seed=replicate.seed)}
    return Problem(environment, policies)


@pytest.mark.slow
def test_in_a_study(tmp_path: Path) -> None:
    """For every run; kept in the store, where a run that goes on has no new ones; regret is that of other studies."""
    plain = Study("plain", ("one",), build, 60, 2, family="same").run()
    timed = Study("timed", ("one",), build, 60, 2, family="same", timed=True)
    result = timed.run(store=tmp_path / "runs").load()
    np.testing.assert_array_equal(result["regret"], plain["regret"])
    for name in ("seconds", "round_seconds", "round_seconds_90", "round_seconds_99"):
        assert (result[name] > 0.0).all()
    assert (result["round_seconds"] <= result["round_seconds_99"]).all()
    assert np.isfinite(result["peak_memory"]).all()
    assert (result["elapsed"].sel(mark=51) < result["seconds"]).all()
    assert np.isfinite(result["warm_up_seconds"]).sum() == 2  # of the first run of each policy
    assert "messages" not in result
    again = Study.open(tmp_path / "runs").load()
    np.testing.assert_array_equal(again["elapsed"], result["elapsed"])
    longer = timed.run(store=tmp_path / "runs", horizon=90).load()
    assert np.isnan(longer["elapsed"]).all()
    assert (longer["seconds"] > result["seconds"]).all()


@pytest.mark.long
def test_workers() -> None:
    """The named study, smaller: the same regret on any number of workers, and messages only where there are some."""
    tables = Study.load("scalability-workers").to_dict()
    tables["parameters"] |= {"candidates": 100, "tiled": 7_000, "dimension": 1}
    result = Study.from_dict({**tables, "axes": {"workers": [0, 2]}, "horizon": 15, "replicates": 1}).run()
    assert result["workers"].values.tolist() == [0, 2] * 3
    for case, policy in (("priors", "PE-GP-UCB"), ("tiles", "IGP-UCB"), ("cells", "pi-GP-UCB")):
        here, there = (result.sel(case=case, policy=f"{policy}, workers = {count}") for count in (0, 2))
        np.testing.assert_array_equal(here["regret"], there["regret"])
        assert np.isfinite(here["regret"]).all()
        assert np.isnan(here["messages"]).all()
        assert (there["messages"] >= 15).all()
        assert (there["bytes_sent"] > there["messages"]).all()
        assert (there["peak_memory_of_workers"] > 0).all()
    assert traffic.messages >= result["messages"].sum()


@pytest.mark.slow
def test_command(tmp_path: Path) -> None:
    """Tables of costs and exponents, and both in the record for programs."""
    words = ["run", "scalability-horizon", "--quick", "--horizon", "100", "--out", str(tmp_path / "out")]
    found = command(*words)
    assert found.exit_code == 0, found.output
    for text in ("Time, memory and messages", "Exponents of growth", "warm-up"):
        assert text in found.stdout
    assert (tmp_path / "out" / "scaling.png").exists()
    words[-1] = str(tmp_path / "more")
    record = json.loads(command(*words, "--json").stdout)
    assert {row["policy"] for row in record["costs"]} == {"IGP-UCB", "MiniGP-UCB", "pi-GP-UCB", "random"}
    assert all(row["round_seconds"] > 0.0 for row in record["costs"])
    (row,) = (r for r in record["exponents"] if (r["policy"], r["quantity"]) == ("random", "regret"))
    assert row["exponent"] == pytest.approx(1.0, abs=0.2)  # a sum of 100 independent regrets
