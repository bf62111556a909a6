"""PhasedElimination against batches that are refitted from scratch for every choice."""

import collections
from fractions import Fraction

import numpy as np
import pytest
from cases.rounds import assert_alike
from hypothesis import given
from hypothesis import strategies as st
from naive import batched
from naive import kernels as naive_kernels

import scalable_bandits as sb
from scalable_bandits.policies.batched_elimination import batch_lengths
from scalable_bandits.posteriors import regression
from scalable_bandits.posteriors.exact import dense

SETTINGS = {"noise": 0.05, "regularization": 0.05, "delta": 0.2}
SPACE, LENGTHSCALE, NORM = sb.Grid([[0, 1], [0, 1]], 5), 0.8, 0.1


def both(horizon, space=SPACE, batches=None, delay=0.0, **options):
    kernel = sb.Matern(LENGTHSCALE, nu=1.5)
    policy = sb.PhasedElimination(
        space, kernel, horizon=horizon, rkhs_norm=NORM, batches=batches, delay=delay, seed=2, **SETTINGS, **options
    )
    size = policy.domain.choosable
    oracle = batched.Batched(
        naive_kernels.matern32(LENGTHSCALE), policy.domain.points()[:size], horizon=horizon, norm=NORM,
        count=batches, delay=delay, growth=Fraction(2, 5), **SETTINGS,
    )  # fmt: skip
    return policy, oracle


def value(x):
    return float(0.5 * np.sin(4.0 * x[0]) - 0.4 * x[-1] ** 2)


def number(x):
    return int(SPACE.index(x)[0])


def waiting(policy):
    return list(policy.pending_points.numbers)


def assert_chosen(oracle, candidate, allowed, pending=()):
    """The chosen point may be chosen, and none of the others has a larger deviation."""
    chosen, std = oracle.choices(allowed, pending)
    assert candidate in chosen
    assert std[chosen.index(candidate)] >= std.max() - 1e-8


def assert_same(policy, oracle):
    assert policy.surviving.tolist() == oracle.left
    assert (policy.batch, policy.lengths) == (oracle.batch, tuple(oracle.lengths))


class TestLengths:
    @given(
        st.integers(1, 10**7) | st.builds(pow, st.integers(2, 10), st.integers(1, 15)), st.none() | st.integers(1, 4),
        st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(2, 5)]),
    )  # fmt: skip
    def test_formula(self, horizon, count, growth):
        """Also where the lengths are whole numbers before they are rounded up: powers of the horizon's base."""
        if count is not None and count > horizon:
            return
        found = batch_lengths(horizon, count, float(growth))
        assert found == tuple(batched.lengths(horizon, count, growth))
        assert sum(found) == horizon
        assert min(found) >= 1
        assert count in (None, len(found))

    def test_a_whole_number_is_not_rounded_up(self):
        assert batch_lengths(100_000, 4) == (465, 10_000, 46_416, 43_119)

    def test_few(self):
        """Values are waited for five times in a million rounds, and in ten million."""
        assert (len(batch_lengths(10**6)), len(batch_lengths(10**7))) == (5, 5)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("engine", ["dense", "tiled"])
@pytest.mark.parametrize("batches", [None, 3])
@pytest.mark.sampled(4)
def test_plays_what_the_paper_plays(engine, batches):
    """Points, ends of batches and eliminations, and on after the horizon."""
    policy, oracle = both(150, engine=engine, batches=batches)
    rng, left = np.random.default_rng(0), []
    for t in range(1, 171):
        x = policy.ask()
        assert_chosen(oracle, number(x), range(25))
        assert policy.width == pytest.approx(oracle.beta, rel=1e-12)
        y = value(x) + 0.05 * rng.standard_normal()
        policy.tell(x, y)
        oracle.tell(number(x), y, [])
        assert_same(policy, oracle)
        assert policy.rounds == t
        left.append(len(oracle.left))
    assert (left[0], sorted(left, reverse=True)) == (25, left)
    assert left[-1] < 10


@pytest.mark.parametrize("delay", [0.0, 0.34])
def test_several_in_flight(delay):
    """Six points are pending, and told in any order; what is pending at the end of a batch is late."""
    policy, oracle = both(120, delay=delay)
    rng, late = np.random.default_rng(1), 0
    asked = [number(x) for x in policy.ask(6)]
    for i in range(6):
        assert_chosen(oracle, asked[i], range(25), asked[:i])
    for _ in range(140):
        chosen = int(rng.choice(asked[: -2 or None]))
        asked.remove(chosen)
        y = value(SPACE.value(chosen)) + 0.05 * rng.standard_normal()
        policy.tell(SPACE.value(chosen), y)
        oracle.tell(chosen, y, waiting(policy))
        assert_same(policy, oracle)
        late += bool(oracle.late)
        before = waiting(policy)
        x = policy.ask()
        assert_chosen(oracle, number(x), range(25), before)
        asked.append(number(x))
    assert late > 0
    assert policy.batch > 2


def test_a_batch_at_once():
    """`missing` points are a batch: none of them depends on its values."""
    policy, oracle = both(100)
    for length in oracle.lengths[:3]:
        assert policy.missing == length
        points = policy.ask(policy.missing)
        assert policy.missing == 0
        for x in points[::-1]:
            policy.tell(x, value(x))
            oracle.tell(number(x), value(x), waiting(policy))
        assert_same(policy, oracle)


@pytest.mark.parametrize("flight", [1, 7])
@pytest.mark.sampled(2)
@pytest.mark.slow
def test_repetitions(flight):
    """A point is played until no deviation has shrunk by more than C, or the batch has no rounds left."""
    policy, oracle = both(600, shrinkage=1.5)
    asked, runs = [], []
    for _ in range(560):
        while len(asked) < flight and policy.missing:
            before = waiting(policy)
            left, candidate = policy.missing, number(policy.ask())
            if runs and runs[-1][1] > 0:  # of the present run
                assert candidate == runs[-1][0]
                runs[-1][1] -= 1
            else:
                assert_chosen(oracle, candidate, range(25), before)
                variance = oracle.posterior(before)[1][candidate] ** 2
                plays = max(1, min(left, int((1.5**2 - 1.0) * 0.05 / variance)))
                runs.append([candidate, plays - 1, plays])
            asked.append(candidate)
        candidate = asked.pop(0)
        policy.tell(SPACE.value(candidate), value(SPACE.value(candidate)))
        oracle.tell(candidate, value(SPACE.value(candidate)), waiting(policy))
        assert_same(policy, oracle)
    assert (policy.batch, max(plays for _, _, plays in runs) > 5) == (4, True)
    assert len(runs) < 300


class Runs:
    """Plays of a chosen point that are left: what (4) plans when a point is chosen, given what is played or pending."""

    def __init__(self, shrinkage, oracle):
        self.factor, self.oracle = shrinkage**2 - 1.0, oracle
        self.point, self.left, self.again = None, 0, 0

    def check(self, candidate, allowed, pending):
        """A point that was asked for is the one that is being played, or of largest deviation."""
        if self.left and self.point in allowed:
            assert candidate == self.point
            self.again += 1
        else:
            assert_chosen(self.oracle, candidate, allowed, pending)
            variance = self.oracle.posterior(pending)[1][candidate] ** 2
            self.point, self.left = candidate, max(1, int(self.factor * 0.05 / variance))
        self.left -= 1


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(("engine", "flight"), [("dense", 1), ("dense", 4), ("tiled", 4)])
def test_repetitions_that_are_interrupted(engine, flight):
    """Only plays that are made or pending count, with their own noises, whatever was planned.

    Availability sets, values that nobody asked for, points given up, and measurements of a noise of their own.
    """
    policy, oracle = both(120, shrinkage=2.0, engine=engine)
    rng, runs = np.random.default_rng(3), Runs(2.0, oracle)
    for t in range(80):
        allowed = sorted(rng.choice(25, size=6, replace=False).tolist()) if t % 5 == 4 else list(range(25))
        while len(waiting(policy)) < flight:
            before = waiting(policy)
            runs.check(number(policy.ask(available=allowed)), allowed, before)
            assert policy.information_gain == pytest.approx(oracle.gain(waiting(policy)), abs=1e-8)
        told, batch = int(rng.choice(waiting(policy))), oracle.batch
        if t % 9 == 8:
            policy.abandon(SPACE.value(told))
            runs.left = 0
        else:
            scale = float(rng.choice([1.0, 0.4, 3.0]))
            policy.tell(SPACE.value(told), value(SPACE.value(told)), noise=scale * 0.05)
            oracle.tell(told, value(SPACE.value(told)), waiting(policy), 0.05 * scale**2)
        if t % 7 == 6:  # nobody asked for it
            other = int(rng.choice(np.setdiff1d(np.arange(25), waiting(policy))))
            policy.tell(SPACE.value(other), 0.1, noise=0.02)
            oracle.tell(other, 0.1, waiting(policy), 0.05 * 0.4**2)
            runs.left = 0
        runs.left *= oracle.batch == batch
        assert policy.information_gain == pytest.approx(oracle.gain(waiting(policy)), abs=1e-8)
        assert_same(policy, oracle)
    assert (policy.batch, runs.again > 20) == (3, True)


def test_what_is_planned_and_not_played_does_not_count():
    """One arm of variance 1, and lambda 1: two plays of eight that were planned are worth log(3) / 2."""
    policy = sb.PhasedElimination(sb.Arms(2), sb.Covariance(np.eye(2)), horizon=100, shrinkage=3.0, noise=1.0)
    first = policy.ask()
    policy.tell(first, 0.0)
    policy.tell(policy.ask(available=[first]), 0.0)
    assert policy.information_gain == pytest.approx(np.log(3) / 2)
    other = 1 - first
    policy.tell(other, 0.0)  # nobody asked for it, and nothing is planned for it
    assert policy.information_gain == pytest.approx(np.log(3) / 2 + np.log(2) / 2)
    assert policy.ask() == other  # its variance is 1/2, that of the first 1/3


def test_points_given_up():
    """Abandoned points, and points of a failed `ask`, are not among those of the batch."""
    policy, oracle = both(120)
    first = policy.ask(5)
    policy.abandon(first[1:4])
    kept = [number(x) for x in first[[0, 4]]]
    assert_chosen(oracle, number(policy.ask()), range(25), kept)
    policy.abandon()
    assert policy.missing == policy.lengths[0]
    assert_chosen(oracle, number(policy.ask()), range(25), [])


def interrupt(*_):
    raise KeyboardInterrupt


def test_an_interrupted_ask(monkeypatch):
    """It can be repeated."""
    policy, oracle = both(60)
    with monkeypatch.context() as patched:
        patched.setattr(dense.DenseEngine, "observe", interrupt)
        with pytest.raises(KeyboardInterrupt):
            policy.ask(3)
    assert not policy.pending
    asked = [number(x) for x in policy.ask(policy.missing)]
    for i, candidate in enumerate(asked):
        assert_chosen(oracle, candidate, range(25), asked[:i])


def test_an_interrupted_end_of_a_batch(monkeypatch):
    """The last value is told again, and the batch ends as if nothing had happened."""
    policy, oracle = both(60)
    *points, last = policy.ask(policy.missing)
    for x in points:
        policy.tell(x, value(x))
    with monkeypatch.context() as patched:
        patched.setattr(regression.Regression, "mean", interrupt)
        with pytest.raises(KeyboardInterrupt):
            policy.tell(last, value(last))
    assert (policy.batch, waiting(policy)) == (1, [number(last)])
    policy.tell(last, value(last))
    for x in (*points, last):
        oracle.tell(number(x), value(x), [])
    assert_same(policy, oracle)
    assert policy.batch == 2


def test_available_candidates_and_uninvited_values():
    policy, oracle = both(120)
    rng = np.random.default_rng(1)
    for _ in range(120):
        allowed = sorted(rng.choice(25, size=4, replace=False).tolist())
        x = policy.ask(available=allowed)
        assert_chosen(oracle, number(x), allowed)
        policy.tell(x, value(x), noise=0.04)
        oracle.tell(number(x), value(x), [], 0.05 * 0.8**2)
        if rng.random() < 0.2:  # nobody asked for it
            other = int(rng.integers(25))
            policy.tell(SPACE.value(other), 0.1)
            oracle.tell(other, 0.1, [])
        assert_same(policy, oracle)
    assert policy.batch > 2


def test_failures():
    """A point that failed is replaced within the batch, and does not end it."""
    policy, _ = both(60)
    x = policy.ask()
    policy.tell_failure(x)
    assert policy.missing == policy.lengths[0]
    for _ in range(policy.lengths[0]):
        other = policy.ask()
        assert not np.array_equal(other, x)
        policy.tell(other, value(other))
    assert policy.batch == 2


def test_a_box_takes_the_points_of_others():
    """They are learnt from, and never chosen."""
    box = sb.Box([[0, 1], [0, 1]])
    policy, oracle = both(40, space=box, candidates=16)
    x = np.array([0.21, 0.34])
    other = oracle.empty.add_point(x, 0.0)
    for _ in range(4):
        policy.tell(x, value(x))
        oracle.tell(other, value(x), [])
    for _ in range(30):
        x = policy.ask()
        candidate = int(policy.domain.numbered.index(x)[0])
        assert_chosen(oracle, candidate, range(16))
        policy.tell(x, value(x))
        oracle.tell(candidate, value(x), [])
        assert_same(policy, oracle)


def test_state_with_late_points():
    """A copy from a state has the same late points, which come back as pending ones."""
    policy, _ = both(100, delay=0.3)
    for x in policy.ask(10)[:7]:
        policy.tell(x, value(x))
    assert policy.batch == 2
    copy, _ = both(100, delay=0.3)
    copy.restore(policy.state())
    for x in policy.pending:
        policy.tell(x, value(x))
        copy.tell(x, value(x))
    assert_alike((policy, copy), 40, value)
    assert (policy.batch, policy.missing) == (copy.batch, copy.missing)


@pytest.mark.parametrize(
    ("kind", "horizon", "options"),
    [
        pytest.param(sb.PhasedElimination, 200, {"delay": 0.0}, marks=pytest.mark.long),
        pytest.param(sb.PhasedElimination, 200, {"delay": 0.34}, marks=pytest.mark.slow),
        pytest.param(sb.DUETS, 400, {}, marks=pytest.mark.slow),
    ],
)
def test_the_best_arm_survives(kind, horizon, options):
    """In 100 functions of known norm it is dropped in at most a share delta, and most other arms are dropped."""
    space, kernel, dropped, left = sb.Grid([[0, 1]], 60), sb.Matern(0.2, nu=2.5), 0, []
    for seed in range(100):
        function = sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(0.05), seed=seed)
        given = {"rkhs_norm": function.rkhs_norm, "noise": 0.05, "regularization": 0.0025, "seed": seed, **options}
        policy = kind(space, kernel, horizon=horizon, **given)
        sb.simulate(policy, function, horizon)
        dropped += int(np.argmax(function.table())) not in policy.surviving
        left.append(len(policy.surviving))
    assert dropped <= 0.1 * 100
    assert np.mean(left) < 15


@pytest.mark.slow
def test_a_third_of_the_values_comes_a_tenth_of_the_horizon_later():
    """Regret summed over six functions within a tenth of that without delay."""
    horizon, space, kernel = 3000, sb.Grid([[0, 1], [0, 1]], 15), sb.Matern(0.4, nu=1.5)

    def regret(function, delay, seed):
        policy = sb.PhasedElimination(
            space, kernel, horizon=horizon, rkhs_norm=function.rkhs_norm, noise=0.3, shrinkage=1.1, delay=delay
        )
        losses, waiting = function.table().max() - function.table(), collections.deque()
        late, total = np.random.default_rng(seed).random(horizon) < (1 / 3 if delay else 0.0), 0.0
        for t in range(horizon):
            while waiting and waiting[0][0] <= t:
                policy.tell(*waiting.popleft()[1:])
            x = policy.ask()
            candidate = int(space.index(x)[0])
            total += losses[candidate]
            y = function.table()[candidate] + float(function.noise_at(t + 1))
            if late[t]:
                waiting.append((t + horizon // 10, x, y))
            else:
                policy.tell(x, y)
        assert policy.batch == len(policy.lengths)
        return total

    functions = [sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(0.3), seed=seed) for seed in range(6)]
    at_once, later = (sum(regret(f, delay, seed) for seed, f in enumerate(functions)) for delay in (0.0, 1 / 3))
    assert later <= 1.1 * at_once


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "^horizon"),
        ({"horizon": 5, "batches": 6}, "^batches: got 6; allowed: at most the number of rounds, 5"),
        ({"horizon": 5, "batches": 0}, "^batches"),
        ({"horizon": 5, "delay": 1.0}, "^delay: got 1.0; allowed: a number from 0 to below 1"),
        ({"horizon": 5, "delay": -0.1}, "^delay"),
        ({"horizon": 5, "rkhs_norm": -1}, "^rkhs_norm"),
        ({"horizon": 5, "shrinkage": 0.9}, "^shrinkage: got 0.9; allowed: a number of at least 1"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        sb.PhasedElimination(sb.Arms(2), sb.Covariance(np.eye(2)), **options)


def test_a_point_that_is_given_up_is_replaced_by_the_last_one():
    """There are as many pending points as before, of which the engine had not seen the last."""
    grid = sb.Grid([[0, 1]], 20)
    policy = sb.PhasedElimination(grid, sb.RBF(0.2), noise=0.3, regularization=0.09, horizon=300)
    x = policy.ask(3)
    policy.abandon(x[0])
    gram = sb.RBF(0.2).block(x[1:]) / 0.09
    gain = 0.5 * np.linalg.slogdet(np.eye(2) + gram)[1]
    assert policy.information_gain == pytest.approx(gain, abs=1e-12)
    policy.tell(x[1:], [0.1, 0.2])
    assert policy.information_gain == pytest.approx(gain, abs=1e-12)
