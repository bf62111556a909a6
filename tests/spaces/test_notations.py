"""Notations of other packages: understood, or refused with what is written here; never made into values by mistake."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.stats

import scalable_bandits as sb
from scalable_bandits.integrations.param_distributions import ParameterMap


def stand_in(module: str, kind: str, **attributes: Any) -> Any:
    """Return an object like one of a package that is not installed."""
    made = type(kind, (SimpleNamespace,), {"__module__": module})
    return made(**attributes)


def hyperopt(name: str, *arguments: Any) -> Any:
    """Return a node like one of hyperopt's expressions: functions of nodes and of literals."""
    module = "hyperopt.pyll.base"
    inside = [
        each if hasattr(each, "pos_args") else stand_in(module, "Literal", name="literal", obj=each, pos_args=[])
        for each in arguments
    ]
    return stand_in(module, "Apply", name=name, pos_args=inside)


def ray(name: str, sampler: str, **attributes: Any) -> Any:
    domain = stand_in("ray.tune.search.sample", name, **attributes)
    domain.sampler = stand_in("ray.tune.search.sample", sampler)
    return domain


LOGARITHMIC = "Real(1e-06, 1000000.0, log=True)"
REFUSED: list[tuple[Any, str]] = [
    # scikit-optimize: tuples and dimensions
    ((1e-6, 1e6, "log-uniform"), LOGARITHMIC),
    ([1e-6, 1e6, "log-uniform"], LOGARITHMIC),
    ((1e-6, 1e6, "log-uniform", 10), LOGARITHMIC),
    ((1, 8, "uniform"), "Real(1, 8)"),
    (stand_in("skopt.space.space", "Real", low=1e-6, high=1e6, prior="log-uniform", rvs=None), LOGARITHMIC),
    (stand_in("skopt.space.space", "Integer", low=1, high=8, prior="uniform", rvs=None), "Integer(1, 8)"),
    (stand_in("skopt.space.space", "Categorical", categories=("a", "b"), prior=None, rvs=None), "['a', 'b']"),
    # bayesian-optimization: bounds, with a type
    ((0, 1.5), "Real(0, 1.5) for a range, [0, 1.5] for its 2 values"),
    ((np.float64(0.5), np.int64(2)), "Real(0.5, 2) for a range"),
    ((5, 75, int), "Integer(5, 75)"),
    ((0, 1, float), "Real(0, 1)"),
    ((0, 100, 5), "Real(0, 100) for a range, [0, 100, 5] for its 3 values"),
    # Ax: dictionaries and objects
    ({"name": "C", "type": "range", "bounds": [1e-6, 1e6], "log_scale": True}, LOGARITHMIC),
    ({"name": "n", "type": "range", "bounds": [1, 8]}, "Integer(1, 8)"),
    ({"name": "n", "type": "range", "bounds": [1, 8], "value_type": "float"}, "Real(1, 8)"),
    ({"name": "k", "type": "choice", "values": ["a", "b"]}, "['a', 'b']"),
    ({"name": "k", "type": "fixed", "value": 3}, "[3]"),
    (
        stand_in("ax.core.parameter", "RangeParameter", lower=1e-6, upper=1e6, log_scale=True, parameter_type="FLOAT"),
        LOGARITHMIC,
    ),
    # Vizier: dictionaries
    ({"parameter_id": "C", "double_value_spec": {"min_value": 1e-6, "max_value": 1e6}, "scale_type": "UNIT_LOG_SCALE"},
     LOGARITHMIC),
    ({"parameter_id": "n", "integer_value_spec": {"min_value": 1, "max_value": 8}}, "Integer(1, 8)"),
    ({"parameter_id": "k", "categorical_value_spec": {"values": ["a", "b"]}}, "['a', 'b']"),
    # Ray Tune: domains, the upper end of integers excluded
    (ray("Float", "_LogUniform", lower=1e-6, upper=1e6), LOGARITHMIC),
    (ray("Float", "_Uniform", lower=0, upper=1), "Real(0, 1)"),
    (ray("Integer", "_Uniform", lower=1, upper=9), "Integer(1, 8)"),
    (ray("Categorical", "_Uniform", categories=["a", "b"]), "['a', 'b']"),
    ({"grid_search": [1, 2]}, "[1, 2]"),
    # hyperopt: expressions; ends of loguniform are logarithms
    (hyperopt("float", hyperopt("hyperopt_param", "x", hyperopt("uniform", 0, 1))), "Real(0, 1)"),
    (hyperopt("float", hyperopt("hyperopt_param", "x", hyperopt("loguniform", 0.0, math.log(8.0)))),
     "Real(1.0, 7.999999999999998, log=True)"),
    (hyperopt("hyperopt_param", "x", hyperopt("randint", 9)), "Integer(0, 8)"),
    (hyperopt("switch", hyperopt("hyperopt_param", "x", hyperopt("randint", 2)), "a", "b"), "['a', 'b']"),
    # others: NNI, Weights & Biases
    ({"_type": "loguniform", "_value": [1e-6, 1e6]}, LOGARITHMIC),
    ({"_type": "choice", "_value": [1, 2]}, "[1, 2]"),
    ({"distribution": "log_uniform_values", "min": 1e-6, "max": 1e6}, LOGARITHMIC),
    # several parameters in a list
    ([sb.Real(0, 1), sb.Real(2, 3)], "values, or a single range"),
    ([scipy.stats.uniform(0, 1)], "values, or a single range"),
    # arrays and ranges
    (np.zeros((2, 2)), "a list, or an array of one dimension"),
    (range(10**9), "at most 1,000,000 values, or Integer(low, high)"),
    ({1, 2}, "a list of values"),
    (scipy.stats.loguniform(1, 10, loc=5), "loguniform without loc"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "form"), REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_is_refused_is_said_in_the_words_of_this_package(given: Any, form: str) -> None:
    """Wherever it comes in: as a space, in a call of `minimize`, in a search of scikit-learn."""
    message = rf"C'.*allowed: .*{re.escape(form)}"
    with pytest.raises(ValueError, match=message):
        sb.SearchSpace({"C": given})
    with pytest.raises(ValueError, match=message):
        sb.minimize(lambda setting: 0.0, {"C": given}, 1)
    with pytest.raises(ValueError, match=message):
        ParameterMap.of({"C": given})


UNDERSTOOD: list[tuple[Any, sb.Parameter]] = [
    (scipy.stats.uniform(1, 2), sb.Real(1, 3)),
    (scipy.stats.loguniform(1e-6, 1e6), sb.Real(1e-6, 1e6, log=True)),
    (scipy.stats.randint(1, 9), sb.Integer(1, 8)),
    (np.array([16, 32, 64]), sb.Ordinal([16, 32, 64])),
    (np.array(["a", "b"]), sb.Categorical(["a", "b"])),
    (range(1, 9, 2), sb.Ordinal([1, 3, 5, 7])),
    (("a", "b"), sb.Categorical(["a", "b"])),
    ((1, 5, None), sb.Categorical([1, 5, None])),
    ((16, 32, 64), sb.Ordinal([16, 32, 64])),
    ([0.1, 1, "scale"], sb.Categorical([0.1, 1, "scale"])),
    ([1, 2], sb.Ordinal([1, 2])),
    ([1, 2.5, 7], sb.Ordinal([1, 2.5, 7])),
    ([3, 1, 2], sb.Categorical([3, 1, 2])),
    (np.array([3, 1]), sb.Ordinal([3, 1])),
    ([True, False], sb.Boolean()),
]


@pytest.mark.parametrize(("given", "expected"), UNDERSTOOD, ids=[str(i) for i in range(len(UNDERSTOOD))])
def test_what_is_understood(given: Any, expected: sb.Parameter) -> None:
    assert sb.SearchSpace({"C": given}).kinds == (expected,)
    assert ParameterMap.of({"C": given}).space.kinds == (expected,)


def test_hyperparameters_of_configspace() -> None:
    """A single one is understood; of a whole space the conditions would be lost."""
    cs = pytest.importorskip("ConfigSpace")
    given = {"a": cs.Float("a", (1e-6, 1e6), log=True), "b": cs.Integer("b", (1, 8)), "c": cs.Constant("c", 3)}
    expected = (sb.Real(1e-6, 1e6, log=True), sb.Integer(1, 8), sb.Categorical([3]))
    assert sb.SearchSpace(given).kinds == ParameterMap.of(given).space.kinds == expected
    whole = cs.ConfigurationSpace({"a": (0.0, 1.0)})
    for take in (sb.SearchSpace, ParameterMap.of, lambda space: sb.minimize(lambda setting: 0.0, space, 1)):
        with pytest.raises(ValueError, match=r"allowed: SearchSpace\.from_configspace\(space\)"):
            take(whole)


def test_whole_spaces() -> None:
    """Lists of parameters with names in them, or of dimensions."""
    listed = [{"name": "C", "type": "range", "bounds": [0.5, 2.0]}, {"name": "k", "type": "choice", "values": ["a"]}]
    for take in (sb.SearchSpace, ParameterMap.of, lambda space: sb.minimize(lambda setting: 0.0, space, 1)):
        with pytest.raises(ValueError, match=re.escape("{'C': Real(0.5, 2.0), 'k': ['a']}")):
            take(listed)
        for given in ([(0, 1), (1, 2, "uniform")], ((0, 1, "uniform"), (1, 2, "uniform"))):
            with pytest.raises(ValueError, match=r"allowed: a (dict of|space, a dict of).*parameters"):
                take(given)


def test_a_file_of_the_command(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text('C = [1e-6, 1e6, "log-uniform"]\n')
    with pytest.raises(ValueError, match=rf"space\.toml: parameter 'C': .*{re.escape(LOGARITHMIC)}"):
        sb.SearchSpace.from_toml(file)


def test_one_value_and_whole_floats() -> None:
    """`Real(1, 1)` has one value, as `Integer(5, 5)` has; 1e3 is an integer."""
    space = sb.SearchSpace({"a": sb.Real(1, 1), "b": sb.Integer(1, 1e3), "c": sb.Real(2, 2, log=True)})
    found = sb.minimize(lambda setting: abs(setting["b"] - 500), space, 6)
    assert {(x["a"], x["c"]) for x in found.x} == {(1.0, 2.0)}
    assert space.kinds[1] == sb.Integer(1, 1000)
    assert sb.Settings({"a": sb.Real(1, 1), "b": [1, 2]}).size == 2
    with pytest.raises(ValueError, match=r"^high: got 2\.5; allowed: a whole number"):
        sb.Integer(1, 2.5)


def test_values_of_other_types_are_another_space() -> None:
    """1 may be a number of features where 1.0 is all of them; what is kept for one space is not given to the other."""
    one, other = (sb.SearchSpace({"a": sb.Categorical(values)}) for values in ([1, 2], [1.0, 2.0]))
    assert one != other == sb.SearchSpace({"a": sb.Categorical([1.0, 2.0])})
    assert [type(sb.spaces.every_setting(space).value(0)["a"]) for space in (one, other)] == [int, float]
