"""Ctrl-C in a compiled block: the block ends, and the policy is that of the rounds it has."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases.rounds import assert_same, assert_same_state

import scalable_bandits as sb
from scalable_bandits.status import status
from scalable_bandits.store import ObservationStore

SPACE = sb.Grid([[0, 1], [0, 1]], 20)
KERNEL = sb.Matern(0.3, nu=2.5)
FUNCTION = sb.RKHSFunction.sparse(SPACE, KERNEL, sb.GaussianNoise(0.3), seed=1)
MAKERS: dict[str, Callable[[], sb.Policy]] = {
    "dense": lambda: sb.IGPUCB(SPACE, KERNEL, noise=0.3),
    "forgetting": lambda: sb.TVGPUCB(SPACE, KERNEL * sb.TemporalDecay(0.01), noise=0.3),
    "priors": lambda: sb.PEGPUCB(SPACE, [sb.Prior("one", KERNEL), sb.Prior("two", sb.RBF(0.2))], noise=0.3),
    "cells": lambda: sb.PiGPUCB(SPACE, KERNEL, noise=0.3, horizon=10**8),
    "random": lambda: sb.RandomSearch(SPACE),
}
every_policy = pytest.mark.parametrize("name", MAKERS)
in_main_thread = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread alone"
)


def interrupted(policy: sb.Policy, **given: Any) -> None:
    """Play a run that is too long, and press Ctrl-C a while after it has begun."""

    def press() -> None:
        while policy.rounds < 500:
            time.sleep(0.01)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        sb.simulate(policy, FUNCTION, 10**8, **given)
    presser.join()


@in_main_thread
@every_policy
@pytest.mark.sampled(2)
def test_the_policy_is_that_of_its_rounds(name: str) -> None:
    policy, alone = MAKERS[name](), MAKERS[name]()
    interrupted(policy)
    sb.simulate(alone, FUNCTION, policy.rounds, keep="log")
    assert_same_state(policy, alone)
    assert_same(sb.simulate(policy, FUNCTION, 100), sb.simulate(alone, FUNCTION, 100))


@in_main_thread
@every_policy
@pytest.mark.sampled(6)
def test_the_store_has_what_was_played(name: str, tmp_path: Path) -> None:
    policy = MAKERS[name]()
    interrupted(policy, store=tmp_path / "run", keep="all")
    with ObservationStore.open(tmp_path / "run") as store:
        count = len(store)
    assert count == policy.rounds >= 500
    whole = sb.simulate(MAKERS[name](), FUNCTION, count + 500, keep="all")
    assert_same(sb.simulate(MAKERS[name](), FUNCTION, count + 500, store=tmp_path / "run"), whole)


@in_main_thread
@every_policy
@pytest.mark.sampled(3)
@pytest.mark.slow
def test_the_store_of_some_rounds_is_continued(name: str, tmp_path: Path) -> None:
    """With the default of a long run, whose rounds since the last stored one are played again."""
    policy = MAKERS[name]()
    interrupted(policy, store=tmp_path / "run")
    count = status(tmp_path / "run").rounds
    assert 1 <= count <= policy.rounds
    run = sb.simulate(MAKERS[name](), FUNCTION, policy.rounds + 500, store=tmp_path / "run")
    assert_same(run, sb.simulate(MAKERS[name](), FUNCTION, policy.rounds + 500, keep="log"))


class Pressing(sb.RBF):
    """Kernel that presses Ctrl-C at one of its calls, within an observation."""

    calls_left = -1

    def fill(self, x: Any, z: Any, out: Any) -> None:
        super().fill(x, z, out)
        type(self).calls_left -= 1
        if self.calls_left == 0:
            os.kill(os.getpid(), signal.SIGINT)


@in_main_thread
@pytest.mark.parametrize("call", [1, 2, 5, 11])
def test_a_single_round_is_learned_by_all_priors(call: int, tmp_path: Path) -> None:
    """Or by none, if the point was not chosen yet; and the store has what the policy has."""

    def make() -> sb.Policy:
        priors = [sb.Prior("one", sb.Matern(0.2, nu=2.5)), sb.Prior("two", Pressing(0.2))]
        return sb.PEGPUCB(SPACE, priors, noise=0.3, engine="tiled")

    Pressing.calls_left = -1
    policy, alone = make(), make()
    Pressing.calls_left = call
    with pytest.raises(KeyboardInterrupt):
        sb.simulate(policy, FUNCTION, 10**6, store=tmp_path / "run", keep="all")
    Pressing.calls_left = -1
    with ObservationStore.open(tmp_path / "run") as store:
        assert len(store) == policy.rounds
    if policy.rounds:
        sb.simulate(alone, FUNCTION, policy.rounds)
    assert_same_state(policy, alone)
