"""The largest value on a large grid, by branch and bound, against all values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalable_bandits as sb
from scalable_bandits.environments.synthetic import grid_maximum

KERNELS = (sb.RBF(0.1), sb.Matern(0.2, nu=1.5), sb.Matern(0.05, nu=0.5), sb.RationalQuadratic(0.3))


@given(
    sides=st.lists(st.integers(1, 12), min_size=1, max_size=4), kernel=st.sampled_from(KERNELS),
    seed=st.integers(0, 999), count=st.integers(1, 40), sign=st.sampled_from([-1.0, 1.0]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_is_the_largest_of_all(sides: list[int], kernel: sb.Kernel, seed: int, count: int, sign: float) -> None:
    space = sb.Grid([[-0.3, 0.9]] * len(sides), tuple(sides))
    drawn = sb.RKHSFunction.sparse(space, kernel, seed=seed, count=count)
    weights = sign * np.abs(drawn.weights) if seed % 3 == 0 else drawn.weights  # also without any that is positive
    function = sb.RKHSFunction(space, kernel, drawn.centers, weights)
    found = grid_maximum(function.evaluate, space, kernel, function.centers, function.weights)
    assert found == function.evaluate(space.points()).max()


def test_lengthscales_of_their_own() -> None:
    space, kernel = sb.Grid([[0.0, 1.0], [0.0, 5.0], [0.0, 1.0]], (20, 30, 10)), sb.Matern((0.1, 2.0, 0.5), nu=2.5)
    function = sb.RKHSFunction.sparse(space, kernel, seed=3)
    found = grid_maximum(function.evaluate, space, kernel, function.centers, function.weights)
    assert found == function.evaluate(space.points()).max()


def test_optimum_of_a_large_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a small one, where all values are in a table; searched once."""
    space, kernel = sb.Grid([[0.0, 1.0]] * 3, 20), sb.Matern(0.2, nu=1.5)
    expected = sb.RKHSFunction.sparse(space, kernel, seed=1).optimum()
    monkeypatch.setattr("scalable_bandits.environments.synthetic.TABLE_LIMIT", 7_999)
    function = sb.RKHSFunction.sparse(space, kernel, seed=1)
    assert function.optimum() == expected
    monkeypatch.setattr(function, "evaluate", None)
    assert function.optimum() == expected
