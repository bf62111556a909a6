"""Importance of parameters against known Sobol indices; slices against the posterior itself."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import scalable_bandits as sb
from scalable_bandits import analysis

SPACE = sb.SearchSpace(
    {
        "rate": sb.Real(1e-4, 1e-1, log=True),
        "depth": sb.Integer(1, 6),
        "kind": sb.Categorical(["a", "b", None]),
        "drop": sb.Boolean(),
        "share": sb.Real(0.0, 0.5, when={"drop": True}),
    },
    where=lambda setting: not (setting["kind"] == "b" and setting["depth"] > 4),
)


def told(space, count=40, kernel=None, seed=0):
    """A policy that was told a function of random settings."""
    policy = sb.GPEI(space, sb.RBF(0.7) if kernel is None else kernel, noise=0.01, regularization=1e-4, seed=seed)
    settings = space.arguments(space.draw(count, np.random.default_rng(seed)))
    policy.tell(settings, [sum(map(float, _numbers(setting))) for setting in settings])
    return policy


def _numbers(setting):
    for name, value in setting.items():
        yield {"a": 0.0, "b": 0.5, None: 1.0}[value] if name == "kind" else np.log10(value) if name == "rate" else value


@pytest.mark.slow
def test_indices_of_the_ishigami_function():
    """Sobol & Levitan 1999: a = 7, b = 0.1."""
    space = sb.Box([[-np.pi, np.pi]] * 3)
    policy = sb.GPEI(space, 10.0 * sb.RBF(1.5), noise=0.01, regularization=1e-4)
    x = space.candidates(512).points()
    policy.tell(x, np.sin(x[:, 0]) + 7.0 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0]))
    found = analysis.importance(policy, points=1024)
    alone = np.array([0.5 * (1.0 + 0.1 * np.pi**4 / 5.0) ** 2, 49.0 / 8.0, 0.0])
    together = 0.01 * np.pi**8 * (1.0 / 18.0 - 1.0 / 50.0)
    variance = alone.sum() + together
    assert found.names == ("x0", "x1", "x2")
    assert found.variance == pytest.approx(variance, rel=0.01)
    np.testing.assert_allclose(found.first, alone / variance, atol=0.02)
    np.testing.assert_allclose(found.total, (alone + np.array([together, 0.0, together])) / variance, atol=0.01)
    assert found.first_error.max() < 0.01
    assert found.total_error.max() < 0.01


def exact(space, values, mean):
    """First-order and total indices (p,) of a function of independent uniform discrete parameters, by enumeration."""
    shape = [len(v) for v in values]
    f = np.array([mean(dict(zip(space.names, each, strict=True))) for each in itertools.product(*values)])
    f = f.reshape(shape)
    dims = range(len(shape))
    alone = [f.mean(axis=tuple(j for j in dims if j != i)).var() for i in dims]
    total = [f.var(axis=i).mean() for i in dims]
    return np.array(alone) / f.var(), np.array(total) / f.var()


def test_indices_of_whole_numbers_categories_and_parameters_that_do_not_exist_always():
    """Against sums over all settings, in which a parameter that does not exist changes nothing."""
    space = sb.SearchSpace(
        {
            "depth": sb.Integer(1, 4),
            "kind": sb.Categorical(["a", "b", None]),
            "size": sb.Ordinal([1, 2, 4, 8], when={"kind": ["a", "b"]}),
        }
    )
    policy = told(space, 24)

    def mean(setting):
        return policy.posterior({k: v for k, v in setting.items() if k != "size" or setting["kind"] is not None})[0]

    first, total = exact(space, [[1, 2, 3, 4], ["a", "b", None], [1, 2, 4, 8]], mean)
    assert total[2] > 0.05
    found = analysis.importance(policy, points=1024)
    np.testing.assert_allclose(found.first, first, atol=0.01)
    np.testing.assert_allclose(found.total, total, atol=0.01)
    assert (np.abs(found.first - first) < 4.0 * found.first_error + 1e-12).all()
    assert (np.abs(found.total - total) < 4.0 * found.total_error + 1e-12).all()


@pytest.mark.slow
def test_logarithmic_parameters_are_uniform_on_their_logarithm():
    """A linear function of the logarithm and of another parameter: variances are known."""
    space = sb.SearchSpace({"rate": sb.Real(1e-3, 1e3, log=True), "x": sb.Real(0.0, 1.0)})
    policy = sb.GPEI(space, 100.0 * sb.RBF(2.0), noise=0.01, regularization=1e-4)
    settings = space.arguments(space.draw(50, np.random.default_rng(1)))
    policy.tell(settings, [np.log10(s["rate"]) / 6.0 + 2.0 * s["x"] for s in settings])
    found = analysis.importance(policy, points=1024)
    np.testing.assert_allclose(found.first, [0.2, 0.8], atol=0.01)
    np.testing.assert_allclose(found.total, [0.2, 0.8], atol=0.01)
    assert found.variance == pytest.approx(5.0 / 12.0, rel=0.01)


@pytest.mark.parametrize("space", [sb.Grid([[0, 1], [0, 5]], (2, 3)), sb.Grid([[0, 1], [0, 5]], (2, 1))])
def test_grids_have_their_own_points(space):
    policy = sb.GPEI(space, 25.0 * sb.RBF((1.0, 5.0)), noise=0.01, regularization=1e-4)
    x = space.points()
    policy.tell(x, 5.0 * x[:, 0] + x[:, 1])
    mean = policy.posterior(x)[0].reshape(space.sides)
    alone = np.array([mean.mean(axis=1).var(), mean.mean(axis=0).var()]) / mean.var()
    np.testing.assert_allclose(analysis.importance(policy, points=1024).first, alone, atol=0.01)


def test_a_constant_mean_and_a_single_parameter():
    kernel = {"kernel": sb.RBF(0.3), "noise": 0.1, "regularization": 0.01}
    constant = analysis.importance(sb.GPEI(sb.Box([[0, 1], [0, 1]]), **kernel))
    np.testing.assert_array_equal([*constant.first, *constant.total, *constant.total_error, constant.variance], 0.0)
    policy = sb.GPEI(sb.Box([[0, 1]]), **kernel)
    policy.tell([0.3], 1.0)
    alone = analysis.importance(policy)
    assert (alone.first.tolist(), alone.total.tolist(), alone.first_error.tolist()) == ([1.0], [1.0], [0.0])


def test_what_has_no_importance_is_refused():
    kernel = sb.RBF(0.3)
    listed = sb.GPEI(sb.Points(np.random.default_rng(0).random((9, 2))), kernel)
    with pytest.raises(ValueError, match=r"^found: got .*; allowed: .* a box, a grid or a search space"):
        analysis.importance(listed)
    with pytest.raises(ValueError, match=r"^found: got 'RandomSearch'; allowed: a policy with a posterior"):
        analysis.importance(sb.RandomSearch(sb.Box([[0, 1], [0, 1]])))
    policy = sb.GPEI(sb.Box([[0, 1], [0, 1]]), kernel)
    with pytest.raises(ValueError, match=r"^points: got 100; allowed: a power of two"):
        analysis.importance(policy, points=100)
    with pytest.raises(ValueError, match=r"^error: got 0.0; allowed: a positive number"):
        analysis.importance(policy, error=0.0)
    with pytest.raises(ValueError, match=r"^found: got 3; allowed: a policy, or a result"):
        analysis.importance(3)


def test_more_estimates_are_made_for_a_smaller_error():
    policy = told(SPACE)
    coarse, fine = (analysis.importance(policy, points=64, error=error) for error in (1.0, 1e-9))
    assert (fine.total_error < coarse.total_error).sum() >= 4
    assert (np.abs(fine.total - coarse.total) < 4.0 * np.hypot(fine.total_error, coarse.total_error)).all()


def test_slices_are_the_posterior_along_each_parameter():
    policy = told(SPACE)
    best = policy.best().x
    found = analysis.slices(policy)
    assert [one.axis.name for one in found] == [name for name in SPACE.names if name in best]
    for one in found:
        name, kind = one.axis.name, SPACE.kinds[SPACE.names.index(one.axis.name)]
        assert best[name] == kind.value(one.at)
        if name in ("drop", "kind"):  # which change what exists, or is allowed
            continue
        settings = [{**best, name: kind.value(number)} for number in one.numbers.tolist()]
        mean, std = policy.posterior(settings)
        np.testing.assert_allclose(one.mean, mean)
        np.testing.assert_allclose(one.std, std)
        assert one.allowed.tolist() == [SPACE.where(setting) for setting in settings]


def test_a_slice_along_a_condition_takes_the_rest_from_the_best_with_that_value():
    policy = sb.GPEI(SPACE, sb.RBF(0.7), noise=0.01, regularization=1e-4)
    base = {"rate": 0.01, "depth": 3, "kind": "a"}
    shares = [{**base, "drop": True, "share": share} for share in (0.1, 0.2, 0.3)]
    policy.tell([{**base, "drop": False}, *shares], [2.0, 0.5, 1.0, 0.7])
    (one,) = analysis.slices(policy, names=["drop"])
    assert one.numbers.tolist() == [0.0, 1.0]
    np.testing.assert_allclose(one.mean, policy.posterior([{**base, "drop": False}, shares[1]])[0])
    fresh = sb.GPEI(SPACE, sb.RBF(0.7), noise=0.01, regularization=1e-4)
    fresh.tell({**base, "drop": False}, 1.0)
    (one,) = analysis.slices(fresh, names=["drop"])
    middle = {**base, "drop": True, "share": 0.25}
    np.testing.assert_allclose(one.mean, fresh.posterior([{**base, "drop": False}, middle])[0])


def test_slices_elsewhere_and_of_some_parameters():
    policy = told(SPACE)
    at = {"rate": 0.03, "depth": 2, "kind": None, "drop": True, "share": 0.123}
    share, depth = analysis.slices(policy, at, ["share", "depth"])[::-1]
    assert 0.123 in share.numbers
    assert depth.at == 2.0
    np.testing.assert_allclose(share.mean[share.numbers == 0.123], policy.posterior(at)[0])
    with pytest.raises(ValueError, match=r"^names: got 'shape'; allowed: names of parameters"):
        analysis.slices(policy, at, ["shape"])
    with pytest.raises(ValueError, match=r"^names: got 'share'; allowed: parameters that exist at"):
        analysis.slices(policy, {"rate": 0.03, "depth": 2, "kind": None, "drop": False}, ["share"])
    with pytest.raises(ValueError, match=r"^x\['depth'\]: got 70"):
        analysis.slices(policy, {**at, "depth": 70})
    with pytest.raises(ValueError, match=r"^found: got 'RandomSearch'"):
        analysis.slices(sb.RandomSearch(sb.Box([[0, 1]])), at=[0.5])


def test_slices_of_spaces_without_names():
    options = {"noise": 0.1, "regularization": 0.01}
    arms = sb.GPEI(sb.Arms(4), sb.Covariance(np.eye(4)), **options)
    arms.tell([0, 2], [1.0, 2.0])
    (one,) = analysis.slices(arms)
    assert (one.axis.name, one.at, one.axis.labels) == ("arm", 2.0, ("0", "1", "2", "3"))
    np.testing.assert_allclose(one.mean, arms.posterior([0, 1, 2, 3])[0])
    grid = sb.GPEI(sb.Grid([[0, 1], [0, 2]], (4, 3)), sb.RBF(0.5), **options)
    grid.tell([1.0, 1.0], 1.0)
    first, second = analysis.slices(grid)
    np.testing.assert_allclose(second.points, [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    np.testing.assert_allclose(first.mean, grid.posterior(first.points)[0])
    points = sb.Points([[0.0, 0.0], [0.7, 0.0], [0.0, 0.4]])
    listed = sb.GPEI(points, sb.RBF(0.5), **options)
    listed.tell([0.7, 0.0], 1.0)
    first, second = analysis.slices(listed)
    assert (second.numbers.min(), second.numbers.max()) == (0.0, 0.4)
    assert 0.7 in first.numbers


@pytest.mark.parametrize("minimize", [False, True])
def test_intervals_follow_the_transform_of_a_learned_model(minimize):
    """The ends are where the transform's image is mean +- 1.96 deviations: not symmetric, and ordered."""
    policy = sb.GPEI(sb.Box([[0, 1]]), minimize=minimize)
    worse = np.exp(3.0 * np.random.default_rng(0).standard_normal(15))
    policy.tell(np.linspace(0.0, 1.0, 15)[:, None], worse if minimize else -worse)
    at = np.array([[0.1], [0.9]])
    mean, _ = policy.posterior(at)
    low, high = policy.interval(at)
    transform, sign = policy.model.transform, -1.0 if minimize else 1.0
    z = [transform(sign * values) for values in ((high, mean, low) if minimize else (low, mean, high))]
    np.testing.assert_allclose(z[2] - z[1], z[1] - z[0], rtol=1e-6)
    assert (low < mean).all()
    assert (mean < high).all()
    assert not np.allclose(high - mean, mean - low, rtol=0.01)
    assert policy.interval([0.1]) == pytest.approx((low[0], high[0]))
    narrow = policy.interval(at, 0.5)
    assert (low < narrow[0]).all()
    assert (narrow[1] < high).all()


def test_intervals_of_a_given_kernel_are_symmetric():
    policy = told(SPACE)
    x = SPACE.arguments(SPACE.draw(5, np.random.default_rng(5)))
    mean, std = policy.posterior(x)
    low, high = policy.interval(x)
    np.testing.assert_allclose([mean - low, high - mean], [1.959964 * std] * 2, rtol=1e-6)
    with pytest.raises(ValueError, match=r"^level: got 95.0; allowed: a number between 0 and 1"):
        policy.interval(x, 95)
