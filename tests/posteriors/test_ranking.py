"""Points of a generation that need no evaluation: beside an oracle, and what they spare."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from naive import ranking as naive

from scalable_bandits.posteriors.models.evolution import EvolutionStrategy
from scalable_bandits.posteriors.models.ranking import COMPARED, Ranking
from scalable_bandits.posteriors.state import copied


def ellipsoid(x):
    return 7.0 - float(np.logspace(0, 3, len(x)) @ (x - 0.45) ** 2)


def rough(x):
    return -float(np.sin(1e5 * x).sum())


def step(x):
    return -math.ceil(20.0 * float(np.abs(x - 0.4).sum()))


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 80), st.sampled_from([0.1, 1.0, 100.0]))
@settings(max_examples=60, deadline=None)
def test_the_model_beside_the_oracle(seed, d, n, width):
    """However many observations there are: none, a linear, a diagonal or a whole quadratic model."""
    rng = np.random.default_rng(seed)
    x, points, y = width * rng.standard_normal((n, d)), rng.standard_normal((6, d)), 1e3 + rng.standard_normal(n)
    ranking = Ranking()
    ranking.begin(6)
    ranking.predict(points, x, y)
    expected = naive.fitted(points.tolist(), x.tolist(), y.tolist())
    if expected is None:
        assert np.isnan(ranking.predicted).all()
    else:
        assume(np.abs(expected).max() < 1e6)  # not far beyond the observations
        np.testing.assert_allclose(ranking.predicted, expected, rtol=1e-5)


def test_the_nearest_observations_of_many():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((600, 2)), rng.standard_normal(600)
    few, many = Ranking(), Ranking()
    for ranking, among in ((few, np.argsort(np.linalg.norm(x, axis=1))[:12]), (many, np.arange(600))):
        ranking.begin(5)
        ranking.predict(x[:5] / 9.0, x[among], y[among])
    np.testing.assert_allclose(many.predicted, few.predicted, rtol=1e-9)


@given(st.lists(st.integers(0, 6), min_size=COMPARED, max_size=COMPARED), st.integers(0, 2**32), st.integers(0, 20))
@settings(max_examples=100, deadline=None)
def test_reliable_beside_the_oracle(predicted, seed, changed):
    """Ties are pairs that are ordered neither way; what was compared before the last ones does not count."""
    values, rng = [float(each) for each in predicted], np.random.default_rng(seed)
    for _ in range(changed):
        values[rng.integers(COMPARED)] = float(rng.integers(7))
    ranking = Ranking()
    ranking.begin(COMPARED)
    ranking.predicted[:] = np.arange(COMPARED)[::-1]
    for position in range(COMPARED):
        assert not ranking.reliable
        ranking.compare(position, float(position))
    assert not ranking.reliable
    ranking.predicted[:] = predicted
    for position, value in enumerate(values):
        ranking.compare(position, value)
    assert ranking.reliable == naive.agree(predicted, values)


@pytest.mark.parametrize(("function", "spares"), [(ellipsoid, True), (step, True), (rough, False)])
@pytest.mark.parametrize("d", [2, 5])
def test_generations_beside_the_oracle(d, function, spares):
    """Which points are evaluated, and in which order; the strategy learns from the values of all."""
    rng, spared = np.random.default_rng(d), 0
    x = rng.random((60, d))
    y, pairs = np.array([function(each) for each in x]), []
    strategy = EvolutionStrategy(np.array([[0.0, 1.0]] * d), d)
    strategy.start(x, y)
    for _ in range(12):
        points, origin, unit = strategy.points().copy(), strategy._mean.copy(), strategy._roots()[1] / strategy.length

        def steps(each, origin=origin, unit=unit):
            return ((each - origin) @ unit).tolist()

        values = {tuple(u): function(point) for u, point in zip(steps(points), points, strict=True)}
        order, expected = naive.play(
            steps(points), lambda u, values=values: values[tuple(u)], steps(x), y.tolist(), pairs
        )
        learned = []
        strategy._learn = lambda *best, own=strategy, learned=learned: (
            learned.append(own._values.copy()), EvolutionStrategy._learn(own, *best)
        )  # fmt: skip
        for position in order:
            assert not learned
            np.testing.assert_array_equal(strategy.next(np.empty((0, d))), points[position])
            x, y = np.concatenate([x, points[position : position + 1]]), np.append(y, function(points[position]))
            strategy.observe(position, y[-1], x, y, 0.0)
        np.testing.assert_allclose(learned, [expected], rtol=1e-6)
        spared += len(points) - len(order)
    assert (spared > 0) == spares


def test_fewer_evaluations_for_the_same():
    """An ellipsoid's minimum takes the strategy half as many evaluations as without a model, at most."""
    counts = []
    for sees in (1, 500):
        x = np.random.default_rng(0).random((60, 5))
        y = np.array([ellipsoid(each) for each in x])
        strategy = EvolutionStrategy(np.array([[0.0, 1.0]] * 5), 0)
        strategy.start(x, y)
        while y.max() < 7.0 - 1e-8:
            point = strategy.next(np.empty((0, 5)))
            x, y = np.concatenate([x, point[None]]), np.append(y, ellipsoid(point))
            strategy.observe(strategy.find(point), y[-1], x[-sees:], y[-sees:], 0.0)
        counts.append(len(y) - 60)
    assert counts[1] <= counts[0] / 2


def test_restored_in_the_midst_of_a_generation():
    """Predictions, comparisons and the number of points that are needed are those of before."""
    x = np.random.default_rng(0).random((60, 3))
    y = np.array([ellipsoid(each) for each in x])
    strategy, box = None, np.array([[0.0, 1.0]] * 3)
    played = []
    for restores in (False, True):
        strategy, points, values = EvolutionStrategy(box, 0), x, y
        strategy.start(points, values)
        for _ in range(60):
            if restores:
                strategy, held = EvolutionStrategy(box, 0), copied(strategy.state())
                strategy.restore(held)
            point = strategy.next(np.empty((0, 3)))
            points, values = np.concatenate([points, point[None]]), np.append(values, ellipsoid(point))
            strategy.observe(strategy.find(point), values[-1], points, values, 0.0)
        played.append(points)
    np.testing.assert_array_equal(*played)
