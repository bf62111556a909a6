"""Priors on workers: the numbers of one process, also when workers die, and nothing is left on the cluster."""

import copy
import functools
import gc
import importlib
import pickle
import subprocess
import sys
from collections import Counter

import numpy as np
import psutil
import pytest
from cases.cluster import Killer, until
from distributed import Client, Security

import scalable_bandits as sb
from scalable_bandits.execution import ClusterError, shard_pool
from scalable_bandits.execution.clusters import local
from scalable_bandits.posteriors.placement import InProcess, Shards
from scalable_bandits.specification import specify

KINDS = (sb.PEGPUCB, sb.MLEGPUCB, sb.FullyBayesianGPUCB, sb.RegretBalancing)
SPACE = sb.Grid([[0, 1]], 90)
HORIZON = 40
every_kind = pytest.mark.parametrize("kind", KINDS)


pytestmark = pytest.mark.usefixtures("one_thread")


def hill(place, points, t):
    return np.exp(-(((points[:, 0] - place) / 0.2) ** 2)) * np.cos(t / 9)


def priors(moving=False):
    """Return eight priors, of which a third are soon rejected."""
    means = [functools.partial(hill, place) if moving else place for place in (0.0, 0.1, 8.0)]
    kernels = (sb.RBF(0.1), sb.RBF(0.3), sb.Matern(0.2, nu=1.5))
    named = [(mean, kernel) for mean in means for kernel in kernels][:8]
    return [sb.Prior(f"{number}", kernel, mean) for number, (mean, kernel) in enumerate(named)]


def policy_of(kind, on=None, moving=False, **options):
    return kind(SPACE, priors(moving), noise=0.1, regularization=0.01, seed=3, on=on, **options)


def function():
    return sb.GPSample(SPACE, sb.RBF(0.2), sb.GaussianNoise(0.1), seed=4)


def play(policy, before=lambda t: None, horizon=HORIZON):
    """Play a run; return its points, widths and gains, and the posterior at its end."""
    environment, seen = function(), []
    for t in range(1, horizon + 1):
        before(t)
        allowed = np.arange(t % 7, SPACE.size, 2) if t % 5 == 0 else None
        x = policy.ask(available=allowed)
        more = [policy.ask() for _ in range(2 if t % 8 == 0 else 0)]
        seen.append([float(x[0]), *map(float, np.ravel(more)), policy.width, policy.information_gain])
        policy.tell(x, float(environment.evaluate(x[None])[0] + environment.noise_at(t)))
        if more and t % 16:
            policy.abandon()
    mean, std = policy.posterior([[0.31], [0.77]])
    evidence = policy.log_likelihoods
    return seen, mean.tolist(), std.tolist(), evidence, policy.plays, policy.rejections, policy.best().mean


@functools.cache
def alone(kind, moving=False, engine="auto"):
    """Play the same run in this process."""
    return play(policy_of(kind, moving=moving, engine=engine))


def tell_in_vain(policy, here, error, messages, every):
    """Play twelve rounds on workers and here, where workers fail in every so many a round, which is told again."""

    def failure(given):
        raise error

    environment = function()
    for t in range(1, 13):
        x = policy.ask()
        assert x == here.ask()
        y = float(environment.evaluate(x[None])[0] + environment.noise_at(t))
        if t % every == 0:
            messages.failure = failure
            with pytest.raises((error, ClusterError)):
                policy.tell(x, y)
            messages.failure = None
            assert (policy.rounds, policy.pending) == (t - 1, [x])
        policy.tell(x, y)
        here.tell(x, y)
    assert policy.pending == []
    assert policy.log_likelihoods == here.log_likelihoods


class TestSameNumbers:
    @pytest.mark.parametrize("workers", [1, 2, 4])
    @every_kind
    @pytest.mark.sampled(12)
    def test_any_number_of_workers(self, kind, workers, four, some_of_four, messages):
        """The workers share the priors evenly, and none of them is asked for nothing."""
        some_of_four(workers)
        policy = policy_of(kind, four)
        assert play(policy) == alone(kind)
        homes = Counter(messages.homes().values())
        assert len(homes) == workers
        assert set(homes.values()) == {8 // workers}
        assert {worker for sent in messages.sent for worker in sent} == set(homes)
        assert policy.rejections or kind is not sb.PEGPUCB

    @pytest.mark.parametrize("threads", [1, 3])
    @every_kind
    @pytest.mark.sampled(4)
    def test_threads(self, kind, threads):
        assert play(policy_of(kind, f"threads:{threads}")) == alone(kind)

    @pytest.mark.slow
    def test_by_way_of_the_scheduler(self, four, monkeypatch):
        """A client without a direct connection to the workers."""
        monkeypatch.setattr(four, "direct_to_workers", False)
        assert play(policy_of(sb.PEGPUCB, four)) == alone(sb.PEGPUCB)

    @pytest.mark.slow
    @pytest.mark.parametrize("moving", [False, True])
    @pytest.mark.sampled(2)
    def test_other_engines(self, moving, four, small_tiles):
        """Also the tiled engine, with small tiles on the workers too."""
        small = {"tiled.tiles.TILE": 64, "tiled.tiles.WINDOW": 16, "tiled.tiles.COLUMN_MULTIPLE": 16}
        usual = next(iter(four.run(tiles_are, small).values()))
        try:
            assert play(policy_of(sb.PEGPUCB, four, moving, engine="tiled")) == alone(sb.PEGPUCB, moving, "tiled")
        finally:
            four.run(tiles_are, usual)

    @pytest.mark.slow
    def test_two_messages_a_round(self, four, messages):
        """To each worker, one for what is played and one with what was observed."""
        for kind in KINDS:
            policy = policy_of(kind, four)
            sb.simulate(policy, function(), 3)
            messages.sent.clear()
            sb.simulate(policy, function(), 12)
            assert len(messages.sent) <= 25


def tiles_are(sizes):
    """Set constants of the blocked engine; return their former values."""
    before = {}
    for name, value in sizes.items():
        module, _, constant = name.rpartition(".")
        found = importlib.import_module(f"scalable_bandits.posteriors.{module}")
        before[name] = getattr(found, constant)
        setattr(found, constant, value)
    return before


class TestDeaths:
    @pytest.mark.slow
    @every_kind
    @pytest.mark.parametrize("direct", [True, False])
    @pytest.mark.sampled(4)
    def test_the_run_goes_on(self, kind, direct, four, monkeypatch):
        """Twenty kills each way; the same numbers, and every one of them hit a worker."""
        monkeypatch.setattr(four, "direct_to_workers", direct)
        killer = Killer(four, KINDS.index(kind), HORIZON)
        policy = policy_of(kind, four)
        found = play(policy, killer)
        assert len(killer.ended()) == 5
        assert found == alone(kind)

    @pytest.mark.slow
    def test_a_worker_added_late(self, four, some_of_four, messages, monkeypatch):
        """Takes its share of the priors, made again there."""
        some_of_four(1)

        def more(t):
            if t == HORIZON // 2:
                assert len(set(messages.homes().values())) == 1
                some_of_four(4)
                monkeypatch.setattr(shard_pool, "REBALANCE_SECONDS", 0.0)  # all are asked each time: spread each time

        assert play(policy_of(sb.FullyBayesianGPUCB, four), more) == alone(sb.FullyBayesianGPUCB)
        homes = list(messages.homes().values())
        assert {homes.count(home) for home in homes} == {8 // len(four.nthreads())}

    @pytest.mark.slow
    @pytest.mark.usefixtures("forked_workers")
    def test_the_scheduler_is_gone(self):
        """ClusterError is raised, and earlier observations are kept."""
        with local(1) as client:
            policy = policy_of(sb.PEGPUCB, client)
            run = sb.simulate(policy, function(), 5)
        with pytest.raises(ClusterError, match=r"the connection to the scheduler at .* was lost"):
            policy.tell([0.0], 1.0)
        assert policy.rounds == 5
        assert len(run) == 5

    @pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
    @pytest.mark.sampled(2)
    def test_told_in_vain(self, error, four, messages):
        """Its point is pending still; told again, the run goes on as if nothing had been."""
        tell_in_vain(policy_of(sb.PEGPUCB, four), policy_of(sb.PEGPUCB), error, messages, 4)

    @pytest.mark.slow
    def test_errors_of_a_prior(self, four):
        """The error of a prior is raised itself, and the policy has not changed."""
        wrong = sb.Prior("wrong", sb.RBF(0.2), breaks_at_five)
        policy, other = (
            sb.PEGPUCB(SPACE, [*priors(), wrong], noise=0.1, regularization=0.01, on=on) for on in (four, None)
        )
        for each in (policy, other):
            with pytest.raises(LookupError, match="no forecast for round 5"):
                sb.simulate(each, function(), 9)
            assert each.rounds == 4
        assert policy.log_likelihoods == other.log_likelihoods
        np.testing.assert_array_equal(policy.posterior([[0.4]]), other.posterior([[0.4]]))


def breaks_at_five(points, t):
    if t == 5:
        raise LookupError("no forecast for round 5")
    return np.zeros(len(points))


class TestAcrossExecutions:
    @every_kind
    @pytest.mark.sampled(4)
    def test_state(self, kind, four):
        """A state of workers is restored in this process, and the reverse."""
        there, here = policy_of(kind, four), policy_of(kind)
        for policy in (there, here):
            sb.simulate(policy, function(), 20)
        back, forth = policy_of(kind), policy_of(kind, four)
        back.restore(there.state())
        forth.restore(here.state())
        found = [sb.simulate(policy, function(), 10).candidate.tolist() for policy in (there, here, back, forth)]
        assert found.count(found[0]) == 4

    def test_specification(self, four):
        """The specification does not contain `on`, whose value has to be valid."""
        there, here = policy_of(sb.PEGPUCB, four), policy_of(sb.PEGPUCB)
        assert there.to_dict() == here.to_dict()
        assert specify({"policy": there})[0] == specify({"policy": here})[0]
        assert sb.PEGPUCB.from_dict(there.to_dict()).on is None
        for on in ("local:0", 3, "nowhere"):
            with pytest.raises(ValueError, match=r"^on: got .*; allowed: None, 'local', 'local:4'"):
                policy_of(sb.PEGPUCB, on)

    @pytest.mark.parametrize(
        "duplicate", [copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))], ids=["deep", "pickle"]
    )
    @pytest.mark.sampled(2)
    def test_a_copy(self, duplicate, four):
        """A copy has the scheduler's address, and plays the same as the original."""
        policy = policy_of(sb.PEGPUCB, four)
        sb.simulate(policy, function(), 12)
        with duplicate(policy) as other:
            assert other.on == four.scheduler.address
            assert policy.on is four
            here = policy_of(sb.PEGPUCB)
            sb.simulate(here, function(), 12)
            found = [sb.simulate(each, function(), 10).candidate.tolist() for each in (policy, other, here)]
        assert found.count(found[0]) == 3

    @pytest.mark.slow
    @pytest.mark.usefixtures("forked_workers")
    def test_a_copy_without_a_scheduler(self):
        with local(1) as found:
            client = Client(found.scheduler.address, set_as_default=False)
            policy = policy_of(sb.PEGPUCB, client)
            client.close()
            with pytest.raises(ClusterError, match=r"^on: the client is closed; a copy"):
                pickle.dumps(policy)

    @pytest.mark.slow
    @pytest.mark.usefixtures("forked_workers")
    @pytest.mark.parametrize("in_files", [True, False])
    def test_a_copy_of_a_client_with_certificates(self, in_files, tmp_path):
        """A pickle has the names of the files, and no private key; a copy in this process needs no files."""
        pytest.importorskip("cryptography", reason="cryptography is not installed")
        security = Security.temporary()
        if in_files:
            for name in [name for name in security.__slots__ if "\n" in str(getattr(security, name))]:
                (tmp_path / name).write_text(getattr(security, name))
                setattr(security, name, str(tmp_path / name))
        with local(1, security=security) as client:
            policy = policy_of(sb.PEGPUCB, client)
            sb.simulate(policy, function(), 3)
            pickled = pickle.dumps(policy)
            assert b"PRIVATE KEY" not in pickled
            with copy.deepcopy(policy) as other:
                expected = other.ask().tolist()
            assert policy.ask().tolist() == expected
            with pickle.loads(pickled) as other:
                if in_files:
                    assert other.ask().tolist() == expected
                else:
                    with pytest.raises(ClusterError, match=r"^on: no scheduler can be reached at tls:.* not those in"):
                        other.ask()

    @pytest.mark.parametrize(
        ("kind", "given"),
        [
            pytest.param(sb.PEGPUCB, {"priors": priors()}, marks=pytest.mark.slow),
            (sb.LBGPUCB, {"kernel": sb.RBF(0.6), "growth": 1.0, "initial": 1}),
        ],
    )
    def test_points_of_a_box(self, kind, given, four):
        """An observation between the candidates: all shards are made again on the longer set."""
        found = []
        for on in (None, four):
            policy = kind(sb.Box([[0, 1]]), **given, noise=0.1, regularization=0.01, candidates=64, on=on)
            for y in (0.1, 0.3, 0.2):
                policy.tell(policy.ask(), y)
                policy.tell([y], -y)
            found.append((policy.ask().tolist(), policy.log_likelihoods, policy.information_gain))
        assert found[0] == found[1]


class TestLengthscales:
    """Of LBGPUCB, whose shards become more as rounds pass."""

    @staticmethod
    def policy_of(on=None, **options):
        return sb.LBGPUCB(
            SPACE, sb.RBF(0.6), rkhs_norm=0.5, growth=1.0, initial=2, noise=0.1, regularization=0.01, seed=3, on=on,
            **options,
        )  # fmt: skip

    @functools.cached_property
    def alone(self):
        found = play(self.policy_of())
        assert len(found[4]) == 4  # two, and one after rounds 8 and 21
        return found

    @pytest.mark.parametrize("on", ["threads:3", 1, 3])
    @pytest.mark.sampled(3)
    def test_same_numbers(self, on, four, some_of_four):
        if isinstance(on, int):
            some_of_four(on)
            on = four
        assert play(self.policy_of(on)) == self.alone

    @pytest.mark.parametrize("rounds", [7, 8, 20])
    @pytest.mark.sampled(3)
    @pytest.mark.slow
    def test_states_and_copies(self, rounds, four):
        there, here = self.policy_of(four), self.policy_of()
        for policy in (there, here):
            sb.simulate(policy, function(), rounds)
        back, forth = self.policy_of(), self.policy_of(four)
        back.restore(there.state())
        forth.restore(here.state())
        policies = [there, here, back, forth, pickle.loads(pickle.dumps(there))]
        runs = [sb.simulate(policy, function(), 10) for policy in policies]
        for policy, run in zip(policies, runs, strict=True):
            np.testing.assert_array_equal(run.candidate, runs[1].candidate)
            np.testing.assert_array_equal(run.information_gain, runs[1].information_gain)
            assert policy.log_likelihoods == here.log_likelihoods

    @pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
    @pytest.mark.sampled(2)
    def test_told_in_vain(self, error, four, messages):
        """Also in the round that adds a lengthscale; told again, the run goes on as if nothing had been."""
        policy = self.policy_of(four)
        tell_in_vain(policy, self.policy_of(), error, messages, 1)
        assert len(policy.priors) == 3


def actors(dask_worker):
    """Number of actors on a worker, of all runs."""
    return len(dask_worker.state.actors)


class TestEnds:
    @pytest.mark.slow
    @pytest.mark.usefixtures("forked_workers")
    def test_own_cluster(self):
        """The cluster ends by `close`, by `with`, and with the policy, and starts again when needed."""
        me = psutil.Process()
        before = set(me.children(recursive=True))

        def added():
            return [
                p
                for p in me.children(recursive=True)
                if p not in before and "resource_tracker" not in "".join(p.cmdline())
            ]

        with policy_of(sb.PEGPUCB, "local:1") as policy:
            assert not added()  # it starts when needed
            first = sb.simulate(policy, function(), 4)
            assert added()
        assert not psutil.wait_procs(added(), timeout=60)[1]
        second = sb.simulate(policy, function(), 4)
        assert added()
        other = pickle.loads(pickle.dumps(policy))
        del policy
        gc.collect()
        assert not psutil.wait_procs(added(), timeout=60)[1]
        here = policy_of(sb.PEGPUCB)
        assert first.candidate.tolist() + second.candidate.tolist() == [
            *sb.simulate(here, function(), 4).candidate, *sb.simulate(here, function(), 4).candidate,
        ]  # fmt: skip
        with other:
            assert other.log_likelihoods == here.log_likelihoods
            assert (other.ask() == here.ask()).all()

    @pytest.mark.slow
    def test_end_of_the_process(self):
        """Without `close` the process ends without output, and no other process is left."""
        code = """
import psutil
import scalable_bandits as sb
if __name__ == "__main__":
    policy = sb.PEGPUCB(sb.Grid([[0, 1]], 20), [sb.Prior("a", sb.RBF(0.2))], on="local:1")
    policy.tell(policy.ask(), 0.3)
    print(*[p.pid for p in psutil.Process().children(recursive=True)])
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        assert done.stderr == ""
        assert done.stdout.split()
        until(lambda: not any(psutil.pid_exists(int(pid)) for pid in done.stdout.split()))

    @pytest.mark.slow
    def test_own_client(self, client, messages):
        """Stays open; its workers forget the priors, without having been told more than to."""
        before = set(client.futures), sum(client.run(actors).values())
        policy = policy_of(sb.PEGPUCB, client)
        sb.simulate(policy, function(), 3)
        homes = messages.homes()
        assert set(homes) == set(range(8))
        assert sum(client.run(actors).values()) == before[1] + len(set(homes.values()))
        policy.close()
        until(lambda: sum(client.run(actors).values()) == before[1])
        sb.simulate(policy, function(), 3)
        del policy
        gc.collect()
        until(lambda: sum(client.run(actors).values()) == before[1])
        assert client.status == "running"
        until(lambda: set(client.futures) == before[0])


class Lasting(InProcess):
    """Executor of shards of this process that could be lost."""

    remote = True

    def shards(self, source, count, name):
        class Own(Shards):
            def here(self):
                return None

        return Own(source, count)


@pytest.mark.parametrize(("rounds", "decay"), [(600, None), (300, 0.01)])
def test_a_lost_prior(rounds, decay, held_by):
    """It is made again from the observations."""
    held_by(lambda on: Lasting())
    space = sb.Grid([[0, 1]] * 2, 30)
    kernels = [sb.RBF(0.2), sb.Matern(0.3, nu=2.5)]
    named = [sb.Prior(f"{k}", k if decay is None else k * sb.TemporalDecay(decay)) for k in kernels]
    policy = sb.PEGPUCB(space, named, noise=0.1, regularization=0.01, seed=3, on_exhaustion="warn")
    environment = sb.GPSample(space, sb.RBF(0.2), sb.GaussianNoise(0.1), seed=4)
    sb.simulate(policy, environment, rounds // 2)
    policy.state()  # as for a checkpoint
    sb.simulate(policy, environment, rounds - rounds // 2)
    made, held = policy._source(0)(), policy._shards._shards[0]
    expected = held.state()
    for name, values in made.state().items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)
    assert made.last_observation() == held.last_observation()
