"""A policy that minimises y is one that maximises -y, in the user's units."""

import numpy as np
import pytest
from attrs.exceptions import FrozenAttributeError
from cases.policies import EVERY_POLICY, PROBLEMS, on

import scalable_bandits as sb
from scalable_bandits.policies import Policy
from scalable_bandits.status import status
from scalable_bandits.store import ObservationStore

BOX = sb.Box([[0, 1], [0, 1]])


def mirrored(name, space):
    """A policy that minimises and its twin that maximises, each with the same beliefs of its own function."""
    problem, case = PROBLEMS[space], EVERY_POLICY[name]
    twin = case.make(problem)
    given = {"minimize": True}
    if case.priors is not None:
        given["priors"] = [prior.negated() for prior in twin.priors]
        return case.kind(problem.space, **{**arguments(twin), **given}), twin
    return case.make(problem, **given), twin


def arguments(policy):
    return {name: value for name, value in policy.parameters().items() if name not in ("space", "priors", "minimize")}


@on(["points", "whole box"], EVERY_POLICY)
@pytest.mark.sampled(15)
def test_every_policy(name, space):
    if space == "whole box" and not EVERY_POLICY[name].kind.continuous:
        pytest.skip("plays candidates")
    truth, points = PROBLEMS[space].truth, PROBLEMS["points"].space.points()[:5] * [1.0, 0.5]
    policy, twin = mirrored(name, space)
    for step in range(12):
        x, same = policy.ask(), twin.ask()
        np.testing.assert_array_equal(x, same)
        if step == 5:
            continue  # left pending
        policy.tell(x, -truth(x))
        twin.tell(x, truth(x))
    if space == "points":
        points = PROBLEMS["points"].space.points()[:5]
    (mean, std), (other, deviation) = policy.posterior(points), twin.posterior(points)
    np.testing.assert_array_equal(mean, -other)
    np.testing.assert_array_equal(std, deviation)
    found, expected = policy.best(), twin.best()
    np.testing.assert_array_equal(found.x, expected.x)
    assert (found.mean, found.std) == (-expected.mean, expected.std)
    if twin.observations is not None:
        np.testing.assert_array_equal(policy.observations.y, -twin.observations.y)


@pytest.mark.parametrize("space", [sb.Grid([[0, 1]], 9), sb.Box([[0, 1]])], ids=["grid", "box"])
@pytest.mark.parametrize(
    "mean", [2.0, np.linspace(1, 2, 9), lambda points: 1.0 + points[:, 0]], ids=["number", "array", "function"]
)
def test_a_given_prior_mean_is_in_units_of_y(space, mean):
    if isinstance(space, sb.Box) and isinstance(mean, np.ndarray):
        pytest.skip("of candidates alone")
    policy = sb.GPEI(space, sb.RBF(0.2), prior_mean=mean, minimize=True)
    at = np.array([[0.0], [1.0]])
    expected = {"number": [2.0, 2.0]}.get("number" if isinstance(mean, float) else "", [1.0, 2.0])
    np.testing.assert_allclose(policy.posterior(at)[0], expected)
    policy.tell([0.5], -3.0)
    assert policy.best().mean < 1.5


@pytest.mark.parametrize("space", [sb.Box([[0, 1], [0, 1]]), sb.Grid([[0, 1], [0, 1]], 6)], ids=["box", "grid"])
def test_without_a_kernel(space):
    """What is learned is that of the mirrored problem."""
    policy, twin = sb.GPEI(space, minimize=True), sb.GPEI(space)
    for _ in range(14):
        x, same = policy.ask(), twin.ask()
        np.testing.assert_array_equal(x, same)
        value = float(np.exp(3 * x[0]) + x[1] ** 2)
        policy.tell(x, value)
        twin.tell(x, -value)
    assert policy.best() == (pytest.approx(twin.best().x), -twin.best().mean, twin.best().std)
    np.testing.assert_array_equal(policy.posterior(x)[0], -twin.posterior(x)[0])
    np.testing.assert_array_equal(policy.observations.y, -twin.observations.y)


def test_of_the_partitioned_policy():
    """Its mean, too; where nothing is known the mean is that of the prior."""
    policy = sb.PiGPUCB(sb.Grid([[0, 1]], 9), sb.Matern(0.2, nu=1.5), prior_mean=3.0, minimize=True)
    assert policy.best().mean == 3.0
    policy.tell([0.5], 1.0)
    assert policy.best().x == [0.5]
    assert 1.0 < policy.best().mean < 3.0


def test_zero_is_not_minus_zero():
    assert str(sb.GPEI(BOX, sb.RBF(0.2), minimize=True).best().mean) == "0.0"


def test_is_given_once():
    policy = sb.GPEI(BOX, sb.RBF(0.2))
    with pytest.raises(FrozenAttributeError):
        policy.minimize = True
    with pytest.raises(TypeError, match=r"^minimize: got 'yes'; allowed: True or False"):
        sb.GPEI(BOX, sb.RBF(0.2), minimize="yes")


def test_described_and_made_again():
    policy = sb.GPEI(BOX, sb.RBF(0.2), minimize=True)
    assert Policy.from_dict(policy.to_dict()).minimize
    earlier = {key: value for key, value in policy.to_dict().items() if key != "minimize"}
    assert not Policy.from_dict(earlier).minimize


def test_a_simulation_is_refused():
    space = sb.Grid([[0, 1]], 5)
    policy = sb.GPEI(space, sb.RBF(0.2), minimize=True)
    with pytest.raises(ValueError, match=r"^policy: got 'one with minimize=True'; allowed: a policy that maximises"):
        sb.simulate(policy, sb.TableEnvironment(space, np.arange(5.0)), 3)


def test_a_store_has_the_users_units(tmp_path):
    place = tmp_path / "run.zarr"

    def make():
        return sb.GPEI(sb.Grid([[0, 1]], 9), sb.RBF(0.2), noise=0.1, regularization=0.01, minimize=True)

    policy = make()
    with sb.record(policy, place):
        for _ in range(4):
            x = policy.ask()
            policy.tell(x, 3.0 + (x[0] - 0.3) ** 2)
    stored = ObservationStore.open(place).read(names=["y"])["y"]
    assert (stored >= 3.0).all()
    now = status(place)
    assert now.minimize
    assert now.best == now.smallest == stored.min() < now.largest == stored.max()
    again = make()
    with sb.record(again, place):
        assert again.best() == policy.best()
    with pytest.raises(sb.SpecificationDiffers, match=r"policy.minimize: stored True, given False"):
        sb.record(sb.GPEI(sb.Grid([[0, 1]], 9), sb.RBF(0.2), noise=0.1, regularization=0.01), place)
