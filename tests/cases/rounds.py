"""Runs in compiled loops and round by round, to compare them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import scalable_bandits as sb
from cases.policies import NOISE
from scalable_bandits.environments import Noise
from scalable_bandits.policies import Policy

COLUMNS = ("candidate", "y", "value", "regret", "cumulative_regret", "width", "information_gain")


class Counted:
    """The rounds that a policy played in compiled loops."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, policy: Policy):
        self.blocks: list[int] = []
        kind = type(policy)
        play = kind._play

        def counting(own: Any, *given: Any) -> Any:
            found = play(own, *given)
            self.blocks += [] if found is None else [len(found.ys)]
            return found

        monkeypatch.setattr(kind, "_play", counting)


def one_by_one(policy: Policy, environment: sb.Environment, horizon: int, **given: Any) -> sb.Trajectory:
    """Play a run without compiled loops."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(policy), "_play", lambda own, *given: None)
        return sb.simulate(policy, environment, horizon, **given)


def environment_of(problem: Any, noise: Noise | None = None) -> sb.Environment:
    values = [problem.truth(x) for x in problem.space.points()]
    return sb.TableEnvironment(problem.space, values, noise or sb.GaussianNoise(NOISE), seed=7)


def assert_same(one: sb.Trajectory, other: sb.Trajectory) -> None:
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def assert_alike(policies: Sequence[Policy], rounds: int, function: Callable[[Any], Any]) -> None:
    """In each of some rounds all policies ask for the same point, and are told its value."""
    for _ in range(rounds):
        x = policies[0].ask()
        for each in policies[1:]:
            np.testing.assert_equal(each.ask(), x)
        for each in policies:
            each.tell(x, function(x))


def assert_same_state(one: Policy, other: Policy) -> None:
    states = one.state(), other.state()
    assert set(states[0]) == set(states[1])
    for name, value in states[0].items():
        np.testing.assert_array_equal(value, states[1][name], err_msg=name)
