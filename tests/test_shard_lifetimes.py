"""How long what a run holds on workers lives there, and what a cluster's owner may do meanwhile."""

import gc
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cluster_cases import by_hand, until
from distributed import Client, LocalCluster

import scalable_bandits as sb
from scalable_bandits.execution import ClusterError, actors, shard_pool

SPACE = sb.Grid([[0, 1]], 300)
PRIORS = [sb.Prior(f"{scale}", sb.RBF(scale)) for scale in (0.1, 0.2, 0.3, 0.4)]


def policy_of(on=None):
    return sb.PEGPUCB(SPACE, PRIORS, noise=0.1, regularization=0.01, seed=3, on=on)


def function():
    return sb.GPSample(SPACE, sb.RBF(0.2), sb.GaussianNoise(0.1), seed=4)


def count(dask_worker):
    """Actors on a worker."""
    return len(dask_worker.state.actors)


def held(client):
    """Actors on all workers."""
    return sum(client.run(count).values())


@pytest.fixture
def quiet_cluster():
    """Two workers of this process's own."""
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        yield cluster


def client_of(cluster):
    return Client(cluster, set_as_default=False)


ENDS = {
    "close": lambda held: held["policy"].close(),
    "delete": lambda held: held.pop("policy", None),
    "client": lambda held: held["client"].close(),
}


@pytest.mark.parametrize("order", list(itertools.permutations(ENDS)), ids="-".join)
def test_whatever_ends_first(order, client):
    """`close`, the policy and the client may go in any order; a worker then holds nothing of the run."""
    before = held(client)
    holding = {"client": Client(client.scheduler.address, set_as_default=False)}
    holding["policy"] = policy_of(holding["client"])
    sb.simulate(holding["policy"], function(), 3)
    assert held(client) > before
    for number, step in enumerate(order):
        if step == "close" and "policy" not in holding:
            continue
        ENDS[step](holding)
        if number == 0 or step == "delete":
            until(lambda: held(client) == before, 10)
    until(lambda: held(client) == before, 10)


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from distributed import Client
import scalable_bandits as sb
from test_shard_lifetimes import function, policy_of
{patch}
if __name__ == "__main__":
    policy = policy_of(Client({address!r}))
    print("begun", flush=True)
    sb.simulate(policy, function(), 10**6)
"""
SLOW = """
import time
from scalable_bandits.policies.shards import PriorShard
def slowly(self, *given, **named):
    time.sleep(60)
PriorShard.observe = slowly
import cloudpickle, scalable_bandits.policies.shards
cloudpickle.register_pickle_by_value(scalable_bandits.policies.shards)
"""


@pytest.mark.parametrize("when", ["at work", "first message"])
def test_a_client_that_is_killed(when, client):
    """Ten seconds later nothing of its run is on any worker, as another client sees."""
    before = held(client)
    code = SCRIPT.format(
        tests=str(Path(__file__).parent), address=client.scheduler.address,
        patch=SLOW if when == "first message" else "",
    )  # fmt: skip
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "begun\n"
        until(lambda: held(client) > before, 30)
        if when == "at work":
            time.sleep(0.5)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    until(lambda: held(client) == before, 10)


def test_idle_timeout(monkeypatch):
    """A scheduler that closes when nothing is submitted for a second stays while a sharded run is at work."""
    monkeypatch.setattr(actors, "BEAT_SECONDS", 0.3)
    with (
        LocalCluster(
            n_workers=1, processes=False, dashboard_address=None, scheduler_kwargs={"idle_timeout": "1s"}
        ) as cluster,
        client_of(cluster) as client,
    ):
        policy, environment, stop = policy_of(client), function(), time.monotonic() + 5.0
        here = policy_of()
        while time.monotonic() < stop:
            x = policy.ask()
            assert x == here.ask()
            y = float(environment.evaluate(x[None])[0])
            policy.tell(x, y)
            here.tell(x, y)


def test_adaptive():
    """A worker is started for a run, and kept while it is at work."""
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster,
        client_of(cluster) as client,
    ):
        cluster.adapt(minimum=0, maximum=2, interval="100ms")
        policy, started = policy_of(client), time.monotonic()
        sb.simulate(policy, function(), 1)
        assert time.monotonic() - started < 20
        workers = set(client.nthreads())
        assert workers
        stop = time.monotonic() + 5.0
        while time.monotonic() < stop:
            sb.simulate(policy, function(), 1)
            assert workers <= set(client.nthreads())
        policy.close()
        del policy
        until(lambda: not client.nthreads(), 30)


def expected(rounds):
    return sb.simulate(policy_of(), function(), rounds).candidate


def test_workers_that_leave_on_purpose(quiet_cluster):
    """By `close` and by `retire_workers`: the run goes on elsewhere, with the same numbers."""
    with client_of(quiet_cluster) as client:
        policy, environment, found, longest = policy_of(client), function(), [], 0.0
        for t in range(40):
            if t == 10:
                client.retire_workers([next(iter(client.nthreads()))])
            if t == 20:
                quiet_cluster.scale(2)
            if t == 30:
                quiet_cluster.scale(1)
            began = time.monotonic()
            found += sb.simulate(policy, environment, 1).candidate.tolist() if not t else play(policy, environment, t)
            longest = max(longest, time.monotonic() - began)
        np.testing.assert_array_equal(found, expected(40))
        assert longest < 20  # far from ending the run; the benchmark has the figure


def play(policy, environment, t):
    """One round, as `simulate` plays it."""
    x = policy.ask()
    policy.tell(x, float(environment.evaluate(x[None])[0] + environment.noise_at(t + 1)))
    return SPACE.index(x[None]).tolist()


def test_a_lifetime(tmp_path):
    """A worker whose time is up leaves a run that goes on elsewhere."""
    with by_hand(tmp_path / "cluster", 1) as cluster:
        cluster.worker("--lifetime", "6s")
        with Client(cluster.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            policy, environment, found = policy_of(client), function(), []
            stop = time.monotonic() + 12
            while time.monotonic() < stop:
                found += play(policy, environment, len(found))
            assert len(client.nthreads()) == 1
            policy.close()
    np.testing.assert_array_equal(found, expected(len(found)))


def test_nobody_answers(monkeypatch, client):
    """After a stated time, and not before, with the setting named."""
    import dask

    def nobody(self, client, groups, call, expected):
        time.sleep(0.05)
        return {worker: OSError("out of reach") for worker in groups}

    policy = policy_of(client)
    sb.simulate(policy, function(), 2)
    x = policy.ask()
    monkeypatch.setattr(shard_pool, "LINGER_SECONDS", 0.1)
    with monkeypatch.context() as patch, dask.config.set({"scalable-bandits.patience": "1s"}):
        patch.setattr(shard_pool.ShardPool, "_send", nobody)
        began = time.monotonic()
        with pytest.raises(ClusterError, match=r"no worker has answered for 1s \(scalable-bandits.patience"):
            policy.tell(x, 1.0)
        assert time.monotonic() - began > 1.0
    policy.tell(x, 1.0)
    here = policy_of()
    sb.simulate(here, function(), 2)
    here.tell(here.ask(), 1.0)
    assert policy.ask() == here.ask()
    del policy
    gc.collect()
