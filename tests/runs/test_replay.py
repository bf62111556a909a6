"""Policies replayed on a log: what counts, what is left in the policy, and how far the average is from the truth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from cases.policies import EVERY_POLICY, PROBLEMS, on
from cases.rounds import assert_same_state

import scalable_bandits as sb
from scalable_bandits.policies import Policy

SPACE = sb.Grid([[0.0, 1.0], [0.0, 1.0]], (6, 3))  # an action, and a context
POINTS = SPACE.points()
TRUTH = np.round(np.sin(7.0 * POINTS[:, 0] + 2.0 * POINTS[:, 1]), 3)


def policy(space: Any = SPACE, **given: Any) -> sb.IGPUCB:
    known = {"noise": 0.3, "regularization": 1.0, "seed": 2}
    return sb.IGPUCB(space, sb.RBF(0.4), **{**known, **given})


def logged(count: int, seed: int, space: Any = SPACE, truth: Any = TRUTH) -> tuple[np.ndarray, np.ndarray]:
    """Points chosen uniformly, and noisy rewards."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(space.size, size=count)
    return space.points(numbers), truth[numbers] + 0.3 * rng.standard_normal(count)


def naive(policy: Policy, records: list[tuple[Any, Any, float]]) -> list[int]:
    """Algorithm 3 of Li et al. 2011 by `ask`, `tell` and `abandon`; each record has its candidates, choice, reward."""
    counted = []
    for i, (available, choice, reward) in enumerate(records):
        x = policy.ask(available=available)
        if np.array_equal(x, choice):
            policy.tell(x, reward)
            counted.append(i)
        else:
            policy.abandon(x)
    return counted


def test_contexts_against_a_naive_loop() -> None:
    points, rewards = logged(1500, seed=0)
    sets = [np.flatnonzero(POINTS[:, 1] == point[1]) for point in points]
    alone = policy()
    counted = naive(alone, list(zip(sets, points, rewards.tolist(), strict=True)))
    played = policy()
    found = sb.replay(played, sb.LoggedRounds(points, rewards, contexts={1: points[:, 1]}))
    assert 200 < len(counted) < 300  # one in six
    assert found.records.tolist() == counted
    np.testing.assert_array_equal(found.rewards, rewards[counted])
    assert_same_state(played, alone)
    assert (found.accepted, found.read) == (len(counted), 1500)
    assert found.mean == pytest.approx(sum(rewards[counted]) / len(counted))
    spread = math.sqrt(sum((rewards[i] - found.mean) ** 2 for i in counted) / (len(counted) - 1))
    assert found.standard_error == pytest.approx(spread / math.sqrt(len(counted)))
    assert repr(found) == (
        f"Replay(mean reward {found.mean:.4g}, standard error {found.standard_error:.2g}; "
        f"{len(counted)} of 1,500 records accepted)"
    )


@pytest.mark.parametrize("form", ["numbers", "masks"])
def test_lists_of_candidates_against_a_naive_loop(form: str) -> None:
    """Five of nine arms in each record: every record has a list of its own, and all lists are equally long."""
    rng, arms = np.random.default_rng(3), sb.Arms(9)
    sets = [np.sort(rng.choice(9, size=5, replace=False)) for _ in range(1000)]
    choices = [int(rng.choice(each)) for each in sets]
    rewards = np.array(choices) / 9 + 0.3 * rng.standard_normal(1000)
    make = lambda: sb.GPUCB(arms, sb.Covariance(np.eye(9)), noise=0.3, regularization=0.09)  # noqa: E731
    alone, played = make(), make()
    counted = naive(alone, list(zip(sets, choices, rewards.tolist(), strict=True)))
    available: Any = sets if form == "numbers" else np.array([np.isin(np.arange(9), each) for each in sets])
    found = sb.replay(played, sb.LoggedRounds(choices, rewards, available=available))
    assert found.records.tolist() == counted
    assert_same_state(played, alone)


@on(["grid"], EVERY_POLICY)
@pytest.mark.sampled(4)
def test_rejected_records_leave_no_trace(name: str, space: str) -> None:
    """A log without them gives the same rewards, and the same policy: round, pending points and all that it has."""
    problem = PROBLEMS[space]
    truth = np.array([problem.truth(x) for x in problem.space.points()])
    points, rewards = logged(800, seed=1, space=problem.space, truth=truth)
    contexts = points[:, 1]
    one, other = EVERY_POLICY[name].make(problem), EVERY_POLICY[name].make(problem)
    found = sb.replay(one, sb.LoggedRounds(points, rewards, contexts={1: contexts}))
    assert 20 < found.accepted < 200
    left = found.records
    given = sb.LoggedRounds(points[left], rewards[left], {1: contexts[left]}, propensities=np.full(len(left), 0.5))
    again = sb.replay(other, given)
    np.testing.assert_array_equal(again.rewards, found.rewards)
    assert again.records.tolist() == list(range(found.accepted))
    assert one.round == found.accepted + 1
    assert one.pending == []
    if name != "elimination":  # whose choices decide which plays its engine learns together
        assert_same_state(one, other)
    np.testing.assert_allclose(one.information_gain, other.information_gain, rtol=1e-12)
    np.testing.assert_array_equal(one.ask(), other.ask())


def test_words_are_contexts_too() -> None:
    space = sb.Settings({"user": ["ann", "bob"], "film": sb.Integer(1, 4)})
    rng = np.random.default_rng(0)
    settings = [space.value(int(i)) for i in rng.integers(8, size=400)]
    liked = {"ann": 1, "bob": 4}
    rewards = [float(each["film"] == liked[each["user"]]) for each in settings]
    log = sb.LoggedRounds(settings, rewards, contexts={"user": [each["user"] for each in settings]})
    found = sb.replay(sb.GPUCB(space, sb.Hamming(0.5), noise=0.1, regularization=0.01), log)
    assert 60 < found.accepted < 140
    assert found.mean > 0.8 > np.mean(rewards)


# ---- the average, and its room for chance


def long_run(make: Any, rounds: int, replicates: int) -> np.ndarray:
    """Average rewards of a policy that plays itself, contexts drawn uniformly."""
    means = []
    for seed in range(replicates):
        function = sb.TableEnvironment(SPACE, TRUTH, sb.GaussianNoise(0.3), seed=100 + seed)
        means.append(sb.simulate(make(), sb.ContextualEnvironment(function, [1]), rounds).y.mean())
    return np.array(means)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["uniform", "propensities"])
def test_the_average_is_that_of_the_policy_itself(kind: str) -> None:
    """The first 40 rounds that count, of 150 logs, against 150 runs: within four standard errors of the difference.

    The logger of `propensities` plays the worst actions most: the plain average over records that match is far off.
    """
    rounds, means, plain = 40, [], []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        contexts = rng.integers(3, size=1500)
        weights = np.ones((3, 6)) if kind == "uniform" else 1.0 + 3.0 * (TRUTH.reshape(6, 3).T < 0.0)
        weights = weights / weights.sum(axis=1, keepdims=True)
        actions = np.array([rng.choice(6, p=weights[z]) for z in contexts])
        numbers, p = 3 * actions + contexts, weights[contexts, actions]
        rewards = TRUTH[numbers] + 0.3 * rng.standard_normal(1500)
        points = POINTS[numbers]
        log = sb.LoggedRounds(points, rewards, {1: points[:, 1]}, propensities=None if kind == "uniform" else p)
        found = sb.replay(policy(), log, seed=seed)
        assert found.accepted >= rounds
        means.append(found.rewards[:rounds].mean())
        plain.append(rewards.mean())
    truth = long_run(policy, rounds, 150)
    error = math.sqrt((np.var(means) + truth.var()) / 150)
    assert error < 0.02
    assert abs(np.mean(means) - truth.mean()) < 4.0 * error
    assert truth.mean() - np.mean(plain) > 20.0 * error


def test_sets_of_different_sizes_count_alike() -> None:
    """Contexts of 2 and of 8 actions are equally frequent among the records that count, as they are in the log."""
    array = np.array([[0, i] for i in range(2)] + [[1, i] for i in range(8)], dtype=float)
    rng = np.random.default_rng(0)
    contexts = rng.integers(2, size=40_000)
    actions = np.where(contexts == 0, rng.integers(2, size=40_000), rng.integers(8, size=40_000))
    points = np.stack([contexts, actions], axis=1).astype(float)
    found = sb.replay(sb.RandomSearch(sb.Points(array)), sb.LoggedRounds(points, contexts, {0: points[:, 0]}))
    assert abs(found.accepted - 5000) < 5 * math.sqrt(40_000 * 1 / 8 * 7 / 8)
    assert abs(found.mean - 0.5) < 5 * 0.5 / math.sqrt(5000)


def test_records_are_left_out_by_seed_position_and_propensity() -> None:
    points, rewards = logged(2000, seed=0)
    p = np.where(np.arange(2000) % 2, 0.2, 0.1)
    log = sb.LoggedRounds(points, rewards, {1: points[:, 1]}, propensities=p)
    found, again, other = (sb.replay(sb.RandomSearch(SPACE), log, seed=seed).records for seed in (1, 1, 2))
    assert found.tolist() == again.tolist() != other.tolist()
    odd = int((found % 2).sum())
    assert abs(odd - len(found) / 3) < 5 * math.sqrt(len(found) * 2 / 9)


# ---- logs that are refused


def test_uniform_logs_are_not_refused() -> None:
    """60 logs each of many and few records a candidate, and one record a list: none is taken for another."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        for count in (1, 30, 400):
            points, rewards = logged(count, seed)
            sb.replay(sb.RandomSearch(SPACE), sb.LoggedRounds(points, rewards, {1: points[:, 1]}))
        sets = [rng.choice(50, size=2, replace=False) for _ in range(60)]
        sb.replay(sb.RandomSearch(sb.Arms(50)), sb.LoggedRounds([s[0] for s in sets], np.zeros(60), available=sets))


@pytest.mark.parametrize("kind", ["all records", "in each context", "over contexts", "over lists", "in each list"])
def test_logs_that_were_not_uniform_are_refused(kind: str) -> None:
    """Counts that are plainly wrong: of candidates, in a context, of an action, of an arm in many lists, in each list.

    In each list, the arm that one list prefers is avoided in the other one: all arms are as frequent as they should be.
    """
    rng = np.random.default_rng(0)
    space: Any = SPACE
    given: dict[str, Any] = {}
    if kind == "all records":  # an epsilon-greedy logger
        numbers = np.where(rng.random(600) < 0.3, 4, rng.integers(18, size=600))
        choices: Any = POINTS[numbers]
    elif kind == "in each context":  # the order of actions is turned in one: each action is as frequent overall
        contexts = rng.integers(2, size=3000)
        actions = np.where(rng.random(3000) < 0.6, np.where(contexts, 5, 0), rng.integers(6, size=3000))
        choices = POINTS[3 * actions + contexts]
        given = {"contexts": {1: choices[:, 1]}}
    elif kind == "over contexts":  # every context occurs once
        space = sb.Points([[z, a] for z in range(500) for a in range(4)])
        actions = np.where(rng.random(500) < 0.5, 0, rng.integers(4, size=500))
        choices = np.stack([np.arange(500), actions], axis=1).astype(float)
        given = {"contexts": {0: choices[:, 0]}}
    elif kind == "in each list":
        space, which = sb.Arms(5), rng.integers(2, size=2000)
        shares = [[0.4, 0.1, 0.25, 0.25], [0.1, 0.4, 0.25, 0.25]]
        sets = [np.array([[0, 1, 2, 3], [0, 1, 2, 4]][i]) for i in which]
        choices = [int(rng.choice(s, p=shares[i])) for i, s in zip(which, sets, strict=True)]
        given = {"available": sets}
    else:
        space = sb.Arms(40)
        sets = [np.append(0, rng.choice(np.arange(1, 40), size=3, replace=False)) for _ in range(400)]
        choices = [int(s[0]) if rng.random() < 0.3 else int(rng.choice(s)) for s in sets]
        given = {"available": sets}
    rewards = np.zeros(len(choices))
    with pytest.raises(ValueError, match=r"^log: got 'choices that were not uniform.*allowed: uniform choices; or Log"):
        sb.replay(sb.RandomSearch(space), sb.LoggedRounds(choices, rewards, **given))
    log = sb.LoggedRounds(choices, rewards, **given, propensities=np.full(len(choices), 0.25))
    assert sb.replay(sb.RandomSearch(space), log).read == len(choices)


def asked() -> sb.IGPUCB:
    pending = policy()
    pending.ask()
    return pending


TWO, ONES = POINTS[:2], [1.0, 1.0]
LOG = sb.LoggedRounds(TWO, ONES)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sb.LoggedRounds(TWO, [1.0]), "choices: got '2 values'; allowed: 1, one a record"),
        (lambda: sb.LoggedRounds(3, ONES), "choices: got 3; allowed: 2 values"),
        (lambda: sb.LoggedRounds([], []), r"rewards: got \[\]"),
        (lambda: sb.LoggedRounds(TWO, [1.0, np.nan]), "rewards: got"),
        (lambda: sb.LoggedRounds(TWO, [1.0, 1e200]), "rewards: got .*allowed: numbers up to 1e"),
        (lambda: sb.LoggedRounds(TWO, ONES, [0.0, 0.0]), "contexts: got .*allowed: values .k,. by dimension"),
        (lambda: sb.LoggedRounds(TWO, ONES, {}), "contexts: got {}"),
        (lambda: sb.LoggedRounds(TWO, ONES, {1: [0.0]}), "contexts: got '1 values'"),
        (lambda: sb.LoggedRounds(TWO, ONES, available=[[0, 1]]), "available: got '1 values'"),
        (lambda: sb.LoggedRounds(TWO, ONES, propensities=[0.5]), "propensities: got '1 values'"),
        (lambda: sb.LoggedRounds(TWO, ONES, propensities=[0.5, 0.0]), "propensities: got .*above 0 and at most 1"),
        (lambda: sb.LoggedRounds(TWO, ONES, propensities=[0.5, 1.1]), "propensities: got"),
        (lambda: sb.replay("policy", LOG), "policy: got 'policy'"),
        (lambda: sb.replay(policy(), (TWO, ONES)), "log: got .*allowed: LoggedRounds"),
        (lambda: sb.replay(policy(), LOG, seed=-1), "seed: got -1"),
        (lambda: sb.replay(asked(), LOG), "policy: got 'pending points"),
        (lambda: sb.replay(policy(sb.Box([[0, 1]] * 2)), LOG), "policy: got 'space Box"),
        (lambda: sb.replay(policy(sb.Points([[0.0, 0.0]] * 2)), LOG), "policy: got 'space Points"),
        (lambda: sb.replay(policy(sb.Grid([[0, 1]] * 20, 30)), LOG), "policy: got 'space Grid"),
        (lambda: sb.replay(policy(), sb.LoggedRounds([[0.0, 0.3]], [1.0])), r"^log.choices\[0\]: got \[0.0, 0.3\]"),
        (
            lambda: sb.replay(policy(), sb.LoggedRounds([0.0, 0.3, 0.1], np.ones(3))),
            "log.choices: got .*policy's space",
        ),
        (lambda: sb.replay(policy(), sb.LoggedRounds(TWO, ONES, {1: [0.0, 0.0]})), r"log.choices\[1\]: got"),
        (lambda: sb.replay(policy(), sb.LoggedRounds(TWO, ONES, {1: [0.0, 0.7]})), "log, record 1: context: got"),
        (lambda: sb.replay(policy(), sb.LoggedRounds(TWO, ONES, {2: [0.0, 0.0]})), "log, record 0: context: got"),
        (lambda: sb.replay(policy(), sb.LoggedRounds(TWO, ONES, available=[[0], [0]])), r"log.choices\[1\]: got"),
        (lambda: sb.replay(policy(), sb.LoggedRounds(TWO, ONES, available=[[0], [18]])), "log, record 1: available"),
    ],
)
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_recorded_policy_is_refused(tmp_path: Any) -> None:
    recorded = policy()
    with sb.record(recorded, tmp_path / "run"), pytest.raises(ValueError, match="policy: got 'a policy that an open"):
        sb.replay(recorded, LOG)


def test_no_record_counts() -> None:
    found = sb.replay(policy(), sb.LoggedRounds(POINTS[[5]], [1.0]))
    assert (found.accepted, math.isnan(found.mean), math.isnan(found.standard_error)) == (0, True, True)
    assert repr(found) == "Replay(0 of 1 records accepted)"
