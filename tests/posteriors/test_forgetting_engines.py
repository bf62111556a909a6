"""Engines that forget, against the refit from scratch with every observation's time."""

import numpy as np
import pytest
from cases.engines import assert_posterior
from cases.kernels import KERNEL_CASES
from naive import kernels as naive
from naive.drifting import DriftingGP, SlidingGP, TimedGP, WeightedGP
from naive.gp import GP
from naive.normals import impulse_responses

import scalable_bandits as sb
from scalable_bandits.posteriors import KalmanEngine, SlidingWindowEngine, WeightedEngine
from scalable_bandits.posteriors.forgetting import weighted

SIZE, ROUNDS = 60, 80


def play(rounds, seed=1):
    """Per round: the observations (candidate, y, noise variance), none, one or several, and how long until the next."""
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        count = rng.choice([0, 1, 1, 1, 3])
        found = [
            (int(rng.integers(SIZE)), rng.standard_normal() + 1.0, float(rng.choice([0.02, 0.3]))) for _ in range(count)
        ]
        yield found, int(rng.choice([1, 1, 1, 4]))


class TestAutoregression:
    """k * TemporalDecay(epsilon)."""

    @pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.05, 0.7, 1.0])
    @pytest.mark.parametrize("name", ["rbf", "matern-1.5", "covariance", "sum"])
    @pytest.mark.sampled(9)
    def test_posterior_is_the_refit_in_every_round(self, name, epsilon):
        """With several observations in one round, and rounds without any."""
        case = KERNEL_CASES[name]
        points, means = case.points(SIZE), np.cos(np.arange(SIZE))
        gp = DriftingGP(case.oracle, points, epsilon, means)
        engine = KalmanEngine(case.kernel * sb.TemporalDecay(epsilon), points, means)
        some, elsewhere = np.array([3, 17, 3]), case.points(5, seed=9)
        for observations, lag in play(ROUNDS):
            for observation in observations:
                engine.observe(*observation)
                gp.observe(*observation)
                assert_posterior(engine, gp)
            engine.advance(lag)
            gp.now += lag
            assert_posterior(engine, gp)
        np.testing.assert_allclose(engine.columns(some), gp.mean_covariance()[1][some], rtol=0, atol=1e-8)
        mean, std = gp.predict(elsewhere)
        found = engine.predict(elsewhere)
        np.testing.assert_allclose(found[0], mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(np.sqrt(found[1]), std, rtol=0, atol=1e-7)

    def test_a_hundred_thousand_rounds_leave_no_rounding_behind(self):
        """The present is the refit of the last rounds alone, whose older ones count less than 1e-16."""
        points = np.random.default_rng(4).random((20, 2))
        engine = KalmanEngine(sb.Matern(0.3) * sb.TemporalDecay(0.2), points, np.zeros(20))
        gp = DriftingGP(naive.matern32(0.3), points, 0.2)
        rng = np.random.default_rng(5)
        arms, ys = rng.integers(20, size=100_000).tolist(), rng.standard_normal(100_000).tolist()
        for t, (arm, y) in enumerate(zip(arms, ys, strict=True), start=1):
            engine.observe(arm, y, 0.01)
            engine.advance()
            if t > 99_500:
                gp.observe(arm, y, 0.01)
                gp.now += 1
        mean, variance = gp.mean_variance()
        np.testing.assert_allclose(engine.mean(), mean, rtol=0, atol=1e-10)
        np.testing.assert_allclose(engine.variance(), variance, rtol=0, atol=1e-10)

    def test_draws_have_the_posterior_covariance(self):
        points = np.random.default_rng(6).random((SIZE, 2))
        engine = KalmanEngine(sb.RBF(0.3) * sb.TemporalDecay(0.1), points, np.zeros(SIZE))
        gp = DriftingGP(naive.rbf(0.3), points, 0.1)
        for observations, lag in play(20):
            for observation in observations:
                engine.observe(*observation)
                gp.observe(*observation)
            engine.advance(lag)
            gp.now += lag
        responses = impulse_responses(engine.draw)
        np.testing.assert_allclose(responses.T @ responses, gp.mean_covariance()[1], rtol=0, atol=1e-9)


def autoregression(kernel, points, means, epsilon):
    """An engine whose kernel forgets."""
    return KalmanEngine(kernel * sb.TemporalDecay(epsilon), points, means)


KINDS = {"sliding-1": (SlidingWindowEngine, SlidingGP, 1), "sliding-30": (SlidingWindowEngine, SlidingGP, 30)}
KINDS["autoregression"] = autoregression, TimedGP, 0.1
KINDS.update({f"weighted-{eta}": (WeightedEngine, WeightedGP, eta) for eta in (0.999, 0.9, 1e-3)})


@pytest.mark.parametrize("kind", KINDS)
class TestLimitedMemory:
    """The last w observations, observations that fade, and those of a function that drifts."""

    def make(self, kind, kernel, points, means):
        engine, _, how = KINDS[kind]
        return engine(kernel, points, means, how)

    @pytest.mark.parametrize("name", ["rbf", "matern-1.5", "covariance", "sum"])
    @pytest.mark.sampled(9)
    def test_posterior_is_the_refit_in_every_round(self, kind, name):
        case = KERNEL_CASES[name]
        points, means = case.points(SIZE), np.cos(np.arange(SIZE))
        _, oracle, how = KINDS[kind]
        engine, gp = self.make(kind, case.kernel, points, means), oracle(case.oracle, points, how, means)
        some, elsewhere = np.array([3, 17, 3]), case.points(5, seed=9)
        assert_posterior(engine, gp)
        for t, (number, y, noise) in enumerate(o for observations, _ in play(120) for o in observations):
            number = (number % 7) if t % 3 else number  # repeats
            engine.observe(number, y, noise)
            engine.advance()
            gp.observe(number, y, noise)
            assert_posterior(engine, gp)
            if t % 20 == 0:
                np.testing.assert_allclose(engine.columns(some), gp.mean_covariance()[1][some], rtol=0, atol=1e-8)
                mean, std = gp.predict(elsewhere)
                found = engine.predict(elsewhere)
                np.testing.assert_allclose(found[0], mean, rtol=0, atol=1e-8)
                np.testing.assert_allclose(np.sqrt(found[1]), std, rtol=0, atol=1e-7)
        held = np.unique([number for number, _, noise in gp.observations if noise < 1e17])
        assert np.isin(held, np.flatnonzero(engine.observed)).all()

    @pytest.mark.sampled(2, first="autoregression")
    def test_candidates_that_join_later_and_a_restored_engine_go_on(self, kind):
        """The first as if they had been there, the second to the last bit."""
        points, means = np.random.default_rng(7).random((SIZE, 2)), np.arange(SIZE) / SIZE
        _, oracle, how = KINDS[kind]
        gp = oracle(naive.rbf(0.3), points, how, means)
        engine, again = self.make(kind, sb.RBF(0.3), points[:40], means[:40]), None
        for t, (number, y, noise) in enumerate(o for observations, _ in play(90) for o in observations):
            number = number % 40 if t < 50 else number
            for told in filter(None, (engine, again)):
                told.observe(number, y, noise)
                told.advance()
            gp.observe(number, y, noise)
            if t == 49:
                engine, again = engine.extended(points, means), self.make(kind, sb.RBF(0.3), points, means)
                again.restore({key: value.copy() for key, value in engine.state().items()})
            if t >= 49:
                assert_posterior(engine, gp)
                np.testing.assert_array_equal(engine.mean(), again.mean())
                np.testing.assert_array_equal(engine.variance(), again.variance())
                np.testing.assert_array_equal(engine.predict(points), again.predict(points))
                assert engine.information_gain == again.information_gain


@pytest.mark.long
def test_a_million_rounds_of_a_sliding_window_leave_no_rounding_behind():
    """Against the refit of the last w; the plays move on, so that regions are learned, forgotten and learned again."""
    points = np.linspace(0.0, 1.0, 16)[:, None]
    engine = SlidingWindowEngine(sb.RBF(0.2), points, np.zeros(16), window=12)
    rng, rounds, noise = np.random.default_rng(5), 1_000_000, 1e-4
    arms = (rng.integers(5, size=rounds) + np.arange(rounds) // 40) % 16
    ys = rng.standard_normal(rounds)
    for t, (arm, y) in enumerate(zip(arms.tolist(), ys.tolist(), strict=True), start=1):
        engine.observe(arm, y, noise)
        if t % 250_000 == 0:
            gp = GP(naive.rbf(0.2), points)
            for i in range(t - 12, t):
                gp.observe(int(arms[i]), ys[i], noise)
            mean, variance = gp.mean_variance()
            np.testing.assert_allclose(engine.mean(), mean, rtol=0, atol=1e-8)
            np.testing.assert_allclose(engine.variance(), variance, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("epsilon", "noise"), [(1e-8, 1e-8), (1e-6, 1e-8), (1e-3, 1e-4)])
def test_an_autoregression_agrees_with_itself_for_ever(epsilon, noise):
    """Thousands of observations of little noise, of a smooth function that hardly forgets; and points that join."""
    points = np.linspace(0.0, 1.0, 61)[:, None]
    engine = KalmanEngine(sb.RBF(0.3) * sb.TemporalDecay(epsilon), points[::2].copy(), np.zeros(31))
    rng = np.random.default_rng(0)
    for candidate in rng.integers(31, size=4000).tolist():
        engine.observe(candidate, float(np.sin(12.0 * candidate)), noise)
        engine.advance()
    mean, variance = engine.predict(points)
    assert np.isfinite([mean, variance]).all()
    np.testing.assert_allclose(mean[::2], engine.mean(), rtol=0, atol=1e-6)
    np.testing.assert_allclose(variance[::2], engine.variance(), rtol=0, atol=1e-9)
    grown = engine.extended(np.concatenate([points[::2], points[1::2]]), np.zeros(61))
    np.testing.assert_allclose(grown.mean(), np.concatenate([mean[::2], mean[1::2]]), rtol=0, atol=1e-6)
    np.testing.assert_allclose(grown.variance(), np.concatenate([variance[::2], variance[1::2]]), rtol=0, atol=1e-9)


def test_an_autoregression_told_where_the_prior_is_sure():
    """Of a linear function at 0 nothing is learned; the prior is left elsewhere, and of points that join."""
    points = np.array([[0.0], [0.5], [1.0]])
    engine = KalmanEngine(sb.Linear() * sb.TemporalDecay(0.1), points[:2], np.zeros(2))
    for _ in range(2):
        for mean, variance in (engine.predict(points), engine.extended(points, np.zeros(3)).at(np.arange(3))):
            np.testing.assert_array_equal(mean, 0.0)
            np.testing.assert_allclose(variance, [0.0, 0.25, 1.0])
        engine.observe(0, 3.0, 0.1)
        engine.advance()
    engine.observe(1, 1.0, 0.25)
    np.testing.assert_allclose(engine.predict(points)[0], [0.0, 0.5, 1.0])
    np.testing.assert_allclose(engine.predict(points)[1], [0.0, 0.125, 0.5])


def test_weights_neither_overflow_nor_linger():
    """eta^-t leaves double precision after some hundred rounds here; only the last few observations count."""
    points = np.random.default_rng(4).random((20, 2))
    engine, gp = WeightedEngine(sb.RBF(0.3), points, np.zeros(20), 0.1), WeightedGP(naive.rbf(0.3), points, 0.1)
    rng = np.random.default_rng(6)
    for t in range(2000):
        observation = (int(rng.integers(20)), rng.standard_normal(), 0.01)
        engine.observe(*observation)
        engine.advance()
        if t >= 1950:
            gp.observe(*observation)
    assert_posterior(engine, gp)


@pytest.mark.parametrize("work", [1000, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 10**6))])
def test_weights_by_rows_and_at_once(work, monkeypatch):
    """Both ways to compute the posterior agree with the oracle, as arms with weight come and go."""
    monkeypatch.setattr(weighted, "LITTLE_WORK", work)
    points, means = np.random.default_rng(4).random((30, 2)), np.linspace(-1.0, 1.0, 30)
    engine, gp = WeightedEngine(sb.RBF(0.3), points, means, 0.3), WeightedGP(naive.rbf(0.3), points, 0.3, means)
    rng, held = np.random.default_rng(6), set()
    for t in range(200):
        observation = (int(rng.integers(30 if t % 80 < 40 else 2)), rng.standard_normal(), 0.01)
        engine.observe(*observation)
        engine.advance()
        gp.observe(*observation)
        if t % 4 == 0:
            assert_posterior(engine, gp)
        held.add(int(engine.observed.sum()))
    assert min(held) <= 5
    assert max(held) >= 15


def test_kernels_know_what_they_forget():
    decay = sb.TemporalDecay(0.1)
    assert sb.RBF().epsilon == 0.0
    assert (2.0 * (sb.RBF() * decay)).epsilon == 0.1
    assert (sb.RBF() * decay + sb.Linear() * decay).epsilon == 0.1
    assert (decay * sb.RBF() * sb.TemporalDecay(0.5)).epsilon == pytest.approx(0.55)
    with pytest.raises(ValueError, match="kernels with the same epsilon"):
        sb.TVGPUCB(sb.Grid([[0, 1]], 5), sb.RBF() * decay + sb.Linear())
    with pytest.raises(ValueError, match=r"epsilon: got 1\.5"):
        sb.TemporalDecay(1.5)
