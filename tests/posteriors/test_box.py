"""The maximiser of a box, and policies on a whole box, against the oracle and against denser searches."""

import numpy as np
import pytest
from cases.policies import BELIEVING, CASES, EVERY_POLICY, NOISE, PROBLEMS, REGULARIZATION, SHARED
from cases.surfaces import gradients
from naive import policies as naive
from naive.believer import with_draws
from naive.gp import GP
from naive.normals import impulse_responses
from scipy.optimize import minimize

import scalable_bandits as sb
from scalable_bandits.formulas.acquisition import ExpectedImprovement, ProbabilityOfImprovement, UpperConfidence
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.maximization import maximize_over_box
from scalable_bandits.posteriors.box.surface import constant_mean
from scalable_bandits.posteriors.models.model import Query
from scalable_bandits.posteriors.models.search import surface_of
from scalable_bandits.posteriors.weights.box import WeightsBoxEngine, top_of_weights

WHOLE = {
    name: CASES[name]
    for name in ("gpucb-2", "gpucb-2-scaled", "gpucb-3-scaled", "igpucb", "ei", "ei-xi", "ei-observation", "pi-xi")
}
WHOLE.update({name: CASES[name] for name in ("mean", "variance")})
DRAWN = {name: BELIEVING[name] for name in ("igpucb-sample", "ei-sample", "ei-observation-sample")}
PROBLEM, FEATURES = PROBLEMS["whole box"], PROBLEMS["whole box, features"]
both_problems = pytest.mark.parametrize("problem", [PROBLEM, FEATURES], ids=["factor", "weights"])
BOUNDS = np.array(PROBLEM.space.bounds)


def posterior(dimension, seed):
    """Of a random function observed with noise, by a kernel that goes with the seed."""
    rng = np.random.default_rng([dimension, seed])
    kernel = [
        sb.Matern(rng.uniform(0.2, 0.5, dimension) * np.sqrt(dimension / 2), nu=2.5),
        sb.RBF(0.25 * np.sqrt(dimension / 2)),
        sb.Matern(0.3 * np.sqrt(dimension / 2), nu=1.5),
        2.0 * sb.RationalQuadratic(0.4),
    ][seed % 4]
    count = int(rng.integers(5, 20 * dimension))
    engine = BoxEngine(kernel, dimension, constant_mean(0.0))
    engine.points = rng.random((count, dimension))
    y = np.linalg.cholesky(kernel.block(engine.points) + 1e-8 * np.eye(count)) @ rng.standard_normal(count)
    for i in range(count):
        engine.observe(i, y[i] + 0.1 * rng.standard_normal(), 0.01)
    mean = float(engine.mean().max())
    indices = [UpperConfidence(2.0), UpperConfidence(5.0), ExpectedImprovement(mean), UpperConfidence(0.0)]
    return engine, [*indices, ProbabilityOfImprovement(mean, 0.05)][seed % 5]


def searched(surface, index, bounds, count=2**14, refined=8):
    """Largest index of many uniform points, the best of them refined one by one."""
    low, high = bounds.T
    points = low + (high - low) * np.random.default_rng(9).random((count, len(low)))
    values = index(*surface.predict(points))

    def descent(x):
        value, slope = surface.index(index, x[None])
        return -value[0], -slope[0]

    starts = points[np.argsort(-values)[:refined]]
    found = [minimize(descent, x, jac=True, method="L-BFGS-B", bounds=bounds).fun for x in starts]
    return max(values.max(), -min(found))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dimension", [2, 3, 6])
@pytest.mark.sampled(3)
def test_no_denser_search_finds_more(dimension, seed):
    """Over the box, and over a part of it."""
    engine, index = posterior(dimension, seed)
    surface, whole = engine.surface(), np.array([[0.0, 1.0]] * dimension)
    for bounds in (whole, np.array([[0.25, 0.5]] * dimension)):
        top = maximize_over_box(surface, index, bounds, seed, near=engine.points[:5])
        assert top.value >= searched(surface, index, bounds) - 1e-6
        assert (top.x >= bounds[:, 0]).all()
        assert (top.x <= bounds[:, 1]).all()
        assert top.value == pytest.approx(index(*surface.predict(top.x[None]))[0], abs=1e-10)
        assert 1024 < top.evaluations < 4000


def test_it_is_a_function_of_its_seed():
    engine, index = posterior(3, 1)
    surface, bounds = engine.surface(), np.array([[0.0, 1.0]] * 3)
    one, same, other = (maximize_over_box(surface, index, bounds, seed) for seed in (1, 1, 2))
    assert one.x.tobytes() == same.x.tobytes()
    assert one[1:] == same[1:]
    assert other.value == pytest.approx(one.value, abs=1e-8)


def test_of_equals_the_first_likely_point_wins():
    """Nothing is known: the index is the same everywhere."""
    surface = BoxEngine(sb.RBF(), 2, constant_mean(0.3)).surface()
    bounds, likely = np.array([[0.0, 2.0]] * 2), np.array([[3.0, 0.0], [0.5, 0.7], [1.0, 1.0]])
    assert maximize_over_box(surface, UpperConfidence(1.0), bounds, 0, likely).x.tolist() == [0.5, 0.7]
    alone = [maximize_over_box(surface, UpperConfidence(1.0), bounds, seed).x.tolist() for seed in range(3)]
    assert len({tuple(x) for x in alone}) == 3


class Known:
    """The oracle on a box: its posterior on the points that came up, extended by those it is asked about."""

    def __init__(self, case, problem):
        self.case, self.problem, self.pending = case, problem, []
        self.gp = GP(problem.oracle, np.empty((0, 2)), gram=np.empty((0, 0)))
        self.drawn = case.arguments.get("pending") == "sample"

    def number(self, x):
        """Of a point, a new one if need be."""
        found = np.flatnonzero((self.gp.points.reshape(-1, 2) == x).all(axis=1))
        return int(found[0]) if len(found) else self.gp.add_point(x, 0.0)

    def index_at(self, points):
        """Index of some points, from scratch."""
        held = len(self.gp.points)
        gp = GP(self.problem.oracle, np.vstack([self.gp.points.reshape(-1, 2), points]))
        gp.observations = self.gp.observations
        key = (SHARED["seed"], len(gp.observations) + len(self.pending) + 1) if self.drawn else None
        known = naive.Bandit(gp, self.pending, REGULARIZATION, range(held, len(gp.points)), key)
        return self.case.indices(known, self.problem)[held:]


@both_problems
@pytest.mark.parametrize("name", [*WHOLE, *DRAWN])
@pytest.mark.sampled(7)
def test_the_point_chosen_has_the_largest_index_of_the_box(name, problem):
    """In every round, with points pending, points told twice and points nobody asked for."""
    case, rng = {**WHOLE, **DRAWN}[name], np.random.default_rng(3)
    policy, known = case.make(problem), Known(case, problem)
    others = BOUNDS[:, 0] + (BOUNDS[:, 1] - BOUNDS[:, 0]) * rng.random((60, 2))

    def tell(x, noise=None):
        y = PROBLEM.truth(x) + NOISE * rng.standard_normal()
        policy.tell(x, y, noise=noise)
        known.gp.observe(known.number(x), y, REGULARIZATION * (1.0 if noise is None else noise / NOISE) ** 2)

    for t in range(9):
        asked = policy.ask(6 if known.drawn and t % 4 == 2 else 2 if t % 3 == 1 else 1)
        for x in asked:
            near = np.clip(x + 0.02 * rng.standard_normal((20, 2)), *BOUNDS.T)
            indices = known.index_at(np.vstack([x, near, others]))
            assert indices[0] >= indices.max() - 1e-8 * max(1.0, abs(indices[0])), t
            known.pending.append(known.number(x))
        for x in asked[::-1] if t % 2 else asked[:1]:
            tell(x)
            known.pending.remove(known.number(x))
        if t % 4 == 3:
            tell(others[t], noise=0.1)
            tell(others[t])
    mean, std = policy.posterior(others[:10])
    expected = known.gp.predict(others[:10])
    np.testing.assert_allclose(mean, expected[0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(std, expected[1], rtol=0, atol=1e-7)
    engine_mean, engine_variance = policy.model.engine.surface().predict(others[:10])
    np.testing.assert_allclose(engine_mean, expected[0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(np.sqrt(engine_variance), expected[1], rtol=0, atol=1e-8)
    assert policy.best().mean == pytest.approx(policy.posterior(policy.best().x)[0], abs=1e-9)
    if case.width is not None:
        assert policy.information_gain == pytest.approx(known.gp.information_gain(), abs=1e-8)


@both_problems
@pytest.mark.parametrize("name", DRAWN)
def test_a_surface_with_drawn_values_is_that_of_these_observations(name, problem):
    """Mean, variance and slopes; a point is pending twice, and one has failed, which keeps its posterior mean."""
    policy = DRAWN[name].make(problem)
    points = BOUNDS[:, 0] + (BOUNDS[:, 1] - BOUNDS[:, 0]) * np.random.default_rng(1).random((9, 2))
    policy.tell(points[:5], [PROBLEM.truth(x) for x in points[:5]])
    policy.tell_failure(points[5])
    gp, (failed,) = GP(problem.oracle, points), policy.pending_points.excluded
    for i in range(5):
        gp.observe(i, PROBLEM.truth(points[i]), REGULARIZATION)
    policy.ask(2)
    policy._restore_pending([*policy.pending_points.numbers, policy.pending_points.numbers[0]], reissue=False)
    x, numbers = policy.domain.points(), policy.pending_points.numbers
    held = GP(problem.oracle, np.vstack([x, points]))
    held.observations = [(int(np.flatnonzero((x == points[i]).all(axis=1))[0]), y, v) for i, y, v in gp.observations]
    oracle, values = with_draws(held, numbers, REGULARIZATION, SHARED["seed"], policy.round)
    draws = policy.model.draw(numbers, (SHARED["seed"], policy.round))
    np.testing.assert_allclose(draws.values, values, rtol=0, atol=1e-9)
    assert draws.counts.tolist() == [2, 1]
    oracle = oracle.with_fantasies([failed], REGULARIZATION)
    surface = surface_of(policy.model, Query(pending=[*numbers, failed], draws=draws))
    mean, variance = surface.predict(points)
    expected, squared = oracle.mean_variance()
    np.testing.assert_allclose(mean, expected[len(x) :], rtol=0, atol=1e-9)
    np.testing.assert_allclose(variance, squared[len(x) :], rtol=0, atol=1e-9)
    np.testing.assert_allclose(policy.model.engine.mean() + draws.shift, expected[: len(x)], rtol=0, atol=1e-9)
    by_mean, by_variance = gradients(surface, points[5:6])
    for k in range(2):
        step = np.zeros((1, 2))
        step[0, k] = 1e-6
        ahead, behind = surface.predict(points[5:6] + step), surface.predict(points[5:6] - step)
        assert by_mean[0, k] == pytest.approx((ahead[0] - behind[0])[0] / 2e-6, abs=1e-5)
        assert by_variance[0, k] == pytest.approx((ahead[1] - behind[1])[0] / 2e-6, abs=1e-5)


@both_problems
@pytest.mark.parametrize("name", ["igpucb", "ei", "mean", "variance", "ts"])
@pytest.mark.sampled(2)
def test_it_goes_on_to_the_last_bit(name, problem):
    """From a state."""
    case = EVERY_POLICY[name]
    environment = sb.FunctionEnvironment(PROBLEM.space, PROBLEM.truth, sb.GaussianNoise(NOISE), seed=5, optimum=2.0)
    whole = case.make(problem)
    run = sb.simulate(whole, environment, 24)
    half, rest = case.make(problem), case.make(problem)
    sb.simulate(half, environment, 11)
    rest.restore({key: value.copy() for key, value in half.state().items()})
    again = sb.simulate(rest, environment, 13)
    for field in ("candidate", "y", "value", "width", "information_gain"):
        np.testing.assert_array_equal(getattr(again, field), getattr(run, field)[11:])
    assert rest.best().x.tolist() == whole.best().x.tolist()


def test_fixed_candidates_are_there_for_the_asking():
    assert sb.IGPUCB(PROBLEM.space, PROBLEM.kernel, candidates=64).domain.size == 64
    assert sb.BBKB(PROBLEM.space, PROBLEM.kernel).domain.size == 1024
    assert sb.IGPUCB(PROBLEM.space, PROBLEM.kernel).domain.size == 0


def test_theorem_1_needs_a_finite_space():
    with pytest.raises(ValueError, match="theorem: got 1; allowed: 2 or 3 on a whole box"):
        sb.GPUCB(PROBLEM.space, PROBLEM.kernel, theorem=1)
    assert sb.GPUCB(PROBLEM.space, PROBLEM.kernel).theorem == 2
    assert sb.GPUCB(PROBLEM.space, PROBLEM.kernel, candidates=9).theorem == 1


def test_before_the_first_tell_the_recommendation_is_the_largest_prior_mean():
    policy = sb.GPEI(PROBLEM.space, PROBLEM.kernel, prior_mean=lambda x: -((x[:, 0] - 0.3) ** 2) - (x[:, 1] + 0.4) ** 2)
    np.testing.assert_allclose(policy.best().x, [0.3, -0.4], atol=1e-6)
    assert policy.best().mean == pytest.approx(0.0, abs=1e-10)
    assert policy.domain.size == 0


@pytest.mark.parametrize(
    "mean", [lambda x: 0.5, lambda x: [0.5] * len(x), lambda x: np.full(len(x), 0.5)], ids=range(3)
)
def test_a_function_of_the_prior_mean_may_give_one_number_or_a_list(mean):
    """As on finite spaces."""
    box, shared = sb.Box([[0, 1]]), {"noise": 0.1, "regularization": 0.01}
    policies = [sb.MeanOnly(box, sb.Matern(0.2), prior_mean=given, **shared) for given in (mean, 0.5)]
    asked = []
    for policy in policies:
        for _ in range(4):
            x = policy.ask()
            policy.tell(x, 1.0 - x[0])
        asked.append(policy.ask())
    np.testing.assert_allclose(*asked, atol=1e-6)


def test_what_a_recorder_refuses_was_not_asked():
    """A disk that is full: the point is neither pending nor visited, and is chosen again."""

    class Full:
        def asked(self, pending):
            raise OSError("full")

    policy = sb.GPEI(PROBLEM.space, PROBLEM.kernel)
    policy.tell([0.3, 0.2], 1.0)
    policy._record_to(Full())
    with pytest.raises(OSError, match="full"):
        policy.ask(3)
    assert (policy.pending, policy.domain.size) == ([], 1)
    policy._record_to(None)
    twin = sb.GPEI(PROBLEM.space, PROBLEM.kernel)
    twin.tell([0.3, 0.2], 1.0)
    np.testing.assert_array_equal(policy.ask(3), twin.ask(3))
    np.testing.assert_array_equal(policy.pending, twin.pending)
    np.testing.assert_array_equal(policy.pending, policy.domain.points([1, 2, 3]))


def test_rows_that_rounding_makes_dependent():
    """Hundreds of nearly equal points with next to no noise: finite, and as good as the noise allows."""
    engine = BoxEngine(sb.RBF(0.5), 1, constant_mean(0.0))
    engine.points = np.linspace(0.0, 1.0, 120)[:, None]
    for i in [*range(120), 5, 77]:
        engine.observe(i, float(np.sin(6 * engine.points[i, 0])), 1e-13)
    mean, variance = engine.surface().predict(np.linspace(0.0, 1.0, 31)[:, None])
    np.testing.assert_allclose(mean, np.sin(6 * np.linspace(0.0, 1.0, 31)), atol=1e-4)
    assert (variance < 1e-6).all()


# ---- kernels of few features


def of_features(dimension, seed, kernel):
    """Surface of weights after observations of a random function."""
    rng = np.random.default_rng(seed)
    engine = WeightsBoxEngine(kernel, dimension, constant_mean(0.4))
    engine.points = rng.uniform(-1.0, 1.0, (4 * dimension, dimension))
    weights = rng.standard_normal(kernel.feature_count(dimension))
    for i, y in enumerate(kernel.features(engine.points) @ weights):
        engine.observe(i, float(y + 0.1 * rng.standard_normal()), 0.01)
    return engine.surface()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dimension", [2, 10])
@pytest.mark.parametrize("kind", ["linear", "spherical"])
@pytest.mark.sampled(2)
def test_no_denser_search_finds_more_with_features(dimension, seed, kind):
    """Of a linear kernel the largest is at a corner."""
    bounds = np.array([[-1.0, 1.0]] * dimension)
    kernel = {"linear": sb.Linear(0.9, bias=0.5), "spherical": sb.SphericalLinear(bounds, radius=2.0)}[kind]
    surface = of_features(dimension, seed, kernel)
    for index in (UpperConfidence(2.0), UpperConfidence(8.0), UpperConfidence(0.0), ExpectedImprovement(1.0)):
        top = top_of_weights(surface, index, bounds, seed)
        corners = sb.Grid(bounds, 2).points()
        assert top.value >= index(*surface.predict(corners)).max() - 1e-6
        assert top.value >= searched(surface, index, bounds, 2**11) - 1e-6
        assert top.value == pytest.approx(index(*surface.predict(top.x[None]))[0], abs=1e-10)
        assert ((bounds[:, 0] <= top.x) & (top.x <= bounds[:, 1])).all()


def test_products_of_features_and_other_prior_means_are_searched_as_other_kernels_are():
    kernel, index = sb.Linear(0.9, bias=0.5), UpperConfidence(2.0)
    assert top_of_weights(of_features(2, 1, kernel * kernel), index, BOUNDS, 0) is None
    policy = sb.IGPUCB(PROBLEM.space, kernel * kernel, prior_mean=lambda x: np.sin(3 * x[:, 0]), regularization=0.1)
    for _ in range(5):
        x = policy.ask()
        policy.tell(x, PROBLEM.truth(x))
    surface, upper = surface_of(policy.model, Query()), policy.acquisition(None)
    assert top_of_weights(surface, upper, BOUNDS, 0) is None
    x = policy.ask()
    assert upper(*surface.predict(x[None]))[0] >= searched(surface, upper, BOUNDS) - 1e-6


@pytest.mark.parametrize("pending", [0, 2])
def test_paths_of_features_have_the_posterior_mean_and_covariance(pending):
    """At any points: the responses to a one among zeros, as of draws of candidates."""
    case = PROBLEMS["whole box, features"]
    points = BOUNDS[:, 0] + (BOUNDS[:, 1] - BOUNDS[:, 0]) * np.random.default_rng(1).random((9, 2))
    engine, gp = WeightsBoxEngine(case.kernel, 2, constant_mean(0.0)), GP(case.oracle, points)
    engine.points = points
    for i in range(5):
        engine.observe(i, case.truth(points[i]), 0.05)
        gp.observe(i, case.truth(points[i]), 0.05)
    waiting = points[5 : 5 + pending]
    gp = gp.with_fantasies(range(5, 5 + pending), 0.3)
    mean, covariance = gp.mean_covariance()

    def deviation(rng):
        return engine.path(rng, 2.0, waiting, 0.3).predict(points)[0] - mean

    A = impulse_responses(deviation)
    np.testing.assert_allclose(A.T @ A, 4.0 * covariance, rtol=0, atol=1e-9)
    path = engine.path(np.random.default_rng(3), 2.0, waiting, 0.3)
    top = top_of_weights(path, UpperConfidence(0.0), BOUNDS, 0)
    assert top.value >= path.predict(sb.Grid(BOUNDS, 101).points())[0].max()


@pytest.mark.filterwarnings("ignore:GPTS. its guarantees")
def test_thompson_sampling_takes_the_whole_box_with_features():
    """Where it took 1,024 candidates; of a learned kernel, too."""
    for refit in (None, 5):
        policy = sb.GPTS(FEATURES.space, FEATURES.kernel, noise=0.1, regularization=0.01, refit=refit)
        for x in policy.ask(12):
            policy.tell(x, FEATURES.truth(x))
        assert policy.domain.size == 12
