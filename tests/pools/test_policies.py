"""Policies on pools: the same as on `Points`, in a run, on workers, resumed; and those that play none."""

import json
import os
import pickle
import shutil
import signal
import warnings

import numpy as np
import pytest

import scalable_bandits as sb
from scalable_bandits.posteriors.beliefs import beliefs_of
from scalable_bandits.posteriors.pool.chunks import Passes

RNG = np.random.default_rng(5)
POINTS = RNG.random((400, 2))
BITS = np.packbits(RNG.random((400, 64)) < 0.2, axis=1)
VALUES = np.sin(6 * POINTS[:, 0]) - (POINTS[:, 1] - 0.4) ** 2
LABELS = [f"molecule {i}" for i in range(400)]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Folder of pools that are written once, and copied for each test."""
    folder = tmp_path_factory.mktemp("written")
    sb.Pool.write(folder / "pool.zarr", POINTS, chunk=64)
    sb.Pool.write(folder / "labelled.zarr", [{"bits": BITS, "labels": LABELS}], chunk=64)
    return folder


@pytest.fixture
def pool(written, tmp_path):
    """A pool of points."""
    return sb.Pool(shutil.copytree(written / "pool.zarr", tmp_path / "pool.zarr"))


@pytest.fixture
def labelled(written, tmp_path):
    """A pool of fingerprints with labels."""
    return sb.Pool(shutil.copytree(written / "labelled.zarr", tmp_path / "labelled.zarr"))


def played(policy, rounds=4, q=6):
    """Numbers that a policy asks for in some batches."""
    found = []
    for _ in range(rounds):
        numbers = policy.space.parse(policy.ask(q))[0][:, 0].astype(int)
        found += numbers.tolist()
        policy.tell(numbers, VALUES[numbers])
    return found


def made(name, space, kernel=None, **keywords):
    """A policy, without the warnings of theorems that do not hold for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(sb, name)(space, kernel, seed=3, **keywords)


@pytest.mark.parametrize("name", ["GPUCB", "IGPUCB", "GPEI", "BBKB", "MeanOnly", "VarianceOnly"])
def test_a_pool_is_played_as_its_points_are(name, pool):
    pool = sb.Pool(pool.path, repeats=True)
    policy, other = (made(name, space, sb.Matern(0.3), noise=0.1) for space in (pool, sb.Points(POINTS)))
    numbers = played(policy)
    for batch in np.reshape(numbers, (4, 6)):
        x = other.ask(6)
        np.testing.assert_array_equal(x, POINTS[batch])
        other.tell(x, VALUES[batch])
    for found, wanted in zip(policy.posterior(numbers), other.posterior(POINTS[numbers]), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-8)
    assert policy.best().mean == pytest.approx(other.best().mean)
    np.testing.assert_array_equal(POINTS[policy.best().x], other.best().x)
    assert policy.information_gain == pytest.approx(other.information_gain, nan_ok=True)


@pytest.mark.parametrize("name", ["GPEI", "GPUCB", "GPTS", "PIMS", "MeanOnly", "RandomSearch"])
@pytest.mark.sampled(2)
def test_without_a_kernel_each_candidate_is_asked_for_once(name, pool, labelled):
    for space in (pool, labelled, sb.Pool(pool.path, repeats=False)):
        once = space.repeats is False or name not in ("GPUCB", "GPTS")
        numbers = played(made(name, space))
        assert len(set(numbers)) == len(numbers) or not once
    if name != "RandomSearch":
        assert VALUES[played(made(name, pool), 8)].max() > np.sort(VALUES)[-5]


def test_a_learned_model_of_fingerprints_finds_what_is_alike(labelled):
    similar = sb.Tanimoto().block(BITS[:1], BITS)[0]
    policy = made("GPEI", labelled)
    for _ in range(6):
        labels = policy.ask(10)
        policy.tell(labels, similar[[LABELS.index(label) for label in labels]])
    assert policy.best().x == "molecule 0"


@pytest.mark.parametrize("deviation", [0.0, 2.0, 4.0])
def test_noise_of_fingerprints_is_seen_without_repeats(deviation, tmp_path):
    """Each candidate is measured once; those that are alike, of 40 families of ten, tell how much noise there is."""
    rng = np.random.default_rng(0)
    families = np.repeat(rng.random((40, 128)) < 0.15, 10, axis=0)
    bits = np.packbits(families ^ (rng.random((400, 128)) < 0.06), axis=1)
    f = np.linalg.cholesky(4.0 * sb.Tanimoto().block(bits) + 1e-9 * np.eye(400)) @ rng.standard_normal(400)
    policy = made("GPUCB", sb.Pool.write(tmp_path / "families.zarr", bits, packed=True, progress=False))
    measured = rng.permutation(400)[:360]
    policy.tell(measured, f[measured] + deviation * rng.standard_normal(360))
    assert abs(beliefs_of(policy.model).noise - deviation) < 0.5
    mean, around = policy.posterior(measured)
    assert (abs(f[measured] - mean) < 1.96 * around).mean() > 0.88


def test_all_candidates_are_asked_for_and_then_none(tmp_path):
    pool = sb.Pool.write(tmp_path / "small.zarr", POINTS[:25], chunk=7)
    for policy in (made("GPEI", pool, sb.RBF(0.3)), made("GPEI", pool), made("RandomSearch", pool)):
        asked = policy.ask(5).tolist()
        policy.tell_failure(asked[0])
        policy.tell(asked[1:], VALUES[asked[1:]])
        some = {"available": lambda numbers: numbers < 12}
        for given, left in (({}, 20), (some, len(set(range(12)) - set(asked)))):
            with pytest.raises(RuntimeError, match=f"n: got 21; allowed: at most {left}: no more candidates"):
                policy.ask(21, **given)
            assert policy.pending == []
        asked += policy.ask(20).tolist()
        assert sorted(asked) == list(range(25))
        with pytest.raises(RuntimeError, match="all 25 candidates of the pool have been asked for or measured"):
            policy.ask()
        assert len(policy.pending) == 20


def test_a_given_kernel_is_refitted_on_request(pool):
    policy = made("GPEI", pool, 1.0 * sb.Matern(2.0), noise=0.05, refit=5)
    assert VALUES[played(policy, 6)].max() > np.sort(VALUES)[-20]
    assert policy.present_kernel != policy.kernel


def test_a_batch_of_bbkb_takes_one_pass(pool, monkeypatch):
    """Whatever is told within it; its end, and the widths, are those of the same policy on points."""
    policy, other = (
        made("BBKB", space, sb.Matern(0.3), noise=0.1, threshold=3.0) for space in (pool, sb.Points(POINTS))
    )
    passes, each = [], Passes.each
    monkeypatch.setattr(Passes, "each", lambda self, *args: passes.append(len(args[2])) or each(self, *args))
    begun = []
    for _ in range(20):
        begun.append(policy.batches)
        number = policy.ask()
        np.testing.assert_array_equal(other.ask(), POINTS[number])
        assert policy.width == pytest.approx(other.width)
        policy.tell(number, VALUES[number])
        other.tell(POINTS[number], VALUES[number])
        assert policy.batches == other.batches
        restored = made("BBKB", pool, sb.Matern(0.3), noise=0.1, threshold=3.0)
        restored.restore(policy.state())
        assert restored.width == pytest.approx(policy.width)
    assert 3 < policy.batches < 15
    assert passes.count(pool.chunks) == len(set(begun))


def test_a_prior_mean_is_known_without_a_pass(pool, monkeypatch):
    """Before there is a point to improve on, the best prior mean is that of any candidate."""
    passes, each = [], Passes.each
    monkeypatch.setattr(Passes, "each", lambda self, *args: passes.append(len(args[2])) or each(self, *args))
    policy = made("GPEI", pool, sb.Matern(0.3), prior_mean=0.7, noise=0.1)
    assert policy.best_so_far(None) == 0.7
    policy.ask(3)
    assert passes == [pool.chunks]


@pytest.mark.parametrize("name", ["GPEI", "PIMS", "BKB", "BBKB"])
@pytest.mark.sampled(2)
def test_a_policy_from_its_data_plays_the_same(name, labelled):
    policy = made(name, labelled, 1.2 * sb.Tanimoto())
    other = sb.Policy.from_dict(json.loads(json.dumps(policy.to_dict())))
    assert played(other) == played(policy)


@pytest.mark.parametrize("name", ["GPEI", "GPTS", "BBKB"])
@pytest.mark.sampled(2)
def test_a_copy_goes_on_alike(name, labelled):
    policy = made(name, labelled, 1.2 * sb.Tanimoto() if name == "BBKB" else None)
    played(policy, 3)
    asked = policy.ask(4)
    assert policy.pending == asked
    for other in (pickle.loads(pickle.dumps(policy)), policy):
        assert played(other, 2, 5) == played(pickle.loads(pickle.dumps(policy)), 2, 5) or other is policy


def test_a_run_is_resumed_from_its_store(labelled, tmp_path):
    function = dict(zip(LABELS, VALUES.tolist(), strict=True)).__getitem__
    whole = sb.maximize(function, made("GPEI", labelled), 40)
    store = tmp_path / "run.zarr"
    with pytest.raises(ZeroDivisionError):
        sb.maximize(function, made("GPEI", labelled), 40, store=store, callbacks=[lambda run: 1 // (25 - run.number)])
    resumed = sb.maximize(function, made("GPEI", labelled), 40, store=store)
    assert resumed.table()["candidate"].tolist() == whole.table()["candidate"].tolist()
    assert resumed.best.x == whole.best.x


@pytest.mark.parametrize("name", ["PEGPUCB", "PiGPUCB", "PSEI", "GPPI"])
def test_policies_that_play_no_pool_say_so(name, pool):
    keywords = {"priors": [sb.Prior("a", sb.RBF(0.2))]} if name == "PEGPUCB" else {"kernel": sb.RBF(0.2)}
    with pytest.raises(ValueError, match=r"(?s)space: got Pool.*no pool for .*GPUCB, IGPUCB, GPEI"):
        getattr(sb, name)(pool, **keywords)


def test_the_refusal_lists_the_policies_that_play_pools(pool):
    every = [each for each in vars(sb).values() if isinstance(each, type) and issubclass(each, sb.Policy)]
    with pytest.raises(ValueError, match="no pool") as refusal:
        sb.PSEI(pool, sb.RBF(0.2))
    listed = str(refusal.value).partition("policies that play one: ")[2].split(", ")
    assert sorted(listed) == sorted(each.__name__ for each in every if each.pools)


def test_what_does_not_fit_a_pool_is_refused(pool, labelled):
    with pytest.raises(ValueError, match="a number on a pool"):
        sb.GPEI(pool, sb.RBF(0.3), prior_mean=lambda x: x[:, 0])
    with pytest.raises(ValueError, match=r"available: got .*on a pool a function that returns a mask"):
        sb.GPEI(pool, sb.RBF(0.3)).ask(available=[1, 2])
    for wrong in (lambda numbers: numbers, lambda numbers: [True]):
        with pytest.raises(ValueError, match=r"available: got .*a function that returns a mask \(k,\)"):
            sb.GPEI(pool, sb.RBF(0.3)).ask(available=wrong)
    with pytest.raises(ValueError, match="engine: got 'dense'; allowed: 'auto' or 'sketched' on a pool"):
        sb.GPEI(pool, sb.RBF(0.3), engine="dense")
    with pytest.raises(ValueError, match="pending: got 'sample'; allowed: 'mean' on a Pool"):
        sb.GPEI(pool, sb.RBF(0.3), pending="sample")
    with pytest.raises(ValueError, match="lengthscale: got"):
        sb.GPEI(pool, sb.RBF([0.3] * 3))
    with pytest.raises(ValueError, match="repeats: got 1; allowed: True, False or None"):
        sb.Pool(pool.path, repeats=1)
    policy = sb.GPEI(labelled, sb.Tanimoto(), noise=0.1)
    with pytest.raises(ValueError, match="x: got 'nobody'"):
        policy.tell("nobody", 1.0)
    assert policy.rounds == 0


def test_a_pass_that_failed_is_made_again(pool):
    """What is damaged is put back: the policy chooses as if nothing had been."""
    expected = played(made("GPEI", pool, sb.RBF(0.3)))
    policy, path = made("GPEI", sb.Pool(pool.path), sb.RBF(0.3)), os.path.join(pool.path, "numbers", "c", "5", "0")
    os.rename(path, path + ".aside")
    for _ in range(2):
        with pytest.raises(sb.StoreDamaged):
            policy.ask(3)
    os.rename(path + ".aside", path)
    assert played(policy) == expected


def test_the_largest_bound_is_that_of_all_candidates(pool):
    """Also of those that are not measured again: a stopping rule needs it."""
    policy, other = (made("GPEI", space, sb.RBF(0.3), noise=0.1) for space in (pool, sb.Points(POINTS)))
    for number in (3, 200, 77):
        policy.tell(number, VALUES[number] + 5.0)
        other.tell(POINTS[number], VALUES[number] + 5.0)
    assert policy.model.highest(0.5, (0, 1)) == pytest.approx(other.model.highest(0.5, (0, 1)))
    assert policy.ask() not in (3, 200, 77)


def even(numbers):
    """Mask of the even numbers of one chunk and a half."""
    return (numbers % 2 == 0) & (numbers < 96)


@pytest.mark.parametrize("name", ["GPEI", "GPUCB", "GPTS", "PIMS", "RandomSearch"])
def test_only_available_candidates_are_asked_for(name, pool):
    """As if the pool had only these, whose numbers alone decide."""
    policy = made(name, pool) if name == "RandomSearch" else made(name, pool, sb.RBF(0.3), noise=0.1)
    policy.tell(np.arange(0, 400, 20), VALUES[::20])
    unlimited, some = policy.ask(4), policy.ask(8, available=even)
    assert even(some).all()
    policy.abandon([*unlimited, *some])
    np.testing.assert_array_equal(policy.ask(4), unlimited)
    if name in ("GPEI", "GPUCB"):
        other = made(name, sb.Points(POINTS), sb.RBF(0.3), noise=0.1)
        other.tell(POINTS[::20], VALUES[::20])
        other.ask(4)
        mask = even(np.arange(400)) & ~np.isin(np.arange(400), [] if policy._may_repeat else np.arange(0, 400, 20))
        if name == "GPEI":
            mask[unlimited] = False
        np.testing.assert_array_equal(POINTS[policy.ask(1, available=even)], other.ask(1, available=mask))
    with pytest.raises(RuntimeError, match="not available"):
        policy.ask(available=lambda numbers: numbers < 0)


@pytest.mark.parametrize("name", ["GPUCB", "IGPUCB", "GPTS"])
@pytest.mark.sampled(3)
def test_a_batch_with_repeats_is_not_one_candidate(name, pool):
    """Learned models measure none a fourth time while they know of no noise, whether told or pending."""
    policy, asked = made(name, pool), []
    for _ in range(6):
        batch = policy.ask(10)
        policy.tell(batch, VALUES[batch])
        asked += batch.tolist()
    assert np.bincount(asked).max() <= 3
    singly = made(name, pool)
    singly.tell(asked, VALUES[asked])
    assert [singly.ask() for _ in range(5)] == singly_again(name, pool, asked)


def singly_again(name, pool, asked):
    """Five choices of a policy that makes a new queue for each."""
    policy = made(name, pool)
    policy.tell(asked, VALUES[asked])
    found = []
    for _ in range(5):
        policy.model.search._queue = None
        found.append(policy.ask())
    return found


@pytest.mark.parametrize("name", ["GPUCB", "GPEI"])
@pytest.mark.sampled(2)
def test_while_all_values_are_equal_candidates_are_drawn_at_random(name, pool):
    """An index would choose corners."""
    policy = made(name, pool)
    for _ in range(4):
        batch = policy.ask(10)
        policy.tell(batch, np.zeros(10))
    spread = np.std(POINTS[policy.ask(20)], axis=0)
    assert (spread > 0.15).all()  # of uniform points .29


@pytest.mark.parametrize("name", ["GPEI", "GPTS", "MeanOnly"])
@pytest.mark.sampled(3)
def test_what_is_available_may_change_from_one_call_to_the_next(name, pool):
    """The function is the same; the stock that it reads is not."""
    stock = np.ones(400, dtype=bool)
    policy = made(name, pool, sb.RBF(0.3), noise=0.1)
    policy.tell(np.arange(0, 400, 20), VALUES[::20])
    for _ in range(6):
        asked = policy.ask(available=lambda numbers: stock[numbers])
        assert stock[asked]
        policy.abandon(asked)
        stock[asked] = False


def test_threads_find_the_same(labelled):
    kernel = 1.3 * sb.Tanimoto()
    alone = played(made("GPEI", labelled, kernel, noise=0.1))
    with made("GPEI", labelled, kernel, noise=0.1, on="threads:3") as policy:
        assert played(policy) == alone


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_workers_find_the_same_also_when_one_is_killed(labelled):
    from distributed import Client, LocalCluster

    kernel = 1.3 * sb.Tanimoto()
    alone = played(made("GPUCB", labelled, kernel, noise=0.1))
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
        made("GPUCB", labelled, kernel, noise=0.1, on=client) as policy,
    ):
        found = played(policy, 2)
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        assert found + played(policy, 2) == alone
        with made("GPTS", labelled, kernel, noise=0.1, on=client) as drawing:
            assert played(drawing, 1) == played(made("GPTS", labelled, kernel, noise=0.1), 1)


def test_points_that_are_asked_for_again_are_available_too(pool):
    policy = made("GPEI", pool, sb.RBF(0.3))
    asked = policy.ask(6).tolist()
    policy._restore_pending(policy.pending_points.numbers, reissue=True)  # as after a crash
    again = policy.ask(5, available=lambda numbers: numbers != asked[1])
    assert again.tolist() == [number for number in asked if number != asked[1]]
    assert policy.ask() == asked[1]


def test_a_pass_says_how_far_it_is(pool):
    policy, seen = made("MeanOnly", pool, sb.RBF(0.3)), []

    def everything(numbers):
        seen.append(policy.activity)
        return np.ones(len(numbers), dtype=bool)

    policy.ask(available=everything)
    assert seen == [f"chunk {i} of 7" for i in range(7)]
    assert policy.activity == ""
