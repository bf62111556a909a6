"""Hard numbers: whatever the scales, everything a policy computes stays finite and no variance is negative.

Also, where a problem is only another one in other units, the same is played.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

import scalable_bandits as sb
from scalable_bandits.policies import Policy
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy

pytestmark = pytest.mark.filterwarnings("ignore::scalable_bandits.LostInRounding")

ROUNDS = 50
POLICIES = [
    ("GPUCB", "tiled"),
    ("IGPUCB", "dense"),
    ("IGPUCB", "tiled"),
    ("GPTS", "dense"),
    ("GPEI", "dense"),
    ("GPEI", "tiled"),
    ("GPPI", "tiled"),
    ("MeanOnly", "tiled"),
    ("VarianceOnly", "dense"),
]


class Case(NamedTuple):
    """Candidates, a prior, what the noise is taken to be, and what is observed (from point and round)."""

    space: sb.Points | sb.Grid
    kernel: sb.Kernel
    regularization: float
    observed: Callable[[float, int], float]


def wave(x: float, t: int) -> float:
    return math.sin(9.0 * x) + 0.1 * math.cos(7.0 * t)


def near_duplicates() -> sb.Points:
    """Twelve places with five points each, 1e-12 apart."""
    return sb.Points((np.linspace(0.0, 1.0, 12)[:, None] + 1e-12 * np.arange(5)).ravel())


LINE, DENSE = sb.Grid([[0, 1]], 40), sb.Grid([[0, 1]], 200)
CASES = {
    "near duplicates, RBF": Case(near_duplicates(), sb.RBF(0.2), 1e-2, wave),
    "near duplicates, Matern": Case(near_duplicates(), sb.Matern(0.2), 1e-8, wave),
    "equal rows": Case(sb.Points([0.0, 0.5, 0.5, 0.5, 1.0]), sb.RBF(0.2), 1e-8, wave),
    "one candidate": Case(sb.Points([0.5]), sb.RBF(0.2), 1e-8, wave),
    "noise 1e-8": Case(LINE, sb.RBF(0.2), 1e-8, wave),
    "noise 1e-14": Case(LINE, sb.Matern(0.2, nu=2.5), 1e-14, wave),
    "noise 1e-14 and readings of that size": Case(LINE, sb.RBF(0.2), 1e-14, lambda x, t: 1e-14 * wave(x, t)),
    "readings that differ by their last bits": Case(LINE, sb.RBF(0.2), 1e-8, lambda x, t: 1.0 + 2e-16 * (t % 3)),
    "readings all zero": Case(LINE, sb.RBF(0.2), 1e-8, lambda x, t: 0.0),
    "lengthscale 1e-3": Case(LINE, sb.RBF(1e-3), 1e-2, wave),
    "lengthscale 1e3": Case(LINE, sb.RBF(1e3), 1e-2, wave),
    "lengthscale 1e3, little noise": Case(LINE, sb.Matern(1e3, nu=2.5), 1e-8, wave),
    "lengthscales 1e-3 to 1e3": Case(LINE, sb.RBF(1e-3) + sb.RBF(1.0) + sb.Matern(1e3), 1e-8, wave),
    "prior variance 1e12": Case(LINE, 1e12 * sb.RBF(0.2), 1.0, wave),
    "prior variance 1e-12": Case(LINE, 1e-12 * sb.Matern(0.2), 1.0, wave),
    "prior variance 1e-12, noise 1e-24": Case(LINE, 1e-12 * sb.RBF(0.2), 1e-24, lambda x, t: 1e-6 * wave(x, t)),
    "readings 1e6": Case(LINE, sb.RBF(0.2), 1e-2, lambda x, t: 1e6 * wave(x, t)),
    "readings 1e6, noise 1e-8": Case(LINE, sb.Matern(0.2), 1e-8, lambda x, t: 1e6 * (1.0 + wave(x, t))),
    "prior variance 1e12, noise 1e-2": Case(LINE, 1e12 * sb.RBF(0.2), 1e-2, wave),
    "200 dense points": Case(DENSE, sb.RBF(0.2), 1e-2, wave),
    "200 dense points, no noise": Case(DENSE, sb.RBF(0.2), 1e-10, wave),
    "linear through zero": Case(LINE, sb.Linear(), 1e-8, wave),
    "Periodic": Case(DENSE, sb.Periodic(1.0, period=0.25), 1e-8, wave),
}
# Noise variances below the rounding of the prior's.
BELOW_ROUNDING = {
    "near duplicates, 1e-16": Case(near_duplicates(), sb.RBF(0.2), 1e-16, wave),
    "1e-16": Case(LINE, sb.Matern(0.2, nu=2.5), 1e-16, wave),
    "1e-16 and readings of that size": Case(LINE, sb.RBF(0.2), 1e-16, lambda x, t: 1e-16 * wave(x, t)),
    "1e-20 of the prior variance": Case(LINE, 1e12 * sb.RBF(0.2), 1e-8, wave),
    "1e-30": Case(LINE, sb.RBF(0.2), 1e-30, wave),
}


def make(name: str, case: Case, **options: Any) -> Policy:
    options = {"noise": math.sqrt(case.regularization), "regularization": case.regularization, "seed": 1, **options}
    policy: Policy = getattr(sb, name)(case.space, case.kernel, **options)
    return policy


def assert_sound(policy: Policy, case: Case) -> None:
    """Everything that can be asked for is finite, and no variance is negative or above the prior's."""
    assert isinstance(policy, GaussianProcessPolicy)
    engine = policy.model.engine
    points = case.space.points()
    assert np.isfinite(engine.mean()).all()
    assert np.isfinite(engine.variance()).all()
    assert (engine.variance() >= 0).all()
    assert (engine.variance() <= case.kernel.diagonal(points) * (1 + 1e-9)).all()
    assert np.isfinite(engine.information_gain)
    assert engine.information_gain >= 0
    mean, std = policy.posterior(np.vstack([points, points[:3] + 1e-3]))
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std >= 0).all()
    assert all(np.isfinite(number).all() for number in policy.best())
    if hasattr(policy, "rkhs_norm"):
        assert np.isfinite([policy.width, policy.information_gain]).all()


def play_and_check(policy: Policy, case: Case) -> None:
    """Play one by one, and then in batches with points pending."""
    assert_sound(policy, case)
    t = 0
    while t < ROUNDS:
        asked = policy.ask(1 if t < 40 else 5)
        assert np.isfinite(asked).all()
        for x in asked:
            t += 1
            policy.tell(x, case.observed(float(x[0]), t))
    assert policy.rounds == ROUNDS
    assert_sound(policy, case)


@pytest.mark.parametrize(("name", "engine"), POLICIES)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(12)
def test_stays_finite(name: str, engine: str, case: str) -> None:
    """Fifty rounds, one by one and then in batches with points pending."""
    play_and_check(make(name, CASES[case], engine=engine), CASES[case])


@pytest.mark.parametrize(("name", "engine"), POLICIES)
@pytest.mark.parametrize("case", BELOW_ROUNDING)
@pytest.mark.sampled(5)
def test_noise_below_rounding(name: str, engine: str, case: str) -> None:
    """It is refused by its name, or stays finite: never NaN, nor a candidate that is none."""
    chosen = BELOW_ROUNDING[case]
    try:
        policy = make(name, chosen, engine=engine)
    except ValueError as refused:
        assert str(refused).startswith("regularization: got ")  # noqa: PT017
    else:
        play_and_check(policy, chosen)


@pytest.mark.parametrize("name", ["IGPUCB", "GPTS", "GPEI"])
@pytest.mark.parametrize("scale", [1.0, 1e12])
@pytest.mark.parametrize("regularization", [1e-2, 1e-13])
def test_weights_stay_finite(name: str, scale: float, regularization: float) -> None:
    for space, kernel in ((LINE, sb.Linear()), (near_duplicates(), sb.SphericalLinear([[0, 1]]))):
        chosen = Case(space, scale * kernel, scale * regularization, wave)
        play_and_check(make(name, chosen, engine="weights"), chosen)


@pytest.mark.parametrize("engine", ["dense", "tiled"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(2)
def test_stays_finite_in_one_place(case: str, engine: str) -> None:
    """The same point fifty times, then its neighbour: the variance there only falls."""
    chosen = CASES[case]
    policy = make("IGPUCB", chosen, engine=engine)
    assert isinstance(policy, GaussianProcessPolicy)
    candidate, before = chosen.space.size // 2, math.inf
    x = chosen.space.points([candidate])[0]
    for t in range(1, ROUNDS + 1):
        policy.tell(x, chosen.observed(float(x[0]), t))
        variance = float(policy.model.engine.variance()[candidate])
        assert 0 <= variance <= before
        before = variance
    x = chosen.space.points([min(candidate + 1, chosen.space.size - 1)])[0]
    policy.tell(x, chosen.observed(float(x[0]), ROUNDS + 1))
    assert_sound(policy, chosen)


@pytest.mark.parametrize("engine", ["dense", "tiled"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(2)
def test_posterior_anywhere_agrees_with_the_engine(case: str, engine: str) -> None:
    """The refit at the candidates gives the engine's mean to the accuracy that the noise allows."""
    chosen = CASES[case]
    policy = make("IGPUCB", chosen, engine=engine)
    assert isinstance(policy, GaussianProcessPolicy)
    for t in range(1, ROUNDS + 1):
        x = policy.ask()
        policy.tell(x, chosen.observed(float(x[0]), t))
    mean, std = policy.posterior(chosen.space.points())
    prior = float(chosen.kernel.diagonal(chosen.space.points()).max())
    size = max(abs(chosen.observed(x, t)) for x in (0.0, 0.2, 0.5, 0.8) for t in range(3))
    room = min(1.0, 2e-15 * max(1.0, prior / chosen.regularization))  # rounding of the prior, over the noise
    np.testing.assert_allclose(mean, policy.model.engine.mean(), atol=room * size + 1e-300)
    np.testing.assert_allclose(std**2, policy.model.engine.variance(), atol=1e-12 * ROUNDS * prior)


CROWDED: dict[str, Callable[[sb.Kernel, dict[str, Any]], Policy]] = {
    "dense": lambda kernel, options: sb.IGPUCB(DENSE, kernel, engine="dense", **options),
    "tiled": lambda kernel, options: sb.IGPUCB(DENSE, kernel, engine="tiled", **options),
    "sketched": lambda kernel, options: sb.BKB(DENSE, kernel, **options),
    "pathwise": lambda kernel, options: sb.GPTS(DENSE, kernel, samples="pathwise", **options),
    "sliding": lambda kernel, options: sb.SWGPUCB(DENSE, kernel, memory=150, **options),
    "weighted": lambda kernel, options: sb.WGPUCB(DENSE, kernel, eta=0.999, **options),
    "forgetting": lambda kernel, options: sb.TVGPUCB(DENSE, kernel * sb.TemporalDecay(1e-8), **options),
    "whole box": lambda kernel, options: sb.IGPUCB(sb.Box([[0, 1]]), kernel, **options),
}


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes a quarter of an hour where nothing is compiled")
@pytest.mark.parametrize("kernel", [sb.RBF(3.0), sb.Periodic(1.0, period=0.25), sb.Linear()], ids=str)
@pytest.mark.parametrize("name", CROWDED)
@pytest.mark.sampled(9)
def test_hundreds_of_points_with_as_little_noise_as_may_be(name: str, kernel: sb.Kernel) -> None:
    """They are far from independent, and say what the prior rules out: rounding errors do not feed each other."""
    if name == "pathwise" and not kernel.stationary:
        kernel = sb.RBF(1.0)  # draws need a stationary one
    policy = CROWDED[name](kernel, {"noise": 1e-7, "regularization": 1e-14, "seed": 1})
    points, rng = DENSE.points(), np.random.default_rng(0)
    for candidate in np.concatenate([rng.permutation(200) for _ in range(2)]).tolist():
        policy.tell(points[candidate], math.sin(6.0 * points[candidate, 0]))
    assert np.isfinite(policy.ask(2)).all()
    mean, std = policy.posterior(points)
    assert np.abs([*mean, policy.best().mean]).max() < 30.0  # not NaN
    assert (std < 1.0).all()


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**-10, 2.0**10, 2.0**40])
@pytest.mark.parametrize(("name", "engine"), POLICIES)
@pytest.mark.sampled(4)
def test_units_of_y_change_nothing(name: str, engine: str, factor: float) -> None:
    """Readings in other units, and all that is in them: the same play.

    By powers of two, so that rounding is alike. A width B + R sqrt(...) is in units of y itself: its kernel and lambda
    have none (Chowdhury & Gopalan 2017); for the others they are in squared units of y.
    """
    case = Case(sb.Grid([[0, 1]], 30), sb.Matern(0.2), 0.01, wave)
    own = {"IGPUCB": {"rkhs_norm": 1.0}, "GPTS": {"rkhs_norm": 1.0}, "GPEI": {"xi": 0.125}, "GPPI": {"xi": 0.125}}
    options = {"noise": 0.1, **own.get(name, {})}
    prior = 1.0 if "rkhs_norm" in options else factor**2
    scaled = Case(case.space, prior * case.kernel, prior * 0.01, lambda x, t: factor * wave(x, t))
    first = make(name, case, engine=engine, **options)
    second = make(name, scaled, engine=engine, **{key: factor * value for key, value in options.items()})
    for t in range(1, 31):
        x, other = first.ask(), second.ask()
        assert x.tolist() == other.tolist()
        first.tell(x, case.observed(float(x[0]), t))
        second.tell(other, scaled.observed(float(x[0]), t))


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_units_of_x_change_nothing(factor: float) -> None:
    """Points and lengthscale in other units."""
    plays = []
    for scale in (1.0, factor):
        space = sb.Grid([[0, scale]], 33)
        policy = sb.IGPUCB(space, sb.RBF(0.25 * scale), noise=0.1, regularization=0.01)
        run = sb.simulate(policy, sb.TableEnvironment(space, np.sin(np.arange(33.0))), 40)
        plays.append(run.candidate.tolist())
    assert plays[0] == plays[1]


@pytest.mark.parametrize("variance", [1e-250, 1e250])
def test_a_regularization_whose_precision_is_lost_is_refused_before_anything_is_told(variance):
    with pytest.raises(ValueError, match=r"^regularization: got .*; allowed: from 1e-200 to 1e\+200"):
        sb.RandomSearch(sb.Grid([[0, 1]], 3), regularization=variance)
