"""ET-GP-UCB: how soon a change is noticed, and how often one that did not happen."""

import numpy as np
import pytest

import scalable_bandits as sb
from scalable_bandits.policies import etgpucb
from scalable_bandits.policies.etgpucb import largest_error
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy

SPACE = sb.Grid([[0, 1], [0, 1]], (12, 12))
KERNEL = sb.RBF(0.25)
NOISE = 0.1
RUNS = 100


def drawn(rng):
    """Values (n,) of a function drawn from the prior."""
    covariance = KERNEL.block(SPACE.points())
    return np.linalg.cholesky(covariance + 1e-9 * np.eye(len(covariance))) @ rng.standard_normal(len(covariance))


def policy_of(run, **options):
    return sb.ETGPUCB(SPACE, KERNEL, noise=NOISE, regularization=NOISE**2, seed=run, scale=5.0, **options)


def play(policy, values, rounds, rng):
    for _ in range(rounds):
        number = policy.propose()
        policy.observe(number, values[number] + NOISE * rng.standard_normal())
    return number


@pytest.mark.slow
def test_an_abrupt_change_is_noticed_within_fifty_rounds():
    """In at least 90 of 100 runs: an independent draw of the prior, given that it differs by 3 at the point played."""
    noticed, at_once = 0, 0
    covariance = KERNEL.block(SPACE.points())
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        policy, before = policy_of(run), drawn(rng)
        played = play(policy, before, 100, rng)
        known = len(policy.resets)
        after = drawn(rng)
        after += covariance[played] / covariance[played, played] * (before[played] - 3.0 - after[played])
        for t in range(50):
            play(policy, after, 1, rng)
            if len(policy.resets) > known:
                noticed += 1
                at_once += t < 3
                break
    assert noticed >= 90
    assert at_once >= 80, "three deviations at the point that is played: nearly always at once"


def resets_without_a_change(probability):
    """Number of the runs of 60 rounds with a reset."""
    count = 0
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        policy = policy_of(run, reset_probability=probability)
        play(policy, drawn(rng), 60, rng)
        count += bool(policy.resets)
    return count


@pytest.mark.slow
def test_without_a_change_resets_are_as_rare_as_stated(monkeypatch):
    """In at most delta_B of the runs, with three standard errors of 100 runs; with half of the bound in more."""
    counts = [resets_without_a_change(probability) for probability in (0.5, 0.05)]
    for count, probability in zip(counts, (0.5, 0.05), strict=True):
        assert count <= RUNS * probability + 3.0 * np.sqrt(RUNS * probability * (1.0 - probability))
    assert counts[1] <= 1, "a union bound is far from sharp"
    monkeypatch.setattr(etgpucb, "largest_error", lambda *given: 0.5 * largest_error(*given))
    assert resets_without_a_change(0.05) > 20


def test_after_a_reset_the_round_that_caused_it_is_known():
    policy = policy_of(0)
    policy.tell(np.array([[0.0, 0.0]] * 3), [0.0, 0.1, -0.1])
    policy.tell([0.0, 0.0], 5.0)
    assert policy.resets == [4]
    assert policy._remembered == 1
    mean, _ = policy.posterior([0.0, 0.0])
    assert mean == pytest.approx(5.0 / (1.0 + NOISE**2))
    twin = policy_of(0)
    twin.restore(policy.state())
    assert twin.resets == [4]
    twin.tell([0.0, 0.0], -5.0)
    assert (twin.resets, policy.resets) == ([4, 5], [4])


@pytest.mark.parametrize("given", [{"rkhs_norm": "double", "theorem": 3}, {"refit": 5}])
def test_what_would_need_all_observations_is_refused(given):
    with pytest.raises(ValueError, match=r"(rkhs_norm|refit): got .* where observations are forgotten"):
        policy_of(0, **given)


def test_a_reset_that_is_interrupted_forgets_nothing(monkeypatch):
    """The next attempt resets, once."""
    policy, twin = policy_of(0), policy_of(0)
    for each in (policy, twin):
        each.tell(np.array([[0.0, 0.0]] * 3), [0.0, 0.1, -0.1])
    before = policy.posterior([0.0, 0.0])

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(GaussianProcessPolicy, "learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            policy.tell([0.0, 0.0], 5.0)
    assert (policy.resets, policy._remembered, policy.posterior([0.0, 0.0])) == ([], 3, before)
    for each in (policy, twin):
        each.tell([0.0, 0.0], 5.0)
    assert policy.resets == twin.resets == [4]
    assert policy.posterior([0.0, 0.0]) == twin.posterior([0.0, 0.0])
