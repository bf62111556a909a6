"""How long a run's shards stay on workers, and what may happen to the cluster meanwhile."""

import contextlib
import gc
import itertools
import os
import re
import signal
import subprocess
import sys
import time

import dask
import numpy as np
import pytest
from cases.cluster import by_hand, free_port, until
from cases.paths import PYTHONPATH, TESTS
from distributed import Client, LocalCluster

import scalable_bandits as sb
from scalable_bandits.execution import ClusterError, clusters, shard_pool

SPACE = sb.Grid([[0, 1]], 300)
PRIORS = [sb.Prior(f"{scale}", sb.RBF(scale)) for scale in (0.1, 0.2, 0.3, 0.4)]


def policy_of(on=None):
    return sb.PEGPUCB(SPACE, PRIORS, noise=0.1, regularization=0.01, seed=3, on=on)


def function():
    return sb.GPSample(SPACE, sb.RBF(0.2), sb.GaussianNoise(0.1), seed=4)


def actors(dask_worker):
    """Return the keys of the actors on a worker."""
    return list(map(str, dask_worker.state.actors))


def held(client):
    """Return the keys of the actors on all workers, perhaps also of earlier tests, which Dask deletes some time."""
    return {key for keys in client.run(actors).values() for key in keys}


@pytest.fixture
def quiet_cluster(forked_workers):
    """Cluster of two workers, for one test."""
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as cluster:
        yield cluster


def client_of(cluster):
    return Client(cluster, set_as_default=False)


ENDS = {
    "close": lambda held: held["policy"].close(),
    "delete": lambda held: (held.pop("policy", None), gc.collect()),
    "client": lambda held: held["client"].close(),
}


@pytest.mark.slow
@pytest.mark.parametrize("order", list(itertools.permutations(ENDS)), ids="-".join)
@pytest.mark.sampled(3)
def test_whatever_ends_first(order, client):
    """`close`, the end of the policy and of the client, in any order, leave no actor on a worker."""
    before = held(client)
    holding = {"client": Client(client.scheduler.address, set_as_default=False)}
    holding["policy"] = policy_of(holding["client"])
    sb.simulate(holding["policy"], function(), 3)
    mine = held(client) - before
    assert mine
    for number, step in enumerate(order):
        if step == "close" and "policy" not in holding:
            continue
        ENDS[step](holding)
        if number == 0 or step == "delete":
            until(lambda: mine.isdisjoint(held(client)))
    until(lambda: mine.isdisjoint(held(client)))


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from distributed import Client
import scalable_bandits as sb
from execution.test_shard_lifetimes import function, policy_of
{patch}
if __name__ == "__main__":
    policy = policy_of(Client({address!r}))
    print("begun", flush=True)
    sb.simulate(policy, function(), 10**6)
"""
SLOW = """
import time
from scalable_bandits.policies.prior_model import PriorShard
def slowly(self, *given, **named):
    time.sleep(60)
PriorShard.observe_round = slowly
import cloudpickle, scalable_bandits.policies.prior_model
cloudpickle.register_pickle_by_value(scalable_bandits.policies.prior_model)
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["at work", "first message"])
@pytest.mark.sampled(2)
def test_a_client_that_is_killed(when, client):
    """No worker keeps an actor of its run."""
    before = held(client)
    code = SCRIPT.format(
        tests=str(TESTS), address=client.scheduler.address,
        patch=SLOW if when == "first message" else "",
    )  # fmt: skip
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "begun\n"
        until(lambda: held(client) - before)
        mine = held(client) - before
        if when == "at work":
            time.sleep(0.5)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    until(lambda: mine.isdisjoint(held(client)))


@pytest.mark.slow
def test_idle_timeout():
    """A scheduler that closes when nothing is submitted for a while stays while a sharded run is at work."""
    options = {"idle_timeout": f"{4 * shard_pool.KEEPALIVE_SECONDS}s"}
    with (
        LocalCluster(
            n_workers=1, processes=False, dashboard_address="127.0.0.1:0", scheduler_kwargs=options
        ) as cluster,
        client_of(cluster) as client,
    ):
        policy, environment, stop = policy_of(client), function(), time.monotonic() + 9 * shard_pool.KEEPALIVE_SECONDS
        here = policy_of()
        while time.monotonic() < stop:
            x = policy.ask()
            assert x == here.ask()
            y = float(environment.evaluate(x[None])[0])
            policy.tell(x, y)
            here.tell(x, y)
            time.sleep(0.05)


@pytest.mark.slow
def test_adaptive():
    """A worker is started for a run, and kept until it ends."""
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        client_of(cluster) as client,
    ):
        cluster.adapt(minimum=0, maximum=2, interval="100ms")
        policy = policy_of(client)
        sb.simulate(policy, function(), 1)
        workers = set(client.nthreads())
        assert workers
        stop = time.monotonic() + 5.0
        while time.monotonic() < stop:
            sb.simulate(policy, function(), 1)
            assert workers <= set(client.nthreads())
            time.sleep(0.05)
        policy.close()
        del policy
        until(lambda: not client.nthreads())


def expected(rounds):
    return sb.simulate(policy_of(), function(), rounds).candidate


@pytest.mark.slow
def test_workers_that_leave_on_purpose(quiet_cluster):
    """After `close` and `retire_workers` the run continues on other workers, with the same numbers."""
    with client_of(quiet_cluster) as client:
        policy, environment, found = policy_of(client), function(), []
        for t in range(40):
            if t == 10:
                client.retire_workers([next(iter(client.nthreads()))])
            if t == 20:
                quiet_cluster.scale(2)
            if t == 30:
                quiet_cluster.scale(1)
            found += sb.simulate(policy, environment, 1).candidate.tolist() if not t else play(policy, environment, t)
        np.testing.assert_array_equal(found, expected(40))


def play(policy, environment, t):
    """Play one round as `simulate` does."""
    x = policy.ask()
    policy.tell(x, float(environment.evaluate(x[None])[0] + environment.noise_at(t + 1)))
    return SPACE.index(x[None]).tolist()


@pytest.mark.slow
def test_nobody_answers(messages, client):
    """After a stated time, and not before, with the setting named."""

    def nobody(given):
        time.sleep(0.05)
        return {worker: OSError("out of reach") for worker in given}

    policy = policy_of(client)
    sb.simulate(policy, function(), 2)
    x = policy.ask()
    messages.failure = nobody
    with dask.config.set({"scalable-bandits.patience": "1s"}):
        began = time.monotonic()
        with pytest.raises(ClusterError, match=r"no worker has answered for 1s \(scalable-bandits.patience"):
            policy.tell(x, 1.0)
        assert time.monotonic() - began > 1.0
    messages.failure = None
    policy.tell(x, 1.0)
    here = policy_of()
    sb.simulate(here, function(), 2)
    here.tell(here.ask(), 1.0)
    assert policy.ask() == here.ask()
    del policy
    gc.collect()


@pytest.mark.slow
def test_a_busy_machine(client, monkeypatch):
    """Workers whose every answer is late are not taken for lost."""
    monkeypatch.setattr(shard_pool, "POLL_SECONDS", 1e-4)
    policy, here = policy_of(client), policy_of()
    with dask.config.set({"scalable-bandits.patience": "1s"}):
        for _ in range(3):
            for each in (policy, here):
                sb.simulate(each, function(), 2)
            policy.close()  # its shards are started again
        assert policy.ask() == here.ask()


class TestUnfitWorkers:
    """The error names a worker that cannot be used, and the run continues without it."""

    BLOCKER = """
import importlib.metadata, sys
import distributed.versions
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "scalable_bandits":
            raise ModuleNotFoundError("No module named 'scalable_bandits'")
sys.meta_path.insert(0, Blocker())
version = importlib.metadata.version
def hidden(name):
    if name == "scalable_bandits":
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)
distributed.versions.version = hidden
"""

    @pytest.mark.slow
    def test_without_this_package(self, tmp_path):
        (tmp_path / "blocker.py").write_text(self.BLOCKER)
        with by_hand(tmp_path / "cluster", 1) as cluster, Client(cluster.address, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=300)
            policy, environment, found = policy_of(client), function(), []
            for t in range(5):
                found += play(policy, environment, t)
            unfit = cluster.worker("--preload", str(tmp_path / "blocker.py"))
            client.wait_for_workers(2, timeout=300)
            time.sleep(shard_pool.REBALANCE_SECONDS)
            with pytest.raises(ClusterError, match=r"tcp://.*: scalable_bandits is missing \(here"):
                policy.ask()
            with pytest.raises(ClusterError, match=r"scalable_bandits is missing \(here"):
                policy_of(client).ask()
            unfit.kill()
            until(lambda: len(client.nthreads()) == 1, 60)
            for t in range(5, 12):
                found += play(policy, environment, t)
            policy.close()
        np.testing.assert_array_equal(found, expected(12))

    @pytest.mark.parametrize(
        ("name", "version", "raised"),
        [
            ("scalable_bandits", "0.0.1", True),
            ("python", "2.7", True),
            pytest.param("numpy", "1", False, marks=pytest.mark.slow),
        ],
    )
    def test_other_versions(self, name, version, raised, client, monkeypatch):
        """Versions are compared again when a worker is first used, as it may have come after the client."""
        packages = [*clusters.DECISIVE[1:], *clusters.DIGITS]
        found = client.get_versions(packages=packages)
        ours = found["client"]["packages"]
        theirs, ours[name] = ours[name], version
        monkeypatch.setattr(clusters, "check_versions", lambda client: None)  # not that of the pool
        monkeypatch.setattr(client, "get_versions", lambda packages: found)
        policy = policy_of(client)
        here = rf"{name} {re.escape(theirs)} \(here {re.escape(version)}\)"
        if raised:
            with pytest.raises(ClusterError, match=here):
                policy.ask()
        else:
            with pytest.warns(UserWarning, match=here):
                policy.ask()


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def unused_network():
    """Return the first two numbers of addresses that nothing here has, not even what a killed run has left."""
    taken = subprocess.run(["ip", "-4", "addr"], check=True, capture_output=True, text=True).stdout
    numbers = (64 + (os.getpid() + more) % 64 for more in range(64))
    return next(f"10.{number}" for number in numbers if f"inet 10.{number}." not in taken)


@pytest.fixture
def networks():
    """Make two networks, each joined to this one by a pair of interfaces; yield the first two numbers and the names."""
    names = [f"sb{os.getpid() % 10_000}{side}" for side in "ab"]
    try:
        net = unused_network()
        for number, name in enumerate(names):
            ip("netns", "add", name)
            ip("link", "add", f"{name}h", "type", "veth", "peer", "name", f"{name}w", "netns", name)
            ip("addr", "add", f"{net}.{number}.1/24", "dev", f"{name}h")
            ip("link", "set", f"{name}h", "up")
            ip("-n", name, "addr", "add", f"{net}.{number}.2/24", "dev", f"{name}w")
            for device in ("lo", f"{name}w"):
                ip("-n", name, "link", "set", device, "up")
            ip("-n", name, "route", "add", "default", "via", f"{net}.{number}.1")
        yield net, names
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespaces here: {error}")
    finally:
        for name in names:
            with contextlib.suppress(OSError, subprocess.CalledProcessError):
                ip("netns", "delete", name)


@pytest.mark.slow
def test_other_networks(networks, messages, tmp_path):
    """Workers in networks of their own: the numbers of one process, also when one of them is cut off for good."""
    environment = {
        **os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s", "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "3s",
        "PYTHONPATH": PYTHONPATH,
    }  # fmt: skip
    net, namespaces = networks
    port, processes = free_port(), []

    def start(*command):
        with (tmp_path / "log").open("ab") as log:
            processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))

    python = (sys.executable, "-m")
    start(*python, "distributed.cli.dask_scheduler", "--host", f"{net}.0.1", "--port", str(port), "--no-dashboard",
          "--dashboard-address", "127.0.0.1:0")  # fmt: skip
    address = f"tcp://{net}.0.1:{port}"
    for number, name in enumerate(namespaces):
        start("ip", "netns", "exec", name, *python, "distributed.cli.dask_worker", address, "--nthreads", "1",
              "--no-nanny", "--no-dashboard", "--host", f"{net}.{number}.2")  # fmt: skip
    try:
        with (
            dask.config.set({"distributed.comm.timeouts.tcp": "12s", "distributed.comm.timeouts.connect": "3s"}),
            Client(address, set_as_default=False, timeout=30, direct_to_workers=True) as client,
        ):
            client.wait_for_workers(2, timeout=300)
            policy, function_, found = policy_of(client), function(), []
            for t in range(40):
                if t == 20:
                    assert len(set(messages.homes().values())) == 2
                    ip("link", "set", f"{namespaces[1]}h", "down")
                found += play(policy, function_, t)
            assert all(f"//{net}.0.2:" in worker for worker in messages.homes().values())
            policy.close()
    finally:
        for process in processes:
            process.kill()
            process.wait()
    np.testing.assert_array_equal(found, expected(40))
