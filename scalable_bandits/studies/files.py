"""Study files: TOML tables that describe a study, checked when they are read.

Reading a file runs no code of others: policies, environments, kernels, builders and analyses are names of this package.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scalable_bandits import checks
from scalable_bandits.posteriors.placement import is_local
from scalable_bandits.specification import allow, check_name, known_types, nearest, plain, rebuilt
from scalable_bandits.studies import tables
from scalable_bandits.studies.builders import ANALYSES, BUILDERS, ProblemsFromBuilder
from scalable_bandits.studies.growth import AXES, HORIZON, KEEP, Value
from scalable_bandits.studies.layout import checked_axes, checked_horizons
from scalable_bandits.studies.summary import Published
from scalable_bandits.studies.tables import ProblemsFromTables, at_values, environment_kinds, policy_kinds

TEXT = (
    "name", "title", "source", "duration", "family", "measure", "unit", "cover", "on", "store", "data", "builder",
    "analysis",
)  # fmt: skip
NUMBERS = {"replicates": 1, "seed": 0}  # with their smallest values
TABLES = ("axes", "environments", "policies", "shared", "parameters", "published", "expected")
KEYS = (*TEXT, HORIZON, *NUMBERS, "cases", "timed", KEEP, *TABLES)
# Keys that `Study.run` can override, or that change no number.
NOT_DECISIVE = (HORIZON, "replicates", "seed", "on", "store", "data", "duration", "title", "source", KEEP, "expected")
SHARED = ("environments", "policies")
MEASURES = ("cumulative", "average", "best")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]*")  # also valid as the name of a folder


def read(path: str | Path) -> dict[str, Any]:
    """Read the tables of a study file.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file does not exist; if it is not valid TOML.
    """
    try:
        with Path(path).open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"study: file {path} does not exist") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not valid TOML: {error}") from None


def text(specification: Mapping[str, Any]) -> str:
    """Write tables as the text of a study file."""
    import tomli_w

    return tomli_w.dumps(_without_none(specification))


def _without_none(value: Any) -> Any:
    """Leave out the keys whose value is None, which TOML cannot express."""
    if isinstance(value, Mapping):
        return {key: _without_none(part) for key, part in value.items() if part is not None}
    return [_without_none(part) for part in value] if isinstance(value, list) else value


def study_arguments(
    specification: Mapping[str, Any], function: Callable[[Any], float] | None = None, classes: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the arguments of `Study` for the tables of a study file.

    Parameters
    ----------
    specification
        Tables of the file; kernels, spaces and noises in them may be objects of this package.
    function
        User's function, for environments of type FunctionEnvironment.
    classes
        User's classes, each as "module:Class", which are imported.

    Raises
    ------
    ValueError
        If a key or name is unknown or missing, or a value is invalid; the message names the key and the nearest name.
    """
    specification = _without_none(plain(specification))
    _check_top(specification)
    names = {*TEXT, HORIZON, *NUMBERS, "timed", KEEP, AXES, "expected"} - {"builder", "analysis"}
    given = {key: value for key, value in specification.items() if key in names}
    for name in classes:
        allow(name)
    for values in _values_of_axes(specification):
        at = {**specification, **{key: at_values(specification[key], values) for key in TABLES if key in specification}}
        found = _from_builder(at) if "builder" in specification else _from_tables(at)
    if "builder" in specification:
        found["build"] = ProblemsFromBuilder(specification["builder"], dict(specification.get("parameters", {})))
    else:
        shared = {name: specification.get("shared", {}).get(name, {}) for name in SHARED}
        environments = {case: {**shared["environments"], **own} for case, own in specification["environments"].items()}
        policies = dict(specification["policies"])
        found["build"] = ProblemsFromTables(environments, policies, shared["policies"], function, tuple(classes))
    if "cover" in given and found["labels"] is not None:
        check_name("cover", given["cover"], found["labels"])
    result = {**given, **found}
    if "analysis" in specification:
        name = _check_name("analysis", specification["analysis"], ANALYSES)
        result.update(ANALYSES[name])
    elif "published" in specification:
        result["published"] = Published(specification["published"])
    return {**result, "specification": dict(specification)}


def _check_top(specification: Mapping[str, Any]) -> None:
    _check_keys("key", specification, KEYS)
    for key in ("name", HORIZON, "replicates"):
        if key not in specification:
            checks.refuse(key, None, f"{'text' if key == 'name' else 'a number'}: every study file has this key")
    for key, value in specification.items():
        if key in TEXT and not (isinstance(value, str) and value):
            checks.refuse(key, value, "text that is not empty")
        if key in NUMBERS:
            checks.integer(key, value, NUMBERS[key])
        if key in TABLES and key != "policies" and not isinstance(value, Mapping):
            checks.refuse(key, value, f"a table: [{key}]")
    _check_expected(specification.get("expected", {}), specification.get(AXES, {}))
    if not NAME.fullmatch(specification["name"]):
        checks.refuse("name", specification["name"], "letters, digits, blanks, dots and dashes")
    _check_name("measure", specification.get("measure", "cumulative"), MEASURES)
    if not isinstance(specification.get("timed", False), bool):
        checks.refuse("timed", specification["timed"], "true or false")
    if not is_local(specification.get("on")):
        checks.refuse("on", specification["on"], "local, local:4, threads or threads:4; name a cluster by --on")


def _check_expected(table: Mapping[str, Any], axes: Mapping[str, Any]) -> None:
    """Refuse expected exponents that are not numbers by axis, quantity and policy."""
    _check_keys("key of expected", table, ("round", *axes))
    for over, quantities in table.items():
        _check_table(f"expected.{over}", quantities)
        for quantity, numbers in quantities.items():
            _check_table(f"expected.{over}.{quantity}", numbers)
            for policy, number in numbers.items():
                if isinstance(number, bool) or not isinstance(number, int | float):
                    checks.refuse(f"expected.{over}.{quantity}.{policy}", number, "an exponent")


def _values_of_axes(specification: Mapping[str, Any]) -> Iterator[dict[str, Value]]:
    """Return the first values of all axes, and each other value of one axis at the first of the others."""
    axes = checked_axes(specification.get(AXES, {}))
    first = {name: values[0] for name, values in axes.items()}
    horizon = {HORIZON: checked_horizons(HORIZON, specification[HORIZON])[0]}
    for name, values in axes.items():
        for value in values[1:]:
            yield {**horizon, **first, name: value}
    yield {**horizon, **first}


def _from_builder(specification: Mapping[str, Any]) -> dict[str, Any]:
    """Check a file that names a builder; return arguments of its study."""
    builder = BUILDERS[_check_name("builder", specification["builder"], BUILDERS)]
    for key in ("environments", "shared"):
        if key in specification:
            checks.refuse(key, specification[key], "no such table if the file names a builder")
    parameters = dict(specification.get("parameters", {}))
    _check_keys("key of parameters", parameters, builder.parameters)
    for key, value in parameters.items():
        default = builder.parameters[key]
        word = isinstance(default, str)
        if isinstance(value, bool) or not isinstance(value, str if word else int | float):
            checks.refuse(f"parameters.{key}", value, f"{'a word' if word else 'a number'}, by default {default}")
    cases = _check_names("cases", specification.get("cases", list(builder.cases)))
    for case in cases:
        _check_name("cases", case, builder.cases)
    labels = _check_names("policies", specification["policies"]) if "policies" in specification else None
    return {"cases": tuple(cases), "labels": labels, "needs_data": builder.needs_data,
            "packages": builder.packages, "starts_clusters": builder.starts_clusters}  # fmt: skip


def _from_tables(specification: Mapping[str, Any]) -> dict[str, Any]:
    """Check a file of tables of environments and policies; return arguments of its study."""
    for key in ("cases", "parameters"):
        if key in specification:
            checks.refuse(key, specification[key], "no such key without a builder; [environments] names the cases")
    for key in ("environments", "policies"):
        if not isinstance(specification.get(key), Mapping) or not specification[key]:
            checks.refuse(key, specification.get(key), f"at least one table [{key}.NAME], with type = ...")
    shared = {name: specification.get("shared", {}).get(name, {}) for name in SHARED}
    _check_keys("key of shared", specification.get("shared", {}), SHARED)
    environments = {}
    for case, table in specification["environments"].items():
        _check_table(f"environments.{case}", table)
        environments[case] = {**shared["environments"], **table}
        _check_environment(f"environments.{case}", environments[case])
    for label, table in specification["policies"].items():
        _check_table(f"policies.{label}", table)
        kind = _check_name(f"policies.{label}.type", table.get("type"), policy_kinds())
        _check_keys(f"key of policies.{label}", table, ["type", tables.MOST, *_arguments(kind)])
        if tables.MOST in table:
            checks.integer(f"policies.{label}.{tables.MOST}", table[tables.MOST], 1)
        _check_values(f"policies.{label}", table)
    kinds = {table["type"] for table in specification["policies"].values()}
    common = {argument for kind in kinds for argument in _arguments(kind)}
    _check_keys("key of shared.policies", shared["policies"], common)
    for case, table in environments.items():
        _check_keys(f"key of environments.{case}.arguments", table.get("arguments", {}), common)
    _check_values("shared.policies", shared["policies"])
    packages = {kind.SOURCE.package for kind in _kinds([*environments.values()]) if hasattr(kind, "SOURCE")}
    return {"cases": tuple(environments), "labels": [*specification["policies"]], "packages": tuple(sorted(packages))}


def _kinds(value: Any) -> Iterator[Any]:
    """Yield the environments that are named in tables."""
    if isinstance(value, Mapping):
        yield from [environment_kinds()[value["type"]]] if value.get("type") in environment_kinds() else []
        value = list(value.values())
    for part in value if isinstance(value, list) else ():
        yield from _kinds(part)


def _arguments(kind: str) -> list[str]:
    return [name for name in tables.arguments_of(policy_kinds()[kind]) if name not in tables.SET_BY_STUDY]


def _check_environment(name: str, table: Mapping[str, Any]) -> None:
    known = environment_kinds()
    kind = _check_name(f"{name}.type", table.get("type"), known)
    _check_keys(f"key of {name}", table, [*tables.COMMON_KEYS, *tables.arguments_of(known[kind])])
    _check_values(name, {key: value for key, value in table.items() if key != "noise"})
    noise = table.get("noise")
    if noise is not None and not (isinstance(noise, Mapping) and set(noise) <= {"share_of_range"} and noise):
        _check_values(name, {"noise": noise})


def _check_values(name: str, table: Mapping[str, Any]) -> None:
    """Construct the kernels, spaces and noises of a table once, so that invalid ones are refused."""
    for key, value in table.items():
        inside = f"{name}.{key}"
        if isinstance(value, list):
            _check_values(inside, {str(i): part for i, part in enumerate(value)})
        if not isinstance(value, Mapping) or "type" not in value:
            continue
        if value["type"] in environment_kinds():
            _check_environment(inside, value)
        elif value["type"] == "RandomPoints":
            _check_keys(f"key of {inside}", value, ("type", "count", "bounds"))
        elif value["type"] == "GaussianNoise" and "variance" in value:
            _check_keys(f"key of {inside}", value, ("type", "variance"))
        else:
            try:
                rebuilt(value, object)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{inside}: {error}") from None


def _check_table(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        checks.refuse(name, value, f"a table: [{name}]")


def _check_names(name: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(part, str) for part in value):
        checks.refuse(name, value, f"a list of names: {name} = [...]")
    return value


def _check_keys(name: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    known = list(known)
    for key in given:
        if key not in known:
            checks.refuse(name, key, nearest(str(key), known) if known else "none")


def _check_name(name: str, value: Any, known: Iterable[str]) -> str:
    if not isinstance(value, str) or value not in known:
        checks.refuse(name, value, known_types(value, known))
    return value
