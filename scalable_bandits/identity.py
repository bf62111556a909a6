"""Identity of values that JSON does not have: text that is equal for equal values, in every process.

Types are part of it: 1, 1.0 and True differ. Functions and classes that can be imported are their names; a lambda, a
function inside another one and one of a running script are their code, with the values that it refers to.
"""

from __future__ import annotations

import dis
import hashlib
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path, PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

MAIN = "__main__"
PLAIN = (type(None), bool, int, float, complex, str, bytes)  # whose repr says everything
DATA = (*PLAIN, tuple, list, dict, set, frozenset, FunctionType, BuiltinFunctionType, type, ModuleType, Enum, PurePath)
LONGEST = 100  # characters; longer texts are shown by their digest
Outer = tuple[Any, ...]  # the values inside which a value is: one that contains itself is not followed


def described(value: Any) -> Any:
    """Describe the user's own values, also inside lists and dicts, as JSON-ready data that differ for each.

    Parameters
    ----------
    value
        Any object. Of what JSON does not have, the name of function or class is there, and where that does not say
        all, its code or identity; None for an object that cannot be described.
    """
    if isinstance(value, np.generic) and isinstance(value.item(), bool | int | float | str):
        value = value.item()
    if type(value) in (type(None), bool, int, float, str):
        return value
    if isinstance(value, Mapping):
        return {str(key): described(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [described(each) for each in value]
    name, code, identity = function_name(value), code_of(value), identity_of(value)
    if code is not None:
        return {"function": name, "code": code} if code else {"function": name, "identity": None}
    return {"function": name} if identity == name else {"function": name, "identity": identity}


def undescribed(plain: Any, name: str = "") -> str | None:
    """Return the name of a value in a description that cannot be told from others; None without such a value.

    Parameters
    ----------
    plain
        Description, as `described` returns it, also inside others.
    name
        Name of the described object, with which that of the value begins.
    """
    if isinstance(plain, Mapping) and set(plain) == {"function", "identity"}:
        return f"{name} ({plain['function']})" if plain["identity"] is None else None
    if isinstance(plain, list):
        foreign = [each for each in plain if isinstance(each, Mapping) and "identity" in each]
        twice = [each for i, each in enumerate(foreign) if each in foreign[:i]]  # which Python tells apart, by address
        if twice:
            return f"{name} ({twice[0]['function']})"
    inside = plain.items() if isinstance(plain, Mapping) else enumerate(plain) if isinstance(plain, list) else ()
    return next((found for key, each in inside if (found := undescribed(each, f"{name}.{key}".strip(".")))), None)


def identity_of(value: Any) -> str | None:
    """Return text that tells a value from all others; None if the value cannot be described.

    Parameters
    ----------
    value
        Any object: its text is made from what pickle would write of it, without addresses or an order of sets.

    Examples
    --------
    >>> from decimal import Decimal
    >>> identity_of(Decimal("0.10"))
    "decimal:Decimal['0.10']"
    """
    try:
        text = _text(value, ())
    except Exception:  # what pickle does not take: a lock, an open file; and whatever an object's own methods raise
        return None
    return text if len(text) <= LONGEST else _digest(text)


def code_of(function: Any) -> str | None:
    """Return the digest of a function's code, and of what it refers to; None if it is known by its name alone.

    Parameters
    ----------
    function
        Any object. Functions that can be imported by their name, but for those of the running script, have none.
    """
    if not isinstance(function, FunctionType) or (function.__module__ != MAIN and _is_importable(function)):
        return None
    try:
        return f"{sys.implementation.cache_tag} {_digest(_function(function, (function,)))}"
    except Exception:  # it refers to something that cannot be described
        return ""


def body_of(function: Any) -> str | None:
    """Return the digest of a function's code without what it refers to, which may change; None as for `code_of`.

    Parameters
    ----------
    function
        Any object.
    """
    if not isinstance(function, FunctionType) or (function.__module__ != MAIN and _is_importable(function)):
        return None
    return f"{sys.implementation.cache_tag} {_digest(_code(function.__code__))}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def function_name(function: Any) -> str:
    """Return the import name of a function as "module:name"; for another callable, that of its class.

    The module of a running script is named after its file, so that the function can be imported by this name.

    Parameters
    ----------
    function
        Function or other callable of the user.
    """
    named = function if hasattr(function, "__qualname__") and hasattr(function, "__module__") else type(function)
    module = named.__module__
    if module == MAIN:
        main = sys.modules[MAIN]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        module = spec.name if spec is not None else Path(file).stem if file else MAIN
    return f"{module}:{named.__qualname__}"


def _is_importable(value: Any) -> bool:
    found: Any = sys.modules.get(getattr(value, "__module__", None) or "")
    for part in getattr(value, "__qualname__", "").split("."):
        found = getattr(found, part, None)
    return found is value


def _text(value: Any, outer: Outer) -> str:
    """Return the text of a value inside others; raise an error if it has no text that tells it from others."""
    for depth, each in enumerate(outer):
        if each is value:
            return f"<{depth}>"
    inside, kind = (*outer, value), type(value)
    if kind in PLAIN:
        return repr(value)
    if isinstance(value, Enum) and value.name is not None:
        return f"{function_name(kind)}.{value.name}"
    if isinstance(value, PurePath):
        return f"{function_name(kind)}({str(value)!r})"
    if isinstance(value, ModuleType):
        return value.__name__
    if kind in (list, tuple, dict):
        return _several(value, inside)
    if kind in (set, frozenset):
        return f"{kind.__name__}{{{', '.join(sorted(_text(each, inside) for each in value))}}}"
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        data = np.ascontiguousarray(value)
        return f"array{data.shape}{data.dtype.str}{hashlib.blake2b(data.tobytes(), digest_size=16).hexdigest()}"
    if isinstance(value, type) or not isinstance(value, FunctionType):
        return (
            function_name(value)
            if hasattr(value, "__qualname__") and _is_importable(value)
            else _reduced(value, inside)
        )
    return function_name(value) if code_of(value) is None else _function(value, inside)


def _several(values: Any, outer: Outer) -> str:
    if isinstance(values, Mapping):
        return f"{{{', '.join(sorted(f'{_text(key, outer)}: {_text(each, outer)}' for key, each in values.items()))}}}"
    return f"{type(values).__name__}[{', '.join(_text(each, outer) for each in values)}]"


def _reduced(value: Any, outer: Outer) -> str:
    """Return the text of what pickle would write of an object."""
    reduced = value.__reduce_ex__(4)
    if isinstance(reduced, str):  # the name of a global
        if getattr(sys.modules.get(value.__module__), reduced, None) is not value:
            raise TypeError(f"{value!r} is not {reduced} of {value.__module__}")
        return f"{value.__module__}:{reduced}"
    make, arguments, *state = reduced
    state = [list(each) if hasattr(each, "__next__") else each for each in state]  # lists and dicts give iterators
    if getattr(make, "__name__", "") == "__newobj__":
        make, *arguments = arguments
    while state and state[-1] is None:
        state.pop()
    parts = [_text(each, outer) for each in (*arguments, *state)]
    return f"{_text(make, outer)}[{', '.join(parts)}]"


def _function(function: FunctionType, outer: Outer) -> str:
    """Return the text of a function: its code, its defaults, and the values that it refers to."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    names = sorted(_globals(function.__code__) & function.__globals__.keys())
    known = [(name, function.__globals__[name]) for name in names]
    data = [
        f"{name}={_text(each, outer) if isinstance(each, DATA) else function_name(type(each))}" for name, each in known
    ]
    given = [cells, function.__defaults__, function.__kwdefaults__]
    return f"{function_name(function)}{_code(function.__code__)}{_text(given, outer)}{{{', '.join(data)}}}"


def _globals(code: CodeType) -> set[str]:
    """Return the names of the globals that a function's code reads."""
    found = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return found.union(*(_globals(each) for each in code.co_consts if isinstance(each, CodeType)))


def _code(code: CodeType) -> str:
    """Return the text of code, without the place where it stands."""
    constants = [_code(each) if isinstance(each, CodeType) else _text(each, ()) for each in code.co_consts]
    rest = (code.co_names, code.co_freevars, code.co_argcount, code.co_kwonlyargcount, code.co_flags)
    return f"{code.co_code.hex()}({', '.join(constants)}){rest}{code.co_exceptiontable.hex()}"
