"""Tiles: the same numbers on any number of threads."""

import copy
import functools
import gc
import pickle
import threading

import numpy as np
import pytest
import threadpoolctl
from scipy.linalg import blas as wrappers

import scalable_bandits as sb
from scalable_bandits.formulas.acquisition import ExpectedImprovement, UpperConfidence
from scalable_bandits.posteriors import TiledEngine, blas
from scalable_bandits.posteriors.sketched.engine import SketchedEngine
from scalable_bandits.posteriors.threads import ThreadTeam

GRID = sb.Grid([[0, 1], [0, 1]], (30, 41))


def played(make, index, rounds=260):
    """Play an engine with repeated points and masks of availability; return all its answers, and the engine."""
    points, rng, said = GRID.points(), np.random.default_rng(2), []
    engine = make(sb.Matern(0.2, nu=1.5), points, 0.1 * points[:, 0])
    favourites = rng.permutation(GRID.size)[:20]
    for t in range(rounds):
        chosen, best = engine.argmax(index, t, rng.random(GRID.size) < 0.5 if t % 5 == 0 else None)
        played = int(favourites[t % 20]) if t % 3 else chosen
        engine.observe(played, float(np.sin(played) + rng.standard_normal()), 0.04)
        said.append((chosen, best, engine.information_gain))
    late = np.array([played, int(favourites[0])])
    said.append(engine.columns(late).tolist())
    engine.revise(late, np.array([0.5, -0.5]), np.array([0.04, 0.04]))
    return repr((said, engine.mean().tolist(), engine.variance().tolist())), engine


@pytest.mark.usefixtures("small_tiles")
class TestThreads:
    @pytest.mark.parametrize("index", [UpperConfidence(0.7), ExpectedImprovement(0.9)], ids=["bound", "improvement"])
    @pytest.mark.sampled(2)
    def test_same_bits(self, index, rebuilds, tile_sizes):
        """Of 20 tiles, the last of them not full; folds and refits happen."""
        tile_sizes(TILES_A_THREAD=2)
        before = set(threading.enumerate())
        one, _ = played(TiledEngine, index)
        assert not set(threading.enumerate()) - before
        assert rebuilds
        for count in (2, 3):
            many, _engine = played(functools.partial(TiledEngine, threads=count), index)
            assert many == one
            assert set(threading.enumerate()) - before
            before = set(threading.enumerate())

    def test_copies_play_on_alike_and_threads_end(self, tile_sizes):
        """A deep copy and a pickle have no threads until they need some; none are left behind an engine."""
        tile_sizes(TILES_A_THREAD=1)
        before = set(threading.enumerate())
        _, engine = played(functools.partial(TiledEngine, threads=2), UpperConfidence(0.7), 30)
        found = []
        for each in (copy.deepcopy(engine), pickle.loads(pickle.dumps(engine)), engine):
            each.observe(3, 1.0, 0.1)
            found.append((each.argmax(UpperConfidence(0.7), 0), each.mean().tolist()))
        assert found.count(found[0]) == 3
        alive = [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("tiles")]
        assert len(alive) == 3
        del engine, each
        gc.collect()
        for thread in alive:
            thread.join(60.0)
        assert not any(thread.is_alive() for thread in alive)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("kind", [TiledEngine, pytest.param(SketchedEngine, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_asking_leaves_no_trace(kind, seed, rebuilds):
    """Whatever is asked in between, also by an engine that was restored: all digits are the same."""
    points, rng = GRID.points(), np.random.default_rng(seed)
    asked, told, restored = (kind(sb.Matern(0.2, nu=1.5), points, np.zeros(GRID.size)) for _ in range(3))
    for t in range(220):
        played = 60 * int(rng.integers(20)) if t % 9 else asked.argmax(UpperConfidence(0.1 * (t % 20)), t)[0]
        if t % 7 == 0:
            asked.argmax(ExpectedImprovement(rng.random()), t, rng.random(GRID.size) < 0.3)
            asked.columns(np.array([played, 3]))
        if t == 130:
            state, restored = restored.state(), kind(sb.Matern(0.2, nu=1.5), points, np.zeros(GRID.size))
            restored.restore(state)
        for engine in (asked, told, restored):
            engine.observe(played, float(np.sin(played)), 0.04)
    for engine in (asked, restored):
        np.testing.assert_array_equal(engine.mean(), told.mean())
        np.testing.assert_array_equal(engine.variance(), told.variance())
        assert engine.information_gain == told.information_gain
    assert rebuilds


def test_runs():
    """Runs cover the range in order; a short range is one run; errors are raised."""
    held = ThreadTeam(3)
    assert held.each(lambda first, stop: (first, stop), 5, 25) == [(5, 11), (11, 18), (18, 25)]
    assert held.each(lambda first, stop: (first, stop), 5, 7) == [(5, 6), (6, 7)]
    assert held.each(lambda first, stop: (first, stop), 5, 25, 8) == [(5, 15), (15, 25)]
    assert held.each(lambda first, stop: (first, stop), 5, 25, 11) == [(5, 25)]
    assert held.each(lambda first, stop: (first, stop), 0, 0) == [(0, 0)]
    here = threading.get_ident()
    owners = held.each(lambda first, stop: threading.get_ident() == here, 0, 3)
    assert owners == [True, False, False]
    for wrong in (0, 2):
        with pytest.raises(ZeroDivisionError):
            held.each(lambda first, stop, wrong=wrong: 1 // (first - wrong), 0, 3)


@pytest.mark.parametrize("shape", [(1, 1, 1), (64, 200, 1024), (17, 33, 129), (5, 0, 8), (3, 7, 100)])
def test_matrix_routines_give_the_bits_of_scipy(shape):
    k, m, n = shape
    rng = np.random.default_rng(0)
    out, left, right = rng.standard_normal((k, n)), rng.standard_normal((k, m)), rng.standard_normal((m, n))
    expected = out.copy()
    if m:
        wrappers.dgemm(-1.0, right.T, left.T, beta=1.0, c=expected.T, overwrite_c=1)
    blas.subtract_product(out, left, right)
    np.testing.assert_array_equal(out, expected)
    triangle = np.tril(rng.standard_normal((k, k))) + 3 * np.eye(k)
    rows = expected.copy()
    blas.solve_lower(triangle, rows)
    np.testing.assert_array_equal(rows, wrappers.dtrsm(1.0, triangle.T, expected.T, side=1, lower=0).T)
    rows = expected.copy()
    blas.multiply_upper(np.ascontiguousarray(triangle.T), rows)
    np.testing.assert_array_equal(rows, wrappers.dtrmm(1.0, np.asfortranarray(triangle), expected.T, side=1, lower=1).T)
    with pytest.raises(ValueError, match=r"^array: got float64 \(.*; allowed: row-major float64 of shape"):
        blas.solve_lower(triangle[:, ::-1] if k > 1 else triangle.repeat(2)[None], rows)


def test_blas_has_one_thread_while_several_work():
    """And its former number when the last of them has ended, in any order."""

    def count():
        return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        first, second = blas.one_thread, blas.Limited(1)
        assert count() == {2}
        with first:
            with first, second:
                assert count() == {1}
            assert count() == {1}
        assert count() == {2}
        assert ThreadTeam(2).each(lambda start, stop: count(), 0, 2) == [{1}, {1}]
        assert count() == {2}
