"""CMA-ES: beside an oracle, its restarts, and points told in any order."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import evolution as naive
from naive.evolution import CMAES

from scalable_bandits.posteriors.models import evolution
from scalable_bandits.posteriors.models.evolution import SHORTEST, WIDE, EvolutionStrategy, first_length, first_size
from scalable_bandits.posteriors.models.ranking import Ranking
from scalable_bandits.posteriors.state import copied
from scalable_bandits.randomness import generator

NOBODY = np.empty((0, 3))


def cube(d):
    return np.array([[0.0, 1.0]] * d)


def started(d, seed=0, mean=0.5):
    strategy = EvolutionStrategy(cube(d), seed)
    strategy.start(np.full((1, d), mean), np.array([-math.inf]))
    strategy.length, strategy._drawn, strategy._trial = first_length(d), None, 0
    return strategy


def observe(strategy, position, value, best, least=0.0):
    """Tell a value, with nothing else known than the best point so far: too little for a model of the others."""
    strategy.observe(position, value, best[0][None], np.array([best[1]]), least)


def tell(strategy, function, best=(None, -math.inf), least=0.0, order=None):
    """Tell a generation; return the best point known so far with its value, and the points with their values."""
    points = strategy.points().copy()
    values = [function(x) for x in points]
    for i in range(len(points)) if order is None else order:
        if values[i] > best[1]:
            best = points[i], values[i]
        assert strategy.find(points[i]) == i
        observe(strategy, i, values[i], best, least)
    return best, points, values


def ellipsoid(x):
    return -float(np.logspace(0, 3, len(x)) @ (x - 0.45) ** 2)


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 3, 5, 10]), st.sampled_from([0.5, 0.0, 0.98]))
@settings(max_examples=40, deadline=None)
def test_beside_the_tutorial(seed, d, mean):
    """Points, mean, length and covariance of twelve generations, also where points are cut off at the bounds."""
    strategy, best = started(d, seed, mean), (None, -math.inf)
    oracle = CMAES([mean] * d, first_length(d), first_size(d))
    for _ in range(12):
        normal = generator(seed, "evolution", strategy._generation).standard_normal((oracle.size, d))
        expected = np.clip(np.array(oracle.mean) + oracle.sigma * normal @ oracle.root(), 0.0, 1.0)
        np.testing.assert_allclose(strategy.points(), expected, rtol=1e-7, atol=1e-12)
        best, points, values = tell(strategy, ellipsoid, best)
        oracle.learn(points, values)
        if len(set(values)) == 1:  # all are cut off at a corner: it starts again
            return
        assert strategy.length == pytest.approx(oracle.sigma, rel=1e-8)
        np.testing.assert_allclose(strategy._mean, oracle.mean, rtol=1e-7, atol=1e-12)
        np.testing.assert_allclose(strategy._covariance, oracle.C, rtol=1e-6, atol=1e-10)


def test_first_lengths():
    assert [first_length(d) for d in (1, 5, 20, 100)] == [0.01, 0.05, WIDE, WIDE]


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 3, 5]), st.integers(1, 40), st.sampled_from([0.01, 0.1, 1.0]))
@settings(max_examples=40, deadline=None)
def test_start(seed, d, count, width):
    """The first steps are spread as the better third of the places; ties are in the order of telling."""
    rng = np.random.default_rng(seed)
    bounds = np.array([[-3.0, 5.0]] * d)
    points = rng.random((count, d)) * np.logspace(-3, 0, d) * width
    values = rng.integers(0, count, count).astype(float)
    strategy = EvolutionStrategy(bounds, seed)
    strategy.start(-3.0 + 8.0 * points, values)
    length, covariance = naive.spread(points.tolist(), values.tolist())
    assert strategy.length == pytest.approx(length, rel=1e-9)
    np.testing.assert_allclose(strategy._covariance, covariance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(strategy._mean, points[np.argmax(values)], rtol=1e-12, atol=1e-12)
    assert strategy.started
    assert len(strategy.points()) == first_size(d)


@pytest.mark.parametrize(("ranked", "known", "widens"), [
    (None, 79, True), (0, 79, False), (2, 79, False), (3, 79, True), (None, 80, False),
])  # fmt: skip
def test_wide_after_three_generations_that_the_model_did_not_rank(ranked, known, widens, monkeypatch):
    """At the best point, in all directions alike, once; of three coordinates a quadratic function has ten terms."""
    rng = np.random.default_rng(0)
    x, y = rng.random((known, 3)) * [1.0, 0.1, 0.01], rng.random(known)
    strategy, ages = EvolutionStrategy(cube(3), 0), []
    strategy.start(x, y)
    for i in range(6):
        monkeypatch.setattr(Ranking, "reliable", i == ranked)
        number = strategy._generation
        while strategy._generation == number:
            x, y = np.concatenate([x, strategy.next(NOBODY)[None]]), np.append(y, rng.random())
            strategy.observe(strategy.find(x[-1]), y[-1], x, y, 0.0)
        ages.append(strategy._age)
        if strategy._age == 0:
            assert (strategy.length, len(strategy._values)) == (WIDE, first_size(3))
            np.testing.assert_array_equal(strategy._mean, x[np.argmax(y)])
            np.testing.assert_array_equal(strategy._covariance, np.eye(3))
    assert ages == ([1, 2, 0, 1, 2, 3] if widens else [1, 2, 3, 4, 5, 6])


def test_the_start_looks_at_the_best_points_of_many(monkeypatch):
    monkeypatch.setattr(evolution, "MOST", 12)
    points, values = np.random.default_rng(0).random((40, 2)), np.arange(40.0)
    many, few = EvolutionStrategy(cube(2), 0), EvolutionStrategy(cube(2), 0)
    many.start(points, values)
    few.start(points[-12:], values[-12:])
    np.testing.assert_array_equal(many.points(), few.points())


def test_weights_of_larger_generations():
    for d, size in [(1, 4), (2, 6), (5, 16), (10, 40), (40, 240)]:
        strategy, oracle = started(d), CMAES([0.5] * d, 0.1, size)
        strategy._resize(np.full(size, np.nan))
        np.testing.assert_allclose(strategy._rates.weights, oracle.w)


def test_a_better_point_of_others_takes_the_place_of_the_worst_once():
    strategy, oracle = started(3), CMAES([0.5] * 3, 0.03, first_size(3))
    _, points, values = tell(strategy, ellipsoid)
    oracle.learn(points, values)
    other = np.full(3, 0.4501), ellipsoid(np.full(3, 0.4501))
    for _ in range(2):
        _, points, values = tell(strategy, lambda x: min(ellipsoid(x), other[1] - 1e-3), other)
        if strategy._age == 2:
            worst = int(np.argmin(values))
            points[worst], values[worst] = other
        oracle.learn(points, values)
        np.testing.assert_allclose(strategy._mean, oracle.mean, rtol=1e-7)


def test_in_any_order_and_several_at_once():
    """Points that are pending are not offered again; the order of telling does not matter."""
    first, second = started(3), started(3)
    size, best = first_size(3), (np.full(3, 0.45), 0.0)
    for _ in range(4):
        offered = []
        for _ in range(size):
            offered.append(first.next(np.array(offered).reshape(-1, 3)))
        assert first.next(np.array(offered)) is None
        np.testing.assert_array_equal(offered, second.points())
        tell(first, ellipsoid, best)
        tell(second, ellipsoid, best, order=range(size)[::-1])
        np.testing.assert_array_equal(first.points(), second.points())
    assert first.find(np.full(3, 0.1)) is None
    assert EvolutionStrategy(cube(3), 0).find(np.full(3, 0.5)) is None


def test_in_bounds_far_from_the_origin():
    """Points are known again as they were asked for, however much coordinates are rounded, and none is outside."""
    bounds = np.array([[1e6, 1e6 + 1.0], [0.1, 0.7]])
    strategy = EvolutionStrategy(bounds, 0)
    strategy.start(np.array([[1e6 + 1.0, 0.7]]), np.array([-math.inf]))
    strategy.length, strategy._drawn, strategy._trial, best = first_length(2), None, 0, (None, -math.inf)
    for _ in range(30):
        assert ((strategy.points() >= bounds[:, 0]) & (strategy.points() <= bounds[:, 1])).all()
        best, _, _ = tell(strategy, lambda x: -float(abs(x[0] - 1e6 - 0.9) + abs(x[1] - 0.6)), best)
    assert strategy._age == 30
    assert best[1] > -1e-3


def test_restored():
    """In the midst of a generation, and after a restart."""
    strategy, best = started(2), (None, -math.inf)
    for count in range(160):
        if count % 40 == 7:
            points = strategy.points().copy()
            best = max((best, (points[1], ellipsoid(points[1]))), key=lambda each: each[1])
            observe(strategy, 1, ellipsoid(points[1]), best)
            other = EvolutionStrategy(cube(2), 0)
            other.restore(copied(strategy.state()))
            np.testing.assert_array_equal(other.points(), strategy.points())
            assert other.find(points[1]) is None
            strategy = other
            for i in (0, *range(2, len(points))):
                best = max((best, (points[i], ellipsoid(points[i]))), key=lambda each: each[1])
                observe(strategy, i, ellipsoid(points[i]), best)
        else:
            best, _, _ = tell(strategy, ellipsoid, best)
    assert len(strategy._values) > first_size(2)


def test_restarts():
    """Wide and with twice the size after it converged; at the best point, as at first, if others found it meanwhile."""
    strategy, best, count = started(2), (None, -math.inf), 0
    while len(strategy._values) == first_size(2):
        best, _, _ = tell(strategy, ellipsoid, best)
        count += 1
    assert 60 < count < 150
    assert best[1] > -1e-12
    assert (strategy.length, strategy._age, len(strategy._values)) == (WIDE, 0, 2 * first_size(2))
    assert np.abs(strategy._mean - 0.45).max() > 0.01
    while strategy._age or len(strategy._values) == 2 * first_size(2):
        best, _, _ = tell(strategy, ellipsoid, best)
    assert len(strategy._values) == 4 * first_size(2)
    other = np.array([0.9, 0.9]), 1.0
    while len(strategy._values) == 4 * first_size(2):
        tell(strategy, lambda x: ellipsoid(x) - 1.0, other)
    np.testing.assert_array_equal(strategy._mean, other[0])
    assert (strategy.length, strategy._age, len(strategy._values)) == (0.02, 0, first_size(2))


def test_a_constant_function_is_left_at_once():
    strategy, best = EvolutionStrategy(cube(3), 0), np.full(3, 0.5)
    strategy.start(best[None], np.ones(1))
    tell(strategy, lambda x: 1.0, (best, 1.0))
    assert len(strategy._values) == 2 * first_size(3)


def test_no_step_is_lost_to_rounding():
    """A function that does not depend on some coordinates, down to the shortest steps."""
    strategy, best = started(4), (None, -math.inf)
    while len(strategy._values) == first_size(4):
        best, _, _ = tell(strategy, lambda x: -abs(x[0] - 0.3), best)
        assert np.isfinite(strategy._covariance).all()
    assert best[1] > -1e4 * SHORTEST
