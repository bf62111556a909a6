"""Notations of other packages for ranges and values, and what is written for them here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from scalable_bandits import checks
from scalable_bandits.spaces.parameters import Parameter

MOST_STEPS = 1_000_000  # largest number of values of a range or of a distribution with steps
PRIORS = (
    "uniform", "log-uniform", "loguniform", "log_uniform", "log", "linear", "normal", "lognormal", "randint", "int",
    "float", "real", "integer", "quniform", "qloguniform", "uniformint",
)  # fmt: skip
LOW, HIGH = ("low", "lower", "min_value", "min"), ("high", "upper", "max_value", "max")
BOUNDS, VALUES = ("bounds", "_value"), ("values", "choices", "categories", "feasible_values", "_value", "grid_search")
KINDS = ("type", "_type", "parameter_type", "value_type", "distribution")
SCALES = ("prior", "log", "log_scale", "scale_type", "scaling", "scale", *KINDS)


def check_whole(name: str, given: Any) -> None:
    """Refuse the notations of other packages for a whole space.

    Parameters
    ----------
    name
        Name of the argument, for the message.
    given
        What is to become a search space.
    """
    if type(given).__name__ == "ConfigurationSpace":  # a mapping, whose conditions are not among its items
        checks.refuse(name, given, "SearchSpace.from_configspace(space)")
    each = given if isinstance(given, list | tuple) else ()
    if each and all(isinstance(one, Mapping) and isinstance(one.get("name"), str) for one in each):
        forms = (f"{one['name']!r}: {form_of(one) or 'Real(low, high)'}" for one in each)
        checks.refuse(name, given, f"a dict of parameters by name: {{{', '.join(forms)}}}")


def check_values(given: Any) -> None:
    """Refuse a sequence that is a range, or several parameters, in the notation of another package.

    Parameters
    ----------
    given
        List, tuple, range or array that is to become the values of a parameter.
    """
    if isinstance(given, np.ndarray) and given.ndim != 1:
        checks.refuse("values", given, "a list, or an array of one dimension")
    if isinstance(given, range) and len(given) > MOST_STEPS:
        checks.refuse("values", given, f"at most {MOST_STEPS:,} values, or Integer(low, high)")
    several = [each for each in given if isinstance(each, Parameter) or _is_foreign(each)]
    if several:
        checks.refuse("values", given, "values, or a single range or distribution; not a list of these")
    if isinstance(given, list | tuple):
        form = _range_form(given)
        if form:
            checks.refuse("values", given, f"{form} for a range, {list(given)} for its {len(given)} values")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _range_form(given: Sequence[Any]) -> str:
    """Return what is written here for the range that a sequence may mean elsewhere; empty if it means values."""
    words = [str(getattr(each, "__name__", each)).lower() for each in given if isinstance(each, str | type)]
    numbers = [each.item() if isinstance(each, np.number) else each for each in given if _is_number(each)]
    if len(numbers) < 2 or len(numbers) + len(words) < len(given):
        return ""
    form = _real(numbers[0], numbers[1], any("log" in each for each in words), any("int" in each for each in words))
    if words and all(each in PRIORS for each in words):
        return form
    if not isinstance(given, tuple) or not (_is_number(given[0]) and _is_number(given[1])):  # a list is one of values
        return ""
    steps = np.diff(np.array(numbers, dtype=np.float64))
    several = len(given) > 3 or (len(given) == 3 and ((steps > 0).all() or (steps < 0).all()))
    return "" if several and not words else form


def _real(low: Any, high: Any, log: bool, whole: bool) -> str:
    if log and low <= 0:  # logarithms
        low, high = "low", "high"
    return f"{'Integer' if whole else 'Real'}({low}, {high}{', log=True' if log else ''})"


def _is_foreign(value: Any) -> bool:
    """Return whether a value is an object of another package that describes a parameter."""
    module = type(value).__module__.partition(".")[0]
    known = module in ("skopt", "ray", "hyperopt", "ax", "vizier", "optuna", "ConfigSpace", "flaml")
    return known or (hasattr(value, "rvs") and not isinstance(value, type))


def form_of(given: Any) -> str:
    """Return what is written here for a parameter in the notation of another package; empty if that is not known.

    Parameters
    ----------
    given
        Dict, or object of another package.
    """
    if isinstance(given, Mapping):
        inside = {key: each for key, each in given.items() if isinstance(each, Mapping) and "value_spec" in str(key)}
        flat = {**given, **{name: value for each in inside.values() for name, value in each.items()}}
        return _form(flat.get, " ".join(map(str, inside)), exclusive=flat.get("_type") == "randint")
    if type(given).__module__.startswith("hyperopt."):
        return _hyperopt_form(given)
    sampler = type(getattr(given, "sampler", None)).__name__
    exclusive = type(given).__module__.startswith("ray.")
    return _form(lambda name: getattr(given, name, None), f"{type(given).__name__} {sampler}", exclusive)


def _form(get: Callable[[str], Any], kind: str, exclusive: bool) -> str:
    """Return the form of a parameter from what is under the names that packages use."""
    words = [(name, get(name)) for name in SCALES]
    text = " ".join([kind, *(str(value) for name, value in words if name in KINDS)]).lower()
    log = any(value is True or "log" in str(value).lower() for _, value in words) or "log" in kind.lower()
    bounds = next((each for name in BOUNDS if _is_pair(each := get(name))), None)
    low, high = (next((each for name in names if _is_number(each := get(name))), None) for names in (LOW, HIGH))
    low, high = bounds if bounds is not None and "choice" not in text else (low, high)
    if low is not None and high is not None:
        float_named = any(word in text for word in ("real", "float", "double", "uniform"))
        whole = "int" in text or (isinstance(low, int) and isinstance(high, int) and not float_named)
        return _real(low, high - 1 if exclusive and whole else high, log, whole)
    values = next((each for name in VALUES if isinstance(each := get(name), list | tuple)), None)
    if values is None and get("value") is not None and not callable(get("value")):
        values = [get("value")]
    return "" if values is None else f"{list(values)}"


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_number, value))


def _hyperopt_form(node: Any) -> str:
    """Return the form of a node of hyperopt's expressions, which has its arguments as nodes inside."""
    values = [each.obj for each in node.pos_args if hasattr(each, "obj")]
    if node.name == "switch":
        return f"{values}"
    if "uniform" in node.name or "randint" in node.name:
        log, whole, pair = "log" in node.name, "int" in node.name, values[:2]
        if len(pair) < 2:
            pair = [0, *pair]
        if len(pair) == 2 and all(map(_is_number, pair)):
            low, high = (math.exp(each) for each in pair) if log else pair
            return _real(low, high - 1 if node.name == "randint" else high, log, whole)
    return next((form for each in node.pos_args if hasattr(each, "pos_args") and (form := _hyperopt_form(each))), "")
