"""Specifications: immutable descriptions of what is computed, convertible to and from plain dicts.

Kernels, spaces, noises and environments are specifications. They have no state, compare by value, can be pickled, and
are written to stores as JSON-ready dicts. Only classes of this package can be rebuilt from a dict, so that reading a
specification never executes foreign code.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib
import inspect
from abc import ABC
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

import attrs
import numpy as np

from scalable_bandits.checks import refuse
from scalable_bandits.identity import MAIN, body_of, described, function_name

T = TypeVar("T")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return text for an error message: the known word that is nearest to an unknown one, and all known words.

    Parameters
    ----------
    word
        Unknown word.
    known
        All known words.
    """
    names = sorted(set(known))
    close = difflib.get_close_matches(word, names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}known: {', '.join(names)}"


def check_name(argument: str, given: Any, known: Iterable[str]) -> str:
    """Return a given name that is known; a ValueError for another one suggests the nearest.

    Parameters
    ----------
    argument
        Name of the argument.
    given
        Its value.
    known
        All known names.
    """
    names = tuple(known)
    if not isinstance(given, str) or given not in names:
        refuse(argument, given, nearest(str(given), names))
    return given


def _fields(value: Any) -> dict[str, Any]:
    """Return the arguments of an attrs class with which an instance was made, by name."""
    if not attrs.has(type(value)):
        name = type(value).__name__
        raise TypeError(f"{name}: its arguments are not known; decorate the class with @attrs.frozen")
    return {field.alias: getattr(value, field.name) for field in attrs.fields(type(value)) if field.init}


def _listed(array: np.ndarray) -> Any:
    """Return an array as nested lists, in which None, which JSON has, stands for NaN."""
    if array.dtype.kind != "f" or not np.isnan(array).any():
        return array.tolist()
    return np.where(np.isnan(array), None, array).tolist()  # type: ignore[call-overload]


def plain(
    value: Any, array: Callable[[np.ndarray], Any] = _listed, *, named: bool = False, coded: bool = False
) -> Any:  # fmt: skip
    """Convert a specification, or a value inside one, to JSON-ready data.

    Parameters
    ----------
    value
        Specification, instance of another attrs class, number, string, array, or a list, tuple or dict of such values.
    array
        Function that converts an array (...,) of any shape. Default: to nested lists.
    named
        Whether functions and unknown objects are replaced by ``{"function": "module:name"}``.
    coded
        Whether functions whose name does not say all, such as lambdas, have a digest of their code besides.

    Raises
    ------
    TypeError
        If the value contains a function and `named` is not set, because code is never written to a specification.
    """
    own = isinstance(value, Describable) and not isinstance(value, type)
    if own or attrs.has(type(value)):
        arguments = value.parameters() if own else _fields(value)
        told = getattr(value, "identified", ()) if named else ()
        further = functools.partial(plain, array=array, named=named, coded=coded)
        return {
            "type": type_name(type(value)),
            **{key: described(each) if key in told else further(each) for key, each in arguments.items()},
        }
    if isinstance(value, Mapping):
        return {str(key): plain(each, array, named=named, coded=coded) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [plain(each, array, named=named, coded=coded) for each in value]
    if isinstance(value, np.ndarray) and value.ndim:
        return array(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.item()
    if named and not (value is None or isinstance(value, str | int | float | bool)):
        code = body_of(value) if coded else None
        return {"function": function_name(value), **({} if code is None else {"code": code})}
    if callable(value):
        raise TypeError(f"specification: got the function {value!r}; allowed: plain data")
    return value


def arguments_of(kind: type) -> list[str]:
    """Return the names of the arguments of a class, without those that ``*args`` and ``**kwargs`` take.

    Parameters
    ----------
    kind
        Class.
    """
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [name for name, each in inspect.signature(kind).parameters.items() if each.kind not in several]


def check_kept(name: str, value: Any) -> None:
    """Raise ValueError if an object of a class from elsewhere does not keep all arguments with which it was made.

    Parameters
    ----------
    name
        Name of the part of a run, for the message.
    value
        Policy, environment or another part.
    """
    kind = type(value)
    if not isinstance(value, Describable) or isinstance(value, type) or is_own(kind):
        return
    kept, hidden = value.parameters(), getattr(kind, "_not_in_data", ())
    lost = [argument for argument in arguments_of(kind) if argument not in kept and argument not in hidden]
    if lost:
        given = f"{kind.__name__}, of which the store would not know {', '.join(lost)}"
        refuse(name, given, "a class with attributes named like its arguments, or one made by @attrs.define")


def is_own(what: Any) -> bool:
    """Return whether a class or function is one of this package.

    Parameters
    ----------
    what
        Class or function.
    """
    return getattr(what, "__module__", "").partition(".")[0] == __name__.partition(".")[0]


def type_name(kind: type) -> str:
    """Return the name of a class in specifications: for one that is not of this package "module:name".

    Parameters
    ----------
    kind
        Class of a policy, environment, kernel, or other value.
    """
    return kind.__name__ if is_own(kind) else function_name(kind)


def imported(argument: str, name: str, what: str) -> Any:
    """Import what the user names.

    Parameters
    ----------
    argument
        Name of the user's argument.
    name
        Module and name, "module:name"; the name may have dots.
    what
        What it should be, for the error message.

    Raises
    ------
    ValueError
        If there is no such module, or nothing of this name in it.
    """
    module, _, inside = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in inside.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        refuse(argument, f"{name} ({error})", f"module:name of {what} that can be imported")
    return found


LARGE = 64  # numbers; larger arrays are stored as arrays, and a description contains only their digests

CODED = ("policy", "available")  # parts of a run whose functions, such as lambdas, are told apart by their code


def specify(parts: Mapping[str, Any], coded: Collection[str] = ()) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Describe the parts that define a run as plain data, with large arrays replaced by their digests.

    Parameters
    ----------
    parts
        Policy, environment and other parts, by name.
    coded
        Names of the parts of which functions are told apart by their code, too, such as lambdas of a script.

    Returns
    -------
    description : dict
        JSON-ready description.
    inputs : dict
        Arrays (...,) of any shape with more than `LARGE` numbers, by their digests.
    """
    inputs: dict[str, np.ndarray] = {}

    def shorten(array: np.ndarray) -> Any:
        if array.size <= LARGE:
            return _listed(array)
        whole = np.ascontiguousarray(array)
        digest = array_digest(whole)
        inputs[digest] = whole
        return {"array": digest, "shape": list(array.shape), "dtype": array.dtype.name}

    return {name: plain(value, shorten, named=True, coded=name in coded) for name, value in parts.items()}, inputs


def array_digest(array: np.ndarray) -> str:
    """Return the digest of an array's bytes, which identifies it in a description.

    Parameters
    ----------
    array
        Array (...,) of any shape.
    """
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).hexdigest()


def differences(stored: Any, given: Any, name: str = "") -> list[str]:
    """Compare two descriptions and return one line per field that differs.

    Parameters
    ----------
    stored, given
        Descriptions, as `specify` returns them.
    name
        Name of the described object, with which each line begins.
    """
    if isinstance(stored, Mapping) and isinstance(given, Mapping):
        return _of_mappings(stored, given, name)
    lists = isinstance(stored, list) and isinstance(given, list) and len(stored) == len(given)
    if lists and any(isinstance(each, Mapping) for each in given):
        pairs = enumerate(zip(stored, given, strict=True))
        return [line for i, (old, new) in pairs for line in differences(old, new, f"{name}[{i}]")]
    of_values = name.rpartition(".")[2].partition("[")[0] == "values"
    same = _are_equal(stored, given, of_values) or _may_be_one(name, stored, given)
    return [] if same else [f"{name}: stored {_shown(stored)}, given {_shown(given)}"]


def at_places(stored: Any, given: Any) -> Any:
    """Return a stored description with the places (`Specification.places`) of a given one without `differences`.

    Parameters
    ----------
    stored, given
        Descriptions, as `specify` returns them.
    """
    if isinstance(stored, Mapping) and isinstance(given, Mapping):
        places = getattr(REGISTRY.get(str(given.get("type"))), "places", ())
        return {k: given.get(k, v) if k in places else at_places(v, given.get(k)) for k, v in stored.items()}
    if isinstance(stored, list) and isinstance(given, list):
        return [at_places(*pair) for pair in zip(stored, given, strict=True)]
    return stored


def _of_mappings(stored: Mapping[str, Any], given: Mapping[str, Any], name: str, by_name: bool = False) -> list[str]:
    """Return the lines of two described objects, or of two dicts `by_name`, of which no key means anything."""
    inside, missing, lines = f"{name}." if name else "", object(), []
    usual = {} if by_name else _defaults(given.get("type"))  # parameters that are newer than the store had these values
    kind: Any = REGISTRY.get("" if by_name else str(given.get("type")), Specification)
    for key in [*stored, *(key for key in given if key not in stored)]:
        if key in getattr(kind, "places", ()):
            continue
        old, new = stored.get(key, usual.get(key, missing)), given.get(key, missing)
        if missing in (old, new):
            if by_name or not (key == "code" and "function" in stored and "function" in given):  # known by name in one
                lines += [f"{inside}{key}: stored {_shown(old, missing)}, given {_shown(new, missing)}"]
        elif key in getattr(kind, "by_name", ()) and isinstance(old, Mapping) and isinstance(new, Mapping):
            lines += _of_mappings(old, new, f"{inside}{key}", by_name=True)
            if set(old) == set(new) and list(old) != list(new):  # a point has no names
                lines += [f"{inside}{key}: stored in the order {', '.join(old)}; given: {', '.join(new)}"]
        else:
            lines += differences(old, new, f"{inside}{key}")
    return lines


def _are_equal(stored: Any, given: Any, typed: bool) -> bool:
    """Return whether two values are equal; True is not 1, and where they are `typed`, 1 is not 1.0."""
    if isinstance(stored, list) and isinstance(given, list):
        pairs = zip(stored, given, strict=False)
        return len(stored) == len(given) and all(_are_equal(old, new, typed) for old, new in pairs)
    alike = type(stored) is type(given) or not (typed or bool in (type(stored), type(given)))
    return alike and bool(stored == given)


def _may_be_one(name: str, stored: Any, given: Any) -> bool:
    """Return whether two names can mean one function or class: the same, but one from an interactive session."""
    last = name.rpartition(".")[2]
    if last not in ("function", "type") or not isinstance(stored, str) or not isinstance(given, str):
        return False
    (first, _, stored_name), (second, _, given_name) = stored.partition(":"), given.partition(":")
    return stored_name == given_name and MAIN in (first, second)


def _defaults(kind: Any) -> dict[str, Any]:
    """Return the described defaults of a specification's parameters, by name; an empty dict for other types."""
    known = REGISTRY.get(kind) if isinstance(kind, str) else None
    if known is None or not attrs.has(known):
        return {}
    fields = [field for field in attrs.fields(known) if field.init and not isinstance(field.default, attrs.Factory)]  # type: ignore[arg-type]
    return {field.alias: plain(field.default, named=True) for field in fields if field.default is not attrs.NOTHING}


def _shown(value: Any, missing: object = None) -> str:
    if missing is not None and value is missing:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


@runtime_checkable
class Describable(Protocol):
    """Object that plain data describe: a specification, or a policy."""

    def parameters(self) -> dict[str, Any]:
        """Return the arguments that rebuild this object, by name."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data (numbers, strings, lists, dicts) from which `rebuilt` makes this object again."""


REGISTRY: dict[str, type[Any]] = {}  # classes that plain data can name; foreign ones only after `allow`


def register(kind: type[Any]) -> None:
    """Let plain data name a class of this package; those of others are never rebuilt, unless the user allows it.

    Parameters
    ----------
    kind
        Class of a specification or a policy.
    """
    if is_own(kind):
        REGISTRY[kind.__name__] = kind


def allow(name: str) -> None:
    """Import a class of the user's, so that plain data can name it; no other class of another package can be named.

    Parameters
    ----------
    name
        Module and name of the class, "module:Class".

    Raises
    ------
    ValueError
        If it cannot be imported, or is no policy, environment, kernel, space or other specification.
    """
    kind = imported("classes", name, "a class")
    if not (isinstance(kind, type) and issubclass(kind, Describable)):
        refuse("classes", name, "module:Class of a policy, environment, kernel or other specification")
    REGISTRY[name] = kind


def rebuilt(data: Mapping[str, Any], base: type[T]) -> T:
    """Rebuild a specification or a policy from a dict.

    Parameters
    ----------
    data
        Dict as `to_dict` returns it, also after conversion to JSON and back.
    base
        Class that the result has, or a base of it.

    Raises
    ------
    ValueError
        If the type or a key is unknown (the message suggests the nearest one), or the type is not a `base`.
    """
    name = data.get("type", base.__name__)
    known = {n: k for n, k in REGISTRY.items() if issubclass(k, base) and _is_value(k)}
    concrete = {n: k for n, k in known.items() if k is base or not getattr(k, "runs_programs", False)}
    if not isinstance(name, str) or name not in concrete:
        refuse("type", name, known_types(name, concrete))
    kind = concrete[name]
    hidden, by_name = getattr(kind, "_not_in_data", ()), getattr(kind, "by_name", ())
    fields = [field for field in inspect.signature(kind).parameters if field not in hidden]
    if len(arguments_of(kind)) < len(inspect.signature(kind).parameters) and attrs.has(kind):  # those of its base class
        fields += [field.alias for field in attrs.fields(kind) if field.init and field.alias not in hidden]
    values = {key: _rebuild(value, key in by_name) for key, value in data.items() if key != "type"}
    for key in values:
        check_name(f"key of {name}", key, fields)
    found: T = kind(**values)
    return found


class Specification(ABC):  # noqa: B024 - subclasses declare their own abstract methods
    """Base class of specifications: conversion to and from dicts."""

    __slots__ = ()
    by_name: ClassVar[frozenset[str]] = frozenset()  # parameters that are dicts, in order, with names of the user's
    places: ClassVar[frozenset[str]] = frozenset()  # parameters that say where a thing is; others say which one it is
    identified: ClassVar[frozenset[str]] = frozenset()  # parameters with values of the user's, all told apart
    runs_programs: ClassVar[bool] = False  # whether it is made by `from_dict` of its own class alone

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register(cls)

    def parameters(self) -> dict[str, Any]:
        """Return the arguments that rebuild this object, by name."""
        return _fields(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data (numbers, strings, lists, dicts) from which `from_dict` rebuilds this object."""
        result: dict[str, Any] = plain(self)
        return result

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Make a fresh object from a dict, which `to_dict` returned, also after conversion to JSON and back.

        Raises
        ------
        ValueError
            If the type or a key is unknown (the message suggests the nearest one), or the type is not a `cls`.
        """
        return rebuilt(data, cls)


def known_types(name: Any, known: Iterable[str]) -> str:
    """Return text for an error message about the unknown type of a specification, like `nearest`.

    Parameters
    ----------
    name
        Unknown type.
    known
        Known types.
    """
    if isinstance(name, str) and ":" in name:
        return f"a class of this package; to import this one, allow it: --class {name}, or classes=[{name!r}]"
    return nearest(str(name), (each for each in known if ":" not in each))


def names_in(described: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys of a specification's dict whose values are dicts with names of the user's as keys.

    Parameters
    ----------
    described
        Dict that describes a specification, or any other.
    """
    kind = described.get("type")
    return getattr(REGISTRY.get(str(kind)), "by_name", frozenset())


def _is_value(kind: type) -> bool:
    """Return whether a class can be built from plain data: it has parameters and is not abstract."""
    described = attrs.has(kind) or getattr(kind, "parameters", None) is not Specification.parameters
    return described and not inspect.isabstract(kind) and kind is not Specification


def _rebuild(value: Any, by_name: bool = False) -> Any:
    """Rebuild the specifications in a value, or in a dict `by_name`, of which no key means anything; lists: tuples."""
    if isinstance(value, Mapping) and "type" in value and not by_name:
        return rebuilt(value, object)
    if isinstance(value, list):
        return tuple(_rebuild(v) for v in value)
    if isinstance(value, Mapping):
        return {key: _rebuild(each) for key, each in value.items()}
    return value
