"""Thompson sampling on a whole box: its sample paths, their gradients and maxima, and what is played of them."""

import numpy as np
import pytest
from kernels.test_gradients import assert_close, difference
from naive import kernels as naive
from naive import policies as naive_policies
from naive.gp import GP
from naive.normals import impulse_responses

import scalable_bandits as sb
from posteriors.test_box import BOUNDS, PROBLEM, posterior, searched
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.posteriors import quadrature_features, random_features
from scalable_bandits.posteriors.box.maximization import PATH_SIZES, maximize_over_box, promising
from scalable_bandits.posteriors.sampling.pathwise import draw_path
from scalable_bandits.randomness import generator

VALUE = UpperConfidence(0.0)
OPTIONS = {"noise": 0.1, "regularization": 0.01, "rkhs_norm": 1.0, "seed": 4}


def path_of(dimension, seed):
    """A path given observations and a pending point, and the engine that knows them."""
    engine, _ = posterior(dimension, seed)
    features = random_features(engine.kernel, dimension, 512, generator(seed, "features"))
    pending = np.full((1, dimension), 0.4)
    return engine, draw_path(engine, features, 1.3, pending, 0.01, generator(seed, "draw"))


@pytest.mark.parametrize("pending", [[], [7], [3, 3, 70]])
def test_paths_have_the_posterior_mean_and_covariance(pending):
    """v_t^2 times it, each pending point observed as often as it is pending; a prior mean and repeats included."""
    points = np.linspace([0.0, -1.0], [1.0, 0.5], 73)
    prior = lambda x: 2.0 * x[:, 1]  # noqa: E731
    policy = sb.GPTS(PROBLEM.space, sb.RBF(0.5), prior_mean=prior, **{**OPTIONS, "noise": 0.3, "regularization": 0.2})
    gp = GP(naive.rbf(0.5), points, prior(points))
    for t in range(40):
        candidate, own = (t * t + 7) % 31, [0.3, 0.15][t % 2]
        policy.tell(points[candidate], np.sin(t), noise=own)
        gp.observe(candidate, np.sin(t), 0.2 * (own / 0.3) ** 2)
    mean, covariance = gp.with_fantasies(pending, 0.2).mean_covariance()
    v = naive_policies.gpts_width(gp.information_gain(), 1.0, 0.3, 0.1)
    assert policy.width == pytest.approx(v)
    features = quadrature_features(sb.RBF(0.5), 2, 22)

    def draw(normals):
        path = draw_path(policy.model.engine, features, policy.width, points[pending], 0.2, normals)
        return (path.predict(points)[0] - mean) / v

    responses = impulse_responses(draw)
    np.testing.assert_allclose(responses.T @ responses, covariance, rtol=0, atol=1e-7)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dimension", [1, 2, 6])
def test_gradient(dimension, seed):
    _, path = path_of(dimension, seed)
    x = np.random.default_rng(seed).random((5, dimension))
    values, slopes = path.index(VALUE, x)
    np.testing.assert_array_equal(values, path.predict(x)[0])
    for at, slope in zip(x, slopes, strict=True):
        assert_close(slope, difference(lambda z: path.predict(z[None])[0][0], at, 1e-4))


@pytest.mark.parametrize(("dimension", "missed"), [(2, 0), (3, 0), (6, 3)])
@pytest.mark.sampled(3)
@pytest.mark.slow
def test_no_denser_search_finds_more(dimension, missed):
    """In six dimensions it may, in a few draws."""
    bounds, gaps = np.array([[0.0, 1.0]] * dimension), []
    for seed in range(12):
        engine, path = path_of(dimension, seed)
        near = engine.points[promising(path, VALUE, engine.points)]
        top = maximize_over_box(path, VALUE, bounds, seed, near, PATH_SIZES)
        assert top.value == pytest.approx(path.predict(top.x[None])[0][0], abs=1e-10)
        gaps.append(searched(path, VALUE, bounds) - top.value)
    assert (np.array(gaps) > 1e-6).sum() <= missed


def test_what_is_played_is_the_largest_of_a_path_of_the_whole_box():
    """Given the pending points, which differ, and lie between any candidates."""
    policy = sb.GPTS(PROBLEM.space, PROBLEM.kernel, **OPTIONS)
    assert (policy.domain.size, policy.engine, policy.candidates) == (0, "pathwise", None)
    for _ in range(6):
        x = policy.ask(3)
        assert len(np.unique(x, axis=0)) == 3
        policy.tell(x, [PROBLEM.truth(z) for z in x])
    known, awaited = policy.domain.points(), policy.ask(2)
    features = random_features(PROBLEM.kernel, 2, 512, generator(4, "features"))
    path = draw_path(policy.model.engine, features, policy.width, awaited, 0.01, generator(4, "draws", policy.round))
    expected = searched(path, VALUE, BOUNDS)
    assert len(known) == 18
    assert path.predict(policy.ask()[None])[0][0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_it_goes_on_to_the_last_bit(tmp_path):
    """From a state, from a store, and as its own specification, with the kernel learned."""

    def make():
        with pytest.warns(UserWarning, match="guarantees"):
            return sb.GPTS(PROBLEM.space, 1.0 * sb.Matern((0.4, 0.4), nu=2.5), refit=5, **OPTIONS)

    straight = sb.maximize(PROBLEM.truth, make(), 16)
    for rounds in (7, 16):
        kept = sb.maximize(PROBLEM.truth, make(), rounds, store=tmp_path / "run.zarr")
    np.testing.assert_array_equal(kept.x, straight.x)
    one, other = make(), make()
    sb.maximize(PROBLEM.truth, one, 9)
    other.restore({key: value.copy() for key, value in one.state().items()})
    assert one.ask().tolist() == other.ask().tolist()


@pytest.mark.parametrize(
    ("kernel", "given", "size"),
    [
        (sb.Linear() * sb.RBF(0.3), {}, 1024),
        (sb.Linear(), {}, 0),
        (sb.RBF(0.3), {"samples": "exact"}, 1024),
        (sb.RBF(0.3), {"engine": "dense"}, 1024),
        (sb.RBF(0.3) * sb.TemporalDecay(0.1), {}, 1024),
        (sb.RBF(0.3), {"candidates": 64}, 64),
        (sb.RBF(0.3), {"samples": "pathwise"}, 0),
        (sb.RBF(0.3), {"engine": "pathwise"}, 0),
    ],
)
def test_what_has_no_paths_is_played_through_candidates(kernel, given, size):
    policy = sb.GPTS(PROBLEM.space, kernel, **OPTIONS, **given)
    assert policy.domain.size == size
    assert sb.GPTS.from_dict(policy.to_dict()).domain.size == size
    policy.tell(policy.ask(), 1.0)
