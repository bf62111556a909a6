"""Contexts in compiled loops against rounds one by one: the same numbers, to the last bit."""

from typing import Any

import numpy as np
import pytest
from cases.policies import EVERY_POLICY, PROBLEMS
from cases.rounds import Counted, assert_same, assert_same_state, environment_of, one_by_one

import scalable_bandits as sb
from scalable_bandits.policies import Policy

GRID = PROBLEMS["grid"]
RAGGED = sb.Points(np.column_stack([PROBLEMS["points"].space.points()[:, 0].round(1), np.arange(160.0)]))


def prior_policy(kind: type) -> Policy:
    kernel = sb.Matern(0.1, nu=1.5)
    priors = [sb.Prior("plain", kernel), sb.Prior("off", kernel, 25.0), sb.Prior("low", 2.0 * kernel, -0.8)]
    return kind(GRID.space, priors, noise=0.2, regularization=0.05, seed=3)


POLICIES: dict[str, Any] = {
    **{name: lambda name=name: EVERY_POLICY[name].make(GRID) for name in (
        "gpucb-1", "igpucb", "mean", "variance", "tv", "restart", "window", "weighted", "random"
    )},
    "weights": lambda: EVERY_POLICY["igpucb"].make(PROBLEMS["grid, features"], engine="weights"),
    **{kind.__name__: lambda kind=kind: prior_policy(kind) for kind in (
        sb.PEGPUCB, sb.MLEGPUCB, sb.FullyBayesianGPUCB, sb.RegretBalancing
    )},
}  # fmt: skip


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.sampled(4)
def test_the_same_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts drawn, as many candidates in each; what follows is the same, too."""
    policy, alone = POLICIES[name](), POLICIES[name]()
    environment = sb.ContextualEnvironment(environment_of(GRID), [1])
    counted = Counted(monkeypatch, policy)
    run = sb.simulate(policy, environment, 150)
    assert sum(counted.blocks) == 150
    assert_same(run, one_by_one(alone, environment, 150))
    assert_same_state(policy, alone)
    given = [environment.context(t)[1] for t in range(1, 151)]
    np.testing.assert_array_equal(GRID.space.points(run.candidate)[:, 1], given)


SETS: dict[str, Any] = {
    "masks": lambda of: sb.MovingSearchSpace(of, np.random.default_rng(0).random((7, of.space.size)) < 0.1),
    "table": lambda of: sb.ContextualEnvironment(of, [0], of.space.points([3, 3, 0, 40, 7])[:, 0]),
    "two dimensions": lambda of: sb.ContextualEnvironment(of, [0, 1], of.space.points([3, 0, 40])),
}


@pytest.mark.parametrize("sets", SETS)
@pytest.mark.parametrize("name", ["igpucb", "random", "restart"])
def test_sets_of_different_sizes(name: str, sets: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points of which some share a coordinate; the sets come in turn, also in a run that begins in the middle."""
    kernel = sb.RBF([0.3, 30.0])
    make = lambda: EVERY_POLICY[name].make(GRID._replace(space=RAGGED, kernel=kernel))  # noqa: E731
    function = sb.TableEnvironment(RAGGED, np.sin(np.arange(160.0)), sb.GaussianNoise(0.2), seed=5)
    environment, policy, alone = SETS[sets](function), make(), make()
    counted = Counted(monkeypatch, policy)
    for rounds in (70, 33):
        assert_same(sb.simulate(policy, environment, rounds), one_by_one(alone, environment, rounds))
    assert sum(counted.blocks) == 103


class OwnAvailability(sb.ContextualEnvironment):
    """A user's environment, which takes one candidate away."""

    def available(self, t: int) -> Any:
        mask = super().available(t).copy()
        mask[np.flatnonzero(mask)[0]] = False
        return mask


@pytest.mark.parametrize("how", ["own", "inside", "caller", "cells"])
def test_what_only_a_round_knows_goes_the_usual_way(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment: Any = sb.ContextualEnvironment(environment_of(GRID), [1])
    available, policy = None, EVERY_POLICY["igpucb"].make(GRID)
    if how == "own":
        environment = OwnAvailability(environment_of(GRID), [1])
    elif how == "inside":
        environment = sb.ContextualEnvironment(sb.MovingSearchSpace(environment_of(GRID), [np.arange(168) >= 12]), [1])
    elif how == "caller":
        available = lambda t: np.arange(12, 168)  # noqa: E731
    else:
        policy = sb.PiGPUCB(GRID.space, sb.Matern(0.3, nu=2.5), noise=0.3, horizon=50)
    counted = Counted(monkeypatch, policy)
    run = sb.simulate(policy, environment, 40, available=available)
    assert not counted.blocks
    taken = 0 if how == "cells" else 12
    for t, candidate in enumerate(run.candidate, 1):
        offered = np.flatnonzero(GRID.space.matching(environment.context(t)))
        offered = offered[1:] if taken else offered
        assert candidate in offered
        values = environment.table()[offered]
        assert run.regret[t - 1] == values.max() - run.value[t - 1]
