"""Ripples that a learned model has taken for noise, against the formulas; and what a policy recommends then."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import ripples as naive

import scalable_bandits as sb
from scalable_bandits.posteriors.models.ripples import with_ripples


@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(1, 3), st.floats(0.0, 2.0), st.integers(0, 30))
def test_estimates_are_the_formulas(seed, n, d, noise, near):
    rng = np.random.default_rng(seed)
    points = rng.random((n, d))
    points[: min(near, n - 1)] = points[-1] + rng.uniform(-0.012, 0.012, (min(near, n - 1), d))
    z, means = rng.standard_normal((2, n)) * rng.choice([0.01, 1.0], (2, 1))
    counts = rng.integers(1, 4, n)
    found, expected = (f(points, z, counts, means, noise) for f in (with_ripples, naive.estimates))
    assert (found is None) == (expected is None)
    if found is not None:
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_outliers_keep_the_mean():
    rng = np.random.default_rng(3)
    points = np.repeat(rng.random((20, 2)), 2, axis=0)
    points[1::2] += 1e-4  # a near one of each
    ripples = np.repeat(rng.normal(0.0, 0.5, 20), 2)
    z = ripples.copy()
    z[7] = 20.0
    found = with_ripples(points, z, np.ones(40, int), np.zeros(40), 1.0)
    assert found[7] == 0.0
    kept = np.arange(40) != 7
    np.testing.assert_allclose(found[kept], ripples[kept], rtol=1e-9)


@pytest.mark.parametrize("n", [150, 600])
def test_noise_is_rarely_taken_for_ripples(n):
    """One time in twenty: of 200 it is more than 22 times with a probability below 0.0003."""
    rng = np.random.default_rng(11)
    found = 0
    for _ in range(200):
        points, z = rng.random((n, 2)), rng.normal(0.0, 0.3, n)
        found += with_ripples(points, z, np.ones(n, int), np.zeros(n), 0.09) is not None
    assert found <= 22


def test_what_is_expected_of_many_told_values_is_not_the_luckiest():
    """200 values of a smooth function with much noise, at random points: the mean is that of the posterior."""
    rng = np.random.default_rng(0)
    for seed in range(5):
        points = rng.random((200, 2))
        policy = sb.GPEI(sb.Box([[0, 1]] * 2), seed=seed)
        policy.tell(points, -((points - 0.4) ** 2).sum(axis=1) + rng.normal(0.0, 0.3, 200))
        best = policy.best()
        assert best.mean == pytest.approx(policy.posterior(best.x)[0], abs=1e-9)


def measured(values):
    """A bowl of 40 points in a square, and six pairs of near points, with something added."""
    rng = np.random.default_rng(5)
    points = rng.uniform(-0.95, 0.95, (46, 2))
    points[40:] = points[:6] + 4e-4
    return points, -(points**2).sum(axis=1) + values(rng, points)


@pytest.mark.parametrize("kind", ["ripples", "noise"])
def test_the_best_value_is_recommended_where_it_is_no_luck(kind):
    """Both look the same from afar, and are learned as noise; only ripples are the same at near points."""
    added = {
        "ripples": lambda rng, points: 0.5 * np.sin(80.0 * points[:, 0]) * np.sin(90.0 * points[:, 1] + 1.0),
        "noise": lambda rng, points: rng.normal(0.0, 0.35, len(points)),
    }[kind]
    points, y = measured(added)
    policy = sb.GPEI(sb.Box([[-1, 1]] * 2), seed=1)
    policy.tell(points, y)
    assert policy.model.noise > 0.05
    best = policy.best()
    if kind == "ripples":
        assert best.x.tolist() == points[np.argmax(y)].tolist()
        assert best.mean > policy.posterior(best.x)[0] + 0.05
    else:
        means = policy.posterior(points)[0]
        assert best.x.tolist() == points[np.argmax(means)].tolist()
        assert best.mean == pytest.approx(float(means.max()))
        assert means.max() < y.max() - 0.1
