"""Finite spaces of named, typed parameters."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scalable_bandits as sb

VALUES = {"width": [16, 32, 64], "dropout": [0.0, 0.3], "activation": ["relu", "tanh", "elu"], "only": ["one"]}
ALL = sb.Settings(VALUES)
CONDITIONAL = sb.SearchSpace(
    {
        "kernel": sb.Categorical(["linear", "poly", "rbf"]),
        "degree": sb.Integer(2, 4, when={"kernel": "poly"}),
        "shrink": sb.Boolean(),
    },
    where=lambda setting: not (setting["kernel"] == "rbf" and setting["shrink"]),
)
ROWS = [{"rate": 0.1, "kind": "b"}, {"rate": 0.5, "kind": "a"}, {"rate": 0.1, "kind": "b"}]
LISTED = sb.Settings({"rate": sb.Real(0.01, 1.0, log=True), "kind": sb.Categorical(["a", "b", "c"])}, ROWS)


def test_all_combinations_in_order():
    expected = [dict(zip(VALUES, each, strict=True)) for each in itertools.product(*VALUES.values())]
    assert ALL.size == len(expected) == 18
    assert [ALL.value(i) for i in range(18)] == expected
    np.testing.assert_array_equal(ALL.index(expected), np.arange(18))


def test_combinations_that_exist_and_are_allowed():
    """Counted by hand: linear twice, poly three times two, rbf without shrinking."""
    found = sb.Settings(CONDITIONAL)
    assert found.size == 2 + 6 + 1
    settings = [found.value(i) for i in range(9)]
    assert len({tuple(setting.items()) for setting in settings}) == 9
    assert all(("degree" in setting) == (setting["kernel"] == "poly") for setting in settings)
    assert {"kernel": "rbf", "shrink": False} in settings
    assert {"kernel": "rbf", "shrink": True} not in settings


def test_listed_settings():
    assert LISTED.size == 3
    assert [LISTED.value(i) for i in range(3)] == ROWS
    assert not LISTED.distinct
    assert LISTED.canonical(2) == 0
    assert LISTED.equal_to(0).tolist() == [0, 2]
    np.testing.assert_array_equal(LISTED.index([ROWS[1], ROWS[2]]), [1, 0])
    np.testing.assert_allclose(LISTED.encode(LISTED.points())[:, 0], [0.5, np.log10(50) / 2, 0.5])
    assert LISTED.unordered == (1,)
    assert LISTED.names == ("rate", "kind")


@given(st.integers(0, 17))
def test_index_leads_back(number):
    assert ALL.index(ALL.value(number)).tolist() == [number]
    assert ALL.index(ALL.points([number])).tolist() == [number]


@pytest.mark.parametrize("space", [ALL, LISTED], ids=str)
def test_copies(space):
    for copy in (pickle.loads(pickle.dumps(space)), sb.Settings.from_dict(space.to_dict())):
        assert copy == space
        assert hash(copy) == hash(space)
        np.testing.assert_array_equal(copy.points(), space.points())
        assert not copy.points().flags.writeable


def test_matching_by_name():
    mask = ALL.matching({"width": 32, "activation": "tanh"})
    assert [ALL.value(i) for i in np.flatnonzero(mask)] == [
        {"width": 32, "dropout": each, "activation": "tanh", "only": "one"} for each in VALUES["dropout"]
    ]
    found = sb.Settings(CONDITIONAL)
    assert found.matching({"degree": 2}).sum() == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sb.Settings({"rate": sb.Real(0.0, 1.0)}), "^settings: got 'none, and a continuous parameter'"),
        (lambda: sb.Settings({f"x{i}": list(range(10)) for i in range(8)}), "^settings: got .*100,000,000 comb"),
        (lambda: sb.Settings(VALUES, []), r"^settings: got \[\]"),
        (lambda: sb.Settings(VALUES, {"width": 16}), "^settings: got"),
        (lambda: sb.Settings(VALUES, [{"width": 16}]), "^x: got .a setting without 'dropout'"),
        (lambda: sb.Settings(sb.Box([[0, 1]])), "^parameters: got Box"),
        (lambda: ALL.index({**ALL.value(0), "width": 17}), "^x.'width'.: got 17"),
        (lambda: LISTED.index({"rate": 0.2, "kind": "a"}), "^x: got .*; allowed: one of the 3 settings of the space"),
        (lambda: ALL.matching({"height": 2}), "^context: got 'height'"),
        (lambda: ALL.matching({}), "^context: got {}"),
        (lambda: LISTED.matching({"rate": 0.5, "kind": "b"}), "^context: got {'rate': 0.5, 'kind': 'b'}"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("kind", ["GPEI", "GPUCB", "IGPUCB", "GPTS", "RandomSearch", "MeanOnly", "MiniGPUCB"])
def test_policies_play_on_settings(kind):
    """x is a dict; the trajectory is that on the same coordinates as points, with the kernel of categories."""
    space = sb.Settings(VALUES)
    settings = {"kernel": sb.Matern(0.5, nu=2.5), "noise": 0.1, "seed": 3}
    extra = {"rkhs_norm": 1.0} if kind in ("IGPUCB", "GPTS", "MiniGPUCB") else {"theorem": 1} if kind == "GPUCB" else {}
    policy = getattr(sb, kind)(space, **settings, **extra)
    ordered, words = sb.OnDimensions(sb.Matern(0.5, nu=2.5), [0, 1]), sb.OnDimensions(sb.Hamming([1.0]), [2])
    points = sb.Points(space.encode(space.points()))
    same = getattr(sb, kind)(points, **{**settings, "kernel": ordered * words}, **extra)
    values = np.sin(np.arange(18.0))
    for _ in range(15):
        x, z = policy.ask(), same.ask()
        assert space.index(x)[0] == points.index(z)[0]
        y = float(values[space.index(x)[0]])
        policy.tell(x, y)
        same.tell(z, y)
    assert policy.best().x in [space.value(i) for i in range(18)]
    mean, std = policy.posterior(space.value(3))
    np.testing.assert_allclose([mean, std], same.posterior(points.value(3)), rtol=1e-9)


def test_maximized_over_rows():
    found = sb.maximize(lambda setting: -abs(setting["width"] - 32) - setting["dropout"], ALL, 12, seed=1)
    assert found.measured.x["width"] == 32
    assert found.measured.x["dropout"] == 0.0
    assert list(found.table().columns[:4]) == list(VALUES)
