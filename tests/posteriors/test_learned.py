"""A learned prior: its transform, what it learns, and that this depends on the observations and their order alone."""

import copy
import math
import warnings

import numpy as np
import pytest
import threadpoolctl
from hypothesis import given
from hypothesis import strategies as st
from naive import kernels
from naive import learned as naive

import scalable_bandits as sb
from scalable_bandits.posteriors.hyperparameters.transform import half_ranked, standardized
from scalable_bandits.posteriors.models import learned as learned_module
from scalable_bandits.posteriors.models import refitted, search, trust_region
from scalable_bandits.posteriors.state import copied

VALUES = st.lists(st.floats(-1e6, 1e6).map(lambda y: round(y, 3)), min_size=1, max_size=30)
BOX = sb.Box([[-1.0, 3.0], [0.0, 0.5]])


def function(x):
    return np.sin(2.0 * x[..., 0]) - 4.0 * (x[..., 1] - 0.2) ** 2


def told(policy, count, seed=0):
    """Tell a policy values at random points of `BOX`."""
    low, high = np.array(BOX.bounds).T
    x = low + (high - low) * np.random.default_rng(seed).random((count, 2))
    policy.tell(x, function(x))
    return x


# ---- the transform


@given(VALUES, st.integers(0, 2**32))
def test_transform(ys, seed):
    weights = np.random.default_rng(seed).uniform(0.1, 1.0, len(ys)) if seed else np.ones(len(ys))
    found = half_ranked(np.array(ys), weights)(np.array(ys))
    np.testing.assert_allclose(found, naive.half_ranked(ys, weights.tolist()), atol=1e-6)


@pytest.mark.parametrize("others", [[], [-1.0, -2.0]])
def test_differences_that_vanish(others):
    """Where squares of differences of the better half vanish, values are standardised, as if they were equal."""
    ys = np.array([1e-155 * i for i in range(6)] + others)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = half_ranked(ys, np.ones(len(ys))), standardized(ys)
    np.testing.assert_array_equal(found(ys), expected(ys))
    assert found.scale == expected.scale


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_the_middle_of_an_odd_number_of_values_belongs_to_the_better_half(weight):
    """Whatever the rounding of its rank: the scale of the worse half depends on it."""
    for n in range(3, 80, 2):
        y = np.sort(np.random.default_rng(n).standard_normal(n))
        transform, middle = half_ranked(y, np.full(n, weight)), y[n // 2]
        spread = math.sqrt(((y[n // 2 :] - middle) ** 2).mean())
        worst = spread * naive.NormalDist().inv_cdf((n - 0.5) / n)
        z = transform(y)
        assert (z[n // 2] - z[0]) * transform.scale == pytest.approx(worst, rel=1e-9), n


@pytest.mark.parametrize("transform", [standardized, lambda y: half_ranked(y, np.ones(len(y)))])
def test_values_whose_squares_vanish_are_named(transform):
    """And those of 1e-140 are not equal."""
    y = np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(transform(1e-140 * y)(1e-140 * y), transform(y)(y))
    with pytest.warns(UserWarning, match=r"^y: values that differ by 3e-200 are learned as equal"):
        assert np.ptp(transform(1e-200 * y)(1e-200 * y)) < 1e-190


@given(VALUES)
def test_transform_keeps_the_order_and_has_an_inverse(ys):
    y = np.sort(np.unique(ys))
    transform = half_ranked(np.array(ys), np.ones(len(ys)))
    z = transform(y)
    assert (np.diff(z) >= 0.0).all()
    strict = np.append(np.diff(z) > 1e-9, True)  # of equal images the largest value is the inverse
    np.testing.assert_allclose(transform.inverse(z)[strict], y[strict], rtol=1e-6, atol=1e-6 * max(1, np.abs(y).max()))


def test_transform_beyond_the_observed_values():
    y = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    transform = half_ranked(y, np.ones(5))
    z = transform(np.array([3.0, 4.0, 5.0, -7.0, 0.0]))
    assert z[2] - z[1] == pytest.approx(z[1] - z[0])  # linear above the best
    assert z[3] == z[4]  # the worst bounds the others
    assert transform.inverse(transform(np.array([9.0])))[0] == pytest.approx(9.0)


def test_values_that_are_equal():
    ones = np.ones(4)
    assert half_ranked(ones, ones)(ones).tolist() == [0.0] * 4
    z = half_ranked(np.array([1.0, 1.0, 1.0, 0.0]), ones)(np.array([1.0, 0.0]))  # the better half are equal
    np.testing.assert_allclose(z, [3**-0.5, -(3**0.5)])


@given(VALUES.filter(lambda ys: np.std(ys) > 1e-3))
def test_standardized(ys):
    z = standardized(np.array(ys))(np.array(ys))
    assert z.mean() == pytest.approx(0.0, abs=1e-6)
    assert z.std() == pytest.approx(1.0)


# ---- what is learned


def density_at(prior, x, y, logs):
    """Density by the oracle, in sides of the box."""
    sides = np.array([4.0, 0.5])
    scale, lengths, noise = math.exp(logs[0]), np.exp(logs[1:3]), math.exp(logs[3])
    usual = np.log(0.3 * math.sqrt(2.0) * sides)
    priors = [(logs[0], 0.0, 2.0), *zip(logs[1:3], usual, (1.0, 1.0), strict=True), (logs[3], -8.0, 4.0)]

    kernel = kernels.scaled(scale, kernels.matern52(tuple(lengths)))
    z = naive.half_ranked(y.tolist(), naive.declustered(x, sides))
    return naive.density(x, z, kernel, [noise] * len(y), priors)


def uncertain_at(x, z, policy):
    """The oracle's variances, on `BOX`."""
    sides = np.array([4.0, 0.5])
    logs = np.log([*(p.value for p in policy.model.kernel.hyperparameters), policy.model.noise])
    usual = np.log(0.3 * math.sqrt(2.0) * sides)
    triples = [(0.0, 0.0, 2.0), *((0.0, each, 1.0) for each in usual), (0.0, -8.0, 4.0)]
    low = np.log([1e-3, *(0.01 * sides), 1e-8])
    high = np.log([1e3, *(100.0 * sides), 100.0])

    def kernel_of(logs):
        scale, *lengths = np.exp(logs[:-1])
        return kernels.scaled(scale, kernels.matern52(tuple(lengths)))

    return naive.uncertain(x, np.array(z), kernel_of, logs, triples, (low, high))


@pytest.mark.parametrize("repeats", [1, 4])
@pytest.mark.sampled(2)
def test_hyperparameters_are_a_maximum_of_the_density(repeats):
    """The oracle has a row for every observation, also of one point."""
    x = np.repeat(told(sb.GPEI(BOX), 60 // repeats), repeats, axis=0)
    y = function(x) + 0.2 * np.random.default_rng(1).standard_normal(60)
    policy = sb.GPEI(BOX)
    policy.tell(x, y)
    prior = policy.model
    logs = np.log([*(p.value for p in policy.model.kernel.hyperparameters), prior.noise])
    best, mean = density_at(prior, x, y, logs)
    assert mean == pytest.approx(prior.constant_mean, abs=1e-6)
    for k in range(4):
        for step in (-0.05, 0.05):
            moved = logs.copy()
            moved[k] += step
            assert density_at(prior, x, y, moved)[0] < best + 1e-9
    start = np.log([1.0, *(0.3 * math.sqrt(2.0) * np.array([4.0, 0.5])), math.exp(-8.0)])
    assert density_at(prior, x, y, start)[0] < best - 1.0
    assert 0.02 < prior.noise < 0.3  # 0.04 over the variance of y, with room for chance


def test_posterior():
    policy = sb.GPEI(BOX)
    x = told(policy, 12)
    at = np.array([[0.0, 0.1], [2.5, 0.4]])
    model = policy.model
    scale, *lengths = (p.value for p in model.kernel.hyperparameters)
    prior = model
    z = naive.half_ranked(function(x).tolist(), naive.declustered(x, (4.0, 0.5)))

    kernel = kernels.scaled(scale, kernels.matern52(tuple(lengths)))
    means, _ = naive.posterior(x, z, kernel, [prior.noise] * 12, prior.constant_mean, at)
    variances = uncertain_at(x, z, policy)(at, means)
    transform = prior.transform
    mean, std = policy.posterior(at)
    np.testing.assert_allclose(mean, transform.inverse(means), atol=1e-7)
    deviations = transform.inverse(means + np.sqrt(variances)) - transform.inverse(means - np.sqrt(variances))
    np.testing.assert_allclose(std, 0.5 * deviations, rtol=1e-3)


# ---- repeats


def test_repeats_are_what_they_would_be_a_little_apart():
    exact, near = sb.GPEI(sb.Box([[0, 1]])), sb.GPEI(sb.Box([[0, 1]]))
    exact.tell([[0.5], [0.5]], [1.0, 3.0])
    near.tell([[0.5], [0.5 + 1e-9]], [1.0, 3.0])
    np.testing.assert_allclose(exact.posterior([0.5]), near.posterior([0.5]), rtol=1e-6)
    assert exact.posterior([0.5])[1] > 0.4
    rng = np.random.default_rng(0)
    x = np.repeat(np.linspace(0.1, 0.9, 5), 20)[:, None]
    y = np.sin(6.0 * x[:, 0]) + rng.standard_normal(100)
    exact, near = sb.GPEI(sb.Box([[0, 1]])), sb.GPEI(sb.Box([[0, 1]]))
    exact.tell(x, y)
    near.tell(x + 1e-6 * rng.random((100, 1)), y)
    assert exact.model.describe().noise == pytest.approx(1.0, abs=0.3)
    assert exact.model.describe().noise == pytest.approx(near.model.describe().noise, rel=0.05)


@pytest.mark.filterwarnings("ignore:.*all 24 settings")
@pytest.mark.parametrize("space", ["listed", "named"])
@pytest.mark.sampled(2)
def test_a_table_without_noise_is_asked_once(space):
    """After two repeats that agree, every setting is asked before any is asked again."""
    rng = np.random.default_rng(0)
    values, seen = rng.standard_normal((6, 4)), []
    named = sb.SearchSpace({"a": sb.Categorical(list("abcdef")), "b": sb.Categorical(list("uvwx"))})
    policy = sb.GPEI(named if space == "named" else sb.Points(rng.random((24, 3))))
    points = None if space == "named" else policy.space.points()
    for _ in range(32):
        x = policy.ask()
        if points is None:
            k = "abcdef".index(x["a"]) * 4 + "uvwx".index(x["b"])
        else:
            k = int(np.argmin(np.abs(points - x).sum(axis=1)))
        seen.append(k)
        policy.tell(x, values.flat[k])
    assert len(set(seen)) == 24
    assert len(set(seen[:28])) == 24
    assert np.bincount(seen[: seen.index(max(set(seen), key=seen.index)) + 1]).max() <= 3


@pytest.mark.parametrize(
    "noisy", [pytest.param(True, marks=pytest.mark.slow), pytest.param(False, marks=pytest.mark.long)]
)
def test_intervals_hold_as_often_as_they_say(noisy):
    """On functions drawn from the model's own prior; 40 of them give the share to within some .03."""
    from benchmarks import coverage

    held = []
    for seed in range(40):
        draw = coverage.drawn(seed, noisy)
        policy = sb.GPEI(sb.Box([[0, 1]] * draw.x.shape[1]))
        policy.tell(draw.x[draw.order], draw.y)
        mean, std = policy.posterior(draw.x)
        better = mean >= np.median(draw.y)
        held += (np.abs(draw.f - mean) <= coverage.FACTOR * std)[better].tolist()
    assert 0.87 < np.mean(held) <= 0.99


def told_in_turn(values, repeats):
    policy = sb.GPEI(sb.Points(np.random.default_rng(5).random((len(values), 2))))
    for i, y in enumerate(values):
        for _ in range(repeats if i < 3 else 1):
            policy.tell(policy.space.points()[i], y)
    return policy.model


@pytest.mark.filterwarnings("ignore:.*all 12 settings")
def test_what_shows_that_a_function_has_no_noise():
    rng = np.random.default_rng(0)
    assert told_in_turn(rng.standard_normal(12), 2).exact_values
    assert not told_in_turn(rng.standard_normal(12), 1).exact_values  # nothing was repeated
    assert not told_in_turn(rng.integers(0, 2, 12), 2).exact_values  # 0 and 1 agree by chance
    assert not told_in_turn(rng.standard_normal(4), 2).exact_values  # too few to know how often values agree
    noisy = told_in_turn(rng.standard_normal(12), 2)
    noisy.observe(0, noisy.ys[0] + 1e-9, 1.0)
    assert not noisy.exact_values


def test_a_space_that_is_all_measured_says_so():
    policy = sb.GPEI(sb.SearchSpace({"n": sb.Integer(1, 3)}))
    settings = [{"n": n} for n in (1, 2, 3)] * 3
    policy.tell(settings[:7], [0.0, 0.7, 0.3] * 2 + [0.0])
    with pytest.warns(sb.AllMeasured, match="all 3 settings"):
        policy.tell(settings[7:], [0.7, 0.3])


def test_noisy_points_are_measured_again():
    rng = np.random.default_rng(3)
    policy, seen = sb.GPEI(sb.SearchSpace({"n": sb.Integer(1, 4)})), []
    for _ in range(40):
        x = policy.ask()
        seen.append(x["n"])
        policy.tell(x, [0.0, 0.2, 0.5, 0.4][x["n"] - 1] + 0.5 * rng.standard_normal())
    assert np.bincount(seen).max() > 10
    assert not len(policy.model.settled([]))


@pytest.mark.parametrize("space", [sb.Grid([[-1, 3], [0, 0.5]], 7), BOX], ids=["grid", "box"])
@pytest.mark.sampled(2)
def test_units_of_y_do_not_matter(space):
    plain, scaled = sb.GPEI(space), sb.GPEI(space)
    for _ in range(16):
        x, other = plain.ask(), scaled.ask()
        np.testing.assert_allclose(x, other, atol=1e-5)
        plain.tell(x, function(x))
        scaled.tell(other, 1e6 * function(other) - 3e5)
    assert scaled.best().mean == pytest.approx(1e6 * plain.best().mean - 3e5, rel=1e-3)


def test_known_noise():
    policy = sb.GPEI(BOX, noise=0.1)
    x = told(policy, 15)
    prior, y = policy.model, function(x)
    assert policy.regularization == pytest.approx(0.01)
    _ = policy.model.engine  # learns
    assert prior.noise == pytest.approx(0.01 / y.var())
    np.testing.assert_allclose(prior.transform(y), (y - y.mean()) / y.std())


# ---- only the observations and their order matter


def asked(policy, rounds, look=False):
    xs = []
    for _ in range(rounds):
        if look:
            policy.posterior([0.0, 0.1])
            policy.best()
        x = policy.ask()
        xs.append(x)
        policy.tell(x, function(x))
    return np.array(xs)


def test_looking_changes_nothing(monkeypatch):
    monkeypatch.setattr(learned_module, "EVERY", 15)
    quiet, seen = sb.GPEI(BOX, seed=3), sb.GPEI(BOX, seed=3)
    np.testing.assert_array_equal(asked(quiet, 24), asked(seen, 24, look=True))


@pytest.mark.parametrize("kind", [sb.GPEI, sb.GPPI])
@pytest.mark.sampled(2)
def test_all_at_once_is_one_by_one(kind, monkeypatch):
    monkeypatch.setattr(learned_module, "EVERY", 12)
    first, second = kind(BOX, seed=1), kind(BOX, seed=1)
    x = asked(sb.GPPI(BOX, seed=1), 25)
    for each in x:
        if kind is sb.GPPI:  # asking or not makes no difference to it; to GPEI only what was asked for is a step
            first.ask()
            first.abandon()
        first.tell(each, function(each))
    second.tell(x, function(x))
    np.testing.assert_array_equal(first.ask(), second.ask())


@pytest.mark.parametrize("rounds", [0, 1, 7, 13, 26])
@pytest.mark.sampled(5)
def test_a_restored_policy_goes_on_alike(rounds, monkeypatch):
    monkeypatch.setattr(learned_module, "EVERY", 20)
    first, second = sb.GPEI(BOX, seed=2), sb.GPEI(BOX, seed=2)
    asked(first, rounds)
    state = copied(first.state())
    domain = first.domain
    second._introduce(np.arange(domain.size), domain.points())
    second.restore(state)
    np.testing.assert_array_equal(asked(first, 4), asked(second, 4))


def test_a_restored_policy_knows_the_noise_before_it_chooses():
    """On few candidates with much noise, which are worth more than three measurements each."""
    grid, rng = sb.Grid([[0, 1]], 6), np.random.default_rng(0)
    policy = sb.GPEI(grid)
    for i in range(32):
        x = policy.ask()
        policy.tell(x, float(np.sin(5 * x[0]) + 0.5 * rng.normal()))
        if i >= 24:
            restored = sb.GPEI(grid)
            restored.restore(copied(policy.state()))
            assert restored.best() == policy.best()
            np.testing.assert_array_equal(restored.ask(), copy.deepcopy(policy).ask())


@pytest.mark.parametrize(("kind", "most"), [(sb.GPPI, 3000), (sb.GPEI, 1500)])
def test_milestones(kind, most):
    """As far as one and a half times the reach, which is half as long beside a trust region."""
    found, n, prior = [], 2, kind(BOX).model
    while n < most:
        n = prior.next_milestone(n)
        found.append(n)
    growth = np.diff(found) / found[:-1]
    large = np.array(found[:-1]) >= 200
    assert (growth[large] <= 0.1).all()
    assert (growth[large] > 0.065).all()
    assert max(np.diff(found)) == most // 15
    assert len(found) < 75


def test_fits_and_searches_have_one_thread_of_blas(monkeypatch):
    """Several wait for each other for ages where another process needs their cores, and their last bits differ."""
    seen = []

    def noting(function):
        def noted(*args, **given):
            seen.extend(pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas")
            return function(*args, **given)

        return noted

    places = [(learned_module, "likeliest"), (refitted, "learn_kernel"), (search, "maximize_over_box"),
              (trust_region, "likeliest"), (trust_region, "maximize_over_box")]  # fmt: skip
    for module, name in places:
        monkeypatch.setattr(module, name, noting(getattr(module, name)))
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        for policy in (sb.GPEI(BOX), sb.GPEI(BOX, sb.RBF(0.5), noise=0.1, refit=3)):
            seen.clear()
            told(policy, 12)
            policy.ask()
            policy.tell([0.0, 0.1], 1.0)
            assert len(seen) >= 2
            assert set(seen) == {1}


def test_a_value_lifts_a_failure():
    policy, other = sb.PIMS(BOX), sb.PIMS(BOX)
    for each in (policy, other):
        told(each, 15)
    policy.tell_failure([0.5, 0.2])
    for each in (policy, other):
        each.tell([0.5, 0.2], 0.8)
    np.testing.assert_array_equal(policy.posterior([0.6, 0.2]), other.posterior([0.6, 0.2]))


def test_what_a_failure_is_worth_does_not_depend_on_when_it_is_asked():
    """Beyond 200 observations fits are rare, and the worst value may come in between."""
    found = []
    for look in (True, False):
        policy = sb.PIMS(BOX, noise=0.1)
        told(policy, 211)
        policy.tell_failure([0.5, 0.2])
        for y in (0.3, -30.0):
            if look:
                policy.best()
            policy.tell([2.5, 0.2 + 0.001 * y], y)
        found.append(policy.posterior([0.5, 0.21]))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("value", [0.1, 1.0, -1e6])
def test_a_constant_is_recognised_despite_rounding(value):
    policy = sb.GPEI(BOX)
    policy.tell(BOX.candidates(12, 0).points(), [value] * 12)
    mean, deviation = policy.posterior([0.0, 0.1])
    assert mean == pytest.approx(value)
    assert 1e-6 < deviation < 1.0


def test_first_points_are_neither_repeated_nor_taken_from_what_is_pending():
    usual = sb.GPEI(BOX).ask(8)
    policy = sb.GPEI(BOX)
    policy.tell_failure(usual[3])
    assert not (policy.ask(6) == usual[3]).all(axis=1).any()
    policy = sb.GPEI(BOX)
    asked = policy.ask(3)
    policy.abandon(asked[0])
    assert not (policy.ask() == asked[1:]).all(axis=1).any()
    policy = sb.GPEI(BOX)
    policy.tell(usual[[1, 4, 5]], [1.0, 2.0, 3.0])
    assert len(np.unique(np.concatenate([policy.ask(6), usual[[1, 4, 5]]]), axis=0)) == 9


# ---- beyond the reach of an exact model


@pytest.fixture
def reach(monkeypatch):
    for module in (learned_module, trust_region):
        monkeypatch.setattr(module, "REACH", 60)
    return 60


def test_beyond_its_reach_a_model_is_approximate_and_says_so_once(reach):
    policy = sb.GPEI(BOX)
    told(policy, reach)
    policy.best()
    told(policy, 40, seed=1)
    with pytest.warns(sb.ApproximateModel, match=r"^beyond 60 observations .* the best 20 observations and 40 of the"):
        policy.best()
    told(policy, 40, seed=2)
    policy.best()


@pytest.mark.slow
def test_approximate_beside_exact(reach):
    """Where values are among the best quarter they nearly agree."""
    at = BOX.candidates(300, 3).array
    approximate, exact = sb.GPEI(BOX), sb.GPEI(BOX)
    exact.model._reach = 150
    told(approximate, 150)
    told(exact, 150)
    with pytest.warns(sb.ApproximateModel):
        found = approximate.posterior(at)
    mean, deviation = exact.posterior(at)
    truth = function(at)
    good = truth > np.quantile(truth, 0.75)
    assert np.abs(found[0] - mean)[good].max() < 0.1 * truth.std()
    assert np.median(found[1][good] / deviation[good]) > 0.9
    assert approximate.best().mean == pytest.approx(exact.best().mean, abs=0.01)


@pytest.mark.slow
def test_approximate_models_have_the_best_and_an_even_share_of_the_others(reach):
    policy, y = sb.GPEI(BOX), np.random.default_rng(0).standard_normal(200)
    policy.tell(BOX.candidates(200, 0).array, y)
    with pytest.warns(sb.ApproximateModel):
        policy.best()
    kept = policy.model.observations.collapsed()[0]
    assert len(kept) == reach
    places = np.flatnonzero(np.isin(policy.model.numbers, kept))
    order = np.argsort(-y)
    assert set(order[:20]) <= set(places)
    others = np.sort(np.setdiff1d(places, order[:20]))
    assert np.diff(others).max() < 4 * (200 - 20) / 40


# ---- which policies learn, and what they refuse


@pytest.mark.parametrize("kind", [sb.GPEI, sb.GPPI, sb.GPUCB, sb.IGPUCB, sb.GPTS, sb.MeanOnly, sb.VarianceOnly])
@pytest.mark.parametrize("space", [sb.Grid([[-1, 3], [0, 0.5]], 6), BOX], ids=["grid", "box"])
@pytest.mark.filterwarnings("ignore:.*guarantees assume a known kernel")
@pytest.mark.sampled(6)
def test_policies_that_learn(kind, space):
    policy = kind(space)
    xs = asked(policy, 14)
    assert len(np.unique(xs[:10], axis=0)) == 10  # the first points are spread
    assert policy.best().mean <= 1.5
    assert not math.isinf(policy.width)


def test_widths_without_a_kernel():
    with pytest.warns(UserWarning, match="known kernel"):
        policy = sb.GPUCB(BOX)
    assert policy.width == 2.0
    with pytest.warns(UserWarning, match="known kernel"):
        policy = sb.GPUCB(sb.Grid([[0, 1]], 50))
    assert policy.width == pytest.approx(math.sqrt(2.0 * math.log(50 * math.pi**2 / (6 * 0.1))))


def test_first_points_fill_the_space():
    policy = sb.GPEI(sb.Box([[0, 1], [0, 1]]), seed=5)
    x = policy.ask(8)
    for half in (x[:, 0] < 0.5, x[:, 1] < 0.5):
        assert 3 <= half.sum() <= 5


def test_pending_points_are_avoided_where_noise_is_large():
    policy = sb.GPEI(BOX)
    x = told(policy, 30)
    noisy = sb.GPEI(BOX)
    noisy.tell(x, function(x) + 1.5 * np.random.default_rng(4).standard_normal(30))
    asked = noisy.ask(4)
    apart = np.abs((asked[:, None] - asked) / [4.0, 0.5]).max(axis=2)
    assert apart[np.triu_indices(4, 1)].min() > 1e-3


def test_observations_count_as_first_points():
    policy = sb.GPEI(BOX)
    told(policy, 10)
    model_based = policy.ask()
    fresh = sb.GPEI(BOX)
    assert not any((model_based == x).all() for x in fresh.ask(10))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sb.GPEI(sb.Arms(3)), "kernel"),
        (lambda: sb.BKB(sb.Grid([[0, 1]], 5)), "BKB learns none"),
        (lambda: sb.RGPUCB(sb.Grid([[0, 1]], 5), horizon=10), "learns none"),
        (lambda: sb.GPEI(BOX, noise=-1.0), "noise"),
        (lambda: sb.GPEI(sb.Grid([[0, 1]], 3), prior_mean=[0, 1, 2]), "prior_mean"),
    ],
)  # fmt: skip
def test_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_noise_of_a_measurement_needs_a_known_noise():
    policy = sb.GPEI(BOX)
    with pytest.raises(ValueError, match="learns the noise"):
        policy.tell([0.0, 0.1], 1.0, noise=0.1)
    assert policy.rounds == 0


# ---- what the model believes


@pytest.mark.slow
def test_beliefs_in_the_users_units():
    space = sb.SearchSpace(
        {
            "rate": sb.Real(1e-4, 1e-1, log=True),
            "idle": sb.Real(0, 50),
            "depth": sb.Integer(1, 11),
            "kind": sb.Categorical(["a", "b", "c"]),
        }
    )
    policy = sb.GPEI(space)
    rng = np.random.default_rng(0)
    points = space.draw(80, rng)
    settings = space.arguments(points)
    noise = 0.05 * rng.standard_normal(80)
    y = [math.log10(s["rate"]) ** 2 + 2.0 * (s["kind"] == "a") + e for s, e in zip(settings, noise, strict=True)]
    policy.tell(settings, y)
    beliefs = policy.model.describe()
    assert {each.name for each in beliefs.parameters[:2]} == {"rate", "kind"}
    assert max(each.influence for each in beliefs.parameters if each.name in ("idle", "depth")) < 0.5
    by_name = {each.name: each for each in beliefs.parameters}
    assert by_name["rate"].text == f"a factor of {1e3 ** by_name['rate'].lengthscale:.3g}"
    assert by_name["depth"].text == f"{10 * by_name['depth'].lengthscale:.3g}"
    assert 0.01 < beliefs.noise < 0.3  # 0.05, in units of the better half
    assert "rate: lengthscale a factor of" in str(beliefs)
    smaller = sb.GPEI(space, minimize=True)
    smaller.tell(settings, [-each for each in y])
    assert smaller.model.describe().mean == pytest.approx(-beliefs.mean)


def test_beliefs_of_a_given_kernel():
    policy = sb.GPEI(BOX, 4.0 * sb.Matern([1.0, 0.2], nu=2.5), noise=0.1, regularization=0.01, prior_mean=3.0)
    beliefs = policy.model.describe()
    assert (beliefs.output_scale, beliefs.noise, beliefs.mean) == pytest.approx((2.0, 0.1, 3.0))
    assert [each.lengthscale for each in beliefs.parameters] == [1.0, 0.2]


def test_influence_is_that_of_the_kernel():
    """1 minus the correlation of the two ends of a side, as a root: here of side 2 and lengthscale 3, and of side 1."""
    policy = sb.GPEI(sb.Box([[1.0, 3.0], [0.0, 1.0]]), 2.0 * sb.RBF((3.0, 0.5)), noise=0.1, regularization=0.01)
    found = {each.name: each.influence for each in policy.model.describe().parameters}
    assert found == pytest.approx({"x0": (1 - np.exp(-2 / 9)) ** 0.5, "x1": (1 - np.exp(-2.0)) ** 0.5})
