"""The largest value on a large grid, by branch and bound, against all values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalable_bandits as sb
from scalable_bandits.environments.synthetic import grid_maximum

KERNELS = (sb.RBF(0.1), sb.Matern(0.2, nu=1.5), sb.Matern(0.05, nu=0.5), sb.RationalQuadratic(0.3))


def check(function: sb.RKHSFunction) -> None:
    """The largest value that is found is the largest of all."""
    found = grid_maximum(function.evaluate, function.space, function.kernel, function.centers, function.weights)
    assert found == function.evaluate(function.space.points()).max()


@given(
    sides=st.lists(st.integers(1, 12), min_size=1, max_size=4), kernel=st.sampled_from(KERNELS),
    seed=st.integers(0, 999), count=st.integers(1, 40), sign=st.sampled_from([-1.0, 1.0]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_is_the_largest_of_all(sides: list[int], kernel: sb.Kernel, seed: int, count: int, sign: float) -> None:
    space = sb.Grid([[-0.3, 0.9]] * len(sides), tuple(sides))
    drawn = sb.RKHSFunction.sparse(space, kernel, seed=seed, count=count)
    weights = sign * np.abs(drawn.weights) if seed % 3 == 0 else drawn.weights  # also without any that is positive
    check(sb.RKHSFunction(space, kernel, drawn.centers, weights))


def test_lengthscales_of_their_own() -> None:
    space, kernel = sb.Grid([[0.0, 1.0], [0.0, 5.0], [0.0, 1.0]], (20, 30, 10)), sb.Matern((0.1, 2.0, 0.5), nu=2.5)
    check(sb.RKHSFunction.sparse(space, kernel, seed=3))


def test_optimum_of_a_large_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a small one, where all values are in a table; searched once."""
    space, kernel = sb.Grid([[0.0, 1.0]] * 3, 20), sb.Matern(0.2, nu=1.5)
    expected = sb.RKHSFunction.sparse(space, kernel, seed=1).optimum()
    monkeypatch.setattr("scalable_bandits.environments.synthetic.TABLE_LIMIT", 7_999)
    function = sb.RKHSFunction.sparse(space, kernel, seed=1)
    assert function.optimum() == expected
    monkeypatch.setattr(function, "evaluate", None)
    assert function.optimum() == expected


@given(
    side=st.integers(2, 4), lengthscale=st.floats(0.02, 0.3), seed=st.integers(0, 999), count=st.integers(1, 12),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_blocks_around_centers(side: int, lengthscale: float, seed: int, count: int) -> None:
    """Short lengthscales, where only the surroundings of some centers are left open."""
    space, kernel = sb.Grid([[0.0, 1.0]] * 5, side), sb.Matern(lengthscale, nu=1.5)
    check(sb.RKHSFunction.sparse(space, kernel, seed=seed, count=count))


def test_gives_up() -> None:
    """Where bounds leave too much open, and says what to give; where they do not, it is done on any grid."""
    with pytest.raises(ValueError, match=r"^space: got '10\^40 candidates, .*; allowed: fewer .* optimum=\.\.\."):
        sb.RKHSFunction.sparse(sb.Grid([[0.0, 1.0]] * 40, 10), sb.RBF(1.0)).optimum()
    space, kernel = sb.Grid([[0.0, 1.0]] * 40, 10), sb.Matern(0.2, nu=1.5)
    function = sb.RKHSFunction.sparse(space, kernel, seed=1, count=300)
    nearest = space.at(np.rint(function.centers * 9).astype(np.int64))
    assert function.optimum() >= function.evaluate(nearest).max()


@pytest.mark.parametrize("space", [sb.Grid([[0, 1], [2, 5]], 7), sb.Grid([[-1, 1]] * 50, 10), sb.Box([[-1, 1]] * 50)])
def test_planted(space: sb.Grid | sb.Box) -> None:
    """The optimum is the height, at a hidden point of the space; the norm is the height, too."""
    function = sb.RKHSFunction.planted(space, sb.RBF(0.1), height=2.0, seed=5)
    assert function.optimum() == pytest.approx(2.0, rel=1e-12)
    assert function.mean(space.check(function.centers))[0] == function.optimum()
    assert function.rkhs_norm == pytest.approx(2.0)
    other = sb.RKHSFunction.planted(space, sb.RBF(0.1), seed=6)
    assert (other.centers != function.centers).any()
    with pytest.raises(ValueError, match=r"^height: got 0"):
        sb.RKHSFunction.planted(space, sb.RBF(0.1), height=0.0)
