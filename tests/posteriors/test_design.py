"""Variances for choosing points by variance alone: the numbers of the dense engine, several points at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalable_bandits as sb
from scalable_bandits.posteriors import DenseEngine
from scalable_bandits.posteriors.models.model import DEVIATION
from scalable_bandits.posteriors.tiled import design
from scalable_bandits.posteriors.tiled.design import DesignEngine

KERNEL = sb.Matern([0.2, 0.4], nu=1.5)
POINTS = np.random.default_rng(0).random((300, 2))
GRID = sb.Grid([[0, 1], [0, 1]], 18).points()


@pytest.fixture(autouse=True)
def small(monkeypatch, tiles_a_shard):
    """Pools of 16 candidates, tiles of 64, chunks of 8 rows."""
    tiles_a_shard(2)
    for name, value in {"SMALLEST_POOL": 16, "LARGEST_POOL": 16, "TILE": 64, "CHUNK": 8, "BLOCK": 8}.items():
        monkeypatch.setattr(design, name, value)


def both(points=POINTS, kernel=KERNEL):
    return (kind(kernel, points, np.zeros(len(points))) for kind in (DesignEngine, DenseEngine))


def same_choice(engine, dense, allowed=None, salt=3):
    """Choose from both; the same candidate, and variances to rounding."""
    found, best = engine.argmax(DEVIATION, salt, allowed)
    expected, deviation = dense.argmax(DEVIATION, salt, allowed)
    assert (found, best) == (expected, pytest.approx(deviation, rel=1e-9))
    return found


@pytest.mark.parametrize("points", [POINTS, GRID], ids=["points", "symmetric grid"])
def test_largest_variances_one_after_the_other(points):
    """The points of an engine that updates after each."""
    engine, dense = both(points)
    for _ in range(80):
        candidate = same_choice(engine, dense)
        for each in (engine, dense):
            each.observe(candidate, 0.0, 0.05)
    assert engine.information_gain == pytest.approx(dense.information_gain)
    np.testing.assert_allclose(engine.variance(), dense.variance(), atol=1e-10)


def test_ties_of_many():
    """More candidates without any correlation than fit into a pool: ties are broken as elsewhere, many an update."""
    engine, dense = both(GRID, sb.RBF(1e-3))
    mask = np.arange(len(GRID)) % 3 > 0
    for t in range(150):
        candidate = same_choice(engine, dense, mask if t > 60 else None)
        for each in (engine, dense):
            each.observe(candidate, 0.0, 0.05)


@given(
    steps=st.lists(
        st.one_of(
            st.just("best"),
            st.sets(st.integers(0, 6), min_size=1),  # available: those whose number modulo 7 is in it
            st.integers(0, 299),  # any candidate
            st.lists(st.integers(0, 299), min_size=1, max_size=5),  # variances asked for
        ),
        max_size=40,
    )
)
@settings(max_examples=40)
def test_any_points(steps):
    """Chosen among those available or not chosen at all, repeated, of any noise; asked for variances in between."""
    engine, dense = both()
    for t, step in enumerate(steps):
        if isinstance(step, list):
            some = np.array(step)
            np.testing.assert_allclose(engine.at(some)[1], dense.at(some)[1], atol=1e-10)
            continue
        allowed = np.isin(np.arange(300) % 7, list(step)) if isinstance(step, set) else None
        candidate = step if isinstance(step, int) else same_choice(engine, dense, allowed)
        for each in (engine, dense):
            each.observe(candidate, 1.0, 0.05 if t % 3 else 0.5)
    np.testing.assert_allclose(engine.variance(), dense.variance(), atol=1e-10)
    assert engine.information_gain == pytest.approx(dense.information_gain)


def test_repeated_points_are_collapsed():
    engine, dense = both()
    for t in range(100):
        for each in (engine, dense):
            each.observe(t % 5, 0.0, 0.05)
        if t % 7 == 0:
            same_choice(engine, dense)
    np.testing.assert_allclose(engine.variance(), dense.variance(), atol=1e-10)


@pytest.mark.parametrize("rounds", [1, 7, 23])
@pytest.mark.parametrize("points", [POINTS, GRID], ids=["points", "grid"])
def test_state(rounds, points):
    """The same last digits after a restored state, in the middle of a pool or not."""

    def play(engine, count):
        for _ in range(count):
            engine.observe(engine.argmax(DEVIATION, 3)[0], 0.0, 0.05)
        return engine

    whole, _ = both(points)
    first, _ = both(points)
    second, _ = both(points)
    play(whole, 40)
    second.restore(play(first, rounds).state())
    play(second, 40 - rounds)
    np.testing.assert_array_equal(second.variance(), whole.variance())
    assert second.information_gain == whole.information_gain


def test_no_means():
    engine, _ = both()
    with pytest.raises(NotImplementedError, match="variances alone"):
        engine.columns(np.array([1]))
