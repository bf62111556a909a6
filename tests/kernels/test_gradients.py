"""Gradients against finite differences: of kernels, posteriors and likelihoods."""

import numpy as np
import pytest
from cases.kernels import KERNEL_CASES
from cases.surfaces import gradients

import scalable_bandits as sb
from scalable_bandits.formulas.acquisition import ExpectedImprovement, ProbabilityOfImprovement, UpperConfidence
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.surface import constant_mean, differenced
from scalable_bandits.posteriors.weights.box import WeightsBoxEngine

SMOOTH = {name: case for name, case in KERNEL_CASES.items() if name != "covariance" and not case.bits}
every_kernel = pytest.mark.parametrize("case", SMOOTH.values(), ids=SMOOTH.keys())


def difference(function, x, step):
    """Derivatives of a function at x (d,) by central differences of fourth order, (d, ...)."""
    rows = []
    for k in range(len(x)):
        e = np.zeros(len(x))
        e[k] = step
        near, far = function(x + e) - function(x - e), function(x + 2 * e) - function(x - 2 * e)
        rows.append((8 * near - far) / (12 * step))
    return np.array(rows)


def assert_close(found, expected, room=1e-6):
    np.testing.assert_allclose(found, expected, rtol=0, atol=room * max(1.0, np.abs(expected).max()))


@every_kernel
class TestEveryKernel:
    def test_slope(self, case):
        """Row by row, weighted, and added to what is there."""
        X, Z = case.points(9, seed=1), case.points(5, seed=2)
        weights = np.random.default_rng(3).standard_normal((9, 5))
        found = np.ones(Z.shape)
        case.kernel.slope(X, Z, weights, found)
        for j, z in enumerate(Z):
            step = 1e-3 if case.low < 0.0 else 1e-5  # `MinMax` has kinks
            expected = difference(lambda at, j=j: weights[:, j] @ case.kernel.block(X, at[None])[:, 0], z, step)
            expected[list(case.categories)] = 0.0  # constant, but for jumps
            assert_close(found[j] - 1.0, expected)

    def test_diagonal_slope(self, case):
        Z = case.points(5, seed=2)
        for z, found in zip(Z, case.kernel.diagonal_slope(Z), strict=True):
            assert_close(found, difference(lambda at: case.kernel.diagonal(at[None])[0], z, 1e-3))

    def test_features_slope(self, case):
        Z = case.points(5, seed=2)
        if not (count := case.kernel.feature_count(case.dimension)):
            with pytest.raises(ValueError, match="finitely many features"):
                case.kernel.features_slope(Z, np.ones((5, 1)))
            return
        weights = np.random.default_rng(3).standard_normal((5, count))
        for z, own, found in zip(Z, weights, case.kernel.features_slope(Z, weights), strict=True):
            assert_close(found, difference(lambda at, own=own: case.kernel.features(at[None])[0] @ own, z, 1e-3))

    def test_hyperparameters(self, case):
        """Put in and read again; the kernel with its own is itself."""
        values = [p.value for p in case.kernel.hyperparameters]
        assert values
        same = case.kernel.with_hyperparameters(values)
        assert same == case.kernel
        other = [1.5 * value for value in values]
        assert [p.value for p in case.kernel.with_hyperparameters(other).hyperparameters] == other

    def test_sensitivity(self, case):
        X = case.points(8, seed=4)
        X[5] = X[2]
        draw = np.random.default_rng(5).standard_normal((8, 8))
        weights = draw + draw.T
        logs = np.log([p.value for p in case.kernel.hyperparameters])

        def total(at):
            return (weights * case.kernel.with_hyperparameters(np.exp(at)).block(X)).sum()

        assert_close(case.kernel.sensitivity(X, weights), difference(total, logs, 1e-3))


@pytest.mark.parametrize("nu", [0.1, 0.5, 0.7, 1.0, 1.2, 1.5, 2.0, 3.7, 40.0, 149.0, 151.0, 400.0])
def test_slope_of_any_smoothness_at_any_distance(nu):
    r = np.concatenate([np.logspace(-3, 1.0, 30), [0.0]])[:, None]
    kernel = sb.Matern(1.0, nu=nu)
    found = np.zeros(r.shape)
    kernel.slope(np.zeros((1, 1)), r, np.ones((1, len(r))), found)
    assert found[-1, 0] == 0.0
    for x, slope in zip(r[:-1, 0], found[:-1, 0], strict=True):
        expected = difference(lambda at: kernel.block([0.0], at)[0, 0], np.array([x]), 0.02 * x)
        assert abs(slope - expected[0]) < 1e-6 * max(1.0, abs(slope))


# ---- posteriors


BOUNDS = np.array([[-1.0, 1.0]] * 3)


def surface_of(case, prior=None, pending=0, engine=BoxEngine):
    """A posterior after a dozen observations, one of them repeated."""
    d = case.dimension
    prior = constant_mean(0.7) if prior is None else differenced(prior, BOUNDS[:d])
    engine = engine(case.kernel, d, prior)
    engine.points = case.points(12, seed=1)
    for i in [*range(12), 3]:
        engine.observe(i, float(np.sin(3 * i)), 0.05)
    return engine.surface(case.points(pending, seed=6), 0.05)


FEATURED = [case for case in SMOOTH.values() if case.kernel.feature_count(case.dimension)]


@pytest.mark.parametrize(
    ("case", "engine"),
    [*((case, BoxEngine) for case in SMOOTH.values()), *((case, WeightsBoxEngine) for case in FEATURED)],
)
def test_posterior(case, engine):
    """With points pending."""
    surface = surface_of(case, pending=3, engine=engine)
    Z = case.points(4, seed=2)
    for z, *found in zip(Z, *gradients(surface, Z), strict=True):
        for part in (0, 1):
            assert_close(found[part], difference(lambda at, part=part: surface.predict(at[None])[part][0], z, 1e-3))


@pytest.mark.parametrize("case", FEATURED)
def test_posterior_of_weights_is_that_of_the_factor(case):
    Z = case.points(9, seed=2)
    for prior in (None, lambda x: np.sin(2 * x[:, 0])):
        surfaces = [surface_of(case, prior, 3, engine) for engine in (BoxEngine, WeightsBoxEngine)]
        for found, expected in zip(*(surface.predict(Z) for surface in surfaces), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


def test_posterior_with_a_prior_mean():
    case = KERNEL_CASES["matern-2.5-ard"]
    surface = surface_of(case, lambda x: np.sin(2 * x[:, 0]) + x[:, 1] ** 2)
    Z = case.points(5, seed=2)
    for z, found in zip(Z, gradients(surface, Z)[0], strict=True):
        assert_close(found, difference(lambda at: surface.predict(at[None])[0][0], z, 1e-3))
    corner = np.array([[1.0, -1.0]])  # where differences are one-sided
    inside = corner + np.array([[-1e-4, 1e-4]])
    assert np.abs(gradients(surface, corner)[0] - gradients(surface, inside)[0]).max() < 2e-3


INDICES = [
    UpperConfidence(2.5),
    UpperConfidence(0.0),
    UpperConfidence(1.0, mean_weight=0.0),
    *(ExpectedImprovement(best, 0.1) for best in (-3.0, 0.5, 3.0, 40.0)),
    *(ProbabilityOfImprovement(best, 0.1) for best in (-3.0, 0.5, 3.0)),
]


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_index(index):
    surface = surface_of(KERNEL_CASES["matern-2.5-ard"])
    Z = KERNEL_CASES["matern-2.5-ard"].points(5, seed=2)
    values, slopes = surface.index(index, Z)
    np.testing.assert_allclose(values, index(*surface.predict(Z)))
    for z, found in zip(Z, slopes, strict=True):
        assert_close(found, difference(lambda at: surface.index(index, at[None])[0][0], z, 1e-3))


def test_expected_improvement_far_below_the_incumbent():
    """The two ways to its derivatives meet at z = -1000, and go on to where all else underflows."""
    mean, variance = np.array([-999.0, -1001.0, -1e8]), np.ones(3)
    by_mean, by_variance = ExpectedImprovement(0.0).slopes(mean, variance)
    np.testing.assert_allclose(by_mean, -mean + 2.0 / -mean, rtol=1e-9)
    np.testing.assert_allclose(2.0 * by_variance, mean**2 + 3.0, rtol=1e-9)
