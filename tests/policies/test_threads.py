"""One policy that several threads ask and tell."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import scalable_bandits as sb

OPTIONS = {"noise": 0.1, "regularization": 0.01}
POLICIES = {
    "box": lambda: sb.IGPUCB(sb.Box([[0, 1], [0, 1]]), sb.RBF(0.3), candidates=64, **OPTIONS),
    "batches": lambda: sb.PhasedElimination(
        sb.Grid([[0, 1], [0, 1]], 8), sb.RBF(0.3), horizon=500, shrinkage=1.5, **OPTIONS
    ),
}


def shared(policy, threads=8, rounds=4):
    """Points and values (k, 3) that threads ask and tell one policy, in between told, failed, abandoned and read."""

    def work(number):
        told, rng = [], np.random.default_rng(number)
        for i in range(rounds):
            x = policy.ask()
            others = [] if policy.space.finite else [rng.random(2)]  # a grid point may be pending
            for point in (x, *others):
                policy.tell(point, float(np.sum(point)))
                told.append([*point, float(np.sum(point))])
            policy.posterior(rng.random((3, 2))), policy.interval(x), policy.best(), policy.observations
            policy.abandon(policy.ask()) if i % 2 else policy.tell_failure(policy.ask())
        return told

    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(work, range(threads))))


def ordered(rows):
    return rows[np.lexsort(rows.T)]


@pytest.mark.parametrize(("name", "recorded"), [("box", False), ("box", True), ("batches", False)])
def test_threads_share_a_policy(name, recorded, tmp_path):
    """What they told is what it has learned and recorded, and nothing is pending."""
    policy, store = POLICIES[name](), tmp_path / "run.zarr"
    held = sb.record(policy, store, durability="block") if recorded else None
    told = shared(policy)
    assert (policy.rounds, policy.failures, policy.pending) == (len(told), 16, [])
    if held is not None:
        held.close()
        with sb.record(POLICIES[name](), store) as again:
            rows = again.store.read(names=["x", "y"])
            np.testing.assert_array_equal(ordered(np.column_stack([rows["x"], rows["y"]])), ordered(told))
            assert again.policy.failures == 16


def test_a_copy_has_a_lock_of_its_own():
    """Also one that is made while another thread is at work."""
    policy = POLICIES["box"]()
    with policy._lock, ThreadPoolExecutor(1) as pool:
        for other in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
            assert pool.submit(other.ask).result(timeout=60).shape == (2,)
