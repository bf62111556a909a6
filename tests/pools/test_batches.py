"""Batches from pools: `ask(q)` is q single choices, each from the indices of all candidates."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import kernels as naive
from naive import pool as oracle
from naive.gp import GP
from naive.policies import Bandit

import scalable_bandits as sb
from scalable_bandits.posteriors.box.surface import INFORMATIVE, Surface, constant_mean
from scalable_bandits.posteriors.pool import queue
from scalable_bandits.randomness import derived_seed

POLICIES = ["GPUCB", "IGPUCB", "GPEI", "MeanOnly", "VarianceOnly"]
NOISE, VARIANCE = 0.3, 0.05  # R and lambda


def made_pool(folder, rng, kind, count, chunk):
    """A pool with some equal rows, with its kernel and the oracle's."""
    numbers, bits = rng.random((count, 2)), np.packbits(rng.random((count, 40)) < 0.3, axis=1)
    for rows in (numbers, bits):
        rows[count // 2 : count // 2 + 3] = rows[0]
    bits[1] = 0
    path = f"{folder}/{kind}-{count}-{chunk}-{rng.integers(2**62)}.zarr"
    if kind == "numbers":
        return sb.Pool.write(path, numbers, chunk=chunk), 1.5 * sb.RBF(0.4), naive.scaled(1.5, naive.rbf(0.4)), numbers
    words = np.pad(bits, ((0, 0), (0, 3))).view("<u4").astype(float)
    if kind == "bits":
        return sb.Pool.write(path, bits, packed=True, chunk=chunk), sb.Tanimoto(), naive.tanimoto(), words
    both = sb.OnDimensions(sb.Tanimoto(), [0, 1]) * sb.OnDimensions(sb.Matern(0.5), [2, 3])
    expected = naive.product(
        naive.on_dimensions(naive.tanimoto(), (0, 1)), naive.on_dimensions(naive.matern32(0.5), (2, 3))
    )
    pool = sb.Pool.write(path, [{"bits": bits, "numbers": numbers}], chunk=chunk)
    return pool, both, expected, np.hstack([words, numbers])


class Oracle:
    """The naive loop beside a policy: told the same, and asked for the next choice."""

    def __init__(self, name, kernel, x, repeats, seed):
        self.name, self.repeats, self.salt = name, repeats, derived_seed(seed, "ties")
        self.gp, self.pending, self.failed, self.told = GP(kernel, x), [], [], []

    def allowed(self):
        taken = {*self.failed, *([] if self.repeats else [*self.told, *self.pending])}
        return [i for i in range(len(self.gp.points)) if i not in taken]

    def next(self):
        """The choice, and whether another candidate is so near that rounding could decide."""
        bandit = Bandit(self.gp, [*self.pending, *self.failed], VARIANCE, self.allowed())
        return oracle.choice(oracle.index(self.name, bandit, NOISE), self.allowed(), self.salt)

    def tell(self, number, y):
        self.gp.observe(number, y, VARIANCE)
        self.told.append(number)
        if number in self.pending:
            self.pending.remove(number)
        if number in self.failed:
            self.failed.remove(number)


@pytest.mark.parametrize("name", POLICIES)
@given(data=st.data())
@settings(max_examples=8)
@pytest.mark.sampled(2)
def test_a_batch_is_one_choice_after_the_other(name, data, tmp_path_factory, monkeypatch):
    """Whatever the chunks and however few candidates are held, with pending points, failures and repeats."""
    check_batches(name, data, tmp_path_factory.mktemp("pool"), monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("name", POLICIES)
@given(data=st.data())
@settings(max_examples=100)
def test_a_batch_is_one_choice_after_the_other_on_500_pools(name, data, tmp_path_factory, monkeypatch):
    check_batches(name, data, tmp_path_factory.mktemp("pool"), monkeypatch)


def check_batches(name, data, folder, monkeypatch):
    draw, seed = data.draw, data.draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    count = draw(st.integers(5, 40))
    chunk, held = draw(st.integers(1, count)), draw(st.sampled_from([1, 3, 100]))
    monkeypatch.setattr(queue, "HELD", 1)
    monkeypatch.setattr(queue, "LEAST_KEPT", held)
    monkeypatch.setattr(queue, "MOST_GIVEN", held)
    monkeypatch.setattr(queue, "MOST_BYTES", draw(st.sampled_from([2**10, 2**28])))
    monkeypatch.setattr(queue, "TOGETHER", draw(st.sampled_from([1, 2, 64])))
    kind = draw(st.sampled_from(["numbers", "bits", "both"]))
    pool, kernel, expected, x = made_pool(folder, rng, kind, count, chunk)
    repeats = draw(st.booleans())
    pool = sb.Pool(pool.path, repeats=repeats)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.UnprovenWidth)
        policy = getattr(sb, name)(pool, kernel, noise=NOISE, regularization=VARIANCE, seed=seed % 1000)
    loop = Oracle(name, expected, x, repeats, seed % 1000)
    for _ in range(draw(st.integers(1, 4))):
        for number in rng.integers(count, size=draw(st.integers(0, 4))).tolist():
            y = float(rng.standard_normal())
            policy.tell(number, y)
            loop.tell(number, y)
        q = draw(st.integers(1, 6))
        if len(loop.allowed()) < q + 1:
            return
        for number in policy.ask(q).tolist():
            wanted, unsure = loop.next()
            assert number == wanted or (unsure and number in loop.allowed())
            loop.pending.append(number)
        if loop.pending and draw(st.booleans()):
            failed = loop.pending[0]
            policy.tell_failure(failed)
            loop.pending.remove(failed)
            loop.failed = list(dict.fromkeys([*loop.failed, failed]))
        if loop.pending and draw(st.booleans()):
            policy.abandon(loop.pending[-1])
            loop.pending.pop()


@given(seed=st.integers(0, 2**32), count=st.integers(1, 20))
@settings(max_examples=25)
def test_an_outline_bounds_the_variance_and_of_few_observations_is_exact(seed, count):
    """Of points that are equal too, and with noise as small as rounding errors."""
    rng = np.random.default_rng(seed)
    x, kernel = rng.integers(0, 6, (count, 2)) / 5.0, 1.5 * sb.RBF(0.5)
    noise = 10.0 ** rng.uniform(-6, 0)
    factor = np.linalg.cholesky(kernel.block(x) + noise * np.eye(count))
    surface = Surface(kernel, x, factor, rng.standard_normal(count), constant_mean(0.3))
    z = np.concatenate([rng.random((30, 2)), x])
    (mean, variance), (same, bound) = surface.predict(z), surface.outline(z)
    np.testing.assert_allclose(same, mean, rtol=1e-9, atol=1e-9)
    assert (bound >= variance - 1e-8).all()
    if count <= INFORMATIVE:
        np.testing.assert_allclose(bound, variance, atol=1e-6)
