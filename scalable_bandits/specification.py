"""Specifications: frozen values that go to and from plain dicts.

Kernels, spaces, noises and environments say *what* is computed and hold no state. They compare
by value, pickle, and are written into a store's attributes as JSON-ready dicts, from which
only classes of this package can be rebuilt: reading a specification runs nobody's code.
"""

from __future__ import annotations

import difflib
import inspect
from abc import ABC
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self

import attrs
import numpy as np

from scalable_bandits.checks import refuse


def nearest(word: str, known: Iterable[str]) -> str:
    """Half a sentence for an error message: the nearest known word, and all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}known: {', '.join(names)}"


def plain(value: Any) -> Any:
    """Turn a specification, or a value inside one, into JSON-ready data.

    Raises
    ------
    TypeError
        If the value holds a function: code is never written into a specification.
    """
    if attrs.has(type(value)):
        fields = {f.name: plain(getattr(value, f.name)) for f in attrs.fields(type(value)) if f.init}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, Callable):  # type: ignore[arg-type]
        raise TypeError(f"a specification holds plain data; got the function {value!r}")
    return value


def describe(value: Any) -> Any:
    """Like `plain`, for the record only: functions and other objects become their names."""
    if attrs.has(type(value)):
        fields = {f.alias: describe(getattr(value, f.name)) for f in attrs.fields(type(value)) if f.init}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, Mapping):
        return {str(key): describe(v) for key, v in value.items()}
    if isinstance(value, tuple | list):
        return [describe(v) for v in value]
    if value is None or isinstance(value, str | int | float | bool | np.ndarray | np.generic):
        return plain(value)
    return getattr(value, "__qualname__", None) or type(value).__qualname__


class Specification(ABC):  # noqa: B024 - what its subclasses compute is theirs to name
    """Mixin of frozen attrs classes: `to_dict`, `from_dict`, and a registry by class name."""

    __slots__ = ()
    _registry: ClassVar[dict[str, type[Specification]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.partition(".")[0] == __name__.partition(".")[0]:  # nobody else's code is ever rebuilt
            Specification._registry[cls.__name__] = cls

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
        fields = [f.name for f in attrs.fields(kind) if f.init]  # type: ignore[arg-type]
        for key in values:
            if key not in fields:
                refuse(f"key of {name}", key, nearest(key, fields))
        return kind(**values)


def _is_value(kind: type) -> bool:
    """Whether a class can be made from its fields: not one of the abstract bases."""
    return attrs.has(kind) and not inspect.isabstract(kind)


def _rebuild(value: Any) -> Any:
    if isinstance(value, Mapping) and "type" in value:
        return Specification.from_dict(value)
    if isinstance(value, list):
        return tuple(_rebuild(v) for v in value)
    return value
