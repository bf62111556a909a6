"""Study files: TOML that says what is played, checked before anything is.

Reading one runs nobody's code: policies, environments, kernels, builders and analyses are names of this package.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from scalable_bandits import checks
from scalable_bandits.specification import Specification, nearest, plain
from scalable_bandits.studies.builders import ANALYSES, BUILDERS, Built
from scalable_bandits.studies.summary import Published
from scalable_bandits.studies.tables import BESIDES, ENVIRONMENTS, GIVEN, Declared, arguments_of, policy_kinds

TEXT = ("name", "title", "source", "duration", "measure", "unit", "cover", "on", "store", "data", "builder", "analysis")
NUMBERS = {"horizon": 1, "replicates": 1, "seed": 0}  # with the least
TABLES = ("environments", "policies", "shared", "parameters", "published")
KEYS = (*TEXT, *NUMBERS, "cases", "timed", *TABLES)
HOW = ("horizon", "replicates", "seed", "on", "store", "data", "duration", "title", "source")  # changes no run
SHARED = ("environments", "policies")
MEASURES = ("cumulative", "average")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]*")  # folders are called so
LOCAL = re.compile(r"(local|threads)(:[1-9][0-9]*)?")


def read(path: str | Path) -> dict[str, Any]:
    """Tables of a study file.

    Raises
    ------
    FileNotFoundError, ValueError
        If it is not there; is no TOML.
    """
    try:
        with Path(path).open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"study: there is no file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: no TOML: {error}") from None


def text(specification: Mapping[str, Any]) -> str:
    """A study file with these tables."""
    import tomli_w

    return tomli_w.dumps(_without_none(specification))


def simple(value: Any) -> Any:
    """Tables in which kernels, spaces and noises may be values of this package, as plain data."""
    if isinstance(value, Mapping):
        return {str(key): simple(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [simple(part) for part in value]
    return _without_none(plain(value))


def _without_none(value: Any) -> Any:
    """TOML has no None: it is what is not there."""
    if isinstance(value, Mapping):
        return {key: _without_none(part) for key, part in value.items() if part is not None}
    return [_without_none(part) for part in value] if isinstance(value, list) else value


def fields(specification: Mapping[str, Any], function: Callable[[Any], float] | None = None) -> dict[str, Any]:
    """Arguments of `Study` from a file's tables.

    Parameters
    ----------
    specification
        The tables.
    function
        The user's, for environments of type FunctionEnvironment.

    Raises
    ------
    ValueError
        If something is unknown, missing or of the wrong kind; the message names the key and suggests the nearest.
    """
    _check_top(specification)
    given = {key: value for key, value in specification.items() if key in (*TEXT, *NUMBERS, "timed")}
    for key in ("builder", "analysis"):
        given.pop(key, None)
    found = _from_builder(specification) if "builder" in specification else _from_tables(specification, function)
    if "cover" in given and found["labels"] is not None and given["cover"] not in found["labels"]:
        checks.refuse("cover", given["cover"], nearest(given["cover"], found["labels"]))
    result = {"title": given["name"], "source": "", "duration": "", **given, **found}
    if "analysis" in specification:
        name = _known("analysis", specification["analysis"], ANALYSES)
        result.update(ANALYSES[name]._asdict())
    elif "published" in specification:
        result["published"] = Published(specification["published"])
    return {**result, "specification": dict(specification)}


def _check_top(specification: Mapping[str, Any]) -> None:
    _only("key", specification, KEYS)
    for key in ("name", *NUMBERS):
        if key not in specification and key != "seed":
            checks.refuse(key, None, f"{'text' if key == 'name' else 'a number'}: a study file has it")
    for key, value in specification.items():
        if key in TEXT and not (isinstance(value, str) and value):
            checks.refuse(key, value, "text, not empty")
        if key in NUMBERS:
            checks.integer(key, value, NUMBERS[key])
        if key in TABLES and key != "policies" and not isinstance(value, Mapping):
            checks.refuse(key, value, f"a table: [{key}]")
    if not NAME.fullmatch(specification["name"]):
        checks.refuse("name", specification["name"], "letters, digits, blanks, dots and dashes")
    _known("measure", specification.get("measure", "cumulative"), MEASURES)
    if not isinstance(specification.get("timed", False), bool):
        checks.refuse("timed", specification["timed"], "true or false")
    if not LOCAL.fullmatch(specification.get("on", "local")):
        checks.refuse("on", specification["on"], "local, local:4, threads or threads:4; clusters are named by --on")


def _from_builder(specification: Mapping[str, Any]) -> dict[str, Any]:
    builder = BUILDERS[_known("builder", specification["builder"], BUILDERS)]
    for key in ("environments", "shared"):
        if key in specification:
            checks.refuse(key, specification[key], "no such table beside a builder, which makes them")
    parameters = dict(specification.get("parameters", {}))
    _only("key of parameters", parameters, builder.parameters)
    for key, value in parameters.items():
        usual = builder.parameters[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            checks.refuse(f"parameters.{key}", value, f"a number, usually {usual}")
    cases = _list("cases", specification.get("cases", list(builder.cases)))
    for case in cases:
        _known("cases", case, builder.cases)
    labels = _list("policies", specification["policies"]) if "policies" in specification else None
    build = Built(specification["builder"], parameters)
    return {"cases": tuple(cases), "build": build, "labels": labels, "needs_data": builder.needs_data}


def _from_tables(specification: Mapping[str, Any], function: Callable[[Any], float] | None) -> dict[str, Any]:
    for key in ("cases", "parameters"):
        if key in specification:
            checks.refuse(key, specification[key], "it only beside builder; [environments] has the cases")
    for key in ("environments", "policies"):
        if not isinstance(specification.get(key), Mapping) or not specification[key]:
            checks.refuse(key, specification.get(key), f"a table for each: [{key}.NAME], with type = ...")
    shared = {name: specification.get("shared", {}).get(name, {}) for name in SHARED}
    _only("key of shared", specification.get("shared", {}), SHARED)
    environments = {}
    for case, table in specification["environments"].items():
        _table(f"environments.{case}", table)
        environments[case] = {**shared["environments"], **table}
        _check_environment(f"environments.{case}", environments[case])
    for label, table in specification["policies"].items():
        _table(f"policies.{label}", table)
        kind = _known(f"policies.{label}.type", table.get("type"), policy_kinds())
        _only(f"key of policies.{label}", table, ["type", *_arguments(kind)])
        _check_values(f"policies.{label}", table)
    kinds = {table["type"] for table in specification["policies"].values()}
    common = {argument for kind in kinds for argument in _arguments(kind)}
    _only("key of shared.policies", shared["policies"], common)
    for case, table in environments.items():
        _only(f"key of environments.{case}.arguments", table.get("arguments", {}), common)
    _check_values("shared.policies", shared["policies"])
    build = Declared(environments, dict(specification["policies"]), shared["policies"], function)
    return {"cases": tuple(environments), "build": build, "labels": list(specification["policies"])}


def _arguments(kind: str) -> list[str]:
    return [name for name in arguments_of(policy_kinds()[kind]) if name not in GIVEN]


def _check_environment(name: str, table: Mapping[str, Any]) -> None:
    kind = _known(f"{name}.type", table.get("type"), ENVIRONMENTS)
    _only(f"key of {name}", table, [*BESIDES, *arguments_of(ENVIRONMENTS[kind])])
    _check_values(name, {key: value for key, value in table.items() if key != "noise"})
    noise = table.get("noise")
    if noise is not None and not (isinstance(noise, Mapping) and set(noise) <= {"share_of_range"} and noise):
        _check_values(name, {"noise": noise})


def _check_values(name: str, table: Mapping[str, Any]) -> None:
    """Kernels, spaces and noises in a table are made once, to see that they can be."""
    for key, value in table.items():
        inside = f"{name}.{key}"
        if not isinstance(value, Mapping) or "type" not in value:
            continue
        if value["type"] in ENVIRONMENTS:
            _check_environment(inside, value)
        elif value["type"] == "RandomPoints":
            _only(f"key of {inside}", value, ("type", "count", "bounds"))
        elif value["type"] == "GaussianNoise" and "variance" in value:
            _only(f"key of {inside}", value, ("type", "variance"))
        else:
            try:
                Specification.from_dict(value)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{inside}: {error}") from None


def _table(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        checks.refuse(name, value, f"a table: [{name}]")


def _list(name: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(part, str) for part in value):
        checks.refuse(name, value, f"a list of names: {name} = [...]")
    return value


def _only(name: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    known = list(known)
    for key in given:
        if key not in known:
            checks.refuse(name, key, nearest(str(key), known) if known else "none")


def _known(name: str, value: Any, known: Iterable[str]) -> str:
    if not isinstance(value, str) or value not in known:
        checks.refuse(name, value, nearest(str(value), known))
    return value
