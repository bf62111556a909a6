"""Refusals: every message names the argument, what was given and what is allowed."""

from __future__ import annotations

from typing import Any, NoReturn

import attrs
import numpy as np
from attrs import validators
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

positive: Any = validators.and_(validators.gt(0), validators.lt(float("inf")))
nonnegative: Any = validators.and_(validators.ge(0), validators.lt(float("inf")))
probability: Any = validators.and_(validators.gt(0), validators.lt(1))
seed: Any = validators.and_(validators.instance_of(int), validators.ge(0), validators.lt(2**64))


def instance_of(kind: type[Any]) -> Any:
    """Validator: an instance of a class, which may be abstract."""
    return validators.instance_of(kind)


def refuse(name: str, given: Any, allowed: str) -> NoReturn:
    """Raise the ValueError of a bad argument."""
    text = " ".join(repr(given).split())
    shown = text if len(text) <= 200 else f"{text[:200]}..."
    raise ValueError(f"{name}: got {shown}; allowed: {allowed}")


def integer(name: str, value: Any, minimum: int) -> int:
    """Check a whole number of Python's or numpy's (a truth value is none) and its lower bound."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < minimum:
        refuse(name, value, f"a whole number, at least {minimum}")
    return int(value)


def at_least(minimum: int, optional: bool = False) -> Any:
    """Converter of an attrs field to a whole number with a lower bound; None is kept where it is optional."""

    def convert(value: Any, field: attrs.Attribute[Any]) -> int | None:
        return None if optional and value is None else integer(field.name, value, minimum)

    return attrs.Converter(convert, takes_field=True)  # type: ignore[call-overload]


def _to_float(value: Any, field: attrs.Attribute[Any]) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        refuse(field.name, value, "a number")


# Converter of an attrs field to a float; what is no number is refused by the field's name.
number: Any = attrs.Converter(_to_float, takes_field=True)  # type: ignore[call-overload]


def finite(name: str, value: ArrayLike, ndim: int | None = None) -> Floats:
    """Convert to a float64 array that is finite and, if asked, of `ndim` dimensions."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        refuse(name, value, "numbers")
    if ndim is not None and array.ndim != ndim:
        refuse(name, f"an array of shape {array.shape}", f"{ndim} dimension(s)")
    if not np.isfinite(array).all():
        refuse(name, value if array.size < 10 else array[~np.isfinite(array)][0], "finite numbers")
    return array


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


def lengthscales(value: Any) -> float | tuple[float, ...]:
    """Converter: one positive lengthscale, or one a dimension."""
    array = finite("lengthscale", value)
    if array.ndim > 1 or not array.size or (array <= 0).any():
        refuse("lengthscale", value, "a positive number, or one a dimension")
    return float(array) if array.ndim == 0 else tuple(array.tolist())
