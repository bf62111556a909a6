"""ET-GP-UCB: how soon a change is noticed, and how often one that did not happen."""

import numpy as np
import pytest

import scalable_bandits as sb
from scalable_bandits.policies.etgpucb import largest_error

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


def test_without_a_change_resets_are_as_rare_as_stated():
    """In at most delta_B of the runs, with three standard errors of 100 runs; for a small one in none."""
    for probability in (0.5, 0.05):
        count = 0
        for run in range(RUNS):
            rng = np.random.default_rng(run)
            policy = policy_of(run, reset_probability=probability)
            play(policy, drawn(rng), 60, rng)
            count += bool(policy.resets)
        assert count <= RUNS * probability + 3.0 * np.sqrt(RUNS * probability * (1.0 - probability))


def test_the_bound_holds_with_the_stated_probability():
    """Of normal errors of 300 observations: one exceeds it with a probability of at most delta_B, and above 0."""
    rng, count = np.random.default_rng(0), 20_000
    for probability in (0.1, 0.9):
        exceeded = np.zeros(count, dtype=bool)
        for t in range(1, 301):
            errors = 0.3 * rng.standard_normal(count) + 0.2 * rng.standard_normal(count)
            exceeded |= np.abs(errors) > largest_error(t, 0.3, 0.2, probability)
        assert 0 < exceeded.mean() <= probability


def test_after_a_reset_the_round_that_caused_it_is_known():
    policy = policy_of(0)
    policy.tell(np.array([[0.0, 0.0]] * 3), [0.0, 0.1, -0.1])
    policy.tell([0.0, 0.0], 5.0)
    assert policy.resets == [4]
    assert policy.remembered == 1
    mean, _ = policy.posterior([0.0, 0.0])
    assert mean == pytest.approx(5.0 / (1.0 + NOISE**2))
    twin = policy_of(0)
    twin.restore(policy.state())
    assert twin.resets == [4]
    twin.tell([0.0, 0.0], -5.0)
    assert (twin.resets, policy.resets) == ([4, 5], [4])


def test_doubling_norms_are_refused():
    with pytest.raises(ValueError, match="rkhs_norm: got 'double'; allowed: a number where observations are forgotten"):
        policy_of(0, rkhs_norm="double", theorem=3)
