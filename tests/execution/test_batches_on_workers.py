"""Points of a batch chosen on workers: the numbers of one process, also when workers die."""

import functools

import numpy as np
import pytest
from cases.cluster import Killer

import scalable_bandits as sb
from scalable_bandits.posteriors.tiled import design, ordering

SPACE = sb.Grid([[0, 1], [0, 1]], 64)
HORIZON = 80

pytestmark = pytest.mark.usefixtures("one_thread", "shards")


@pytest.fixture(scope="module", autouse=True)
def shards():
    """Every tile is a shard of its own, and pools are small."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ordering, "TILES_A_SHARD", 1)
        patched.setattr(design, "SMALLEST_POOL", 32)
        yield


def policy_of(on=None):
    return sb.PhasedElimination(
        SPACE, sb.Matern(0.3, nu=2.5), horizon=HORIZON, rkhs_norm=0.5, noise=0.05, regularization=0.0025, seed=3,
        engine="tiled", on=on,
    )  # fmt: skip


def play(policy, before=lambda t: None, horizon=HORIZON):
    """Play a run; return its points, how many candidates are left after each, and the gain of the last batch."""
    seen = []
    for t in range(1, horizon + 1):
        before(t)
        x = policy.ask(available=np.arange(t % 7, SPACE.size, 2) if t % 5 == 0 else None)
        policy.tell(x, float(np.sin(4.0 * x[0]) - x[1] ** 2))
        seen.append([*x.tolist(), len(policy.surviving), policy.information_gain])
    return seen


@functools.cache
def alone():
    found = play(policy_of())
    assert found[-1][2] < 0.7 * SPACE.size
    return found


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.sampled(3)
@pytest.mark.slow
def test_any_number_of_workers(workers, four, some_of_four, messages):
    some_of_four(workers)
    assert play(policy_of(four)) == alone()
    assert len(messages.workers()) == workers


def test_threads():
    assert play(policy_of("threads:3")) == alone()


@pytest.mark.slow
def test_a_batch_in_few_messages(four, messages):
    """A hundred points of a batch at once take fewer questions to the workers than points."""
    policy = sb.PhasedElimination(SPACE, sb.Matern(0.3, nu=2.5), horizon=10_000, engine="tiled", on=four)
    points = policy.ask(policy.missing)
    assert len(points) == 100
    assert len(messages.sent) < 100


@pytest.mark.slow
def test_workers_die(four):
    killer = Killer(four, 1, HORIZON)
    assert play(policy_of(four), killer) == alone()
    assert len(killer.ended()) == 5
