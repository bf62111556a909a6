"""Cells of a partition in one compiled loop against rounds one by one: the same numbers, to the last bit."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from cases.rounds import Counted, assert_same, assert_same_state, one_by_one

import scalable_bandits as sb
from scalable_bandits.posteriors.partition import argmax_tree, cell_posteriors, finite_cells
from scalable_bandits.posteriors.partition.looped_partition import COMPILED, LoopedPartition

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing is compiled")

SPACES: dict[str, Any] = {
    "line": sb.Grid([[0, 1]], 40),
    "square": sb.Grid([[0, 1], [-1, 2]], (21, 17)),  # candidates on the faces of cubes are in two or four cells
    "cube": sb.Grid([[0, 1]] * 3, 9),
    "points": sb.Points(np.random.default_rng(0).random((300, 2))),
}
every_space = pytest.mark.parametrize("space", SPACES)


def make(space: str, **given: Any) -> sb.PiGPUCB:
    known = {"noise": 0.3, "rkhs_norm": 1.0, "horizon": 3000, "seed": 5}
    return sb.PiGPUCB(SPACES[space], given.pop("kernel", sb.Matern(0.3, nu=2.5)), **{**known, **given})


def function_on(space: str) -> sb.Environment:
    return sb.RKHSFunction.sparse(SPACES[space], sb.Matern(0.3, nu=2.5), sb.GaussianNoise(0.3), seed=1)


def assert_same_runs(space: str, rounds: int, monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
    policy, alone = make(space, **given), make(space, **given)
    counted, function = Counted(monkeypatch, policy), function_on(space)
    assert_same(sb.simulate(policy, function, rounds), one_by_one(alone, function, rounds))
    assert sum(counted.blocks) == rounds
    assert_same_state(policy, alone)
    assert [e.born for e in policy.cover] == [e.born for e in alone.cover]
    np.testing.assert_equal(policy.best(), alone.best())
    for each in (policy, alone):
        each.tell(each.ask(), 0.5)
    assert_same(sb.simulate(policy, function, 50), one_by_one(alone, function, 50))
    assert_same_state(policy, alone)


@every_space
@pytest.mark.parametrize("tightening", [False, True])
@pytest.mark.sampled(4)
def test_loops(space: str, tightening: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """New cells, splits, points in several cells."""
    assert_same_runs(space, 3000, monkeypatch, tightening=tightening)


def test_few_rounds_go_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[int] = []
    usual = LoopedPartition._play_round

    def counting(self: LoopedPartition, *given: Any) -> None:
        alone.append(given[-1])
        usual(self, *given)

    monkeypatch.setattr(LoopedPartition, "_play_round", counting)
    sb.simulate(make("square"), function_on("square"), 3000)
    assert 10 < len(alone) < 600


@pytest.mark.parametrize(
    "given",
    [
        {"horizon": None}, {"theory": True}, {"prior_mean": -0.4}, {"kernel": sb.Linear() + sb.RBF(0.3), "nu": 2.5},
        {"kernel": 2.0 * sb.Matern(0.05, nu=1.5)}, {"rkhs_norm": 0.01, "noise": 0.01},
    ],
    ids=["one cube", "theory", "mean", "not stationary", "rough", "greedy"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:PiGPUCB's guarantee")
@pytest.mark.sampled(3)
def test_options(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert_same_runs("square", 1500, monkeypatch, **given)


def test_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Posteriors are dropped and made again."""
    monkeypatch.setattr(cell_posteriors, "CACHE_BYTES", 60_000)
    assert_same_runs("cube", 2000, monkeypatch)


@pytest.mark.parametrize("few", [0, 3])
def test_no_prior_covariances(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """New points in larger cells are a matter of single rounds."""
    monkeypatch.setattr(finite_cells, "FEW", few)
    assert_same_runs("square", 1000, monkeypatch)


def test_more_observations_than_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argmax_tree, "NOTES", 100)
    assert_same_runs("square", 3000, monkeypatch)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))])
def test_copies_go_their_own_ways(copied: Any) -> None:
    """A copy knows no addresses of the original, whose posteriors stay as they are."""
    function, policy = function_on("square"), make("square")
    sb.simulate(policy, function, 500)
    other = copied(policy)
    first = sb.simulate(other, function, 400)
    assert_same(sb.simulate(policy, function, 400), first)
    assert_same_state(policy, other)
    del other
    assert policy.width > 0.0  # chosen in a copy
    alone = make("square")
    one_by_one(alone, function, 900)
    assert_same(sb.simulate(policy, function, 300), one_by_one(alone, function, 300))


def test_points_were_pending() -> None:
    """The widths of pending points were larger than those of the next rounds."""
    function, policy, alone = function_on("square"), make("square"), make("square")
    for each in (policy, alone):
        one_by_one(each, function, 200)
        for _ in range(5):
            each.ask()
        each.abandon()
    assert_same(sb.simulate(policy, function, 300), one_by_one(alone, function, 300))
    assert_same_state(policy, alone)


class Narrow(sb.PiGPUCB):
    """A policy of the user's own."""

    def _log_term(self, t: int) -> float:
        return 0.1 * super()._log_term(t)


def test_what_has_no_compiled_form_goes_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = Narrow(SPACES["line"], sb.Matern(0.3, nu=2.5))
    threads = make("line", on="threads:2")
    for policy in (narrow, threads):
        counted = Counted(monkeypatch, policy)
        sb.simulate(policy, function_on("line"), 20)
        assert not counted.blocks


class Failing(sb.Matern):
    """Kernel that fails at one of its calls."""

    calls_left = -1

    def fill(self, x: Any, z: Any, out: Any) -> None:
        if len(x) == 1:
            type(self).calls_left -= 1
            if self.calls_left == 0:
                raise MemoryError("no room for a covariance")
        super().fill(x, z, out)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_error_within_a_block(at: int) -> None:
    """The policy is that of its rounds, and goes on as if nothing had been."""
    policy, alone = (make("square", kernel=Failing(0.3, nu=2.5)) for _ in range(2))
    function = function_on("square")
    Failing.calls_left = -1
    for each in (policy, alone):
        sb.simulate(each, function, 50)
    Failing.calls_left = at
    with pytest.raises(MemoryError):
        sb.simulate(policy, function, 1000)
    assert policy.rounds >= 50
    if policy.rounds > 50:
        sb.simulate(alone, function, policy.rounds - 50)
    assert_same(sb.simulate(policy, function, 200), sb.simulate(alone, function, 200))
    assert policy.rounds == alone.rounds
    assert sorted(e.observations for e in policy.cover) == sorted(e.observations for e in alone.cover)
    np.testing.assert_equal(policy.best(), alone.best())
