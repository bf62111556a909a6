"""Environments on grids that nobody enumerates: they know their optimum, or say what to give."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import scalable_bandits as sb

LARGE = [sb.Grid([[0, 1]] * 12, 10), sb.Grid([[0, 1]] * 50, 10)]  # candidates with numbers, and without


def _square(x: np.ndarray) -> float:
    return -float(((x - 0.5) ** 2).sum())


@pytest.mark.parametrize("space", LARGE)
def test_simulation_with_a_known_optimum(space: sb.Grid) -> None:
    environment = sb.FunctionEnvironment(space, _square, optimum=space.dimension * -(1 / 18**2))
    policy = sb.RandomSearch(space, seed=1)
    run = sb.simulate(policy, environment, 30)
    values = environment.mean(policy.domain.points(run.candidate))
    np.testing.assert_allclose(run.regret, environment.optimum() - values, rtol=1e-12)
    assert (run.regret >= 0).all()


@pytest.mark.parametrize("space", LARGE)
@pytest.mark.parametrize(
    "make",
    [
        lambda space: sb.FunctionEnvironment(space, _square).optimum(),
        lambda space: sb.FunctionEnvironment(space, _square).table(),
        lambda space: sb.Benchmark("ackley", sb.Grid([[-30, 30]] * space.dimension, 10)).optimum(),
        lambda space: sb.Benchmark("ackley", space, scaled=True),
        lambda space: sb.GPSample(space, sb.RBF(0.2)),
        lambda space: sb.DriftingFunction.sparse(space, sb.RBF(0.2), knots=[1]),
        lambda space: sb.simulate(sb.RandomSearch(space), sb.RKHSFunction.sparse(space, sb.RBF(0.8)), 3),
    ],
)
def test_refusals(space: sb.Grid, make: Callable[[sb.Grid], object]) -> None:
    """Nothing is enumerated."""
    with pytest.raises(ValueError, match=r"^space: got '1\S+ candidates.*'; allowed: "):
        make(space)


def test_benchmark_whose_maximiser_is_on_the_grid() -> None:
    for name, bounds, side in (("ackley", [-32, 16], 7), ("rosenbrock", [-2, 2], 9)):
        small, large = (sb.Benchmark(name, sb.Grid([bounds] * d, side)) for d in (3, 30))
        assert large.optimum() == pytest.approx(small.optimum(), abs=1e-12)
    outside = sb.Grid([[-40, 40]] * 12, 9)  # the published maximum is that of the usual bounds alone
    with pytest.raises(ValueError, match=r"^space: got '282,429,536,481 candidates'"):
        sb.Benchmark("ackley", outside).optimum()


def test_optimum_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit of tables all candidates are evaluated in parts."""
    environment = sb.Benchmark("hartmann3", sb.Grid([[0, 1]] * 3, 20))
    expected = environment.table().max()
    monkeypatch.setattr("scalable_bandits.environments.base.TABLE_LIMIT", 7_999)
    monkeypatch.setattr("scalable_bandits.environments.base.AT_ONCE", 999)
    assert sb.Benchmark("hartmann3", environment.space).optimum() == pytest.approx(expected, rel=1e-14)


def test_named_space_without_an_optimum() -> None:
    environment = sb.FunctionEnvironment(sb.SearchSpace({"x": sb.Real(0, 1)}), lambda x: x["x"])
    with pytest.raises(ValueError, match=r"^space: got 'a space of named parameters'; allowed: .*optimum="):
        environment.optimum()
