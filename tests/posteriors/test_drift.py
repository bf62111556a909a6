"""Engines after very many rounds against fresh solves in extended precision."""

import warnings

import numpy as np
import pytest
from naive import fresh
from naive import kernels as naive

import scalable_bandits as sb
from scalable_bandits.posteriors import DenseEngine, TiledEngine

ALLOWED = 1e-3  # in posterior deviations, or relative


def drift(arms, lam, rounds, engine):
    """Errors of an engine after rounds of IGP-UCB."""
    space, kernel = sb.Grid([[0, 1]], arms), sb.Matern(0.2, nu=2.5)
    environment = sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(lam**0.5), seed=0)
    policy = sb.IGPUCB(space, kernel, noise=lam**0.5, regularization=lam, engine=engine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.LostInRounding)
        run = sb.simulate(policy, environment, rounds, keep="all")
    gram = naive.matrix(naive.matern52(0.2), space.points())
    return fresh.errors(policy.model.engine, gram, *fresh.tally(arms, run.candidate, run.y), lam)


def test_compiled_rounds_do_not_drift():
    """Nearly all plays are of one arm, whose variance is lambda / T: less than the rounding of the prior's."""
    assert max(drift(20, 1e-8, 200_000, "dense")) < ALLOWED


@pytest.mark.parametrize("engine", [DenseEngine, TiledEngine])
def test_single_rounds_do_not_drift(engine):
    """Nearly all plays are of two arms."""
    rng, lam, points = np.random.default_rng(0), 1e-8, np.linspace(0, 1, 20)[:, None]
    tested = engine(sb.RBF(0.2), points, np.zeros(20))
    played, ys = rng.choice([3, 4], 10_000), 1e-4 * rng.standard_normal(10_000)
    played[::1000] = rng.permutation(20)[:10]
    for candidate, y in zip(played.tolist(), ys.tolist(), strict=True):
        tested.observe(candidate, y, lam)
    gram = naive.matrix(naive.rbf(0.2), points)
    assert max(fresh.errors(tested, gram, *fresh.tally(len(points), played, ys), lam)) < ALLOWED


@pytest.mark.parametrize("engine", [DenseEngine, TiledEngine])
def test_windows_that_are_folded_do_not_drift(engine, small_tiles):
    """Windows hold 16 points: folds and rebuilds, between which one arm of 150 is played nearly always."""
    rng, lam, points = np.random.default_rng(1), 1e-8, np.random.default_rng(2).random((150, 2))
    tested = engine(sb.Matern(0.2, nu=2.5), points, np.zeros(150))
    played, ys = rng.integers(150, size=6_000), 1e-4 * rng.standard_normal(6_000)
    played[rng.random(6_000) < 0.9] = 7
    for candidate, y in zip(played.tolist(), ys.tolist(), strict=True):
        tested.observe(candidate, y, lam)
    gram = naive.matrix(naive.matern52(0.2), points)
    assert max(fresh.errors(tested, gram, *fresh.tally(len(points), played, ys), lam)) < ALLOWED


@pytest.mark.long
@pytest.mark.parametrize("engine", ["dense", "tiled"])
def test_ten_million_rounds_do_not_drift(engine):
    assert max(drift(20, 1e-8, 10_000_000 if engine == "dense" else 200_000, engine)) < ALLOWED


def test_what_double_precision_cannot_carry_is_warned_of():
    """When the horizon is known, and when it is reached; once; not by a policy that forgets."""
    space, kernel = sb.Grid([[0, 1]], 5), sb.RBF(0.2)
    given = {"noise": 1e-6, "regularization": 1e-12}
    text = r"IGPUCB: regularization=1e-12 \(lambda\) and T = 11 rounds are more than double .* at most 10 rounds"
    with pytest.warns(sb.LostInRounding, match=text):
        sb.IGPUCB(space, kernel, horizon=11, **given)
    policy = sb.IGPUCB(space, kernel, **given)
    with pytest.warns(sb.LostInRounding, match=text):
        policy.tell(space.points(np.zeros(11, dtype=int)), np.zeros(11))
    policy.tell([0.0], 0.0)
    environment = sb.TableEnvironment(space, np.zeros(5), sb.GaussianNoise(1e-6))
    with pytest.warns(sb.LostInRounding):
        sb.simulate(sb.IGPUCB(space, kernel, **given), environment, 11)
    with pytest.warns(sb.LostInRounding):
        sb.PEGPUCB(space, [sb.Prior("a", kernel)], horizon=11, **given)
    sb.SWGPUCB(space, kernel, memory=3, horizon=11, **given)
    sb.IGPUCB(space, kernel, horizon=10, **given)
