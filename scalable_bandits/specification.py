"""Specifications: frozen values that go to and from plain dicts.

Kernels, spaces, noises and environments say *what* is computed and hold no state. They compare
by value, pickle, and are written into a store's attributes as JSON-ready dicts, from which
only classes of this package can be rebuilt: reading a specification runs nobody's code.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import sys
from abc import ABC
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import attrs
import numpy as np

from scalable_bandits.checks import refuse


def nearest(word: str, known: Iterable[str]) -> str:
    """Half a sentence for an error message: the nearest known word, and all of them.

    Parameters
    ----------
    word
        That is not known.
    known
        All that are.
    """
    names = sorted(set(known))
    close = difflib.get_close_matches(word, names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}known: {', '.join(names)}"


def parameters(value: Any) -> dict[str, Any] | None:
    """Arguments that would make a value anew, by name; None for a value that is no specification.

    Parameters
    ----------
    value
        Any.
    """
    if isinstance(value, Specification):
        return value.parameters()
    return _fields(value) if attrs.has(type(value)) else None


def _fields(value: Any) -> dict[str, Any]:
    return {field.alias: getattr(value, field.name) for field in attrs.fields(type(value)) if field.init}


def plain(value: Any, array: Callable[[np.ndarray], Any] = np.ndarray.tolist) -> Any:
    """Turn a specification, or a value inside one, into JSON-ready data.

    Parameters
    ----------
    value
        Of numbers, strings, arrays, and values with `parameters`.
    array
        What becomes of an array (...,) of any shape; lists, if not given.

    Raises
    ------
    TypeError
        If the value holds a function: code is never written into a specification.
    """
    arguments = parameters(value)
    if arguments is not None:
        return {"type": type(value).__name__, **{key: plain(v, array) for key, v in arguments.items()}}
    if isinstance(value, np.ndarray):
        return array(value) if value.ndim else value.item()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [plain(v, array) for v in value]
    if callable(value):
        raise TypeError(f"a specification holds plain data; got the function {value!r}")
    return value


def function_name(function: Any) -> str:
    """Where a function is defined, "module:name"; of another callable, its class.

    A script that runs is called after its file, so that the name is the one by which it can be imported.

    Parameters
    ----------
    function
        Of the user.
    """
    named = function if hasattr(function, "__qualname__") else type(function)
    module = named.__module__
    if module == MAIN:
        main = sys.modules[MAIN]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        module = spec.name if spec is not None else Path(file).stem if file else MAIN
    return f"{module}:{named.__qualname__}"


def describe(value: Any, array: Callable[[np.ndarray], Any] = np.ndarray.tolist) -> Any:
    """Like `plain`, for the record: a function or another object becomes ``{"function": "module:name"}``.

    Parameters
    ----------
    value, array
        As of `plain`.
    """
    arguments = parameters(value)
    if arguments is not None:
        return {"type": type(value).__name__, **{key: describe(v, array) for key, v in arguments.items()}}
    if isinstance(value, Mapping):
        return {str(key): describe(v, array) for key, v in value.items()}
    if isinstance(value, tuple | list):
        return [describe(v, array) for v in value]
    if value is None or isinstance(value, str | int | float | bool | np.ndarray | np.generic):
        return plain(value, array)
    return {"function": function_name(value)}


MAIN = "__main__"
LARGE = 64  # numbers; longer arrays are kept as arrays, and a description has their digests


def specify(parts: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Describe what makes a run, as plain data and the long arrays in it by their digests.

    Parameters
    ----------
    parts
        Policy, environment and the like, by name.

    Returns
    -------
    description : dict
        JSON-ready.
    inputs : dict
        Arrays (...,) of any shape, of more than `LARGE` numbers, by the digests that stand for them in the description.
    """
    inputs: dict[str, np.ndarray] = {}

    def shorten(array: np.ndarray) -> Any:
        if array.size <= LARGE:
            return array.tolist()
        whole = np.ascontiguousarray(array)
        digest = array_digest(whole)
        inputs[digest] = whole
        return {"array": digest, "shape": list(array.shape), "dtype": array.dtype.name}

    return {name: describe(value, shorten) for name, value in parts.items()}, inputs


def array_digest(array: np.ndarray) -> str:
    """Digest of an array's bytes, by which a description names it.

    Parameters
    ----------
    array
        Array (...,) of any shape.
    """
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).hexdigest()


def differences(stored: Any, given: Any, name: str = "") -> list[str]:
    """Where two descriptions differ, a line a field.

    Parameters
    ----------
    stored, given
        What `describe` gave.
    name
        Of what is described, for the lines.
    """
    if isinstance(stored, Mapping) and isinstance(given, Mapping):
        keys = [*stored, *(key for key in given if key not in stored)]
        inside = f"{name}." if name else ""
        missing = object()
        usual = _defaults(given.get("type"))  # a parameter that is newer than the store was at its default then
        pairs = ((key, stored.get(key, usual.get(key, missing)), given.get(key, missing)) for key in keys)
        return [
            line
            for key, old, new in pairs
            for line in (
                [f"{inside}{key}: stored {_shown(old, missing)}, given {_shown(new, missing)}"]
                if missing in (old, new)
                else differences(old, new, f"{inside}{key}")
            )
        ]
    return (
        []
        if stored == given or _may_be_one(name, stored, given)
        else [f"{name}: stored {_shown(stored)}, given {_shown(given)}"]
    )


def _may_be_one(name: str, stored: Any, given: Any) -> bool:
    """Whether two functions have the same name, and of one of them nobody knows the module: it was typed in."""
    if name.rpartition(".")[2] != "function" or not isinstance(stored, str) or not isinstance(given, str):
        return False
    (first, _, stored_name), (second, _, given_name) = stored.partition(":"), given.partition(":")
    return stored_name == given_name and MAIN in (first, second)


def _defaults(kind: Any) -> dict[str, Any]:
    """Described defaults of a specification's parameters, by name; none for what is no specification."""
    known = Specification._registry.get(kind) if isinstance(kind, str) else None
    if known is None or not attrs.has(known):
        return {}
    fields = [field for field in attrs.fields(known) if field.init and not isinstance(field.default, attrs.Factory)]  # type: ignore[arg-type]
    return {field.alias: describe(field.default) for field in fields if field.default is not attrs.NOTHING}


def _shown(value: Any, missing: object = None) -> str:
    if missing is not None and value is missing:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


class Specification(ABC):  # noqa: B024 - what its subclasses compute is theirs to name
    """Mixin of frozen attrs classes: `to_dict`, `from_dict`, and a registry by class name."""

    __slots__ = ()
    _registry: ClassVar[dict[str, type[Specification]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.partition(".")[0] == __name__.partition(".")[0]:  # nobody else's code is ever rebuilt
            Specification._registry[cls.__name__] = cls

    def parameters(self) -> dict[str, Any]:
        """Arguments that would make this anew, by name."""
        return _fields(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain data (numbers, strings, lists, dicts) from which `from_dict` rebuilds this."""
        result: dict[str, Any] = plain(self)
        return result

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a specification.

        Parameters
        ----------
        data
            What `to_dict` gave, also after a trip through JSON.

        Raises
        ------
        ValueError
            If the type or a key is unknown (the message suggests the nearest), or is not a `cls`.
        """
        values = {key: _rebuild(value) for key, value in data.items() if key != "type"}
        name = data.get("type", cls.__name__)
        concrete = {n: k for n, k in Specification._registry.items() if issubclass(k, cls) and _is_value(k)}
        if not isinstance(name, str) or name not in concrete:
            refuse("type", name, nearest(str(name), concrete))
        kind = concrete[name]
        fields = list(inspect.signature(kind).parameters)
        for key in values:
            if key not in fields:
                refuse(f"key of {name}", key, nearest(key, fields))
        return kind(**values)


def _is_value(kind: type) -> bool:
    """Whether a class can be made from plain data: it has parameters, and is not one of the abstract bases."""
    described = attrs.has(kind) or getattr(kind, "parameters", None) is not Specification.parameters
    return described and not inspect.isabstract(kind) and kind is not Specification


def _rebuild(value: Any) -> Any:
    if isinstance(value, Mapping) and "type" in value:
        return Specification.from_dict(value)
    if isinstance(value, list):
        return tuple(_rebuild(v) for v in value)
    return value
