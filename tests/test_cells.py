"""Cells of a partition on workers: the numbers of one process, on any number of workers, also when they die."""

import functools
from contextlib import suppress

import numpy as np
import pytest
import threadpoolctl
from cluster_cases import Killer

import scalable_bandits as sb
from scalable_bandits.execution import shard_pool
from scalable_bandits.policies import pigpucb
from scalable_bandits.posteriors.partition.remote_cells import SHARDS, CellsShard, RemoteCells
from scalable_bandits.posteriors.placement import InProcess, LocalShards

SPACES = {
    "line": sb.Grid([[0, 1]], 120),
    "grid": sb.Grid([[0, 1]] * 2, (20, 16)),
    "points": sb.Points(np.random.default_rng(0).random((150, 2))),
    "box": sb.Box([[0, 1], [0, 2]]),
}
HORIZON = {"box": 18}


@pytest.fixture(autouse=True)
def one_thread():
    """Give BLAS one thread, as on the workers."""
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        yield


def policy_of(space, on=None, tightening=False, horizon=None):
    return sb.PiGPUCB(
        SPACES[space], sb.Matern(0.2, nu=1.5), noise=0.1, rkhs_norm=1.0, seed=2, tightening=tightening,
        horizon=horizon, on=on,
    )  # fmt: skip


def play(policy, before=lambda t: None, rounds=120):
    """Play a run; return its points (also several at once, and of those available), widths, gains and cover."""
    seen, box = [], isinstance(policy.space, sb.Box)
    for t in range(1, rounds + 1):
        before(t)
        allowed = np.arange(t % 5, policy.space.size, 2) if t % 9 == 0 and not box else None
        x = policy.ask(available=allowed)
        more = [policy.ask() for _ in range(2 if t % 20 == 0 else 0)]
        seen.append([*x.tolist(), *np.ravel(more).tolist(), policy.width, policy.information_gain])
        policy.tell(x, float(np.sin(7 * x.sum()) + 0.1 * np.sin(31.0 * t)))
        if t % 15 == 0:
            policy.tell(x, 0.3)  # a second observation before the next question
        policy.abandon()
    mean, std = policy.posterior([[0.3] * policy.space.dimension])
    best = policy.best()
    return repr(seen), mean.tolist(), std.tolist(), best.mean, best.x.tolist(), policy.evaluations, repr(policy.cover)


@functools.cache
def alone(space, tightening=False, horizon=None):
    """Play the same run in this process, one cell after the other."""
    found = play(policy_of(space, tightening=tightening, horizon=horizon), rounds=HORIZON.get(space, 120))
    assert found[-1].count("split=None") > 1
    return found


def until_it_works(function, *arguments):
    """Call a function until it raises no ConnectionError."""
    while True:
        with suppress(ConnectionError):
            return function(*arguments)


class TestInProcess:
    @pytest.mark.parametrize("horizon", [None, 200])
    @pytest.mark.parametrize("tightening", [False, True])
    @pytest.mark.parametrize("space", SPACES)
    def test_same_numbers(self, space, tightening, horizon, monkeypatch):
        """Cells in shards of this process."""
        monkeypatch.setattr("scalable_bandits.policies.sharded.executor", lambda on: InProcess())
        policy = policy_of(space, "here", tightening, horizon)
        assert isinstance(policy._shard, RemoteCells)
        assert play(policy, rounds=HORIZON.get(space, 120)) == alone(space, tightening, horizon)

    @pytest.mark.parametrize("space", SPACES)
    def test_threads(self, space):
        """Cells in shards, of which two are computed at the same time."""
        assert play(policy_of(space, "threads:2"), rounds=HORIZON.get(space, 120)) == alone(space)

    @pytest.mark.parametrize("tightening", [False, True])
    def test_shards_out_of_reach(self, tightening, monkeypatch):
        """A call that failed succeeds when repeated, also where some cells have the observation already."""
        again, chance = [], np.random.default_rng(1)

        class Unreachable(LocalShards):
            def ask(self, numbers, method, *arguments):
                if chance.random() < 0.3 and (not again or again[-1]):
                    raise ConnectionError(method)
                return super().ask(numbers, method, *arguments)

        class Away(InProcess):
            def shards(self, makers, name, source=None):
                return Unreachable(makers)

        def tell_again():
            again.append(False)  # meanwhile all shards can be reached
            found = there.__class__._tell_again(there)
            again.append(True)
            return found

        monkeypatch.setattr("scalable_bandits.policies.sharded.executor", lambda on: Away())
        here, there = policy_of("points", None, tightening), policy_of("points", "away", tightening)
        there._tell_again = tell_again
        for t in range(60):
            x = here.ask()
            np.testing.assert_array_equal(until_it_works(there.ask), x)
            for policy in (here, there):
                until_it_works(policy.tell, x, float(np.sin(7 * x.sum() + t)))
            assert there.rounds == here.rounds == t + 1
        assert until_it_works(lambda: there.width) == here.width
        assert again

    def test_a_cache(self):
        """Tasks change nothing that has to be repeated; observations do."""
        methods = {name for name, value in vars(CellsShard).items() if callable(value) and not name.startswith("_")}
        assert methods - CellsShard.changing == {"work", "restore"}

    def test_many_at_once(self, monkeypatch):
        """After a split, one message asks for all summits that have to be found again."""
        monkeypatch.setattr("scalable_bandits.policies.sharded.executor", lambda on: InProcess())
        policy, asked = policy_of("box", "here"), []
        original = RemoteCells._ask

        def ask(self, tasks):
            asked.append([task.method for task in tasks])
            return original(self, tasks)

        monkeypatch.setattr(RemoteCells, "_ask", ask)
        play(policy, rounds=12)
        assert max(tasks.count("evaluate") for tasks in asked) >= 4


class TestOnWorkers:
    @pytest.mark.parametrize(
        ("space", "workers", "tightening"),
        [("grid", 1, False), ("grid", 2, False), ("grid", 4, False), ("line", 4, True), ("box", 4, False)],
    )
    def test_same_numbers(self, space, workers, tightening, four, monkeypatch):
        known = shard_pool._workers
        monkeypatch.setattr(shard_pool, "_workers", lambda *given: set(sorted(known(*given))[:workers]))
        policy = policy_of(space, four, tightening)
        assert play(policy, rounds=HORIZON.get(space, 120)) == alone(space, tightening)
        assert len(set(policy._shard._shards._homes.values())) == workers

    @pytest.mark.parametrize(("space", "kills"), [("grid", 15), ("box", 5)])
    def test_deaths(self, space, kills, four):
        """The shards of killed workers are made again on others."""
        rounds = HORIZON.get(space, 120)
        killer = Killer(four, kills, rounds, kills=kills)
        assert play(policy_of(space, four), killer, rounds) == alone(space)
        assert len(killer.ended()) == kills

    def test_messages(self, four, monkeypatch):
        """A message goes only to shards whose cells have a new observation, or whose summits are needed."""
        sent = []
        original = shard_pool.ShardPool._send

        def send(self, groups, call, expected):
            parts = sorted(number for numbers in groups.values() for number in numbers)
            assert parts == sorted(call.arguments[0])
            sent.append(parts)
            return original(self, groups, call, expected)

        monkeypatch.setattr(shard_pool.ShardPool, "_send", send)
        policy = policy_of("grid", four, horizon=200)
        sb.simulate(policy, sb.GPSample(SPACES["grid"], sb.Matern(0.2, nu=1.5), sb.GaussianNoise(0.1)), 60)
        assert np.mean([len(parts) for parts in sent]) < SHARDS / 4
        assert len(sent) < 3 * 60

    def test_store(self, four, tmp_path):
        """A stored run of this process continues on workers, and the reverse."""
        function = sb.GPSample(SPACES["grid"], sb.Matern(0.2, nu=1.5), sb.GaussianNoise(0.1))
        whole = sb.simulate(policy_of("grid"), function, 40)
        for first, second in ((None, four), (four, None)):
            place = tmp_path / str(first is None)
            sb.simulate(policy_of("grid", first), function, 15, store=place)
            run = sb.simulate(policy_of("grid", second), function, 40, store=place)
            for name in ("candidate", "width", "information_gain"):
                np.testing.assert_array_equal(getattr(run, name), getattr(whole, name))

    def test_specification(self):
        """The specification does not contain `on`."""
        assert policy_of("grid", "local:2").to_dict() == policy_of("grid").to_dict()
        assert pigpucb.PiGPUCB.from_dict(policy_of("grid", "local:2").to_dict()).on is None
