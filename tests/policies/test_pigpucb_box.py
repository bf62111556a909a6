"""pi-GP-UCB on a box: each cell maximises its own index over its cube."""

from fractions import Fraction

import numpy as np
import pytest

import scalable_bandits as sb
from policies.test_pigpucb import SETTINGS, oracle_of, value


def make(bounds=((0, 1), (0, 1)), horizon=12, **options):
    lengthscale = options.pop("lengthscale", 0.3)
    return sb.PiGPUCB(sb.Box(bounds), sb.Matern(lengthscale, nu=1.5), horizon=horizon, **SETTINGS, **options)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("tightening", [False, True])
@pytest.mark.parametrize(("d", "rounds"), [(1, 40), pytest.param(2, 30, marks=pytest.mark.slow)])
@pytest.mark.sampled(8)
def test_no_point_of_a_dense_set_is_better(d, rounds, tightening, count):
    """Nor a point that was played: the index is the naive one, and its maximum is found."""
    policy = make(((0, 1),) * d, horizon=None if d == 1 else 12, tightening=tightening, seed=d)
    rng = np.random.default_rng(d)
    dense = [tuple(Fraction(float(v)) for v in row) for row in rng.random((300, d))]
    log, points = [], list(dense)
    for _ in range(0, rounds, count):
        xs = np.atleast_2d(policy.ask(count))
        points += [tuple(Fraction(float(v)) for v in x) for x in xs]
        oracle = oracle_of(points, None if d == 1 else 12, tightening)
        for i, y in log:
            oracle.tell(i, y)
        first = len(points) - len(xs)
        for offset in range(count):
            pending = list(range(first, first + offset))
            index, _ = oracle.index(len(log) + offset + 1, pending)
            best = index.max()
            assert index[first + offset] >= best - 1e-6 * abs(best)
        ys = [value(x) + 0.3 * rng.standard_normal() for x in xs]
        policy.tell(xs, ys)
        log += list(zip(range(first, len(points)), ys, strict=True))
    assert sum(element.split is not None for element in policy.cover) >= 2


@pytest.mark.slow
def test_other_bounds_and_lengthscales_are_the_same_problem():
    unit, other = make(), make(((-3, 1), (5, 7)), lengthscale=(1.2, 0.6))
    for _ in range(30):
        x, z = unit.ask(), other.ask()
        (mean, same), (std, deviation) = unit.posterior([x, (z - [-3, 5]) / [4, 2]])
        np.testing.assert_allclose(mean + unit.width * std, same + unit.width * deviation, rtol=1e-7)
        unit.tell(x, value(x))
        other.abandon()
        other.tell([-3, 5] + [4, 2] * x, value(x))
    np.testing.assert_allclose(unit.posterior([0.3, 0.8]), other.posterior([-1.8, 6.6]), atol=1e-6)


@pytest.mark.parametrize("horizon", [None, 30])
@pytest.mark.parametrize("bounds", [(2.74, 8.21), (-7.3, 7.16), (-0.1, 0.2)])
@pytest.mark.sampled(3)
def test_what_is_played_on_a_face_falls_into_the_cells_that_it_bounds(bounds, horizon):
    """A cell that did not learn what it proposed would propose it for ever; and the last face is the box's own."""
    low, high = bounds
    policy = make([bounds], horizon=horizon, lengthscale=0.3 * (high - low))
    on_faces = 0
    for _ in range(60):
        x = policy.ask()
        assert low <= x[0] <= high
        before = policy.cover
        policy.tell(x, (x[0] - low) / (high - low))
        holds = [e for e in before if e.split is None and e.lower[0] <= x[0] <= e.upper[0]]
        on_faces += any(x[0] in (*e.lower, *e.upper) for e in holds)
        assert [policy.cover[e.number].observations for e in holds] == [e.observations + 1 for e in holds]
    assert on_faces > 10


def play(policy, rounds, seed=0):
    for t in range(rounds):
        x = policy.ask()
        policy.tell(x, value(x) + 0.1 * np.random.default_rng([seed, t]).standard_normal())
    return policy


def test_through_candidates():
    """A set of points that stands for the box, and a point beside them that is told."""
    policy, told = make(candidates=40), []
    for t in range(15):
        x = policy.ask()
        told.append((x, value(x) + 0.1 * np.sin(t)))
        policy.tell(*told[-1])
    told.append(([0.123, 0.456], 0.7))
    policy.tell(*told[-1])
    assert [0.123, 0.456] not in policy.ask(30).tolist()
    policy.abandon()
    again = make(candidates=40)
    for each in told:
        again.tell(*each)
    np.testing.assert_array_equal(policy.ask(), again.ask())


def test_a_recording_with_points_given_up(tmp_path):
    policy = make()
    with sb.record(policy, tmp_path / "run.zarr"):
        for _ in range(6):
            x = policy.ask(2)
            policy.abandon(x[0])
            policy.tell(x[1], value(x[1]))
        policy.ask()
    again = make()
    with sb.record(again, tmp_path / "run.zarr"):
        np.testing.assert_array_equal(again.pending, policy.pending)
        np.testing.assert_array_equal(again.ask(2), policy.ask(2))


def test_it_says_how_many_points():
    policy = play(make(), 5)
    few = policy.evaluations
    assert few > 128
    play(policy, 5)
    assert policy.evaluations > few


def test_an_ask_that_fails_leaves_no_trace():
    class Full(Exception):
        pass

    class Recorder:
        def asked(self, pending):
            raise Full

    policy, twin = play(make(), 10), play(make(), 10)
    policy._record_to(Recorder())
    with pytest.raises(Full):
        policy.ask(3)
    policy._record_to(None)
    np.testing.assert_array_equal(policy.ask(4), twin.ask(4))
