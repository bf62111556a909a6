"""The experiments with unknown priors: what they are, and what comes out."""

import matplotlib
import numpy as np
import pytest
from cases.measured import DATA, needs_data

from scalable_bandits import analysis
from scalable_bandits.plots import prior_histogram, study_panels
from scalable_bandits.studies import Replicate, Study, ziomek2025

matplotlib.use("agg")


@pytest.fixture(scope="module")
def toy():
    return Study.load("ziomek2025-toy").run()


def test_the_toy_is_the_papers():
    """Eleven priors of one kernel, ten hills of which the n-th is tall; the truth is prior 2, near 0.1."""
    environment, policies = ziomek2025.toy(Replicate("toy", 0, 7, 300, None))
    priors = policies["PE-GP-UCB"].priors
    assert len(priors) == 11
    assert len({prior.kernel for prior in priors}) == 1
    x = environment.space.points()
    for n, prior in enumerate(priors):
        tallest = x[np.argmax(prior.mean), 0]
        assert n == 0 or tallest == pytest.approx((n - 1) / 9, abs=0.01)
        peaks = sum(
            prior.mean[i] >= max(prior.mean[max(0, i - 3) : i + 4]) and prior.mean[i] > 0.9 for i in range(len(x))
        )
        assert peaks >= 10
        assert (prior.mean > 2).any() == (n > 0)
    assert x[np.argmax(priors[2].mean), 0] == pytest.approx(0.11, abs=0.01)
    assert environment.available(1).all()
    out_of_reach = x[~environment.available(2), 0]
    assert out_of_reach.min() < 1 / 9 < out_of_reach.max()
    assert len(out_of_reach) <= 12
    values = environment.table()
    assert environment.optimum(1) == environment.optimum(3) == values.max()
    assert environment.optimum(2) == values[environment.available(2)].max()


@pytest.mark.slow
def test_the_true_function_comes_from_the_true_prior():
    """f minus the mean of prior 2 has the kernel's covariance: 100 seeds, five standard errors.

    In nine of ten seeds and more, the optimum is what is out of reach on even rounds.
    """
    draws, out_of_reach = [], 0
    for seed in range(100):
        environment, policies = ziomek2025.toy(Replicate("toy", 0, seed, 300, None))
        out_of_reach += environment.optimum(2) < environment.optimum(1)
        draws.append(environment.table() - policies["MLE"].priors[2].mean)
    draws = np.array(draws)[:, [10, 50]]
    expected = policies["MLE"].priors[2].kernel.block([[10 / 99], [50 / 99]])
    products = draws[:, :, None] * draws[:, None, :]
    assert (np.abs(products.mean(axis=0) - expected) < 5 * products.std(axis=0) / np.sqrt(100)).all()
    assert out_of_reach >= 90


@pytest.mark.slow
def test_the_toy_has_the_published_order(toy):
    """Mean regret over the 30 replicates: prior elimination ahead of its three baselines, all ahead of random."""
    regret = toy["regret"].sum("round").mean("replicate").isel(case=0)
    mean = dict(zip(regret["policy"].values, regret.values, strict=True))
    unsure = ("MLE", "fully Bayesian", "regret balancing")
    assert all(1.5 * mean["PE-GP-UCB"] < mean[name] for name in unsure)
    assert all(3 * mean[name] < mean["random"] for name in unsure)


@pytest.mark.slow
def test_the_plays_of_prior_elimination_concentrate_on_the_true_prior(toy):
    shares = toy["plays"].sel(policy="PE-GP-UCB").isel(case=0).values / toy.sizes["round"]
    assert shares.mean(axis=0).argmax() == 2
    assert shares.mean(axis=0)[2] > 0.8
    late = toy["regret"].isel(case=0, round=slice(200, None))
    assert float(late.sel(policy="PE-GP-UCB").mean()) < 0.02 * float(late.sel(policy="random").mean())


@pytest.mark.slow
def test_the_histogram_shows_the_shares():
    toy = Study.load("ziomek2025-toy").run(replicates=2)
    ax = prior_histogram(toy, "toy")
    of_record = prior_histogram({"curves": [one._asdict() for one in analysis.mean_curves(toy)]})
    for one, other in zip(of_record.patches, ax.patches, strict=True):
        assert (one.get_bbox().bounds, one.get_facecolor()) == (other.get_bbox().bounds, other.get_facecolor())
    labels = [container.get_label() for container in ax.containers]
    assert labels == ["PE-GP-UCB", "MLE", "fully Bayesian", "regret balancing"]
    for container, label in zip(ax.containers, labels, strict=True):
        expected = toy["plays"].sel(policy=label).isel(case=0).sum("replicate").values
        np.testing.assert_allclose([bar.get_height() for bar in container], expected / expected.sum(), rtol=1e-12)
    assert [text.get_text() for text in ax.get_xticklabels()] == [str(n) for n in range(11)]
    assert [ax.get_ylabel() for ax in study_panels(toy)] == ["cumulative regret\n(units of y)", "share of the rounds"]


@needs_data
def test_the_temperatures_play_the_test_days_with_a_prior_from_each_training_day():
    data = np.loadtxt(DATA / "intel_temperature_train.csv", delimiter=",").T
    test = np.loadtxt(DATA / "intel_temperature_test.csv", delimiter=",").T
    scale = np.sqrt(data.var(axis=0).mean())
    for number in range(4):
        environment, policies = ziomek2025.temperature(Replicate("temperature", number, 5, 48, DATA))
        start = 48 * (number % 2)
        for t in (1, 17, 48):
            expected = (test[start + t - 1] - data.mean()) / scale
            np.testing.assert_allclose(environment.table(t), expected, rtol=1e-12, atol=1e-12)
    priors = policies["PE-GP-UCB"].priors
    assert [prior.name for prior in priors] == ["day 1", "day 2", "day 3"]
    for i, prior in enumerate(priors):
        day = data[48 * i : 48 * (i + 1)] / scale
        np.testing.assert_allclose(prior.kernel.block(np.arange(50.0)), np.cov(day.T, bias=True), atol=1e-10)
        assert 0 < prior.kernel.epsilon < 0.5
        assert prior.mean == 0.0


@needs_data
def test_on_the_temperatures_every_policy_beats_random_play():
    """The order among the others is reported, not asserted."""
    result = Study.load("ziomek2025-temperature").run(replicates=4, data=DATA)
    regret = result["regret"].sum("round").mean("replicate").isel(case=0)
    mean = dict(zip(regret["policy"].values, regret.values, strict=True))
    assert all(2 * mean[name] < mean["random"] for name in mean if name != "random")
