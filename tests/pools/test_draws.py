"""Choices from pools by sample paths, and from sketched posteriors, beside loops over all candidates."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import pool as oracle
from naive.gp import GP
from naive.policies import gpts_width

import scalable_bandits as sb
from pools.test_batches import NOISE, VARIANCE, made_pool
from scalable_bandits.posteriors.box.sketched import QueriedSketch
from scalable_bandits.posteriors.box.surface import constant_mean
from scalable_bandits.posteriors.pool import draws
from scalable_bandits.posteriors.pool.chunks import Passes
from scalable_bandits.posteriors.pool.features import unit_features
from scalable_bandits.randomness import derived_seed, generator

RNG = np.random.default_rng(0)
FEATURES = 16


@pytest.mark.parametrize("name", ["GPTS", "PIMS"])
@given(data=st.data())
@settings(max_examples=8)
def test_each_round_chooses_by_its_own_path(name, data, tmp_path_factory, monkeypatch):
    """Whatever the chunks, however few candidates of a draw are held, and however many draws a pass has."""
    check_draws(name, data, tmp_path_factory, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("name", ["GPTS", "PIMS"])
@given(data=st.data())
@settings(max_examples=100)
def test_each_round_chooses_by_its_own_path_on_200_pools(name, data, tmp_path_factory, monkeypatch):
    check_draws(name, data, tmp_path_factory, monkeypatch)


def check_draws(name, data, tmp_path_factory, monkeypatch):
    draw, seed = data.draw, data.draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    count = draw(st.integers(5, 30))
    monkeypatch.setattr(draws, "LEAST_KEPT", draw(st.sampled_from([1, 2, 8])))
    monkeypatch.setattr(draws, "HELD", draw(st.sampled_from([1, 1000])))
    monkeypatch.setattr(draws, "AT_ONCE", draw(st.sampled_from([1, 2, 100])))
    monkeypatch.setattr(draws, "BLOCK_BYTES", draw(st.sampled_from([1, 2**24])))
    kind = draw(st.sampled_from(["numbers", "bits", "both"]))
    pool, kernel, expected, x = made_pool(
        tmp_path_factory.mktemp("pool"), rng, kind, count, draw(st.integers(1, count))
    )
    repeats, key = draw(st.booleans()), seed % 1000
    given_noise = {"noise": NOISE, "regularization": VARIANCE}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.UnprovenWidth)
        policy = getattr(sb, name)(sb.Pool(pool.path, repeats=repeats), kernel, features=8, seed=key, **given_noise)
    features = oracle.Features(kind, FEATURES, generator(key, "features"))
    phi, gp = np.array([features.at(point) for point in x]), GP(expected, x)
    told, pending, failed, salt = [], [], [], derived_seed(key, "ties")
    for _ in range(draw(st.integers(1, 3))):
        for number in rng.integers(count, size=draw(st.integers(0, 4))).tolist():
            y = float(rng.standard_normal())
            policy.tell(number, y)
            gp.observe(number, y, VARIANCE)
            told.append(number)
            for others in (pending, failed):
                if number in others:
                    others.remove(number)
        q = draw(st.integers(1, 6))
        enough = count - len({*told, *pending, *failed}) >= q  # others would be refused, rightly
        for i, number in enumerate(policy.ask(q).tolist() if enough and count > len(told) + q + 3 else []):
            width = gpts_width(gp.information_gain(), 2.0, NOISE, 0.1) if name == "GPTS" else 1.0
            rng_of_round = generator(key, "draws", len(gp.observations) + len(pending) + len(failed) + 1)
            index = oracle.path(gp, phi, width, VARIANCE, rng_of_round)
            if name == "PIMS":
                mean, variance = gp.mean_variance()
                index = (mean - index.max()) / np.sqrt(variance)
            allowed = sorted({*range(count)} - {*failed, *([] if repeats else [*told, *pending])})
            wanted, unsure = oracle.choice(index, allowed, salt)
            assert number == wanted or (unsure and number in allowed), i
            pending.append(number)
        if pending and draw(st.booleans()):
            failed = list(dict.fromkeys([*failed, pending[0]]))
            policy.tell_failure(pending.pop(0))


@pytest.mark.parametrize(
    "kernel",
    [
        2.5 * sb.Tanimoto(),
        0.5 * sb.OnDimensions(sb.Tanimoto(), [0, 1]) * sb.OnDimensions(sb.Matern(0.5), [2, 3]),
        sb.OnDimensions(sb.Tanimoto(), [0, 1]) + 3.0 * sb.OnDimensions(sb.RBF(0.4), [2]),
    ],
)
def test_products_of_features_estimate_the_kernel(kernel):
    words = RNG.integers(2**32, size=(6, 2)) & RNG.integers(2**32, size=(6, 2))
    words[0] = 0
    whole = isinstance(kernel.kernel if hasattr(kernel, "factor") else None, sb.Tanimoto)
    x = words.astype(float) if whole else np.hstack([words, RNG.random((6, 2))])
    phi = unit_features(kernel, x.shape[1], 40_000, np.random.default_rng(1))(x)
    estimate, spread = phi @ phi.T / 40_000, (phi[:, None] * phi[None]).std(axis=2) / 200
    assert (np.abs(estimate - kernel.block(x)) < 5 * spread + 1e-12).all()


def test_products_of_signs_of_counts_estimate_the_kernel():
    x = RNG.integers(0, 4, (7, 5)).astype(float)
    x[:2] = 0.0
    x[2] *= 0.25
    phi = unit_features(sb.MinMax(), 5, 40_000, np.random.default_rng(2))(x)
    assert np.abs(phi @ phi.T / 40_000 - sb.MinMax().block(x)).max() < 5 / 200


def test_kernels_without_features_are_refused(tmp_path):
    pool = sb.Pool.write(tmp_path / "pool.zarr", RNG.integers(5, size=(20, 3)))
    for name in ("GPTS", "PIMS"):
        with pytest.raises(ValueError, match=r"kernel: got Linear.*for draws"):
            getattr(sb, name)(pool, sb.Linear())
        for option in ({"engine": "dense"}, {"samples": "exact"}, {"basis": "quadrature"}):
            with pytest.raises(ValueError, match=f"{next(iter(option))}: got .* on a pool"):
                getattr(sb, name)(pool, sb.RBF(0.5), **option)


def test_a_batch_of_draws_takes_few_passes(tmp_path, monkeypatch):
    """Also where all paths agree on which candidates are the best."""
    values = np.sort(RNG.random(300))
    pool = sb.Pool.write(tmp_path / "pool.zarr", values[:, None], chunk=50)
    policy = sb.GPTS(sb.Pool(pool.path, repeats=False), sb.RBF(1.0), noise=0.01, seed=2, rkhs_norm=0.1)
    policy.tell(np.arange(0, 300, 10), 5 * values[::10])
    passes, each = [], Passes.each
    monkeypatch.setattr(Passes, "each", lambda self, *args: passes.append(1) or each(self, *args))
    numbers = policy.ask(100)
    assert len(set(numbers.tolist())) == 100
    assert numbers.min() > 150
    assert len(passes) <= 2


@pytest.mark.parametrize("name", ["GPTS", "PIMS"])
def test_an_abandoned_candidate_may_be_chosen_again(name, tmp_path):
    """Also by a path whose best candidates were found while it was pending."""
    pool = sb.Pool(sb.Pool.write(tmp_path / "pool.zarr", RNG.random((6, 2)), chunk=4).path, repeats=False)
    for seed in range(10):
        policy = getattr(sb, name)(pool, sb.RBF(0.3), noise=NOISE, features=8, seed=seed)
        first = policy.ask()
        policy.ask(3)
        policy.abandon(first)
        assert pickle.loads(pickle.dumps(policy)).ask() == policy.ask()  # a copy has only what was told


def test_a_sketch_of_all_observations_is_that_of_one_after_the_other():
    x = RNG.random((300, 2))
    engines = [QueriedSketch(sb.RBF(0.3), 2, constant_mean(0.5), 2.0, seed=1) for _ in range(2)]
    numbers, ys, noise = np.arange(250), np.sin(9 * x[:250, 0]), np.full(250, 0.01)
    for engine in engines:
        engine.points = x
    engines[0].observe_all(numbers, ys, noise)
    for observation in zip(numbers.tolist(), ys, noise, strict=True):
        engines[1].observe(*observation)
    assert engines[0].sketches == engines[1].sketches > 2
    np.testing.assert_array_equal(engines[0].dictionary, engines[1].dictionary)
    for found, wanted in zip(*(engine.at(np.arange(300)) for engine in engines), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-8)
    assert engines[0].information_gain == pytest.approx(engines[1].information_gain)


@pytest.mark.parametrize("name", ["BKB", "GPEI"])
def test_batches_of_a_sketched_posterior(name, tmp_path):
    """The choices of a loop over all candidates, of whose posterior covariance the sketch is a part."""
    x = RNG.random((200, 2))
    pool = sb.Pool.write(tmp_path / "pool.zarr", x, chunk=33)
    policy = getattr(sb, name)(
        sb.Pool(pool.path, repeats=True), sb.RBF(0.3), noise=NOISE, regularization=VARIANCE, engine="sketched", seed=4
    )
    values = np.sin(6 * x[:, 0]) - (x[:, 1] - 0.4) ** 2
    policy.tell(np.arange(0, 200, 2), values[::2])
    for _ in range(4):
        surface = policy.model.engine.surface()
        gp = GP(None, x, surface.predict(x)[0], surface.covariance(x, x))
        told = [policy.domain.points([i])[0, 0] for i in np.flatnonzero(policy.model.queried)]
        for _ in range(12):
            mean, variance = gp.mean_variance()
            std = np.sqrt(np.maximum(variance, 0.0))
            if name == "BKB":
                index = mean + policy.width * std
            else:
                seen = [int(i) for i in told] + [number for number, _, _ in gp.observations]
                improvement = sb.formulas.acquisition.ExpectedImprovement(mean[seen].max() if seen else 0.0)
                index = improvement(mean, std**2)
            number = int(policy.ask())
            assert index[number] == pytest.approx(index.max(), rel=1e-6)
            gp.observe(number, mean[number], VARIANCE)
        pending = [number for number, _, _ in gp.observations]
        policy.tell(pending, values[pending])
    assert policy.model.engine.sketches > 1
    assert values[policy.best().x] > np.sort(values)[-8]
