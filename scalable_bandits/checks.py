"""Refusals: every message names the argument, what was given and what is allowed; and warnings of the user's line."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NoReturn

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_OURS = (f"{Path(__file__).parent}{os.sep}", "<attrs generated")  # this package's files, and what attrs makes


def refuse(name: str, given: Any, allowed: str) -> NoReturn:
    """Raise the ValueError of a bad argument."""
    raise ValueError(_refusal(name, given, allowed))


def _refusal(name: str, given: Any, allowed: str) -> str:
    text = " ".join(repr(given).split())
    shown = text if len(text) <= 200 else f"{text[:200]}..."
    return f"{name}: got {shown}; allowed: {allowed}"


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the line outside of this package that led here, however many of its own calls lie between."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def deprecated(old: str, new: str) -> None:
    """Warn that a name is an old one, which the next version does without."""
    warn(f"{old} is deprecated and goes in version 0.3: use {new}", DeprecationWarning)


def kind(name: str, value: Any, expected: type[Any] | tuple[type[Any], ...], allowed: str) -> None:
    """Refuse a value that is no instance of a class, which may be abstract, or of one of several."""
    if not isinstance(value, expected):
        refuse(name, value, allowed)


def flag(name: str, value: Any) -> bool:
    """Check a truth value of Python's or numpy's."""
    kind(name, value, (bool, np.bool_), "True or False")
    return bool(value)


def integer(name: str, value: Any, minimum: int) -> int:
    """Check a whole number of Python's or numpy's (a truth value is none) and its lower bound."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < minimum:
        allowed = {0: "a non-negative integer", 1: "a positive integer"}
        refuse(name, value, allowed.get(minimum, f"an integer, at least {minimum}"))
    return int(value)


Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def instance_of(expected: type[Any], allowed: str) -> Validator:
    """Validator: an instance of a class, which may be abstract; TypeError for another."""

    def validate(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
        if not isinstance(value, expected):
            raise TypeError(_refusal(field.name, value, allowed))

    return validate


def whole(minimum: int, below: float = math.inf, optional: bool = False) -> Validator:
    """Validator of a whole number with a lower bound; None is fine where it is optional."""

    def validate(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
        if (value is None and optional) or integer(field.name, value, minimum) < below:
            return
        refuse(field.name, value, f"a whole number below {below:.3g}")

    return validate


def one_of(known: Collection[Any]) -> Validator:
    """Validator of a value that is one of a few."""

    def validate(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
        plain = value.item() if isinstance(value, np.generic) else value
        if not any(type(plain) is type(each) and plain == each for each in known):
            refuse(field.name, value, ", ".join(map(repr, known)))

    return validate


def to_int(value: Any) -> int:
    """Converter: numpy's integers become Python's; the validator sees to the rest."""
    result: int = int(value) if isinstance(value, np.integer) else value
    return result


def to_float(value: Any) -> float:
    """Converter: numbers become floats; what is none is left for the validator, which knows its name.

    A truth value or a text is none, though Python would make one of it.
    """
    if isinstance(value, bool | np.bool_ | str | bytes):
        left: float = value  # type: ignore[assignment]
        return left
    try:
        return float(value)
    except Exception:  # of other people's classes: torch raises a RuntimeError, an int too large an OverflowError
        result: float = value
        return result


def _between(low: float, high: float, allowed: str, also: tuple[float, ...] = ()) -> Validator:
    def validate(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
        if not isinstance(value, float) or not (low < value < high or value in also):
            refuse(field.name, value, allowed)

    return validate


number = _between(-math.inf, math.inf, "a finite number")
positive = _between(0.0, math.inf, "a positive number")
positive_or_infinite = _between(0.0, math.inf, "a positive number, or infinity", also=(math.inf,))
nonnegative = _between(0.0, math.inf, "zero or a positive number", also=(0.0,))
fraction = _between(0.0, 1.0, "a number from 0 to 1", also=(0.0, 1.0))
above_one = _between(1.0, math.inf, "a number above 1")
probability = _between(0.0, 1.0, "a number between 0 and 1, both excluded")


def finite(name: str, value: ArrayLike, ndim: int | None = None) -> Floats:
    """Convert to a float64 array that is finite and, if asked, of `ndim` dimensions."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except OverflowError:
        refuse(name, value, "finite numbers")
    except (TypeError, ValueError):
        refuse(name, value, "numbers")
    if not isinstance(value, float) and _of_texts(np.asarray(value)):
        refuse(name, value, "numbers")  # in quotes they are none
    if ndim is not None and array.ndim != ndim:
        refuse(name, f"an array of shape {array.shape}", f"{ndim} dimension(s)")
    if not np.isfinite(array).all():
        refuse(name, value if array.size < 10 else array[~np.isfinite(array)][0], "finite numbers")
    return array


def _of_texts(array: NDArray[Any]) -> bool:
    """Whether an array holds texts, as such or among objects."""
    return array.dtype.kind in "UST" or (
        array.dtype.kind == "O" and any(isinstance(each, str | bytes) for each in array.flat)
    )


def frozen(array: Floats) -> Floats:
    """A copy that nobody can change."""
    copy = array.copy(order="C")
    copy.flags.writeable = False
    return copy


def covariance(name: str, value: ArrayLike) -> Floats:
    """Check that a matrix is square, symmetric and positive semi-definite (up to rounding)."""
    matrix = finite(name, value, ndim=2)
    if matrix.shape[0] != matrix.shape[1] or not matrix.size:
        refuse(name, f"an array of shape {matrix.shape}", "a square matrix")
    scale = float(np.abs(matrix).max())
    asymmetry = float(np.abs(matrix - matrix.T).max())
    if asymmetry > 1e-10 * scale:
        refuse(name, f"a matrix with |K - K'| up to {asymmetry:.3g}", "a symmetric matrix")
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest < -1e-8 * scale * len(matrix):
        refuse(name, f"a matrix with eigenvalue {smallest:.3g}", "a positive semi-definite matrix")
    return matrix


def lengths(name: str, value: Any) -> float | tuple[float, ...]:
    """Convert one positive number, or one a dimension."""
    array = finite(name, value)
    if array.ndim > 1 or not array.size or (array <= 0).any():
        refuse(name, value, "a positive number, or one a dimension")
    return float(array) if array.ndim == 0 else tuple(array.tolist())
