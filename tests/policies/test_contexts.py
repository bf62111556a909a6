"""Contexts: some coordinates are given in a round, and the policy chooses the others."""

import copy
import re
from contextlib import suppress

import numpy as np
import pytest
from naive import gp, kernels

import scalable_bandits as sb
from scalable_bandits.policies.pending import AllFailed

BOX = sb.Box([[0, 1], [0, 2]])
NAMED = sb.SearchSpace({"x": sb.Real(0.0, 1.0), "load": sb.Real(0.0, 2.0)})
MIXED = sb.SearchSpace({
    "x": sb.Integer(0, 50), "load": sb.Ordinal([0.0, 1.0, 2.0]), "kind": sb.Categorical(["plain", "fine"]),
    "rate": sb.Real(0.0, 1.0, when={"kind": "fine"}),
})  # fmt: skip
LARGE = sb.Grid([[0, 1], [0, 2]], [5001, 3001])
SPACES = {"box": (BOX, 1), "large grid": (LARGE, 1), "named": (NAMED, "load"), "mixed": (MIXED, "load")}
GIVEN = {"kernel": sb.RBF(0.3), "noise": 0.1, "regularization": 1.0}
POLICIES = [
    (sb.GPEI, {}), (sb.GPEI, GIVEN), (sb.GPUCB, GIVEN), (sb.IGPUCB, GIVEN), (sb.GPTS, GIVEN), (sb.GPTS, {}),
    (sb.PIMS, GIVEN), (sb.PSEI, GIVEN), (sb.GPPI, {}), (sb.MeanOnly, GIVEN), (sb.VarianceOnly, {}),
]  # fmt: skip


def response(x, load):
    """Value, best at x = load / 2."""
    return 1.0 - (x - 0.5 * load) ** 2


def told(x, key):
    if isinstance(key, int):
        return response(x[0], x[1])
    return response(x["x"] / (50.0 if "kind" in x else 1.0), x["load"]) - (x.get("kind") == "fine")


@pytest.mark.filterwarnings("ignore:.*guarantees assume a known kernel", "ignore::scalable_bandits.UnprovenWidth")
@pytest.mark.filterwarnings("ignore:.*observations, noise=")
@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize(("kind", "options"), POLICIES, ids=lambda each: getattr(each, "__name__", ""))
def test_every_choice_has_the_context(kind, options, name):
    space, key = SPACES[name]
    policy = kind(space, seed=1, **options)
    loads = [0.0, 1.0, 2.0, 1.0] if name == "mixed" else [0.3, 1.5, 0.004, 2.0]
    for i in range(14):
        load = loads[i % 4]
        x = policy.ask(context={key: load})
        assert x[key] == pytest.approx(load, abs=1e-12)
        assert len(space.check(x[None] if isinstance(x, np.ndarray) else x)) == 1
        policy.tell(x, told(x, key))
    for x in policy.ask(3, context={key: loads[0]}):
        assert x[key] == pytest.approx(loads[0], abs=1e-12)
    policy.abandon()
    free = policy.ask()  # the next round has its own context: none
    assert policy._fixed is None
    assert len(space.check(free[None] if isinstance(free, np.ndarray) else free)) == 1


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("kind", [sb.GPEI, sb.GPPI])
@pytest.mark.sampled(2)
def test_the_first_points_go_on_from_context_to_context(kind, name):
    """Those of ten contexts are the ten that one would have: no value is tried again since the context is another."""
    space, key = SPACES[name]
    loads = [0.0, 1.0, 2.0] if name == "mixed" else [0.2 * i for i in range(10)]
    one, several = kind(space, seed=3), kind(space, seed=3)
    for i in range(10):
        same, another = one.ask(context={key: loads[0]}), several.ask(context={key: loads[i % len(loads)]})
        for policy, x in ((one, same), (several, another)):
            if i == 4 or name == "mixed":  # some while they are in flight
                policy.tell_failure(x) if i == 7 else policy.tell(x, told(x, key))
        others = [0] if isinstance(key, int) else [each for each in same if each != key]
        assert [another[each] for each in others] == [same[each] for each in others]


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.sampled(2)
def test_learns_what_is_best_in_each_context(name):
    space, key = SPACES[name]
    policy = sb.GPEI(space, seed=2)
    loads = [0.0, 1.0, 2.0] if name == "mixed" else [0.2, 0.7, 1.4]
    for i in range(30):
        x = policy.ask(context={key: loads[i % 3]})
        policy.tell(x, told(x, key))
    for load in [*loads, 1.0]:  # the last one of some was never seen
        best = policy.best(context={key: load})
        assert best.x[key] == pytest.approx(load, abs=1e-12)
        value = best.x[0] if isinstance(key, int) else best.x["x"] / (50.0 if name == "mixed" else 1.0)
        assert value == pytest.approx(0.5 * load, abs=0.03 if load in loads else 0.05)
        assert best.mean == pytest.approx(1.0, abs=0.01 if load in loads else 0.05)


@pytest.mark.parametrize("minimize", [False, True])
def test_maximizes_the_index_on_the_slice(minimize):
    """On a box, beside an oracle: the largest upper confidence bound of a fine line with the context's coordinate."""
    policy = sb.GPUCB(BOX, sb.Matern(0.4, nu=2.5), noise=0.1, regularization=0.01, minimize=minimize, seed=4)
    rng = np.random.default_rng(0)
    xs, ys = rng.random((8, 2)) * [1, 2], rng.standard_normal(8)
    policy.tell(xs, ys)
    line = np.linspace(0.0, 1.0, 4001)
    for load in (0.0, 0.61, 2.0):
        at = np.column_stack([line, np.full(len(line), load)])
        values = -ys if minimize else ys
        oracle = gp.GP(kernels.matern52(0.4), xs)
        for i, value in enumerate(values):
            oracle.observe(i, value, 0.01)
        mean, std = oracle.predict(at)
        bound = mean + policy.width * std
        x = policy.ask(context={1: load})
        assert x[1] == load
        assert np.interp(x[0], line, bound) >= bound.max() - 1e-5
        policy.abandon()


def test_a_large_grid_chooses_as_one_that_is_enumerated():
    """The search of a slice of a grid whose points have no numbers finds the largest index of all of the slice."""
    grid = sb.Grid([[0, 1], [0, 2], [0, 1]], [41, 21, 5])
    small = sb.GPUCB(grid, sb.RBF(0.3), noise=0.1, regularization=0.01)
    large = sb.GPUCB(grid, sb.RBF(0.3), noise=0.1, regularization=0.01, enumerated=10, theorem=1)
    rng = np.random.default_rng(1)
    xs = grid.points(rng.choice(grid.size, 12))
    ys = np.sin(5 * xs).sum(axis=1)
    small.tell(xs, ys)
    large.tell(xs, ys)
    for load in (0.0, 0.7, 2.0):
        x, same = small.ask(context={1: load}), large.ask(context={1: load})
        np.testing.assert_allclose(x, same, atol=1e-12)
        small.tell(x, 0.5)
        large.tell(same, 0.5)


def test_excluded_points_are_not_chosen_in_a_context():
    policy = sb.MeanOnly(sb.SearchSpace({"x": sb.Integer(0, 3), "load": sb.Integer(0, 5)}), sb.RBF(0.3), noise=0.1)
    seen = set()
    for _ in range(4):
        x = policy.ask(context={"load": 2})
        assert x["load"] == 2
        policy.tell_failure(x, "broken")
        seen.add(x["x"])
    assert seen == {0, 1, 2, 3}
    with pytest.raises(AllFailed):
        policy.ask(context={"load": 2})
    assert policy.ask(context={"load": 3})["load"] == 3


def test_constraints_and_contexts():
    """What maximises expected feasible improvement is chosen in the context, too."""
    policy = sb.ConstrainedGPEI(NAMED, constraints={"cost": sb.AtMost(0.4)}, seed=3)
    for i in range(24):
        load = [0.3, 1.4][i % 2]
        x = policy.ask(context={"load": load})
        assert x["load"] == load
        policy.tell(x, {"gain": response(x["x"], load), "cost": x["x"]})
    for load, x in [(0.3, 0.15), (1.4, 0.4)]:
        best = policy.best(context={"load": load})
        assert best.x["load"] == load
        assert best.x["x"] == pytest.approx(x, abs=0.05)
    with pytest.raises(ValueError, match=r"context: got .*; allowed: with several outputs one in which a point was m"):
        policy.best(context={"load": 0.31})


def test_a_front_for_each_context():
    """Points of other contexts are neither on it nor in its way."""
    policy = sb.GPEHVI(NAMED, objectives=["loss", "cost"], minimize=True, seed=3)
    for i in range(24):
        load = [0.3, 1.4][i % 2]
        x = policy.ask(context={"load": load})
        policy.tell(x, {"loss": -response(x["x"], load) + (load > 1.0), "cost": x["x"]})
    for load in (0.3, 1.4):
        front = policy.front(context={"load": load})
        assert {point.x["load"] for point in front} == {load}
        assert len(front) >= 4
        assert policy.best(context={"load": load}).x in [point.x for point in front]
    every = [point.x["load"] for point in policy.front()]
    assert every.count(1.4) <= 1  # only the smallest cost may be one of the worse context
    with pytest.raises(ValueError, match=r"context: got .*0\.31.*; allowed: with several outputs one in which"):
        policy.front(context={"load": 0.31})


def naive_best(policy, among, mean):
    """The largest mean of some candidates, one by one."""
    return max(np.flatnonzero(among), key=lambda i: mean[i])


@pytest.mark.parametrize("load", [0.0, 1.0, 2.0])
def test_the_best_that_keeps_its_limits_in_a_context(load):
    """Of policies with confidence bounds: one of the measured candidates of the context, as `best()` is of all."""
    grid = sb.Grid([[0, 1], [0, 2]], shape=(9, 3))
    policy = sb.CONFIG(
        grid, sb.RBF(0.4), constraints={"cost": sb.AtMost(0.8)}, noise=0.05, regularization=0.01,
        rkhs_norm=1.0, delta=0.1,
    )  # fmt: skip
    with pytest.raises(ValueError, match="allowed: with several outputs one in which"):
        policy.best(context={1: load})
    for i in range(18):
        x = policy.ask(context={1: [0.0, 1.0, 2.0][i % 3]})
        policy.tell(x, {"gain": response(*x), "cost": x[0]})
    best, points = policy.best(context={1: load}), grid.points()
    assert best.x[1] == load
    high = policy.bounds_of("cost", points)[1]
    measured = policy.model.queried & (points[:, 1] == load)
    sure = measured & (high <= 0.8)
    if sure.any():
        mean = policy.posterior(points)[0]
        assert best.x.tolist() == points[naive_best(policy, sure, mean)].tolist()


def test_what_is_best_in_a_context_is_safe():
    """Never a candidate that is only expected to be good."""
    grid = sb.Grid([[0, 1], [0, 2]], shape=(21, 3))
    policy = sb.SafeOpt(
        grid, sb.RBF(0.3), threshold=0.0, safe_start=[[0.0, 0.0], [0.0, 1.0]], noise=0.01, regularization=1e-3,
        rkhs_norm=2.0, delta=0.1, prior_mean=1.5,
    )  # fmt: skip
    for i in range(4):
        x = policy.ask(context={1: float(i % 2)})
        policy.tell(x, 0.8 + x[0])
    mean, points = policy.posterior(grid.points())[0], grid.points()
    for load in (0.0, 1.0):
        there = points[:, 1] == load
        best = policy.best(context={1: load})
        assert best.x[1] == load
        assert policy.safe[grid.index(best.x)].all()
        measured = policy.model.queried & policy.safe & there
        assert best.x.tolist() == points[naive_best(policy, measured, mean)].tolist()
        assert mean[there & ~policy.safe].max() > best.mean  # which a best point without safety would be
    with pytest.raises(
        ValueError, match=r"context: got \{1: 2.0\}; allowed: one in which a candidate is known to be s"
    ):
        policy.best(context={1: 2.0})


@pytest.mark.parametrize(
    ("space", "context", "text"),
    [
        (BOX, {2: 0.1}, "context: got 'dimension 2'; allowed: dimensions from 0 to 1"),
        (BOX, {1: 2.5}, "context[1]: got 2.5; allowed: a number from 0 to 2"),
        (BOX, {1: "high"}, "context: got 'high'"),
        (BOX, {}, "context: got {}; allowed: coordinates by dimension"),
        (BOX, {0: 0.1, 1: 0.1}, "allowed: fewer coordinates, so that one can be chosen"),
        (LARGE, {1: 0.0001}, "context[1]: got 0.0001; allowed: a coordinate of the grid, of 3,001"),
        (NAMED, {"lode": 0.1}, "did you mean 'load'"),
        (NAMED, {"load": 2.5}, "context['load']: got 2.5"),
        (MIXED, {"rate": 0.5}, "context: got 'rate'; allowed: a parameter without a `when`"),
        (MIXED, {"load": 0.5}, "context['load']: got 0.5"),
    ],
)
@pytest.mark.parametrize("method", ["ask", "best"])
def test_refuses(space, context, text, method):
    policy = sb.GPEI(space)
    policy.ask()
    before = copy.deepcopy(policy.pending)
    with pytest.raises(ValueError, match=re.escape(text)):
        getattr(policy, method)(context=context)
    np.testing.assert_equal(policy.pending, before)
    assert policy._fixed is None


@pytest.mark.parametrize(
    "policy",
    [
        sb.PiGPUCB(BOX, sb.Matern(0.3), noise=0.1),
        sb.AddGPUCB(LARGE, sb.RBF(0.2), groups=[[0], [1]], noise=0.1),
    ],
    ids=["pi-GP-UCB", "Add-GP-UCB"],
)
def test_some_policies_take_none_on_whole_boxes(policy):
    with pytest.raises(ValueError, match=r"None for .* where candidates are not enumerated"):
        policy.ask(context={1: 0.5})
    policy.ask()


def test_a_recorded_run_goes_on_alike(tmp_path):
    """What was asked in contexts is recorded as other points are."""

    def play(policy, rounds):
        for i in range(*rounds):
            x = policy.ask(context={"load": [0.3, 1.4][i % 2]})
            policy.tell(x, told(x, "load"))

    whole, first = sb.GPEI(NAMED, seed=5), sb.GPEI(NAMED, seed=5)
    play(whole, (0, 20))
    with sb.record(first, tmp_path / "run"):
        play(first, (0, 13))
    again = sb.GPEI(NAMED, seed=5)
    with sb.record(again, tmp_path / "run"):
        play(again, (13, 20))
    np.testing.assert_array_equal(again.observations.x, whole.observations.x)


def test_pending_points_of_a_context_are_asked_again(tmp_path):
    """After a restart: in the context that they have, and in no other one."""
    policy = sb.GPEI(NAMED, seed=5)
    with suppress(KeyboardInterrupt), sb.record(policy, tmp_path / "run"):  # an end that is not orderly
        first, second = policy.ask(context={"load": 0.3}), policy.ask(context={"load": 1.4})
        raise KeyboardInterrupt
    again = sb.GPEI(NAMED, seed=5)
    with sb.record(again, tmp_path / "run"):
        assert again.ask(context={"load": 1.4}) == second
        assert again.ask(context={"load": 1.4}) not in (first, second)
        assert again.ask(context={"load": 0.3}) == first


def test_a_refused_choice_leaves_no_context_behind():
    policy, twin = sb.GPEI(BOX, seed=1), sb.GPEI(BOX, seed=1)
    with pytest.raises(ValueError, match="available: got"):
        policy.ask(available=[0], context={1: 0.5})
    number, other = policy.propose(), twin.propose()  # as simulations choose
    np.testing.assert_array_equal(policy.domain.points([number]), twin.domain.points([other]))


def test_what_is_asked_for_has_exactly_the_context():
    """Also where the search is on a logarithm, which changes last bits; else it would not count as in the context."""
    space = sb.SearchSpace({"rows": sb.Real(1e3, 1e6, log=True), "rate": sb.Real(0.001, 1.0, log=True)})
    for rows in (1e4, 12_345.6, 3e5):
        policy = sb.GPEI(space, minimize=True, seed=2)
        for _ in range(16):
            setting = policy.ask(context={"rows": rows})
            assert setting["rows"] == rows
            policy.tell(setting, (np.log10(setting["rate"]) + 0.5 * np.log10(rows / 1e3)) ** 2)
        assert policy.best(context={"rows": rows}).x["rows"] == rows
