"""Cells of a partition on workers: the numbers of one process, on any number of workers, also when they die."""

import functools

import numpy as np
import pytest
from cases.cluster import Killer, until_it_works

import scalable_bandits as sb
from scalable_bandits.posteriors.partition.remote_cells import SHARDS, CellsShard
from scalable_bandits.posteriors.placement import InProcess, Shards

SPACES = {
    "line": sb.Grid([[0, 1]], 120),
    "grid": sb.Grid([[0, 1]] * 2, (20, 16)),
    "points": sb.Points(np.random.default_rng(0).random((150, 2))),
    "box": sb.Box([[0, 1], [0, 2]]),
    "many dimensions": sb.Grid([[0, 1]] * 20, 10),
}
HORIZON = {"box": 12, "many dimensions": 12}


pytestmark = pytest.mark.usefixtures("one_thread")


def policy_of(space, on=None, tightening=False, horizon=None):
    return sb.PiGPUCB(
        SPACES[space], sb.Matern(0.2, nu=1.5), noise=0.1, rkhs_norm=1.0, seed=2, tightening=tightening,
        horizon=horizon, on=on,
    )  # fmt: skip


def play(policy, before=lambda t: None, rounds=60):
    """Play a run; return its points (also several at once, and of those available), widths, gains and cover."""
    seen, box = [], policy.domain.by_visit
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
    found = play(policy_of(space, tightening=tightening, horizon=horizon), rounds=HORIZON.get(space, 60))
    assert found[-1].count("split=None") > 1
    return found


class Watched(InProcess):
    """Holds shards in this process, notes what they are asked, and fails when a test says so."""

    def __init__(self):
        super().__init__()
        self.asked, self.failures, self.left = [], 0, None

    def __call__(self, on):
        return self if on else InProcess()

    def fail_after(self, questions):
        self.left = questions

    def shards(self, source, count, name):
        owner = self

        class Own(Shards):
            def ask(self, numbers, method, *arguments):
                if method is CellsShard.work:
                    owner.asked.append((list(numbers), *arguments))
                    owner.left = None if owner.left is None else owner.left - 1
                    if owner.left == -1:
                        owner.left, owner.failures = None, owner.failures + 1
                        raise ConnectionError
                return super().ask(numbers, method, *arguments)

        return Own(source, count)


class TestInProcess:
    @pytest.mark.parametrize("horizon", [None, 200])
    @pytest.mark.parametrize("tightening", [False, True])
    @pytest.mark.parametrize("space", SPACES)
    @pytest.mark.sampled(24)
    def test_same_numbers(self, space, tightening, horizon, held_by):
        """Shared out to parts, all of them here."""
        held_by(watched := Watched())
        policy = policy_of(space, "here", tightening, horizon)
        assert play(policy, rounds=HORIZON.get(space, 60)) == alone(space, tightening, horizon)
        assert {number for numbers, _ in watched.asked for number in numbers} <= set(range(SHARDS))
        assert len(watched.asked) > 20

    @pytest.mark.parametrize("space", SPACES)
    @pytest.mark.sampled(5)
    def test_threads(self, space):
        """Cells in shards, of which two are computed at the same time."""
        assert play(policy_of(space, "threads:2"), rounds=HORIZON.get(space, 60)) == alone(space)

    @pytest.mark.parametrize("tightening", [False, True])
    def test_places_out_of_reach(self, tightening, held_by):
        """A call that fails goes on when it is repeated; cells of which some knew an observation are made again."""
        chance, failing = np.random.default_rng(1), Watched()
        held_by(failing)
        here, there = policy_of("points", None, tightening), policy_of("points", "away", tightening)
        for t in range(60):
            x = here.ask()
            failing.fail_after(int(chance.integers(2)))
            np.testing.assert_array_equal(until_it_works(there.ask), x)
            failing.fail_after(int(chance.integers(2)))
            for policy in (here, there):
                until_it_works(policy.tell, x, float(np.sin(7 * x.sum() + t)))
            assert there.rounds == here.rounds == t + 1
        assert until_it_works(lambda: there.width) == here.width
        assert failing.failures > 15

    def test_many_at_once(self, held_by):
        """After a split, all maximizers that have to be found again are asked for together."""
        held_by(watched := Watched())
        play(policy_of("box", "here"), rounds=24)
        asked = [[task.method.__name__ for each in tasks.values() for task in each] for _, tasks in watched.asked]
        assert max(tasks.count("evaluate") for tasks in asked) >= 4


class TestOnWorkers:
    @pytest.mark.parametrize(
        ("space", "workers", "tightening"),
        [("grid", 1, False), ("grid", 2, False), ("grid", 4, False), ("line", 4, True), ("box", 4, False)],
    )
    @pytest.mark.sampled(5)
    @pytest.mark.slow
    def test_same_numbers(self, space, workers, tightening, four, some_of_four, messages):
        some_of_four(workers)
        policy = policy_of(space, four, tightening)
        assert play(policy, rounds=HORIZON.get(space, 60)) == alone(space, tightening)
        assert len(messages.workers()) == workers

    @pytest.mark.slow
    @pytest.mark.parametrize(("space", "kills"), [("grid", 8), ("box", 4)])
    @pytest.mark.sampled(2)
    def test_deaths(self, space, kills, four):
        """The shards of killed workers are made again on others."""
        rounds = HORIZON.get(space, 60)
        killer = Killer(four, kills, rounds, kills=kills)
        assert play(policy_of(space, four), killer, rounds) == alone(space)
        assert len(killer.ended()) == kills

    @pytest.mark.slow
    def test_messages(self, four, messages):
        """A message goes only to workers whose cells an observation touched, or whose maximizers are looked for."""
        policy = policy_of("grid", four, horizon=200)
        sb.simulate(policy, sb.GPSample(SPACES["grid"], sb.Matern(0.2, nu=1.5), sb.GaussianNoise(0.1)), 60)
        asked = []
        for sent in messages.sent:
            asked.append(sorted(request.number for message in sent.values() for request in message.requests))
            assert all(sorted(message.question.arguments[0]) == asked[-1] for message in sent.values())
        assert np.mean([len(parts) for parts in asked]) < SHARDS / 4
        assert len(asked) < 3 * 60

    @pytest.mark.slow
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
