"""Policies for sums of functions of a few dimensions, against the formulas, enumeration, and random play."""

import math
import pickle

import numpy as np
import pytest
from cases.policies import ADDITIVE, ADDITIVE_PROBLEMS, NOISE, PROBLEMS, REGULARIZATION
from naive import kernels as naive_kernels
from naive.additive import AdditiveGP

import scalable_bandits as sb
from policies.test_policies import SCENARIOS, Duel
from scalable_bandits.posteriors.additive.decomposition import Decomposition, likelier_groups
from scalable_bandits.posteriors.additive.engine import AdditiveEngine
from scalable_bandits.posteriors.additive.groups import groups_of
from scalable_bandits.posteriors.additive.tree import highest
from scalable_bandits.posteriors.box.surface import constant_mean

SETTINGS = {"noise": NOISE, "regularization": REGULARIZATION, "seed": 3}


@pytest.mark.parametrize("space", ADDITIVE_PROBLEMS)
@pytest.mark.parametrize("scenario", ["plain", "available", "pending", "uninvited"])
@pytest.mark.sampled(2)
def test_the_published_index(space, scenario):
    """Every point asked for has the largest sum of bounds of all candidates, also with pending points and masks."""
    duel = Duel(ADDITIVE["additive-groups"], ADDITIVE_PROBLEMS[space], SCENARIOS[scenario], "auto")
    duel.play(12)
    policy, at = duel.policy, np.array([[0.2], [0.7]])
    mean, std = policy.group_posterior(1, at)
    expected = duel.gp.group(1, np.hstack([at, at]))
    np.testing.assert_allclose(mean, expected[0], atol=1e-8)
    np.testing.assert_allclose(std, expected[1], atol=1e-7)


def small_problem(seed, d, side=4):
    """A policy on a grid of few candidates with some observations, and the oracle's posterior of all candidates."""
    rng = np.random.default_rng(seed)
    space = sb.Grid([[0, 1]] * d, side)
    order = rng.permutation(d).tolist()
    groups = [order[k : k + 2] for k in range(0, d, 2)]
    kernels = [0.5 + seed % 3 * 0.2] * len(groups)
    kernel = sum((sb.OnDimensions(sb.RBF(s), g) for s, g in zip(kernels[1:], groups[1:], strict=True)),
                 start=sb.OnDimensions(sb.RBF(kernels[0]), groups[0]))  # fmt: skip
    points = space.points()
    oracle = AdditiveGP([(naive_kernels.rbf(s), sorted(g)) for s, g in zip(kernels, groups, strict=True)], points)
    seen = rng.integers(len(points), size=6 + seed % 4)
    return space, kernel, oracle, [(int(i), float(rng.standard_normal() * 2)) for i in seen]


@pytest.mark.parametrize("d", [2, 3, 4])
def test_maxima_beside_enumeration(d):
    """The published index is maximal in every case; the bound of the sum is, up to a hundredth, in 95 of 100."""
    found = []
    for seed in range(33):
        space, kernel, oracle, observations = small_problem(seed, d)
        policies = [sb.AddGPUCB(space, kernel, bound=bound, **SETTINGS) for bound in ("groups", "sum")]
        for number, y in observations:
            for policy in policies:
                policy.tell(space.points([number])[0], y)
            oracle.observe(number, y, REGULARIZATION)
        published, summed = policies
        index = oracle.sum_of_bounds(published.group_widths)
        assert index[space.index(published.ask())[0]] == pytest.approx(index.max(), abs=1e-8)
        mean, variance = oracle.mean_variance()
        index = mean + summed.width * np.sqrt(np.maximum(variance, 0.0))
        found.append(index.max() - index[space.index(summed.ask())[0]] <= 0.01 * abs(index.max()))
    assert np.mean(found) >= 0.95


GROUPS = [[0, 1], [2], [5, 3], [4, 6, 7]]
LARGE = sb.Grid([[0, 1]] * 4 + [[-1, 2]] * 4, (9, 9, 300, 20, 9, 30, 9, 9))


def told(policy, count, seed=0):
    """Tell values at random points."""
    points = policy.space.draw(count, np.random.default_rng(seed))
    policy.tell(points, np.sin(3.0 * points).sum(axis=1))
    return points


@pytest.mark.parametrize("bound", ["sum", "groups"])
def test_a_grid_that_is_not_enumerated(bound):
    """The choice is the best of each group, given the others for the sum, also with pending points; repeats count."""
    policy = sb.AddGPUCB(LARGE, sb.RBF(0.6), groups=GROUPS, bound=bound, **SETTINGS)
    assert policy.domain.by_visit
    points = np.concatenate([told(policy, 30), told(policy, 5)])
    pending, x = policy.ask(2), policy.ask()
    parts = [(naive_kernels.rbf(0.6), sorted(group)) for group in GROUPS]
    oracle = AdditiveGP(parts, np.concatenate([points, pending]))
    for i, y in enumerate(np.sin(3.0 * points).sum(axis=1)):
        oracle.observe(i, y, REGULARIZATION)
    oracle = oracle.with_fantasies([len(points), len(points) + 1], REGULARIZATION)
    for j, group in enumerate(map(sorted, GROUPS)):
        own = sb.Grid([LARGE.bounds[k] for k in group], [LARGE.sides[k] for k in group]).points()
        changed = np.tile(x, (len(own), 1))
        changed[:, group] = own
        size = 2 * 3 if bound == "sum" else len(group)
        mean, std = oracle.predict(changed) if bound == "sum" else oracle.group(j, changed)
        index = mean + math.sqrt(0.2 * size * math.log(2 * 38)) * std
        at = np.flatnonzero((own == x[group]).all(axis=1))
        assert index[at] == pytest.approx(index.max(), abs=1e-7)


@pytest.mark.parametrize("kind", [sb.AddGPUCB, sb.AddGPTS])
@pytest.mark.parametrize("groups", [[[k] for k in range(8)], "learned"], ids=["given", "learned"])
@pytest.mark.sampled(2)
def test_resumed_on_a_grid_that_is_not_enumerated(kind, groups, tmp_path):
    """From its state, its pickle and a store a policy asks for the same points, to the last bit."""
    grid = sb.Grid(LARGE.bounds, 9)

    def fresh():
        return kind(grid, 2.0 * sb.Matern(0.5), groups=groups, **SETTINGS)

    policy = fresh()
    with sb.record(policy, tmp_path / "run.zarr"):
        for _ in range(12):
            x = policy.ask()
            policy.tell(x, float(np.sin(3.0 * x).sum()))
        policy.tell_failure(policy.ask())
    again = fresh()
    with sb.record(again, tmp_path / "run.zarr"):
        copies = [again, pickle.loads(pickle.dumps(policy))]
        expected = policy.ask(3)
        for each in copies:
            np.testing.assert_array_equal(each.ask(3), expected)
            np.testing.assert_array_equal(each.best().x, policy.best().x)
            assert each.present_groups == policy.present_groups


@pytest.mark.parametrize("bound", ["sum", "groups"])
@pytest.mark.parametrize("place", ["grid", "points"])
@pytest.mark.sampled(2)
def test_one_group_is_igpucb(bound, place):
    """With one group of all dimensions and the same width, round by round."""
    problem = PROBLEMS[place]
    options = {**SETTINGS, "confidence": "flynn-reeb", "rkhs_norm": 1.0}
    policy = sb.AddGPUCB(problem.space, problem.kernel, groups=[[0, 1]], bound=bound, **options)
    other = sb.IGPUCB(problem.space, problem.kernel, **options)
    for _ in range(40):
        x = policy.ask()
        np.testing.assert_array_equal(x, other.ask())
        assert policy.width == pytest.approx(other.width)
        for each in (policy, other):
            each.tell(x, problem.truth(x))


@pytest.mark.parametrize(("count", "room"), [(2000, 0.1), pytest.param(8000, 0.05, marks=pytest.mark.slow)])
def test_draws_are_of_the_joint_posterior(count, room):
    """Means and covariances of the groups' draws, within and between groups, with a pending point.

    Up to about three standard errors of an entry, of few draws and of many.
    """
    space = sb.Grid([[0, 1], [0, 1]], (4, 3))
    kernel = sb.OnDimensions(sb.RBF(0.4), [0]) + 0.5 * sb.OnDimensions(sb.Matern(0.3, nu=1.5), [1])
    engine = AdditiveEngine(kernel, 2, constant_mean(0.3), lambda group: sb.Grid([[0, 1]], (4, 3)[group[0]]))
    engine.points = space.points()
    parts = [(naive_kernels.rbf(0.4), [0]), (naive_kernels.scaled(0.5, naive_kernels.matern32(0.3)), [1])]
    oracle = AdditiveGP(parts, space.points(), 0.3)
    for number, y, noise in ((0, 1.0, 0.1), (5, -0.5, 0.2), (0, 0.7, 0.1), (10, 0.1, 0.05)):
        engine.observe(number, y, noise)
        oracle.observe(number, y, noise)
    own = [np.column_stack([np.linspace(0, 1, 4)] * 2), np.column_stack([np.linspace(0, 1, 3)] * 2)]
    mean, covariance = oracle.with_fantasies([7], 0.1).joint(own)
    rng = np.random.default_rng(0)
    draws = np.array([np.concatenate(engine.draw_groups(rng, 1.0, space.points([7]), 0.1)) for _ in range(count)])
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=room)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=room)


@pytest.mark.parametrize("kind", [sb.AddGPUCB, sb.AddGPTS])
@pytest.mark.parametrize(("d", "learned", "share"), [(10, False, 0.2), (30, False, 0.4), (10, True, 0.3)])
@pytest.mark.sampled(6)
def test_regret_of_a_sum_over_pairs(kind, d, learned, share):
    """Of 300 rounds, as a share of random play's, with groups that are given or learned."""
    rng = np.random.default_rng(d)
    space, side = sb.Grid([[0, 1]] * d, 15), sb.Grid([[0, 1]] * 2, 15)
    pairs = rng.permutation(d).reshape(-1, 2).tolist()
    factor = np.linalg.cholesky(sb.RBF(0.3).block(side.points()) + 1e-8 * np.eye(225))
    tables = rng.standard_normal((len(pairs), 225)) @ factor.T
    policy, total = kind(space, sb.RBF(0.3), groups="learned" if learned else pairs, **SETTINGS), 0.0
    for _ in range(300):
        x = policy.ask()
        value = sum(table[side.find(x[None, sorted(pair)])[0]] for pair, table in zip(pairs, tables, strict=True))
        policy.tell(x, value + NOISE * rng.standard_normal())
        total += tables.max(axis=1).sum() - value
    assert total / 300 <= share * (tables.max(axis=1) - tables.mean(axis=1)).sum()


def test_likelihood_of_decompositions():
    """It is that of the averages, up to a constant; the true groups are found from few values at random points."""
    rng, kernel = np.random.default_rng(1), 1.5 * sb.RBF(0.5)
    true = ((0, 3), (1, 5), (2, 4))
    x, noise = rng.random((60, 6)), rng.uniform(0.005, 0.02, 60)
    factor = [np.linalg.cholesky(kernel.block(x[:, group]) + 1e-9 * np.eye(60)) for group in true]
    y = sum(each @ rng.standard_normal(60) for each in factor) + np.sqrt(noise) * rng.standard_normal(60)
    other = ((0, 1), (2, 3), (4, 5))
    found, expected = [], []
    for groups in (true, other):
        found.append(Decomposition(kernel, x, y, noise, groups).log_likelihood)
        gram = sum(np.array([[1.5 * naive_kernels.rbf(0.5)(a, b) for b in x[:, g]] for a in x[:, g]]) for g in groups)
        expected.append(
            -0.5 * (y @ np.linalg.solve(gram + np.diag(noise), y) + np.linalg.slogdet(gram + np.diag(noise))[1])
        )
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    learned = likelier_groups(kernel, x, y, noise, other, 2, np.random.default_rng(2))
    assert set(learned) == set(true)
    again = likelier_groups(kernel, x, y, noise, true, 2, np.random.default_rng(3))
    assert set(again) == set(true)


def test_a_box():
    """Each group's maximum is found beside a fine grid, and the bound of the sum is at least that at this point."""
    kernel = sb.OnDimensions(sb.RBF(0.3), [0, 2]) + sb.OnDimensions(sb.Matern(0.4), [1])
    box = sb.Box([[0, 1], [-1, 1], [0, 2]])
    published, summed = (sb.AddGPUCB(box, kernel, bound=bound, **SETTINGS) for bound in ("groups", "sum"))
    for policy in (published, summed):
        told(policy, 20)
    x = published.ask()
    for j, (side, own) in enumerate((([[0, 1], [0, 2]], [0, 2]), ([[-1, 1]], [1]))):
        width = published.group_widths[j]
        mean, std = published.group_posterior(j, np.concatenate([x[None, own], sb.Grid(side, 61).points()]))
        bounds = mean + width * std
        assert bounds[0] >= bounds.max() - 0.01
    mean, std = summed.posterior(np.stack([x, summed.ask()]))
    at_published, at_summed = mean + summed.width * std
    assert at_summed >= at_published - 1e-6


def test_messages_on_trees():
    """The maximum of a sum over random trees of groups is that of an enumeration."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        d = int(rng.integers(1, 6))
        sides = rng.integers(2, 5, d)
        groups = [(0,)]
        for k in range(1, d):
            shared = groups[rng.integers(len(groups))]
            groups.append(
                tuple(sorted({k, *rng.choice(shared, rng.integers(len(shared) + 1), replace=False).tolist()}))
            )
        values = [rng.standard_normal(math.prod(sides[list(group)].tolist())) for group in groups]
        total = np.zeros(sides)
        for group, own in zip(groups, values, strict=True):
            total += own.reshape([sides[k] if k in group else 1 for k in range(d)])
        steps = highest(tuple(groups), values, dict(enumerate(sides.tolist())), 7)
        assert total[tuple(steps)] == pytest.approx(total.max(), abs=1e-12)


@pytest.mark.parametrize("available", [False, True])
def test_overlapping_groups(available):
    """The published index of a chain of pairs has its maximum where an enumeration of all candidates has it."""
    space, pairs = sb.Grid([[0, 1]] * 4, 4), [[0, 1], [1, 2], [2, 3]]
    policy = sb.AddGPUCB(space, sb.RBF(0.5), groups=pairs, bound="groups", **SETTINGS)
    oracle = AdditiveGP([(naive_kernels.rbf(0.5), pair) for pair in pairs], space.points())
    for t in range(8):
        index = oracle.sum_of_bounds(policy.group_widths)
        allowed = np.arange(space.size) if not available else np.arange(t, space.size, 3)
        x = policy.ask(available=allowed if available else None)
        number = int(space.index(x)[0])
        assert number in allowed
        assert index[number] == pytest.approx(index[allowed].max(), abs=1e-8)
        y = float(np.sin(5.0 * x).sum() + x[1] * x[2])
        policy.tell(x, y)
        oracle.observe(number, y, REGULARIZATION)


class TestGroups:
    def test_taken_apart(self):
        """Factors are distributed, summands on the same dimensions and products on several are one group each."""
        one, two, three = sb.OnDimensions(sb.RBF(0.2), [0]), sb.OnDimensions(sb.Matern([0.3, 0.5]), [3, 1]), None
        three = sb.OnDimensions(sb.Linear(0.7), [2]) * sb.OnDimensions(sb.RBF(0.4), [4])
        kernel = 2.0 * (one + 0.5 * two) + three + 0.1 * sb.OnDimensions(sb.Linear(1.0), [0])
        groups = groups_of(kernel)
        assert [group.dimensions for group in groups] == [(0,), (1, 3), (2, 4)]
        x, z = np.random.default_rng(0).random((2, 6, 5))
        total = sum(group.kernel.block(x[:, group.dimensions], z[:, group.dimensions]) for group in groups)
        np.testing.assert_allclose(total, kernel.block(x, z), rtol=1e-12)

    @pytest.mark.parametrize(
        ("space", "kernel", "options", "argument"),
        [
            (sb.Grid([[0, 1]] * 2, 5), sb.RBF(0.2), {}, "kernel"),
            (sb.Grid([[0, 1]] * 2, 5), sb.OnDimensions(sb.RBF(0.2), [0]) + sb.Constant(), {}, "kernel"),
            (sb.Grid([[0, 1]] * 2, 5), sb.RBF(0.2), {"groups": [[0]]}, "groups"),
            (sb.Grid([[0, 1]] * 3, 5), sb.RBF(0.2), {"groups": [[0, 1], [1, 2], [0, 2]]}, "groups"),
            (sb.Grid([[0, 1]] * 2, 5), sb.RBF(0.2), {"groups": [[0, 1], [1]]}, "bound"),
            (sb.Box([[0, 1]] * 2), sb.RBF(0.2), {"groups": [[0, 1], [1]]}, "groups"),
            (sb.Grid([[0, 1]] * 2, 5), sb.RBF(0.2), {"groups": [[0, 2], [1]]}, "groups"),
            (sb.Grid([[0, 1]] * 3, 100), sb.RBF(0.2), {"groups": [[0, 1, 2]]}, "groups"),
            (sb.Grid([[0, 1]] * 2, 5), sb.RBF(0.2), {"groups": [[0], [1]], "prior_mean": np.zeros(25)}, "prior_mean"),
            (sb.Grid([[0, 1]] * 2, 5), sb.RBF(0.2), {"groups": [[0], [1]], "engine": "dense"}, "engine"),
            (sb.Grid([[0, 1]] * 2, 5), sb.RBF(0.2), {"groups": "unknown"}, "groups"),
            (sb.Grid([[0, 1]] * 2, 5), sb.RBF(0.2), {"groups": "learned", "refit": 5}, "refit"),
            (sb.Grid([[0, 1]] * 4, (2, 300, 300, 2)), sb.RBF(0.2), {"groups": "learned"}, "groups"),
            (sb.Arms(4), sb.Covariance(np.eye(4)), {"groups": [[0]]}, "space"),
            (sb.SearchSpace({"a": sb.Real(0, 1)}), sb.RBF(0.2), {"groups": [[0]]}, "space"),
        ],
    )  # fmt: skip
    def test_refused(self, space, kernel, options, argument):
        with pytest.raises(ValueError, match=f"^{argument}: got .*; allowed: "):
            sb.AddGPUCB(space, kernel, **options)
