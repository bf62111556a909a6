"""The trust region around the best point: its model, its turns, what it reaches, and what others see of its steps."""

import copy
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import trust_region as naive

import scalable_bandits as sb
from scalable_bandits.posteriors.models import trust_region
from scalable_bandits.posteriors.models.learned import BY_CHANCE, share_of_ties
from scalable_bandits.posteriors.models.trust_region import TrustRegion, Turned
from scalable_bandits.posteriors.state import copied

SIDES = np.array([4.0, 0.5])
BOUNDS = np.array([[-1.0, 3.0], [0.0, 0.5]])


def sphere(d, seed=5):
    optimum = np.random.default_rng(seed).uniform(0.3, 0.7, d)
    return lambda x: float((100.0 * (np.asarray(x) - optimum) ** 2).sum())


def ellipsoid(d, seed=5):
    rng = np.random.default_rng(seed)
    optimum, turned = rng.uniform(0.3, 0.7, d), np.linalg.qr(rng.standard_normal((d, d)))[0]
    axes = 10.0 ** (6.0 * np.arange(d) / (d - 1))
    return lambda x: float((axes * (turned @ (10.0 * (np.asarray(x) - optimum))) ** 2).sum())


def cone(d, seed=5):
    optimum = np.random.default_rng(seed).uniform(0.3, 0.7, d)
    return lambda x: float(np.abs(np.asarray(x) - optimum).sum())


def sector(d, seed=5):
    """A hundred times as steep on one side of each plane through the minimum as on the other."""
    rng = np.random.default_rng(seed)
    optimum, turned = rng.uniform(0.3, 0.7, d), np.linalg.qr(rng.standard_normal((d, d)))[0]

    def value(x):
        away = turned @ (np.asarray(x) - optimum)
        return float(((np.where(away > 0.0, 100.0, 1.0) * away) ** 2).sum() ** 0.9)

    return value


def rosenbrock(x):
    z = 4.0 * np.asarray(x) - 2.0
    return float((100.0 * (z[1:] - z[:-1] ** 2) ** 2 + (1.0 - z[:-1]) ** 2).sum())


def minimized(function, d, rounds, seed=0, tolerance=0.0):
    policy, values = sb.GPEI(sb.Box([[0, 1]] * d), minimize=True, seed=seed), []
    for _ in range(rounds):
        x = policy.ask()
        values.append(function(x))
        policy.tell(x, values[-1])
        if values[-1] <= tolerance:
            break
    return policy, values


# ---- the model


@pytest.mark.parametrize("count", [8, 40])
def test_model(count):
    """Nearest observations, posterior mean, and a likelihood that no change of what is learned improves."""
    rng = np.random.default_rng(count)
    x = BOUNDS[:, 0] + SIDES * rng.random((count, 2))
    y = np.sin(x[:, 0]) - 3.0 * x[:, 1] ** 2 + x[:, 0] * x[:, 1]
    region = TrustRegion(BOUNDS, 0)
    region.radius = 0.02
    model = region._fitted(x, y)
    near = naive.nearest(x.tolist(), y.tolist(), SIDES, region.radius)
    points = (x[near] - x[near[0]]) / model.scale
    np.testing.assert_allclose(np.abs(points).max(), 1.0)
    values = (y[near] - y[near].mean()) / y[near].std()
    centers, spreads = np.log([10.0, math.sqrt(2.0), 10.0, 10.0]), np.array([2.0, 1.5, 2.0, 2.0])
    low, high = np.log([1e-9, math.sqrt(2.0) / 1e4, 1e-9, 1e-9]), np.log([1e7, math.sqrt(2.0) * 1e4, 1e7, 1e7])

    def density(logs, scaled):
        _, likelihood = naive.posterior(scaled, values, np.exp(logs[[0, 2, 3]]), math.exp(logs[1]), 1e-12)
        return likelihood - 0.5 * float((((logs - centers) / spreads) ** 2).sum())

    def learned(turned):
        """Return the logarithms of what was learned, which no small change improves."""
        logs = np.log([p.value for p in turned.surface.kernel.hyperparameters])
        np.testing.assert_array_equal(logs[[3, 5, 6]], 0.0)
        logs, scaled = logs[[0, 1, 2, 4]], points @ turned.axes.T
        np.testing.assert_allclose(turned.surface.points, scaled)
        for _ in range(20):
            other = np.clip(logs + 0.1 * rng.standard_normal(4), low, high)
            assert density(other, scaled) < density(logs, scaled) + 1e-3
        return logs

    straight = Turned(points, values, np.eye(2))
    logs = learned(straight)
    at, _ = naive.posterior(points, values, np.exp(logs[[0, 2, 3]]), math.exp(logs[1]), 1e-12)
    axes = naive.even_axes(at, points)
    turned = Turned(points, values, axes)
    more = learned(turned)
    likelier = density(more, points @ axes.T) > density(logs, points)
    expected = axes if likelier else np.eye(2)
    np.testing.assert_allclose(
        model.posterior.axes.T @ model.posterior.axes, expected.T @ expected, rtol=1e-3, atol=1e-4
    )
    chosen = learned(model.posterior)
    at, _ = naive.posterior(
        points @ model.posterior.axes.T, values, np.exp(chosen[[0, 2, 3]]), math.exp(chosen[1]), 1e-12
    )
    for point in BOUNDS[:, 0] + SIDES * rng.random((5, 2)):
        gain = (at(model.posterior.axes @ ((point - x[near[0]]) / model.scale)) - values[0]) * y[near].std()
        assert model.gain(point) == pytest.approx(gain, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("flat", [False, True])
def test_even_axes(flat):
    """They make a quadratic function equally curved in all directions, but do not stretch flat ones at will."""
    rng = np.random.default_rng(3)
    turned = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    strengths = np.array([1e-12 if flat else 1e-4, 1.0, -5.0])
    axes = trust_region._even_axes(turned @ np.diag(strengths) @ turned.T, rng.random((9, 3)))
    seen = np.linalg.inv(axes).T @ turned @ np.diag(strengths) @ turned.T @ np.linalg.inv(axes)
    found = np.sort(np.abs(np.linalg.eigvalsh(seen)))
    np.testing.assert_allclose(found[1:], found[2])
    assert found[0] == pytest.approx(found[2] * (1e-12 / 5e-6 if flat else 1.0), rel=1e-3)
    for nothing in (np.zeros((2, 2)), np.diag([1e-310, 1e-320])):
        np.testing.assert_array_equal(trust_region._even_axes(nothing, np.ones((3, 2))), np.eye(2))


def test_few_of_many_observations():
    """The cost of a step does not grow with the observations."""
    x = np.random.default_rng(0).random((3000, 20))
    region = TrustRegion(np.array([[0.0, 1.0]] * 20), 0)
    assert len(region._fitted(x, -((x - 0.4) ** 2).sum(axis=1)).posterior.surface.points) == trust_region.MOST == 100


def test_repeats_count_once():
    """Of measurements of one point the model has the best, as an exact value."""
    x = np.random.default_rng(1).random((12, 2))
    y = -((x - 0.4) ** 2).sum(axis=1)
    twice = TrustRegion(np.array([[0.0, 1.0]] * 2), 0)._fitted(np.concatenate([x, x]), np.concatenate([y - 0.5, y]))
    once = TrustRegion(np.array([[0.0, 1.0]] * 2), 0)._fitted(x, y)
    assert len(twice.posterior.surface.points) == len(once.posterior.surface.points) == 12
    assert twice.gain(np.array([0.4, 0.4])) == pytest.approx(once.gain(np.array([0.4, 0.4])), rel=1e-3)


# ---- the turns


class Promising:
    """A model that promises the same gain everywhere."""

    def __init__(self, gain):
        self.promised = gain

    def gain(self, x):
        return self.promised


EVENTS = st.tuples(
    st.booleans(), st.floats(0.0, 1.0), st.sampled_from([-1.0, 0.0, 0.05, 0.3, 0.9, 3.0]), st.booleans(), st.booleans()
)


@given(st.lists(EVENTS, max_size=40), st.booleans(), st.sampled_from([1, 4]), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_turns(events, exact, pause, random):
    """Radius, turns, searches elsewhere, and what the model of the whole space gets, after steps and other points."""
    region, oracle = TrustRegion(np.array([[0.0, 1.0]]), 0), naive.Turns(exact, pause)
    region.exact, region._pause, told = exact, pause, 0
    x, y = [[random.random()] for _ in range(10)], [random.random() for _ in range(10)]
    for inside, share, gain, promises, asked in events:
        best = oracle.centre(y)
        promised = 1.0 if promises else -1.0
        region._fitted = lambda *_, promised=promised: Promising(promised)
        region._offer = lambda *_, promises=promises: np.zeros(1) if promises else None
        reach = region.radius * share if inside else min(2.0 * region.radius + share, 3.0)
        x.append([x[best][0] + reach])
        y.append(y[best] + gain)
        found = region.observe(np.array(x), np.array(y), asked, np.empty((0, len(x[0]))))
        position, distance = len(y) - 1, abs(x[-1][0] - x[best][0])
        if inside and asked and promises:
            expected = {oracle.centre(y)} if oracle.step(y[-1] - y[best], 1.0, distance, y) else set()
            expected |= {position} if distance >= 0.01 else set()
        else:
            if asked or y[-1] > max(y[:-1]):
                oracle.elsewhere(distance, promises, x, y)
            expected = {best, position}
        assert set(found) == expected
        told = 0 if asked or y[-1] > max(y[:-1]) else told + 1
        state = (region.radius, region._pause, region._wait, region._streak, region.exact)
        assert state == (oracle.radius, oracle.pause, oracle.wait, oracle.streak, oracle.exact)
        assert region._searches._used == oracle.searches
        assert region._searches._other == (-1 if oracle.other is None else oracle.other)
        propose = region.propose(np.array(x), np.array(y), np.empty((0, 1)), np.empty((0, 1)))
        assert (propose is not None) == (promises and not oracle.wait and told % 2 == 0)


def test_a_region_whose_point_has_failed_becomes_smaller():
    """Else it would offer that point for ever."""
    region = TrustRegion(np.array([[0.0, 1.0]]), 0)
    region._offer = lambda *_: np.zeros(1)
    x, y = np.linspace(0.1, 1.0, 12)[:, None], np.linspace(1.0, 0.0, 12)
    assert region.propose(x[:11], y[:11], np.empty((0, 1)), np.zeros((1, 1))) is None
    region.observe(x, y, True, np.empty((0, 1)))
    assert (region.radius, region._wait) == (trust_region.RADIUS, 0)  # the point is to be measured
    region.observe(x, y, True, np.zeros((1, 1)))
    assert (region.radius, region._wait) == (0.5 * trust_region.RADIUS, 1)


def test_the_best_point_is_measured_again_at_exactly_its_setting():
    """Coordinates of settings that were told may decode to settings that differ in the last digit."""
    policy = sb.GPEI(sb.SearchSpace({name: sb.Real(1e-5, 1.0, log=True) for name in "abc"}), minimize=True)
    drawn = -5.0 * np.random.default_rng(0).random((20, 3))
    told = [{name: float(10.0**u) for name, u in zip("abc", row, strict=True)} for row in drawn]
    policy.tell(told, [sum(setting.values()) for setting in told])
    asked = []
    for i in range(20):
        policy._region.propose = lambda x, *_, i=i: x[i]
        asked.append(policy.ask())
        policy.abandon(asked[-1])
    assert asked == told


def test_one_step_at_a_time():
    """While a point of the region is pending, the others are of the whole space; a failed one is not asked again."""
    policy, _ = minimized(sphere(2), 2, 10)
    first, second = policy.ask(2)
    x, y = policy._history()
    assert policy._region.holds(first[None], x[np.argmax(y)])
    assert policy._region.propose(x, y, first[None], np.empty((0, 2))) is None
    assert policy._region.propose(x, y, np.empty((0, 2)), first[None]) is None
    np.testing.assert_array_equal(policy._region.propose(x, y, np.empty((0, 2)), np.empty((0, 2))), first)
    radius = policy._region.radius
    policy.tell_failure(first)
    assert policy._region.radius == radius / 2
    policy.tell(second, sphere(2)(second))
    asked = [policy.ask() for _ in range(3)]
    assert not any(np.array_equal(first, x) for x in asked)


def test_a_policy_that_is_made_anew_for_each_question_searches_the_region_and_the_whole_space():
    """In turn, where points are no better than the best one; which is followed by a step."""
    x = np.random.default_rng(0).random((26, 2))
    order = np.argsort([sphere(2)(each) for each in x])
    told, better = x[order[1:]], x[order[0]]
    found = []
    for count in range(20, 26):
        policy = sb.GPEI(sb.Box([[0, 1]] * 2), minimize=True)
        policy.tell(told[:count], [sphere(2)(each) for each in told[:count]])
        found.append(policy._refinement() is not None)
        policy.tell(better, sphere(2)(better))
        assert policy._refinement() is not None
    assert found in ([True, False] * 3, [False, True] * 3)


def test_only_where_everything_is_learned_and_continuous():
    integer = sb.SearchSpace({"x": sb.Real(0, 1), "n": sb.Integer(1, 4)})
    real = sb.SearchSpace({"x": sb.Real(0, 1), "rate": sb.Real(1e-4, 1.0, log=True)})
    box = sb.Box([[0, 1]])
    regions = [sb.GPEI(space)._region is not None for space in (box, real, integer, sb.Grid([[0, 1]], 9))]
    assert regions == [True, True, False, False]
    assert sb.GPEI(box, noise=0.1)._region is None
    assert sb.GPEI(box, sb.RBF(0.2), noise=0.1)._region is None
    assert sb.GPPI(box)._region is None


# ---- searches elsewhere


def hills(x):
    """Two hills: the higher one, 1, at .25 of the sides, the other one, .8, at .8 of them."""
    away = (np.asarray(x) - BOUNDS[:, 0]) / SIDES
    return np.maximum(1.0 - 9.0 * ((away - 0.25) ** 2).sum(axis=-1), 0.8 - 9.0 * ((away - 0.8) ** 2).sum(axis=-1))


def test_a_search_elsewhere_and_back():
    """Once the best point's has ended, one begins at a point told long ago, with steps around it, and ends there."""
    region = TrustRegion(BOUNDS, 0)
    x = BOUNDS[:, 0] + SIDES * np.concatenate([[[0.25, 0.25]], np.random.default_rng(2).random((30, 2))])
    y = hills(x)
    region.exact, region._pause, region.radius = True, trust_region.PATIENCE, 1e-3
    none, centres = np.empty((0, 2)), []
    while region._searches._other >= 0 or not centres:
        point = region.propose(x, y, none, none)
        if point is None:  # a point of the whole space
            point = BOUNDS[:, 0]
        elif region._searches._other >= 0:
            centres.append(region._searches._other)
            assert np.abs((point - x[region._searches._other]) / SIDES).max() <= region.radius * (1.0 + 1e-9)
        x = np.concatenate([x, point[None]])
        y = np.append(y, hills(point))
        region.observe(x, y, True, np.empty((0, x.shape[1])))
        assert len(y) < 60
    assert len(set(centres)) > 1
    assert region.radius <= 1e-3
    first, _, ended = region._searches._used
    assert first == 0
    np.testing.assert_allclose((x[ended] - BOUNDS[:, 0]) / SIDES, 0.8, atol=0.01)


# ---- the evolution strategy


def test_the_evolution_strategy_comes_after_steps_without_a_gain(monkeypatch):
    """Ever longer series, until a long step gains, before points of the whole space; also after many short steps."""
    monkeypatch.setattr(trust_region, "LATE", 25)
    monkeypatch.setattr(trust_region, "SERIES", 3)
    monkeypatch.setattr(trust_region, "STEPS", 5)
    function = sector(2)
    policy, kinds, long, best = sb.GPEI(sb.Box([[0, 1]] * 2), minimize=True), [], [], (np.zeros(2), math.inf)
    region = policy._region
    region._repeats = trust_region.REPEATS
    for count in range(160):
        region.exact = count > 40
        point, wait, left, streak = policy.ask(), region._wait, region._left, region._streak
        evolved = region._evolution.find(point) is not None
        kinds.append("evolved" if evolved else "whole" if wait else "model")
        policy.tell(point, function(point))
        long.append(region._streak > streak and np.abs(point - best[0]).max() >= trust_region.SHORT)
        best = min(best, (point, function(point)), key=lambda each: each[1])
        if evolved:
            assert (region._left, region._wait) == (left - 1, wait)
            assert left > 0
    assert "evolved" not in kinds[:40]
    expected, found, steps, factor = [], [], [], 1
    for kind, group in itertools.groupby(range(40, 160), key=lambda i: kinds[i]):
        positions = list(group)
        if kind == "evolved":
            found.append(len(positions))
            expected.append(4 * factor)  # as many points of the whole space follow, four
            factor = min(3, 2 * factor)
        elif kind == "model":
            steps.append(len(positions))
            factor = 1 if any(long[i] for i in positions) else factor
    assert found[:-1] == expected[: len(found) - 1]
    assert {4, 8, 12} <= set(found)
    assert max(steps) >= 5
    assert kinds[40:].count("whole") > 3


def test_points_of_the_evolution_strategy_are_known_again_far_from_the_origin(monkeypatch):
    """Where coordinates are rounded by more than the shortest steps."""
    monkeypatch.setattr(trust_region, "LATE", 12)
    monkeypatch.setattr(trust_region, "PATIENCE", 1)
    function, asked = cone(2), []
    policy = sb.GPEI(sb.Box([[1e6, 1e6 + 1.0]] * 2), minimize=True)
    policy._region.exact = True
    for _ in range(60):
        asked.append(policy.ask())
        policy.tell(asked[-1], function(asked[-1] - 1e6))
    assert policy._region._evolution._generation > 4
    assert len(np.unique(asked, axis=0)) > 55


def test_named_settings_of_the_evolution_strategy_are_known_again(monkeypatch):
    """Though a setting is not, to the last digit, the point that it was made of."""
    monkeypatch.setattr(trust_region, "LATE", 12)
    monkeypatch.setattr(trust_region, "PATIENCE", 1)
    space = sb.SearchSpace({"far": sb.Real(1e6, 1e6 + 1.0), "rate": sb.Real(1e-5, 1.0, log=True)})
    function, asked = cone(2), set()
    policy = sb.GPEI(space, minimize=True)
    policy._region.exact = True
    for _ in range(60):
        setting = policy.ask()
        asked.add(tuple(setting.values()))
        policy.tell(setting, function(np.array([setting["far"] - 1e6, 1.0 + math.log10(setting["rate"]) / 5.0])))
    assert policy._region._evolution._generation > 4
    assert len(asked) > 55


def test_several_points_of_a_generation_in_flight(monkeypatch):
    """As they are asked for, near the best point or not, and told in another order."""
    monkeypatch.setattr(trust_region, "LATE", 12)
    function = cone(2)
    policy = sb.GPEI(sb.Box([[0, 1]] * 2), minimize=True)
    region = policy._region
    region.exact = True
    while not (region._wait and region._left > 4):
        region._series, x = 2, policy.ask()
        policy.tell(x, function(x))
    region.radius = trust_region.LARGEST  # all are in the region
    asked = policy.ask(4)
    positions = [region._evolution.find(x) for x in asked]
    predicted = region._evolution._ranking.predicted
    assert positions == np.argsort(-predicted, kind="stable")[:4].tolist()
    for x in asked[::-1]:
        policy.tell(x, function(x))
    assert np.flatnonzero(~np.isnan(region._evolution._values)).tolist() == sorted(positions)


@pytest.mark.parametrize("wait", [0, 1, 3])
def test_points_beyond_those_that_are_due_are_the_strategys(wait, monkeypatch):
    """In a batch: a step, or so many points of the whole space, come first."""
    monkeypatch.setattr(trust_region, "LATE", 12)
    function = cone(2)
    policy = sb.GPEI(sb.Box([[0, 1]] * 2), minimize=True)
    region = policy._region
    region.exact = True
    while not region._evolution.started:
        x = policy.ask()
        policy.tell(x, function(x))
    region._wait, region._left = wait, 0
    size, due = len(region._evolution._values), max(1, wait)
    evolved = [region._evolution.find(x) is not None for x in policy.ask(due + size + 1)]
    assert evolved == [False] * due + [True] * size + [False]  # the generation has no more


def test_a_step_is_not_kept_waiting_by_points_of_the_whole_space(monkeypatch):
    """Where evaluations end one by one, some of these are always pending: the step comes first all the same."""
    monkeypatch.setattr(trust_region, "LATE", 12)
    policy, _ = minimized(rosenbrock, 2, 12, seed=1)
    (x, y), region, none = policy._history(), policy._region, np.empty((0, 2))
    region._evolution.start(x, y)
    region.exact, region._wait, region._left = True, 0, 0
    far = x[[np.argmin(y)]]
    assert not region.holds(far, x[np.argmax(y)])
    assert region._evolution.find(far[0]) is None
    step = region.propose(x, y, none, none)
    assert region.holds(step[None], x[np.argmax(y)])
    np.testing.assert_array_equal(region.propose(x, y, far, none), step)
    assert region._evolution.find(region.propose(x, y, np.stack([far[0], step]), none)) is not None


@pytest.mark.parametrize("d", [pytest.param(2, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.long)])
def test_where_a_function_has_no_second_derivatives(d):
    """The evolution strategy refines a minimum at a kink, where a smooth model promises gains that are none."""
    _, values = minimized(sector(d), d, 1000, tolerance=4e-6)
    assert values[-1] <= 4e-6


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize(("levels", "repeats"), [(0.0, 1), (1.0, 2), (2.0, 3)])
def test_the_best_point_is_measured_again_to_see_whether_values_are_exact(levels, repeats, anew, monkeypatch):
    """Once, if no two other values were equal; where many are, until it agrees hardly by chance.

    Also by a policy that is made anew each time, and told all values.
    """
    monkeypatch.setattr(trust_region, "LATE", 60)
    policy = sb.GPEI(sb.Box([[0, 1]] * 2), minimize=True)
    x = np.random.default_rng(0).random((60, 2))
    loss = sphere(2)
    values = [math.ceil(loss(each) / levels) * levels if levels else loss(each) for each in x]
    policy.tell(x, values)
    chance = share_of_ties(np.array(values), 1.0)
    assert chance ** (repeats - 1) >= BY_CHANCE > chance**repeats
    for _ in range(repeats):
        assert not policy._region.exact
        np.testing.assert_array_equal(policy.ask(), x[np.argmin(values)])
        if anew:
            policy = sb.GPEI(sb.Box([[0, 1]] * 2), minimize=True)
            x, values = np.concatenate([x, x[[np.argmin(values)]]]), [*values, min(values)]
            policy.tell(x, values)
        else:
            policy.tell(x[np.argmin(values)], min(values))
    assert policy._region.exact
    assert not (np.abs(policy.ask() - x) < 1e-9).all(axis=1).any()


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.sampled(2)
def test_values_that_differ_are_not_exact(fails, monkeypatch):
    """One more measurement shows it; also where it fails."""
    monkeypatch.setattr(trust_region, "LATE", 30)
    policy = sb.GPEI(sb.Box([[0, 1]] * 2), minimize=True)
    x = np.random.default_rng(0).random((30, 2))
    values = [sphere(2)(each) for each in x]
    policy.tell(x, values)
    best = policy.ask()
    np.testing.assert_array_equal(best, x[np.argmin(values)])
    if fails:
        policy.tell_failure(best)
    else:
        policy.tell(best, min(values) + 1e-9)
    for _ in range(8):
        assert not policy._region.exact
        x = policy.ask()
        assert np.abs(x - best).max() > 0.0
        assert policy._region._evolution.find(x) is None
        policy.tell(x, sphere(2)(x))


def test_a_point_of_the_evolution_strategy_that_fails(monkeypatch):
    """It is as bad as the worst value, and the generation goes on."""
    monkeypatch.setattr(trust_region, "LATE", 12)
    function = cone(2)
    policy = sb.GPEI(sb.Box([[0, 1]] * 2), minimize=True)
    region = policy._region
    region.exact, failed = True, 0
    for _ in range(60):
        region._series, x = 9, policy.ask()
        position = region._evolution.find(x)
        if position is not None and failed < 2 and position < len(region._evolution._values) - 1:
            policy.tell_failure(x)
            assert region._evolution._values[position] == min(policy.model.ys)
            failed += 1
        else:
            policy.tell(x, function(x))
    assert failed == 2
    assert region._evolution._generation > 4


# ---- what it reaches


@pytest.mark.parametrize(("d", "most"), [(2, 26), (5, 41), pytest.param(10, 86, marks=pytest.mark.slow)])
def test_sphere(d, most):
    """A quadratic function is minimised to 1e-10 of its range in about as many evaluations as it has coefficients."""
    policy, values = minimized(sphere(d), d, most, tolerance=1e-8)
    assert values[-1] <= 1e-8
    np.testing.assert_array_equal(policy.best().x, policy.domain.points([policy.model.numbers[-1]])[0])
    same = pytest.approx(values[-1], rel=1e-14, abs=0.0)
    assert policy.best().value == same or d == 2  # where there were too few steps to know that values are exact


@pytest.mark.parametrize("d", [2, pytest.param(5, marks=pytest.mark.long)])
def test_ellipsoid(d):
    """A rotated one whose curvatures differ by a factor of a million."""
    _, values = minimized(ellipsoid(d), d, 150, tolerance=1e-2)
    assert values[-1] <= 1e-2  # the range is 1e8


def test_named_parameters():
    """On a logarithmic scale, and in units of each parameter."""
    space = sb.SearchSpace({"rate": sb.Real(1e-5, 1.0, log=True), "width": sb.Real(-3.0, 5.0)})

    def loss(setting):
        return (math.log10(setting["rate"]) + 2.0) ** 2 + 0.1 * (setting["width"] - 1.0) ** 2

    result = sb.minimize(loss, space, budget=40, progress=False)
    assert result.best.value < 1e-8


def test_noise_is_not_taken_for_exact_values():
    rng = np.random.default_rng(0)
    function = sphere(2)
    for seed in range(3):
        policy, values = minimized(lambda x: function(x) + 5.0 * rng.standard_normal(), 2, 40, seed, -math.inf)
        assert not policy._region.exact
        assert policy.best().value > min(values)


# ---- what others see


@pytest.fixture(scope="module")
def withholding():
    """A policy that has not shown all of its steps to the model of the whole space."""
    return minimized(rosenbrock, 2, 60, seed=1)[0]


def test_predictions_have_all_observations(withholding):
    policy = copy.deepcopy(withholding)
    model = policy.model
    assert model.withheld
    assert len(policy.observations.x) == len(set(model.numbers))
    hidden = sorted(set(range(len(model.ys))) - set(model.shown))
    x = policy.domain.points([model.numbers[i] for i in hidden])
    mean, std = policy.posterior(x)
    assert np.abs(mean + np.array(model.ys)[hidden]).max() < 1e-3 * np.ptp(model.ys)
    assert std.max() < 1e-2 * np.ptp(model.ys)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("late", "rounds", "searches"), [(12, 24, False), (300, 24, False), (300, 48, True)])
@pytest.mark.sampled(3)
def test_replayed_and_restored(batch, late, rounds, searches, monkeypatch):
    """A policy that is told the same points in the same order, as asked for, goes on alike; so does a restored one."""
    monkeypatch.setattr(trust_region, "LATE", late)
    space = sb.Box(BOUNDS) if searches else sb.Box([[0, 1]] * 2)
    function = (lambda x: float(-hills(x))) if searches else cone(2)
    first, replayed, restored = (sb.GPEI(space, minimize=True, seed=2) for _ in range(3))
    for policy in (first, replayed):
        policy._region.exact = searches
    for _ in range(rounds // batch):
        asked = first.ask(batch)
        for x in asked[::-1]:  # in another order than they were asked for
            first.tell(x, function(x))
            replayed._tell(True, x, function(x), None)
    restored._introduce(np.arange(first.domain.size), first.domain.points())
    for _ in range(2):
        restored.restore(copied(first.state()))
    assert restored._region._searches._used == first._region._searches._used
    assert bool(first._region._searches._used) == searches
    for _, other in itertools.product(range(4), (replayed, restored)):
        np.testing.assert_array_equal(first.ask(), other.ask())
        first.abandon()
        other.abandon()


def test_what_a_simulation_plays_was_asked_for():
    """Whatever was told before: steps are taken note of."""
    function, policy = sphere(2), sb.GPEI(sb.Box([[0, 1]] * 2), minimize=True)
    x = np.random.default_rng(0).random((12, 2))
    policy.tell(x, [function(each) for each in x])
    for _ in range(3):
        candidate = policy.propose()
        policy.observe(candidate, function(policy.domain.points([candidate])[0]))
    assert policy._region._streak


def test_a_failure_is_no_value(withholding):
    """Predictions are as before, also where steps are not shown: whether evaluations fail has a model of its own."""
    policy = copy.deepcopy(withholding)
    assert policy.model.withheld
    far = np.array([0.03, 0.97])
    before, promised = policy.posterior(far), policy.index_at(far[None])
    policy.tell_failure(far)
    np.testing.assert_array_equal(policy.posterior(far), before)
    assert policy.index_at(far[None]) < promised
