"""Where another local search begins: multi-level single linkage."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import starts as naive

from scalable_bandits.posteriors.models import starts


@given(st.integers(0, 2**32), st.integers(2, 60), st.integers(1, 6), st.booleans(), st.integers(0, 8))
@settings(max_examples=100, deadline=None)
def test_beside_the_definition(seed, n, d, ties, searches):
    rng = np.random.default_rng(seed)
    points = rng.random((n, d)) * rng.choice([0.1, 1.0, 2.0])
    values = rng.integers(0, 4, n).astype(float) if ties else rng.standard_normal(n)
    used = set(rng.integers(0, n, searches).tolist())
    assert starts.next_start(points, values, used) == naive.next_start(points.tolist(), values.tolist(), used)


def test_begins_in_each_valley():
    """And nowhere else, once searches ended at the bottoms of all."""
    x = np.linspace(0.0, 1.0, 201)[:, None]
    values = np.cos(6.0 * np.pi * x[:, 0]) - 0.1 * x[:, 0]  # maxima near 0, 1/3, 2/3 and 1
    used: set[int] = set()
    while (found := starts.next_start(x, values, used)) is not None:
        used.add(found)
    np.testing.assert_allclose(x[sorted(used), 0], [0.0, 1 / 3, 2 / 3, 1.0], atol=0.01)


def test_points_that_are_many_are_the_best_ones(monkeypatch):
    monkeypatch.setattr(starts, "MOST", 3)
    points, values = np.linspace(0.0, 30.0, 10)[:, None], -np.arange(10.0)
    used: set[int] = set()
    while (found := starts.next_start(points, values, used)) is not None:
        used.add(found)
    assert used == {0, 1, 2}
