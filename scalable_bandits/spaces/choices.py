"""Parameters that are one of several values."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces.axes import Axis, choice_axis
from scalable_bandits.spaces.parameters import Parameter


def _values(given: Any) -> tuple[Any, ...]:
    """Convert a list of values to a tuple of Python objects; numpy scalars become numbers."""
    if isinstance(given, str | bytes | Mapping | set | frozenset) or not hasattr(given, "__iter__"):
        checks.refuse("values", given, "a list of values (a set or a dict has no order)")
    return tuple(each.item() if isinstance(each, np.generic) else each for each in given)


def _key(value: Any) -> tuple[bool, Any]:
    """Return what two equal values have in common: True is not 1, but 1.0 is."""
    plain = value.item() if isinstance(value, np.generic) else value
    return isinstance(plain, bool), plain


def _typed(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what two equal tuples of values have in common: 1 is not 1.0, which functions may take otherwise."""
    return tuple((type(value), value) for value in values)


@attrs.frozen(kw_only=True, repr=False)
class Choice(Parameter):
    """One of several values: base class of `Ordinal` and `Categorical`.

    Parameters
    ----------
    values
        Allowed values.
    when
        Values of other parameters under which this one exists; see `Parameter`.

    Raises
    ------
    ValueError
        If there is no value, or a value is there twice.
    """

    values: tuple[Any, ...] = attrs.field(kw_only=False, converter=_values, eq=_typed)

    def __attrs_post_init__(self) -> None:
        if not self.values:
            checks.refuse("values", list(self.values), "at least one value")
        seen = set()
        for value in self.values:
            if not isinstance(value, Hashable) or value != value:  # NaN is not equal to itself
                checks.refuse("values", value, "values that can be compared and hashed")
            if _key(value) in seen:
                checks.refuse("values", list(self.values), f"distinct values; {value!r} is there twice")
            seen.add(_key(value))

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def allowed(self) -> str:
        shown = [repr(value) for value in self.values[:12]]
        return f"one of {', '.join(shown)}{', ...' if self.count > len(shown) else ''}"

    def number(self, name: str, value: Any) -> float:
        """Return the position of a value; ValueError, with the parameter's name, if the value is not allowed."""
        if not isinstance(value, Hashable):
            checks.refuse(name, value, self.allowed)
        key = _key(value)
        for position, each in enumerate(self.values):
            if _key(each) == key:
                return float(position)
        return checks.refuse(name, value, f"{self.allowed}{self._nearest(value)}")

    def _nearest(self, value: Any) -> str:
        """Return text that names the allowed value nearest to one that is not allowed, or an empty string."""
        import difflib

        if isinstance(value, str):
            words = {each: each for each in self.values if isinstance(each, str)}
            close = difflib.get_close_matches(value, words, n=1)
        else:
            number = checks.to_float(value)
            numbers = [each for each in self.values if _is_number(each)]
            is_number = isinstance(number, float) and math.isfinite(number)
            close = sorted(numbers, key=lambda each: abs(each - number))[:1] if is_number else []
        return f"; the nearest is {close[0]!r}" if close else ""

    def value(self, number: float) -> Any:
        return self.values[round(number)]

    def spread(self, uniform: Floats) -> Floats:
        return np.minimum(np.floor(np.asarray(uniform) * self.count), self.count - 1.0)

    def axis(self, name: str) -> Axis:
        return choice_axis(name, [str(value) for value in self.values], self.ordered and self.count > 2)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@attrs.frozen(kw_only=True, repr=False)
class Ordinal(Choice):
    """One of several values that have an order.

    Parameters
    ----------
    values
        Allowed values, in order: neighbours are alike. The model sees positions, not sizes.
    when
        Values of other parameters under which this one exists; see `Parameter`.

    Raises
    ------
    ValueError
        If there is no value, or a value is there twice.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> sb.Ordinal([16, 32, 64, 128]).value(2.0)
    64
    """

    def lengthscale(self, length: float) -> str:
        return f"{length * (self.count - 1):.3g} steps"

    def encode(self, numbers: Floats) -> Floats:
        return np.asarray(numbers, dtype=np.float64) / max(self.count - 1, 1)

    def decode(self, coordinates: Floats) -> Floats:
        return np.clip(np.rint(np.asarray(coordinates) * (self.count - 1)), 0, self.count - 1)


@attrs.frozen(kw_only=True, repr=False)
class Categorical(Choice):
    """One of several values without an order.

    Parameters
    ----------
    values
        Allowed values: strings, numbers, None, or other objects that can be compared and hashed.
    when
        Values of other parameters under which this one exists; see `Parameter`.

    Raises
    ------
    ValueError
        If there is no value, or a value is there twice.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> sb.Categorical(["sqrt", "log2", None]).count
    3
    """

    @property
    def ordered(self) -> bool:
        return self.count <= 2

    def lengthscale(self, length: float) -> str:
        return f"{length:.3g} differences"

    def encode(self, numbers: Floats) -> Floats:
        return np.array(numbers, dtype=np.float64)

    def decode(self, coordinates: Floats) -> Floats:
        return np.clip(np.rint(coordinates), 0, self.count - 1)


@attrs.frozen(kw_only=True, repr=False)
class Boolean(Categorical):
    """True or False.

    Parameters
    ----------
    when
        Values of other parameters under which this one exists; see `Parameter`.

    Raises
    ------
    ValueError
        If `when` is not a dict of names and values.
    """

    values: tuple[Any, ...] = attrs.field(init=False, default=(False, True), eq=_typed)

    @property
    def allowed(self) -> str:
        return "True or False"
