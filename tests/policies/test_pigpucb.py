"""pi-GP-UCB against a list of cubes that are all refitted in every round."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from naive.kernels import matern32
from naive.partition import NaivePartition

import scalable_bandits as sb

SETTINGS = {"rkhs_norm": 1.5, "noise": 0.3, "regularization": 0.5, "delta": 0.2}


def exact(side, d):
    return list(itertools.product([Fraction(i, side - 1) for i in range(side)], repeat=d))


def oracle_of(points, horizon, tightening=False, **given):
    return NaivePartition(
        points, matern32(0.3), nu=1.5, horizon=horizon, norm=SETTINGS["rkhs_norm"], noise=SETTINGS["noise"],
        alpha=SETTINGS["regularization"], delta=SETTINGS["delta"], tightening=tightening, **given,
    )  # fmt: skip


def value(point):
    return float(np.sin(7.0 * point[0]) + 0.5 * np.cos(5.0 * point.sum()))


def assert_best(oracle, t, candidate, pending=(), allowed=None):
    """The played point's index is the naive maximum."""
    index, winners = oracle.index(t, pending)
    among = index if allowed is None else index[allowed]
    assert index[candidate] >= among.max() - 1e-8 * max(1.0, abs(among.max()))
    return index, winners


CASES = [  # d, points a side, horizon (so many cubes at first), rounds
    (1, 9, 20, 130),
    pytest.param(1, 25, None, 120, marks=pytest.mark.slow),
    pytest.param(1, 21, 130, 160, marks=pytest.mark.slow),  # 5 cubes at first: 25, a power that rounding misses
    (2, 7, 30, 60),  # faces between points
    (2, 9, 12, 60),  # 4 x 4 cubes: points on every face
    (2, 9, None, 70),
    pytest.param(3, 5, 8, 45, marks=pytest.mark.slow),
    (3, 4, None, 40),
]


@pytest.mark.parametrize("tightening", [False, True])
@pytest.mark.parametrize(("d", "side", "horizon", "rounds"), CASES)
@pytest.mark.sampled(8)
def test_plays_the_naive_maximum(d, side, horizon, rounds, tightening):
    space = sb.Grid([[0, 1]] * d, side)
    policy = sb.PiGPUCB(space, sb.Matern(0.3, nu=1.5), horizon=horizon, tightening=tightening, seed=d, **SETTINGS)
    oracle = oracle_of(exact(side, d), horizon, tightening)
    rng = np.random.default_rng(side)
    for t in range(1, rounds + 1):
        width, gain = policy.width, policy.information_gain
        x = policy.ask()
        candidate = int(space.index(x)[0])
        _, winners = assert_best(oracle, t, candidate)
        top = max(w[0] for w in winners)
        assert any(abs(w[0] - top) < 1e-8 and abs(w[1] - width) < 1e-9 and abs(w[2] - gain) < 1e-9 for w in winners)
        y = value(x) + 0.3 * rng.standard_normal()
        policy.tell(x, y)
        oracle.tell(candidate, y)
    assert oracle.splits >= 3
    leaves = [element for element in policy.cover if element.split is None]
    assert sum(element.split is not None for element in policy.cover) == oracle.splits
    touched = [cube for cube in oracle.cubes if any(oracle.inside(cube, row[0]) for row in oracle.data)]
    theirs = sorted([*map(float, corner), float(side)] for corner, side, _ in touched)
    ours = sorted([*e.lower.tolist(), float(e.upper[0] - e.lower[0])] for e in leaves if e.observations)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("count", [1, 3])
def test_points_on_and_off_faces(count):
    """Explicit points, some of them exactly on faces of the first cubes."""
    rng = np.random.default_rng(0)
    some = [tuple(Fraction(int(v), 64) for v in row) for row in rng.integers(0, 65, (40, 2))]
    points = sorted({*some, (Fraction(0), Fraction(0)), (Fraction(1), Fraction(1)), (Fraction(1, 2), Fraction(1, 4))})
    space = sb.Points([[float(c) for c in point] for point in points])
    policy = sb.PiGPUCB(space, sb.Matern(0.3, nu=1.5), horizon=12, seed=3, **SETTINGS)
    oracle = oracle_of(points, 12)
    for t in range(1, 61, count):
        xs = np.atleast_2d(policy.ask(count))
        pending = []
        for offset, x in enumerate(xs):
            candidate = int(space.index(x)[0])
            assert_best(oracle, t + offset, candidate, pending)
            pending.append(candidate)
        for candidate, x in zip(pending, xs, strict=True):
            policy.tell(x, value(x))
            oracle.tell(candidate, value(x))
    assert oracle.splits > 3


@pytest.mark.parametrize("tightening", [False, True])
def test_available_candidates(tightening):
    space = sb.Grid([[0, 1], [0, 1]], 7)
    policy = sb.PiGPUCB(space, sb.Matern(0.3, nu=1.5), horizon=12, tightening=tightening, **SETTINGS)
    oracle = oracle_of(exact(7, 2), 12, tightening)
    rng = np.random.default_rng(1)
    for t in range(1, 41):
        allowed = rng.choice(49, size=10, replace=False)
        x = policy.ask(available=allowed)
        candidate = int(space.index(x)[0])
        assert candidate in allowed
        assert_best(oracle, t, candidate, allowed=allowed)
        policy.tell(x, value(x), noise=0.2)
        oracle.tell(candidate, value(x), 0.5 * (0.2 / 0.3) ** 2)


def played(policy, rounds, seed=0):
    space = policy.space
    environment = sb.RKHSFunction.sparse(space, sb.Matern(0.2, nu=1.5), sb.UniformNoise(1.0), seed=seed)
    return sb.simulate(policy, environment, rounds)


def make(side=30, d=2, horizon=2000, **options):
    return sb.PiGPUCB(sb.Grid([[0, 1]] * d, side), sb.Matern(0.2, nu=1.5), horizon=horizon, rkhs_norm=4.0, **options)


def test_forgetting_posteriors_changes_nothing(cells_cache):
    whole = played(make(), 1500)
    cells_cache(20_000)
    squeezed = played(make(), 1500)
    for name in ("candidate", "y", "width", "information_gain"):
        np.testing.assert_array_equal(getattr(squeezed, name), getattr(whole, name))


def test_pending_points_given_up(tmp_path):
    """After `abandon` the policy plays on as if it had never asked."""
    one, other = make(), make()
    for policy in (one, other):
        played(policy, 50)
    one.ask(5)
    one.abandon()
    np.testing.assert_array_equal(one.ask(), other.ask())


def test_another_point_pending():
    """What is chosen depends on which points are pending, not on how many."""
    one, other = make(), make()
    for policy in (one, other):
        played(policy, 50)
    first, _, third = one.ask(), one.ask(), one.ask()
    one.abandon(first)
    one.abandon(third)
    other._restore_pending([int(other.space.index(x)[0]) for x in one.pending], reissue=False)
    np.testing.assert_array_equal(one.ask(), other.ask())


def test_the_state_of_a_policy_that_was_told_nothing():
    one, other = make(), make()
    other.restore(one.state())
    np.testing.assert_array_equal(played(one, 100).candidate, played(other, 100).candidate)


def test_posterior_and_best():
    space = sb.Grid([[0, 1]], 11)
    policy = sb.PiGPUCB(space, sb.Matern(0.3, nu=1.5), **SETTINGS)
    assert policy.posterior([0.5]) == (0.0, 1.0)
    assert policy.best().mean == 0.0
    policy.tell([0.5], 2.0)
    mean, std = policy.posterior([0.5])
    np.testing.assert_allclose([mean, std], [2.0 / 1.5, (1 - 1 / 1.5) ** 0.5])
    assert policy.best().x.tolist() == [0.5]
    np.testing.assert_allclose(policy.best()[1:], [mean, std])


def test_posterior_where_no_candidate_is():
    """A half of a cell that holds no candidate knows nothing, and says so."""
    policy = sb.PiGPUCB(sb.Points([0.0, 0.05, 0.9, 1.0]), sb.Matern(0.2, nu=1.5), prior_mean=0.5, **SETTINGS)
    policy.tell([[0.0]] * 30, [1.0] * 30)
    assert max(element.depth for element in policy.cover) == 3
    for x in (0.2, 0.3, 0.4, 0.6):
        assert policy.posterior([x]) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"space": sb.Arms(3)}, "^space"),
        ({"theory": True}, "^horizon"),
        ({"nu": -1.0}, "^nu"),
        ({"rkhs_norm": 0.0}, "^rkhs_norm"),
        ({"regularization": 1e-16}, "^regularization"),
    ],
)
def test_refusals(options, message):
    given = {"space": sb.Grid([[0, 1]], 5), "kernel": sb.Matern(0.2, nu=1.5), **options}
    with pytest.raises(ValueError, match=message):
        sb.PiGPUCB(given.pop("space"), given.pop("kernel"), **given)


@pytest.mark.slow
def test_a_multiple_of_a_matern_kernel_has_its_cells():
    space = sb.Grid([[0, 1], [0, 1]], 40)
    one, other = (
        sb.PiGPUCB(space, kernel, horizon=20_000, rkhs_norm=1.0)
        for kernel in (sb.Matern(0.2, nu=1.5), 2.0 * (0.5 * sb.Matern(0.2, nu=1.5)))
    )
    environment = sb.GPSample(space, sb.Matern(0.2, nu=1.5), seed=1)
    played = [sb.simulate(each, environment, 60).candidate for each in (one, other)]
    assert played[0].tolist() == played[1].tolist()


@pytest.mark.parametrize("kernel", [sb.RBF(0.2), sb.Matern(0.2, nu=0.5)], ids=str)
def test_without_a_guarantee_it_says_so(kernel):
    with pytest.warns(UserWarning, match="guarantee"):
        policy = sb.PiGPUCB(sb.Grid([[0, 1]], 9), kernel, horizon=20)
    policy.tell(policy.ask(), 1.0)
    policy.ask()


@pytest.mark.filterwarnings("ignore:PiGPUCB's guarantee")
@pytest.mark.parametrize("kernel", [sb.Matern(0.2, nu=np.inf), sb.Matern(0.2, nu=1e5)], ids=str)
def test_cells_of_a_very_smooth_kernel_stay_whole(kernel):
    """One half of the box holds 2^(1/b) observations: more than there are numbers."""
    policy = sb.PiGPUCB(sb.Grid([[0, 1]], 9), kernel, **SETTINGS)
    policy.tell(np.tile(policy.space.points(), (5, 1)), np.arange(45.0))
    assert [element.depth for element in policy.cover if element.split is None] == [1, 1]


@pytest.mark.parametrize(("dimension", "divisions", "most"), [(4, 32, 128), (5, 8, 16), (2, 8, 32)])
def test_a_cell_splits_no_observation_too_early(dimension, divisions, most):
    """The threshold side^(-1 / b), a whole number in these cases, is not rounded down."""
    policy = sb.PiGPUCB(sb.Box([[0, 1]] * dimension), sb.Matern(0.2, nu=1.5))
    assert most <= policy._split_threshold(divisions) < most + 0.5
