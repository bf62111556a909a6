"""Policy that scores a share of a pool's chunks, beside a naive loop, and on pools where chunks differ."""

import pickle
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
from scalable_bandits.posteriors.pool import partitions
from scalable_bandits.posteriors.pool.partitions import Partitions
from scalable_bandits.randomness import derived_seed, generator

NOISE, VARIANCE = 0.3, 0.05  # R and lambda


def made(pool, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.UnprovenWidth)
        return sb.PartitionedUCB(pool, sb.RBF(0.4), noise=NOISE, regularization=VARIANCE, **keywords)


class Loop:
    """The naive loop: indices of all candidates from the formulas, of which those in some chunks may be chosen."""

    def __init__(self, x, chunk, seed, passes, sample, repeats):
        self.gp, self.seed, self.repeats, self.told, self.pending = GP(naive.rbf(0.4), x), seed, repeats, [], []
        self.chunks = [np.arange(first, min(first + chunk, len(x))) for first in range(0, len(x), chunk)]
        self.count = max(int(np.ceil(passes * len(self.chunks))), 1)
        draws = (generator(seed, "sample", c) for c in range(len(self.chunks)))
        self.samples = [
            numbers[np.sort(rng.choice(len(numbers), min(sample, len(numbers)), replace=False))]
            for numbers, rng in zip(self.chunks, draws, strict=True)
        ]

    def index(self, pending):
        return oracle.index("GPUCB", Bandit(self.gp, pending, VARIANCE, range(len(self.gp.points))), NOISE)

    def open(self):
        """Candidates in the chunks that are scored, and whether rounding could decide on a chunk."""
        drawn = generator(self.seed, "partitions", len(self.told)).permutation(len(self.chunks)).tolist()
        unsure = False
        if 2 * self.count < len(self.chunks):
            index, out = self.index([]), () if self.repeats else self.told
            largest = [max([index[i] for i in sample if i not in out], default=-np.inf) for sample in self.samples]
            order = sorted(drawn, key=lambda c: -largest[c])
            last, next_ = largest[order[self.count - 1]], largest[order[self.count]]
            unsure = last - next_ < 1e-7 and last > -np.inf
            best = order[: self.count]
            drawn = best + [c for c in drawn if c not in best][: self.count]
        return [i for c in drawn for i in self.chunks[c].tolist()], unsure

    def allowed(self, among):
        taken = () if self.repeats else {*self.told, *self.pending}
        return [i for i in among if i not in taken]

    def next(self):
        among, unsure = self.open()
        everything = range(len(self.gp.points))
        allowed = self.allowed(among) or self.allowed(everything)
        number, near = oracle.choice(self.index(self.pending), allowed, derived_seed(self.seed, "ties"))
        return number, near or unsure


def check(data, folder, monkeypatch):
    draw = data.draw
    monkeypatch.setattr(partitions, "MOST", 1)
    seed = draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    count, repeats = draw(st.integers(5, 60)), draw(st.booleans())
    chunk, sample = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    passes = draw(st.sampled_from([0.01, 0.1, 0.3, 0.5]))
    x = rng.random((count, 2))
    x[count // 2] = x[0]
    path = sb.Pool.write(folder / f"{rng.integers(2**62)}.zarr", x, chunk=chunk).path
    policy = made(sb.Pool(path, repeats=repeats), seed=seed % 1000, passes=passes, sample=sample)
    loop = Loop(x, chunk, seed % 1000, passes, sample, repeats)
    for _ in range(draw(st.integers(1, 4))):
        for number in rng.integers(count, size=draw(st.integers(0, 4))).tolist():
            y = float(rng.standard_normal())
            policy.tell(number, y)
            loop.gp.observe(number, y, VARIANCE)
            loop.told.append(number)
            if number in loop.pending:
                loop.pending.remove(number)
        q = draw(st.integers(1, 6))
        if len(loop.allowed(range(count))) < q + 1:
            return
        for number in policy.ask(q).tolist():
            wanted, unsure = loop.next()
            assert number == wanted or unsure
            loop.pending.append(number)


@given(data=st.data())
@settings(max_examples=15)
def test_it_chooses_in_the_chunks_of_the_best_samples_and_in_drawn_ones(data, tmp_path_factory, monkeypatch):
    check(data, tmp_path_factory.mktemp("pool"), monkeypatch)


@pytest.mark.long
@given(data=st.data())
@settings(max_examples=500)
def test_it_chooses_in_the_chunks_of_the_best_samples_on_500_pools(data, tmp_path_factory, monkeypatch):
    check(data, tmp_path_factory.mktemp("pool"), monkeypatch)


@pytest.fixture(scope="module")
def sorted_pool(tmp_path_factory):
    """4,000 points in 100 chunks, alike ones together, with the values of a bump."""
    x = np.sort(np.random.default_rng(3).random(4000))[:, None]
    pool = sb.Pool.write(tmp_path_factory.mktemp("pool") / "sorted.zarr", x, chunk=40)
    return sb.Pool(pool.path, repeats=False), np.exp(-0.5 * ((x[:, 0] - 0.63) / 0.05) ** 2)


def test_a_fifth_of_the_chunks_is_enough_where_alike_candidates_lie_together(sorted_pool, monkeypatch):
    pool, y = sorted_pool
    asked = []
    chosen = Partitions.chosen
    monkeypatch.setattr(Partitions, "chosen", lambda *args: asked.append(chosen(*args)) or asked[-1])
    policy = sb.PartitionedUCB(pool, seed=1)
    for _ in range(12):
        numbers = policy.ask(20)
        policy.tell(numbers, y[numbers])
    assert len(asked) == 11
    assert all(len(np.unique(chunks)) == 20 for chunks in asked)
    found = np.isin(np.argsort(-y)[:40], policy.observations.x[:, 0].astype(int))
    assert found.mean() > 0.9


def test_threads_and_a_copy_within_a_batch_find_the_same(sorted_pool):
    pool, y = sorted_pool

    def asked(policy, batches):
        found = []
        for _ in range(batches):
            found.append(policy.ask(8).tolist())
            policy.tell(found[-1], y[found[-1]])
        return found

    whole = asked(made(pool, seed=5), 4)
    with made(pool, seed=5, on="threads:2") as threaded:
        assert asked(threaded, 4) == whole
    policy = made(pool, seed=5)
    first = asked(policy, 2)
    begun = policy.ask(3).tolist()
    later = pickle.loads(pickle.dumps(policy))  # which has neither samples nor bounds
    rest = later.ask(5).tolist()
    later.tell(begun + rest, y[begun + rest])
    assert [*first, begun + rest, *asked(later, 1)] == whole


def test_what_is_no_pool_or_no_share_is_refused(sorted_pool):
    with pytest.raises(ValueError, match=r"space.*a Pool"):
        sb.PartitionedUCB(sb.Grid([[0, 1]], 10), sb.RBF(0.3))
    for passes in (0, 0.6, -1):
        with pytest.raises(ValueError, match=r"passes.*above 0, at most 0\.5"):
            sb.PartitionedUCB(sorted_pool[0], passes=passes)
    with pytest.raises(ValueError, match="sample"):
        sb.PartitionedUCB(sorted_pool[0], sample=0)
    assert sb.Policy.from_dict(made(sorted_pool[0], passes=0.3).to_dict()).passes == 0.3
