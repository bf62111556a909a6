"""Kernels learned from data: the likelihood and its gradient, the optimum, policies that refit, B by doubling."""

import json
import warnings
from typing import ClassVar

import attrs
import numpy as np
import pytest
from cases.kernels import KERNEL_CASES
from cases.rounds import assert_same_state
from kernels.test_gradients import assert_close, difference
from naive import kernels as naive_kernels
from naive.gp import GP
from scipy.optimize import minimize

import scalable_bandits as sb
from scalable_bandits.formulas.confidence import largest_loss
from scalable_bandits.posteriors.hyperparameters.declustering import variance_over_space
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import Likelihood
from scalable_bandits.posteriors.models.refitted import usual_lengthscales

LEARNABLE = [name for name in KERNEL_CASES if name != "covariance"]


def data_of(case, count=15):
    rng = np.random.default_rng(8)
    x = case.points(count, seed=7)
    return x, np.sin(3 * x.sum(axis=1)) + 0.1 * rng.standard_normal(count), rng.uniform(0.02, 0.1, count)


@pytest.mark.parametrize("mean", [0.4, None])
@pytest.mark.parametrize("name", LEARNABLE)
@pytest.mark.sampled(6)
def test_the_likelihood_is_the_formula_and_has_its_gradient(name, mean):
    case = KERNEL_CASES[name]
    x, y, noise = data_of(case)
    target = Likelihood(case.kernel, x, y, noise, mean, sb.LogNormal(0.8, 0.7))
    logs = np.log([p.value for p in case.kernel.hyperparameters])
    value, _ = target.likelihood(logs)
    covariance = naive_kernels.matrix(case.oracle, x) + np.diag(noise)
    if mean is None:  # generalised least squares
        ones = np.linalg.solve(covariance, np.ones(len(y)))
        assert target.mean == pytest.approx(ones @ y / ones.sum(), rel=1e-9)
    residuals = y - target.mean
    expected = -0.5 * residuals @ np.linalg.solve(covariance, residuals) - 0.5 * np.linalg.slogdet(covariance)[1]
    assert value == pytest.approx(expected - 0.5 * len(y) * np.log(2 * np.pi), abs=1e-8)
    assert_close(target(logs)[1], difference(lambda at: target(at)[0], logs, 1e-3))


def test_the_prior_is_on_lengthscales_alone():
    kernel = 3.0 * sb.RBF([0.5, 2.0]) * sb.Periodic(0.7)
    x, y, noise = data_of(KERNEL_CASES["rbf"])
    logs = np.log([p.value for p in kernel.hyperparameters])
    flat = Likelihood(kernel, x, y, noise)(logs)[0]
    prior = Likelihood(kernel, x, y, noise, lengthscale_prior=sb.LogNormal([1.0, 4.0], 0.5))(logs)[0]
    assert prior - flat == pytest.approx(-0.5 * 2 * (np.log(2) / 0.5) ** 2)


def test_a_prior_on_factors_is_on_them_alone():
    kernel = 3.0 * sb.RBF([0.5, 2.0])
    x, y, noise = data_of(KERNEL_CASES["rbf"])
    logs = np.log([p.value for p in kernel.hyperparameters])
    flat, prior = (Likelihood(kernel, x, y, noise, factor_prior=f)(logs) for f in (None, sb.LogNormal(1.5, 0.5)))
    assert prior[0] - flat[0] == pytest.approx(-0.5 * (np.log(2) / 0.5) ** 2)
    changed = [p.name == "factor" for p in kernel.hyperparameters]
    np.testing.assert_allclose(prior[1] - flat[1], np.where(changed, -np.log(2) / 0.5**2, 0.0), atol=1e-9)


def learned_variance(kernel, unit):
    """Return the prior variance over the squared unit that a policy learns from 40 values in that unit."""
    rng = np.random.default_rng(5)
    x = rng.random((40, 2))
    y = np.sin(5 * x[:, 0]) + x[:, 1] * np.cos(3 * x[:, 1]) + 0.1 * rng.standard_normal(40)
    options = {"noise": 0.1 * unit, "regularization": (0.1 * unit) ** 2, "refit": 40, "prior_mean": 0.0}
    policy = sb.GPEI(sb.Box([[0, 1], [0, 1]]), kernel, **options)
    policy.tell(x, unit * y)
    return float(policy.present_kernel.diagonal(x[:1])[0]) / unit**2


FIRST, SECOND = sb.OnDimensions(sb.Matern(0.3), [0]), sb.OnDimensions(sb.RBF(0.3), [1])


@pytest.mark.parametrize("unit", [1e-4, 1.0, 5000.0, 1e6])
@pytest.mark.parametrize(
    "kernel", [1.0 * (FIRST * SECOND), (1.0 * FIRST) * (1.0 * SECOND)], ids=["one factor", "two factors"]
)  # fmt: skip
@pytest.mark.sampled(4)
def test_what_is_learned_is_the_same_in_any_unit_of_y(kernel, unit):
    """Whatever the initial factors are, and how many multiply each other."""
    assert learned_variance(kernel, unit) == pytest.approx(learned_variance(1.0 * (FIRST * SECOND), 1.0), rel=0.05)


def test_the_prior_on_factors_is_one_on_their_product():
    """Its density at given factors is largest, for each product of these, where that of one such factor is."""
    x, y, noise = data_of(KERNEL_CASES["rbf"])
    prior = sb.LogNormal(7.0, 0.5)

    def log_prior(kernel):
        logs = np.log([p.value for p in kernel.hyperparameters])
        return Likelihood(kernel, x, y, noise, factor_prior=prior)(logs)[0] - Likelihood(kernel, x, y, noise)(logs)[0]

    first, second = sb.OnDimensions(sb.RBF(0.5), [0]), sb.OnDimensions(sb.RBF(0.5), [1])
    one = log_prior(3.0 * (first * second))
    assert one == pytest.approx(-0.5 * (np.log(3.0 / 7.0) / 0.5) ** 2)
    both = [log_prior((factor * first) * (3.0 / factor * second)) for factor in np.sqrt(3.0) * np.geomspace(0.5, 2, 9)]
    assert max(both) == both[4] == pytest.approx(one)
    assert log_prior(3.0 * (1.0 * first + 1.0 * second)) == pytest.approx(one)  # relative to each other around 1
    assert log_prior(3.0 * first + 3.0 * second) == pytest.approx(2 * one)  # each as if it were alone


def test_a_shared_lengthscale_has_the_prior_of_its_dimensions():
    """And is that of these dimensions alone in what a policy says it believes."""
    space, lists = sb.Box([[0, 1], [0, 1000], [0, 1]]), sb.OnDimensions(sb.RBF([0.2, 200.0]), [0, 1])
    parts = sb.OnDimensions(sb.RBF(0.2), [0]) * sb.OnDimensions(sb.OnDimensions(sb.RBF(200.0), [0]), [1])
    prior = usual_lengthscales(space)
    assert (
        [p.dimensions for p in parts.hyperparameters] == [p.dimensions for p in lists.hyperparameters] == [(0,), (1,)]
    )
    for one, other in zip(parts.hyperparameters, lists.hyperparameters, strict=True):
        assert prior.log_median(one) == prior.log_median(other)
    both = sb.OnDimensions(sb.RBF(0.2), [0, 1]).hyperparameters[0]
    assert prior.log_median(both) == pytest.approx(np.log(prior.median[:2]).mean())
    believed = sb.GPEI(space, parts, noise=0.1, regularization=0.01).model.describe().parameters
    assert {(each.name, each.lengthscale) for each in believed} == {("x0", 0.2), ("x1", 200.0)}


@attrs.frozen
class Own(sb.RBF):
    """Kernel of a user, with a gradient that may be wrong."""

    learned: ClassVar = ("lengthscale",)
    wrong: float = 0.0

    def sensitivity(self, X, weights):
        found = super().sensitivity(X, weights)
        return np.empty(0) if self.wrong == 2.0 else found * (1.0 + self.wrong)


@pytest.mark.parametrize(
    ("wrong", "message"), [(0.0, None), (0.5, r"which is .* by differences"), (2.0, r"`sensitivity` is \(\d,\)")]
)
def test_the_gradient_of_an_own_kernel_is_checked(wrong, message):
    x, y, _ = data_of(KERNEL_CASES["rbf"])
    for kernel in (Own(0.4, wrong=wrong), 2.0 * Own(0.4, wrong=wrong), 1.0 * sb.RBF(0.2) + 2.0 * Own(0.4, wrong=wrong)):
        if message is None:
            sb.learn_kernel(kernel, x, y, 0.01)
            continue
        with pytest.raises(ValueError, match=message):
            sb.learn_kernel(kernel, x, y, 0.01)
        with pytest.raises(ValueError, match=message):
            sb.GPEI(sb.Grid([[0, 1], [0, 1]], 5), kernel, noise=0.1, regularization=0.01, refit=5)


def test_refitting_does_not_take_a_noisy_function_for_a_constant():
    """Observations of little more than noise are likeliest under a factor near zero; a policy's stays near their
    variance."""
    x = sb.Box([[0, 1]] * 2).candidates(12, 3).array
    y = 0.3 * np.sin(6 * x[:, 0]) + np.random.default_rng(1).standard_normal(12)
    likeliest = sb.learn_kernel(1.0 * sb.Matern(0.3), x, y, 1.0, prior_mean=None).kernel
    policy = sb.GPEI(sb.Box([[0, 1]] * 2), 1.0 * sb.Matern(0.3), regularization=1.0, refit=12)
    policy.tell(x, y)
    assert likeliest.factor < 0.01 * y.var()
    assert policy.present_kernel.factor > 0.2 * y.var()


def test_a_coarse_climb_ends_earlier_and_nearly_as_high():
    x, y, noise = data_of(KERNEL_CASES["rbf"], 40)
    ends = [sb.learn_kernel(1.0 * sb.RBF([0.5, 2.0]), x, y, noise, precision=p) for p in (1e-10, 1e-4)]
    assert ends[1].evaluations < ends[0].evaluations
    assert 0.0 <= ends[0].log_likelihood - ends[1].log_likelihood < 0.1
    with pytest.raises(ValueError, match=r"precision: got 0\.0; allowed: a positive number"):
        sb.learn_kernel(sb.RBF(1.0), x, y, noise, precision=0.0)


@pytest.mark.parametrize("lengthscales", [None, sb.LogNormal([0.3, 0.6])])
def test_variance_over_space_is_the_formula(lengthscales):
    rng = np.random.default_rng(4)
    x, y = rng.random((9, 2)), rng.standard_normal(9)
    x[5] = x[4] = x[3]
    weights = np.empty(9)
    for i in range(9):
        if lengthscales is None:
            weights[i] = 1 / sum((x[i] == x[j]).all() for j in range(9))
        else:
            weights[i] = 1 / sum(np.exp(-2 * ((x[i] - x[j]) ** 2 / [0.09, 0.36]).sum()) for j in range(9))
    weights /= weights.sum()
    expected = (weights * (y - weights @ y) ** 2).sum() / (1 - (weights**2).sum())
    assert variance_over_space(x, y, lengthscales) == pytest.approx(expected, rel=1e-12)
    assert variance_over_space(100 * x[3:][2:], y[3:][2:], lengthscales) == pytest.approx(y[5:].var(ddof=1))
    assert variance_over_space(x[:1], y[:1], lengthscales) == 0.0


def test_observations_that_gather_do_not_shrink_the_factor():
    """A hundred more at one top: their variance is little, that of the function over the space is what it was."""
    box = sb.Box([[0, 1]] * 2)
    x = box.candidates(16, 3).array
    top = np.clip([0.26, 0.5] + 0.03 * np.random.default_rng(2).standard_normal((100, 2)), 0, 1)
    every = np.concatenate([x, top])
    y = 2.0 * np.sin(6 * every[:, 0]) + 0.3 * np.random.default_rng(1).standard_normal(116)
    policy = sb.GPEI(box, 1.0 * sb.Matern([0.3, 0.3]), regularization=0.09, refit=8)
    policy.tell(every, y)
    assert y.var() < 0.6 * y[:16].var()
    lengthscales = usual_lengthscales(box)
    assert variance_over_space(every, y, lengthscales) > 0.8 * variance_over_space(x, y[:16], lengthscales)
    assert policy.present_kernel.factor > 0.8 * y[:16].var()


def test_the_usual_prior_is_the_published_density():
    """In the lengthscale l itself: -(log l - m)^2 / (2 s^2) - log l, up to a constant."""
    prior, d = sb.LogNormal.of_sides([1.0, 2.0, 3.0]), 3
    ours, published = [], []
    for log in np.linspace(-3, 2, 9):
        ours.append(-0.5 * ((log + np.log([1.0, 2.0, 3.0]) - np.log(prior.median)) ** 2 / prior.spread**2).sum())
        m, s = np.sqrt(2) + np.log(d) / 2, np.sqrt(3)
        published.append(3 * (-0.5 * ((log - m) / s) ** 2 - log))
    np.testing.assert_allclose(np.diff(ours), np.diff(published), atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sampled(3)
def test_no_other_search_finds_likelier_hyperparameters(seed):
    """Nelder-Mead from ten random starts, on the oracle's likelihood."""
    rng = np.random.default_rng(seed)
    x = rng.random((25, 2))
    y = np.sin(6 * x[:, 0]) + 0.3 * x[:, 1] + 0.1 * rng.standard_normal(25)
    found = sb.learn_kernel(1.0 * sb.Matern([1.0, 1.0], nu=2.5), x, y, 0.01, seed=seed)

    def fall(logs):
        factor, *lengths = np.exp(np.clip(logs, -9, 9)).tolist()
        difference = np.abs(x[:, None] - x[None]) / np.array(lengths)
        a = np.sqrt(5 * (difference**2).sum(axis=2))
        covariance = factor * (1 + a + a**2 / 3) * np.exp(-a) + 0.01 * np.eye(25)
        return 0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(covariance)[1] + 25 * np.log(2 * np.pi))

    others = [minimize(fall, rng.normal(0, 1.5, 3), method="Nelder-Mead").fun for _ in range(10)]
    assert found.log_likelihood >= -min(others) - 1e-6
    values = np.log([p.value for p in found.kernel.hyperparameters])
    assert found.log_likelihood == pytest.approx(-fall(values), abs=1e-8)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": [1.0]}, "y: got"),
        ({"noise_variance": 0.0}, "noise_variance: got"),
        ({"noise_variance": [1.0]}, "noise_variance: got"),
        ({"kernel": sb.Covariance(np.eye(3))}, "kernel: got"),
        ({"x": [[np.nan, 0.0]] * 3}, "x: got"),
        ({"restarts": -1}, "restarts: got"),
        ({"factor_prior": 2.0}, "factor_prior: got 2.0"),
        ({"kernel": sb.RBF([1.0, 1.0, 1.0])}, "lengthscale: got"),
    ],
)
def test_what_is_refused(given, message):
    arguments = {"kernel": sb.RBF(), "x": np.zeros((3, 2)), "y": np.zeros(3), "noise_variance": 0.1, **given}
    if "Covariance" in repr(given):
        arguments["x"] = np.arange(3.0)[:, None]
    with pytest.raises(ValueError, match=message):
        sb.learn_kernel(**arguments)


# ---- policies


SPACES = {"box": sb.Box([[0, 1], [-1, 0.5]]), "grid": sb.Grid([[0, 1], [-1, 0.5]], (9, 8))}
KERNEL = 1.0 * sb.Matern([0.7, 0.7], nu=2.5)


def play(policy, rounds, told):
    for _ in range(rounds):
        x = policy.ask()
        y = 5.0 + float(np.sin(7 * x[0]) + 0.2 * np.cos(2 * x[1]))
        policy.tell(x, y)
        told.append((x, y))


@pytest.mark.parametrize("space", SPACES)
def test_refit_learns_every_k_rounds(space):
    """From all that was told then; in between the kernel stays; the posterior is the oracle's under it."""
    policy, told, kernels = sb.GPEI(SPACES[space], KERNEL, noise=0.1, regularization=0.01, refit=6), [], []
    for _ in range(15):
        play(policy, 1, told)
        kernels.append(policy.present_kernel)
    assert [k != KERNEL for k in kernels] == [False] * 5 + [True] * 10
    assert kernels[5:11] == [kernels[5]] * 6
    assert kernels[11:] == [kernels[11]] * 4 != kernels[5:9]
    queried, averages, variances = policy.model.observations.collapsed()
    factor, *lengths = (p.value for p in policy.present_kernel.hyperparameters)
    oracle = naive_kernels.scaled(factor, naive_kernels.matern52(tuple(lengths)))
    gp = GP(oracle, policy.domain.points(queried), policy.model.prior_mean(np.zeros((1, 2)))[0])
    for i, (average, variance) in enumerate(zip(averages, variances, strict=True)):
        gp.observe(i, average, variance)
    x = np.random.default_rng(0).random((7, 2)) * [1, 1.5] + [0, -1]
    mean, std = gp.predict(x, gp.prior_mean[0])
    np.testing.assert_allclose(policy.posterior(x)[0], mean, atol=1e-8)
    np.testing.assert_allclose(policy.posterior(x)[1], std, atol=1e-7)
    np.testing.assert_allclose(policy.model.engine.at(queried)[0], gp.mean_variance()[0], atol=1e-8)
    assert policy.kernel == KERNEL  # what was asked for
    assert policy.to_dict()["kernel"] == KERNEL.to_dict()


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("after", [5, 6, 9])
@pytest.mark.sampled(3)
def test_a_policy_that_refits_goes_on_to_the_last_bit(space, after, tmp_path):
    def make():
        return sb.GPEI(SPACES[space], KERNEL, noise=0.1, regularization=0.01, refit=6, seed=2)

    one, other = make(), make()
    play(one, after, [])
    other.restore({key: value.copy() for key, value in one.state().items()})
    for policy in (one, other):
        play(policy, 8, [])
    assert one.present_kernel == other.present_kernel
    assert json.dumps(one.best().x.tolist()) == json.dumps(other.best().x.tolist())
    np.testing.assert_array_equal(one.posterior([[0.2, 0.1]]), other.posterior([[0.2, 0.1]]))
    for rounds in (after, 13):
        kept = sb.maximize(lambda x: float(np.sin(7 * x[0])), make(), rounds, store=tmp_path / "run.zarr")
    straight = sb.maximize(lambda x: float(np.sin(7 * x[0])), make(), 13)
    np.testing.assert_array_equal(kept.x, straight.x)


def test_guarantees_assume_a_known_kernel():
    with pytest.warns(UserWarning, match="IGPUCB: its guarantees assume a known kernel") as caught:
        policy = sb.IGPUCB(SPACES["box"], KERNEL, refit=5)
    assert caught[0].filename == __file__  # the line that makes the policy
    with pytest.warns(UserWarning, match="guarantees") as caught:
        sb.GPUCB(SPACES["box"], KERNEL, refit=5)  # from deeper down
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="guarantees"):
        assert sb.IGPUCB.from_dict(json.loads(json.dumps(policy.to_dict()))).to_dict() == policy.to_dict()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sb.GPEI(SPACES["box"], KERNEL, refit=5)  # has none


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"refit": 0}, "refit: got 0"),
        ({"refit": 2.5}, "refit: got 2.5"),
        ({"lengthscale_prior": "wide"}, "lengthscale_prior: got 'wide'"),
        (
            {"refit": 3, "lengthscale_prior": sb.LogNormal([1.0, 2.0, 3.0])},
            r"median: got \(1.0, 2.0, 3.0\); allowed: one",
        ),
        ({"refit": 3, "kernel": sb.Covariance(np.eye(4)), "space": sb.Arms(4)}, "refit: got 3; allowed: None"),
        ({"rkhs_norm": "triple"}, "rkhs_norm: got 'triple'; allowed: a positive number, or 'double'"),
        ({"rkhs_norm": 0.0}, "rkhs_norm: got 0.0"),
        ({"refit": 3, "rkhs_norm": "double"}, "rkhs_norm: got 'double'; allowed: a number where the kernel is learned"),
    ],
)
def test_settings_that_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        sb.IGPUCB(**{"space": SPACES["grid"], "kernel": KERNEL, **arguments})


# ---- B by doubling


def test_the_loss_is_the_quadratic_form_and_its_bound_the_formula():
    policy = sb.IGPUCB(SPACES["grid"], KERNEL, noise=0.3, regularization=0.2, rkhs_norm="double")
    points, y = SPACES["grid"].points([3, 40, 3, 17]), np.array([0.5, -1.0, 0.7, 0.1])
    policy.tell(points, y)
    covariance = naive_kernels.matrix(naive_kernels.matern52(0.7), points) + 0.2 * np.eye(4)
    assert policy._confidence._loss == pytest.approx(y @ np.linalg.solve(covariance, y), abs=1e-9)
    u = np.log(16 * np.pi**2 / 0.6)
    assert largest_loss(4, 2.0, 0.3, 0.2, 0.1) == pytest.approx(4 + 0.45 * (4 + 2 * np.sqrt(4 * u) + 2 * u))


def doubled(norm, seed, rounds=60):
    """B after some rounds on a function of this norm."""
    kernel = sb.RBF(0.2)
    function = sb.RKHSFunction.sparse(SPACES["grid"], kernel, sb.GaussianNoise(0.3), seed=seed)
    scaled = sb.RKHSFunction(
        SPACES["grid"], kernel, function.centers, function.weights * norm / function.rkhs_norm, function.noise, seed
    )
    policy = sb.IGPUCB(SPACES["grid"], kernel, noise=0.3, regularization=0.09, rkhs_norm="double")
    sb.simulate(policy, scaled, rounds)
    return policy.norm


def test_b_doubles_when_it_must_and_not_beyond_twice_the_norm():
    """Over 30 seeds: with probability 1 - delta = 0.9 never above; 9 failures or more come with less than 0.5 %."""
    assert sum(doubled(0.9, seed) > 1.0 for seed in range(30)) < 9
    far = [doubled(40.0, seed) for seed in range(30)]
    assert sum(b >= 80.0 for b in far) < 9
    assert sum(b >= 32.0 for b in far) >= 27  # of few functions, only flat parts were seen


def test_b_is_part_of_the_state():
    function = sb.RKHSFunction(SPACES["grid"], sb.RBF(0.2), np.array([[0.5, 0.0]]), np.array([30.0]))
    policy = sb.IGPUCB(SPACES["grid"], sb.RBF(0.2), noise=0.3, regularization=0.09, rkhs_norm="double")
    assert policy.width == sb.IGPUCB(SPACES["grid"], sb.RBF(0.2), noise=0.3, regularization=0.09, rkhs_norm=1.0).width
    sb.simulate(policy, function, 40)
    assert policy.norm > 4.0
    again = sb.IGPUCB(SPACES["grid"], sb.RBF(0.2), noise=0.3, regularization=0.09, rkhs_norm="double")
    again.restore(policy.state())
    assert (again.norm, again.width) == (policy.norm, policy.width)
    assert_same_state(again, policy)
    assert policy.to_dict()["rkhs_norm"] == "double"
