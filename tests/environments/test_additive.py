"""Sums of functions of few dimensions: values and optima against loops over all candidates."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import kernels

import scalable_bandits as sb
from scalable_bandits.environments import Environment

MATERN = sb.Matern(0.3, nu=1.5)


def naive_value(environment: sb.AdditiveFunction, x: np.ndarray) -> float:
    """From the formula: for every group each center's kernel function at the point's coordinates in the group."""
    total = 0.0
    for term, group in zip(environment.terms, environment.groups, strict=True):
        assert isinstance(term, sb.RKHSFunction)
        for center, weight in zip(term.centers, term.weights, strict=True):
            total += weight * kernels.matern32(0.3)(x[list(group)], center)
    return total


@given(
    sides=st.lists(st.integers(1, 4), min_size=1, max_size=5), size=st.integers(1, 3), seed=st.integers(0, 999),
    data=st.data(),
)  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_optimum_by_groups(sides: list[int], size: int, seed: int, data: Any) -> None:
    """The largest of all values, which are those of the formula; dimensions in no group have no effect."""
    space = sb.Grid([[-1.0, 0.5 + i] for i in range(len(sides))], tuple(sides))
    relevant = data.draw(st.integers(1, len(sides)))
    drawn = sb.AdditiveFunction.sparse(space, MATERN, size=size, relevant=relevant, seed=seed, count=4)
    assert sum(map(len, drawn.groups)) == relevant
    values = [naive_value(drawn, x) for x in space.points()]
    np.testing.assert_allclose(drawn.mean(space.points()), values, rtol=1e-10, atol=1e-12)
    assert drawn.optimum() == drawn.table().max()
    assert drawn.optimum(available=[0]) == drawn.table()[0]


def test_terms_with_bounds_of_their_own() -> None:
    """Branin on a grid of other bounds, against a loop; with a table on the grid of its group."""
    space = sb.Grid([[0, 1], [5, 7], [0, 2], [-1, 1]], (3, 4, 5, 6))
    table = sb.TableEnvironment(sb.Grid([[-1, 1]], 6), np.array([0.1, 3.0, -2.0, 0.0, 1.0, 2.0]))
    branin = sb.Benchmark("branin")
    environment = sb.AdditiveFunction(space, [branin, table], [[2, 0], [3]])
    expected = [
        branin.mean([-5 + 15 * x[2] / 2, 15 * x[0]]) + table.mean(x[3]) for x in space.points()
    ]  # fmt: skip
    np.testing.assert_allclose(environment.table(), expected, rtol=1e-12)
    assert environment.optimum() == pytest.approx(max(expected), rel=1e-12)


@pytest.mark.parametrize("space", [sb.Grid([[0, 1]] * 100, 30), sb.Box([[0, 1]] * 100)])
def test_hidden_dimensions(space: sb.Grid | sb.Box) -> None:
    """A published function of six of a hundred dimensions: the others have no effect; plays, regret is not negative."""
    environment = sb.AdditiveFunction.embedded(sb.Benchmark("hartmann6"), space, seed=4)
    points = space.draw(20, np.random.default_rng(1))
    moved = points.copy()
    others = [i for i in range(100) if i not in environment.groups[0]]
    moved[:, others] = points[::-1][:, others]
    assert (environment.mean(moved) == environment.mean(points)).all()
    np.testing.assert_allclose(
        environment.mean(points), sb.Benchmark("hartmann6").mean(points[:, environment.groups[0]]), rtol=1e-12
    )
    if space.size is None:
        assert environment.optimum() == sb.Benchmark("hartmann6").optimum()
    else:  # 30^6 candidates of the group
        with pytest.raises(ValueError, match=r"^space: got '729,000,000 candidates'"):
            environment.optimum()
    other = sb.AdditiveFunction.embedded(sb.Benchmark("branin"), space, sb.GaussianNoise(0.1), seed=5)
    policy = sb.RandomSearch(space, candidates=50)
    run = sb.simulate(policy, other, 20)
    assert (run.regret >= 0).all()
    np.testing.assert_allclose(run.regret, other.optimum() - other.mean(policy.domain.points(run.candidate)))


def test_box_and_norm() -> None:
    """On a box the sum of the terms' searched optima; the norm bounds that of the sum's kernel."""
    space = sb.Box([[0, 1]] * 20)
    environment = sb.AdditiveFunction.sparse(space, MATERN, groups=[[3, 0], [7]], seed=2)
    axis = np.linspace(0, 1, 201)
    first = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    best = environment.terms[0].evaluate(first).max() + environment.terms[1].evaluate(axis[:, None]).max()
    assert best <= environment.optimum() <= best + 1e-2
    whole = sb.OnDimensions(MATERN, [3, 0]) + sb.OnDimensions(MATERN, [7])
    points = space.draw(60, np.random.default_rng(0))
    values = environment.mean(points)
    lower = float(values @ np.linalg.solve(whole.block(points) + 1e-9 * np.eye(60), values)) ** 0.5
    assert lower <= environment.rkhs_norm + 1e-6  # the norm of an interpolant is the smallest


def test_round_trip() -> None:
    space = sb.Grid([[0, 1]] * 30, 5)
    terms: list[Environment] = [
        sb.Benchmark("branin", unit_cube=True),
        sb.RKHSFunction.sparse(sb.Grid([[0, 1]], 5), MATERN, seed=3),
        sb.GPSample(sb.Grid([[0, 1]], 5), MATERN, seed=1),
    ]
    environment = sb.AdditiveFunction(space, terms, [[0, 29], [4], [5]], sb.GaussianNoise(0.2), seed=8)
    data = json.loads(json.dumps(environment.to_dict()))
    points = space.draw(5, np.random.default_rng(0))
    for copy in (sb.AdditiveFunction.from_dict(data), pickle.loads(pickle.dumps(environment))):
        assert copy.to_dict() == environment.to_dict()
        assert (copy.observe(points, 3) == environment.observe(points, 3)).all()
        assert copy.optimum() == environment.optimum()


@pytest.mark.parametrize(
    ("terms", "groups", "message"),
    [
        ([], [], r"^terms: got \[\]; allowed: environments, at least one"),
        ([sb.Benchmark("branin")], [[0, 0]], r"^groups: got .*; allowed: lists of dimensions, .* no dimension twice"),
        ([sb.Benchmark("branin")], [[0, 9]], r"^groups: got 9; allowed: .* 2"),
        ([sb.Benchmark("branin")], [[0]], r"^terms\[0\]: got .*; allowed: an environment on a box of 1 dimensions"),
        ([sb.Benchmark("branin")], [[0, 1], [2]], r"^groups: got '2 groups'; allowed: '?1, one a term"),
        ([sb.Benchmark("forrester", sb.Grid([[0, 1]], 6))], [[0]], r"^terms\[0\]: got .*, or a grid with \[7\] points"),
    ],
)
def test_refusals(terms: list[Environment], groups: list[list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sb.AdditiveFunction(sb.Grid([[0, 1]] * 3, 7), terms, groups)
