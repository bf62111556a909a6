"""pi-GP-UCB in many dimensions: cells exist once points fall into them, and large cells are searched."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import scalable_bandits as sb
from policies.test_pigpucb import SETTINGS, oracle_of


def value(x):
    return float(np.sin(7.0 * x[:3].sum()) + 0.5 * np.cos(5.0 * x[0]))


def make(space, **options):
    return sb.PiGPUCB(space, sb.Matern(0.3, nu=1.5), **{"horizon": None, **SETTINGS, **options})


def play(policy, rounds, seed=0):
    seen = []
    for t in range(rounds):
        seen.append(policy.ask())
        noise = np.random.default_rng([seed, t]).standard_normal()
        policy.tell(seen[-1], value(seen[-1]) + 0.3 * noise)
    return np.array(seen)


CASES = {  # sides, horizon, rounds
    "closed cubes": ((7, 6, 5), 12, 45),
    "faces": ((9, 9), None, 60),
    "half-open cubes": ((3, 3, 3, 2, 1, 1, 1), None, 40),  # points on faces, in seven dimensions
}


@pytest.mark.parametrize("tightening", [False, True])
@pytest.mark.parametrize("searched", [False, True])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(12)
def test_plays_the_naive_maximum_in_the_naive_cover(case, searched, tightening):
    """Nearly the maximum where cells are searched; in many dimensions tightening bounds empty cubes less."""
    sides, horizon, rounds = CASES[case]
    given = {"enumerated": 1} if searched else {}
    policy = make(sb.Grid([[0, 1]] * len(sides), sides), horizon=horizon, tightening=tightening, seed=3, **given)
    points = list(itertools.product(*([Fraction(i, max(side - 1, 1)) for i in range(side)] for side in sides)))
    oracle = oracle_of(points, horizon, tightening, closed=len(sides) <= 6)
    share = 0.99 if searched else 1 - 1e-8
    for t in range(1, rounds + 1):
        x = policy.ask()
        candidate = int(policy.space.index(x)[0])
        index, _ = oracle.index(t)
        if not (tightening and len(sides) > 6):
            assert index[candidate] >= share * index.max()
        y = value(x) + 0.3 * np.sin(31.0 * t)
        policy.tell(x, y)
        oracle.tell(candidate, y)
    assert oracle.splits >= 2
    assert sum(element.split is not None for element in policy.cover) == oracle.splits
    told = [cube for cube in oracle.cubes if any(oracle.inside(cube, row[0]) for row in oracle.data)]
    theirs = sorted([*map(float, corner), float(side)] for corner, side, _ in told)
    ours = [e for e in policy.cover if e.split is None and e.observations]
    np.testing.assert_allclose(sorted([*e.lower.tolist(), float((e.upper - e.lower)[0])] for e in ours), theirs)
    assert policy.empty_cubes == sum(bool(oracle.members(cube)) for cube in oracle.cubes) - len(told)


@pytest.mark.parametrize(
    "space",
    [sb.Box([[0, 1]] * 3), sb.Box([[-1, 2]] * 9), sb.Grid([[0, 1]] * 9, 9), sb.Grid([[0, 1]] * 40, 17)],
    ids=str,
)
@pytest.mark.sampled(2)
def test_cells_and_empty_cubes_are_the_cover(space):
    """Memory follows the observations: a split makes 2^d cubes, and cells of those alone into which a point fell."""
    policy, d = make(space, seed=1), space.dimension
    x = play(policy, 40)
    splits = sum(element.split is not None for element in policy.cover)
    present = [element for element in policy.cover if element.split is None]
    assert len(present) + policy.empty_cubes == 1 + splits * (2**d - 1)
    assert len(policy.cover) < 6 * len(x) * (2**d if d <= 6 else 1)
    held = np.zeros(len(x), dtype=int)
    high = np.array(space.bounds)[:, 1]
    for element in present:
        below = (x <= element.upper) if d <= 6 else (x < element.upper) | (element.upper == high)
        inside = ((x >= element.lower) & below).all(axis=1)
        held += inside
        assert element.observations == inside.sum()
    assert (held >= 1).all()
    assert d <= 6 or (held == 1).all()


@pytest.mark.parametrize("given", [{}, {"enumerated": 1}], ids=["numbered", "visited"])
def test_every_empty_cube_is_played_once(given):
    """Of tied cubes without observations each has its turn."""
    policy = make(sb.Grid([[0, 1]] * 7, 2), **given)
    assert policy.empty_cubes == 1
    for _ in range(2**7):
        policy.tell(policy.ask(), 0.0)
    assert policy.empty_cubes == 0
    assert len(policy.observations.x) == 2**7


def large(**options):
    return make(sb.Grid([[0, 1]] * 20, 10), **options)


@pytest.mark.parametrize("tightening", [False, True])
@pytest.mark.parametrize(
    ("space", "horizon"),
    [(sb.Grid([[0, 1]] * 20, 10), None), (sb.Box([[0, 1]] * 8), None), (sb.Box([[0, 1]] * 2), 12)],
    ids=["grid", "box", "two dimensions"],
)
@pytest.mark.sampled(2)
def test_restored_squeezed_and_asked_in_vain(space, horizon, tightening, cells_cache):
    """To the last bit, from a state, with posteriors that are made again, and after points were given up."""
    whole, other, squeezed = (make(space, tightening=tightening, horizon=horizon) for _ in range(3))
    play(whole, 15)
    other.restore({name: array.copy() for name, array in whole.state().items()})
    other._introduce(np.arange(whole.domain.size), whole.domain.points())
    cells_cache(20_000)
    play(squeezed, 15)
    squeezed.ask(4)
    squeezed.abandon()
    for policy in (other, squeezed):
        np.testing.assert_array_equal(policy.ask(), whole.ask())
        policy.abandon()
        whole.abandon()
    expected = play(whole, 10, seed=1)
    for policy in (other, squeezed):
        np.testing.assert_array_equal(play(policy, 10, seed=1), expected)
        np.testing.assert_equal(policy.best(), whole.best())
        assert policy.empty_cubes == whole.empty_cubes


def test_pending_points_are_different_points():
    policy = large(horizon=1000)
    play(policy, 5)
    width = policy.width
    assert len(np.unique(policy.ask(12), axis=0)) == 12
    assert policy.width > width
    policy.abandon()
    assert policy.width == width


def test_recorded_and_resumed(tmp_path):
    whole, policy, again = large(), large(), large()
    expected = play(whole, 12)
    with sb.record(policy, tmp_path / "run.zarr"):
        play(policy, 8)
    with sb.record(again, tmp_path / "run.zarr"):
        for t in range(8, 12):
            x = again.ask()
            np.testing.assert_array_equal(x, expected[t])
            again.tell(x, value(x) + 0.3 * np.random.default_rng([0, t]).standard_normal())
    assert again.best().mean == whole.best().mean


def test_points_in_fifty_dimensions():
    """Cubes hold candidates or are of no concern, whatever their number."""
    rng = np.random.default_rng(0)
    space = sb.Points(rng.integers(0, 3, (300, 50)) / 2.0)
    policy = make(space)
    play(policy, 30)
    assert policy.empty_cubes < 300
    assert math.isfinite(policy.posterior(space.points([0]))[0][0])


def test_a_kernel_that_is_not_stationary_is_for_few_dimensions():
    kernel = sb.Linear() + sb.Matern(0.3, nu=1.5)
    with pytest.warns(UserWarning, match="guarantee"), pytest.raises(ValueError, match=r"^kernel.*stationary"):
        sb.PiGPUCB(sb.Box([[0, 1]] * 7), kernel)


@pytest.mark.parametrize("side", [2, 3])
def test_cells_of_few_candidates_in_more_dimensions_than_arrays_have(side):
    """In 70 dimensions, of which numpy's arrays have 64: cells of one candidate, and of one or two along each side."""
    policy = make(sb.Grid([[0, 1]] * 70, side))
    points = play(policy, 40)
    assert set(np.unique(points)) <= set(np.linspace(0, 1, side))
    assert any(cell.parent is not None for cell in policy.cover)
