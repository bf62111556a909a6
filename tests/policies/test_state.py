"""A policy's state, kept and put back: what follows is the same to the last bit."""

import copy
import json
import pickle

import numpy as np
import pytest
from cases.policies import CASES, EVERY_POLICY, PHASED, PROBLEMS, on
from cases.rounds import assert_alike, assert_same, environment_of

import scalable_bandits as sb

COLUMNS = ("candidate", "y", "value", "width", "information_gain")


@pytest.mark.usefixtures("small_tiles")
@on(["grid", "arms"], EVERY_POLICY)
@pytest.mark.sampled(9)
def test_goes_on_to_the_last_bit(name, space):
    check_goes_on(name, space)


@pytest.mark.usefixtures("small_tiles")
@on(["grid", "arms"], {**CASES, **PHASED})
@pytest.mark.sampled(9)
def test_goes_on_to_the_last_bit_in_tiles(name, space):
    check_goes_on(name, space, engine="tiled")


def check_goes_on(name, space, **given):
    """From states after the first round, around a window's length, and late; a run in parts is the run in one."""
    problem, case = PROBLEMS[space], {**EVERY_POLICY, **CASES}[name]
    environment, policy, parts = environment_of(problem), case.make(problem, **given), case.make(problem, **given)
    whole = sb.simulate(policy, environment, 140)
    for after in (1, 15, 16, 17, 120):
        sb.simulate(parts, environment, after - parts.rounds)
        again = case.make(problem, **given)
        again.restore({key: value.copy() for key, value in parts.state().items()})
        assert again.rounds == after
        run = sb.simulate(again, environment, 20)
        for column in COLUMNS:
            expected = getattr(whole, column)[after : after + 20]
            np.testing.assert_array_equal(getattr(run, column), expected, err_msg=f"{column} after {after}")
    assert json.dumps(list(map(float, again.best()[1:]))) == json.dumps(list(map(float, policy.best()[1:])))


@pytest.mark.parametrize("candidates", [50, None])
def test_of_a_policy_that_has_lived_another_life(candidates):
    """What it was told of a box before is not in the state, and not in the policy any more."""

    def make():
        return sb.GPEI(sb.Box([[0.0, 1.0]]), sb.RBF(0.2), candidates=candidates)

    policy, again = make(), make()
    policy.tell([[0.123], [0.4]], [1.0, 2.0])
    again.tell([[0.5], [0.6], [0.123]], [3.0, 4.0, 5.0])
    again.restore(policy.state())
    assert again.domain.points().tolist() == policy.domain.points().tolist()
    assert again.best().x == policy.best().x
    np.testing.assert_array_equal(again.ask(), policy.ask())


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(
    ("name", "engine"), [*((name, {}) for name in EVERY_POLICY), *((name, {"engine": "tiled"}) for name in CASES)]
)
@pytest.mark.sampled(4)
def test_a_deep_copy_plays_on_alike(name, engine):
    """And leaves the first as it was: no part of it is another part's memory."""
    problem, case = PROBLEMS["grid"], {**EVERY_POLICY, **CASES}[name]
    policy, environment = case.make(problem, **engine), environment_of(problem)
    sb.simulate(policy, environment, 21)
    other = copy.deepcopy(policy)
    assert_same(sb.simulate(other, environment, 30), sb.simulate(policy, environment, 30))


def falling(points):
    return -0.1 * points[:, 0]


@pytest.mark.parametrize("name", ["IGPUCB", "GPEI", "PiGPUCB"])
def test_a_policy_of_a_whole_box_pickles(name):
    """As others do, in the middle of things; and the copy plays on alike."""
    mean = {"IGPUCB": {"prior_mean": falling}, "GPEI": {"prior_mean": 0.5}}.get(name, {})
    policy = getattr(sb, name)(sb.Box([[0.0, 1.0]]), sb.Matern(0.2, nu=1.5), noise=0.1, regularization=0.01, **mean)
    for _ in range(4):
        x = policy.ask()
        policy.tell(x, float(np.sin(5 * x[0])))
    other = pickle.loads(pickle.dumps(policy))
    assert_alike((policy, other), 3, lambda x: float(np.sin(5 * x[0])))


@on(["grid", "whole box"], EVERY_POLICY)
@pytest.mark.sampled(15)
def test_reading_changes_nothing(name, space):
    """What a property returns does not depend on earlier reads, and later choices are the same to the last bit."""
    problem, case = PROBLEMS[space], EVERY_POLICY[name]
    read, other = case.make(problem), case.make(problem)
    for t in range(12):
        for policy in (read, other):
            x = policy.ask()
            if policy is read:
                first = (policy.width, policy.information_gain, policy.pending, policy.posterior(x))
                again = (policy.width, policy.information_gain, policy.pending, policy.posterior(x))
                np.testing.assert_array_equal(np.hstack([*map(np.ravel, first)]), np.hstack([*map(np.ravel, again)]))
            policy.tell(x, float(np.sin(5.0 * np.sum(x)) + 0.1 * t))
    for (entry, one), (other_entry, two) in zip(read.state().items(), other.state().items(), strict=True):
        assert entry == other_entry
        np.testing.assert_array_equal(one, two, err_msg=entry)
    if isinstance(read, sb.PiGPUCB):
        evaluations = read.evaluations
        assert (read.width, read.evaluations) == (read.width, evaluations)


def test_a_shallow_copy_shares_nothing():
    policy, points = sb.GPUCB(sb.Grid([[0, 1]], 9), sb.RBF(0.2), noise=0.1), np.linspace(0, 1, 9)[:, None]
    policy.tell([[0.25], [0.5]], [1.0, -1.0])
    before = policy.posterior(points)
    twin = copy.copy(policy)
    np.testing.assert_array_equal(twin.posterior(points), before)
    twin.tell([0.75], 5.0)
    np.testing.assert_array_equal(policy.posterior(points), before)
    assert (policy.rounds, twin.rounds) == (2, 3)
