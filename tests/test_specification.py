"""Specifications: to plain data and back, and nothing else comes back."""

from __future__ import annotations

import functools
import json
import math
import os
import pickle

import attrs
import numpy as np
import pytest

import scalable_bandits as sb
from scalable_bandits.kernels import Kernel
from scalable_bandits.specification import Specification, nearest, plain

VALUES = [  # kernels and spaces: where each of them is tested
    2.0 * sb.RBF(0.2) * sb.TemporalDecay(0.01),
    sb.GaussianNoise(0.5),
    sb.UniformNoise(2.0),
    sb.RademacherNoise(0.1),
    sb.StudentTNoise(df=3.0, scale=2.0),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_round_trip(value: Specification) -> None:
    """Through a dict, JSON text and pickle: equal value, equal hash, equal dict."""
    data = value.to_dict()
    assert data["type"] == type(value).__name__
    for copy in (
        type(value).from_dict(data),
        Specification.from_dict(json.loads(json.dumps(data))),
        pickle.loads(pickle.dumps(value)),
    ):
        assert copy == value
        assert hash(copy) == hash(value)
        assert copy.to_dict() == data


def test_values_tell_apart() -> None:
    """Equal only to itself."""
    assert len(set(VALUES)) == len(VALUES)


def test_type_may_be_left_out_where_the_class_says_it() -> None:
    assert sb.RBF.from_dict({"lengthscale": 0.5}) == sb.RBF(0.5)
    assert sb.RBF.from_dict({}) == sb.RBF()


class TestNearest:
    """The half sentence at the end of a message."""

    def test_suggests(self) -> None:
        assert nearest("lenghtscale", ["nu", "lengthscale"]) == "did you mean 'lengthscale'? known: lengthscale, nu"

    def test_says_nothing_without_a_near_one(self) -> None:
        assert nearest("zzz", ["nu", "lengthscale"]) == "known: lengthscale, nu"


class TestRefusals:
    """What `from_dict` does not take."""

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            ({"type": "Matren"}, r"^type: got 'Matren'; allowed: did you mean 'Matern'\?"),
            (
                {"type": "RBF", "lenghtscale": 1.0},
                r"^key of RBF: got 'lenghtscale'; allowed: did you mean 'lengthscale'",
            ),
            ({"type": "RBF", "nu": 1.0}, "^key of RBF: got 'nu'; allowed: known: lengthscale"),
            ({"type": "RBF", "lengthscale": -1.0}, "^lengthscale: got -1.0; allowed: a positive number"),
            ({"type": "Scaled", "factor": 2.0, "kernel": {"type": "RBG"}}, "did you mean 'RBF'"),
            ({"type": "Sum", "kernels": [{"type": "RBF", "nu": 1.0}]}, "^key of RBF: got 'nu'"),
            ({"type": "Points", "array": [[1.0]], "_rows": {}}, "^key of Points: got '_rows'"),
        ],
        ids=str,
    )
    def test_unknown_type_or_key(self, data: dict[str, object], message: str) -> None:
        """Also inside another specification; the message suggests the nearest."""
        with pytest.raises(ValueError, match=message):
            Specification.from_dict(data)

    @pytest.mark.parametrize(
        "kind",
        ["os.system", "builtins.eval", "object", "dict", "Trajectory", "__class__", "", None, 3, ["RBF"], {"type": 3}],
        ids=repr,
    )
    def test_nothing_but_specifications(self, kind: object) -> None:
        """Not other Python objects, nor what else the package has."""
        with pytest.raises(ValueError, match=r"^type: got "):
            Specification.from_dict({"type": kind})

    @pytest.mark.parametrize(
        "kind",
        ["Specification", "Kernel", "Combination", "Space", "FiniteSpace", "Noise", "Stationary", "Range", "Choice"],
    )
    def test_no_abstract_class(self, kind: str) -> None:
        """Base classes, and what is no value, are refused, and are not among the known names."""
        with pytest.raises(ValueError, match=rf"^type: got '{kind}'") as refused:
            Specification.from_dict({"type": kind})
        assert f" {kind}," not in str(refused.value)

    def test_not_a_kernel(self) -> None:
        """A class's `from_dict` gives its own kind only."""
        with pytest.raises(ValueError, match=r"^type: got 'Arms'"):
            Kernel.from_dict({"type": "Arms", "count": 3})

    def test_missing_value(self) -> None:
        with pytest.raises((ValueError, TypeError), match="matrix"):
            Specification.from_dict({"type": "Covariance"})

    @pytest.mark.usefixtures("registries")
    def test_a_class_from_elsewhere_is_not_rebuilt(self) -> None:
        """A user's own subclass is not built by reading a specification: only classes of this package are."""

        @attrs.frozen
        class Elsewhere(sb.RBF):
            pass

        with pytest.raises(ValueError, match=r"^type: got 'Elsewhere'"):
            Specification.from_dict({"type": "Elsewhere", "lengthscale": 1.0})

    @pytest.mark.usefixtures("registries")
    def test_a_class_from_elsewhere_takes_no_name_over(self) -> None:
        """A user's class that happens to be called RBF does not come out of the package's specifications."""
        other = type("RBF", (sb.Linear,), {})
        assert type(Specification.from_dict({"type": "RBF", "lengthscale": 1.0})) is sb.RBF is not other


class TestPlain:
    """What is written."""

    def test_is_json_ready(self) -> None:
        value = {"a": plain(np.float64(1.5)), "b": plain(np.arange(2)), "c": plain((1, [2.0, None, "x"]))}
        assert json.loads(json.dumps(value)) == {"a": 1.5, "b": [0, 1], "c": [1, [2.0, None, "x"]]}

    @pytest.mark.parametrize(
        "value",
        [lambda x: x, print, os.system, functools.partial(max, 1), [1, math.sin], sb.RBF],
        ids=["lambda", "builtin", "os.system", "partial", "nested", "class"],
    )
    def test_refuses_functions(self, value: object) -> None:
        """Code is never written."""
        with pytest.raises(TypeError, match=r"^specification: got the function"):
            plain(value)

    def test_refuses_functions_in_a_policy(self) -> None:
        policy = sb.IGPUCB(sb.Arms(2), sb.Covariance(np.eye(2)), prior_mean=lambda x: 0.0 * x[:, 0])
        with pytest.raises(TypeError, match=r"^specification: got the function"):
            plain(policy)


def test_describe_names_functions() -> None:
    """For the record, a function is its name; the whole is JSON-ready."""
    policy = sb.IGPUCB(sb.Arms(2), sb.Covariance(np.eye(2)), prior_mean=np.zeros(2), information_gain=math.log1p)
    data = json.loads(json.dumps(plain(policy, named=True)))
    assert data["type"] == "IGPUCB"
    assert data["information_gain"] == {"function": "math:log1p"}
    assert data["prior_mean"] == [0.0, 0.0]
    assert data["space"] == {"type": "Arms", "count": 2}
    assert plain({"f": functools.partial(max, 1)}, named=True) == {"f": {"function": "functools:partial"}}
