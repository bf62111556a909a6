"""Parameters from what users have already: dicts, TOML, lists, and distributions of other packages.

Notations of other packages that are not converted are refused, with what is written for them here.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.spaces.parameters import Boolean, Categorical, Integer, Ordinal, Parameter, Real
from scalable_bandits.specification import nearest

MOST_STEPS = 1_000_000  # largest number of values of a range or of a distribution with steps
PRIORS = (
    "uniform", "log-uniform", "loguniform", "log_uniform", "log", "linear", "normal", "lognormal", "randint", "int",
    "float", "real", "integer", "quniform", "qloguniform", "uniformint",
)  # fmt: skip
LOW, HIGH = ("low", "lower", "min_value", "min"), ("high", "upper", "max_value", "max")
BOUNDS, VALUES = ("bounds", "_value"), ("values", "choices", "categories", "feasible_values", "_value", "grid_search")
KINDS = ("type", "_type", "parameter_type", "value_type", "distribution")
SCALES = ("prior", "log", "log_scale", "scale_type", "scaling", "scale", *KINDS)
_BY_NAME: dict[str, type[Parameter]] = {
    kind.__name__.lower(): kind for kind in (Real, Integer, Ordinal, Categorical, Boolean)
}


def to_parameters(given: Any) -> tuple[tuple[str, Parameter], ...]:
    """Convert what describes the parameters of a space to pairs of names and `Parameter`.

    Parameters
    ----------
    given
        Dict of names and what `to_parameter` takes, or a tuple of such pairs.

    Raises
    ------
    ValueError
        If it is neither, is empty, a name is no string, or a parameter cannot be converted.
    """
    check_whole("parameters", given)
    pairs = tuple(given.items()) if isinstance(given, Mapping) else given
    if not isinstance(pairs, tuple) or not pairs or not all(isinstance(p, tuple) and len(p) == 2 for p in pairs):
        checks.refuse("parameters", given, 'a dict of names and parameters, such as {"rate": Real(0.001, 0.1)}')
    for name, _ in pairs:
        if not isinstance(name, str) or not name:
            checks.refuse("parameters", name, "names that are strings")
    return tuple((name, to_parameter(name, each)) for name, each in pairs)


def to_parameter(name: str, given: Any) -> Parameter:
    """Convert what describes a parameter to a `Parameter`.

    Parameters
    ----------
    name
        Name of the parameter, for messages.
    given
        `Parameter`; dict with the key "type" (the name of a class, in any case) and its arguments; list of values;
        distribution of scipy.stats or Optuna; hyperparameter of ConfigSpace, without its conditions.

    Raises
    ------
    ValueError
        If it cannot be converted; the message names the parameter.
    """
    if isinstance(given, Parameter):
        return given
    try:
        if isinstance(given, Mapping):
            return _from_dict(given)
        if hasattr(given, "dist") and hasattr(given, "support"):
            return _from_scipy(given)
        if type(given).__module__.startswith("optuna."):
            return _from_optuna(given)
        if type(given).__module__.startswith("ConfigSpace."):
            return _from_hyperparameter(given, None)
        if isinstance(given, list | tuple | range | np.ndarray):
            check_values(given)
            return _from_list(list(given))
    except (ValueError, TypeError) as error:
        raise ValueError(f"parameter {name!r}: {error}") from None
    form = form_of(given)
    allowed = "a Real, Integer, Ordinal, Categorical or Boolean, a list of values, or what can be converted to one"
    return checks.refuse(f"parameter {name!r}", given, f"{form}; or {allowed}" if form else allowed)


def _from_dict(given: Mapping[str, Any]) -> Parameter:
    kind = str(given.get("type", ""))
    if kind.lower() not in _BY_NAME:
        form = form_of(given)
        allowed = nearest(kind.lower(), _BY_NAME)
        checks.refuse("type", given.get("type"), f"{form} for {dict(given)}; {allowed}" if form else allowed)
    made = _BY_NAME[kind.lower()]
    fields = [field for field in attrs.fields(made) if field.init]
    for field in fields if given.keys() <= {"type", *(field.alias for field in fields)} else ():
        if field.default is attrs.NOTHING and field.alias not in given:
            checks.refuse(field.alias, "nothing", f"a value: a parameter of type {kind!r} needs one")
    return made.from_dict({**given, "type": made.__name__})


def _from_list(values: list[Any]) -> Parameter:
    """Return an `Ordinal` of numbers that only rise or only fall, else a `Categorical`."""
    plain = [each.item() if isinstance(each, np.generic) else each for each in values]
    if set(map(type, plain)) == {bool} and len(set(plain)) == len(plain) == 2:
        return Boolean()
    if plain and all(isinstance(each, int | float) and not isinstance(each, bool) for each in plain):
        steps = np.diff(np.array(plain, dtype=np.float64))
        if (steps > 0).all() or (steps < 0).all():
            return Ordinal(plain)
    return Categorical(plain)


def _from_scipy(given: Any) -> Parameter:
    low, high = (float(end) for end in given.support())
    name = given.dist.name
    if name in ("uniform", "loguniform", "reciprocal") and not (math.isfinite(low) and math.isfinite(high)):
        checks.refuse("distribution", f"{name} from {low:g} to {high:g}", "one with finite ends")
    if name == "uniform":
        return Real(low, high)
    if name in ("loguniform", "reciprocal"):
        if not math.isclose(float(given.median()), math.sqrt(low) * math.sqrt(high), rel_tol=1e-6):
            checks.refuse("distribution", f"{name} from {low:g} to {high:g} with a loc", "loguniform without loc")
        return Real(low, high, log=True)
    if name == "randint":
        return Integer(int(low), int(high))
    return checks.refuse("distribution", name, "uniform, loguniform or randint of scipy.stats")


def _from_optuna(given: Any) -> Parameter:
    kind = type(given).__name__
    if kind == "CategoricalDistribution":
        return Categorical(list(given.choices))
    if kind not in ("FloatDistribution", "IntDistribution"):
        checks.refuse("distribution", kind, "FloatDistribution, IntDistribution or CategoricalDistribution of Optuna")
    number = float if kind == "FloatDistribution" else int
    low, high, step = number(given.low), number(given.high), given.step
    if low == high:
        return Ordinal([low])
    if step is None or (number is int and step == 1):
        return Real(low, high, log=given.log) if number is float else Integer(low, high, log=given.log)
    count = math.floor((high - low) / step + 1e-8) + 1
    if count > MOST_STEPS:
        checks.refuse("step", step, f"at most {MOST_STEPS:,} steps between low and high")
    return Ordinal([number(low + i * step) for i in range(count)])


def from_configspace(space: Any) -> tuple[dict[str, Parameter], NotForbidden | None]:
    """Convert a `ConfigSpace.ConfigurationSpace`.

    Parameters
    ----------
    space
        Configuration space, whose conditions are equalities, memberships, or conjunctions of these.

    Returns
    -------
    parameters : dict
        Parameters by name.
    where : NotForbidden or None
        Condition that its forbidden clauses do not hold; None if it has none.

    Raises
    ------
    ValueError
        If a hyperparameter or a condition cannot be converted.
    """
    if type(space).__name__ != "ConfigurationSpace":
        checks.refuse("space", space, "a ConfigurationSpace of ConfigSpace")
    when: dict[str, dict[str, Any]] = {}
    for condition in space.conditions:
        for each in getattr(condition, "components", (condition,)):
            kind = type(each).__name__
            if type(condition).__name__ == "OrConjunction" or kind not in ("EqualsCondition", "InCondition"):
                checks.refuse("condition", str(condition), "equalities, memberships, and conjunctions of these")
            values = [each.value] if kind == "EqualsCondition" else list(each.values)
            earlier = when.setdefault(each.child.name, {})
            earlier[each.parent.name] = [v for v in values if v in earlier.get(each.parent.name, values)]
            if not earlier[each.parent.name]:
                checks.refuse("condition", str(condition), f"conditions under which {each.child.name!r} can exist")
    found = {name: _from_hyperparameter(each, when.get(name)) for name, each in space.items()}
    clauses = list(space.forbidden_clauses)
    return found, NotForbidden(clauses) if clauses else None


def _from_hyperparameter(given: Any, when: Mapping[str, Any] | None) -> Parameter:
    kind = type(given).__name__
    if kind.endswith("FloatHyperparameter"):
        return Real(given.lower, given.upper, log=given.log, when=when)
    if kind.endswith("IntegerHyperparameter"):
        return Integer(int(given.lower), int(given.upper), log=given.log, when=when)
    if kind == "CategoricalHyperparameter":
        return Categorical(given.choices, when=when)
    if kind == "OrdinalHyperparameter":
        return Ordinal(given.sequence, when=when)
    if kind == "Constant":
        return Categorical([given.value], when=when)
    return checks.refuse("hyperparameter", kind, "uniform, normal or beta numbers, categories, ordinals, constants")


class NotForbidden:
    """Condition on settings that no forbidden clause of a configuration space holds.

    Parameters
    ----------
    clauses
        Forbidden clauses of ConfigSpace.
    """

    def __init__(self, clauses: list[Any]):
        self.clauses = clauses

    def __call__(self, setting: Mapping[str, Any]) -> bool:
        """Return whether a setting is allowed; a clause about a parameter that does not exist in it does not hold."""
        return not any(self._holds(clause, setting) for clause in self.clauses)

    def _holds(self, clause: Any, setting: Mapping[str, Any]) -> bool:
        for each in getattr(clause, "dlcs", (clause,)):
            sides = (each.left, each.right) if hasattr(each, "left") else (each.hyperparameter,)
            if any(side.name not in setting for side in sides):
                return False
        return bool(clause.is_forbidden_value(dict(setting)))


def _each(value: Any, replace: Callable[[Any], Any]) -> Any:
    """Return plain data in which the values inside lists are replaced."""
    if isinstance(value, Mapping):
        return {key: _each(each, replace) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [replace(each) for each in value]
    return value


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read a file with one table a parameter; an empty table among the values stands for None.

    Parameters
    ----------
    path
        Path of the file.

    Raises
    ------
    ValueError
        If the file is not TOML, or a table does not say of what type its parameter is.
    """
    found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    for name, table in found.items():
        if isinstance(table, dict) and "type" not in table:
            lists, whole = "values" in table, all(isinstance(table.get(key), int) for key in ("low", "high"))
            meant = "categorical" if lists else "integer" if whole else "real"
            given = f"a table of {', '.join(table) or 'nothing'}"
            checks.refuse(f"parameter {name!r}", given, f'one with a line such as type = "{meant}"')
    return {name: _each(table, lambda value: None if value == {} else value) for name, table in found.items()}


def to_toml(parameters: Mapping[str, Parameter]) -> str:
    """Return parameters as TOML, one table each.

    Parameters
    ----------
    parameters
        Parameters by name.

    Raises
    ------
    ValueError
        If a value is not a string, a number, True, False or None.
    """
    import tomli_w

    tables = {}
    for name, parameter in parameters.items():
        plain = {key: value for key, value in parameter.to_dict().items() if value is not None and value is not False}
        plain["type"] = plain["type"].lower()
        if parameter.when is not None:  # lists, in which an empty table stands for None
            alone = {other: values[0] for other, values in parameter.when if len(values) == 1 and values[0] is not None}
            plain["when"] = {other: alone.get(other, list(values)) for other, values in parameter.when}
        tables[name] = _each(plain, lambda value: {} if value is None else value)
    try:
        return tomli_w.dumps(tables)
    except TypeError as error:
        raise ValueError(f"to_toml: {error}") from None


# ---- notations of other packages, for messages


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
