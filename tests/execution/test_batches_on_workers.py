"""Batches chosen on workers, in tiles or by agents: the numbers of one process, also when workers die."""

import functools

import numpy as np
import pytest
from cases.cluster import Killer

import scalable_bandits as sb
from scalable_bandits.posteriors.tiled import design, ordering

SPACE = sb.Grid([[0, 1], [0, 1]], 64)
KINDS = {
    "tiles": functools.partial(sb.PhasedElimination, SPACE, engine="tiled"),
    "agents": functools.partial(sb.DUETS, sb.Grid([[0, 1]], 60), agents=4),
}
KERNEL, HORIZON = sb.Matern(0.3, nu=2.5), 80
every_kind = pytest.mark.parametrize("kind", KINDS)

pytestmark = pytest.mark.usefixtures("one_thread", "shards")


@pytest.fixture(scope="module", autouse=True)
def shards():
    """Every tile is a shard of its own, and pools are small."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ordering, "TILES_A_SHARD", 1)
        patched.setattr(design, "SMALLEST_POOL", 32)
        yield


def policy_of(kind, on=None):
    return KINDS[kind](kernel=KERNEL, horizon=HORIZON, rkhs_norm=0.5, noise=0.05, regularization=0.0025, seed=3, on=on)


def play(policy, before=lambda t: None):
    """Play a run; return its points, what is left after each, and the gain of the batch or the numbers sent."""
    seen = []
    for t in range(1, HORIZON + 1):
        before(t)
        x = policy.ask(available=np.arange(t % 7, policy.space.size, 2) if t % 5 == 0 else None)
        policy.tell(x, float(np.sin(4.0 * x[0]) - x[-1] ** 2))
        seen.append([*x.tolist(), policy.surviving.tolist(), getattr(policy, "sent", policy.information_gain)])
    return seen, policy.best().mean, [state.tolist() for state in policy.state().values()]


@functools.cache
def alone(kind):
    found = play(policy_of(kind))
    assert len(found[0][-1][-2]) < 0.7 * len(found[0][0][-2])
    return found


@pytest.mark.parametrize(
    ("kind", "workers"), [("tiles", 1), ("tiles", 3), *(("agents", workers) for workers in (1, 2, 4))]
)
@pytest.mark.sampled(2)
@pytest.mark.slow
def test_any_number_of_workers(kind, workers, four, some_of_four, messages):
    """Agents need a message a batch to each worker: values are passed on with the question of a batch."""
    some_of_four(workers)
    policy = policy_of(kind, four)
    assert play(policy) == alone(kind)
    assert len(messages.workers()) == workers
    assert kind == "tiles" or len(messages.sent) <= 2 * len(policy.lengths)


@pytest.mark.parametrize(("kind", "threads"), [("tiles", 3), ("agents", 1), ("agents", 3)])
def test_threads(kind, threads):
    assert play(policy_of(kind, f"threads:{threads}")) == alone(kind)


@pytest.mark.slow
def test_a_batch_in_few_messages(four, messages):
    """A hundred points of a batch at once take fewer questions to the workers than points."""
    policy = sb.PhasedElimination(SPACE, KERNEL, horizon=10_000, engine="tiled", on=four)
    points = policy.ask(policy.missing)
    assert len(points) == 100
    assert len(messages.sent) < 100


@pytest.mark.slow
@every_kind
def test_workers_die(kind, four):
    killer = Killer(four, 1, HORIZON)
    assert play(policy_of(kind, four), killer) == alone(kind)
    assert len(killer.ended()) == 5
