"""Features of stationary kernels, and sample paths: against kernels, posteriors and maxima computed from scratch."""

import attrs
import numpy as np
import pytest
from naive import kernels as naive
from naive import policies as naive_policies
from naive.gp import GP
from naive.normals import impulse_responses

import scalable_bandits as sb
from scalable_bandits.posteriors import PathwiseEngine, quadrature_features, random_features
from scalable_bandits.posteriors.sampling import pathwise
from scalable_bandits.randomness import generator

KERNELS = {
    "rbf": (sb.RBF([0.2, 0.5]), naive.rbf((0.2, 0.5))),
    "matern 1/2": (sb.Matern(0.3, nu=0.5), naive.matern(0.3, 0.5)),
    "matern 5/2": (sb.Matern([0.3, 0.1], nu=2.5), naive.matern((0.3, 0.1), 2.5)),
    "matern, infinite order": (sb.Matern(0.3, nu=np.inf), naive.rbf(0.3)),
    "rational quadratic": (sb.RationalQuadratic(0.4, alpha=0.7), naive.rational_quadratic(0.4, 0.7)),
    "periodic": (sb.Periodic(0.6, period=0.5), naive.periodic(0.6, 0.5)),
    "multiple": (3.0 * sb.RBF(0.4), naive.scaled(3.0, naive.rbf(0.4))),
    "sum": (
        2.0 * sb.RBF(0.4) + sb.Matern(0.1, nu=1.5),
        lambda x, z: 2 * naive.rbf(0.4)(x, z) + naive.matern(0.1)(x, z),
    ),
    "some dimensions": (
        sb.OnDimensions(2.0 * sb.RBF(0.4), [1]) * sb.OnDimensions(sb.Periodic(1.0), [0]) + 0.5 * sb.Constant(),
        lambda x, z: 2 * naive.rbf(0.4)(x[1:], z[1:]) * naive.periodic(1.0, 1.0)(x[:1], z[:1]) + 0.5,
    ),
    "product": (sb.RBF(0.4) * sb.Periodic(1.0), lambda x, z: naive.rbf(0.4)(x, z) * naive.periodic(1.0, 1.0)(x, z)),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.sampled(3)
@pytest.mark.slow
def test_random_features_are_the_kernel(name):
    """Within five standard errors; a product of two features has variance at most k(x, x)^2 / 2 + 1/2."""
    kernel, oracle = KERNELS[name]
    x = np.random.default_rng(0).random((30, 2))
    phi = random_features(kernel, 2, 40_000, generator(1, name))(x)
    exact = naive.matrix(oracle, x)
    np.testing.assert_allclose(phi @ phi.T, exact, rtol=0, atol=5 * exact[0, 0] / 200)
    np.testing.assert_allclose((phi**2).sum(axis=1), exact.diagonal(), rtol=1e-12)


@pytest.mark.parametrize(("dimension", "nodes"), [(1, 40), (2, 31)])
def test_quadrature_features_are_the_kernel_to_rounding(dimension, nodes):
    kernel = 2.5 * sb.RBF(0.4)
    x = np.random.default_rng(0).random((20, dimension))
    features = quadrature_features(kernel, dimension, nodes)
    assert len(features.amplitudes) == (nodes**dimension + 1) // 2
    np.testing.assert_allclose(features(x) @ features(x).T, 2.5 * naive.matrix(naive.rbf(0.4), x), rtol=0, atol=1e-9)


def test_waves_are_the_features():
    features = random_features(sb.Matern(0.05, nu=1.5), 3, 100, generator(0, "test"))
    x, weights = generator(1, "x").random((50, 3)) * 20 - 10, generator(2, "w").standard_normal(200)
    np.testing.assert_allclose(features.combined(x, weights), features(x) @ weights, rtol=0, atol=1e-10)


# ---- sample paths

SPACE = sb.Grid([[0, 1], [0, 1]], 9)
OPTIONS = {"noise": 0.3, "regularization": 0.2, "rkhs_norm": 1.2, "samples": "pathwise"}


def told(space=SPACE, prior_mean=0.0, **options):
    """A policy, and the oracle that knows the same."""
    policy = sb.GPTS(space, sb.RBF(0.4), prior_mean=prior_mean, **{**OPTIONS, **options})
    gp = GP(naive.rbf(0.4), space.points(), prior_mean)
    for t in range(60):
        candidate, own = (t * t + 7) % 31, [0.3, 0.15][t % 2]
        policy.tell(space.points([candidate])[0], np.sin(t), noise=own)
        gp.observe(candidate, np.sin(t), 0.2 * (own / 0.3) ** 2)
    return policy, gp


def test_engine_knows_the_exact_posterior():
    policy, gp = told(prior_mean=1.5)
    engine = policy.model.engine
    assert isinstance(engine, PathwiseEngine)
    mean, covariance = gp.mean_covariance()
    np.testing.assert_allclose(engine.mean(), mean, atol=1e-9)
    np.testing.assert_allclose(engine.variance(), covariance.diagonal(), atol=1e-9)
    np.testing.assert_allclose(engine.columns(np.array([3, 40])), covariance[[3, 40]], atol=1e-9)
    assert policy.information_gain == pytest.approx(gp.information_gain(), abs=1e-9)
    queried = {number for number, _, _ in gp.observations}
    assert policy.best().mean == pytest.approx(max(mean[i] for i in queried), abs=1e-9)


@pytest.mark.parametrize("pending", [[], [7], [3, 3, 70], [1, 70, 1, 20, 70, 1]])
@pytest.mark.sampled(4)
def test_paths_have_the_posterior_covariance(pending):
    """v_t^2 times it, each pending point observed as often as it is pending."""
    policy, gp = told(basis="quadrature", features=480)
    engine = policy.model.engine
    mean, covariance = gp.with_fantasies(pending, 0.2).mean_covariance()
    v = naive_policies.gpts_width(gp.information_gain(), 1.2, 0.3, 0.1)
    assert policy.width == pytest.approx(v)

    def draw(normals):
        path = engine.path(normals, policy.width, np.array(pending, dtype=np.int64), 0.2)
        return (engine.values(path, np.arange(SPACE.size)) - mean) / v

    responses = impulse_responses(draw)
    np.testing.assert_allclose(responses.T @ responses, covariance, rtol=0, atol=1e-7)


def test_of_few_candidates_the_highest_is_played():
    policy, _ = told()
    engine = policy.model.engine
    for t in range(20):
        path = engine.path(generator(t, "test"), 1.0, np.empty(0, dtype=np.int64), 0.2)
        values = engine.values(path, np.arange(SPACE.size))
        assert engine.highest(path, 0) == np.argmax(values)
        allowed = generator(t, "allowed").random(SPACE.size) < 0.2
        assert engine.highest(path, 0, allowed) == np.argmax(np.where(allowed, values, -np.inf))


@pytest.mark.slow
def test_of_many_candidates_the_highest_of_the_promising_blocks_is_found(monkeypatch):
    """By blocks coarser than a million's the maximum four times in five, and nearly the maximum otherwise."""
    monkeypatch.setattr(pathwise, "ANCHORS", 512)
    space = sb.Grid([[0, 1]] * 3, 30)
    policy = sb.GPTS(space, sb.RBF(0.4), **OPTIONS)
    for t in range(60):
        policy.observe((t * t * 131) % space.size, np.sin(t))
    engine, gaps = policy.model.engine, []
    for t in range(40):
        path = engine.path(generator(t, "test"), 1.0, np.empty(0, dtype=np.int64), 0.2)
        values = engine.values(path, np.arange(space.size))
        allowed = np.arange(space.size) % 3 > 0 if t % 2 else None
        open_ = np.where(True if allowed is None else allowed, values, -np.inf)
        gaps.append(open_.max() - open_[engine.highest(path, 0, allowed)])
    assert (np.array(gaps) == 0.0).sum() >= 32
    assert np.max(gaps) < 0.06


def test_goes_on_to_the_last_bit():
    space = sb.Grid([[0, 1]] * 3, 30)
    function = sb.RKHSFunction.sparse(space, sb.Matern(0.3, nu=2.5), sb.GaussianNoise(0.3), seed=0)
    make = lambda: sb.GPTS(space, sb.Matern(0.3, nu=2.5), **{**OPTIONS, "samples": "auto"})  # noqa: E731
    policy = make()
    assert policy.engine == "pathwise"  # 27,000 candidates
    sb.simulate(policy, function, 40)
    again = make()
    again.restore({key: value.copy() for key, value in policy.state().items()})
    np.testing.assert_array_equal(
        sb.simulate(again, function, 20).candidate, sb.simulate(policy, function, 20).candidate
    )
    assert sb.GPTS.from_dict(policy.to_dict()).to_dict() == policy.to_dict()


def test_on_a_box():
    box = sb.Box([[0, 2], [-1, 0]])
    policy = sb.GPTS(box, sb.Matern(0.4, nu=2.5), noise=0.05, rkhs_norm=1.0, regularization=0.0025, candidates=30_000)
    truth = lambda x: -((x[0] - 1.5) ** 2) - (x[1] + 0.3) ** 2  # noqa: E731
    policy.tell([1.2345, -0.5], truth([1.2345, -0.5]))  # no candidate
    for _ in range(40):
        x = policy.ask()
        policy.tell(x, truth(x))
    assert np.abs(policy.best().x - [1.5, -0.3]).max() < 0.15


@attrs.frozen
class Own(sb.kernels.Kernel):
    """A stationary kernel without frequencies."""

    stationary = True

    def fill(self, X, Z, out):
        out[...] = np.exp(-((X[:, None] - Z) ** 2).sum(axis=2))

    def diagonal(self, X):
        return np.ones(len(X))

    def slope(self, X, Z, weights, out):
        difference = X[:, None] - Z
        out += 2.0 * ((weights * self.block(X, Z))[..., None] * difference).sum(axis=0)


def test_refusals():
    with pytest.raises(ValueError, match=r"kernel: got Linear.*; allowed: a stationary kernel"):
        sb.GPTS(SPACE, sb.Linear(), samples="pathwise")
    with pytest.raises(ValueError, match=r"kernel: got Matern.*; allowed: RBF"):
        sb.GPTS(SPACE, sb.Matern(), samples="pathwise", basis="quadrature")
    with pytest.raises(ValueError, match=r"kernel: got Own.*; others with samples='exact', .*register_freq"):
        sb.GPTS(sb.Box([[0, 1]]), Own() * sb.RBF(), samples="pathwise")
    with pytest.raises(ValueError, match=r"space: got '20,001 candidates'"):
        sb.GPTS(sb.Grid([[0, 1]], 20_001), sb.RBF(), samples="exact")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"samples": "pathwise", "engine": "dense"}, "samples: got 'pathwise'; allowed: 'auto' or 'exact' with"),
        ({"samples": "exact", "engine": "pathwise"}, "samples: got 'exact'; allowed: 'auto' or 'pathwise' with"),
        (
            {"engine": "autoregressive"},
            "engine: got 'autoregressive'; allowed: 'auto', 'dense', 'weights' or 'pathwise'",
        ),
    ],
)
def test_choices_that_contradict(given, message):
    with pytest.raises(ValueError, match=message):
        sb.GPTS(sb.Grid([[0, 1]], 9), sb.RBF(0.2), **given)


def test_draws_of_a_function_that_changes():
    """Exact ones: a path of features does not fade."""
    space, kernel = sb.Grid([[0, 1]], 9), sb.RBF(0.2) * sb.TemporalDecay(0.1)
    assert sb.GPTS(space, kernel, samples="exact").engine == sb.GPTS(space, kernel).engine == "autoregressive"
    for given in ({"samples": "pathwise"}, {"engine": "pathwise"}):
        with pytest.raises(ValueError, match=r"got 'pathwise'; allowed: 'auto'"):
            sb.GPTS(space, kernel, **given)
