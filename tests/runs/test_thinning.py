"""Trajectories of some of the rounds: exact sums, memory that does not grow with the horizon."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scalable_bandits as sb
from scalable_bandits.environments import Environment
from scalable_bandits.report.writing import page
from scalable_bandits.runs import stored_simulation, thinning
from scalable_bandits.runs.checkpointing import Checkpoints
from scalable_bandits.runs.play import Play
from scalable_bandits.runs.resuming import resume
from scalable_bandits.status import check, status
from scalable_bandits.store import ObservationStore, StoreError
from scalable_bandits.store.locations import Folder

SPACE = sb.Grid([[0, 1]], 20)
KERNEL = sb.Matern(0.2, nu=2.5)
NAMES = ("candidate", "y", "value", "regret", "cumulative_regret", "width", "information_gain")


def made(policy: Callable[[], sb.Policy], environment: sb.Environment, **given: Any) -> Any:
    """Return what `simulate` is given: a function that makes the policy, the environment, and more."""
    return policy, environment, given


GRID = sb.Grid([[0, 1], [0, 1]], 12)
ON_GRID = sb.RKHSFunction.sparse(GRID, KERNEL, sb.GaussianNoise(0.3), seed=1)
WAYS: dict[str, Callable[[], Any]] = {
    "grid": lambda: made(lambda: sb.IGPUCB(GRID, KERNEL, noise=0.3), ON_GRID),
    "changing": lambda: made(
        lambda: sb.TVGPUCB(GRID, KERNEL * sb.TemporalDecay(0.05), noise=0.3),
        sb.DriftingFunction.sparse(GRID, KERNEL, sb.GaussianNoise(0.3), knots=(1, 120, 260), seed=1),
    ),
    "priors": lambda: made(
        lambda: sb.PEGPUCB(GRID, [sb.Prior("one", KERNEL), sb.Prior("two", sb.RBF(0.2))], noise=0.3), ON_GRID
    ),
    "cells": lambda: made(lambda: sb.PiGPUCB(GRID, KERNEL, noise=0.3, horizon=400), ON_GRID),
    "sampled": lambda: made(lambda: sb.GPTS(GRID, KERNEL, noise=0.3, seed=2), ON_GRID),
    "restricted": lambda: made(
        lambda: sb.GPEI(GRID, KERNEL, noise=0.3), ON_GRID, available=lambda t: np.arange(t % 3, GRID.size, 3)
    ),
}


def play(horizon: int, policy: sb.Policy | None = None, **given: Any) -> sb.Trajectory:
    function = sb.RKHSFunction.sparse(SPACE, KERNEL, sb.GaussianNoise(0.3), seed=1)
    return sb.simulate(policy or sb.IGPUCB(SPACE, KERNEL, noise=0.3), function, horizon, **given)


def assert_rounds_of(run: sb.Trajectory, whole: sb.Trajectory) -> None:
    at = run.round - whole.first_round
    for name in NAMES:
        np.testing.assert_array_equal(getattr(run, name), getattr(whole, name)[at], err_msg=name)


@pytest.mark.parametrize("horizon", [1, 6, 7, 8, 3000])
@pytest.mark.parametrize("keep", [7, np.int64(7), 10_000, "log"], ids=str)
@pytest.mark.sampled(3)
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
        monkeypatch.setattr(sys.modules["scalable_bandits.runs.simulate"], "LARGEST_BLOCK", block)
        assert_rounds_of(play(500 if block == 1 else 5000, keep=13), whole)


def test_logarithmic_rounds_are_dense_everywhere() -> None:
    kept = thinning.Thinning("log", (10**8,)).rounds(1, 10**8 + 1)
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
    assert thinning.default(10**6) == "all"
    assert thinning.default(10**6 + 1) == "log"
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


@pytest.mark.parametrize(
    "keep", ["every", 0, -3, True, 2.5, [1], np.array([1, 2]), np.array(["all"]), 10**30, b"all"], ids=str
)
def test_refused(keep: Any) -> None:
    policy = sb.IGPUCB(SPACE, KERNEL, noise=0.3)
    with pytest.raises(ValueError, match=r"^keep: got "):
        play(10, policy, keep=keep)
    assert policy.rounds == 0


# ---- stores


@pytest.mark.parametrize("durability", ["block", "round"])
@pytest.mark.parametrize("keep", [7, 10_000, "log"], ids=str)
@pytest.mark.sampled(3)
def test_a_store_has_the_rounds_of_the_run_in_memory(keep: Any, durability: str, tmp_path: Path) -> None:
    horizon = 3000 if durability == "block" else 60
    run, whole = play(horizon, store=tmp_path / "run", keep=keep, durability=durability), play(horizon, keep=keep)
    assert_rounds_of(run, play(horizon, keep="all"))
    np.testing.assert_array_equal(run.round, whole.round)
    assert run.rounds == horizon
    assert not run.complete
    assert repr(run) == repr(whole)
    for log in (False, True):
        np.testing.assert_array_equal(run.curve(50, log=log), whole.curve(50, log=log))
    np.testing.assert_array_equal(run.dataset()["round"], whole.round)
    np.testing.assert_array_equal(run.dataset()["regret"], whole.regret)
    assert set(run.dataset()) == set(whole.dataset())
    now = status(tmp_path / "run")
    assert (now.rounds, now.planned, now.state) == (horizon, horizon, "complete")
    assert now.regret == whole.cumulative_regret[-1]
    assert all(found.whole for found in check(tmp_path / "run"))


@pytest.mark.parametrize("name", ["grid", "changing", "priors", "cells", "sampled", "restricted"])
@pytest.mark.parametrize("saved", [0, 90], ids=["no checkpoint", "checkpoints"])
@pytest.mark.sampled(6)
@pytest.mark.slow
def test_a_store_is_continued(name: str, saved: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a checkpoint, or from the beginning; with more rounds than at first, too."""
    make, function, given = WAYS[name]()

    def add_work(self: Any, seconds: float) -> None:
        if saved and self.learner.rounds - getattr(self, "last", 0) >= saved:
            self.last = self.learner.rounds
            self.save()

    monkeypatch.setattr(Checkpoints, "add_work", add_work)
    monkeypatch.setattr(stored_simulation, "BLOCK_ROUNDS", 50)
    append, place, policies = ObservationStore.append, tmp_path / "run", []

    def failing(self: ObservationStore, columns: Any) -> None:
        if columns["t"][-1] > 220:
            raise OSError("the disk is full")
        append(self, columns)

    with monkeypatch.context() as patch:
        patch.setattr(ObservationStore, "append", failing)
        with pytest.raises(OSError, match="the disk is full"):
            sb.simulate(make(), function, 300, store=place, keep=9, **given)
    assert 150 < status(place).rounds <= 220
    assert status(place).state == "interrupted"
    for horizon in (300, 333, 250):
        policies.append(make())
        run = sb.simulate(policies[-1], function, horizon, store=place, **given)
    whole = sb.simulate(make(), function, 333, keep="all", **given)
    assert run.round.tolist() == sorted({*range(9, 334, 9), 300, 333})
    assert_rounds_of(run, whole)
    assert [policy.rounds for policy in policies] == [300, 333, 333]


def test_the_choice_is_that_of_the_store(tmp_path: Path) -> None:
    place = tmp_path / "run"
    play(100, store=place, keep=9)
    for other in ("all", "log", 8):
        with pytest.raises(ValueError, match=rf"^keep: got '?{other}'?; allowed: 9 as in the store, or None"):
            play(200, store=place, keep=other)
    assert play(200, store=place).round.tolist() == sorted({*range(9, 200, 9), 100, 200})
    assert play(200, store=place, keep=9).rounds == 200
    play(100, store=tmp_path / "all")
    with pytest.raises(ValueError, match=r"^keep: got 9; allowed: 'all' as in the store, or None"):
        play(200, store=tmp_path / "all", keep=9)
    with pytest.raises(sb.SpecificationDiffers, match=r"noise: stored 0.3, given 0.2"):
        play(200, sb.IGPUCB(SPACE, KERNEL, noise=0.2), store=place)


def test_the_default_of_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinning, "ALL_UP_TO", 2000)
    whole = play(2001, keep="all")
    run = play(2001, store=tmp_path / "long")
    assert not run.complete
    assert_rounds_of(run, whole)
    assert play(2000, store=tmp_path / "short").complete
    assert play(2001, store=tmp_path / "short").complete  # as it was begun
    assert play(2001, store=tmp_path / "wanted", keep="all").complete


def test_resumed_from_the_store_alone(tmp_path: Path) -> None:
    play(100, store=tmp_path / "run", keep=9)
    run = resume(tmp_path / "run", rounds=180)
    assert isinstance(run, sb.Trajectory)
    assert run.round.tolist() == sorted({*range(9, 180, 9), 100, 180})
    assert_rounds_of(run, play(180))


def test_a_machine_that_rounds_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored cannot be continued by other numbers, and stays as it is."""
    stored = play(100, store=tmp_path / "run", keep=9)
    before = {name: getattr(stored, name) for name in NAMES}
    noise = Environment.noise_of
    monkeypatch.setattr(Environment, "noise_of", lambda *given: noise(*given) * (1 + 1e-15))
    with pytest.raises(StoreError, match=r"its round \d+ was another one when it was played again"):
        play(200, store=tmp_path / "run")
    found = ObservationStore.open(tmp_path / "run").read()
    for name in NAMES:
        np.testing.assert_array_equal(found[name], before[name])


@pytest.mark.slow
def test_no_more_is_learned_than_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after the horizon is of no use."""

    def add_work(self: Any, seconds: float) -> None:
        self.save()

    block = Play._play_block

    def interrupted(self: Any, t: int, series: Any) -> bool:
        found = block(self, t, series)
        if t >= 1500:
            raise KeyboardInterrupt
        return bool(found)

    monkeypatch.setattr(Checkpoints, "add_work", add_work)
    monkeypatch.setattr(stored_simulation, "BLOCK_ROUNDS", 50)
    with monkeypatch.context() as patch:
        patch.setattr(Play, "_play_block", interrupted)
        with pytest.raises(KeyboardInterrupt):
            play(5000, store=tmp_path / "run", keep=1000)
    for horizon, wanted in ((800, 1000), (1200, 1200), (1100, 1200)):
        policy = sb.IGPUCB(SPACE, KERNEL, noise=0.3)
        run = play(horizon, policy, store=tmp_path / "run")
        assert policy.rounds == run.rounds == wanted


def test_a_checkpoint_of_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be read: everything is played again, and the user is told."""
    monkeypatch.setattr(Checkpoints, "add_work", lambda self, seconds: self.save())
    with monkeypatch.context() as patch:
        patch.setattr(sb, "__version__", "0.0.1")
        play(100, store=tmp_path / "run", keep=9)
    with pytest.warns(UserWarning, match="of another version of the package: all 100 rounds are played again"):
        run = play(200, store=tmp_path / "run")
    assert_rounds_of(run, play(200))


def test_a_function_that_is_noisy_itself(tmp_path: Path) -> None:
    """What cannot be played again is refused where it first differs."""
    rng = np.random.default_rng(1)
    noisy = lambda x: float(x[0]) + rng.standard_normal()  # noqa: E731
    run = lambda horizon, **given: sb.simulate(  # noqa: E731
        sb.IGPUCB(SPACE, KERNEL, noise=0.3),
        sb.FunctionEnvironment(SPACE, noisy),
        horizon,
        store=tmp_path / "run",
        **given,
    )
    run(50, keep=5)
    with pytest.raises(StoreError, match=r"its round 5 was another one .* the function or the availability sets"):
        run(100)


def test_other_errors_come_first(tmp_path: Path) -> None:
    """Of a place that has no simulation, or a damaged one."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="is not a run"):
        play(10, store=tmp_path / "mine", keep=9)
    with sb.record(sb.IGPUCB(SPACE, KERNEL, noise=0.3), tmp_path / "recording") as recording:
        recording.policy.tell(recording.policy.ask(), 0.3)
    with pytest.raises(sb.SpecificationDiffers, match="kind: stored 'record', given 'simulate'"):
        play(10, store=tmp_path / "recording", keep=9)
    play(10, store=tmp_path / "run", keep=9)
    for file in ("run.sqlite", "zarr.json"):
        (tmp_path / "run" / "committed" / file).write_text("{")
    with pytest.raises(sb.StoreDamaged, match="attributes"):
        play(10, store=tmp_path / "run", keep=9)


@pytest.mark.filterwarnings("ignore:.*more than double precision can carry")
def test_more_than_memory() -> None:
    with pytest.raises(ValueError, match=r"^horizon: got 10+; allowed: fewer rounds, keep='log', or a store"):
        play(10**14, keep="all")
    with pytest.raises(ValueError, match=r"^horizon: got 10+; allowed: an integer, at most 9223372036854775807"):
        play(10**20)


def test_rounds_between_those_that_are_kept_are_played_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kept round is on disk before the next one, with durability "round"; no other call is made for others."""
    rounds, calls = Play.rounds, []

    def noted(self: Any, first: int, count: int, *given: Any) -> Any:
        calls.append((first, count))
        return rounds(self, first, count, *given)

    monkeypatch.setattr(Play, "rounds", noted)
    play(1000, store=tmp_path / "run", keep=300, durability="round")
    assert calls == [(1, 300), (301, 300), (601, 300), (901, 100)]


@pytest.mark.slow
def test_the_page_of_a_run(tmp_path: Path) -> None:
    play(600, store=tmp_path / "run", keep=50)
    text = page(tmp_path / "run")
    for shown in ("600 of 600", "The store does not have all rounds.", "--rounds 1200"):
        assert shown in text


def test_little_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A horizon that does not fit does, if fewer rounds are kept."""
    monkeypatch.setattr(Folder, "free", lambda self: 100_000)
    with pytest.raises(ValueError, match=r"^horizon: got '10,000 more rounds"):
        play(10_000, store=tmp_path / "run")
    assert play(10_000, store=tmp_path / "run", keep="log").rounds == 10_000


# ---- what needs all rounds


def test_what_needs_all_rounds_says_so() -> None:
    policy = sb.IGPUCB(SPACE, KERNEL, noise=0.3)
    function = sb.RKHSFunction.sparse(SPACE, KERNEL, sb.GaussianNoise(0.3), seed=1)
    run = sb.simulate(policy, function, 100, keep=5)
    with pytest.raises(ValueError, match="keep='all'"):
        sb.analysis.coverage(policy, function, run)
