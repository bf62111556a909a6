"""The sketched engine, BKB and BBKB: against the formulas from scratch, exact policies, and what the papers promise."""

import math

import numpy as np
import pytest
from naive import kernels as naive
from naive import policies as naive_policies
from naive.gp import GP
from naive.sketched import SketchedGP, nystrom

import scalable_bandits as sb
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.formulas.confidence import budgeted, budgeted_gain, regularised
from scalable_bandits.posteriors import DenseEngine, SketchedEngine, TiledEngine
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.sketched import QueriedSketch
from scalable_bandits.posteriors.box.surface import constant_mean
from scalable_bandits.posteriors.sketched import engine as sketched
from scalable_bandits.posteriors.tiled import tiles
from scalable_bandits.posteriors.tiled.ordering import tile_order
from scalable_bandits.randomness import generator

SIDE = 14
SPACE = sb.Grid([[0, 1], [0, 1]], SIDE)
KERNEL, ORACLE = sb.Matern(0.2, nu=1.5), naive.matern32(0.2)


@pytest.fixture(scope="module")
def gram():
    return naive.matrix(ORACLE, SPACE.points())


def oracle_of(gram, prior_mean, oversampling, seed):
    order = tile_order(SPACE.points(), tiles.TILE).tolist()
    return SketchedGP(
        gram, prior_mean, order, lambda count: generator(seed, "sketch", count).random(),
        oversampling, sketched.GROWTH, tiles.WINDOW,
    )  # fmt: skip


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("oversampling", [0.4, *(pytest.param(c, marks=pytest.mark.slow) for c in (1.5, math.inf))])
def test_posterior_is_the_one_from_scratch(oversampling, gram):
    """250 rounds with repeated points, noises of their own, and sketches, to 1e-8."""
    means = 1.0 + np.cos(np.arange(SPACE.size))
    engine = SketchedEngine(KERNEL, SPACE.points(), means, oversampling, seed=5)
    oracle = oracle_of(gram, means, oversampling, 5)
    rng = np.random.default_rng(0)
    for t in range(250):
        candidate = int(rng.integers(SPACE.size)) if t % 3 else engine.argmax(UpperConfidence(0.5), salt=t)[0]
        y, noise = float(np.sin(candidate) + rng.standard_normal()), float(rng.choice([0.05, 0.3, 1.0]))
        engine.observe(candidate, y, noise)
        oracle.observe(candidate, y, noise)
        if t % 5 < 4:
            continue
        mean, covariance = oracle.mean_covariance()
        some = rng.integers(SPACE.size, size=5)
        np.testing.assert_allclose(engine.at(some)[0], mean[some], rtol=0, atol=1e-8)
        np.testing.assert_allclose(engine.at(some)[1], covariance.diagonal()[some], rtol=0, atol=1e-8)
        if t % 25 == 24:
            np.testing.assert_allclose(engine.mean(), mean, rtol=0, atol=1e-8)
            np.testing.assert_allclose(engine.variance(), covariance.diagonal(), rtol=0, atol=1e-8)
            np.testing.assert_allclose(engine.columns(some), covariance[some], rtol=0, atol=1e-8)
            deviation, variance = engine.predict(SPACE.points(some))
            np.testing.assert_allclose(deviation + means[some], mean[some], rtol=0, atol=1e-8)
            np.testing.assert_allclose(variance, covariance.diagonal()[some], rtol=0, atol=1e-8)
    assert sorted(engine.dictionary) == sorted(oracle.dictionary)
    assert engine.state()["tiles.sketches"] == oracle.sketches >= 3
    assert oversampling == math.inf or len(oracle.dictionary) < 0.7 * len({n for n, _, _ in oracle.observations})


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sampled(2)
def test_bkb_that_keeps_every_point_is_igpucb(seed):
    function = sb.RKHSFunction.sparse(SPACE, KERNEL, sb.UniformNoise(0.5), seed=seed)
    options = {"noise": 0.5, "rkhs_norm": function.rkhs_norm, "regularization": 0.25, "seed": seed}
    exact = sb.simulate(sb.IGPUCB(SPACE, KERNEL, **options), function, 250)
    policy = sb.BKB(SPACE, KERNEL, oversampling=math.inf, **options)
    run = sb.simulate(policy, function, 250)
    assert policy.model.engine.state()["tiles.sketches"] >= 3
    np.testing.assert_array_equal(run.candidate, exact.candidate)
    np.testing.assert_allclose(run.width, exact.width, rtol=1e-9)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.slow
def test_variances_are_within_the_papers_bounds():
    """Calandriello et al. 2019, Theorem 1 with e = 1/2: within a factor 3 at all candidates, in 95 of 100 runs.

    At the default oversampling, which is far below the theorem's.
    """
    problems = [(sb.Matern(0.2, nu=1.5), 1.0), (sb.RBF(0.15), 0.1), (sb.Matern(0.1, nu=2.5), 0.3)]
    within, smaller = 0, 0
    for seed in range(100):
        kernel, noise_variance = problems[seed % 3]
        noise = noise_variance**0.5
        function = sb.RKHSFunction.sparse(SPACE, kernel, sb.GaussianNoise(noise), seed=seed)
        policy = sb.BKB(
            SPACE, kernel, noise=noise, rkhs_norm=function.rkhs_norm, regularization=noise_variance, seed=seed
        )
        run = sb.simulate(policy, function, 200)
        exact = DenseEngine(kernel, SPACE.points(), np.zeros(SPACE.size))
        for candidate, y in zip(run.candidate.tolist(), run.y.tolist(), strict=True):
            exact.observe(candidate, y, noise_variance)
        ratio = policy.model.engine.variance() / exact.variance()
        within += bool(ratio.min() >= 1 / 3 and ratio.max() <= 3)
        smaller += len(policy.model.engine.dictionary) < 0.7 * len(np.unique(run.candidate))
    assert within >= 95
    assert smaller >= 60  # and not because they keep everything


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["sketched", "dense", "tiled"])
def test_bbkb_plays_the_algorithm(engine, gram):
    """Every third choice from scratch: values are learned when the batch's variance ratio passes the threshold."""
    noise, regularization, delta, norm, threshold = 0.4, 0.2, 0.05, 1.5, 1.8
    policy = sb.BBKB(
        SPACE, KERNEL, noise=noise, regularization=regularization, delta=delta, rkhs_norm=norm, threshold=threshold,
        engine=engine, oversampling=math.inf, seed=1,
    )  # fmt: skip
    known, batch, rng = [], [], np.random.default_rng(3)
    fed_back, sizes = GP(None, SPACE.points(), 0.0, gram), []
    at_feedback, gain, ratio = fed_back.mean_variance(), 0.0, 1.0
    for t in range(150):
        width = naive_policies.igpucb_width(gain, norm, noise, delta) * math.sqrt(ratio)
        assert policy.width == pytest.approx(width, rel=1e-8)
        candidate = policy.choose()
        if t % 3 == 0:
            hallucinated = GP(None, SPACE.points(), 0.0, gram)
            hallucinated.observations = known + [(c, 0.0, regularization) for c, _ in batch]
            index = at_feedback[0] + width * np.sqrt(hallucinated.mean_variance()[1])
            assert index[candidate] >= index.max() - 1e-8
        y = float(np.sin(candidate / 9) + rng.standard_normal())
        policy.observe(candidate, y)
        batch.append((candidate, y))
        ratio += at_feedback[1][candidate] / regularization
        if ratio > threshold:
            known += [(c, y, regularization) for c, y in batch]
            sizes.append(len(batch))
            batch, fed_back.observations = [], known
            at_feedback, gain, ratio = fed_back.mean_variance(), fed_back.information_gain(), 1.0
    assert policy.batches == len(sizes) > 10
    assert max(sizes[-5:]) > max(sizes[:3])  # batches grow
    mean = policy.model.engine.mean()
    np.testing.assert_allclose(mean, at_feedback[0], atol=1e-8)


def test_bbkb_counts_pending_points_in():
    policy = sb.BBKB(SPACE, KERNEL, noise=0.5, regularization=0.25, threshold=100.0)
    widths = []
    for _ in range(4):
        widths.append(policy.width)
        policy.ask()
    assert (np.diff(widths) > 0).all()
    assert len({tuple(x) for x in policy.pending}) == 4


def test_a_value_that_comes_later_is_the_same_as_one_that_came_at_once():
    """Engines' `revise`: within a window, after it was folded, and at repeated points."""
    rng = np.random.default_rng(1)
    for kind in (DenseEngine, TiledEngine):
        straight, late = (kind(KERNEL, SPACE.points(), np.zeros(SPACE.size)) for _ in range(2))
        candidates, ys = rng.integers(60, size=90), rng.standard_normal(90)
        for candidate, y in zip(candidates.tolist(), ys.tolist(), strict=True):
            straight.observe(candidate, y, 0.3)
            late.observe(candidate, 0.0, 0.3)
        late.revise(candidates, ys, np.full(90, 0.3))
        np.testing.assert_allclose(late.mean(), straight.mean(), atol=1e-9)
        np.testing.assert_allclose(late.variance(), straight.variance(), atol=1e-12)
        assert late.information_gain == pytest.approx(straight.information_gain)
        straight.observe(3, 1.0, 0.3)
        late.observe(3, 1.0, 0.3)
        np.testing.assert_allclose(late.mean(), straight.mean(), atol=1e-9)


def test_widths_of_the_theorem(gram):
    """With the variances of the points played as they are now, by the formula."""
    policy = sb.BKB(SPACE, KERNEL, noise=0.5, regularization=0.25, rkhs_norm=2.0, confidence="budgeted", delta=0.1)
    played = []
    for t in range(1, 30):
        candidate = policy.choose() if t % 3 else 5
        policy.observe(candidate, 0.0)
        played.append(candidate)
        inside = gram[np.ix_(played, played)]
        total = (inside - inside @ np.linalg.solve(inside + 0.25 * np.eye(t), inside)).trace() / 0.25
        expected = 2 * 0.5 / 0.5 * math.sqrt(3 * math.log(t / 0.25) * total + math.log(10)) + (1 + 2**0.5) * 2.0
        assert policy.width == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("regularization", [0.1, 1.0, 23.0])
def test_constants_of_the_width_suffice(regularization, gram):
    """The part of the noise is no less than the self-normalised bound, were all sketched variances a third of s^2."""
    rng = np.random.default_rng(0)
    for t in (1, 5, 40, 150):
        played = rng.integers(rng.integers(1, SPACE.size + 1), size=t)
        if t < 1.7 * regularization:
            continue
        inside = gram[np.ix_(played, played)] / regularization
        gain = 0.5 * np.linalg.slogdet(np.eye(t) + inside)[1]
        dimension = np.trace(inside @ np.linalg.inv(inside + np.eye(t)))
        wide = budgeted(budgeted_gain(t, dimension / 3, 1 / regularization), 0.1, 1.0, 0.5, regularization)
        assert wide - 1 - 2**0.5 >= regularised(gain, 0.1, 1.0, 0.5, regularization) - 1


@pytest.mark.slow
def test_posterior_anywhere_is_the_sketched_one():
    policy = sb.BKB(SPACE, KERNEL, noise=0.5, regularization=0.25, prior_mean=2.0)
    for t in range(300):
        policy.observe((37 * t) % SPACE.size, math.sin(t))
    mean, std = policy.posterior(SPACE.points())
    np.testing.assert_allclose(mean, policy.model.engine.mean(), atol=1e-9)
    np.testing.assert_allclose(std**2, policy.model.engine.variance(), atol=1e-9)


def test_batches_are_of_a_candidate_set_of_a_box():
    box = sb.Box([[0, 1]] * 2)
    for policy in (sb.IGPUCB(box, KERNEL), sb.IGPUCB(box, KERNEL, engine="sketched"), sb.BKB(box, KERNEL)):
        assert policy.candidates is None
    policy = sb.BBKB(box, KERNEL)
    assert policy.candidates == policy.domain.size == 1024
    policy.tell(policy.ask(), 1.0)


def test_values_off_the_candidate_set_end_a_batch():
    """The posterior is rebuilt with them, and knows every value once; of an infinite qbar it is exact."""
    arguments = {"noise": 0.3, "regularization": 0.09, "candidates": 50}
    box, rng = sb.Box([[0, 1]] * 2), np.random.default_rng(3)
    policy = sb.BBKB(box, KERNEL, oversampling=math.inf, threshold=1e6, **arguments)
    exact = sb.IGPUCB(box, KERNEL, engine="dense", **arguments)
    for _ in range(3):
        x, y = policy.ask(4), rng.standard_normal(4)
        policy.tell(x, y)
        exact.tell(x, y)
    assert policy.batches == 0
    x, y = rng.random((6, 2)), rng.standard_normal(6)
    policy.tell(x, y)
    exact.tell(x, y)
    assert policy.batches == 1
    policy._close()
    probes = rng.random((20, 2))
    np.testing.assert_allclose(policy.posterior(probes)[0], exact.posterior(probes)[0], atol=1e-8)
    np.testing.assert_allclose(policy.posterior(probes)[1], exact.posterior(probes)[1], atol=1e-8)
    assert policy.width == policy.width_formula().at(policy.round, policy.model.engine.information_gain)


@pytest.mark.filterwarnings("ignore:IGPUCB")
def test_a_learned_kernel_is_sketched_too():
    """With an infinite qbar the sketched engine under a learned kernel is the dense one."""
    arguments = {"noise": 0.3, "regularization": 0.09, "refit": 10, "seed": 2}
    one, other = (
        sb.IGPUCB(SPACE, KERNEL, engine=engine, oversampling=math.inf, **arguments) for engine in ("sketched", "dense")
    )
    for t in range(25):
        for policy in (one, other):
            policy.observe((37 * t) % SPACE.size, math.sin(t))
    assert one.present_kernel == other.present_kernel != KERNEL
    np.testing.assert_allclose(one.model.engine.mean(), other.model.engine.mean(), atol=1e-8)
    np.testing.assert_allclose(one.model.engine.variance(), other.model.engine.variance(), atol=1e-8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"oversampling": 0.0}, "oversampling: got 0.0; allowed: a positive number, or infinity"),
        ({"threshold": 1.0}, "threshold: got 1.0; allowed: a number above 1"),
        ({"confidence": "wide"}, "confidence"),
        ({"engine": "sketchy"}, "engine: got 'sketchy'"),
        ({"rkhs_norm": "double"}, "rkhs_norm: got 'double'; allowed: a number: values wait"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        sb.BBKB(SPACE, KERNEL, **arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sb.BBKB(SPACE, KERNEL, refit=5), "refit: got 5; allowed: None: values wait"),
        (
            lambda: sb.BBKB(SPACE, KERNEL, engine="tiled", on="local:1"),
            "on: got 'local:1'; allowed: None: BBKB has no shards",
        ),
        (lambda: sb.BKB(SPACE, KERNEL * sb.TemporalDecay(0.1)), "engine: got 'sketched'; allowed: 'auto' or 'autoreg"),
        (lambda: sb.BBKB(SPACE, KERNEL * sb.TemporalDecay(0.1), engine="auto"), "kernel: got .*one without Temporal"),
        (lambda: sb.PEGPUCB(SPACE, [sb.Prior("a", KERNEL)], engine="sketched"), "engine: got 'sketched'"),
        (lambda: sb.SupKernelUCB(SPACE, KERNEL, horizon=9, engine="sketched"), "engine: got 'sketched'"),
        (lambda: sb.SWGPUCB(SPACE, KERNEL, memory=9, engine="sketched"), "engine: got 'sketched'; allowed: 'auto'"),
        (lambda: sb.RGPUCB(SPACE, KERNEL, memory=9, rkhs_norm="double"), "rkhs_norm: got 'double'; allowed: a number"),
    ],
)
def test_where_sketches_do_not_fit(make, message):
    """Before anything is warned about, which is an error in tests."""
    with pytest.raises(ValueError, match=message):
        make()


def test_queried_points_from_the_formulas():
    """At any point, with repeats, after several sketches; from its state; exact if all points are kept."""
    rng = np.random.default_rng(4)
    x = rng.random((90, 2))
    z = rng.random((20, 2))
    numbers, ys = np.concatenate([np.arange(90), rng.integers(90, size=30)]), rng.standard_normal(120)
    noise = rng.uniform(0.1, 0.4, 120)
    for oversampling in (1.0, np.inf):
        engine = QueriedSketch(KERNEL, 2, constant_mean(0.5), oversampling, seed=1)
        engine.points, exact = x, BoxEngine(KERNEL, 2, constant_mean(0.5))
        exact.points, since, sketched = x, 0, 0
        for i, each in enumerate(zip(numbers.tolist(), ys.tolist(), noise.tolist(), strict=True)):
            engine.observe(*each)
            exact.observe(*each)
            if engine.sketches > sketched:
                since, sketched = i + 1, engine.sketches
        assert sketched >= 2
        every = np.concatenate([x, z])
        gram, observed = naive.matrix(ORACLE, every), list(zip(numbers, ys, noise, strict=True))
        chosen = [int(np.flatnonzero((x == point).all(axis=1))[0]) for point in engine.dictionary]
        gp = GP(None, np.zeros((110, 1)), *nystrom(gram, chosen, observed[:since], np.full(110, 0.5)))
        gp.observations = observed[since:]
        mean, covariance = gp.mean_covariance()
        for found in (engine.at(np.arange(90)), engine.surface().predict(x)):
            np.testing.assert_allclose(found[0], mean[:90], atol=1e-7)
            np.testing.assert_allclose(found[1], covariance.diagonal()[:90], atol=1e-7)
        np.testing.assert_allclose(engine.covariance(x, z), covariance[:90, 90:], atol=1e-7)
        if oversampling == np.inf:
            np.testing.assert_allclose(engine.surface().predict(z), exact.surface().predict(z), atol=1e-6)
        other = QueriedSketch(KERNEL, 2, constant_mean(0.5), oversampling, seed=1)
        other.points = x
        other.restore(engine.state())
        for each in (engine, other):
            each.observe(3, 1.0, 0.2)
        assert other.surface(z[:2], 0.1).predict(z)[0].tolist() == engine.surface(z[:2], 0.1).predict(z)[0].tolist()
