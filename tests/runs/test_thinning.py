"""Trajectories of some of the rounds: exact sums, memory that does not grow with the horizon."""

import importlib
from typing import Any

import numpy as np
import pytest

import scalable_bandits as sb
from scalable_bandits.runs import thinning

SPACE = sb.Grid([[0, 1]], 20)
KERNEL = sb.Matern(0.2, nu=2.5)
NAMES = ("candidate", "y", "value", "regret", "cumulative_regret", "width", "information_gain")


def play(horizon: int, policy: sb.Policy | None = None, **given: Any) -> sb.Trajectory:
    function = sb.RKHSFunction.sparse(SPACE, KERNEL, sb.GaussianNoise(0.3), seed=1)
    return sb.simulate(policy or sb.IGPUCB(SPACE, KERNEL, noise=0.3), function, horizon, **given)


def assert_rounds_of(run: sb.Trajectory, whole: sb.Trajectory) -> None:
    at = run.round - whole.first_round
    for name in NAMES:
        np.testing.assert_array_equal(getattr(run, name), getattr(whole, name)[at], err_msg=name)


@pytest.mark.parametrize("horizon", [1, 6, 7, 8, 3000])
@pytest.mark.parametrize("keep", [7, np.int64(7), 10_000, "log"], ids=str)
def test_the_rounds_kept_are_those_of_the_whole_run(keep: Any, horizon: int) -> None:
    whole, run = play(horizon, keep="all"), play(horizon, keep=keep)
    assert_rounds_of(run, whole)
    assert run.rounds == whole.rounds == len(whole) == horizon
    assert run.round[-1] == horizon
    assert not run.complete
    assert whole.complete
    if keep != "log":
        assert run.round.tolist() == sorted({*range(int(keep), horizon + 1, int(keep)), horizon})


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = play(5000, keep="all")
    for block in (1, 99, 5000):
        simulation = importlib.import_module("scalable_bandits.runs.simulate")
        monkeypatch.setattr(simulation, "LARGEST_BLOCK", block)
        assert_rounds_of(play(500 if block == 1 else 5000, keep=13), whole)


def test_logarithmic_rounds_are_dense_everywhere() -> None:
    kept = thinning.kept_rounds("log", 1, 10**8, stored=False)
    assert kept is not None
    assert kept[:300].tolist() == list(range(1, 301))
    assert kept[-1] == 10**8
    assert len(kept) < 7000
    assert (kept[1:] / kept[:-1])[1000:].max() < 1.003


def test_a_policy_goes_on() -> None:
    policy, alone = (sb.IGPUCB(SPACE, KERNEL, noise=0.3) for _ in range(2))
    play(400, policy)
    play(400, alone)
    run, whole = play(1500, policy, keep="log"), play(1500, alone)
    assert run.first_round == 401
    assert run.round[-1] == 1900
    assert run.rounds == 1500
    assert_rounds_of(run, whole)
    assert_rounds_of(play(10, policy, keep=4), play(10, alone))


def test_a_million_rounds_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert thinning.kept_rounds(None, 1, 10**6, stored=False) is None
    assert thinning.kept_rounds(None, 1, 10**6 + 1, stored=False) is not None
    assert thinning.kept_rounds(None, 1, 10**9, stored=True) is None
    monkeypatch.setattr(thinning, "ALL_UP_TO", 2000)
    run = play(2001)
    assert not run.complete
    assert_rounds_of(run, play(2001, keep="all"))
    assert repr(run).startswith("Trajectory(rounds 1 to 2001, ")


def test_curve_and_dataset() -> None:
    whole, run = play(4000, keep="all"), play(4000, keep=9)
    for log in (False, True):
        curve = run.curve(50, log=log)
        assert 20 < len(curve.round) <= 50
        assert curve.round[-1] == 4000
        np.testing.assert_array_equal(curve.cumulative_regret, whole.cumulative_regret[curve.round - 1])
    dataset = run.dataset()
    assert dataset["round"].values.tolist() == run.round.tolist()
    np.testing.assert_array_equal(dataset["regret"].values, run.regret)


@pytest.mark.parametrize("keep", ["every", 0, -3, True, 2.5, [1]], ids=str)
def test_refused(keep: Any) -> None:
    policy = sb.IGPUCB(SPACE, KERNEL, noise=0.3)
    with pytest.raises(ValueError, match=r"^keep: got "):
        play(10, policy, keep=keep)
    assert policy.rounds == 0


def test_a_store_keeps_all_rounds(tmp_path: Any) -> None:
    for keep in ("log", 5):
        with pytest.raises(ValueError, match=r"keep: got .*'all' with a store"):
            play(10, store=tmp_path / "run", keep=keep)
    assert not (tmp_path / "run").exists()
    assert play(10, store=tmp_path / "run", keep="all").complete


def test_what_needs_all_rounds_says_so() -> None:
    policy = sb.IGPUCB(SPACE, KERNEL, noise=0.3)
    function = sb.RKHSFunction.sparse(SPACE, KERNEL, sb.GaussianNoise(0.3), seed=1)
    run = sb.simulate(policy, function, 100, keep=5)
    with pytest.raises(ValueError, match="keep='all'"):
        sb.analysis.coverage(policy, function, run)
