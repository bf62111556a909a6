"""Pools with contexts: choices beside a loop over all candidates in the context, and as of the points of a grid."""

import json
import os
import pickle
import types
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import kernels as naive
from naive import pool as oracle
from naive.gp import GP
from naive.policies import Bandit, gpts_width, gpucb_width1

import scalable_bandits as sb
from scalable_bandits.integrations.tables import rounds
from scalable_bandits.posteriors.hyperparameters.learned_prior import sides_of, standard_kernel
from scalable_bandits.posteriors.pool import draws, partitions, queue
from scalable_bandits.randomness import derived_seed, generator
from scalable_bandits.report import page
from scalable_bandits.runs.resuming import known_space

NOISE, VARIANCE = 0.3, 0.05  # R and lambda
PATHS, OTHERS = ["GPTS", "PIMS"], ["IGPUCB", "MeanOnly", "VarianceOnly"]
BOUNDS = {"heat": (-1.0, 2.0), "acid": (0.0, 1.0)}
VALUES = {"heat": [-1.0, 0.0, 0.3, 2.0], "acid": [0.0, 0.55, 1.0]}
X = np.random.default_rng(5).random((120, 2))


def value(number, heat):
    """A function of candidate and context, whose best candidate differs between contexts."""
    return -((X[number, 0] - 0.3 - 0.2 * heat) ** 2) - 0.3 * (X[number, 1] - 0.6) ** 2


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Path of a pool of two numbers a candidate."""
    return sb.Pool.write(tmp_path_factory.mktemp("pool") / "pool.zarr", X, chunk=17).path


def made(name, space, kernel=None, **keywords):
    """A policy, without the warnings of theorems that do not hold for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given_noise = {} if kernel is None else {"noise": NOISE, "regularization": VARIANCE}
        return getattr(sb, name)(space, kernel, **{"seed": 3, **given_noise, **keywords})


def heat_of(path, **keywords):
    """A pool with one context."""
    return sb.Pool(path, contexts={"heat": (-1.0, 2.0)}, **keywords)


# ---- beside the naive loop


def made_pool(folder, rng, kind, count, chunk, labelled):
    """A pool with equal rows and contexts; its kernel, the oracle's, and the candidates' coordinates."""
    numbers, bits = rng.random((count, 1)), np.packbits(rng.random((count, 40)) < 0.3, axis=1)
    for rows in (numbers, bits):
        rows[count // 2 : count // 2 + 3] = rows[0]
    words = np.pad(bits, ((0, 0), (0, 3))).view("<u4").astype(float)
    parts = {"numbers": {"numbers": numbers}, "bits": {"bits": bits}, "both": {"bits": bits, "numbers": numbers}}[kind]
    x = {"numbers": numbers, "bits": words, "both": np.hstack([words, numbers])}[kind]
    names = ["acid", "heat"] if kind == "bits" else ["heat"]
    labels = {"labels": [f"m{i}" for i in range(count)]} if labelled else {}
    written = sb.Pool.write(f"{folder}/{rng.integers(2**62)}.zarr", [{**parts, **labels}], chunk=chunk)
    contexts = {name: BOUNDS[name] for name in names}
    if kind == "numbers":
        return written.path, contexts, 1.5 * sb.RBF(0.4), naive.scaled(1.5, naive.rbf(0.4)), x
    kernel = sb.OnDimensions(sb.Tanimoto(), [0, 1]) * sb.OnDimensions(sb.Matern(0.5), [2, 3])
    same = naive.product(
        naive.on_dimensions(naive.tanimoto(), (0, 1)), naive.on_dimensions(naive.matern32(0.5), (2, 3))
    )
    return written.path, contexts, kernel, same, x


class Loop:
    """The naive loop beside a policy: a process of all candidates in all contexts, of which one is asked about."""

    def __init__(self, name, kernel, x, contexts, repeats, seed, features):
        self.name, self.repeats, self.seed, self.count = name, repeats, seed, len(x)
        self.gp = GP(kernel, np.vstack([np.hstack([x, np.tile(each, (len(x), 1))]) for each in contexts]))
        self.pending, self.failed, self.phi = [], [], None
        if name in PATHS:
            drawn = oracle.Features(features, 16, generator(seed, "features"))
            self.phi = np.array([drawn.at(point) for point in self.gp.points])

    def allowed(self, context, available):
        first, told = context * self.count, [] if self.repeats else [number for number, _, _ in self.gp.observations]
        taken = {*self.failed, *([] if self.repeats else [*told, *self.pending])}
        return [i for i in range(self.count) if available(i) and first + i not in taken]

    def next(self, context, allowed):
        """The number of the choice, and whether another candidate is so near that rounding could decide."""
        part = slice(context * self.count, (context + 1) * self.count)
        if self.name in PATHS:
            index = self.of_path(part)
        else:
            bandit = Bandit(self.gp, [*self.pending, *self.failed], VARIANCE, range(len(self.gp.points)))
            among = {"mean": bandit.mean[part], "std": bandit.std[part], "incumbent": bandit.incumbent}
            index = oracle.index(self.name, types.SimpleNamespace(t=bandit.t, gain=bandit.gain, **among), NOISE)
        return oracle.choice(index, allowed, derived_seed(self.seed, "ties"))

    def of_path(self, part):
        number = len(self.gp.observations) + len(self.pending) + len(self.failed) + 1
        width = gpts_width(self.gp.information_gain(), 2.0, NOISE, 0.1) if self.name == "GPTS" else 1.0
        path = oracle.path(self.gp, self.phi, width, VARIANCE, generator(self.seed, "draws", number))[part]
        if self.name == "GPTS":
            return path
        mean, variance = self.gp.mean_variance()
        return (mean[part] - path.max()) / np.sqrt(variance[part])

    def tell(self, point, y):
        self.gp.observe(point, y, VARIANCE)
        for others in (self.pending, self.failed):
            if point in others:
                others.remove(point)

    def fail(self, point):
        if point in self.pending:
            self.pending.remove(point)
        self.failed = list(dict.fromkeys([*self.failed, point]))


def check(name, seed, folder, monkeypatch):
    rng, key = np.random.default_rng(seed), seed % 1000
    count, few = int(rng.integers(6, 16)), int(rng.choice([1, 3, 100]))
    for module, constant in ((queue, "LEAST_KEPT"), (queue, "MOST_GIVEN"), (draws, "LEAST_KEPT"), (draws, "AT_ONCE")):
        monkeypatch.setattr(module, constant, few)
    for module in (queue, draws):
        monkeypatch.setattr(module, "HELD", 1)
    kind, labelled, repeats = str(rng.choice(["numbers", "bits", "both"])), rng.random() < 0.5, rng.random() < 0.5
    chunk = int(rng.integers(1, count))
    where, bounds, kernel, same, x = made_pool(folder, rng, kind, count, chunk, labelled)
    pool, names = sb.Pool(where, repeats=repeats, contexts=bounds), list(bounds)
    contexts = [{n: float(rng.choice(VALUES[n])) for n in names} for _ in range(2)]
    contexts.append({**contexts[0], "heat": 1.1})  # two contexts may agree in a variable
    contexts = [dict(pairs) for pairs in dict.fromkeys(tuple(each.items()) for each in contexts)]
    values = [list(each.values()) for each in contexts]
    features = {"features": 8} if name in PATHS else {}
    policy = made(name, pool, kernel, seed=key, **features)
    loop = Loop(name, same, x, values, repeats, key, "numbers" if kind == "numbers" else "both")

    def setting(point):
        context, number = divmod(point, count)
        return {"candidate": f"m{number}" if labelled else number, **contexts[context]}

    for _ in range(7):
        for point in rng.integers(len(loop.gp.points), size=int(rng.choice([0, 0, 0, 1, 3]))).tolist():
            y = float(rng.standard_normal())
            policy.tell([setting(point)] if y > 0 else setting(point), [y] if y > 0 else y)
            loop.tell(point, y)
        context, q = int(rng.integers(len(contexts))), int(rng.choice([1, 1, 2, 4]))
        some = (lambda i: i % 3 > 0) if rng.random() < 0.3 else None
        allowed = loop.allowed(context, some or (lambda i: True))
        if len(allowed) < q + 1:
            continue
        asked = {name: each if each else -0.0 for name, each in contexts[context].items()}  # -0.0 is 0.0
        for found in policy.ask(q, context=asked, available=some):
            allowed = loop.allowed(context, some or (lambda i: True))
            wanted, unsure = loop.next(context, allowed)
            number = int(str(found["candidate"]).removeprefix("m"))
            assert found == setting(context * count + number)
            assert number == wanted or (unsure and number in allowed)
            loop.pending.append(context * count + number)
        if rng.random() < 0.3:
            failed = int(rng.choice([*loop.pending, rng.integers(len(loop.gp.points))]))
            policy.tell_failure(setting(failed))
            loop.fail(failed)
        if loop.pending and rng.random() < 0.3:
            point = int(rng.choice(loop.pending))
            policy.abandon(setting(point))
            loop.pending.remove(point)
        assert policy.pending == [setting(each) for each in loop.pending]


@pytest.mark.parametrize("name", ["GPUCB", "GPEI", *PATHS])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=3)
def test_choices_are_those_of_a_loop_over_the_candidates_in_the_context(name, seed, tmp_path_factory, monkeypatch):
    """Whatever the chunks, with interleaved contexts, pending, failed and unavailable candidates."""
    check(name, seed, tmp_path_factory.mktemp("pool"), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GPUCB", "GPEI", *PATHS, *OTHERS])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=8)
def test_choices_are_those_of_a_loop_on_more_pools(name, seed, tmp_path_factory, monkeypatch):
    check(name, seed, tmp_path_factory.mktemp("pool"), monkeypatch)


def test_pending_points_of_another_context_are_told_apart(path):
    """One that is pending there in the place of another is another condition of the choice."""
    policy, heat, rest = made("VarianceOnly", heat_of(path), sb.RBF(0.3)), {"heat": 0.0}, {"heat": 0.1}
    other = policy.ask(context=rest)
    policy.ask(2, context=heat)
    policy.abandon(other)
    policy.tell_failure({"candidate": int(np.argmax(np.linalg.norm(X - X[other["candidate"]], axis=1))), **rest})
    assert pickle.loads(pickle.dumps(policy)).ask(4, context=heat) == policy.ask(4, context=heat)


@pytest.mark.parametrize("name", ["GPUCB", *PATHS])
def test_what_was_found_in_a_context_is_not_for_another(name, path):
    """Also that of a round which was asked for in another context, and abandoned there."""
    for seed in range(4):
        policy = made(name, heat_of(path), sb.RBF(0.3), seed=seed, **({"features": 8} if name in PATHS else {}))
        policy.tell([{"candidate": seed, "heat": 2.0}, {"candidate": 50 + seed, "heat": -1.0}], [1.0, 1.0])
        asked = policy.ask(1 + seed % 2, context={"heat": -1.0})
        if len(asked) > 1:
            policy.abandon(asked[1])
        alone = pickle.loads(pickle.dumps(policy)).ask(context={"heat": 2.0})  # a copy has only what was told
        assert policy.ask(context={"heat": 2.0}) == alone


# ---- beside the points of all candidates in some contexts


@pytest.mark.parametrize("name", ["BBKB", "IGPUCB"])
def test_a_pool_is_played_as_its_points_in_the_contexts(name, path):
    """A batch of `ask` is as many single ones."""
    heats = [-0.5, 1.25]
    points = np.vstack([np.hstack([X, np.full((len(X), 1), heat)]) for heat in heats])
    policy = made(name, heat_of(path, repeats=True), sb.Matern(0.6))
    other = made(name, sb.Points(points), sb.Matern(0.6))
    for i in range(6):
        heat = heats[(i // 2) % 2]
        found = policy.ask(3, context={"heat": heat})
        same = other.ask(3, context={2: heat})
        np.testing.assert_array_equal(policy.space.encode(policy.space.parse(found)[0]), same)
        if i % 3:
            y = [value(each["candidate"], heat) for each in found]
            policy.tell(found, y)
            other.tell(same, y)
    for got, wanted in zip(policy.posterior(found), other.posterior(same), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-8)
    assert policy.best().mean == pytest.approx(other.best().mean)
    assert policy.best(context={"heat": 1.25}).mean == pytest.approx(other.best(context={2: 1.25}).mean)


@pytest.mark.parametrize("name", ["GPEI", "BKB", "BBKB", "GPTS", "PartitionedUCB"])
def test_the_best_in_a_context_is_that_of_all_candidates(name, path):
    """Also of those that were not measured, were measured elsewhere, or failed."""
    policy = made(name, heat_of(path), sb.RBF(0.5), minimize=True)
    for heat in (-1.0, 0.5, 0.5):
        found = policy.ask(8, context={"heat": heat})
        policy.tell(found, [-value(each["candidate"], heat) for each in found])
    measured = policy.best()
    assert measured.x in policy.space.arguments(policy.observations.x)
    for heat in (0.5, 1.7):
        best = policy.best(context={"heat": heat})
        mean, _ = policy.posterior([{"candidate": i, "heat": heat} for i in range(len(X))])
        assert best.x == {"candidate": int(np.argmin(mean)), "heat": heat} or name == "BBKB"  # whose values wait
        assert (best.mean, best.std) == policy.posterior(best.x)
        assert best.mean == pytest.approx(mean[best.x["candidate"]])
        policy.tell_failure(best.x)
        assert policy.best(context={"heat": heat}).x == best.x


# ---- each candidate once in a context


@pytest.mark.parametrize("name", ["RandomSearch", "GPEI", "PIMS"])
def test_each_candidate_is_asked_for_once_in_a_context(name, tmp_path):
    written = sb.Pool.write(tmp_path / "small.zarr", X[:9], chunk=4)
    policy = made(name, heat_of(written.path), *([] if name == "RandomSearch" else [sb.RBF(0.4)]))
    first = policy.ask(9, context={"heat": 0.0})
    assert sorted(x["candidate"] for x in first) == list(range(9))
    policy.tell(first[:5], [value(x["candidate"], 0.0) for x in first[:5]])
    policy.tell_failure(first[5])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="all 9 candidates of the pool have been asked for or measured, failed"):
            policy.ask(context={"heat": 0.0})
    second = policy.ask(3, context={"heat": 1.0}, available=lambda numbers: numbers < 3)
    assert sorted(x["candidate"] for x in second) == [0, 1, 2]
    assert {x["heat"] for x in second} == {1.0}
    assert sorted(x["candidate"] for x in policy.ask(6, context={"heat": 1.0})) == list(range(3, 9))
    assert policy.ask(context={"heat": np.nextafter(1.0, 2.0)})["candidate"] in range(9)


def test_a_random_candidate_is_drawn_of_those_that_are_left(path):
    policy = made("RandomSearch", heat_of(path))
    found = policy.ask(110, context={"heat": 0.0})
    assert policy.space.dimension == 2
    assert len({x["candidate"] for x in found}) == 110
    other = policy.ask(110, context={"heat": 1.0})
    assert len({x["candidate"] for x in other} & {x["candidate"] for x in found}) > 90
    with pytest.raises(ValueError, match=r"context: got .*None for RandomSearch"):
        policy.best(context={"heat": 0.0})
    policy.tell(other[3], 5.0)
    assert policy.best().x == other[3]


def test_partitions_are_scored_in_the_context(path, monkeypatch):
    """With samples of whole chunks the best chunk is among those scored: the choice is that of `GPUCB`."""
    monkeypatch.setattr(partitions, "MOST", 1)
    policy = made("PartitionedUCB", heat_of(path), sb.RBF(0.4), passes=0.15, sample=17)
    other = made("GPUCB", heat_of(path), sb.RBF(0.4))
    rng = np.random.default_rng(1)
    for heat in (0.0, 1.5, -0.5, 1.5):
        for number in rng.integers(len(X), size=3).tolist():
            for each in (policy, other):
                each.tell({"candidate": number, "heat": heat}, 3.0 * value(number, heat))
        found = policy.ask(context={"heat": heat})
        assert found == other.ask(context={"heat": heat})
        policy.abandon()
        other.abandon()
    assert 2 * policy._partitions._count < policy.space.chunks


# ---- a kernel that is learned


def test_a_learned_model_sees_the_context_in_its_own_unit(tmp_path):
    written = sb.Pool.write(tmp_path / "pool.zarr", X * [1.0, 10.0], chunk=50)
    pool = sb.Pool(written.path, contexts={"heat": (100.0, 300.0)})
    assert pool.model_dimension == 3
    np.testing.assert_allclose(sides_of(pool), [1.0, 10.0, 200.0], rtol=0.03)
    lengths = np.array(standard_kernel(pool).kernel.lengthscale)
    np.testing.assert_allclose(lengths / sides_of(pool), lengths[0] / sides_of(pool)[0])
    policy = made("GPEI", pool)

    def told(x):
        return value(x["candidate"], (x["heat"] - 200.0) / 100.0)

    for i in range(9):
        found = policy.ask(4, context={"heat": [100.0, 200.0, 300.0][i % 3]})
        policy.tell(found, [told(x) for x in found])
    assert len(policy.present_kernel.kernel.lengthscale) == 3
    best = [max(range(len(X)), key=lambda i, h=heat: value(i, h)) for heat in (-1.0, 0.5, 1.0)]
    assert len(set(best)) == 3
    for number, heat in zip(best, (-1.0, 0.5, 1.0), strict=True):  # the second was never seen
        x = policy.best(context={"heat": 200.0 + 100.0 * heat}).x
        assert value(x["candidate"], heat) > value(number, heat) - 0.01


@pytest.mark.filterwarnings("ignore:.*observations, noise=")
@pytest.mark.parametrize("name", ["GPUCB", "PIMS"])
def test_fingerprints_with_a_context_are_learned(name, tmp_path):
    bits = np.packbits(np.random.default_rng(0).random((60, 40)) < 0.3, axis=1)
    labels = [f"molecule {i}" for i in range(60)]
    written = sb.Pool.write(tmp_path / "pool.zarr", [{"bits": bits, "labels": labels}], chunk=25)
    policy = made(name, heat_of(written.path, repeats=False))
    for heat in (0.0, 1.0, 0.0, 1.0):
        found = policy.ask(5, context={"heat": heat})
        assert all(x["candidate"] in labels and x["heat"] == heat for x in found)
        policy.tell(found, [float(int(x["candidate"].split()[1]) % 7) + heat for x in found])
    assert len({tuple(x.values()) for x in policy.space.arguments(policy.observations.x)}) == 20
    assert "Tanimoto" in repr(policy.present_kernel)


# ---- the same on threads and workers, in copies, and from stores


def played(policy, rounds=5):
    """What a policy asks for in some rounds, every other one in another context, with points pending."""
    found = []
    for i in range(rounds):
        heat = [0.2, 1.4, -1.0][i % 3]
        found += policy.ask(3, context={"heat": heat})
        policy.tell(found[-3:-1], [value(x["candidate"], heat) for x in found[-3:-1]])
    return found


@pytest.mark.parametrize(
    "name", ["GPEI", pytest.param("GPTS", marks=pytest.mark.slow), "PartitionedUCB", "RandomSearch"]
)
def test_copies_and_threads_find_the_same(name, path):
    kernel = () if name == "RandomSearch" else (sb.RBF(0.4),)
    whole = played(made(name, heat_of(path), *kernel), 3)
    policy = sb.Policy.from_dict(json.loads(json.dumps(made(name, heat_of(path), *kernel).to_dict())))
    assert played(policy, 3) == whole
    with made(name, heat_of(path), *kernel, on="threads:2") as threaded:
        assert played(threaded, 3) == whole
    restored = made(name, heat_of(path), *kernel)
    restored.restore(policy.state())
    assert restored.rounds == policy.rounds
    np.testing.assert_array_equal(restored.observations.x, policy.observations.x)
    copy = pickle.loads(pickle.dumps(policy))
    assert played(copy, 3) == played(policy, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GPUCB", "GPTS", "PartitionedUCB"])
def test_workers_find_the_same(name, path, client):
    alone = played(made(name, heat_of(path), sb.RBF(0.4)))
    with made(name, heat_of(path), sb.RBF(0.4), on=client) as policy:
        assert played(policy) == alone


def test_a_recorded_run_goes_on_alike(path, tmp_path):
    store, policy, whole = tmp_path / "run.zarr", *(made("GPEI", heat_of(path), sb.RBF(0.4)) for _ in range(2))
    with sb.record(policy, store, durability="block"):
        assert played(policy, 3) == played(whole, 3)
        policy.tell_failure(policy.pending[0])
    for contexts in (None, {"heat": (-1.0, 3.0)}, {"warmth": (-1.0, 2.0)}):
        with pytest.raises(sb.SpecificationDiffers, match="contexts"):
            sb.record(made("GPEI", sb.Pool(path, contexts=contexts), sb.RBF(0.4)), store)
    whole.tell_failure(whole.pending[0])
    policy = made("GPEI", heat_of(path), sb.RBF(0.4))
    with sb.record(policy, store, durability="block"):
        assert policy.pending == whole.pending
        assert played(policy, 2) == played(whole, 2)
        assert policy.best(context={"heat": 2.0}) == whole.best(context={"heat": 2.0})
    with sb.ObservationStore.open(store) as run:
        space = known_space(run)
        assert space == heat_of(path)
        columns = run.read()
        asked = space.arguments(columns["x"])
        np.testing.assert_allclose(columns["y"], [value(x["candidate"], x["heat"]) for x in asked])


@pytest.mark.slow
def test_the_page_of_a_run_has_its_names(path, tmp_path):
    policy = made("GPEI", heat_of(path), sb.RBF(0.4))
    with sb.record(policy, tmp_path / "run.zarr"):
        played(policy, 2)
        policy.tell_failure(policy.pending[0], "broken")
    text = page(tmp_path / "run.zarr")
    for part in ("candidate</th>", "heat</th>", "candidate = ", ", heat = 0.2", "broken"):
        assert part in text


@pytest.mark.parametrize(
    ("kernel", "line"),
    [(None, ""), (sb.Tanimoto(), "x0 to x1: the fingerprint (Tanimoto)"), (sb.MinMax(), "x0 to x1: the fingerprint")],
)
def test_the_model_names_what_it_sees(kernel, line, path, tmp_path):
    """The words of a fingerprint, the numbers, which are counted from the first of them on, and the contexts."""
    words, numbers = 2 * (kernel is not None), sb.RBF([0.4, 0.4, 0.1])
    if words:
        rows = {"bits": np.ones((len(X), 7), np.uint8), "numbers": X}
        path = sb.Pool.write(tmp_path / "pool", [rows], progress=False).path
        numbers = sb.OnDimensions(kernel, range(words)) * sb.OnDimensions(numbers, range(words, words + 3))
    beliefs = made("GPEI", heat_of(path), numbers).model.describe()
    first, *others = [each.name for each in beliefs.parameters]
    assert (first, set(others)) == ("heat", {"number 0", "number 1"})
    assert beliefs.fingerprint == line
    assert str(beliefs).splitlines()[3:-2] == [line] * bool(line)


@pytest.mark.parametrize("labelled", [False, True])
def test_a_table_has_labels_and_contexts(labelled, tmp_path):
    """One of `export`; the number by visit gives its name to the candidate."""
    names = [f"m{i}" for i in range(len(X))]
    rows = {"numbers": X, **({"labels": names} if labelled else {})}
    written = sb.Pool.write(tmp_path / "pool.zarr", [rows], chunk=50, progress=False)
    policy = made("GPEI", heat_of(written.path), sb.RBF(0.4))
    with sb.record(policy, tmp_path / "run.zarr"):
        asked = policy.ask(3, context={"heat": 0.2}) + policy.ask(2, context={"heat": 1.4})
        policy.tell(asked, [1.0, 2.0, 3.0, 4.0, 5.0])
    (table,) = rounds(sb.ObservationStore.open(tmp_path / "run.zarr"))
    assert table["candidate"].tolist() == [x["candidate"] for x in asked]
    assert isinstance(table["candidate"][0], str) == labelled
    assert table["heat"].tolist() == [0.2, 0.2, 0.2, 1.4, 1.4]
    assert table["y"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert table["candidate_"].tolist() == [0, 1, 2, 3, 4]
    os.rename(written.path, tmp_path / "elsewhere")
    with pytest.warns(UserWarning, match="numbers of candidates, not labels"):
        (other,) = rounds(sb.ObservationStore.open(tmp_path / "run.zarr"))
    assert other["candidate"].tolist() == policy.observations.x[:, 0].tolist()
    pd.testing.assert_frame_equal(other.drop(columns="candidate"), table.drop(columns="candidate"))
    assert list(other) == list(table)


def test_points_of_the_context_are_asked_for_again(path):
    """After a crash; those of other contexts wait for theirs."""
    policy = made("GPEI", heat_of(path), sb.RBF(0.4))
    cold, warm = policy.ask(4, context={"heat": 0.0}), policy.ask(3, context={"heat": 1.0})
    policy._restore_pending(policy.pending_points.numbers, reissue=True)
    assert policy.ask(2, context={"heat": 1.0}) == warm[:2]
    others = [x["candidate"] for x in cold if x != cold[1]]
    again = policy.ask(4, context={"heat": 0.0}, available=lambda numbers: numbers != cold[1]["candidate"])
    assert [x["candidate"] for x in again[:3]] == others
    assert again[3] not in cold
    assert policy.ask(context={"heat": 1.0}) == warm[2]
    assert policy.ask(context={"heat": 0.0}) == cold[1]


def test_contexts_are_part_of_a_pool(path):
    pool = sb.Pool(path, contexts={"heat": (-1, 2), "acid": [0.0, 1.0]})
    assert pool.contexts == {"heat": (-1.0, 2.0), "acid": (0.0, 1.0)}
    assert "contexts={'heat': (-1.0, 2.0), 'acid': (0.0, 1.0)}" in repr(pool)
    for other in (pickle.loads(pickle.dumps(pool)), sb.Pool.from_dict(json.loads(json.dumps(pool.to_dict())))):
        assert (other, hash(other)) == (pool, hash(pool))
    assert pool != sb.Pool(path)
    assert pool != sb.Pool(path, contexts={"acid": (0.0, 1.0), "heat": (-1.0, 2.0)})  # points have no names
    assert sb.Pool(path).contexts is None
    assert "contexts" not in sb.Pool(path).to_dict()
    assert [axis.name for axis in pool.axes] == ["candidate", "heat", "acid"]
    assert pool.size == len(X)
    points = pool.spread(np.array([[0.5, 0.5, 0.25], [0.999, 0.0, 1.0]]))
    np.testing.assert_array_equal(points, [[60.0, 0.5, 0.25], [119.0, -1.0, 1.0]])
    np.testing.assert_array_equal(pool.encode(points), np.hstack([X[[60, 119]], points[:, 1:]]))
    assert pool.arguments(points)[1] == {"candidate": 119, "heat": -1.0, "acid": 1.0}
    assert made("GPUCB", pool, sb.RBF(0.4)).width == pytest.approx(gpucb_width1(1, len(X), 0.1))  # of one context
    assert made("GPUCB", pool).domain.count is None  # so that no model takes all points for measured
    prior = made("GPUCB", pool, sb.Linear())  # the largest variance is at an end of the contexts
    assert prior._measuring.prior_variance == pytest.approx(sb.Linear().diagonal(pool.encode(pool.sample(0))).max())
    assert pool.sample(0)[[0, -1], 1:].tolist() == [[-1.0, 0.0], [2.0, 1.0]]


# ---- errors


@pytest.mark.parametrize(
    ("context", "text"),
    [
        (None, r"context: got None; allowed: a dict such as \{'heat': -1\.0, 'acid': 0\.0\}: on this pool every"),
        (0.5, r"context: got 0\.5; allowed: a dict such as"),
        ({}, "context: got \"a dict without 'heat'\"; allowed: one with heat, acid"),
        ({"heat": 0.0}, "context: got \"a dict without 'acid'\"; allowed: one with heat, acid"),
        ({"heat": 0.0, "acid": 0.5, "hat": 1}, "context: got 'hat'; allowed: names of values; did you mean 'heat'"),
        ({"heat": 2.5, "acid": 0.5}, r"context\['heat'\]: got 2\.5; allowed: a number from -1 to 2"),
        ({"heat": "hot", "acid": 0.5}, r"context\['heat'\]: got 'hot'; allowed: numbers"),
        ({"heat": 0.0, "acid": np.nan}, r"context\['acid'\]: got nan; allowed: finite numbers"),
        ({0: 0.0, "acid": 0.5}, "context: got 0; allowed: names of values"),
    ],
)
def test_a_context_that_does_not_fit_is_refused(context, text, path):
    pool = sb.Pool(path, contexts={"heat": (-1, 2), "acid": (0, 1)})
    for policy in (made("GPEI", pool, sb.RBF(0.4)), made("RandomSearch", pool)):
        before = policy.ask(context={"heat": 0.0, "acid": 0.5})
        with pytest.raises(ValueError, match=text):
            policy.ask(2, context=context)
        if context is not None:
            with pytest.raises(ValueError, match=text):
                policy.best(context=context)
        assert policy.pending == [before]
        assert policy.domain.size == 1


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (3, "x: got 3; allowed: a dict with candidate, heat, or a list of such dicts"),
        ([], "x: got .*; allowed: a dict with candidate, heat"),
        ([3, 4], "x: got .*; allowed: a dict with candidate, heat"),
        ({"candidate": 3}, "x: got \"a dict without 'heat'\"; allowed: one with candidate, heat"),
        ({"heat": 0.0}, "x: got \"a dict without 'candidate'\""),
        ({"candidate": 3, "heat": 0.0, "acid": 0.0}, "x: got 'acid'; allowed: names of values"),
        ({"candidate": 120, "heat": 0.0}, r"x: got 120\.0; allowed: the number of a candidate"),
        ({"candidate": 2.5, "heat": 0.0}, r"x: got 2\.5; allowed: the number of a candidate"),
        ({"candidate": "CCO", "heat": 0.0}, "x: got 'CCO'; allowed: the number of a candidate"),
        (
            [{"candidate": 3, "heat": 0.0}, {"candidate": 3, "heat": 9.0}],
            r"x\['heat'\]: got 9\.0; allowed: a number fr",
        ),
        (np.array([[3.0, 9.0]]), r"x\['heat'\]: got 9\.0; allowed: a number from -1 to 2"),
        (np.array([3.0, 1.0]), "x: got .*; allowed: a dict with candidate, heat"),
    ],
)
def test_x_that_does_not_fit_is_refused(x, text, path):
    policy = made("GPEI", heat_of(path), sb.RBF(0.4))
    y = [1.0] * len(x) if isinstance(x, list | np.ndarray) else 1.0
    for call in (lambda: policy.tell(x, y), lambda: policy.posterior(x), lambda: policy.tell_failure(x)):
        with pytest.raises(ValueError, match=text):
            call()
    assert policy.rounds == policy.failures == policy.domain.size == 0


@pytest.mark.parametrize(
    ("contexts", "text"),
    [
        ({}, "contexts: got {}; allowed: None, or a dict of names and bounds"),
        (["heat"], "contexts: got .*; allowed: None, or a dict of names and bounds"),
        (
            {"candidate": (0, 1)},
            "contexts: got 'candidate'; allowed: names that are strings, not empty, and other than",
        ),
        ({"": (0, 1)}, "contexts: got ''; allowed: names that are strings"),
        ({1: (0, 1)}, "contexts: got 1; allowed: names that are strings"),
        ({"heat": (1, 1)}, r"contexts\['heat'\]: got \(1, 1\); allowed: a lower and a larger upper end"),
        ({"heat": (0, np.inf)}, r"contexts\['heat'\]: got .*inf.*; allowed: finite numbers"),
        ({"heat": (0, 1, 2)}, r"contexts\['heat'\]: got \(0, 1, 2\); allowed: a lower"),
        ({"heat": 1.0}, r"contexts\['heat'\]: got 1\.0; allowed: a lower"),
    ],
)
def test_contexts_that_are_none_are_refused(contexts, text, path):
    with pytest.raises(ValueError, match=text):
        sb.Pool(path, contexts=contexts)


def test_a_screening_goes_on_from_a_table(path, tmp_path):
    """Of other contexts, in which its candidates were measured; a run in a store has a budget for all its contexts."""
    table = pd.DataFrame({"candidate": np.arange(len(X)), "heat": np.where(np.arange(len(X)) < 9, 0.2, 1.4), "y": 1.0})
    pool, run = heat_of(path), tmp_path / "run.zarr"
    budget = {"budget": len(X) - 8, "batch": 5, "progress": False}
    with pytest.raises(ValueError, match=f"^budget: got {len(X) - 8}; allowed: at most {len(X) - 9}, the number"):
        sb.screen(lambda x: 0.0, pool, warm_start=table, context={"heat": 0.2}, **budget)
    policy = sb.RandomSearch(sb.Pool(path, contexts=pool.contexts, repeats=False))
    found = sb.screen(lambda x: 0.0, policy, 6, batch=3, warm_start=table, context={"heat": 0.2}, store=run)
    assert found.x[: len(X)] == table[["candidate", "heat"]].to_dict("records")
    assert {x["heat"] for x in found.x[len(X) :]} == {0.2}
    assert min(x["candidate"] for x in found.x[len(X) :]) >= 9
    policy = sb.RandomSearch(policy.space)
    more = sb.screen(lambda x: 0.0, policy, len(X) + 5, batch=len(X), context={"heat": 2.0}, store=run)
    assert len(more.tickets) == len(X) + 5


def test_what_has_no_context_ends_with_the_error_of_ask(path):
    with pytest.raises(ValueError, match=r"context: got .*; allowed: None on a pool without contexts="):
        made("GPEI", sb.Pool(path), sb.RBF(0.4)).ask(context={"heat": 0.0})
    with pytest.raises(TypeError):
        sb.Pool(path, None, {"heat": (0, 1)})
    for play in (
        lambda: sb.screen(lambda x: 0.0, heat_of(path), budget=4, batch=2, progress=False),
        lambda: sb.maximize(lambda x: 0.0, made("GPEI", heat_of(path), sb.RBF(0.4)), 4, progress=False),
        lambda: made("GPTS", heat_of(path), sb.RBF(0.4)).propose(),  # as `simulate` does
        lambda: made("RandomSearch", heat_of(path)).propose(),
        lambda: made("GPUCB", heat_of(path), sb.RBF(0.4)).best(),
    ):
        with pytest.raises(ValueError, match=r"context: got None; allowed: a dict such as \{'heat': -1\.0\}"):
            play()
    policy = made("GPEI", heat_of(path), sb.RBF(0.4))
    policy.tell({"candidate": 3, "heat": 0.0}, 1.0)
    for refused in (sb.analysis.slices, sb.analysis.importance):
        with pytest.raises(ValueError, match="found: got Pool"):
            refused(policy)
