"""Policies on spaces of named parameters speak settings, and see their coordinates."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from naive import kernels as naive

import scalable_bandits as sb

SPACE = sb.SearchSpace(
    {
        "rate": sb.Real(1e-4, 1e-1, log=True),
        "depth": sb.Integer(1, 12),
        "batch": sb.Ordinal([16, 32, 64]),
        "features": sb.Categorical(["sqrt", "log2", None]),
        "drop": sb.Boolean(),
        "share": sb.Real(0.0, 0.5, when={"drop": True}),
    }
)
KERNEL = sb.Matern(0.5, nu=2.5)
NUMBERS = {"noise": 0.1, "regularization": 0.01}
POLICIES = {
    "random": lambda space: sb.RandomSearch(space, seed=3),
    "ei": lambda space: sb.GPEI(space, KERNEL, **NUMBERS),
    "ei of candidates": lambda space: sb.GPEI(space, KERNEL, candidates=100, **NUMBERS),
    "learned": lambda space: sb.GPEI(space, 1.0 * KERNEL, refit=4, **NUMBERS),
    "ucb": lambda space: sb.GPUCB(space, KERNEL, scale=5, **NUMBERS),
    "greedy": lambda space: sb.IGPUCB(space, KERNEL, information_gain="greedy", **NUMBERS),
    "thompson": lambda space: sb.GPTS(space, KERNEL, features=64, **NUMBERS),
    "window": lambda space: sb.SWGPUCB(space, KERNEL, memory=5, **NUMBERS),
    "restarts": lambda space: sb.RGPUCB(space, KERNEL, memory=5, **NUMBERS),
    "tiled": lambda space: sb.IGPUCB(space, KERNEL, candidates=200, engine="tiled", **NUMBERS),
    "sketched": lambda space: sb.BKB(space, KERNEL, **NUMBERS),
    "priors": lambda space: sb.PEGPUCB(space, [sb.Prior("a", KERNEL), sb.Prior("b", sb.RBF(1.0))], **NUMBERS),
    "stages": lambda space: sb.SupKernelUCB(space, KERNEL, horizon=50, **NUMBERS),
    "batches": lambda space: sb.PhasedElimination(space, KERNEL, horizon=50, **NUMBERS),
    "mean": lambda space: sb.MeanOnly(space, KERNEL, **NUMBERS),
}


def value(setting):
    share = (setting["share"] - 0.2) ** 2 if setting["drop"] else 0.1
    return -((np.log10(setting["rate"]) + 2.0) ** 2) - abs(setting["depth"] - 7) / 5 - share


def played(name, rounds=8, space=SPACE):
    policy = POLICIES[name](space)
    settings = []
    for _ in range(rounds):
        settings.append(policy.ask())
        policy.tell(settings[-1], value(settings[-1]))
    return policy, settings


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.sampled(5)
def test_policies_ask_for_settings_and_are_told_them(name):
    policy, settings = played(name)
    for setting in settings:
        assert SPACE.setting(SPACE.check(setting)[0]) == setting
    batch = policy.ask(3)
    assert isinstance(batch, list)
    assert policy.pending == batch
    policy.abandon(batch[1])
    assert len(policy.pending) == 2
    policy.tell(batch[::-2], [0.0, 1.0])
    assert policy.pending == []
    assert set(policy.best().x) <= set(SPACE.names)
    mean, std = policy.posterior(settings)
    single = [policy.posterior(setting) for setting in settings]
    np.testing.assert_allclose(np.array(single), np.column_stack([mean, std]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.sampled(5)
def test_settings_that_a_policy_did_not_ask_for(name):
    policy = POLICIES[name](SPACE)
    own = {"rate": 0.02, "depth": 7, "batch": 32, "features": None, "drop": False}
    policy.tell([own, own], [1.0, 2.0])
    assert policy.rounds == 2
    assert policy.best().x == own
    with pytest.raises(ValueError, match=r"x\['depth'\]: got 13"):
        policy.tell({**own, "depth": 13}, 1.0)
    assert policy.rounds == 2


@pytest.mark.parametrize("name", ["ei", "ei of candidates", "tiled", "priors"])
@pytest.mark.sampled(4)
def test_the_posterior_is_that_of_the_coordinates(name):
    """Against the formulas (Rasmussen & Williams 2006, eqs. 2.25 and 2.26)."""
    policy, settings = played(name, 10)
    x, y = SPACE.encode(SPACE.check(settings)), np.array([value(setting) for setting in settings])
    new = SPACE.draw(20, np.random.default_rng(5))
    z = SPACE.encode(new)
    of_numbers = naive.rbf(1.0) if name == "priors" else naive.matern52(0.5)
    kernel = naive.product(
        naive.on_dimensions(of_numbers, (0, 1, 2, 4, 5, 6)), naive.on_dimensions(naive.hamming(1.0), (3,))
    )
    noisy = naive.matrix(kernel, x) + 0.01 * np.eye(len(x))
    cross = naive.matrix(kernel, z, x)
    expected = cross @ np.linalg.solve(noisy, y)
    variance = 1.0 - np.einsum("ij,ji->i", cross, np.linalg.solve(noisy, cross.T))
    given = {"prior": "b"} if name == "priors" else {}
    mean, std = policy.posterior([SPACE.setting(point) for point in new], **given)
    np.testing.assert_allclose(mean, expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-5, atol=1e-6)


def enumerated(space):
    """All settings of a space without conditions."""
    lists = [[kind.value(n) for n in range(kind.count)] for kind in space.kinds]
    return [dict(zip(space.names, values, strict=True)) for values in itertools.product(*lists)]


@pytest.mark.parametrize("name", ["ei", "ucb"])
@pytest.mark.sampled(2)
def test_the_index_is_maximised_over_all_settings(name):
    """Of 10,368 settings, five times as many as are looked at in the first place."""
    space = sb.SearchSpace(
        {
            "a": sb.Ordinal(range(12)), "b": sb.Ordinal(range(12)), "c": sb.Categorical(["u", "v", 1]),
            "d": sb.Ordinal(range(12)), "e": sb.Boolean(),
        }
    )  # fmt: skip
    policy = POLICIES[name](space)
    every = enumerated(space)
    coordinates = space.encode(space.check(every))
    rng, reached = np.random.default_rng(0), 0
    for setting in rng.choice(every, 6, replace=False):
        policy.tell(setting, float(rng.normal()))
    for _ in range(12):
        index = policy.acquisition(None)
        values = index(*policy.model.predict(coordinates))
        setting = policy.ask()
        chosen = float(index(*policy.model.predict(space.encode(space.check(setting))))[0])
        reached += chosen >= values.max() - 1e-9 * max(1.0, abs(values.max()))
        policy.tell(setting, float(rng.normal()))
    assert reached >= 11


def test_continuous_parameters_are_climbed():
    """No random setting comes near the maximum that L-BFGS-B finds from it."""
    policy, _ = played("ei", 12)
    index, setting = policy.acquisition(None), policy.ask()
    chosen = float(index(*policy.model.predict(SPACE.encode(SPACE.check(setting))))[0])
    drawn = SPACE.encode(SPACE.draw(20_000, np.random.default_rng(1)))
    assert chosen >= index(*policy.model.predict(drawn)).max()


@pytest.mark.parametrize("name", ["random", "ei", "ei of candidates", "thompson"])
@pytest.mark.sampled(4)
def test_constraints_hold(name):
    space = sb.SearchSpace(
        {"a": sb.Integer(0, 20), "b": sb.Real(0, 20), "drop": sb.Boolean()},
        where=lambda setting: setting["a"] + setting["b"] < 15,
    )
    policy = POLICIES[name](space)
    for _ in range(10):
        setting = policy.ask()
        assert setting["a"] + setting["b"] < 15
        policy.tell(setting, setting["a"] + setting["b"])


def test_a_slow_constraint_is_asked_of_few_settings():
    """Of some by their index, until enough are allowed, and of none twice: the best ones are beyond the constraint."""
    asked = []

    def where(setting):
        asked.append(tuple(setting.values()))
        return setting["a"] + setting["b"] < 15

    space = sb.SearchSpace({"a": sb.Integer(0, 20), "b": sb.Real(0, 20), "drop": sb.Boolean()}, where=where)
    policy = sb.GPEI(space)
    for _ in range(13):
        setting = policy.ask()
        policy.tell(setting, float(setting["a"] * setting["b"]))
    assert len(asked) == len(set(asked))
    assert len(asked) < 1500  # in three searches, each of which looks at more than two thousand settings


@pytest.mark.parametrize("name", ["ei", "thompson"])
def test_a_box_by_names_is_searched_as_a_box(name):
    names = sb.SearchSpace({"a": sb.Real(0, 1), "b": sb.Real(0, 1)})
    box = sb.Box([[0, 1], [0, 1]])
    by_name, by_point = POLICIES[name](names), POLICIES[name](box)
    for t in range(8):
        setting, point = by_name.ask(), by_point.ask()
        np.testing.assert_allclose(list(setting.values()), point, atol=1e-6)
        y = float(np.sin(5 * point[0]) + point[1] ** 2 + t % 2)
        by_name.tell({"a": point[0], "b": point[1]}, y)
        by_point.tell(point, y)
        by_name.abandon()


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "stages"])
@pytest.mark.sampled(7)
def test_copies_and_states(name):
    policy, _ = played(name)
    restored = POLICIES[name](SPACE)
    restored._introduce(np.arange(policy.domain.size), policy.domain.points())
    restored.restore(copy.deepcopy(policy.state()))
    same = [restored.ask(), pickle.loads(pickle.dumps(policy)).ask(), copy.deepcopy(policy).ask(), policy.ask()]
    assert all(setting == same[0] for setting in same)


@pytest.mark.parametrize(
    "space",
    [
        sb.SearchSpace({f"x{i}": sb.Boolean() for i in range(25)}),
        sb.SearchSpace({f"x{i}": sb.Integer(1, 20) for i in range(10)}),
    ],
    ids=["binary", "levels"],
)
def test_many_settings(space):
    policy = sb.GPEI(space, sb.Matern(1.0, nu=2.5), **NUMBERS)
    drawn = space.draw(100, np.random.default_rng(2))
    values = space.encode(drawn).sum(axis=1)
    policy.tell([space.setting(point) for point in drawn], values - values.mean())
    index, setting = policy.acquisition(None), policy.ask()
    chosen = float(index(*policy.model.predict(space.encode(space.check(setting))))[0])
    others = space.encode(space.draw(20_000, np.random.default_rng(3)))
    assert chosen > index(*policy.model.predict(others)).max()


def test_a_kernel_that_names_its_dimensions_is_used_as_given():
    own = sb.OnDimensions(sb.Matern(0.5), [0, 1]) * sb.OnDimensions(sb.Hamming(3.0), [3])
    assert sb.GPEI(SPACE, own).present_kernel == own
    with pytest.raises(ValueError, match=r"^dimensions: got \[7\]; allowed: dimensions from 0 to 6"):
        sb.GPEI(SPACE, sb.OnDimensions(sb.Matern(0.5), [7]))


def test_lengthscales_of_categories_are_learned():
    """A parameter that does not matter is alike in all its categories, one that does is not."""
    space = sb.SearchSpace({"matters": sb.Categorical(list("abcd")), "idle": sb.Categorical(list("abcd"))})
    policy = sb.GPEI(space, 1.0 * sb.Matern(0.5), noise=0.1, regularization=1e-3, refit=16)
    worth = dict(zip("abcd", (0.0, 3.0, -2.0, 1.0), strict=True))
    for a, b in itertools.product("abcd", "abcd"):
        policy.tell({"matters": a, "idle": b}, worth[a])
    matters, idle = (p.value for p in policy.present_kernel.hyperparameters if p.name == "lengthscale")
    assert idle > 10 * matters
    assert policy.present_kernel.factor > 1.2, "the output scale is learned too"


@pytest.mark.parametrize("name", POLICIES)
def test_a_space_of_one_setting(name):
    space = sb.SearchSpace({"a": ["x"], "b": sb.Integer(3, 3)})
    policy = POLICIES[name](space)
    for y in (1.0, 2.0):
        assert policy.ask() == {"a": "x", "b": 3}
        policy.tell({"a": "x", "b": 3}, y)
    assert policy.best().x == {"a": "x", "b": 3}


def test_what_named_spaces_are_refused_for():
    with pytest.raises(ValueError, match=r"^space: got 'SearchSpace'; allowed: a Grid, Points or a Box: cells"):
        sb.PiGPUCB(SPACE, sb.Matern(0.3, nu=1.5))
    with pytest.raises(ValueError, match=r"^prior_mean: got .*; allowed: a number on a space of named parameters"):
        sb.GPEI(SPACE, KERNEL, prior_mean=lambda x: x[:, 0])
    with pytest.raises(ValueError, match=r"^kernel: .*|^lengthscale: .*"):
        sb.GPEI(SPACE, sb.Matern([0.3, 0.3], nu=1.5))
    with pytest.raises(ValueError, match=r"^available: got \[1\]; allowed: None"):
        sb.GPEI(SPACE, KERNEL).ask(available=[1])
    with pytest.raises(ValueError, match=r"^context: got"):
        sb.GPEI(SPACE, KERNEL).ask(context={0: 1.0})
