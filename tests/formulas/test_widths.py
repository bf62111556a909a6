"""Sharper widths: what they are, that they cover, that they are not wider, and the convex problem behind one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import kernels as naive
from naive import policies as naive_policies
from naive.gp import GP
from scipy.optimize import NonlinearConstraint, minimize

import scalable_bandits as sb
from scalable_bandits.formulas import confidence
from scalable_bandits.specification import differences

gains, deltas = st.floats(0, 1e4), st.floats(1e-6, 0.999)
sizes = st.floats(0.01, 100)


@given(gain=gains, delta=deltas, norm=sizes, noise=sizes, regularization=sizes)
def test_formulas(gain, delta, norm, noise, regularization):
    """The failure probability that each stands for, the other way round."""
    whitehouse = confidence.regularised(gain, delta, norm, noise, regularization)
    squared = ((whitehouse - norm) / noise) ** 2 * regularization
    assert math.exp(min(gain - squared / 2, 0.0)) == pytest.approx(delta, rel=1e-5)
    mixture = confidence.martingale_mixture(gain, delta, norm, noise, regularization)
    assert mixture**2 == pytest.approx(norm**2 + (whitehouse - norm) ** 2, rel=1e-9)
    assert mixture <= whitehouse
    if regularization >= 1:
        assert whitehouse <= confidence.improved(gain, delta, norm, noise)
    for name, expected in (("whitehouse", whitehouse), ("flynn-reeb", mixture)):
        assert confidence.width(name, gain, delta, norm, noise, regularization) == expected


SPACE, KERNEL, NOISE, DELTA = sb.Grid([[0, 1]], 40), sb.Matern(0.2, nu=2.5), 1.0, 0.1


@pytest.fixture(scope="module")
def gram():
    return naive.matrix(naive.matern(0.2, 2.5), SPACE.points())


def played(name, seed, rounds=80, regularization=1.0):
    """Whether the bounds held at all candidates in all rounds, the mean width, and the run's last posterior."""
    function = sb.RKHSFunction.sparse(SPACE, KERNEL, sb.GaussianNoise(NOISE), seed=seed)
    policy = sb.IGPUCB(
        SPACE, KERNEL, noise=NOISE, rkhs_norm=function.rkhs_norm, delta=DELTA, confidence=name,
        regularization=regularization,
    )  # fmt: skip
    truth, held, widths = function.table(), True, []
    for t in range(1, rounds + 1):
        engine = policy.model.engine
        widths.append(policy.width)
        held &= bool((np.abs(truth - engine.mean()) <= policy.width * np.sqrt(engine.variance())).all())
        candidate = policy.choose()
        policy.observe(candidate, truth[candidate] + function.noise_at(t))
    return held, widths


@pytest.mark.slow
def test_they_cover_and_are_not_wider():
    """All candidates and rounds of 100 runs: failures at most delta, with three standard errors' room for chance."""
    seeds = 100
    most = seeds * DELTA + 3 * math.sqrt(seeds * DELTA * (1 - DELTA))
    means = {}
    for name in confidence.WIDTHS:
        runs = [played(name, seed) for seed in range(seeds)]
        assert sum(not held for held, _ in runs) <= most, name
        means[name] = np.mean([widths for _, widths in runs], axis=0)
    assert (means["whitehouse"] < means["improved"]).all()
    assert (means["flynn-reeb"] < means["whitehouse"]).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:IGPUCB. the width 'improved'")
@pytest.mark.parametrize(("name", "proven"), [("improved", False), ("whitehouse", True), ("flynn-reeb", True)])
def test_which_cover_for_lambda_below_1(name, proven):
    """Those whose theorem says so; of the other one most runs fail."""
    failed = sum(not played(name, seed, regularization=0.05)[0] for seed in range(30))
    assert (failed <= 30 * DELTA + 3 * math.sqrt(30 * DELTA * (1 - DELTA))) == proven


@pytest.mark.parametrize("name", confidence.WIDTHS)
def test_policies_have_the_width_that_was_chosen(name):
    """IGP-UCB with delta, GP-TS with delta / 2; it goes through a specification."""
    for kind, delta in ((sb.IGPUCB, 0.1), (sb.GPTS, 0.05), (sb.BKB, 0.1)):
        policy = kind(SPACE, KERNEL, noise=0.7, regularization=0.3, rkhs_norm=1.4, confidence=name)
        policy.tell(SPACE.points([3])[0], 1.0)
        gain = policy.information_gain
        assert policy.width == confidence.width(name, gain, delta, 1.4, 0.7, 0.3)
        assert kind.from_dict(policy.to_dict()).width == confidence.width(name, 0.0, delta, 1.4, 0.7, 0.3)


def test_a_store_older_than_the_choice_is_of_the_default():
    """Runs kept before there was a choice go on, with the default alone."""
    now = sb.IGPUCB(SPACE, KERNEL).to_dict()
    older = {key: value for key, value in now.items() if key not in ("confidence", "oversampling")}
    assert differences(older, now) == []
    other = sb.IGPUCB(SPACE, KERNEL, confidence="whitehouse").to_dict()
    assert differences(older, other) == ["confidence: stored 'improved', given 'whitehouse'"]


@pytest.mark.parametrize("kind", [sb.RGPUCB, sb.SWGPUCB, sb.WGPUCB])
def test_policies_that_forget_take_the_choice(kind):
    memory = {} if kind is sb.WGPUCB else {"memory": 5}
    policy = kind(SPACE, KERNEL, noise=0.7, regularization=0.3, rkhs_norm=1.4, confidence="flynn-reeb", **memory)
    policy.tell(SPACE.points([3])[0], 1.0)
    expected = confidence.martingale_mixture(policy.information_gain, 0.1, 1.4, 0.7, 0.3)
    assert policy.information_gain > 0.1
    assert policy.width == expected


def test_a_norm_that_doubles_goes_with_every_width():
    policy = sb.IGPUCB(SPACE, KERNEL, noise=0.1, regularization=0.01, rkhs_norm="double", confidence="flynn-reeb")
    for candidate in range(0, 40, 4):
        policy.observe(candidate, 9.0 * (-1) ** candidate)
        policy.observe(candidate + 1, -9.0)
    assert policy.norm > 1.0
    assert policy.width == confidence.martingale_mixture(policy.information_gain, 0.1, policy.norm, 0.1, 0.01)


# ---- linear bandits


def linear(seed, dimension, arms=60):
    """A space of arms in the unit ball, and a function x'theta with |theta| = 1, which is its norm."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((arms, dimension))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    theta = rng.standard_normal(dimension)
    return sb.Points(x), sb.TableEnvironment(sb.Points(x), x @ theta / np.linalg.norm(theta), sb.GaussianNoise(0.5), 0)


@pytest.mark.parametrize("regularization", [0.1, 1.0, 4.0])
def test_whitehouse_with_a_linear_kernel_is_oful(regularization):
    """The same index at all arms after every round, so the same choices; B is the bound S on theta."""
    space, environment = linear(3, 6)
    policy = sb.IGPUCB(
        space, sb.Linear(), noise=0.5, rkhs_norm=1.0, delta=0.01, confidence="whitehouse", regularization=regularization
    )
    assert policy.engine == "weights"
    run = sb.simulate(policy, environment, 60)
    arms = space.points()
    for t in range(60):
        played = arms[run.candidate[:t]]
        index = naive_policies.oful_indices(played, run.y[:t], arms, 0.5, 1.0, regularization, 0.01)
        assert index[run.candidate[t]] == pytest.approx(index.max(), rel=1e-9)
    index = naive_policies.oful_indices(arms[run.candidate], run.y, arms, 0.5, 1.0, regularization, 0.01)
    mean, std = policy.posterior(arms)
    np.testing.assert_allclose(mean + policy.width * std, index, rtol=1e-10)


@pytest.mark.slow
def test_it_covers_linear_functions():
    """All arms and rounds of 200 draws: failures at most delta, with three standard errors' room for chance.

    Half the width fails more often, so that the number says something.
    """
    seeds, failed = 200, np.zeros(2)
    for seed in range(seeds):
        space, environment = linear(seed, 4)
        given = {"noise": 0.5, "regularization": 0.25, "rkhs_norm": 1.0, "delta": DELTA, "confidence": "whitehouse"}
        policy, truth, largest = sb.IGPUCB(space, sb.Linear(), **given), environment.table(), 0.0
        for t in range(1, 151):
            engine = policy.model.engine
            errors = np.abs(truth - engine.mean()) / np.sqrt(engine.variance())
            largest = max(largest, float(errors.max()) / policy.width)
            candidate = policy.choose()
            policy.observe(candidate, truth[candidate] + 0.5 * np.random.default_rng([seed, t]).standard_normal())
        failed += largest > 1.0, largest > 0.5
    most = seeds * DELTA + 3 * math.sqrt(seeds * DELTA * (1 - DELTA))
    assert failed[0] <= most < failed[1]


# ---- the convex problem


def observed(gram, seed, count=8):
    """Covariances and noisy values of f at some points, all candidates' covariances with them, and f."""
    rng = np.random.default_rng(seed)
    function = sb.RKHSFunction.sparse(SPACE, KERNEL, sb.GaussianNoise(NOISE), seed=seed)
    numbers = rng.integers(SPACE.size, size=count)
    y = function.table()[numbers] + NOISE * rng.standard_normal(count)
    options = {"delta": DELTA, "rkhs_norm": function.rkhs_norm, "noise": NOISE, "regularization": 1.0}
    return numbers, y, function, options, (gram[np.ix_(numbers, numbers)], gram[numbers], gram.diagonal(), y)


def test_at_alpha_lambda_the_bounds_have_the_closed_form(gram):
    numbers, y, function, options, arrays = observed(gram, 0)
    lower, upper = confidence.mixture_bounds(*arrays, **options, ratios=np.ones(1))
    gp = GP(None, SPACE.points(), 0.0, gram)
    for number, value in zip(numbers, y, strict=True):
        gp.observe(number, value, 1.0)
    mean, variance = gp.mean_variance()
    width = confidence.martingale_mixture(gp.information_gain(), DELTA, function.rkhs_norm, NOISE, 1.0)
    np.testing.assert_allclose(upper, mean + width * np.sqrt(variance), atol=1e-9)
    np.testing.assert_allclose(lower, mean - width * np.sqrt(variance), atol=1e-9)


def test_the_dual_is_the_convex_problem(gram):
    """max f(x) over |f(X) - y|^2 <= r^2, |f| <= B, solved directly in coefficients of the covariance functions."""
    numbers, y, function, options, arrays = observed(gram, 1, count=5)
    number = 17
    _, upper = confidence.mixture_bounds(*arrays, **options, ratios=np.logspace(-4, 4, 2001))
    inside = gram[np.ix_(numbers, numbers)]
    radius = float(y @ np.linalg.solve(inside + np.eye(5), y))
    radius += np.linalg.slogdet(np.eye(5) + inside)[1] + 2 * math.log(1 / DELTA)
    every = np.append(numbers, number)
    factor = np.linalg.cholesky(gram[np.ix_(every, every)] + 1e-12 * np.eye(6))  # f(every) = factor @ c, |f| = |c|
    constraints = [
        NonlinearConstraint(lambda c: ((factor[:5] @ c - y) ** 2).sum(), -np.inf, radius),
        NonlinearConstraint(lambda c: c @ c, -np.inf, function.rkhs_norm**2),
    ]
    start = factor.T @ np.linalg.solve(gram[np.ix_(every, every)] + np.eye(6), np.append(y, 0.0))
    solved = minimize(lambda c: -factor[5] @ c, start, constraints=constraints, method="SLSQP", options={"ftol": 1e-12})
    assert solved.success
    assert upper[number] == pytest.approx(-solved.fun, abs=1e-4)


@pytest.mark.slow
def test_the_minimum_over_alpha_is_sharper_and_covers(gram):
    """In 100 runs: failures at most delta with room for chance, never outside the closed form."""
    failed, narrower = 0, []
    for seed in range(100):
        _, _, function, options, arrays = observed(gram, seed, count=30)
        lower, upper = confidence.mixture_bounds(*arrays, **options)
        closed = confidence.mixture_bounds(*arrays, **options, ratios=np.ones(1))
        assert (upper <= closed[1] + 1e-12).all()
        assert (lower >= closed[0] - 1e-12).all()
        failed += not ((lower <= function.table()).all() and (function.table() <= upper).all())
        narrower.append(((upper - lower) / (closed[1] - closed[0])).mean())
    assert failed <= 100 * DELTA + 3 * math.sqrt(100 * DELTA * (1 - DELTA))
    assert np.mean(narrower) < 0.98
