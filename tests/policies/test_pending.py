"""Pending points, against a list that is kept by hand; and values drawn at them, against the oracle's posterior."""

import numpy as np
import pytest
from cases.policies import CASES, PROBLEMS, REGULARIZATION, SHARED
from cases.rounds import assert_alike
from hypothesis import given
from hypothesis import strategies as st
from naive import policies as naive
from naive.believer import predictive, with_draws
from naive.gp import GP

import scalable_bandits as sb
from scalable_bandits.policies.pending import PendingPoints, PointNotPending
from scalable_bandits.posteriors import pending

NUMBERS = st.lists(st.integers(0, 4), max_size=8)


def earlier(numbers):
    """Points that are pending since an earlier process."""
    return PendingPoints(list(numbers), list(numbers))


def asked_again(pending):
    """The numbers that are asked again, one after the other."""
    found = []
    while (number := pending.next_reissue(None)) is not None:
        pending = pending.reissued(number)
        found.append(number)
    return found, pending


@given(asked=NUMBERS, settled=NUMBERS)
def test_a_number_is_pending_as_often_as_it_was_asked_for(asked, settled):
    pending, expected = PendingPoints(), []
    for number in asked:
        pending = pending.added(number)
        expected.append(number)
    for number in settled:
        pending = pending.settled(number)
        if number in expected:
            expected.remove(number)
    assert pending.numbers == expected
    assert len(pending) == len(expected)


@given(numbers=NUMBERS)
def test_reissued_once_in_the_order_of_asking(numbers):
    again, left = asked_again(earlier(numbers))
    assert again == numbers
    assert left.numbers == numbers, "they are pending all the time"


@given(numbers=NUMBERS, settled=NUMBERS)
def test_what_is_settled_is_not_reissued(numbers, settled):
    """Of a number that is pending twice, one is left."""
    pending = earlier(numbers)
    for number in settled:
        pending = pending.settled(number)
    assert sorted(asked_again(pending)[0]) == sorted(pending.numbers)


def test_excluded_numbers_count_while_a_point_is_chosen():
    pending = PendingPoints([1]).failed(7).failed(7)
    assert (pending.choosing().numbers, pending.choosing().asked) == ([1, 7], [1])
    assert pending.numbers == [1]


def test_without():
    pending = PendingPoints([1, 1, 2])
    assert pending.without([1, 2]).numbers == [1]
    assert pending.numbers == [1, 1, 2]
    with pytest.raises(PointNotPending):
        pending.without([2, 2])


# ---- values drawn at pending points

KINDS = {
    "GPUCB": (sb.GPUCB, {}), "IGPUCB": (sb.IGPUCB, {}), "GPEI": (sb.GPEI, {}), "MeanOnly": (sb.MeanOnly, {}),
    "GPEI, observation": (sb.GPEI, {"incumbent": "observation"}),
}  # fmt: skip
BOX = sb.Box([[-1, 3], [0, 0.5]])


def function(x):
    return float(np.sin(2 * x[0]) + x[1])


def told_arms(seed, count=12):
    """A policy and the oracle, told the same about arms; of the policy four points are pending, one of them twice."""
    problem = PROBLEMS["arms"]
    policy = CASES["igpucb"].make(problem, seed=seed, pending="sample", prior_mean=0.4)
    gp = GP(problem.oracle, policy.domain.points(), 0.4)
    for arm in range(count):
        policy.tell(arm % 7, np.sin(arm))
        gp.observe(arm % 7, np.sin(arm), REGULARIZATION)
    for arm in (3, 60, 2, 60):
        policy.ask(available=[arm])
    return policy, gp


def test_drawn_values_are_those_of_the_oracle():
    policy, gp = told_arms(seed=8)
    draws = policy.model.draw([3, 60, 2, 60], (8, policy.round))
    oracle, values = with_draws(gp, [3, 60, 2, 60], REGULARIZATION, 8, policy.round)
    np.testing.assert_allclose(draws.values, values, atol=1e-9)
    assert (draws.points.tolist(), draws.counts.tolist()) == ([2, 3, 60], [1, 1, 2])
    mean, variance = oracle.mean_variance()
    np.testing.assert_allclose(policy.model.engine.mean() + draws.shift, mean, atol=1e-9)
    np.testing.assert_allclose(
        policy.model.engine.variance() - policy.model.reduction([3, 60, 2, 60]), variance, atol=1e-9
    )
    assert policy.model.draw([], (8, 1)) is None


@pytest.mark.slow
def test_drawn_values_have_the_law_of_observations():
    """Mean and covariance over 4,000 keys, each entry within five standard errors of the predictive one."""
    policy, gp = told_arms(seed=0)
    _, _, mean, covariance = predictive(gp, [3, 60, 2, 60], REGULARIZATION)
    count = 4_000
    drawn = np.array([policy.model.draw([3, 60, 2, 60], (seed, 17)).values for seed in range(count)])
    deviations = np.sqrt(covariance.diagonal())
    assert (np.abs(drawn.mean(axis=0) - mean) < 5 * deviations / np.sqrt(count)).all()
    spread = np.outer(deviations, deviations)
    assert (np.abs(np.cov(drawn.T) - covariance) < 5 * np.sqrt((spread**2 + covariance**2) / count)).all()


def test_a_failed_point_keeps_its_posterior_mean():
    """No value is made up for it: it lowers variances alone."""
    policy, gp = told_arms(seed=5)
    policy.tell_failure(70)
    gp, _ = with_draws(gp, [3, 60, 2, 60], REGULARIZATION, 5, policy.round + 1)  # a failed point counts as pending, too
    mean, variance = gp.with_fantasies([70], REGULARIZATION).mean_variance()
    index = mean + policy.width * np.sqrt(np.maximum(variance, 0.0))
    index[70] = -np.inf
    assert policy.ask() == int(np.argmax(index))


@pytest.mark.parametrize("name", ["igpucb", "ei", "ei-observation", "mean", "gpucb-1"])
@pytest.mark.sampled(5)
def test_choices_number_for_number(name):
    """Between one and six points are pending, in an order that changes; every choice is the oracle's."""
    problem, case = PROBLEMS["points"], CASES[name]
    policy, rng = case.make(problem, pending="sample"), np.random.default_rng(4)
    gp, pending, played = GP(problem.oracle, policy.domain.points()), [], []
    for t in range(45):
        known = naive.Bandit(gp, pending, REGULARIZATION, range(160), (SHARED["seed"], policy.round))
        index = case.indices(known, problem)
        chosen = int(policy.space.index(policy.ask())[0])
        if index.max() - np.sort(index)[-2] > 1e-9:  # else a hash breaks the tie
            assert chosen == int(np.argmax(index)), t
            played.append(chosen)
        pending.append(chosen)
        if t == 10:
            pending.append(chosen)
            policy._restore_pending([*policy.pending_points.numbers, chosen], reissue=False)
        while len(pending) > rng.integers(1, 7):
            number = pending.pop(int(rng.integers(len(pending))))
            y = problem.truth(problem.space.points([number])[0]) + 0.2 * rng.standard_normal()
            policy.tell(problem.space.points([number])[0], y)
            gp.observe(number, y, REGULARIZATION)
        assert policy.round == len(gp.observations) + len(pending) + 1
    assert len(played) > 30


def test_means_at_pending_points_are_improved_upon():
    """With little noise, the mean between two points that were observed is better than what was observed there."""
    arms, told = np.linspace(0.0, 1.0, 31)[:, None], [0, 8, 20, 30]
    covariance = np.exp(-0.5 * (arms - arms.T) ** 2 / 0.3**2)
    policy = sb.GPEI(sb.Arms(31), sb.Covariance(covariance), noise=1e-2, regularization=1e-4, incumbent="observation")
    gp = GP(None, arms, gram=covariance)
    for arm in told:
        policy.tell(arm, -((arms[arm, 0] - 0.45) ** 2))
        gp.observe(arm, -((arms[arm, 0] - 0.45) ** 2), 1e-4)
    pending = []
    for _ in range(5):
        known = naive.Bandit(gp, pending, 1e-4, range(31))
        index = naive.expected_improvement(known.mean, known.std, known.largest_y)
        assert policy.ask() == int(np.argmax(index))
        pending.append(int(np.argmax(index)))


def kept_in_flight(policy, count, rounds):
    """Points asked for with so many in flight: the oldest is told, another one asked for."""
    asked = [] if policy.pending else [policy.ask() for _ in range(count)]
    for _ in range(rounds):
        policy.tell(policy.pending[0], function(policy.pending[0]))
        asked.append(policy.ask())
    return np.array(asked)


@pytest.mark.filterwarnings("ignore:.*guarantees assume a known kernel")
@pytest.mark.parametrize("space", [BOX, sb.Grid(BOX.bounds, 9)], ids=["box", "grid"])
@pytest.mark.parametrize("name", KINDS)
class TestLearnedKernel:
    """The same with a kernel that is learned, in units of the transformed y."""

    @pytest.mark.sampled(5)
    def test_without_pending_points_it_does_not_matter(self, name, space):
        kind, given = KINDS[name]
        by_mean, drawn = kind(space, **given), kind(space, pending="sample", **given)
        assert_alike((by_mean, drawn), 16, function)

    @pytest.mark.sampled(5)
    @pytest.mark.slow
    def test_resumed_from_a_store(self, name, space, tmp_path):
        kind, given = KINDS[name]
        whole = kept_in_flight(kind(space, pending="sample", **given), 3, 16)
        parts = []
        for rounds in (9, 7):
            policy = kind(space, pending="sample", **given)
            with sb.record(policy, tmp_path / "run.zarr"):
                parts.append(kept_in_flight(policy, 3, rounds))
        np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("on", ["threads:2", pytest.param("local:2", marks=pytest.mark.slow)])
def test_executors_draw_the_same_values(on, request):
    if on == "local:2":
        request.getfixturevalue("forked_workers")
    space = sb.Grid([[0, 1], [0, 1]], (50, 60))  # three tiles
    with (
        sb.GPEI(space, sb.RBF(0.2), engine="tiled", pending="sample", noise=0.1, regularization=0.01) as alone,
        sb.GPEI(space, sb.RBF(0.2), engine="tiled", pending="sample", noise=0.1, regularization=0.01, on=on) as apart,
    ):
        np.testing.assert_array_equal(kept_in_flight(alone, 5, 20), kept_in_flight(apart, 5, 20))


def test_a_covariance_that_rounding_made_indefinite_has_a_factor():
    """Of three equal values: the factor is that of the covariance, up to a ten-millionth of it."""
    covariance = np.ones((3, 3)) - 1e-9 * np.eye(3)
    assert np.linalg.eigvalsh(covariance).min() < -1e-10
    factor = pending._factor(covariance)
    np.testing.assert_allclose(factor @ factor.T, covariance, rtol=0, atol=2e-7)
