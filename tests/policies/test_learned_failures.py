"""Where evaluations fail is learned by policies that learn their kernel: as a constraint, beside an oracle."""

import functools

import numpy as np
import pytest
from naive import constrained, kernels, learned

import scalable_bandits as sb
from scalable_bandits import analysis
from scalable_bandits.policies.pending import PendingPoints

GRID = sb.Grid([[0, 1], [0, 2]], 9)
BOX = sb.Box([[0, 1], [0, 2]])


def loss(x):
    """Smallest at (0.9, 0.9), near the edge of what fails."""
    return (x[0] - 0.9) ** 2 + (x[1] - 0.9) ** 2


def fails(x):
    return x[0] + x[1] > 1.7


def step(policy, failing=fails):
    x = policy.ask()
    policy.tell_failure(x) if failing(x) else policy.tell(x, loss(x))
    return x


def moments_of(model, xs, zs, failed, at):
    """Mean and standard deviation at points by the oracle, with what a model has learned, given points that failed."""
    scale, *lengths = (p.value for p in model.kernel.hyperparameters)
    posterior = functools.partial(
        learned.posterior, kernel=kernels.scaled(scale, kernels.matern52(tuple(lengths))), mean=model.constant_mean
    )
    noise = [model.noise] * len(xs)
    mean, _ = posterior(xs, zs, noise=noise, at=at)
    expected, _ = posterior(xs, zs, noise=noise, at=failed)
    noise += [model.regularization] * len(failed)
    _, variance = posterior([*xs, *failed], [*zs, *expected], noise=noise, at=at)
    return mean, np.sqrt(np.maximum(variance, 1e-15))


@pytest.mark.parametrize("kind", [sb.GPEI, sb.GPPI])
def test_chooses_the_maximum_of_the_oracle(kind):
    """Improvement times the probability of success, whose values are 1 and -1."""
    policy, at = kind(GRID, minimize=True, seed=3), GRID.points()
    good, bad = [], []
    for number in range(18):
        x = policy.ask()
        if number >= 13:
            zs = learned.half_ranked([-loss(each) for each in good], learned.declustered(good, [1.0, 2.0]))
            success = policy._limited.success
            succeeded = [1.0] * len(good) + [-1.0] * len(bad)
            transform = constrained.around_limit(succeeded, 0.0)
            first = moments_of(policy.model, good, zs, bad, at)
            second = moments_of(success, [*good, *bad], [transform(y) for y in succeeded], bad, at)
            least, best = transform(0.0), max(zs)
            pairs = list(zip(*first, *second, strict=True))
            if kind is sb.GPEI:
                index = [constrained.constrained_improvement((m, s), [(n, t)], best, [least]) for m, s, n, t in pairs]
            else:
                limits = [best + policy.xi, least]
                index = [
                    constrained.constrained_improvement(None, [(m, s), (n, t)], None, limits) for m, s, n, t in pairs
                ]
            chosen = int(np.flatnonzero((at == x).all(axis=1))[0])
            free = [i for i in range(len(at)) if not any((each == at[i]).all() for each in (*good, *bad))]
            assert index[chosen] >= (1 - 1e-6) * max(index[i] for i in free)
        (bad if fails(x) else good).append(x)
        policy.tell_failure(x) if fails(x) else policy.tell(x, loss(x))
    assert len(bad) > 3


def test_without_a_value_the_likeliest_success_is_next():
    policy = sb.GPEI(GRID, minimize=True)
    for _ in range(12):
        step(policy, lambda x: True)
    index = policy.acquisition(None)
    assert index.improvement is None
    index_at = analysis.index_of(policy, GRID.points())
    assert np.exp(index_at).max() > 1e-3  # no failure says that all fail
    nearest = [
        min(abs(x - each).max() for each in policy.domain.points(policy.pending_points.excluded)) for x in GRID.points()
    ]
    assert index_at[np.argmax(nearest)] > index_at[np.argmin(nearest)]


def test_without_a_value_points_of_a_box_are_inside_of_it_and_away_from_failures():
    """Of 32 random points the likeliest to succeed, by a prior of which nothing was learned."""
    policy, plain = (sb.GPEI(sb.Box([[0, 1]] * 4), minimize=True, seed=seed) for seed in (0, 1))
    for _ in range(30):
        step(policy, lambda x: True)
        step(plain, lambda x: True)
    failed = policy.domain.points(policy.pending_points.excluded)
    assert not np.isin(failed, [0.0, 1.0]).any()
    assert len(np.unique(failed, axis=0)) == 30
    index, x = analysis.index_of(policy, plain.space.draw(1000, np.random.default_rng(0))), policy.ask()
    assert (analysis.index_of(policy, x[None])[0] > index).mean() > 0.8  # 0.97 is expected


@pytest.mark.parametrize(("space", "enough"), [(GRID, 0.0232), (BOX, 0.009)], ids=["grid", "box"])
@pytest.mark.sampled(2)
def test_finds_the_best_point_at_the_edge_of_what_fails(space, enough):
    """Whose value is 0.0231 on the grid and 0.005 on the box; with the worst value where it fails, 0.011 is found."""
    policy = sb.GPEI(space, minimize=True)
    for _ in range(35):
        step(policy)
    assert policy.best().mean < enough


def test_accidents_do_not_matter():
    """One evaluation in four fails wherever it is; the best point is found all the same."""
    policy, rng = sb.GPEI(BOX, minimize=True), np.random.default_rng(0)
    for _ in range(40):
        step(policy, lambda x: rng.random() < 0.25)
    assert policy.failures > 5
    assert policy.best().mean < 1e-6


def test_drawn_values_at_pending_points_are_the_objectives():
    policy = sb.GPEI(GRID, minimize=True, pending="sample")
    for _ in range(14):
        step(policy)
    policy.ask(3)
    query = policy._next_query(None, policy._pending_draws())
    (success,) = query.beside
    assert query.draws is not None
    seen = []

    def index(mean, variance):
        seen.append((mean, variance))
        return mean[0]

    policy.model.argmax(index, query)
    mean, variance = (rows[1] for rows in seen[0])
    np.testing.assert_allclose(mean, success.engine.mean())
    np.testing.assert_allclose(variance, success.engine.variance() - success.reduction(query.pending))
    assert not np.allclose(seen[0][0][0], policy.model.engine.mean())


@pytest.mark.parametrize("make", [sb.GPEI, functools.partial(sb.GPPI, xi=0.1)], ids=["EI", "PI"])
@pytest.mark.parametrize("told", [12, 0], ids=["some failures", "no failure"])
def test_the_index_is_what_is_maximised(make, told):
    """As plots show it."""
    policy = make(GRID, minimize=True)
    for number in range(16):
        step(policy, fails if number < told else lambda x: False)
    index = analysis.index_of(policy, GRID.points())
    index[[*policy.model.settled([]), *policy.pending_points.excluded]] = -np.inf
    policy._pending = PendingPoints()  # what has failed counts as pending in a choice, and not in the picture
    assert index[GRID.index(policy.ask())[0]] >= index.max() - 1e-9
