"""Bandits that learn each arm by itself: choices of the papers' algorithms, and regrets."""

import numpy as np
import pytest
from naive import arms as naive

import scalable_bandits as sb
from scalable_bandits.policies import independent_ts
from scalable_bandits.policies.successive_rejects import phase_lengths
from scalable_bandits.policies.ucb1 import ucb1_width
from scalable_bandits.randomness import generator

COUNT = 12
VALUES = np.linspace(0.0, 1.0, COUNT)[np.random.default_rng(2).permutation(COUNT)]
NUMBERS = {"noise": 0.4, "regularization": 0.3, "seed": 5}
ENVIRONMENT = sb.TableEnvironment(sb.Arms(COUNT), VALUES, sb.GaussianNoise(0.4), seed=6)
KINDS = [sb.UCB1, sb.IndependentTS, sb.SuccessiveRejects]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def make(kind, space, **given):
    horizon = {"horizon": 300} if kind is sb.SuccessiveRejects else {}
    return kind(space, **{**NUMBERS, **horizon, **given})


def value(t, arm):
    return VALUES[arm] + ENVIRONMENT.noise_at(t)


def order(count=COUNT, seed=5):
    """Arms in the seeded order."""
    return generator(seed, "order of arms").permutation(count).tolist()


# ---- the papers' choices


def test_ucb1_plays_as_in_the_paper():
    run = sb.simulate(make(sb.UCB1, sb.Arms(COUNT)), ENVIRONMENT, 300)
    expected = naive.ucb1(value, COUNT, 300, NUMBERS["noise"], order())
    assert run.candidate.tolist() == expected
    assert len(set(expected[COUNT:])) == COUNT  # all are played again


def test_the_width_of_ucb1_is_in_standard_errors():
    policy = make(sb.UCB1, sb.Arms(2))
    policy.tell([0, 1, 0], [1.0, 2.0, 3.0])
    mean, std = policy.posterior([0, 1])
    indices = naive.ucb1_indices([(0, 1.0, 1.0), (1, 2.0, 1.0), (0, 3.0, 1.0)], [], [0, 1], 0.4)
    np.testing.assert_allclose(mean + policy.width * std, [indices[0], indices[1]])
    assert policy.width == ucb1_width(3, 0.4, 0.3)
    assert ucb1_width(7, 0.5, 1.0) == pytest.approx(np.sqrt(2 * np.log(7)))  # rewards in [0, 1]


def test_ucb1_with_pending_arms_availability_sets_and_noise_of_their_own():
    policy, rng = make(sb.UCB1, sb.Arms(COUNT)), np.random.default_rng(3)
    observations, pending, indexed = [], [], 0
    for _ in range(150):
        allowed = rng.permutation(COUNT)[: rng.integers(1, COUNT)].tolist()
        for chosen in policy.ask(2, available=allowed).tolist():
            indices = naive.ucb1_indices(observations, pending, allowed, NUMBERS["noise"])
            best = max(indices.values())
            assert indices[chosen] == pytest.approx(best, rel=1e-12)
            if best == np.inf:
                assert chosen == next(arm for arm in order() if indices.get(arm) == np.inf)
            indexed += np.isfinite(best)
            pending.append(chosen)
        while len(pending) > rng.integers(4):
            arm, noise = pending.pop(int(rng.integers(len(pending)))), rng.choice([0.2, 0.4, 1.0])
            observations.append((arm, VALUES[arm] + noise * rng.standard_normal(), (NUMBERS["noise"] / noise) ** 2))
            policy.tell(arm, observations[-1][1], noise=noise)
    assert indexed > 100


def test_independent_thompson_sampling_plays_as_in_the_paper(monkeypatch):
    """Number for number, where every arm is drawn by itself."""
    monkeypatch.setattr(independent_ts, "FAR", np.inf)
    policy = make(sb.IndependentTS, sb.Arms(COUNT), prior_mean=0.4, prior_std=0.7)
    run = sb.simulate(policy, ENVIRONMENT, 300)
    expected = naive.independent_ts(
        value, COUNT, 300, 0.4, 0.7, 0.3, lambda t: generator(5, "draws of arms", t).random(COUNT).tolist()
    )
    assert run.candidate.tolist() == expected
    told = [(arm, y, 1.0) for arm, y in zip(run.candidate.tolist(), run.y.tolist(), strict=True)]
    posterior = [naive.normal_posterior(told, [], arm, 0.4, 0.7, 0.3) for arm in range(COUNT)]
    np.testing.assert_allclose(policy.posterior(np.arange(COUNT)), np.transpose(posterior), rtol=1e-12)


MEANS, STDS = np.array([0.0, 0.3, 0.5, -0.4]), np.array([1.0, 0.6, 0.2, 1.5])


@pytest.mark.parametrize("far", [np.inf, 3.0, 1.0, 0.0, -0.5])
@pytest.mark.slow
def test_the_largest_draw_has_its_distribution(far):
    """However many draws are made first: frequencies within five standard errors of those of plain draws."""
    count = 4_000
    plain = MEANS + STDS * np.random.default_rng(0).standard_normal((400_000, 4))
    p = np.bincount(plain.argmax(axis=1), minlength=4) / 400_000
    rng = np.random.default_rng(1)
    found = np.bincount([independent_ts.largest_draw(rng, MEANS, STDS, far) for _ in range(count)], minlength=4)
    assert (np.abs(found / count - p) <= 5 * np.sqrt(p * (1 - p) * (1 / count + 1 / 400_000))).all()


def test_independent_thompson_sampling_takes_pending_arms_for_observed():
    """The standard deviations of the draws; the means stay."""
    policy = make(sb.IndependentTS, sb.Arms(3), prior_std=0.7)
    policy.tell([0, 1], [1.0, 2.0], noise=[0.4, 0.2])
    policy.ask(3, available=[1])
    told = [(0, 1.0, 1.0), (1, 2.0, 4.0)]
    expected = [naive.normal_posterior(told, [1, 1, 1], arm, 0.0, 0.7, 0.3) for arm in range(3)]
    drawn = policy._arms.means, policy._arms.stds_with(policy.pending_points.numbers)
    np.testing.assert_allclose(np.transpose(drawn), expected, rtol=1e-12)


@pytest.mark.parametrize("horizon", [13, 50, 300])
def test_successive_rejects_plays_as_in_the_paper(horizon):
    policy = make(sb.SuccessiveRejects, sb.Arms(COUNT), horizon=horizon)
    run = sb.simulate(policy, ENVIRONMENT, horizon)
    expected, left = naive.successive_rejects(value, COUNT, horizon, order())
    assert len(expected) <= horizon
    assert run.candidate.tolist() == expected + [left] * (horizon - len(expected))
    assert policy.surviving.tolist() == [left] == [policy.best().x]


@pytest.mark.parametrize(("count", "horizon"), [(2, 7), (4, 23), (12, 300), (62, 1000), (1000, 1001)])
def test_phases_are_the_papers(count, horizon):
    lengths = phase_lengths(count, horizon)
    assert lengths.tolist() == naive.successive_rejects_lengths(count, horizon)[1:]
    assert lengths.sum() + lengths[-1] <= horizon


def test_successive_rejects_with_fewer_rounds_than_arms():
    """Distinct arms, in the seeded order; the recommendation is the best of those."""
    policy = make(sb.SuccessiveRejects, sb.Arms(COUNT), horizon=7)
    run = sb.simulate(policy, ENVIRONMENT, 7)
    assert run.candidate.tolist() == order()[:7]
    assert len(policy.surviving) == COUNT
    assert policy.best().x == run.candidate[np.argmax(run.y)]


def test_successive_rejects_goes_on_without_the_arms_that_fail():
    policy = make(sb.SuccessiveRejects, sb.Arms(4), horizon=60)
    for t in range(60):
        arm = policy.ask()
        policy.tell_failure(arm) if arm == 2 else policy.tell(arm, VALUES[arm] + 0.1 * np.sin(t))
    assert len(policy.surviving) == 1
    assert 2 not in policy.surviving
    assert policy.ask(available=[2, 0]) == 0  # rejected or the last: 2 is excluded


def test_successive_rejects_plays_rejected_arms_only_where_no_other_is_available():
    policy = make(sb.SuccessiveRejects, sb.Arms(COUNT))
    sb.simulate(policy, ENVIRONMENT, 250)
    rejected = np.setdiff1d(np.arange(COUNT), policy.surviving)
    assert 0 < len(rejected) < COUNT
    assert policy.ask(available=[*rejected, policy.surviving[0]]) == policy.surviving[0]
    assert policy.ask(available=rejected) == rejected[np.argmax(policy.posterior(rejected)[0])]


# ---- each of them


@pytest.mark.parametrize("kind", [sb.UCB1, sb.SuccessiveRejects])
def test_pending_arms_are_not_asked_for_again_before_all_have_been(kind):
    """Of an availability set, too."""
    policy = make(kind, sb.Arms(COUNT))
    assert policy.ask(5, available=[1, 2, 4, 7, 8]).tolist() == [arm for arm in order() if arm in (1, 2, 4, 7, 8)]
    assert sorted(policy.ask(COUNT - 5).tolist()) == [0, 3, 5, 6, 9, 10, 11]
    assert policy.ask() in range(COUNT)  # all are pending


@every_kind
def test_equal_points_are_one_arm(kind):
    """Whichever of them is available."""
    policy = make(kind, sb.Points([0.5, 0.2, 0.5, 0.5]))
    found = [float(policy.ask(available=[number])[0]) for number in (2, 1, 3)]
    assert found == [0.5, 0.2, 0.5]
    policy.tell([0.5, 0.2, 0.5], [1.0, 0.0, 2.0])
    assert policy.pending == []
    assert len(policy.observations.y) == 2
    for t in range(30):
        x = policy.ask()
        policy.tell(x, float(x[0]) + 0.1 * np.sin(t))
    assert policy.best().x.tolist() == [0.5]


@every_kind
def test_averages_are_weighted_by_the_noise(kind):
    """Those of the observations; of points without any, the prior's or nothing."""
    policy = make(kind, sb.Points([0.0, 0.3, 1.0]), noise=0.2, regularization=0.04)
    policy.tell([0.3, 0.3, 1.0], [1.0, 2.0, 5.0], noise=[0.2, 0.1, 0.2])
    found = policy.observations
    np.testing.assert_allclose(found.x.ravel(), [0.3, 1.0])
    np.testing.assert_allclose(found.y, [1.8, 5.0])
    np.testing.assert_allclose(found.noise_variance, [0.04 / 5, 0.04])
    mean, std = policy.posterior([0.0, 0.3, 1.0, 1.5])
    if kind is sb.IndependentTS:
        np.testing.assert_allclose(mean, [0.0, 9.0 / 5.04, 5.0 / 1.04, np.nan])
        np.testing.assert_allclose(std, [1.0, 0.2 / np.sqrt(5.04), 0.2 / np.sqrt(1.04), np.inf])
    else:
        np.testing.assert_allclose(mean, [np.nan, 1.8, 5.0, np.nan])
        np.testing.assert_allclose(std, [np.inf, 0.2 / np.sqrt(5), 0.2, np.inf])


@every_kind
@pytest.mark.parametrize(
    ("space", "allowed"),
    [
        (sb.Box([[0, 1]]), "such as Grid or Points"),
        (sb.SearchSpace({"a": [1, 2], "b": ["x", "y"]}), r"Settings\(space\)"),
    ],
    ids=["box", "search space"],
)
def test_spaces_without_candidates_are_refused(kind, space, allowed):
    with pytest.raises(ValueError, match=rf"^space: got .*; allowed: a finite space for {kind.__name__}, .*{allowed}"):
        make(kind, space)


@every_kind
def test_settings(kind):
    space = sb.Settings({"a": [1, 2, 4], "b": ["x", "y"]})
    policy = make(kind, space, minimize=True)
    for t in range(60):
        setting = policy.ask()
        policy.tell(setting, setting["a"] + (setting["b"] == "y") + 0.1 * np.sin(t))
    assert policy.best().x == {"a": 1, "b": "x"}


def test_a_prior_of_what_is_minimised_is_in_units_of_y():
    policy = make(sb.IndependentTS, sb.Arms(2), prior_mean=3.0, prior_std=0.5, minimize=True)
    assert policy.best() == (0, 3.0, pytest.approx(0.5))
    policy.tell(1, 2.0)
    assert policy.posterior(1)[0] == pytest.approx((3.0 / 0.25 + 2.0 / 0.3) / (1 / 0.25 + 1 / 0.3))


@pytest.mark.parametrize("kind", [sb.UCB1, sb.SuccessiveRejects])
def test_without_observations_there_is_no_recommendation(kind):
    with pytest.raises(ValueError, match=rf"^best: nothing has been told yet, and {kind.__name__} has no prior"):
        make(kind, sb.Arms(3)).best()


def test_successive_rejects_needs_a_horizon():
    with pytest.raises(ValueError, match="horizon: got None; allowed: a number of rounds"):
        sb.SuccessiveRejects(sb.Arms(3))
