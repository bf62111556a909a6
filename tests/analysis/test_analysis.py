"""Numbers out of runs and studies, against other ways to the same."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import xarray

import scalable_bandits as sb
from scalable_bandits import analysis

REPLICATES, ROUNDS = 7, 200
SPACE, KERNEL = sb.Grid([[0, 1]], 25), sb.Matern(0.2, nu=2.5)
OPTIONS = {"noise": 0.1, "regularization": 0.01}


@pytest.fixture(scope="module")
def study() -> xarray.Dataset:
    """Regrets made up: "b" twice "a" and a bit in each replicate, "c" t^(-1/2), one run of "b" not finished."""
    random = np.random.default_rng(0)
    a = random.exponential(1.0, (REPLICATES, ROUNDS)) * random.uniform(0.5, 2.0, (REPLICATES, 1))
    b = 2.0 * a + 0.1 * random.exponential(1.0, a.shape)
    b[3, 100:] = np.nan
    t = np.arange(1, ROUNDS + 1)
    c = np.tile(3.0 * (t**0.5 - (t - 1) ** 0.5), (REPLICATES, 1))
    return xarray.Dataset(
        {
            "regret": (("case", "policy", "replicate", "round"), np.stack([a, b, c])[None]),
            "uniform_regret": (("case", "replicate"), np.full((1, REPLICATES), 4.0)),
        },
        coords={"case": ["one"], "policy": ["a", "b", "c"], "replicate": range(REPLICATES), "round": t},
        attrs={"measure": "cumulative", "unit": "mV"},
    )


def test_means_have_student_intervals_over_finished_runs(study):
    rows = {row.policy: row for row in analysis.means(study)}
    assert [row.regret for row in analysis.means(study)] == sorted(row.regret for row in rows.values())
    for label, kept in (("a", np.arange(7)), ("b", np.array([0, 1, 2, 4, 5, 6]))):
        totals = study["regret"].sel(case="one", policy=label).values.sum(axis=1)[kept]
        row = rows[label]
        expected = scipy.stats.t.interval(0.95, len(kept) - 1, totals.mean(), scipy.stats.sem(totals))
        np.testing.assert_allclose((row.low, row.high), expected)
        np.testing.assert_allclose((row.regret, row.standard_error), (totals.mean(), scipy.stats.sem(totals)))
        assert row.runs == len(kept)
        assert row.fraction == pytest.approx(totals.mean() / (4.0 * ROUNDS))


def test_mean_curves_are_means_of_sums_at_some_rounds(study):
    """By sums in plain Python; of the finished runs; a third of the rounds, with the first and the last."""
    for one in analysis.mean_curves(study):
        regret = study["regret"].sel(case=one.case, policy=one.policy).values.tolist()
        runs = [run for run in regret if not any(value != value for value in run)]
        assert one.runs == len(runs)
        assert (one.x[0], one.x[-1]) == (1, ROUNDS)
        assert 50 < len(one.x) < 75
        for t, mean, error in zip(one.x.astype(int).tolist(), one.mean, one.standard_error, strict=True):
            sums = [sum(run[:t]) for run in runs]
            average = sum(sums) / len(sums)
            deviation = (sum((each - average) ** 2 for each in sums) / (len(sums) - 1)) ** 0.5
            assert mean == pytest.approx(average)
            assert error == pytest.approx(deviation / len(sums) ** 0.5, abs=1e-9)


def test_differences_are_paired(study):
    totals = study["regret"].sel(case="one").values.sum(axis=2)
    both = np.isfinite(totals[0]) & np.isfinite(totals[1])
    test = scipy.stats.ttest_rel(totals[1][both], totals[0][both])
    row = next(row for row in analysis.differences(study, against="a") if row.policy == "b")
    np.testing.assert_allclose((row.low, row.high), tuple(test.confidence_interval(0.95)))
    assert (row.runs, row.against, row.wins) == (6, "a", 0.0)
    assert {row.against for row in analysis.differences(study)} == {"c"}  # the best, where none is named
    with pytest.raises(ValueError, match=r"^against: got 'd'; allowed: one of a, b, c$"):
        analysis.differences(study, against="d")


def test_exponents(study):
    rows = {row.policy: row for row in analysis.exponents(study)}
    assert rows["c"].exponent == pytest.approx(0.5, abs=1e-12)
    assert rows["c"].standard_error == pytest.approx(0.0, abs=1e-12)
    assert rows["a"].exponent == pytest.approx(1.0, abs=0.1)  # four standard errors of a sum's wandering, and more
    assert rows["b"].runs == 6
    assert np.isnan(analysis.exponent(np.arange(1, 101), np.zeros((3, 100))).exponent)


def test_one_replicate_has_no_interval(study):
    row = analysis.means(study.isel(replicate=[0]))[0]
    assert np.isfinite(row.regret)
    assert np.isnan([row.standard_error, row.low, row.high]).all()


def test_what_no_run_finished_comes_last(study):
    empty = study.copy(deep=True)
    empty["regret"].loc[{"policy": "c"}] = np.nan
    assert [(row.policy, row.runs) for row in analysis.means(empty)] == [("a", 7), ("b", 6), ("c", 0)]


def test_coverage_is_that_of_the_posteriors_along_the_run():
    environment = sb.GPSample(SPACE, KERNEL, sb.GaussianNoise(0.1), seed=4)
    policy = sb.IGPUCB(SPACE, KERNEL, rkhs_norm=0.4, **OPTIONS)
    run = sb.simulate(policy, environment, 40)
    found = analysis.coverage(policy, environment, run, points=6)
    fresh, f = sb.IGPUCB(SPACE, KERNEL, rkhs_norm=0.4, **OPTIONS), environment.table()
    expected = {}
    for t in range(1, 41):
        fresh.tell(SPACE.points(run.candidate[t - 1]), run.y[t - 1])
        mean, std = fresh.posterior(SPACE.points())
        expected[t] = np.mean(abs(f - mean) <= fresh.width * std), np.mean(abs(f - mean) <= 1.959964 * std)
    assert found.round[[0, -1]].tolist() == [1, 40]
    np.testing.assert_allclose(np.transpose([found.confidence, found.normal]), [expected[t] for t in found.round])
    assert policy.rounds == 40
    assert np.isnan(analysis.coverage(sb.GPEI(SPACE, KERNEL, **OPTIONS), environment, run, 2).confidence).all()


PRIORS = [sb.Prior("right", KERNEL), sb.Prior("high", KERNEL, mean=2.0), sb.Prior("absurd", KERNEL, mean=40.0)]


@pytest.fixture(scope="module")
def eliminated():
    policy = sb.PEGPUCB(SPACE, PRIORS, **OPTIONS)
    return policy, sb.simulate(policy, sb.GPSample(SPACE, KERNEL, sb.GaussianNoise(0.1), seed=1), 60)


def test_credits_of_priors_are_the_policys(eliminated):
    policy, run = eliminated
    credits, told = analysis.plays_over_rounds(policy, run)
    assert credits.shape == (60, 3)
    assert (credits.sum(axis=1) == 1.0).all()
    assert dict(zip(policy.plays, credits.sum(axis=0), strict=True)) == policy.plays
    assert told.rejections == policy.rejections
    assert "absurd" in told.rejections
    last = told.rejections["absurd"].round
    assert not credits[last:, 2].any()


def test_time_is_measured_over_all_rounds():
    environment = sb.GPSample(SPACE, KERNEL, sb.GaussianNoise(0.1))
    policy = sb.IGPUCB(SPACE, KERNEL, **OPTIONS)
    found = analysis.time_rounds(policy, environment, 50, blocks=5)
    assert policy.rounds == found.round[-1] == 50
    assert (found.seconds > 0.0).all()


@pytest.mark.parametrize("kind", [sb.IGPUCB, sb.GPUCB, sb.GPEI, sb.GPPI, sb.MeanOnly, sb.VarianceOnly])
def test_the_index_is_what_is_maximised(kind):
    policy = kind(SPACE, KERNEL, **OPTIONS)
    sb.simulate(policy, sb.GPSample(SPACE, KERNEL, sb.GaussianNoise(0.1), seed=2), 15)
    index = analysis.index_of(policy, SPACE.points())
    assert index[SPACE.index(policy.ask())[0]] >= index.max() - 1e-9


def test_the_index_of_several_priors(eliminated):
    policy, _ = eliminated
    index = analysis.index_of(policy, SPACE.points())
    assert int(np.argmax(index)) == policy.propose()


def test_no_index():
    with pytest.raises(ValueError, match=r"^policy: got 'GPTS'; allowed: a policy that maximises"):
        analysis.index_of(sb.GPTS(SPACE, KERNEL, **OPTIONS), SPACE.points())
