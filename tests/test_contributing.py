"""The worked examples of CONTRIBUTING run as they stand, and are what they say."""

import re

import numpy as np
import pytest
from cases.paths import ROOT
from scipy.optimize import check_grad

import scalable_bandits as sb

PAGE = ROOT / "CONTRIBUTING.md"
SPACE = sb.Grid([[-1.0, 1.0], [-1.0, 1.0]], 9)
KNOWN = {"noise": 0.1, "regularization": 0.01, "seed": 5}


@pytest.fixture(scope="module")
def examples():
    """What the page defines."""
    namespace = {"__name__": "contributed"}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), namespace)
    return namespace


def test_policy_plays_the_largest_index(examples):
    """In every round, against a posterior solved from scratch."""
    world = examples["Ripples"](SPACE, 0.3, sb.GaussianNoise(0.1), 5)
    policy = examples["ConstantUCB"](SPACE, sb.Matern(0.5, nu=1.5), kappa=1.5, **KNOWN)
    X = SPACE.points()

    def matern(a, b):
        r = np.sqrt(3.0) * np.linalg.norm(np.asarray(a)[:, None] - np.asarray(b)[None], axis=2) / 0.5
        return (1.0 + r) * np.exp(-r)

    told, values = [], []
    for t in range(1, 26):
        x = policy.ask()
        index = np.full(len(X), 1.5)
        if told:
            cross = matern(X, told)
            K = matern(told, told) + 0.01 * np.eye(len(told))
            variance = 1.0 - np.einsum("ij,ji->i", cross, np.linalg.solve(K, cross.T))
            index = cross @ np.linalg.solve(K, values) + 1.5 * np.sqrt(variance)
        assert index[SPACE.index(x[None])[0]] == pytest.approx(index.max(), abs=1e-8)
        told.append(x)
        values.append(world.observe(x, t))
        policy.tell(x, values[-1])


def test_policy_is_plain_data_and_goes_on(examples):
    """From its specification and state, to the last bit."""
    world = examples["Ripples"](SPACE, 0.3, sb.GaussianNoise(0.1), 5)
    policy = examples["ConstantUCB"](SPACE, sb.RBF(0.5), **KNOWN)
    sb.simulate(policy, world, 10)
    assert policy.to_dict()["kappa"] == 2.0
    again = type(policy)(**policy.parameters())
    again.restore(policy.state())
    one, other = sb.simulate(policy, world, 10), sb.simulate(again, world, 10)
    assert np.array_equal(one.candidate, other.candidate)
    with pytest.raises(ValueError, match="kappa"):
        examples["ConstantUCB"](SPACE, sb.RBF(0.5), kappa=-1.0, **KNOWN)


def test_kernel(examples):
    """Its formula, and its derivative by differences."""
    kernel, rng = examples["Cauchy"](0.5), np.random.default_rng(0)
    X, Z = rng.random((4, 2)), rng.random((3, 2))
    r = np.linalg.norm(X[:, None] - Z[None], axis=2) / 0.5
    assert np.allclose(kernel.block(X, Z), 1.0 / (1.0 + r**2), atol=1e-14)
    found = np.zeros((1, 2))  # in the second point
    kernel.slope(X, Z[:1], np.ones((4, 1)), found)
    assert check_grad(lambda z: kernel.block(X, z[None]).sum(), lambda z: found[0], Z[0]) < 1e-5


def test_environment_and_study(examples):
    """The environment is made again from its parameters; the study has learned."""
    world = examples["Ripples"](SPACE, 0.3, sb.GaussianNoise(0.1), 5)
    again = type(world)(**world.parameters())
    assert np.array_equal(again.table(), world.table())
    assert again.observe([0.0, 0.0], 3) == world.observe([0.0, 0.0], 3)
    assert world.optimum() == pytest.approx(1.0)
    result = examples["result"]
    late = result["regret"].isel(round=slice(-10, None)).mean(("case", "replicate", "round"))
    assert (late < 0.2 * result["uniform_regret"].mean()).all()
