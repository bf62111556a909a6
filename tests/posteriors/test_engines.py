"""Engines against the refit from scratch, and against each other."""

import numpy as np
import pytest
from cases.engines import assert_posterior
from cases.kernels import KERNEL_CASES
from hypothesis import given
from hypothesis import strategies as st
from naive import kernels as naive
from naive import policies as naive_policies
from naive.gp import GP
from naive.normals import impulse_responses

import scalable_bandits as sb
from scalable_bandits.formulas.acquisition import ExpectedImprovement, ProbabilityOfImprovement, UpperConfidence
from scalable_bandits.posteriors import DenseEngine, TiledEngine, WeightsEngine, make_engine

pytestmark = pytest.mark.usefixtures("small_tiles")

ENGINES = {"dense": DenseEngine, "tiled": TiledEngine, "weights": WeightsEngine}
FEATURED = [name for name, case in KERNEL_CASES.items() if case.kernel.feature_count(case.dimension)]
LINEAR, NAIVE_LINEAR = sb.Linear(0.7, bias=0.5), naive.linear(0.7, 0.5)
QUARTIC = LINEAR * LINEAR * LINEAR * LINEAR
SPHERICAL, NAIVE_SPHERICAL = sb.SphericalLinear([[-1, 1]] * 2), naive.spherical([[-1, 1]] * 2, radius=2**0.5)
NAIVE_QUARTIC = naive.product(*[NAIVE_LINEAR] * 4)


def fitting(engine, kernel, oracle):
    """A kernel and its oracle, or those of polynomials for an engine of features."""
    return (QUARTIC, NAIVE_QUARTIC) if engine is WeightsEngine else (kernel, oracle)


every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())


class Observations:
    """Candidates, values and noise variances of a run with many repeated points."""

    def __init__(self, size, rounds, seed):
        rng = np.random.default_rng(seed)
        favourites = rng.permutation(size)[:45]
        self.candidates = np.where(
            rng.random(rounds) < 0.9, rng.choice(favourites, rounds), rng.integers(size, size=rounds)
        )
        self.y = np.sin(0.3 * self.candidates) + rng.standard_normal(rounds)
        self.noise = rng.choice([0.02, 0.1, 0.5, 2.0], rounds)

    def __iter__(self):
        return zip(self.candidates.tolist(), self.y.tolist(), self.noise.tolist(), strict=True)


SIZE, ROUNDS = 200, 300


@pytest.fixture(scope="module")
def grams():
    """Oracle's kernel matrix of each case, computed once."""
    held = {}

    def gram(name):
        if name not in held:
            case = KERNEL_CASES[name]
            held[name] = naive.matrix(case.oracle, case.points(SIZE))
        return held[name]

    return gram


@pytest.mark.parametrize("prior", ["zero", "nonzero"])
@pytest.mark.parametrize(
    ("engine", "name"),
    [(engine, name) for engine in ENGINES for name in (FEATURED if engine == "weights" else KERNEL_CASES)],
)
@pytest.mark.sampled(20)
def test_posterior_is_the_refit_after_every_25_of_300_rounds(engine, name, prior, grams):
    case = KERNEL_CASES[name]
    points = case.points(SIZE)
    means = np.zeros(SIZE) if prior == "zero" else 1.0 + np.cos(np.arange(SIZE))
    gp = GP(case.oracle, points, means, grams(name))
    tested = ENGINES[engine](case.kernel, points, means)
    assert_posterior(tested, gp)
    some = np.array([3, 77, 3, 150])
    for t, (candidate, y, noise) in enumerate(Observations(SIZE, ROUNDS, seed=1), start=1):
        if t % 3 == 0:  # some points are the engine's own choice, so that columns computed ahead are played
            candidate, _ = tested.argmax(UpperConfidence(0.1), salt=t)
        tested.observe(candidate, y, noise)
        gp.observe(candidate, y, noise)
        if t % 25 == 0:
            assert_posterior(tested, gp)
            _, covariance = gp.mean_covariance()
            np.testing.assert_allclose(tested.columns(some), covariance[some], rtol=0, atol=1e-8)
            mean, variance = tested.at(some)
            np.testing.assert_array_equal(mean, tested.mean()[some])
            np.testing.assert_array_equal(variance, tested.variance()[some])


@every_engine
class TestConformance:
    """What every engine owes, whatever the kernel."""

    def test_the_largest_index_is_the_brute_force_one(self, engine):
        """For every acquisition, availability set and reduction, at any time."""
        rng = np.random.default_rng(2)
        points = rng.random((400, 2))
        kernel, oracle = fitting(engine, sb.RBF(0.15), naive.rbf(0.15))
        gp, tested = GP(oracle, points), engine(kernel, points, np.zeros(400))
        truth = np.sin(6 * points[:, 0]) * np.cos(5 * points[:, 1])
        for t in range(100):
            mean, variance = gp.mean_variance()
            allowed = [None, rng.random(400) < 0.3, rng.random(400) < 0.01][rng.integers(3)]
            if allowed is not None:
                allowed[rng.integers(400)] = True
            reduction = None
            if rng.random() < 0.2:
                reduction = variance * rng.uniform(0, 0.99, 400)
                variance = variance - reduction
            std = np.sqrt(np.maximum(variance, 1e-200))
            width, best = rng.choice([0.0, 0.01, 0.3, 3.0]), mean.max() - rng.choice([0.0, 0.5])
            acquisition, index = [
                (UpperConfidence(width), naive_policies.upper_confidence(mean, std, width)),
                (UpperConfidence(1.0, mean_weight=0.0), std),
                (ExpectedImprovement(best, 0.01), naive_policies.expected_improvement(mean, std, best, 0.01)),
                (ProbabilityOfImprovement(best, 0.01), naive_policies.improvement_probability(mean, std, best, 0.01)),
            ][rng.choice(4, p=[0.7, 0.1, 0.1, 0.1])]
            chosen, value = tested.argmax(acquisition, 7, allowed, reduction)
            index = index if allowed is None else np.where(allowed, index, -np.inf)
            assert index[chosen] >= index.max() - 1e-8 * max(1.0, abs(index.max()))
            if isinstance(acquisition, UpperConfidence):
                assert value == pytest.approx(index.max(), abs=1e-8)
            if isinstance(acquisition, ExpectedImprovement):
                assert value == pytest.approx(np.log(index.max()), abs=1e-6)
            played = chosen if rng.random() < 0.8 else int(rng.integers(400))
            y = truth[played] + 0.1 * rng.standard_normal() + (5.0 if t % 97 == 96 else 0.0)  # and outliers
            tested.observe(played, y, 0.01)
            gp.observe(played, y, 0.01)
        assert_posterior(tested, gp)

    def test_goes_on_from_its_state_to_the_last_bit(self, engine):
        points = np.random.default_rng(4).random((SIZE, 2))
        kernel, _ = fitting(engine, sb.Matern(0.3), None)
        straight, restored = (engine(kernel, points, np.ones(SIZE)) for _ in range(2))
        for t, (candidate, y, noise) in enumerate(Observations(SIZE, 90, seed=5)):
            if t == 50:
                restored.restore({name: np.array(held) for name, held in straight.state().items()})
            for each in (straight, restored) if t >= 50 else (straight,):
                each.observe(candidate, y, noise)
        np.testing.assert_array_equal(restored.mean(), straight.mean())
        np.testing.assert_array_equal(restored.variance(), straight.variance())
        np.testing.assert_array_equal(restored.columns(np.arange(3)), straight.columns(np.arange(3)))
        assert restored.information_gain == straight.information_gain

    @pytest.mark.sampled(2)
    def test_an_outlier_far_away(self, engine):
        """A mean that moves by more than ever before still moves everywhere."""
        points = np.linspace(0, 1, 640)[:, None]
        kernel, oracle = fitting(engine, sb.Matern(0.3, nu=1.5), naive.matern32(0.3))
        gp, tested = GP(oracle, points), engine(kernel, points, np.zeros(640))
        for _ in range(100):
            chosen, _ = tested.argmax(UpperConfidence(0.05), 0)
            y = float(np.sin(5 * points[chosen, 0]))
            tested.observe(chosen, y, 0.01)
            gp.observe(chosen, y, 0.01)
        for candidate, y in ((639, 60.0), (300, -200.0), (10, 500.0)):
            tested.observe(candidate, y, 0.01)
            gp.observe(candidate, y, 0.01)
            mean, variance = gp.mean_variance()
            index = mean + 0.05 * np.sqrt(variance)
            chosen, value = tested.argmax(UpperConfidence(0.05), 0)
            assert index[chosen] >= index.max() - 1e-8 * index.max()
            assert value == pytest.approx(index.max(), rel=1e-9)
        assert_posterior(tested, gp, atol=1e-6)

    @given(data=st.data())
    def test_any_kernel_any_points_any_observations(self, engine, data):
        case = KERNEL_CASES[data.draw(st.sampled_from(FEATURED if engine is WeightsEngine else list(KERNEL_CASES)))]
        size = data.draw(st.integers(1, 90))
        points = case.points(size, seed=data.draw(st.integers(0, 100)))
        prior = data.draw(st.sampled_from([0.0, -1.5]))
        few = data.draw(st.integers(1, size))
        observation = st.tuples(st.integers(0, few - 1), st.floats(-10, 10), st.sampled_from([0.05, 0.3, 4.0]))
        gp, tested = GP(case.oracle, points, prior), engine(case.kernel, points, np.full(size, prior))
        for candidate, y, noise in data.draw(st.lists(observation, max_size=60)):
            gp.observe(candidate, y, noise)
            tested.observe(candidate, y, noise)
        assert_posterior(tested, gp)
        mean, variance = gp.mean_variance()
        width = data.draw(st.floats(0, 5))
        chosen, value = tested.argmax(UpperConfidence(width), data.draw(st.integers(0, 2**63)))
        index = mean + width * np.sqrt(np.maximum(variance, 0))
        assert index[chosen] >= index.max() - 1e-7
        assert value == pytest.approx(index.max(), abs=1e-7)

    @pytest.mark.parametrize("arms", [60, 150])
    @pytest.mark.sampled(4)
    @pytest.mark.slow
    def test_thirty_thousand_rounds_leave_no_trace_of_rounding(self, engine, arms):
        """The collapsed refit (one averaged observation an arm) is as good as the list of all."""
        rng = np.random.default_rng(3)
        factor = rng.standard_normal((arms, arms))
        matrix = factor @ factor.T / arms
        kernel, points = sb.Covariance(matrix), np.arange(arms, dtype=float)[:, None]
        if engine is WeightsEngine:
            kernel, points = sb.Linear(np.sqrt(arms)), factor
        tested = engine(kernel, points, np.full(arms, 0.5))
        gp = GP(naive.covariance(matrix), np.arange(arms)[:, None], 0.5, gram=matrix)
        played = np.minimum(rng.geometric(3 / arms, 30_000) - 1, arms - 1)
        values = rng.standard_normal(arms)[played] + rng.standard_normal(30_000)
        for candidate, y in zip(played.tolist(), values.tolist(), strict=True):
            tested.observe(candidate, y, 1.0)
            gp.observe(candidate, y, 1.0)
        assert_posterior(tested, gp.collapsed())


# ---- engines together


POLICIES = {
    "gp-ucb": lambda space, engine: sb.GPUCB(space, sb.RBF(0.1), scale=60.0, regularization=0.01, engine=engine),
    "igp-ucb": lambda space, engine: sb.IGPUCB(
        space, sb.RBF(0.1), rkhs_norm=0.1, noise=0.1, regularization=0.01, engine=engine
    ),
    "igp-ucb-matern": lambda space, engine: sb.IGPUCB(
        space, sb.Matern(0.3, nu=1.5), rkhs_norm=0.3, noise=0.02, regularization=0.01, engine=engine
    ),
    "ei": lambda space, engine: sb.GPEI(space, sb.Matern(0.2, nu=2.5), regularization=0.01, engine=engine),
    "pi": lambda space, engine: sb.GPPI(space, sb.RBF(0.15), regularization=0.01, engine=engine),
    "mean": lambda space, engine: sb.MeanOnly(space, sb.RBF(0.1), regularization=0.01, prior_mean=0.5, engine=engine),
    "variance": lambda space, engine: sb.VarianceOnly(space, sb.RBF(0.1), regularization=0.01, engine=engine),
}


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.sampled(4)
def test_both_engines_make_the_same_choices(name):
    """On 33 x 33 candidates (18 tiles), 700 rounds, of which every third offers a tenth of the candidates."""
    space = sb.Grid([[0, 1], [0, 1]], 33)
    environment = sb.RKHSFunction.sparse(space, sb.RBF(0.1), sb.GaussianNoise(0.1), seed=5)
    table, dense, blocked = environment.table(), POLICIES[name](space, "dense"), POLICIES[name](space, "tiled")
    rng = np.random.default_rng(0)
    for t in range(1, 701):
        allowed = rng.random(space.size) < 0.1 if t % 3 == 0 else None
        candidate = dense.choose(allowed)
        assert blocked.choose(allowed) == candidate, f"round {t}"
        y = float(table[candidate]) + environment.noise_at(t)
        dense.observe(candidate, y)
        blocked.observe(candidate, y)
    held, reference = blocked.model.engine, dense.model.engine
    np.testing.assert_allclose(held.mean(), reference.mean(), rtol=0, atol=1e-8)
    np.testing.assert_allclose(held.variance(), reference.variance(), rtol=0, atol=1e-8)
    assert blocked.information_gain == pytest.approx(dense.information_gain, abs=1e-8)


def test_folds_and_rebuilds_happen_and_agree_with_the_dense_engine(rebuilds):
    """Few favourites, played again and again through many windows."""
    points = np.random.default_rng(1).random((1100, 2))
    kernel = sb.Matern(0.2, nu=2.5)
    blocked, dense = TiledEngine(kernel, points, np.zeros(1100)), DenseEngine(kernel, points, np.zeros(1100))
    rng = np.random.default_rng(6)
    favourites = rng.permutation(1100)[:40]
    for t in range(800):
        acquisition = UpperConfidence(0.1 if t % 50 else 2.0)
        chosen, value = blocked.argmax(acquisition, 11)
        assert (chosen, value) == (
            dense.argmax(acquisition, 11)[0],
            pytest.approx(dense.argmax(acquisition, 11)[1]),
        )
        played = chosen if t % 4 == 0 else int(rng.choice(favourites))
        y = float(np.sin(7 * points[played, 0]) + 0.1 * rng.standard_normal())
        for engine in (blocked, dense):
            engine.observe(played, y, 0.01)

    assert len(rebuilds) >= 3
    np.testing.assert_allclose(blocked.mean(), dense.mean(), atol=1e-8)
    np.testing.assert_allclose(blocked.columns(np.arange(5)), dense.columns(np.arange(5)), atol=1e-8)


def test_one_tile_or_many_is_all_the_same(tile_sizes):
    """The default tile, window and batch give the same posterior as the small ones."""
    points = np.random.default_rng(1).random((300, 3))
    engines = []
    for tile, window in ((64, 16), (1024, 64), (128, 5)):
        tile_sizes(TILE=tile, WINDOW=window)
        engine = TiledEngine(sb.RBF(0.4), points, np.zeros(300))
        for candidate, y, noise in Observations(300, 200, seed=8):
            engine.observe(candidate, y, noise)
        engines.append((engine.mean(), engine.variance(), engine.information_gain))
    for mean, variance, gain in engines[1:]:
        np.testing.assert_allclose(mean, engines[0][0], atol=1e-9)
        np.testing.assert_allclose(variance, engines[0][1], atol=1e-9)
        assert gain == pytest.approx(engines[0][2], abs=1e-9)


# ---- ties


def lowbias32(candidate, salt):
    """Wellons' 32-bit hash of the halves of candidate and salt, in Python's integers."""
    mask = 2**32 - 1
    h = candidate ^ salt
    h = (h ^ (h >> 32)) & mask
    h = (h ^ (h >> 16)) * 0x7FEB352D & mask
    h = (h ^ (h >> 15)) * 0x846CA68B & mask
    return h ^ (h >> 16)


TIED = {"rbf": (sb.RBF(0.3), naive.rbf(0.3)), "spherical": (SPHERICAL, NAIVE_SPHERICAL)}


@pytest.mark.parametrize("kernel", TIED)
@pytest.mark.parametrize("salt", [0, 1, 12345, 2**63 - 1, 2**64 - 1])
@pytest.mark.sampled(3)
def test_ties_fall_to_the_smallest_hash_in_every_engine(salt, kernel):
    """On a symmetric grid all candidates are tied at first, then mirror images are."""
    grid = sb.Grid([[-1, 1], [-1, 1]], 15)
    points = grid.points()
    kinds = ENGINES.values() if kernel == "spherical" else (DenseEngine, TiledEngine)
    engines = [kind(TIED[kernel][0], points, np.zeros(225)) for kind in kinds]
    gp = GP(TIED[kernel][1], points)
    allowed = np.arange(225) % 5 != 0
    for t in range(40):
        mean, variance = gp.mean_variance()
        index = mean + 0.7 * np.sqrt(variance)
        for mask in (None, allowed):
            held = index if mask is None else np.where(mask, index, -np.inf)
            tied = np.flatnonzero(held >= held.max() - 3e-11 * abs(held.max()))
            expected = min(tied.tolist(), key=lambda c: lowbias32(c, salt))
            assert {engine.argmax(UpperConfidence(0.7), salt, mask)[0] for engine in engines} == {expected}
        assert t > 0 or len(tied) == allowed.sum()
        for corner in ((0.4, 0.4), (-0.4, 0.4), (0.4, -0.4), (-0.4, -0.4)) if t % 2 else ((0.0, 0.0),):
            candidate = int(grid.index(np.rint(np.array(corner) * 7) / 7)[0])
            for learner in (*engines, gp):
                learner.observe(candidate, -0.5, 0.1)


def test_seeds_spread_their_choice_over_tied_candidates():
    """Of 10 tied arms, 1,000 seeds choose each 100 times, give or take five standard deviations."""
    counts = np.zeros(10)
    for seed in range(1000):
        counts[sb.MeanOnly(sb.Arms(10), sb.Covariance(np.eye(10)), seed=seed).ask()] += 1
    assert np.abs(counts - 100).max() < 5 * np.sqrt(100 * 0.9)


# ---- draws


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        *(("dense", name) for name in ("rbf", "matern-1.5", "linear", "covariance", "product")),
        *(("weights", name) for name in FEATURED),
    ],
)
def test_draws_are_the_linear_map_of_normals_with_the_posterior_covariance(engine, name, grams):
    """Exactly: the responses a_j to a one among zeros give sum over j of a_j a_j' = covariance, of full rank or not."""
    case = KERNEL_CASES[name]
    points = case.points(SIZE)
    gp, engine = GP(case.oracle, points, gram=grams(name)), ENGINES[engine](case.kernel, points, np.zeros(SIZE))
    for t, (candidate, y, noise) in enumerate(Observations(SIZE, 150, seed=12)):
        if t in (0, 1, 20, 30, 149):
            A = impulse_responses(engine.draw)
            np.testing.assert_allclose(A.T @ A, gp.mean_covariance()[1], rtol=0, atol=1e-10 * len(A))
        gp.observe(candidate, y, noise)
        engine.observe(candidate, y, noise)


def test_a_draw_leaves_the_posterior_alone():
    points = np.random.default_rng(0).random((40, 2))
    engine = DenseEngine(sb.RBF(0.3), points, np.zeros(40))
    for candidate, y, noise in Observations(40, 50, seed=1):
        engine.observe(candidate, y, noise)
    before = engine.mean().copy(), engine.variance().copy(), engine.columns(np.arange(3))
    engine.draw(np.random.default_rng(0))
    for was, now in zip(before, (engine.mean(), engine.variance(), engine.columns(np.arange(3))), strict=True):
        np.testing.assert_array_equal(now, was)


# ---- choosing an engine


def test_engines_by_name_and_kernel():
    points = np.zeros((5, 1))
    assert isinstance(make_engine("auto", sb.RBF(), points, np.zeros(5)), DenseEngine)
    assert isinstance(make_engine("tiled", sb.RBF(), points, np.zeros(5)), TiledEngine)
    assert isinstance(make_engine("auto", sb.Linear(), points, np.zeros(5)), WeightsEngine)
    assert isinstance(make_engine("auto", sb.Linear(bias=1.0), points, np.zeros(5)), DenseEngine)  # 2 features of 5
    with pytest.raises(ValueError, match=r"kernel: got RBF.*features.*, for the engine 'weights'"):
        sb.IGPUCB(sb.Grid([[0, 1]], 5), sb.RBF(), engine="weights")
    with pytest.raises(ValueError, match="20,001 candidates"):
        sb.IGPUCB(sb.Grid([[0, 1]], 20_001), sb.RBF(), engine="dense")
    with pytest.raises(ValueError, match="at most 2,000,000"):
        sb.IGPUCB(sb.Grid([[0, 1]], 2_000_001), sb.RBF(), enumerated=3_000_000)
