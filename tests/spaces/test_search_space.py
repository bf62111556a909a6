"""Spaces of named, typed parameters."""

import json
import pickle

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import scalable_bandits as sb

SPACE = sb.SearchSpace(
    {
        "rate": sb.Real(1e-4, 1e-1, log=True),
        "depth": sb.Integer(1, 12),
        "width": sb.Integer(8, 4096, log=True),
        "batch": sb.Ordinal([16, 32, 64, 128]),
        "features": sb.Categorical(["sqrt", "log2", None]),
        "bootstrap": sb.Boolean(),
        "fixed": sb.Categorical(["only"]),
        "booster": sb.Categorical(["tree", "dart", "linear"]),
        "eta": sb.Real(0.0, 1.0, when={"booster": ["tree", "dart"]}),
        "drop": sb.Ordinal([0.1, 0.2], when={"booster": "dart", "bootstrap": True}),
        "late": sb.Integer(0, 3, when={"drop": 0.2}),
    }
)
SEEDS = st.integers(0, 2**32)


def points(seed, count=20):
    return SPACE.draw(count, np.random.default_rng(seed))


def exists(name, setting):
    """Return whether a parameter exists in a setting, from the definition alone."""
    tree = setting["booster"] in ("tree", "dart")
    drop = setting["booster"] == "dart" and setting["bootstrap"]
    return {"eta": tree, "drop": drop, "late": drop and setting.get("drop") == 0.2}.get(name, True)


def test_the_three_forms_of_a_setting():
    """The picture at the head of `spaces/named.py`."""
    model = sb.Categorical(["linear", "net", "tree"])
    depth = sb.Integer(1, 12, when={"model": "net"})
    space = sb.SearchSpace({"rate": sb.Real(1e-4, 1e-1, log=True), "model": model, "depth": depth})
    setting = {"rate": 0.01, "model": "tree"}
    point = space.check(setting)
    assert point.tolist() == [[0.01, 2.0, 1.0]]
    assert space.setting(point[0]) == setting
    coordinates = space.encode(point)
    np.testing.assert_allclose(coordinates, [[2 / 3, 2.0, 0.5, 0.0]])
    np.testing.assert_allclose(space.decode(coordinates), point)
    for settings in (setting, [setting]):
        np.testing.assert_array_equal(space.encode(settings), coordinates)


@given(SEEDS)
def test_settings_and_points_say_the_same(seed):
    drawn = points(seed)
    settings = [SPACE.setting(point) for point in drawn]
    found, single = SPACE.parse(settings)
    np.testing.assert_array_equal(found, drawn)
    assert not single
    one, single = SPACE.parse(settings[0])
    np.testing.assert_array_equal(one, drawn[:1])
    assert single
    np.testing.assert_array_equal(SPACE.parse(drawn)[0], drawn)


@given(SEEDS)
def test_a_setting_has_the_parameters_that_exist_in_it(seed):
    for point in points(seed):
        setting = SPACE.setting(point)
        assert list(setting) == [name for name in SPACE.names if exists(name, setting)]


@given(SEEDS)
def test_values_have_the_users_types_and_units(seed):
    for point in points(seed):
        setting = SPACE.setting(point)
        assert type(setting["rate"]) is float
        assert 1e-4 <= setting["rate"] <= 1e-1
        assert type(setting["depth"]) is int
        assert setting["depth"] in range(1, 13)
        assert setting["batch"] in (16, 32, 64, 128)
        assert setting["features"] in ("sqrt", "log2", None)
        assert setting["bootstrap"] in (True, False)
        assert setting["fixed"] == "only"


@given(SEEDS)
def test_coordinates_lead_back(seed):
    drawn = points(seed)
    back = SPACE.decode(SPACE.encode(drawn))
    real = [0, 8]
    np.testing.assert_array_equal(np.delete(back, real, axis=1), np.delete(drawn, real, axis=1))
    np.testing.assert_allclose(back[:, real], drawn[:, real], rtol=1e-12)


@given(SEEDS)
def test_coordinates(seed):
    """Eight parameters with several values, and three with a condition (one of them binary, one with three values)."""
    drawn = points(seed)
    coordinates = SPACE.encode(drawn)
    assert coordinates.shape == (20, 13)
    ordered = SPACE.coordinates.ordered
    assert ordered.sum() == 11
    assert coordinates[:, ordered].min() >= 0.0
    assert coordinates[:, ordered].max() <= 1.0
    for point, coordinate in zip(drawn, coordinates, strict=True):
        setting = SPACE.setting(point)
        assert coordinate[0] == pytest.approx(np.log(setting["rate"] / 1e-4) / np.log(1e3), abs=1e-12)
        assert coordinate[1] == pytest.approx((setting["depth"] - 1) / 11)
        assert coordinate[3] == [16, 32, 64, 128].index(setting["batch"]) / 3
        assert coordinate[4] == ["sqrt", "log2", None].index(setting["features"])
        assert coordinate[7] == setting.get("eta", 0.5)
        assert coordinate[-3:].tolist() == [name in setting for name in ("eta", "drop", "late")]


@given(st.floats(0, 1), st.sampled_from([sb.Integer(1, 12), sb.Integer(3, 900, log=True), sb.Ordinal([3, 1, 2])]))
def test_the_nearest_allowed_value(u, parameter):
    numbers = np.array([parameter.number("", parameter.value(v)) for v in _all_numbers(parameter)])
    distance = np.abs(parameter.encode(numbers) - u)
    found = parameter.encode(parameter.decode(np.array([u])))
    assert abs(found[0] - u) <= distance.min() + 1e-12


def _all_numbers(parameter):
    low = parameter.low if isinstance(parameter, sb.Integer) else 0
    return np.arange(low, low + parameter.count, dtype=float)


@pytest.mark.parametrize("parameter", [sb.Integer(1, 5), sb.Ordinal(list("abcde")), sb.Categorical(range(5))])
def test_random_values_are_equally_frequent(parameter):
    spread = parameter.spread(np.linspace(0, 1, 1000, endpoint=False))
    assert np.unique(spread, return_counts=True)[1].tolist() == [200] * 5


@pytest.mark.parametrize(
    "parameter",
    [
        sb.Integer(1, 12),
        sb.Integer(1, 20, log=True),
        sb.Integer(-3, 3),
        sb.Ordinal(range(7)),
        sb.Categorical(["u", "v", None]),
        sb.Boolean(),
    ],
)
def test_values_of_a_short_list_are_all_neighbours(parameter):
    numbers = _all_numbers(parameter)
    for number in numbers:
        found = parameter.neighbours(number, np.random.default_rng(0))
        assert found.tolist() == [other for other in numbers if other != number]


@pytest.mark.parametrize("parameter", [sb.Real(1e-3, 1, log=True), sb.Integer(1, 10**6, log=True), sb.Integer(0, 999)])
def test_neighbours_in_a_long_range(parameter):
    """Near and far ones, and of an integer the next ones; all of them allowed."""
    for number in parameter.spread(np.linspace(0, 1, 9, endpoint=False)):
        found = parameter.neighbours(number, np.random.default_rng(1))
        assert number not in found
        assert [parameter.number("x", parameter.value(each)) for each in found] == found.tolist()
        distances = np.abs(parameter.encode(found) - parameter.encode(np.array([number])))
        if isinstance(parameter, sb.Integer):
            assert {number - 1, number + 1} & set(range(parameter.low, parameter.high + 1)) <= set(found)
        else:
            assert distances.min() < 0.02
        assert distances.max() > 0.09


def test_the_ends_are_allowed_values():
    for parameter in (sb.Real(0.1, 0.7), sb.Real(1e-3, 0.7, log=True), sb.Integer(7, 63, log=True)):
        assert parameter.decode(np.array([0.0, 1.0])).tolist() == [parameter.low, parameter.high]
        assert parameter.encode(np.array([parameter.low, parameter.high])).tolist() == [0.0, 1.0]


@pytest.mark.slow
def test_known_constraints():
    space = sb.SearchSpace(
        {"a": sb.Integer(0, 9), "b": sb.Integer(0, 9)}, where=lambda setting: setting["a"] + setting["b"] < 6
    )
    drawn = space.draw(200, np.random.default_rng(0))
    assert (drawn.sum(axis=1) < 6).all()
    assert len(np.unique(drawn, axis=0)) == 21
    with pytest.raises(ValueError, match=r"x: got \{'a': 9, 'b': 0\}; allowed: a setting for which `where` is true"):
        space.check({"a": 9, "b": 0})
    never = sb.SearchSpace({"a": sb.Real(0, 1)}, where=lambda setting: False)
    with pytest.raises(ValueError, match=r"where: got .*; allowed: a condition that more .*: 0 of 204,800 did"):
        never.draw(10, np.random.default_rng(0))
    text = sb.SearchSpace({"a": sb.Real(0, 1)}, where=lambda setting: "yes")
    with pytest.raises(ValueError, match=r"result of where: got 'yes'; allowed: True or False"):
        text.check({"a": 0.5})


@pytest.mark.slow
def test_constraints_that_few_settings_fulfil():
    """A tenth of a thousandth is enough, also where the search for the next setting draws thousands."""
    rare = sb.SearchSpace(
        {name: sb.Real(0, 1) for name in "abcd"}, where=lambda s: s["a"] < 0.1 * s["b"] < 0.01 * s["c"]
    )
    for policy in (sb.GPEI(rare), sb.RandomSearch(rare)):
        for _ in range(12):
            setting = policy.ask()
            assert rare.where(setting)
            policy.tell(setting, setting["d"])
    assert 0 < len(rare.draw(2048, np.random.default_rng(0), least=1)) < 2048
    binary = sb.SearchSpace({"a": sb.Real(0, 1)}, where=lambda s: s["a"] < 1e-9)
    assert len(binary.draw(16, np.random.default_rng(0), least=0)) == 0


def test_an_error_in_a_constraint_names_the_setting():
    space = sb.SearchSpace({"a": [1, 2], "b": sb.Boolean(when={"a": 2})}, where=lambda setting: setting["b"])
    with pytest.raises(
        ValueError, match=r"where: it raised KeyError\('b'\) for \{'a': 1\}; parameters that do not exist"
    ):
        space.check({"a": 1})


def test_nothing_is_enumerated():
    binary = sb.SearchSpace({f"x{i}": sb.Boolean() for i in range(25)})
    assert binary.size == 2**25
    levels = sb.SearchSpace({f"x{i}": sb.Integer(1, 20) for i in range(10)})
    assert levels.size == 20**10
    assert levels.draw(5, np.random.default_rng(0)).shape == (5, 10)
    assert SPACE.size is None


# ---- written and read


def test_plain_data():
    assert sb.SearchSpace.from_dict(SPACE.to_dict()) == SPACE
    assert sb.SearchSpace.from_dict(json.loads(json.dumps(SPACE.to_dict()))) == SPACE
    assert pickle.loads(pickle.dumps(SPACE)) == SPACE
    assert hash(pickle.loads(pickle.dumps(SPACE))) == hash(SPACE)
    short = sb.SearchSpace({"a": {"type": "real", "low": 0, "high": 1}, "b": [1, 2, 4], "c": ["x", "y"]})
    assert short == sb.SearchSpace({"a": sb.Real(0, 1), "b": sb.Ordinal([1, 2, 4]), "c": sb.Categorical(["x", "y"])})


def test_names_may_be_any_words():
    """Also those that mean something in the dicts of specifications."""
    space = sb.SearchSpace(
        {
            "type": ["a", None], "function": sb.Real(0, 1, when={"type": "a"}), "where": sb.Integer(1, 3),
            "array": sb.Boolean(when={"where": [1, 2], "type": None}), "parameters": [0.1, 0.2],
        }
    )  # fmt: skip
    assert sb.SearchSpace.from_dict(json.loads(json.dumps(space.to_dict()))) == space


def test_toml_of_a_condition_that_is_none(tmp_path):
    space = sb.SearchSpace({"c": ["a", None], "x": sb.Real(0, 1, when={"c": None}), "é": sb.Boolean()})
    space.to_toml(tmp_path / "space.toml")
    assert sb.SearchSpace.from_toml(tmp_path / "space.toml") == space
    assert "é" in (tmp_path / "space.toml").read_text(encoding="utf-8")


def test_toml(tmp_path):
    assert SPACE.to_toml(tmp_path / "space.toml") == (tmp_path / "space.toml").read_text()
    assert sb.SearchSpace.from_toml(tmp_path / "space.toml") == SPACE
    tables = {
        "low = 0\nhigh = 9": "integer",
        "low = 0.0\nhigh = 9": "real",
        "values = [1, 2]": "categorical",
        "": "real",
    }
    for lines, meant in tables.items():
        (tmp_path / "untyped.toml").write_text(f"[x]\n{lines}\n")
        with pytest.raises(ValueError, match=f'untyped.toml: parameter .x.: got .*such as type = "{meant}"'):
            sb.SearchSpace.from_toml(tmp_path / "untyped.toml")
    (tmp_path / "broken.toml").write_text("[a\n")
    with pytest.raises(ValueError, match=r"broken\.toml: .*line 1"):
        sb.SearchSpace.from_toml(tmp_path / "broken.toml")
    (tmp_path / "key.toml").write_text('[rate]\ntype = "real"\nlow = 0\nhigh = 1\nlogarithmic = true\n')
    with pytest.raises(
        ValueError, match=r"parameter 'rate': key of Real: got 'logarithmic'; allowed: known: high, log, low, when"
    ):
        sb.SearchSpace.from_toml(tmp_path / "key.toml")
    with pytest.raises(ValueError, match=r"where: got .*; allowed: None: functions cannot be written"):
        sb.SearchSpace({"a": sb.Real(0, 1)}, where=lambda setting: True).to_toml()
    with pytest.raises(ValueError, match=r"to_toml: .*complex"):
        sb.SearchSpace({"a": sb.Categorical([1j, 2j])}).to_toml()


def test_distributions_of_optuna():
    distributions = pytest.importorskip("optuna.distributions")
    space = sb.SearchSpace(
        {
            "real": distributions.FloatDistribution(0.1, 2),
            "log": distributions.FloatDistribution(0.1, 2, log=True),
            "step": distributions.FloatDistribution(0, 1, step=0.25),
            "whole": distributions.IntDistribution(1, 9),
            "even": distributions.IntDistribution(2, 8, step=2),
            "one": distributions.IntDistribution(3, 3),
            "choice": distributions.CategoricalDistribution([1, None, "a"]),
        }
    )
    assert space == sb.SearchSpace(
        {
            "real": sb.Real(0.1, 2),
            "log": sb.Real(0.1, 2, log=True),
            "step": sb.Ordinal([0.0, 0.25, 0.5, 0.75, 1.0]),
            "whole": sb.Integer(1, 9),
            "even": sb.Ordinal([2, 4, 6, 8]),
            "one": sb.Ordinal([3]),
            "choice": sb.Categorical([1, None, "a"]),
        }
    )


def test_configuration_spaces():
    cs = pytest.importorskip("ConfigSpace")
    given = cs.ConfigurationSpace({"a": (0.1, 1.0), "b": ["x", "y", "z"], "c": (1, 10)})
    given.add(cs.Integer("n", (1, 100), log=True), cs.OrdinalHyperparameter("o", [1, 2, 3]), cs.Constant("k", 3))
    given.add(cs.EqualsCondition(given["a"], given["b"], "x"))
    both = cs.InCondition(given["c"], given["b"], ["x", "y"]), cs.EqualsCondition(given["c"], given["o"], 2)
    given.add(cs.AndConjunction(*both))
    forbidden = cs.ForbiddenEqualsClause(given["b"], "x"), cs.ForbiddenEqualsClause(given["a"], 0.5)
    given.add(cs.ForbiddenAndConjunction(*forbidden))
    space = sb.SearchSpace.from_configspace(given)
    assert dict(zip(space.names, space.kinds, strict=True)) == {
        "a": sb.Real(0.1, 1.0, when={"b": "x"}),
        "b": sb.Categorical(["x", "y", "z"]),
        "c": sb.Integer(1, 10, when={"b": ["x", "y"], "o": 2}),
        "n": sb.Integer(1, 100, log=True),
        "o": sb.Ordinal([1, 2, 3]),
        "k": sb.Categorical([3]),
    }
    assert space.where({"b": "x", "a": 0.6})
    assert not space.where({"b": "x", "a": 0.5})
    assert space.where({"b": "y"})


# ---- what is refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sb.SearchSpace({}), r"^parameters: got \{\}; allowed: a dict of names and parameters"),
        (lambda: sb.SearchSpace([1]), r"^parameters: got \[1\]; allowed: a dict"),
        (lambda: sb.SearchSpace({1: sb.Boolean()}), "^parameters: got 1; allowed: names that are strings"),
        (lambda: sb.SearchSpace({"a": 1}), "^parameter 'a': got 1; allowed: a Real, Integer"),
        (lambda: sb.SearchSpace({"a": {"type": "reel"}}), "^parameter 'a': type: got 'reel'; .*did you mean 'real'"),
        (lambda: sb.SearchSpace({"a": scipy.stats.norm()}), "^parameter 'a': distribution: got 'norm'; allowed: unif"),
        (lambda: sb.SearchSpace({"a": sb.Boolean()}, where=3), "^where: got 3; allowed: a function"),
        (lambda: sb.Real(2, 1), r"^high: got 1\.0; allowed: a number of at least low=2\.0"),
        (lambda: sb.Real(0, 1, log=True), r"^low: got 0\.0; allowed: a positive number with log=True"),
        (lambda: sb.Real(0, np.nan), "^high: got nan; allowed: a finite number"),
        (lambda: sb.Real(-1e308, 1e308), "^high: got 1e[+]308; allowed: a range that does not overflow"),
        (lambda: sb.Real(True, 2), "^low: got True; allowed: a finite number"),
        (lambda: sb.Integer(0, 3, log=True), "^low: got 0; allowed: a positive number with log=True"),
        (lambda: sb.Integer(1.5, 3), r"^low: got 1\.5; allowed: a whole number .*; Real for others"),
        (lambda: sb.Integer(3, 1), "^high: got 1; allowed: a number of at least low=3"),
        (lambda: sb.Integer(0, 2**60), "^high: got 1152921504606846976; allowed: a whole number below"),
        (lambda: sb.Categorical([]), r"^values: got \[\]; allowed: at least one value"),
        (lambda: sb.Categorical("abc"), "^values: got 'abc'; allowed: a list of values"),
        (lambda: sb.Categorical(["a", "b", "a"]), "^values: .*; allowed: distinct values; 'a' is there twice"),
        (lambda: sb.Ordinal([1, 1.0]), r"^values: .*; 1\.0 is there twice"),
        (lambda: sb.Categorical([[1], [2]]), r"^values: got \[1\]; allowed: values that can be compared and hashed"),
        (lambda: sb.Categorical([1, np.nan]), "^values: got nan; allowed: values that can be compared"),
        (lambda: sb.SearchSpace({"a": (0, 1.5)}), r"^parameter 'a': values: .*; allowed: Real\(0, 1\.5\) for a range"),
        (lambda: sb.Categorical({"a", "b"}), "^values: got .*; allowed: a list of values [(]a set or a dict"),
        (lambda: sb.Boolean(when={"b": {"x", "y"}}), "^when, 'b': got .*; allowed: a value or a list of values; a set"),
        (lambda: sb.SearchSpace({"a": {"type": "real", "low": 0}}), "^parameter 'a': high: got 'nothing'; allowed"),
        (lambda: sb.SearchSpace({"a": scipy.stats.uniform(0, 0)}), "^parameter 'a': distribution: got 'uniform from"),
        (lambda: sb.SearchSpace.from_configspace({"a": 1}), r"^space: got \{'a': 1\}; allowed: a ConfigurationSpace"),
        (lambda: sb.Boolean(when="booster"), "^when: got 'booster'; allowed: a dict"),
        (lambda: sb.Boolean(when={}), r"^when: got \{\}; allowed: a dict"),
    ],
)
def test_parameters_that_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_shown_as_written():
    assert repr(sb.Real(1e-4, 0.1, log=True)) == "Real(0.0001, 0.1, log=True)"
    assert repr(sb.Integer(1, 9, when={"a": "b"})) == "Integer(1, 9, when={'a': 'b'})"
    assert repr(sb.Categorical(["a", None])) == "Categorical(['a', None])"
    assert repr(sb.Boolean()) == "Boolean()"
    space = sb.SearchSpace({"rate": sb.Real(0, 1), "depth": sb.Ordinal([1, 2])})
    assert repr(space) == "SearchSpace({'rate': Real(0.0, 1.0), 'depth': Ordinal([1, 2])})"


def test_true_is_not_one():
    space = sb.SearchSpace({"a": sb.Categorical([1, True, 2.5, 0, False])})
    assert space.parse([{"a": True}, {"a": 1}, {"a": 1.0}, {"a": np.bool_(False)}])[0].ravel().tolist() == [1, 0, 0, 4]


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ({"boster": "tree"}, "^when of 'a': got 'boster'; allowed: a parameter of the space; did you mean 'booster'"),
        ({"booster": "treee"}, "^when of 'a', 'booster': got 'treee'; .*; the nearest is 'tree'"),
        ({"rate": 0.5}, "^when of 'a': got 'rate'; allowed: a parameter with a list of values, not a Real"),
        ({"a": True}, r"^when: got \['a'\]; allowed: conditions that do not depend on each other in a circle"),
    ],
)
def test_conditions_that_are_refused(when, message):
    with pytest.raises(ValueError, match=message):
        sb.SearchSpace({"booster": ["tree", "linear"], "rate": sb.Real(0, 1), "a": sb.Boolean(when=when)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": 1}, r"^x\['rate'\]: got 1; allowed: a number from 0\.0001 to 0\.1; the nearest is 0\.1"),
        ({"rate": "0.01"}, r"^x\['rate'\]: got '0\.01'; allowed: a number from"),
        ({"rate": np.nan}, r"^x\['rate'\]: got nan; allowed: a number from"),
        ({"depth": 2.5}, r"^x\['depth'\]: got 2\.5; allowed: a whole number from 1 to 12; the nearest is 2"),
        ({"depth": 13}, r"^x\['depth'\]: got 13; .*; the nearest is 12"),
        ({"batch": 60}, r"^x\['batch'\]: got 60; allowed: one of 16, 32, 64, 128; the nearest is 64"),
        ({"features": "sqr"}, r"^x\['features'\]: got 'sqr'; .*; the nearest is 'sqrt'"),
        ({"features": np.array(["sqrt"])}, r"^x\['features'\]: got array\(.*; allowed: one of 'sqrt'"),
        ({"features": [1]}, r"^x\['features'\]: got \[1\]; allowed: one of 'sqrt', 'log2', None$"),
        ({"bootstrap": 1}, r"^x\['bootstrap'\]: got 1; allowed: True or False"),
        ({"dept": 3}, "^x: got 'dept'; allowed: names of parameters; did you mean 'depth'"),
        ({"eta": 0.5}, r"^x\['eta'\]: got 0\.5; .* exists only where 'booster' is 'dart' or 'tree'"),
    ],
)
def test_settings_that_are_refused(change, message):
    usual = {"rate": 0.01, "depth": 3, "width": 8, "batch": 16, "features": None, "bootstrap": False, "fixed": "only"}
    setting = {**usual, "booster": "linear"}
    SPACE.check(setting)
    same = SPACE.check([setting, {**setting, "features": np.nan, "eta": None, "drop": np.nan}])  # as tables have them
    assert same[0].tolist() == same[1].tolist()
    with pytest.raises(ValueError, match=message):
        SPACE.check({**setting, **change})
    del setting["depth"]
    with pytest.raises(ValueError, match=r"x: got \"a setting without 'depth'\"; allowed: a value of 'depth', a whole"):
        SPACE.check(setting)


@pytest.mark.parametrize(
    ("name", "number"),
    [("rate", 1.0), ("rate", np.nan), ("depth", 0.0), ("depth", 2.5), ("batch", 32.0), ("features", 3.0)],
)
def test_points_that_are_refused(name, number):
    """In arrays, values of a list are numbered from 0."""
    points = SPACE.draw(4, np.random.default_rng(0))
    SPACE.check(points)
    points[2, SPACE.names.index(name)] = number
    with pytest.raises(ValueError, match=rf"^x, '{name}': got "):
        SPACE.check(points)


def test_conditions_of_ranges_and_arrays():
    for values in (range(3, 6), np.array([3, 4, 5]), (3, 4, 5)):
        space = sb.SearchSpace({"d": sb.Integer(1, 9), "a": sb.Boolean(when={"d": values})})
        assert space.setting(space.check({"d": 4, "a": True})[0]) == {"d": 4, "a": True}


@pytest.mark.parametrize("x", [3, "rate", [], [3], np.zeros(11), {3: 4}])
def test_what_is_not_a_setting(x):
    with pytest.raises(ValueError, match=r"^x: got"):
        SPACE.check(x)
