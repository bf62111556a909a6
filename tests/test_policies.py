"""Policies against the oracle: in every round the chosen candidate has the largest index."""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import scalable_bandits as sb
from naive import kernels as naive_kernels
from naive import policies as naive
from naive.gp import GP, greedy_information_gain

small_tiles = pytest.mark.usefixtures("small_tiles")

NOISE, REGULARIZATION, DELTA, NORM = 0.2, 0.05, 0.1, 0.8
SHARED = {"noise": NOISE, "regularization": REGULARIZATION, "delta": DELTA, "seed": 3}


class Problem(NamedTuple):
    """A space, its kernel and the oracle's, and the largest side for Theorem 2 (None where it has none)."""

    space: sb.Points | sb.Grid | sb.Arms | sb.Box
    kernel: sb.Kernel
    oracle: Any
    side: float | None = None
    candidates: int = 1024

    def truth(self, x):
        """f at one point, for observations with real noise."""
        x = np.ravel(x)
        return float(np.sin(5 * x[0]) + np.cos(3 * x[-1]))


def _arm_covariance():
    factor = np.random.default_rng(0).standard_normal((90, 30))
    return factor @ factor.T / 30 + 0.1 * np.eye(90)


PROBLEMS = {
    "grid": Problem(sb.Grid([[0, 1], [0, 2]], (14, 12)), sb.RBF([0.2, 0.5]), naive_kernels.rbf((0.2, 0.5)), side=2.0),
    "points": Problem(
        sb.Points(np.random.default_rng(1).random((160, 2))), sb.Matern(0.3, nu=1.5), naive_kernels.matern32(0.3)
    ),
    "arms": Problem(sb.Arms(90), sb.Covariance(_arm_covariance()), naive_kernels.covariance(_arm_covariance())),
    "box": Problem(
        sb.Box([[0, 1], [-1, 0.5]]),
        2.0 * sb.Matern(0.4, nu=2.5),
        naive_kernels.scaled(2.0, naive_kernels.matern52(0.4)),
        side=1.5,
        candidates=100,
    ),
}


class Case(NamedTuple):
    """A policy, and the oracle's width (of a policy that has one) and index before a round."""

    kind: type
    arguments: dict
    width: Callable | None = None
    index: Callable | None = None

    def make(self, problem, **arguments):
        candidates = {"candidates": problem.candidates} if isinstance(problem.space, sb.Box) else {}
        return self.kind(problem.space, problem.kernel, **{**SHARED, **self.arguments, **candidates, **arguments})

    def indices(self, known, problem):
        """Index of every candidate; `known` is the oracle's `Bandit`, `problem` the space's size and side."""
        if self.width is not None:
            return naive.upper_confidence(known.mean, known.std, self.width(known, problem))
        return self.index(known)


def _size(known, problem):
    return problem.candidates if isinstance(problem.space, sb.Box) else problem.space.size


def _gpucb(theorem, scale):
    def width(known, problem):
        if theorem == 1:
            return naive.gpucb_width1(known.t, _size(known, problem), DELTA, scale)
        if theorem == 2:
            return naive.gpucb_width2(known.t, 2, problem.side, DELTA, 1.3, 0.9, scale)
        return naive.gpucb_width3(known.t, known.gain, NORM, DELTA, scale)

    arguments = {"theorem": theorem, "scale": scale, "rkhs_norm": NORM, "constants": (1.3, 0.9)}
    return Case(sb.GPUCB, arguments, width)


CASES = {
    "gpucb-1": _gpucb(1, 1.0),
    "gpucb-1-scaled": _gpucb(1, 5.0),
    "gpucb-2": _gpucb(2, 1.0),
    "gpucb-2-scaled": _gpucb(2, 20.0),
    "gpucb-3": _gpucb(3, 1.0),
    "gpucb-3-scaled": _gpucb(3, 5000.0),
    "igpucb": Case(
        sb.IGPUCB, {"rkhs_norm": NORM}, lambda known, problem: naive.igpucb_width(known.gain, NORM, NOISE, DELTA)
    ),
    "ei": Case(sb.GPEI, {}, index=lambda known: naive.expected_improvement(known.mean, known.std, known.incumbent)),
    "ei-xi": Case(
        sb.GPEI,
        {"xi": 0.3},
        index=lambda known: naive.expected_improvement(known.mean, known.std, known.incumbent, 0.3),
    ),
    "ei-observation": Case(
        sb.GPEI,
        {"incumbent": "observation"},
        index=lambda known: naive.expected_improvement(
            known.mean, known.std, known.incumbent if known.largest_y is None else known.largest_y
        ),
    ),
    "pi": Case(
        sb.GPPI, {}, index=lambda known: naive.improvement_probability(known.mean, known.std, known.incumbent, 0.01)
    ),
    "pi-xi": Case(
        sb.GPPI,
        {"xi": 0.3},
        index=lambda known: naive.improvement_probability(known.mean, known.std, known.incumbent, 0.3),
    ),
    "mean": Case(sb.MeanOnly, {}, index=lambda known: known.mean),
    "variance": Case(sb.VarianceOnly, {}, index=lambda known: known.std),
}

DRAWN = {
    "ts": Case(sb.GPTS, {"rkhs_norm": NORM}),
    "random": Case(sb.RandomSearch, {}),
}


def some_prior(points):
    """A prior mean as a function of points (k, d)."""
    return 0.5 + 0.3 * np.sin(points[:, 0])


class Scenario(NamedTuple):
    """What happens besides asking for a point and telling its value."""

    prior: str = "zero"  # or "number", "array", "function"
    available: bool = False  # availability sets that change each round, as masks and as numbers
    batch: int | None = None  # points asked for at a time, told late and out of order
    uninvited: bool = False  # tells of points nobody asked for, with a noise of their own


SCENARIOS = {
    "plain": Scenario(),
    "prior number": Scenario(prior="number"),
    "prior array": Scenario(prior="array"),
    "prior function": Scenario(prior="function"),
    "available": Scenario(available=True),
    "pending": Scenario(batch=3),
    "uninvited": Scenario(uninvited=True),
    "all at once": Scenario(prior="function", available=True, batch=3, uninvited=True),
}


class Duel:
    """A policy and the oracle's posterior, told the same."""

    def __init__(self, case, problem, scenario, engine):
        self.case, self.problem, self.scenario = case, problem, scenario
        self.rng = np.random.default_rng(11)
        self.policy = case.make(problem, engine=engine)
        points = self.policy.finite_space.points()
        self.size = len(points)
        self.prior_at = {"zero": lambda x: np.zeros(len(x)), "number": lambda x: np.full(len(x), -0.7)}.get(
            scenario.prior, some_prior
        )
        given = {"zero": 0.0, "number": -0.7, "array": some_prior(points), "function": some_prior}[scenario.prior]
        self.policy = case.make(problem, engine=engine, prior_mean=given)
        self.gp = GP(problem.oracle, points, self.prior_at(points))
        self.pending = []

    def number(self, x):
        """Number of the point x for the oracle."""
        return int(np.flatnonzero((self.gp.points == np.ravel(x)).all(axis=1))[0])

    def available(self):
        """Availability set for `ask`, and the numbers it allows."""
        if not self.scenario.available:
            return None, np.arange(self.size)
        numbers = self.rng.permutation(self.size)[: self.rng.integers(1, self.size)]
        mask = np.isin(np.arange(self.size), numbers)
        return (mask if self.rng.random() < 0.5 else numbers), numbers

    def ask(self):
        """Ask, and hold each chosen point against the oracle's indices."""
        given, allowed = self.available()
        known = naive.Bandit(self.gp, self.pending, REGULARIZATION, allowed)
        if self.case.width is not None:
            assert self.policy.width == pytest.approx(self.case.width(known, self.problem), rel=1e-9)
            assert self.policy.information_gain == pytest.approx(known.gain, abs=1e-8)
        asked = self.policy.ask(self.scenario.batch, available=given)
        for x in [asked] if self.scenario.batch is None else asked:
            known = naive.Bandit(self.gp, self.pending, REGULARIZATION, allowed)
            index, chosen = self.case.indices(known, self.problem), self.number(x)
            best = index[allowed].max()
            assert chosen in allowed
            assert index[chosen] >= best - 1e-8 * max(1.0, abs(best))
            if self.case.kind in (sb.GPEI, sb.GPPI):  # small where little can be gained: relatively, too
                assert index[chosen] >= best * (1 - 1e-6)
            self.pending.append(chosen)
        assert [self.number(x) for x in self.policy.pending] == self.pending

    def tell(self, x, noise=None):
        """Tell policy and oracle a noisy value."""
        y = self.problem.truth(x) + NOISE * self.rng.standard_normal()
        self.policy.tell(x, y, noise=noise)
        self.gp.observe(self.number(x), y, REGULARIZATION * (1.0 if noise is None else noise / NOISE) ** 2)

    def answer(self):
        """Tell the pending points in a random order; of a batch one is sometimes left for later."""
        later = int(self.scenario.batch is not None and self.rng.random() < 0.5)
        for chosen in self.rng.permutation(self.pending)[later:].tolist():
            self.tell(self.policy.finite_space.value(chosen))
            self.pending.remove(chosen)

    def intrude(self):
        """Tell a point that is not pending, by a measurement with a noise of its own; in a box, any point."""
        if isinstance(self.problem.space, sb.Box) and self.rng.random() < 0.5:
            low, high = np.array(self.problem.space.bounds).T
            x = low + (high - low) * self.rng.random(2)
            self.gp.add_point(x, float(self.prior_at(x[None])[0]))
        else:
            free = np.setdiff1d(np.arange(self.size), self.pending)
            x = self.policy.finite_space.value(int(self.rng.choice(free)))
        self.tell(x, noise=self.rng.choice([0.1, 0.5]))

    def play(self, rounds):
        for t in range(rounds):
            self.ask()
            self.answer()
            if self.scenario.uninvited and t % 4 == 3:
                self.intrude()

    def check_report(self):
        """Posterior anywhere and recommendation are the oracle's."""
        mean, std = self.policy.posterior(self.gp.points)
        expected, variance = self.gp.mean_variance()
        np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-8)
        np.testing.assert_allclose(std, np.sqrt(np.maximum(variance, 0)), rtol=0, atol=1e-7)
        queried = sorted({number for number, _, _ in self.gp.observations})
        best = self.policy.best()
        chosen = self.number(best.x)
        assert chosen in queried
        assert expected[chosen] >= expected[queried].max() - 1e-8
        assert best.mean == pytest.approx(expected[chosen], abs=1e-8)
        assert best.std == pytest.approx(np.sqrt(variance[chosen]), abs=1e-7)


every_engine = pytest.mark.parametrize("engine", ["dense", "blocked"])


def on(spaces, cases):
    """Parametrise by policy and space, without Theorem 2 where a space has no sides."""
    fitting = [
        (name, space)
        for name in cases
        for space in spaces
        if cases[name].arguments.get("theorem") != 2 or PROBLEMS[space].side is not None
    ]
    return pytest.mark.parametrize(("name", "space"), fitting)


@small_tiles
@every_engine
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", CASES)
def test_the_chosen_candidate_has_the_largest_index_in_every_round(name, scenario, engine):
    duel = Duel(CASES[name], PROBLEMS["grid"], SCENARIOS[scenario], engine)
    duel.play(25 if SCENARIOS[scenario].batch else 70)
    duel.check_report()


@small_tiles
@every_engine
@on(["points", "arms", "box"], CASES)
def test_the_chosen_candidate_has_the_largest_index_on_other_spaces(name, space, engine):
    duel = Duel(CASES[name], PROBLEMS[space], SCENARIOS["all at once"], engine)
    duel.play(25)
    duel.check_report()


def test_theorem_2_needs_a_space_with_sides():
    with pytest.raises(ValueError, match="theorem: got 2"):
        CASES["gpucb-2"].make(PROBLEMS["points"])


def test_a_box_takes_the_points_of_others():
    """Off-candidate points are learnt from, never chosen, and a prior mean of one number a candidate cannot be had."""
    problem = PROBLEMS["box"]
    policy = CASES["igpucb"].make(problem)
    policy.tell([[0.123, 0.2], [0.9, -0.77], [0.123, 0.2]], [3.0, 4.0, 5.0])
    gp = GP(problem.oracle, [[0.123, 0.2], [0.9, -0.77]])
    for number, y in ((0, 3.0), (1, 4.0), (0, 5.0)):
        gp.observe(number, y, REGULARIZATION)
    np.testing.assert_allclose(policy.posterior(gp.points)[0], gp.mean_variance()[0], atol=1e-9)
    assert policy.best().x.tolist() == [0.123, 0.2]
    candidates = {tuple(x) for x in policy.finite_space.points()[: problem.candidates].tolist()}
    assert {tuple(x) for x in policy.ask(20).tolist()} <= candidates
    with pytest.raises(ValueError, match="prior_mean"):
        CASES["igpucb"].make(problem, prior_mean=np.zeros(problem.candidates))


# ---- information gain


@pytest.mark.parametrize("kind", [sb.IGPUCB, sb.GPTS, sb.GPUCB])
@pytest.mark.parametrize("mode", ["realised", "greedy", 2.5, lambda t: 0.3 * t])
def test_information_gain_as_asked_for(kind, mode):
    """The width follows the gain that was asked for: of the points played, greedy, a number, a function."""
    points = np.random.default_rng(4).random((40, 2))
    kernel = sb.Linear(0.5) + sb.RBF(0.3)  # no two variances are tied, so that the greedy choice is unique
    oracle = naive_kernels.total(naive_kernels.linear(0.5), naive_kernels.rbf(0.3))
    theorem = {"theorem": 3} if kind is sb.GPUCB else {}
    policy = kind(sb.Points(points), kernel, information_gain=mode, rkhs_norm=NORM, **SHARED, **theorem)
    greedy = greedy_information_gain(oracle, points, REGULARIZATION, 30)
    gp = GP(oracle, points)
    for t in range(30):
        gain = {"realised": gp.information_gain(), "greedy": greedy[t]}.get(mode) if isinstance(mode, str) else None
        gain = gain if gain is not None else mode(t) if callable(mode) else mode
        assert policy.information_gain == pytest.approx(gain, abs=1e-9)
        width = {
            sb.IGPUCB: naive.igpucb_width(gain, NORM, NOISE, DELTA),
            sb.GPTS: naive.gpts_width(gain, NORM, NOISE, DELTA),
            sb.GPUCB: naive.gpucb_width3(t + 1, gain, NORM, DELTA),
        }[kind]
        assert policy.width == pytest.approx(width, rel=1e-9)
        assert greedy[t] >= gp.information_gain() - 1e-9  # an upper bound on what any policy gains
        x = policy.ask()
        number = int(policy.space.index(x)[0])
        policy.tell(x, float(points[number].sum()))
        gp.observe(number, float(points[number].sum()), REGULARIZATION)


@pytest.mark.parametrize("mode", ["realized", -1.0, np.inf, np.nan, None])
def test_other_information_gains_are_refused(mode):
    with pytest.raises(ValueError, match="information_gain: got"):
        sb.IGPUCB(sb.Arms(2), sb.Covariance(np.eye(2)), information_gain=mode)


# ---- Thompson sampling


SEEDS = 4000
TS_COVARIANCE = np.array([[1.0, 0.6, 0.1], [0.6, 0.8, -0.2], [0.1, -0.2, 1.2]])
TS_DATA = [(0, 0.9, 0.05), (1, 0.8, 0.05), (0, 0.7, 0.05), (2, 0.8, 0.2)]  # arm, y, noise variance


def ts_oracle():
    gp = GP(naive_kernels.covariance(TS_COVARIANCE), np.arange(3)[:, None], [0.0, 0.1, 0.3])
    for observation in TS_DATA:
        gp.observe(*observation)
    return gp


def ts_policy(seed):
    policy = sb.GPTS(
        sb.Arms(3), sb.Covariance(TS_COVARIANCE), prior_mean=[0.0, 0.1, 0.3], noise=NOISE,
        regularization=REGULARIZATION, rkhs_norm=NORM, delta=DELTA, seed=seed,
    )  # fmt: skip
    for arm, y, variance in TS_DATA:
        policy.tell(arm, y, noise=NOISE * np.sqrt(variance / REGULARIZATION))
    return policy


def ts_probabilities(gp, allowed, pending=()):
    """How often each arm wins a draw from GP(mu, v^2 k) joint over the allowed arms: 400,000 draws."""
    known = gp.with_fantasies(pending, REGULARIZATION)
    mean, covariance = known.mean_covariance()
    v = naive.gpts_width(gp.information_gain(), NORM, NOISE, DELTA)
    draws = np.random.default_rng(0).multivariate_normal(mean, v**2 * covariance, size=400_000, method="eigh")
    winners = np.array(allowed)[draws[:, allowed].argmax(axis=1)]
    return np.bincount(winners, minlength=3) / len(draws)


@pytest.mark.parametrize("allowed", [[0, 1, 2], [0, 2]])
def test_thompson_sampling_plays_each_arm_as_often_as_it_wins_a_draw(allowed):
    """Over 4,000 seeds; each frequency within five standard errors of the oracle's."""
    counts = np.zeros(3)
    for seed in range(SEEDS):
        counts[ts_policy(seed).ask(available=allowed)] += 1
    p = ts_probabilities(ts_oracle(), allowed)
    assert sorted(p)[-2] > 0.1  # the problem is not decided
    assert (np.abs(counts / SEEDS - p) <= 5 * np.sqrt(p * (1 - p) * (1 / SEEDS + 1 / 400_000))).all()


def test_thompson_sampling_takes_pending_points_for_observed():
    """ask(3): each of the 27 outcomes, repeated arms among them, within five standard errors over 4,000 seeds."""
    counts, expected = np.zeros((3, 3, 3)), np.zeros((3, 3, 3))
    for seed in range(SEEDS):
        counts[tuple(ts_policy(seed).ask(3))] += 1
    gp, arms = ts_oracle(), [0, 1, 2]
    first = ts_probabilities(gp, arms)
    for i in arms:
        second = ts_probabilities(gp, arms, [i])
        for j in arms:
            expected[i, j] = first[i] * second[j] * ts_probabilities(gp, arms, [i, j])
    assert (np.abs(counts / SEEDS - expected) <= 5 * np.sqrt(expected * (1 - expected) / SEEDS) + 0.002).all()


def test_thompson_sampling_is_a_function_of_its_seed():
    def chosen(seed):
        policy = DRAWN["ts"].make(PROBLEMS["points"], seed=seed)
        out = []
        for _ in range(40):
            x = policy.ask()
            out.append(tuple(x))
            policy.tell(x, PROBLEMS["points"].truth(x))
        return out

    assert chosen(1) == chosen(1)
    assert chosen(1) != chosen(2)


def test_thompson_sampling_needs_the_dense_engine():
    with pytest.raises(ValueError, match="engine: got 'blocked'"):
        DRAWN["ts"].make(PROBLEMS["points"], engine="blocked")


# ---- asking and telling


EVERY_POLICY = {**{name: CASES[name] for name in CASES if name != "gpucb-2-scaled"}, **DRAWN}
every_policy = pytest.mark.parametrize("name", EVERY_POLICY)


def posterior_of(policy, problem):
    """Mean and deviation at all candidates, as one array."""
    return np.array(policy.posterior(policy.finite_space.points()))


@every_policy
def test_telling_in_any_order_and_at_once_is_the_same(name):
    problem = PROBLEMS["grid"]
    points = problem.space.points(np.arange(0, 160, 11))
    y = np.array([problem.truth(x) for x in points])
    noise = np.linspace(0.1, 0.4, len(points))
    one_by_one, at_once, reverse = (EVERY_POLICY[name].make(problem) for _ in range(3))
    for x, value, own in zip(points, y, noise, strict=True):
        one_by_one.tell(x, value, noise=own)
    at_once.tell(points, y, noise=noise)
    reverse.tell(points[::-1], y[::-1], noise=noise[::-1])
    np.testing.assert_array_equal(posterior_of(at_once, problem), posterior_of(one_by_one, problem))
    np.testing.assert_allclose(posterior_of(reverse, problem), posterior_of(one_by_one, problem), atol=1e-9)
    assert at_once.rounds == one_by_one.rounds == reverse.rounds == len(points)
    assert at_once.ask().tolist() == one_by_one.ask().tolist()
    assert at_once.best().x.tolist() == one_by_one.best().x.tolist()


@every_policy
def test_a_policy_made_anew_in_every_round_goes_on_the_same(name):
    """All a policy is, is its specification and what it was told."""
    problem = PROBLEMS["grid"]
    kept, told = EVERY_POLICY[name].make(problem), []
    for t in range(25):
        fresh = EVERY_POLICY[name].make(problem)
        for x, y in told:
            fresh.tell(x, y)
        x = kept.ask()
        assert fresh.ask().tolist() == x.tolist()
        told.append((x, problem.truth(x) + 0.1 * np.cos(t)))
        kept.tell(*told[-1])


@every_policy
def test_pending_points_are_listed_told_and_abandoned_one_by_one(name):
    problem = PROBLEMS["grid"]
    policy = EVERY_POLICY[name].make(problem)
    policy.tell(problem.space.points([5])[0], 1.0)
    asked = policy.ask(4).tolist()
    assert [x.tolist() for x in policy.pending] == asked
    policy.tell(asked[2], 0.5)
    expected = asked[:2] + asked[3:]
    assert sorted(x.tolist() for x in policy.pending) == sorted(expected)
    free = next(x for x in problem.space.points().tolist() if x not in asked)
    policy.tell(free, 0.1)  # nobody asked for it: nothing pending goes
    assert len(policy.pending) == 3
    policy.abandon(expected[0])
    assert sorted(x.tolist() for x in policy.pending) == sorted(expected[1:])
    policy.abandon()
    assert policy.pending == []
    assert policy.rounds == 3


@on(["arms"], EVERY_POLICY)
def test_one_arm_asked_for_twice_is_pending_twice(name, space):
    policy = EVERY_POLICY[name].make(PROBLEMS[space])
    asked = policy.ask(3, available=[1]).tolist()
    assert asked == policy.pending == [1, 1, 1]
    policy.tell(1, 0.5)
    assert policy.pending == [1, 1]
    policy.abandon(1)
    assert policy.pending == [1]
    policy.tell([1, 1], [0.4, 0.6])  # the second was not pending, and counts all the same
    assert policy.pending == []
    assert policy.rounds == 3


@on(["points"], EVERY_POLICY)
def test_an_abandoned_point_leaves_no_trace(name, space):
    problem = PROBLEMS[space]
    changed_its_mind, straight = (EVERY_POLICY[name].make(problem) for _ in range(2))
    for t in range(12):
        x = changed_its_mind.ask(3)
        changed_its_mind.abandon(x[1])
        changed_its_mind.abandon()
        x = changed_its_mind.ask()
        assert x.tolist() == straight.ask().tolist()
        for policy in (changed_its_mind, straight):
            policy.tell(x, problem.truth(x) + 0.1 * np.sin(t))


def test_what_is_asked_for_has_the_shape_of_the_space():
    grid, arms = (CASES["igpucb"].make(PROBLEMS[name]) for name in ("grid", "arms"))
    x = grid.ask()
    assert (x.shape, x.dtype) == ((2,), np.float64)
    assert grid.ask(1).shape == (1, 2)
    assert grid.ask(3).shape == (3, 2)
    assert type(arms.ask()) is int
    assert arms.ask(3).shape == (3,)
    line = sb.IGPUCB(sb.Grid([[0, 1]], 5), sb.RBF())
    assert line.ask().shape == (1,)
    line.tell(line.ask(), 1.0)
    line.tell(0.25, 1.0)
    line.tell([0.0, 0.5, 1.0], [1.0, 2.0, 3.0])
    line.tell([[0.0], [0.5]], [1.0, 2.0])
    assert line.rounds == 7


def test_a_measurement_counts_by_its_own_noise():
    """Variance lambda (s / R)^2: a noise of R is the default, and half of it counts fourfold."""
    space, kernel = sb.Points([0.0, 0.4]), sb.RBF(0.5)
    make = lambda: sb.IGPUCB(space, kernel, noise=NOISE, regularization=REGULARIZATION)  # noqa: E731
    plain, as_default, half, four = make(), make(), make(), make()
    plain.tell(0.0, 1.0)
    as_default.tell(0.0, 1.0, noise=NOISE)
    half.tell(0.0, 1.0, noise=NOISE / 2)
    four.tell([0.0] * 4, [1.0] * 4)
    assert plain.posterior(0.4) == as_default.posterior(0.4)
    assert half.posterior(0.4) == pytest.approx(four.posterior(0.4), rel=1e-12)
    gp = GP(naive_kernels.rbf(0.5), [[0.0], [0.4]])
    gp.observe(0, 1.0, REGULARIZATION / 4)
    assert half.posterior(0.4) == pytest.approx([v[0] for v in gp.predict([[0.4]])], rel=1e-12)


@pytest.mark.parametrize("prior", [0.0, -1.5, some_prior])
def test_the_posterior_is_known_anywhere(prior):
    """At points that are no candidates too; before the first tell it is the prior."""
    problem = PROBLEMS["grid"]
    policy = CASES["igpucb"].make(problem, prior_mean=prior)
    X = np.random.default_rng(5).uniform(-1, 3, (30, 2))
    prior_at = prior if callable(prior) else lambda x: np.full(len(x), prior)
    points = problem.space.points()
    gp = GP(problem.oracle, points, prior_at(points))
    for t in range(40):
        if t % 8 == 0:
            mean, std = policy.posterior(X)
            expected = gp.predict(X, prior_at(X))
            np.testing.assert_allclose(mean, expected[0], rtol=0, atol=1e-9)
            np.testing.assert_allclose(std, expected[1], rtol=0, atol=1e-8)
            single = policy.posterior(X[3])
            assert [type(value) for value in single] == [float, float]
            assert single == pytest.approx((mean[3], std[3]), abs=1e-12)
        number = (37 * t) % 160
        policy.tell(points[number], np.sin(t))
        gp.observe(number, np.sin(t), REGULARIZATION)


def test_before_the_first_tell_the_recommendation_is_the_priors():
    policy = sb.GPEI(sb.Arms(3), sb.Covariance(np.diag([1.0, 4.0, 9.0])), prior_mean=[0.0, 2.0, 1.0])
    assert policy.best() == (1, 2.0, 2.0)


@pytest.mark.parametrize("seed", range(4))
def test_equal_rows_are_one_point(seed):
    """What was asked for and told is not pending, whichever of the equal rows was meant."""
    policy = sb.IGPUCB(sb.Points([[0.0], [0.0], [1.0]]), sb.RBF(0.1), seed=seed)
    for _ in range(6):
        policy.tell(policy.ask(), 0.0)
    assert policy.pending == []


# ---- refusals


REFUSED = {
    "ask none": lambda policy: policy.ask(0),
    "ask half": lambda policy: policy.ask(1.5),
    "nothing available": lambda policy: policy.ask(available=[]),
    "mask of nothing": lambda policy: policy.ask(available=np.zeros(168, dtype=bool)),
    "mask too short": lambda policy: policy.ask(available=np.ones(167, dtype=bool)),
    "number too large": lambda policy: policy.ask(available=[3, 168]),
    "number negative": lambda policy: policy.ask(available=[-1]),
    "numbers not whole": lambda policy: policy.ask(available=[0.5]),
    "y not a number": lambda policy: policy.tell([0.0, 0.0], np.nan),
    "y infinite, second": lambda policy: policy.tell([[0.0, 0.0], [1.0, 2.0]], [1.0, np.inf]),
    "y text": lambda policy: policy.tell([0.0, 0.0], "much"),
    "x not a number": lambda policy: policy.tell([0.0, np.nan], 1.0),
    "x outside, second": lambda policy: policy.tell([[0.0, 0.0], [1.0, 2.1]], [1.0, 1.0]),
    "x between the candidates": lambda policy: policy.tell([0.01, 0.0], 1.0),
    "x of another dimension": lambda policy: policy.tell([0.0, 0.0, 0.0], 1.0),
    "one y for two x": lambda policy: policy.tell([[0.0, 0.0], [1.0, 2.0]], 1.0),
    "two y for one x": lambda policy: policy.tell([0.0, 0.0], [1.0, 2.0]),
    "noise zero": lambda policy: policy.tell([0.0, 0.0], 1.0, noise=0.0),
    "noise negative, second": lambda policy: policy.tell([[0.0, 0.0], [1.0, 2.0]], [1.0, 1.0], noise=[0.1, -0.1]),
    "noise not a number": lambda policy: policy.tell([0.0, 0.0], 1.0, noise=np.nan),
    "three noises for two": lambda policy: policy.tell([[0.0, 0.0], [1.0, 2.0]], [1.0, 1.0], noise=[0.1] * 3),
    "abandon what is not pending": lambda policy: policy.abandon(policy.space.points([0])[0]),
    "abandon a pending point and another": lambda policy: policy.abandon(
        np.array([policy.pending[0], policy.space.points([0])[0]])
    ),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("name", ["igpucb", "ts", "random"])
def test_a_refused_call_changes_nothing(name, call):
    problem = PROBLEMS["grid"]
    policy, untouched = (EVERY_POLICY[name].make(problem) for _ in range(2))
    for each in (policy, untouched):
        each.tell(problem.space.points([50, 60]), [0.3, 0.4])
        each.ask(2, available=np.arange(100, 160))
    with pytest.raises(ValueError, match=r"(?s)\w: got .*; allowed: "):
        call(policy)
    assert [x.tolist() for x in policy.pending] == [x.tolist() for x in untouched.pending]
    assert policy.rounds == untouched.rounds
    np.testing.assert_array_equal(posterior_of(policy, problem), posterior_of(untouched, problem))
    assert policy.ask().tolist() == untouched.ask().tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda policy: policy.tell([0.5, 0.9], 1.0),
        lambda policy: policy.tell([[0.5, 0.1], [0.5, 0.9]], [1.0, 1.0]),
        lambda policy: policy.tell([0.5, 0.1], np.nan),
        lambda policy: policy.abandon([0.5, 0.1]),
    ],
)
def test_a_refused_call_adds_no_point_to_a_box(call):
    policy = CASES["igpucb"].make(PROBLEMS["box"])
    with pytest.raises(ValueError, match="got"):
        call(policy)
    assert policy.finite_space.size == PROBLEMS["box"].candidates


@pytest.mark.parametrize("prior", [lambda points: np.where(points[:, 0] == 0.5, np.nan, 0.0)])
def test_a_prior_mean_that_fails_on_a_new_point_leaves_the_policy_as_it_was(prior):
    policy, untouched = (CASES["igpucb"].make(PROBLEMS["box"], prior_mean=prior) for _ in range(2))
    with pytest.raises(ValueError, match="prior_mean"):
        policy.tell([0.5, 0.1], 1.0)
    assert policy.ask().tolist() == untouched.ask().tolist()
    policy.tell([0.4, 0.1], 1.0)


@pytest.mark.parametrize(
    "arguments",
    [
        {"noise": 0.0},
        {"noise": np.nan},
        {"regularization": -1.0},
        {"delta": 0.0},
        {"delta": 1.0},
        {"horizon": 0},
        {"seed": -1},
        {"seed": 2**64},
        {"rkhs_norm": 0.0},
        {"prior_mean": np.zeros(3)},
        {"prior_mean": np.nan},
        {"prior_mean": lambda points: np.zeros((len(points), 2))},
        {"engine": "sparse"},
        {"theorem": 4},
        {"scale": 0.0},
        {"constants": (1.0, 0.0)},
        {"constants": (1.0,)},
        {"theorem": 2, "constants": (0.001, 1.0)},  # log(4 d a / delta) is negative: the width has no root
    ],
)
def test_arguments_that_make_no_policy_are_refused(arguments):
    with pytest.raises(ValueError, match=r"got|must be|should be|not in"):
        sb.GPUCB(PROBLEMS["grid"].space, PROBLEMS["grid"].kernel, **arguments)


@pytest.mark.parametrize(
    ("space", "kernel"),
    [
        (sb.Grid([[0, 1]], 5), sb.RBF([1.0, 2.0])),
        (sb.Grid([[0, 1], [0, 1]], 5), sb.Covariance(np.eye(25))),
        (sb.Arms(5), sb.Covariance(np.eye(4))),
    ],
)
def test_kernels_that_do_not_fit_the_space_are_refused(space, kernel):
    with pytest.raises(ValueError, match="got"):
        sb.IGPUCB(space, kernel)


# ---- trajectories


def table_environment(problem, seed=7):
    space = problem.space
    values = [problem.truth(x) for x in space.points()]
    return sb.TableEnvironment(space, values, sb.GaussianNoise(NOISE), seed=seed)


def play_by_hand(policy, environment, rounds, available=None):
    """Candidate, y, width and gain of every round of an ask, observe, tell loop."""
    rows = []
    for t in range(1, rounds + 1):
        width, gain = policy.width, policy.information_gain
        x = policy.ask(available=None if available is None else available(t))
        y = environment.observe(x, t)
        policy.tell(x, y)
        rows.append((int(policy.finite_space.index(x)[0]), y, width, gain))
    return np.array(rows).T


def assert_same_run(run, by_hand):
    np.testing.assert_array_equal(run.candidate, by_hand[0])
    np.testing.assert_array_equal(run.y, by_hand[1])
    np.testing.assert_array_equal(run.width, by_hand[2])
    np.testing.assert_array_equal(run.information_gain, by_hand[3])


def every_third(t):
    return np.arange(t % 3, 90, 3)


@pytest.mark.parametrize("available", [None, every_third])
@on(["grid", "arms"], EVERY_POLICY)
def test_simulate_is_the_loop_by_hand(name, space, available):
    problem, case = PROBLEMS[space], EVERY_POLICY[name]
    run = sb.simulate(case.make(problem), table_environment(problem), horizon=80, available=available)
    assert_same_run(run, play_by_hand(case.make(problem), table_environment(problem), 80, available))
    values = np.array([problem.truth(x) for x in problem.space.points()])
    np.testing.assert_array_equal(run.value, values[run.candidate])
    best = [values[slice(None) if available is None else available(t)].max() for t in range(1, 81)]
    np.testing.assert_allclose(run.regret, best - run.value, atol=1e-15)
    np.testing.assert_allclose(run.cumulative_regret[-1], run.regret.sum())


@pytest.mark.parametrize("name", ["igpucb", "ts", "random"])
def test_simulate_is_the_loop_by_hand_for_functions_that_are_evaluated(name):
    """A value read off the table is, to the last bit, the one observed at a single point."""
    problem = PROBLEMS["points"]
    environment = sb.RKHSFunction.sparse(problem.space, problem.kernel, sb.GaussianNoise(NOISE), seed=2)
    run = sb.simulate(EVERY_POLICY[name].make(problem), environment, horizon=60)
    assert_same_run(run, play_by_hand(EVERY_POLICY[name].make(problem), environment, 60))


@pytest.mark.parametrize("name", ["igpucb", "ei", "random"])
def test_simulate_on_a_box_is_the_loop_by_hand(name):
    problem = PROBLEMS["box"]
    environment = sb.FunctionEnvironment(problem.space, problem.truth, sb.GaussianNoise(NOISE), seed=3)
    run = sb.simulate(EVERY_POLICY[name].make(problem), environment, horizon=30)
    assert_same_run(run, play_by_hand(EVERY_POLICY[name].make(problem), environment, 30))


@every_policy
def test_simulate_goes_on_from_where_the_policy_is(name):
    problem = PROBLEMS["grid"]
    whole = sb.simulate(EVERY_POLICY[name].make(problem), table_environment(problem), horizon=60)
    policy = EVERY_POLICY[name].make(problem)
    parts = [sb.simulate(policy, table_environment(problem), horizon=part) for part in (25, 35)]
    assert [part.first_round for part in parts] == [1, 26]
    np.testing.assert_array_equal(np.concatenate([part.candidate for part in parts]), whole.candidate)
    np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), whole.y)


@small_tiles
@on(["grid", "points", "arms"], CASES)
def test_both_engines_give_the_same_trajectory(name, space):
    problem, case = PROBLEMS[space], CASES[name]
    dense, blocked = (
        sb.simulate(case.make(problem, engine=engine), table_environment(problem), horizon=150)
        for engine in ("dense", "blocked")
    )
    np.testing.assert_array_equal(blocked.candidate, dense.candidate)
    np.testing.assert_array_equal(blocked.y, dense.y)
    np.testing.assert_allclose(blocked.width, dense.width, rtol=1e-9)


TRAJECTORIES = """
import json
import sys

import scalable_bandits as sb

runs = {}
space = sb.Grid([[0, 1], [0, 1]], 20)
environment = sb.RKHSFunction.sparse(space, sb.RBF(0.4), sb.UniformNoise(0.3), seed=4)
for name in sys.argv[1:]:
    policy = getattr(sb, name)(space, sb.RBF(0.2), noise=0.2, regularization=0.05, seed=3)
    runs[name] = sb.simulate(policy, environment, horizon=100).candidate.tolist()
runs["function"] = sb.GPSample(space, sb.RBF(0.2), seed=5).table().tolist()
print(json.dumps(runs))
"""


POLICY_NAMES = ["GPUCB", "IGPUCB", "GPTS", "GPEI", "GPPI", "MeanOnly", "VarianceOnly", "RandomSearch"]


@functools.cache
def fresh_trajectories(**variables):
    """Candidates that each policy plays, and a drawn function, in a process with these environment variables."""
    command = [sys.executable, "-c", TRAJECTORIES, *POLICY_NAMES]
    done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, **variables})
    return json.loads(done.stdout)


def test_a_fresh_process_gives_the_same_trajectories(capsys, monkeypatch):
    """Whatever its hash seed."""
    fresh = fresh_trajectories(PYTHONHASHSEED="1")
    assert fresh_trajectories(PYTHONHASHSEED="2") == fresh
    monkeypatch.setattr(sys, "argv", ["", *POLICY_NAMES])
    exec(compile(TRAJECTORIES, "trajectories", "exec"), {})
    assert json.loads(capsys.readouterr().out) == fresh


@pytest.mark.parametrize("name", [*POLICY_NAMES, "function"])
def test_the_number_of_threads_changes_nothing(name):
    """Last bits may differ; on a symmetric grid, where eigenvalues repeat, nothing more may follow from them."""
    one, two = (fresh_trajectories(OPENBLAS_NUM_THREADS=threads, MKL_NUM_THREADS=threads)[name] for threads in "12")
    np.testing.assert_allclose(two, one, rtol=0, atol=1e-6)
