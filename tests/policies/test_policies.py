"""Policies against the oracle: in every round the chosen candidate has the largest index."""

import json
import pickle
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from cases.policies import (
    CASES,
    DELTA,
    DRAWN,
    EVERY_POLICY,
    FORGETTING,
    NOISE,
    NORM,
    OVER_A_PATH,
    PROBLEMS,
    REGULARIZATION,
    REPEATING,
    SHARED,
    UNSURE,
    every_policy,
    on,
)
from naive import drifting
from naive import kernels as naive_kernels
from naive import policies as naive
from naive.gp import GP, greedy_information_gain
from naive.normals import impulse_responses

import scalable_bandits as sb
from scalable_bandits.policies import sample_paths
from scalable_bandits.policies.limited_memory import memory_length

small_tiles = pytest.mark.usefixtures("small_tiles")


def some_prior(points):
    """A prior mean as a function of points (k, d)."""
    return 0.5 + 0.3 * np.sin(points[:, 0])


class Scenario(NamedTuple):
    """What happens besides asking for a point and telling its value."""

    prior: str = "zero"  # or "array", "function"
    available: bool = False  # availability sets that change each round, as masks and as numbers
    batch: int | None = None  # points asked for at a time, told late and out of order
    uninvited: bool = False  # tells of points nobody asked for, with a noise of their own
    drawn: bool = False  # values of pending points are drawn


SCENARIOS = {
    "plain": Scenario(),
    "prior array": Scenario(prior="array"),
    "available": Scenario(available=True),
    "pending": Scenario(batch=3),
    "uninvited": Scenario(uninvited=True),
    "all at once": Scenario(prior="function", available=True, batch=3, uninvited=True),
}
DRAWN_VALUES = {
    "drawn": Scenario(batch=6, drawn=True),
    "drawn, all at once": Scenario(prior="function", available=True, batch=3, uninvited=True, drawn=True),
}


class Duel:
    """A policy and the oracle's posterior, told the same."""

    def __init__(self, case, problem, scenario, engine):
        self.case, self.problem, self.scenario = case, problem, scenario
        self.rng = np.random.default_rng(11)
        self.policy = case.make(problem, engine=engine)
        points = self.policy.domain.points()
        self.size = len(points)
        self.prior_at = some_prior if scenario.prior != "zero" else lambda x: np.zeros(len(x))
        given = {"zero": 0.0, "array": some_prior(points), "function": some_prior}[scenario.prior]
        values = {"pending": "sample"} if scenario.drawn else {}
        self.policy = case.make(problem, engine=engine, prior_mean=given, **values)
        self.gp = case.oracle(problem.oracle, points, self.prior_at(points))
        self.pending, self.told = [], 0

    def known(self, allowed):
        """What the oracle knows before the next choice."""
        key = (SHARED["seed"], self.told + len(self.pending) + 1) if self.scenario.drawn else None
        return naive.Bandit(self.gp, self.pending, REGULARIZATION, allowed, key)

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
        known = self.known(allowed)
        if self.case.width is not None:
            assert self.policy.width == pytest.approx(self.case.width(known, self.problem), rel=1e-9)
            assert self.policy.information_gain == pytest.approx(known.gain, abs=1e-8)
        asked = self.policy.ask(self.scenario.batch, available=given)
        for x in [asked] if self.scenario.batch is None else asked:
            known = self.known(allowed)
            index, chosen = self.case.indices(known, self.problem), self.number(x)
            if self.played_again(chosen, allowed):
                self.pending.append(chosen)
                continue
            best = index[allowed].max()
            assert chosen in allowed
            assert index[chosen] >= best - 1e-8 * max(1.0, abs(best))
            if self.case.kind in (sb.GPEI, sb.GPPI):  # small where little can be gained: relatively, too
                assert index[chosen] >= best * (1 - 1e-6)
            self.pending.append(chosen)
        assert [self.number(x) for x in self.policy.pending] == self.pending

    def played_again(self, chosen, allowed):
        """Whether the policy plays the point of an earlier choice, which is then the right one."""
        return False

    def truth(self, x):
        """f at one point."""
        return self.problem.truth(x)

    def tell(self, x, noise=None):
        """Tell policy and oracle a noisy value."""
        y = self.truth(x) + NOISE * self.rng.standard_normal()
        self.policy.tell(x, y, noise=noise)
        self.gp.observe(self.number(x), y, REGULARIZATION * (1.0 if noise is None else noise / NOISE) ** 2)
        self.told += 1

    def answer(self):
        """Tell the pending points in a random order; of a batch one is sometimes left for later."""
        later = int(self.scenario.batch is not None and self.rng.random() < 0.5)
        for chosen in self.rng.permutation(self.pending)[later:].tolist():
            self.tell(self.policy.domain.numbered.value(chosen))
            self.pending.remove(chosen)

    def intrude(self):
        """Tell a point that is not pending, by a measurement with a noise of its own; in a box, any point."""
        if isinstance(self.problem.space, sb.Box) and self.rng.random() < 0.5:
            low, high = np.array(self.problem.space.bounds).T
            x = low + (high - low) * self.rng.random(2)
            self.gp.add_point(x, float(self.prior_at(x[None])[0]))
        else:
            free = np.setdiff1d(np.arange(self.size), self.pending)
            x = self.policy.domain.numbered.value(int(self.rng.choice(free)))
        self.tell(x, noise=self.rng.choice([0.1, 0.5]))

    def play(self, rounds):
        for t in range(rounds):
            self.ask()
            self.answer()
            if self.scenario.uninvited and t % 4 == 3:
                self.intrude()
        self.check_report()

    def check_report(self):
        """Posterior anywhere and recommendation are the oracle's."""
        mean, std = self.policy.posterior(self.gp.points)
        expected, variance = self.gp.mean_variance()
        np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-8)
        np.testing.assert_allclose(std, np.sqrt(np.maximum(variance, 0)), rtol=0, atol=1e-7)
        queried = sorted({number for number, _, _ in self.gp.observations})
        best = self.policy.best()
        chosen = self.number(best.x)
        queried = queried or list(range(self.size))  # just restarted
        assert chosen in queried
        assert expected[chosen] >= expected[queried].max() - 1e-8
        assert best.mean == pytest.approx(expected[chosen], abs=1e-8)
        assert best.std == pytest.approx(np.sqrt(variance[chosen]), abs=1e-7)


class ChangingDuel(Duel):
    """Duel about a function that jumps every few rounds."""

    def truth(self, x):
        return super().truth(x) + 4.0 * (self.gp.told // 20 % 2)

    def tell(self, x, noise=None):
        before = len(self.gp.resets)
        super().tell(x, noise)
        assert self.policy.resets == self.gp.resets
        assert self.policy._remembered == len(self.gp.observations)
        assert len(self.gp.resets) <= before + 1


class PathDuel(Duel):
    """Duel whose index depends on the maximum of a sample path, which the oracle takes from the policy."""

    def ask(self):
        given, allowed = self.available()
        mask = self.policy.domain.allowed(given)
        for _ in range(self.scenario.batch or 1):
            known = naive.Bandit(self.gp, self.pending, REGULARIZATION, allowed)
            known.highest_of_path = self.policy.highest_of_path(1.0, mask)[1]
            index = self.case.indices(known, self.problem)
            chosen = self.number(self.policy.ask(available=given))
            best = index[allowed].max()
            assert chosen in allowed
            assert index[chosen] >= best - 1e-8 * abs(best)
            self.pending.append(chosen)
        assert [self.number(x) for x in self.policy.pending] == self.pending


every_engine = pytest.mark.parametrize("engine", ["dense", "tiled"])
with_weights = pytest.mark.parametrize("engine", ["dense", "tiled", "weights"])


def grid_for(engine):
    """A grid, with a kernel of few features for the engine that needs one."""
    return PROBLEMS["grid, features" if engine == "weights" else "grid"]


@small_tiles
@with_weights
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(30)
def test_the_chosen_candidate_has_the_largest_index_in_every_round(name, scenario, engine):
    duel = Duel(CASES[name], grid_for(engine), SCENARIOS[scenario], engine)
    duel.play(12 if SCENARIOS[scenario].batch else 40)


@small_tiles
@every_engine
@on(["points", "arms", "box"], CASES)
@pytest.mark.sampled(20)
def test_the_chosen_candidate_has_the_largest_index_on_other_spaces(name, space, engine):
    duel = Duel(CASES[name], PROBLEMS[space], SCENARIOS["all at once"], engine)
    duel.play(14)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", OVER_A_PATH)
@pytest.mark.sampled(4)
def test_the_chosen_candidate_has_the_largest_improvement_over_a_path(name, scenario):
    duel = PathDuel(OVER_A_PATH[name], PROBLEMS["grid"], SCENARIOS[scenario], "dense")
    duel.play(12 if SCENARIOS[scenario].batch else 40)


@on(["points", "arms", "box"], OVER_A_PATH)
@pytest.mark.sampled(2)
def test_the_chosen_candidate_has_the_largest_improvement_over_a_path_on_other_spaces(name, space):
    duel = PathDuel(OVER_A_PATH[name], PROBLEMS[space], SCENARIOS["all at once"], "auto")
    duel.play(14)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", ["event", "event-often"])
@pytest.mark.sampled(3, first="event")
def test_what_contradicts_the_model_resets_it(name, scenario):
    """In the round in which the oracle resets, through jumps, with availability sets and pending points."""
    duel = ChangingDuel(FORGETTING[name], PROBLEMS["grid"], SCENARIOS[scenario], "auto")
    duel.play(30 if SCENARIOS[scenario].batch else 90)
    assert len(duel.gp.resets) >= 2


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", FORGETTING)
@pytest.mark.sampled(20)
def test_the_chosen_candidate_has_the_largest_index_through_all_forgetting(name, scenario):
    """In every round: through restarts, window drops and fading, with availability sets and pending points."""
    duel = Duel(FORGETTING[name], PROBLEMS["grid"], SCENARIOS[scenario], "auto")
    duel.play(12 if SCENARIOS[scenario].batch else 40)


@on(["points", "arms", "box"], FORGETTING)
@pytest.mark.sampled(8)
@pytest.mark.slow
def test_the_chosen_candidate_has_the_largest_index_through_all_forgetting_on_other_spaces(name, space):
    duel = Duel(FORGETTING[name], PROBLEMS[space], SCENARIOS["all at once"], "auto")
    duel.play(14)


@small_tiles
@with_weights
@pytest.mark.parametrize("scenario", DRAWN_VALUES)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(30)
def test_the_chosen_candidate_has_the_largest_index_given_drawn_values(name, scenario, engine):
    """The oracle draws the same values at up to six pending points, and refits with them as observations."""
    duel = Duel(CASES[name], grid_for(engine), DRAWN_VALUES[scenario], engine)
    duel.play(8)


@small_tiles
@on(["points", "arms", "box"], CASES)
@pytest.mark.sampled(9)
def test_the_chosen_candidate_has_the_largest_index_given_drawn_values_on_other_spaces(name, space):
    duel = Duel(CASES[name], PROBLEMS[space], DRAWN_VALUES["drawn, all at once"], "tiled")
    duel.play(8)


@pytest.mark.parametrize("scenario", DRAWN_VALUES)
@pytest.mark.parametrize("name", FORGETTING)
@pytest.mark.sampled(6)
@pytest.mark.slow
def test_the_chosen_candidate_has_the_largest_index_given_drawn_values_through_all_forgetting(name, scenario):
    """Pending points count as measured in the next round."""
    duel = Duel(FORGETTING[name], PROBLEMS["grid"], DRAWN_VALUES[scenario], "auto")
    duel.play(8)


class RepeatedDuel(Duel):
    """A duel with a policy that plays a chosen point several times."""

    def __init__(self, *given):
        super().__init__(*given)
        self.present, self.left, self.choices, self.again = None, 0, 0, 0

    def plays(self, number):
        """How often a point is played that is chosen now."""
        _, variance = self.gp.mean_variance()
        squared = self.case.arguments["shrinkage"] ** 2
        return max(1, int((squared - 1) * REGULARIZATION / variance[number]))

    def played_again(self, chosen, allowed):
        last = self.pending[-1] if self.pending else self.present
        if last is None or last not in allowed:
            return False
        left = self.left if last == self.present else self.plays(last)
        if self.pending.count(last) >= left:
            return False
        assert chosen == last
        self.again += 1
        return True

    def tell(self, x, noise=None):
        number = self.number(x)
        if number not in self.pending:  # nobody asked for it: no play of a choice (none is the one to be chosen)
            super().tell(x, noise)
            self.present = None
            assert self.policy.choices == self.choices
            return
        if number != self.present:
            self.present, self.left = number, self.plays(number)
            self.choices += 1
        super().tell(x, noise)
        self.left -= 1
        if not self.left:
            self.present = None
        assert self.policy.choices == self.choices


@small_tiles
@every_engine
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", REPEATING)
@pytest.mark.sampled(8)
@pytest.mark.slow
def test_a_chosen_point_is_played_until_it_is_known_well_enough(name, scenario, engine):
    duel = RepeatedDuel(REPEATING[name], PROBLEMS["grid"], SCENARIOS[scenario], engine)
    for _ in range(7):
        duel.play(6 if SCENARIOS[scenario].batch else 12)  # reading the report after each changes nothing
    assert duel.again > 5


@small_tiles
@every_engine
@on(["points", "arms", "box"], REPEATING)
@pytest.mark.sampled(4)
@pytest.mark.slow
def test_a_chosen_point_is_played_until_it_is_known_well_enough_on_other_spaces(name, space, engine):
    duel = RepeatedDuel(REPEATING[name], PROBLEMS[space], SCENARIOS["all at once"], engine)
    duel.play(14)


@pytest.mark.parametrize("kind", [sb.MiniGPUCB, sb.MiniGPEI])
def test_an_earlier_measurement_is_not_played_again(kind):
    """A bad one, of a point that nobody asked for: the next one is chosen, and after it any that is told."""
    policy = kind(sb.Grid([[0, 1]], 11), sb.RBF(0.1), noise=1.0, regularization=1.0, shrinkage=3.0)
    policy.tell([0.0], -10.0)
    first = policy.ask()
    assert first[0] > 0.0
    policy.tell(first, 1.0)
    assert policy.ask() == first  # planned
    policy.tell([0.0], -10.0)
    assert policy.ask() == first  # pending
    policy.abandon()
    policy.tell([1.0], 50.0)
    assert policy.ask()[0] > 0.7  # chosen anew
    assert policy.choices == 1


@pytest.mark.parametrize("name", REPEATING)
def test_what_is_read_between_two_choices_does_not_matter(name):
    """To the last bit: posterior, recommendation, width and state in every round."""
    problem = PROBLEMS["grid"]
    watched, alone = (REPEATING[name].make(problem) for _ in range(2))
    for t in range(120):
        x = watched.ask()
        assert alone.ask().tolist() == x.tolist()
        for policy in (watched, alone):
            policy.tell(x, problem.truth(x) + 0.2 * np.sin(t))
        watched.posterior(problem.space.points()), watched.best(), watched.width, watched.state()
        watched.model.engine.mean()
    assert watched.choices == alone.choices < 100
    np.testing.assert_array_equal(posterior_of(watched, problem), posterior_of(alone, problem))
    assert watched.information_gain == alone.information_gain


def test_theorem_2_needs_constants_for_which_there_is_a_width():
    """Where 4 d a / delta < 1, it is the root of a negative logarithm: refused at once, not in the first round."""
    with pytest.raises(ValueError, match=r"(constants|delta): got .*; allowed: "):
        CASES["gpucb-2"].make(PROBLEMS["grid"], constants=(0.001, 1.0))


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


@pytest.mark.parametrize("space", [sb.Grid([[0, 1]], 5), sb.Points([0.0, 0.25, 1.0]), sb.Box([[0, 1]])], ids=str)
def test_random_search_knows_nothing_of_points_without_observations(space):
    """Nor of those that are no candidates."""
    policy = sb.RandomSearch(space, noise=0.2, regularization=0.04)
    policy.tell([0.25, 0.25, 1.0], [1.0, 2.0, 5.0])
    mean, std = policy.posterior([0.25, 0.3, 1.0, 1.5])
    np.testing.assert_array_equal(mean, [1.5, np.nan, 5.0, np.nan])
    np.testing.assert_allclose(std, [0.2 / np.sqrt(2.0), np.inf, 0.2, np.inf])


# ---- Thompson sampling


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
@pytest.mark.sampled(2)
@pytest.mark.slow
def test_thompson_sampling_plays_each_arm_as_often_as_it_wins_a_draw(allowed):
    """Over 1,000 seeds; each frequency within five standard errors of the oracle's."""
    counts, seeds = np.zeros(3), 1000
    for seed in range(seeds):
        counts[ts_policy(seed).ask(available=allowed)] += 1
    p = ts_probabilities(ts_oracle(), allowed)
    assert sorted(p)[-2] > 0.1  # the problem is not decided
    assert (np.abs(counts / seeds - p) <= 5 * np.sqrt(p * (1 - p) * (1 / seeds + 1 / 400_000))).all()


def assert_draws_have(covariance, policy, mean, width, monkeypatch):
    """A draw is linear in its normal numbers, and the responses to them give the covariance of draws over the width."""
    drawn = []
    monkeypatch.setattr(sample_paths, "choose", lambda index, *_: drawn.append(index) or (0, 0.0))

    def draw(normals):
        monkeypatch.setattr(sample_paths, "generator", lambda *_: normals)
        policy.choose()
        return (drawn.pop() - mean) / width

    responses = impulse_responses(draw)
    np.testing.assert_allclose(responses.T @ responses, covariance, rtol=0, atol=1e-9)


@pytest.mark.parametrize("pending", [[], [7], [3, 3, 3], [1, 7, 1, 20, 7, 1]])
def test_thompson_samples_have_the_covariance_given_the_pending_points(pending, monkeypatch):
    """Exactly: v_t^2 times the posterior covariance, each pending point observed as often as it is pending."""
    problem = PROBLEMS["arms"]
    policy = DRAWN["ts"].make(problem, regularization=0.4)
    gp = GP(problem.oracle, policy.domain.points())
    for arm in (3, 8, 3, 50):
        policy.tell(arm, float(arm))
        gp.observe(arm, float(arm), 0.4)
    for arm in pending:
        policy.ask(available=[arm])
    mean, covariance = gp.with_fantasies(pending, 0.4).mean_covariance()
    v = naive.gpts_width(gp.information_gain(), NORM, NOISE, DELTA)
    assert_draws_have(covariance, policy, mean, v, monkeypatch)


def test_thompson_sampling_of_a_function_that_forgets(monkeypatch):
    """The draw is from the present round's posterior."""
    problem = PROBLEMS["points"]
    policy = sb.GPTS(problem.space, problem.kernel * sb.TemporalDecay(0.2), rkhs_norm=NORM, **SHARED)
    gp = drifting.TimedGP(problem.oracle, problem.space.points(), 0.2)
    for number in (3, 80, 3, 140):
        policy.tell(problem.space.points([number])[0], 1.0)
        gp.observe(number, 1.0, REGULARIZATION)
    mean, covariance = gp.mean_covariance()
    v = naive.gpts_width(gp.information_gain(), NORM, NOISE, DELTA)
    assert_draws_have(covariance, policy, mean, v, monkeypatch)


# ---- memory


@pytest.mark.parametrize("kind", [sb.RGPUCB, sb.SWGPUCB])
@pytest.mark.parametrize(
    ("gain", "budget"), [("realised", None), ("realised", 0.3), (20.0, 7.0), (lambda t: 2.0 * t, None), (1.0, 1e-9)]
)
def test_memory_follows_the_variation_budget(kind, gain, budget):
    """ceil(g_T^(1/4) sqrt(T / P_T)), with P_T = 1 where none is given, and never more than T."""
    points, horizon = np.random.default_rng(4).random((40, 2)), 60
    policy = kind(
        sb.Points(points), sb.RBF(0.3), memory="auto", variation_budget=budget, information_gain=gain, horizon=horizon,
        **SHARED,
    )  # fmt: skip
    if gain == "realised":
        g = greedy_information_gain(naive_kernels.rbf(0.3), points, REGULARIZATION, horizon)[-1]
    else:
        g = gain(horizon) if callable(gain) else gain
    budget = Fraction(str(budget or 1.0))
    expected = next(k for k in range(1, horizon + 1) if k == horizon or k**4 * budget**2 >= Fraction(g) * horizon**2)
    assert policy.memory_length == expected


def test_a_memory_that_is_a_whole_number_is_not_rounded_up():
    """sqrt(30 / 0.3) = 10, though the double nearest to 0.3 is below it; 4 sqrt(2500 / 4) = 100."""
    assert memory_length(30, gain=1.0, variation_budget=0.3) == 10
    assert memory_length(2500, gain=256.0, variation_budget=4.0) == 100


def test_the_greedy_bound_that_chose_a_memory_is_not_kept():
    space = sb.Grid([[0, 1]], 500)
    auto = sb.RGPUCB(space, sb.RBF(0.2), horizon=50)
    given = sb.RGPUCB(space, sb.RBF(0.2), horizon=50, memory=auto.memory_length)
    for policy in (auto, given):
        policy.tell(policy.ask(), 0.5)
    assert len(pickle.dumps(auto)) < 1.1 * len(pickle.dumps(given))


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (sb.RGPUCB, {}, "horizon: got None; allowed: a number, for memory='auto'"),
        (sb.SWGPUCB, {"memory": 0}, "memory: got 0; allowed: a positive integer"),
        (sb.SWGPUCB, {"memory": 2.5}, "memory: got 2.5"),
        (sb.RGPUCB, {"memory": "long"}, "memory: got 'long'; allowed: a positive integer, or 'auto'"),
        (sb.RGPUCB, {"memory": 9, "variation_budget": 0}, "variation_budget: got 0.0; allowed: a positive number"),
        (sb.SWGPUCB, {"memory": 100_000}, "memory: got 100000; allowed: w with"),
        (sb.SWGPUCB, {"memory": 9, "width": "wide"}, "width: got 'wide'; allowed: 'algorithm', 'theorem'"),
        (sb.SWGPUCB, {"memory": 9, "width": "theorem"}, "horizon: got None; allowed: a number, for width='theorem'"),
        (sb.SWGPUCB, {"memory": 9, "engine": "dense"}, "engine: got 'dense'; allowed: 'auto' or 'sliding'"),
        (sb.WGPUCB, {"eta": 1.0}, "eta: got 1.0"),
        (sb.TVGPUCB, {}, "kernel: got .*; allowed: a kernel times TemporalDecay"),
        (sb.SWGPUCB, {"memory": 9, "epsilon": 0.1}, "kernel: got .*; allowed: one without TemporalDecay"),
        (sb.WGPUCB, {"epsilon": 0.1}, "kernel: got .*; allowed: one without TemporalDecay"),
        (sb.SupKernelUCB, {"epsilon": 0.1, "horizon": 9}, "kernel: got .*; allowed: one without TemporalDecay"),
        (sb.PiGPUCB, {"epsilon": 0.1}, "kernel: got .*; allowed: one without TemporalDecay"),
        (sb.IGPUCB, {"epsilon": 0.1, "information_gain": "greedy"}, "information_gain: got 'greedy'"),
        (sb.IGPUCB, {"epsilon": 0.1, "engine": "dense"}, "engine: got 'dense'; allowed: 'auto' or 'autoregressive'"),
        (sb.RGPUCB, {"epsilon": 0.1, "horizon": 100}, "information_gain: got 'realised'"),
    ],
)
def test_bad_memories_are_refused(kind, arguments, message):
    epsilon = arguments.get("epsilon")
    options = {key: value for key, value in arguments.items() if key != "epsilon"}
    kernel = sb.RBF(0.3) * sb.TemporalDecay(epsilon) if epsilon else sb.RBF(0.3)
    with pytest.raises(ValueError, match=message):
        kind(sb.Grid([[0, 1]], 11), kernel, **options)


@pytest.mark.parametrize("name", [name for name in EVERY_POLICY if EVERY_POLICY[name].priors is None])
@pytest.mark.sampled(4)
def test_a_policy_is_made_again_from_its_dict(name):
    policy = EVERY_POLICY[name].make(PROBLEMS["grid"])
    again = sb.Policy.from_dict(json.loads(json.dumps(policy.to_dict())))
    assert type(again) is type(policy)
    assert again.to_dict() == policy.to_dict()
    for x in (policy.ask(), policy.space.points([7])[0]):
        for told in (policy, again):
            told.tell(x, 0.7)
    assert again.ask().tolist() == policy.ask().tolist()


# ---- asking and telling


def posterior_of(policy, problem):
    """Mean and deviation at all candidates, as one array."""
    return np.array(policy.posterior(policy.domain.points()))


@every_policy
@pytest.mark.sampled(3)
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
    forgets = name.removesuffix("-sample") in FORGETTING
    if not forgets and name not in UNSURE:  # whose observations' order is their time
        np.testing.assert_allclose(posterior_of(reverse, problem), posterior_of(one_by_one, problem), atol=1e-9)
        assert reverse.best().x.tolist() == one_by_one.best().x.tolist()
    assert at_once.rounds == one_by_one.rounds == reverse.rounds == len(points)
    assert at_once.ask().tolist() == one_by_one.ask().tolist()
    assert at_once.best().x.tolist() == one_by_one.best().x.tolist()


@every_policy
@pytest.mark.sampled(3)
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


@on(["points"], EVERY_POLICY)
@pytest.mark.sampled(3)
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
