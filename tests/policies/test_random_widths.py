"""Policies with a random width or incumbent: what is drawn has the distribution of the papers, also on a whole box."""

from typing import NamedTuple

import numpy as np
import pytest
from cases.policies import NOISE, OVER_A_PATH, PROBLEMS, REGULARIZATION
from naive import kernels as naive_kernels
from naive.gp import GP
from scipy.stats import expon, ks_2samp, kstest

import scalable_bandits as sb
from scalable_bandits.policies import sample_paths

SEEDS = 500
LEAST_P = 1e-4  # of a test that is right: one run in ten thousand


@pytest.mark.parametrize("arms", [1, 2, 3, 90])
@pytest.mark.sampled(4)
def test_squared_widths_are_exponential_above_their_least(arms):
    """Over rounds and seeds: max(0, 2 log(n / 2)) plus an exponential number of mean 2."""
    least = max(0.0, 2.0 * np.log(arms / 2.0))
    widths = []
    for seed in range(20):
        policy = sb.IRGPUCB(sb.Arms(arms), sb.Covariance(np.eye(arms)), seed=seed)
        for t in range(50):
            widths.append(policy.width)
            assert policy.width == widths[-1], "the width of a round is one number"
            policy.tell(t % arms, 0.0)
    drawn = np.array(widths) ** 2 - least
    assert drawn.min() >= -1e-12
    assert len(set(widths)) == len(widths)
    assert kstest(drawn, expon(scale=2.0).cdf).pvalue > LEAST_P


def some_arms(kind, seed):
    """A policy and the oracle after the same observations of three arms."""
    covariance = np.array([[1.0, 0.6, 0.1], [0.6, 0.8, -0.2], [0.1, -0.2, 1.2]])
    settings = {"noise": NOISE, "regularization": REGULARIZATION, "seed": seed}
    policy = kind(sb.Arms(3), sb.Covariance(covariance), prior_mean=[0.0, 0.1, 0.3], **settings)
    gp = GP(naive_kernels.covariance(covariance), np.arange(3)[:, None], [0.0, 0.1, 0.3])
    for arm, y in ((0, 0.9), (1, 0.8), (0, 0.7)):
        policy.tell(arm, y)
        gp.observe(arm, y, REGULARIZATION)
    return policy, gp


@pytest.mark.parametrize(("allowed", "pending"), [([0, 1, 2], []), ([0, 2], [0, 2, 2])])
@pytest.mark.parametrize("kind", [sb.PIMS, sb.PSEI])
@pytest.mark.sampled(2)
@pytest.mark.slow
def test_the_incumbent_is_the_maximum_of_a_draw(kind, allowed, pending):
    """Over 500 seeds: of the posterior, with pending points taken for observed, over the arms that are allowed."""
    _, gp = some_arms(kind, 0)
    mean, covariance = gp.with_fantasies(pending, REGULARIZATION).mean_covariance()
    draws = np.random.default_rng(0).multivariate_normal(mean, covariance, size=100_000, method="eigh")
    mask, found = np.isin(np.arange(3), allowed), []
    for seed in range(SEEDS):
        policy, _ = some_arms(kind, seed)
        for arm in pending:
            policy.ask(available=[arm])
        found.append(policy.highest_of_path(1.0, mask)[1])
    assert ks_2samp(found, draws[:, allowed].max(axis=1)).pvalue > LEAST_P


class Known(NamedTuple):
    """What the oracle's index needs."""

    mean: np.ndarray
    std: np.ndarray
    highest_of_path: float


@pytest.mark.parametrize("name", OVER_A_PATH)
@pytest.mark.sampled(2)
def test_on_a_whole_box_the_point_has_the_largest_index(name, monkeypatch):
    """Given the path's maximum: no less than at 300 random points, by the oracle's posterior, with points pending."""
    problem, case, paths = PROBLEMS["whole box"], OVER_A_PATH[name], []
    drawn = sample_paths.draw_path
    monkeypatch.setattr(sample_paths, "draw_path", lambda *given: paths.append(drawn(*given)) or paths[-1])
    policy, rng, told, waiting = case.make(problem), np.random.default_rng(5), [], []
    assert policy.domain.by_visit
    low, high = np.array(problem.space.bounds).T
    for t in range(6):
        x = policy.ask()
        policy.abandon(x)
        highest = policy.highest_of_path(1.0, None)[1]
        assert policy.ask().tolist() == x.tolist()
        some = np.vstack([x, low + (high - low) * rng.random((300, 2)), *waiting, *(point for point, _ in told)])
        assert highest >= paths[-1].predict(some)[0].max() - 1e-6
        gp = GP(problem.oracle, some)
        for point, y in told:
            gp.observe(gp.add_point(point, 0.0), y, REGULARIZATION)
        gp = gp.with_fantasies([gp.add_point(point, 0.0) for point in waiting], REGULARIZATION)
        mean, variance = (each[: len(some)] for each in gp.mean_variance())
        index = case.index(Known(mean, np.sqrt(np.maximum(variance, 1e-30)), highest))
        assert index[0] >= index.max() - 1e-3 * abs(index.max()) - 1e-9
        waiting.append(x)
        if t % 3 == 2:
            for point in waiting:
                told.append((point, problem.truth(point) + NOISE * rng.standard_normal()))
                policy.tell(*told[-1])
            waiting = []


@pytest.mark.parametrize("kind", [sb.PIMS, sb.PSEI, sb.IRGPUCB])
@pytest.mark.sampled(3)
def test_without_a_kernel_it_is_learned(kind):
    """A smooth function of two parameters: after 40 evaluations within a thousandth of its maximum."""
    policy = kind(sb.Box([[0, 1], [0, 1]]), seed=1)
    values = []
    for _ in range(40):
        x = policy.ask()
        values.append(-((x[0] - 0.3) ** 2) - (x[1] - 0.6) ** 2)
        policy.tell(x, values[-1])
    assert max(values) > -1e-3


@pytest.mark.parametrize("kind", [sb.PIMS, sb.PSEI, sb.GPTS])
def test_paths_are_drawn_around_the_means(kind):
    """So that draws at pending points, which shift the means, are refused."""
    with pytest.raises(ValueError, match="pending: got 'sample'; allowed: 'mean'"):
        kind(sb.Grid([[0, 1]], 5), sb.RBF(0.3), pending="sample")


def test_the_width_that_is_shown_is_the_one_that_is_played():
    """Also after failures, which count as pending while a point is chosen."""
    policy, played = sb.IRGPUCB(sb.Grid([[0, 1]], 21), sb.RBF(0.2), noise=0.1, regularization=0.01), []
    acquisition = policy.acquisition
    policy.acquisition = lambda allowed: played.append(policy.width) or acquisition(allowed)
    policy.tell_failure([0.5])
    for t in range(10):
        shown = policy.width
        x = policy.ask()
        assert played[-1] == shown
        if t % 3:
            policy.tell(x, 0.1 * t)
        elif t:
            policy.tell_failure(x)
    assert len(set(played)) == 10
