"""Agents of DUETS on workers: the numbers of one process, also when workers die."""

import functools

import numpy as np
import pytest
from cases.cluster import Killer

import scalable_bandits as sb

SPACE = sb.Grid([[0, 1]], 60)
HORIZON = 80

pytestmark = pytest.mark.usefixtures("one_thread")


def policy_of(on=None):
    return sb.DUETS(
        SPACE, sb.Matern(0.3, nu=2.5), agents=4, horizon=HORIZON, rkhs_norm=0.5, noise=0.05, regularization=0.0025,
        seed=3, on=on,
    )  # fmt: skip


def function():
    return sb.RKHSFunction.sparse(SPACE, sb.Matern(0.3, nu=2.5), sb.GaussianNoise(0.05), seed=4)


def play(policy, before=lambda t: None, horizon=HORIZON):
    """Play a run; return its points, what is left after each, the numbers sent, and the best point."""
    environment, seen = function(), []
    for t in range(1, horizon + 1):
        before(t)
        x = policy.ask(available=np.arange(t % 7, SPACE.size, 2) if t % 5 == 0 else None)
        policy.tell(x, float(environment.evaluate(x[None])[0] + environment.noise_at(t)))
        seen.append([float(x[0]), policy.surviving.tolist(), policy.sent])
    return seen, policy.best().mean, [state.tolist() for state in policy.state().values()]


@functools.cache
def alone():
    found = play(policy_of())
    assert found[0][0][1] != found[0][-1][1]
    return found


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.sampled(3)
@pytest.mark.slow
def test_any_number_of_workers(workers, four, some_of_four, messages):
    """A message a batch to each worker: values are passed on with the question of a batch."""
    some_of_four(workers)
    policy = policy_of(four)
    assert play(policy) == alone()
    assert len(messages.workers()) == workers
    assert len(messages.sent) <= 2 * len(policy.lengths)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads(threads):
    assert play(policy_of(f"threads:{threads}")) == alone()


@pytest.mark.slow
def test_an_agent_that_dies_and_comes_back(four):
    killer = Killer(four, 1, HORIZON)
    assert play(policy_of(four), killer) == alone()
    assert len(killer.ended()) == 5
