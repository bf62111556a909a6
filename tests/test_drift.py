"""The room that sleeping tiles are given covers what their means have moved, and no deviation grows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scalable_bandits import RBF, Matern
from scalable_bandits.posteriors import DenseEngine, tiles
from scalable_bandits.posteriors.tiles import Tiles

POINTS = np.linspace(0.0, 1.0, 200)[:, None]
CASES = st.tuples(
    st.lists(st.integers(0, 19), min_size=1, max_size=8),  # favourites: few points, many repeats
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-4, 1e-2, 1.0]),
    st.booleans(),
)


def test_norm_of_the_move_of_repeats_and_new_points():
    """The norm since the window opened equals the one of its definition, with a new point after repeats."""
    kernel, noise = RBF(0.2), 0.01
    held = Tiles(kernel, POINTS, np.zeros(200))
    observations = [(100, 1.0)] * 30 + [(110, 1.0), (140, -2.0)]
    for p, y in observations:
        held.observe(p, y, noise)
    x = POINTS[[p for p, _ in observations]]
    matrix = kernel.block(x)
    weights = np.linalg.solve(matrix + noise * np.eye(len(x)), np.array([y for _, y in observations]))
    np.testing.assert_allclose(held.window.drift(), np.sqrt(weights @ matrix @ weights), rtol=1e-8)


@given(CASES)
def test_room_covers_the_move(small_tiles, case):
    """Tiles put to sleep at random rounds, through folds: |mean - mean then| <= room s(then), s <= s(then)."""
    favourites, seed, noise, smooth = case
    rng = np.random.default_rng(seed)
    kernel = RBF(0.2) if smooth else Matern(0.1, nu=0.5)
    held, exact = Tiles(kernel, POINTS, np.zeros(200)), DenseEngine(kernel, POINTS, np.zeros(200))
    edges = np.arange(200) // tiles.TILE
    for _ in range(60):
        if rng.random() < 0.1:
            held.sleep(~held.asleep & (rng.random(len(held.asleep)) < 0.5))
        p = int(rng.choice(favourites)) * 10 if rng.random() < 0.7 else int(rng.integers(200))
        y = 0.0 if rng.random() < 0.2 else float(rng.normal())
        held.observe(p, y, noise)
        exact.observe(p, y, noise)
        room = held.drift.room(held.window.drift())[edges]
        asleep = held.asleep[edges]
        std = np.sqrt(held.variance)
        moved = np.abs(exact.mean() - held.mean)
        assert (moved[asleep] <= room[asleep] * std[asleep] * (1 + 1e-6) + 1e-7).all()
        assert (exact.variance()[asleep] <= held.variance[asleep] + 1e-9).all()
