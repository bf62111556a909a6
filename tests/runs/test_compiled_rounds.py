"""Blocks of rounds in compiled loops against rounds one by one: the same numbers, to the last bit."""

from typing import Any

import attrs
import numpy as np
import pytest
from cases.policies import CASES, EVERY_POLICY, PROBLEMS, on
from cases.rounds import Counted, assert_alike, assert_same, assert_same_state, environment_of, one_by_one

import scalable_bandits as sb
from scalable_bandits.environments import Noise
from scalable_bandits.formulas import confidence
from scalable_bandits.posteriors.forgetting import weighted
from scalable_bandits.runs import play
from scalable_bandits.store import ObservationStore

COMPILED = [
    "gpucb-1", "gpucb-1-scaled", "gpucb-2", "gpucb-3", "gpucb-3-scaled", "igpucb", "mean", "variance", "tv", "tv-3",
    "restart", "restart-1", "random", "window", "window-theorem", "weighted", "igpucb-sample", "tv-sample",
    "window-sample",
]  # fmt: skip


@on(["grid", "arms"], EVERY_POLICY)
@pytest.mark.sampled(6)
def test_every_policy(name: str, space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds enough for windows to be folded and for restarts; what follows is the same, too."""
    problem, case = PROBLEMS[space], EVERY_POLICY[name]
    policy, alone = case.make(problem), case.make(problem)
    counted = Counted(monkeypatch, policy)
    environment = environment_of(problem)
    horizon = 150 if name in COMPILED else 30
    run = sb.simulate(policy, environment, horizon)
    assert (sum(counted.blocks) == horizon) == (name in COMPILED)
    assert_same(run, one_by_one(alone, environment, horizon))
    assert_same_state(policy, alone)
    assert policy.rounds == alone.rounds == horizon
    assert_alike((policy, alone), 1, lambda x: 0.3)
    assert_same(sb.simulate(policy, environment, 20), one_by_one(alone, environment, 20))
    np.testing.assert_equal(policy.best(), alone.best())


@pytest.mark.parametrize("work", [0, 1, 20_000])
@pytest.mark.parametrize("length", [1, 7, 1000])
@pytest.mark.sampled(3)
def test_weights_of_few_and_of_many_arms(work: int, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arms are computed one by one as long as that is little work, and at once later."""
    monkeypatch.setattr(weighted, "LITTLE_WORK", work)
    monkeypatch.setattr(play, "FIRST_BLOCK", length)
    monkeypatch.setattr(play, "LARGEST_BLOCK", length)
    problem = PROBLEMS["grid"]
    policy, alone = (EVERY_POLICY["weighted"].make(problem) for _ in range(2))
    counted = Counted(monkeypatch, policy)
    assert_same(sb.simulate(policy, environment_of(problem), 200), one_by_one(alone, environment_of(problem), 200))
    assert sum(counted.blocks) == 200
    assert_same_state(policy, alone)


@pytest.mark.parametrize("length", [1, 7, 64, 65, 1000])
@pytest.mark.parametrize("name", ["igpucb", "tv", "restart"])
@pytest.mark.sampled(3)
def test_blocks_of_any_length(name: str, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = PROBLEMS["grid"]
    monkeypatch.setattr(play, "FIRST_BLOCK", length)
    monkeypatch.setattr(play, "LARGEST_BLOCK", length)
    policy, alone = (EVERY_POLICY[name].make(problem) for _ in range(2))
    counted = Counted(monkeypatch, policy)
    assert_same(sb.simulate(policy, environment_of(problem), 300), one_by_one(alone, environment_of(problem), 300))
    assert max(counted.blocks) == min(length, 300)
    assert_same_state(policy, alone)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("igpucb", {"information_gain": 2.0}), ("igpucb", {"confidence": "whitehouse"}),
        ("igpucb", {"confidence": "flynn-reeb"}), ("igpucb", {"prior_mean": 0.7}), ("gpucb-1", {"kernel_factor": 3.0}),
        ("igpucb", {"engine": "weights", "prior_mean": 0.7}), ("variance", {"engine": "weights"}),
        ("tv", {"prior_mean": -0.4}), ("window", {"memory": 150}), ("restart", {"memory": 40, "information_gain": 1.5}),
    ],
    ids=str,
)  # fmt: skip
def test_options(name: str, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    problem = PROBLEMS["grid, features" if given.get("engine") == "weights" else "grid"]
    if factor := given.pop("kernel_factor", None):
        problem = problem._replace(kernel=factor * problem.kernel)
    policy, alone = (EVERY_POLICY.get(name, CASES.get(name)).make(problem, **given) for _ in range(2))
    counted = Counted(monkeypatch, policy)
    rounds = 1100 if given.get("engine") == "weights" else 200  # with posteriors that are computed anew
    environment = environment_of(problem)
    assert_same(sb.simulate(policy, environment, rounds), one_by_one(alone, environment, rounds))
    assert sum(counted.blocks) == rounds
    assert_same_state(policy, alone)


@pytest.mark.parametrize(
    "given",
    [
        {"information_gain": "greedy"}, {"information_gain": lambda t: 0.1 * t}, {"rkhs_norm": "double"}, {"refit": 20},
        {"engine": "tiled"}, {"engine": "sketched"},
    ],
    ids=["greedy", "function", "double", "refit", "tiled", "sketched"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:IGPUCB. its guarantees")
def test_what_has_no_compiled_form_goes_the_usual_way(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    policy = CASES["igpucb"].make(PROBLEMS["grid"], **given)
    counted = Counted(monkeypatch, policy)
    sb.simulate(policy, environment_of(PROBLEMS["grid"]), 30)
    assert not counted.blocks
    assert not caplog.records


class Narrow(sb.IGPUCB):
    """A policy of the user's own, whose width has no compiled form."""

    @property
    def width(self) -> float:
        return 0.5 * super().width


def test_a_subclass_goes_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = PROBLEMS["grid"]
    policies = [CASES["igpucb"]._replace(kind=kind).make(problem) for kind in (Narrow, Narrow, sb.IGPUCB)]
    counted = Counted(monkeypatch, policies[0])
    runs = [sb.simulate(policy, environment_of(problem), 40) for policy in policies]
    assert not counted.blocks
    assert_same(runs[0], runs[1])
    assert (runs[0].candidate != runs[2].candidate).any()


def test_a_width_that_the_user_replaced_goes_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        confidence.WIDTHS, "improved", lambda gain, *others: 0.1 * confidence.improved(gain, *others[:3])
    )
    policy = CASES["igpucb"].make(PROBLEMS["grid"])
    counted = Counted(monkeypatch, policy)
    run = sb.simulate(policy, environment_of(PROBLEMS["grid"]), 30)
    assert not counted.blocks
    assert run.width[0] < 1.0


def test_other_environments_go_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that change, availability sets, points pending are refused before; a box has points added."""
    problem = PROBLEMS["grid"]
    changing = sb.DriftingFunction.sparse(
        sb.Grid([[0, 1]], 20), sb.RBF(0.2), sb.GaussianNoise(0.1), knots=(1, 20, 60), rkhs_norm=1.0
    )
    drifting = sb.IGPUCB(changing.space, sb.RBF(0.2))
    restricted = CASES["igpucb"].make(problem)
    box = CASES["igpucb"].make(PROBLEMS["box"])
    box.tell([0.123, 0.2], 1.0)
    counted = Counted(monkeypatch, restricted)
    sb.simulate(drifting, changing, 30)
    sb.simulate(restricted, environment_of(problem), 30, available=lambda t: np.arange(t % 3, 168, 3))
    function = sb.RKHSFunction.sparse(PROBLEMS["box"].space, sb.RBF(0.3), sb.GaussianNoise(0.1), seed=1)
    run = sb.simulate(box, function, 30)
    assert not counted.blocks
    assert (run.candidate < 100).all()  # the point that was told is no candidate


@attrs.frozen
class Rare(Noise):
    """Noise that is out of all bounds in one round."""

    @property
    def sub_gaussian(self) -> float:
        return 1.0

    def draw(self, rng: np.random.Generator, count: int) -> Any:
        values = 0.1 * rng.standard_normal(count)
        values[700] = np.inf
        return values


@pytest.mark.parametrize("stored", [False, True])
def test_a_value_that_is_no_number(stored: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says which round; everything before it is kept."""
    problem = PROBLEMS["grid"]
    policy = CASES["igpucb"].make(problem)
    counted = Counted(monkeypatch, policy)
    given = {"store": tmp_path / "run"} if stored else {}
    with pytest.raises(ValueError, match=r"environment: got 'y = inf in round 700'"):
        sb.simulate(policy, environment_of(problem, Rare()), 1000, **given)
    assert policy.rounds == 699
    assert sum(counted.blocks) > 200
    if stored:
        assert len(ObservationStore.open(tmp_path / "run")) == 699


def test_noise_of_many_rounds_is_that_of_each() -> None:
    environment = environment_of(PROBLEMS["grid"])
    for first, count in ((1, 1), (1, 3000), (1023, 2), (1024, 1), (5000, 1024)):
        expected = [environment.noise_at(t) for t in range(first, first + count)]
        np.testing.assert_array_equal(environment.noise_of(first, count), expected)


@pytest.mark.parametrize("name", ["igpucb", "mean", "tv", "restart", "random", "window", "weighted", "pe", "cells"])
def test_equal_points_are_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice is the first of the candidates at its point, so that rounds go the usual way."""
    problem = PROBLEMS["grid"]
    space = sb.Points(np.concatenate([problem.space.points()[:30]] * 3))
    kernel = problem.kernel
    if name == "pe":
        make = lambda: sb.PEGPUCB(space, [sb.Prior("a", kernel), sb.Prior("b", 2.0 * kernel)], noise=0.3)  # noqa: E731
    elif name == "cells":
        make = lambda: sb.PiGPUCB(space, sb.Matern(0.3, nu=2.5), noise=0.3, horizon=500)  # noqa: E731
    else:
        make = lambda: EVERY_POLICY[name].make(problem._replace(space=space))  # noqa: E731
    policy, alone = make(), make()
    counted = Counted(monkeypatch, policy)
    environment = sb.TableEnvironment(space, np.tile(np.linspace(0.0, 1.0, 30), 3), sb.GaussianNoise(0.3))
    run = sb.simulate(policy, environment, 100)
    assert not counted.blocks
    assert run.candidate.max() < 30
    assert_same(run, one_by_one(alone, environment, 100))
    np.testing.assert_equal(policy.best(), alone.best())


class SometimesRestricted(sb.TableEnvironment):
    """The best arm is missing in some rounds; in others all are available."""

    def available(self, t: int) -> Any:
        return np.array([False, True, True]) if t % 3 == 1 else None


def test_regret_is_that_of_what_is_available() -> None:
    environment = SometimesRestricted(sb.Arms(3), [2.0, 1.0, 0.5], sb.GaussianNoise(0.1))
    run = sb.simulate(sb.RandomSearch(sb.Arms(3)), environment, 60)
    best = np.where(np.arange(1, 61) % 3 == 1, 1.0, 2.0)
    np.testing.assert_allclose(run.regret, best - np.array([2.0, 1.0, 0.5])[run.candidate])
