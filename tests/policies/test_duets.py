"""DUETS against sums over single observations."""

import numpy as np
import pytest
from naive import agents
from naive import kernels as naive_kernels

import scalable_bandits as sb
from scalable_bandits.policies.duets import leverages, sparse_estimate, summary
from scalable_bandits.posteriors.regression import Regression
from scalable_bandits.randomness import derived_seed, generator

SETTINGS = {"noise": 0.05, "regularization": 0.05, "delta": 0.2}
SPACE, LENGTHSCALE, NORM = sb.Grid([[0, 1], [0, 1]], 5), 0.8, 0.1


def both(horizon, count=3, oversampling=1.5, **options):
    options = {"noise": 0.05, "regularization": 0.05, "delta": 0.2, "seed": 2, "rkhs_norm": NORM, **options}
    policy = sb.DUETS(
        SPACE, sb.Matern(LENGTHSCALE, nu=1.5), horizon=horizon, agents=count, oversampling=oversampling, **options
    )
    oracle = agents.Agents(
        naive_kernels.matern32(LENGTHSCALE), SPACE.points(), agents=count, horizon=horizon, norm=NORM,
        oversampling=oversampling, growth=0.4, **SETTINGS,
    )  # fmt: skip
    return policy, oracle


def value(x):
    return float(0.5 * np.sin(4.0 * x[0]) - 0.4 * x[-1] ** 2)


def number(x):
    return int(SPACE.index(x)[0])


def seed_of(batch):
    return derived_seed(2, "batch", batch)


def drawn(oracle, place):
    """Candidate of a place in the batch."""
    return oracle.left[generator(seed_of(oracle.batch), "draws", place).integers(len(oracle.left))]


def tell(oracle, policy, candidate, y, noise_variance=None, late=False):
    """Tell the oracle what the policy was told, and end the batch where the policy did."""
    oracle.tell(candidate, y, noise_variance, late)
    if policy.batch > oracle.batch:
        oracle.end(generator(seed_of(oracle.batch), "inducing points").random(len(oracle.order)))
    assert policy.surviving.tolist() == oracle.left
    assert (policy.batch, policy.sent) == (oracle.batch, oracle.sent)


@pytest.mark.parametrize(("count", "oversampling"), [(1, 1.5), (3, 1.5), (4, 0.3), (3, np.inf)])
@pytest.mark.sampled(2)
def test_plays_what_the_formulas_say(count, oversampling):
    """Draws, inducing points, eliminations, numbers sent; on after the horizon."""
    policy, oracle = both(300, count, oversampling)
    rng = np.random.default_rng(0)
    for t in range(320):
        place = oracle.told
        x = policy.ask()
        assert number(x) == drawn(oracle, place)
        y = value(x) + 0.05 * rng.standard_normal()
        policy.tell(x, y)
        tell(oracle, policy, number(x), y)
        if oracle.batch < len(oracle.lengths):
            assert oracle.told < oracle.lengths[oracle.batch - 1]
        assert policy.rounds == t + 1
    assert policy.batch == len(policy.lengths)
    assert len(policy.surviving) < 15


def test_several_in_flight_and_late():
    policy, oracle = both(200, delay=0.3)
    rng, late = np.random.default_rng(1), []
    asked = [number(x) for x in policy.ask(6)]
    for _ in range(190):
        candidate = int(rng.choice(asked))
        asked.remove(candidate)
        y = value(SPACE.value(candidate)) + 0.05 * rng.standard_normal()
        before, was_late = policy.batch, candidate in late
        policy.tell(SPACE.value(candidate), y)
        if was_late:
            late.remove(candidate)
        tell(oracle, policy, candidate, y, late=was_late)
        if policy.batch > before:
            late = list(asked)
        asked.append(number(policy.ask()))
    assert policy.batch > 2


def test_available_candidates_and_uninvited_values():
    policy, oracle = both(120)
    rng = np.random.default_rng(1)
    for _ in range(120):
        allowed = sorted(rng.choice(25, size=8, replace=False).tolist())
        x = policy.ask(available=allowed)
        assert number(x) in allowed
        assert number(x) in oracle.left or not set(allowed) & set(oracle.left)
        policy.tell(x, value(x), noise=0.04)
        tell(oracle, policy, number(x), value(x), 0.05 * 0.8**2)
        if rng.random() < 0.2:  # nobody asked for it
            other = int(rng.integers(25))
            policy.tell(SPACE.value(other), 0.1)
            tell(oracle, policy, other, 0.1)
    assert policy.batch > 2


@pytest.mark.slow
def test_draws_are_uniform():
    """Chi-squared of 20,000 draws over 25 candidates: 24 degrees of freedom, below 60 in all but 1 of 10^4 runs."""
    policy, _ = both(10**9)
    counts = np.bincount([number(x) for x in policy.ask(20_000)], minlength=25)
    assert ((counts - 800) ** 2 / 800).sum() < 60


class TestEstimate:
    POINTS = np.random.default_rng(0).random((40, 2))
    NOISE = np.random.default_rng(1).uniform(0.01, 0.1, 40)
    VALUES = np.random.default_rng(2).standard_normal(40)
    KERNEL = sb.Matern(0.5, nu=2.5)

    def test_all_points_give_the_posterior(self):
        """With all points inducing, its mean is the posterior's, and bias and spread make up the variance."""
        x = np.random.default_rng(3).random((5000, 2))
        total = summary(self.KERNEL, self.POINTS, self.POINTS, self.VALUES, self.NOISE)
        found = sparse_estimate(self.KERNEL, self.POINTS, self.NOISE, np.arange(40), total, x)
        mean, variance = Regression(self.KERNEL, self.POINTS, self.NOISE, self.VALUES).predict(x)
        np.testing.assert_allclose(found.mean, mean, atol=1e-8)
        np.testing.assert_allclose(found.bias**2 + found.spread**2, variance, atol=1e-8)

    def test_leverages(self):
        """Posterior variance at each point over its noise variance; they sum to the effective dimension."""
        found = leverages(self.KERNEL, self.POINTS, self.NOISE)
        _, variance = Regression(self.KERNEL, self.POINTS, self.NOISE, self.VALUES).predict(self.POINTS)
        np.testing.assert_allclose(found, variance / self.NOISE, rtol=1e-6)
        gram = self.KERNEL.block(self.POINTS)
        assert found.sum() == pytest.approx(np.trace(gram @ np.linalg.inv(gram + np.diag(self.NOISE))))

    def test_the_error_is_reached(self):
        """The function of norm B along the bias is off by B times the bias, without noise."""
        chosen, x = np.arange(0, 40, 4), np.array([[0.3, 0.6]])

        def mean(values):
            total = summary(self.KERNEL, self.POINTS[chosen], self.POINTS, values, self.NOISE)
            return sparse_estimate(self.KERNEL, self.POINTS, self.NOISE, chosen, total, x)

        weights = np.array([mean(row).mean[0] for row in np.eye(40)])
        gram, cross = self.KERNEL.block(self.POINTS), self.KERNEL.block(self.POINTS, x)[:, 0]
        values = cross - gram @ weights  # of k(x, .) - sum_j W_j k(x_j, .), whose squared norm is the value at x:
        squared = 1.0 - 2.0 * weights @ cross + weights @ gram @ weights
        found = mean(values)
        at_x = 1.0 - weights @ cross
        assert at_x - found.mean[0] == pytest.approx(squared)
        assert found.bias[0] ** 2 == pytest.approx(squared)
        assert found.spread[0] ** 2 == pytest.approx(weights**2 @ self.NOISE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"horizon": 5, "agents": 0}, "^agents: got 0"),
        ({"horizon": 5, "oversampling": 0.0}, "^oversampling"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        sb.DUETS(sb.Arms(2), sb.Covariance(np.eye(2)), **options)
