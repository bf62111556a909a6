"""Parameters of a search space: the allowed values of one setting, in the user's units.

Inside the package a value is a number, float64: a real or whole number is itself, any other value is its position in
the list of allowed values. Models see coordinates instead, from 0 to 1 (`encode`), the logarithm taken first where the
parameter asks for it.
"""

from __future__ import annotations

import difflib
import math
from abc import abstractmethod
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces.base import MOST, Axis, choice_axis
from scalable_bandits.specification import Specification

POSITIONAL = ("low", "high", "values")  # arguments without a name
FEW = 20  # largest number of values that are all neighbours of each other
SCALES = (-4.0, -0.7)  # decimal logarithms of the shortest and the longest random step of a continuous parameter
LARGEST = 2**53  # larger whole numbers are not all numbers of float64
_LISTS = (list, tuple, range, np.ndarray)
Condition = tuple[tuple[str, tuple[Any, ...]], ...]


def _condition(given: Any) -> Condition | None:
    """Convert ``{"name": value}`` or ``{"name": [values]}`` to pairs of a name and its values."""
    if given is None:
        return None
    pairs = given.items() if isinstance(given, Mapping) else given
    try:
        condition = tuple((name, tuple(v) if isinstance(v, _LISTS) else (v,)) for name, v in pairs)
    except (TypeError, ValueError):
        condition = ()
    for name, values in condition:
        if any(isinstance(value, set | frozenset) for value in values):
            checks.refuse(f"when, {name!r}", values[0], "a value or a list of values; a set has no order")
    if not condition or not all(isinstance(name, str) and values for name, values in condition):
        checks.refuse("when", given, 'a dict of names and values, such as {"booster": "tree"}')
    return tuple(sorted((name, tuple(sorted(values, key=repr))) for name, values in condition))  # equal in any order


def is_nothing(value: Any) -> bool:
    """Return whether a value is None or NaN, which tables of settings have where a parameter does not exist."""
    return value is None or (isinstance(value, float | np.floating) and bool(np.isnan(value)))


@attrs.frozen(kw_only=True, repr=False)
class Parameter(Specification):
    """Base class of parameters.

    Parameters
    ----------
    when
        Values of other parameters under which this one exists, such as ``{"booster": "tree"}`` or
        ``{"booster": ["tree", "dart"]}``; if not given, it exists always.

    Attributes
    ----------
    count : int or None
        Number of allowed values; None for a continuous parameter.
    first, last : float
        Numbers of the first and the last value: the i-th value of a list, from 0, has the number `first` + i.
    ordered : bool
        Whether values near each other in the list of allowed values are alike.

    Raises
    ------
    ValueError
        If `when` is not a dict of names and values.
    """

    whole: ClassVar[bool] = True  # whether all numbers are whole
    by_name: ClassVar[frozenset[str]] = frozenset(["when"])
    identified: ClassVar[frozenset[str]] = frozenset(["when", "values"])

    when: Condition | None = attrs.field(default=None, converter=_condition)
    count: int | None = attrs.field(init=False, eq=False)
    first: float = attrs.field(init=False, eq=False)
    last: float = attrs.field(init=False, eq=False)
    ordered: bool = attrs.field(init=False, eq=False, default=True)

    def _describe(self, **attributes: Any) -> None:
        """Set attributes that follow from the parameters; instances are frozen otherwise."""
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    def parameters(self) -> dict[str, Any]:
        given = {name: value for name, value in super().parameters().items() if name != "when"}
        if self.when is None:
            return given
        return {**given, "when": {name: values[0] if len(values) == 1 else values for name, values in self.when}}

    def __repr__(self) -> str:
        given = self.parameters()
        first = [repr(list(v) if isinstance(v, tuple) else v) for name, v in given.items() if name in POSITIONAL]
        named = [f"{name}={v!r}" for name, v in given.items() if name not in POSITIONAL and v is not False]
        return f"{type(self).__name__}({', '.join([*first, *named])})"

    @property
    def condition(self) -> str:
        """Description of `when`, for messages."""
        return " and ".join(f"{other!r} is {' or '.join(map(repr, values))}" for other, values in self.when or ())

    @abstractmethod
    def lengthscale(self, length: float) -> str:
        """Return a lengthscale of the coordinate, which is from 0 to 1, in words and in the parameter's units."""

    @property
    @abstractmethod
    def allowed(self) -> str:
        """Description of the allowed values, for messages."""

    @abstractmethod
    def number(self, name: str, value: Any) -> float:
        """Return the number of a value; ValueError, with the parameter's name, if the value is not allowed."""

    def has(self, numbers: Floats) -> NDArray[np.bool_]:
        """Return the mask (k,) of the numbers (k,) that are numbers of values."""
        inside = (numbers >= self.first) & (numbers <= self.last)
        return inside & (numbers == np.floor(numbers)) if self.whole else inside

    @abstractmethod
    def value(self, number: float) -> Any:
        """Return the value of a number, in the user's units and type."""

    @abstractmethod
    def encode(self, numbers: Floats) -> Floats:
        """Return the coordinates (k,) of numbers (k,): from 0 to 1, of an unordered parameter the position."""

    @abstractmethod
    def decode(self, coordinates: Floats) -> Floats:
        """Return the numbers (k,) of the allowed values nearest to coordinates (k,)."""

    @abstractmethod
    def spread(self, uniform: Floats) -> Floats:
        """Return numbers (k,) that are uniform on the parameter's scale, from uniform numbers (k,) in [0, 1)."""

    @abstractmethod
    def axis(self, name: str) -> Axis:
        """Return the parameter, under a name, as tables and pictures show it."""

    def neighbours(self, number: float, rng: np.random.Generator) -> Floats:
        """Return numbers (k,) of values near that of a number, without the number itself.

        All values of a short list; else the values next to it, a tenth of the scale away, and some random ones, or, of
        a continuous parameter, values at random distances.
        """
        if self.count is not None and self.count <= FEW:
            values = self.first + np.arange(self.count)
            return values[values != number]
        if self.count is not None and not self.ordered:
            found = self.spread(rng.random(FEW))
        else:
            u = float(self.encode(np.array([number]))[0])
            near: list[float] | Floats = []
            if self.count is not None:
                near = np.clip([number - 1.0, number + 1.0], self.first, self.last)
            steps = 10.0 ** rng.uniform(*SCALES, size=4) * rng.standard_normal(4)
            away = self.decode(np.append(u + steps, [u - 0.1, u + 0.1]))
            found = np.concatenate([near, away, self.spread(rng.random(2))])
        return np.setdiff1d(found, [number])


# ---- numbers between two ends


def _flag(value: Any) -> Any:
    return bool(value) if isinstance(value, np.bool_) else value


def _to_whole(value: Any) -> Any:
    """Convert an integer, also one that is a float such as 1e3, to an int; return other values unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else checks.to_int(value)


def _whole(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not abs(value) < LARGEST:
        checks.refuse(field.name, value, f"a whole number below 2^53 = {LARGEST:.3g} in size; Real for others")


@attrs.frozen(kw_only=True, repr=False)
class Range(Parameter):
    """Number between two ends: base class of `Real` and `Integer`.

    Parameters
    ----------
    low, high
        Ends, both allowed. Equal ends are a parameter with one value.
    log
        Whether ratios matter, not differences: the model sees the logarithm.
    when
        Values of other parameters under which this one exists; see `Parameter`.

    Raises
    ------
    ValueError
        If low is above high, or low is not positive with `log`.
    """

    noun: ClassVar[str]

    low: Any = attrs.field(kw_only=False)
    high: Any = attrs.field(kw_only=False)
    log: bool = attrs.field(default=False, converter=_flag, validator=checks.instance_of(bool, "True or False"))

    def __attrs_post_init__(self) -> None:
        if not self.low <= self.high:
            checks.refuse("high", self.high, f"a number of at least low={self.low}")
        if self.log and not self.low > 0:
            checks.refuse("low", self.low, "a positive number with log=True")
        if not math.isfinite(self.high - self.low) or (self.log and not math.isfinite(self.high / self.low)):
            checks.refuse("high", self.high, "a range that does not overflow")
        several = self.high - self.low + 1 if self.whole else None
        count = 1 if self.low == self.high else several
        self._describe(count=count, first=float(self.low), last=float(self.high))

    @property
    def allowed(self) -> str:
        return f"{self.noun} from {self.low!r} to {self.high!r}"

    def number(self, name: str, value: Any) -> float:
        """Return a value as a float; ValueError, with the parameter's name, if the value is not allowed."""
        number = checks.to_float(value)
        if not isinstance(number, float) or not math.isfinite(number):
            checks.refuse(name, value, self.allowed)
        nearest = self.value(min(max(number, self.low), self.high))
        if nearest != number:
            checks.refuse(name, value, f"{self.allowed}; the nearest is {nearest!r}")
        return number

    def _unscaled(self, coordinates: Floats, low: float, high: float) -> Floats:
        """Return the numbers (k,) at places (k,) between two ends, on the parameter's scale."""
        if self.log:
            return np.asarray(low * np.exp(coordinates * math.log(high / low)))
        return low + coordinates * (high - low)

    def lengthscale(self, length: float) -> str:
        if self.log:
            return f"a factor of {math.exp(min(length * math.log(self.high / self.low), 700.0)):.3g}"
        return f"{length * (self.high - self.low):.3g}"

    def encode(self, numbers: Floats) -> Floats:
        if self.low == self.high:
            return np.zeros(len(numbers))
        if self.log:
            return np.clip(np.log(numbers / self.low) / math.log(self.high / self.low), 0.0, 1.0)
        return np.clip((numbers - self.low) / (self.high - self.low), 0.0, 1.0)

    def decode(self, coordinates: Floats) -> Floats:
        u = np.clip(np.asarray(coordinates, dtype=np.float64), 0.0, 1.0)
        if self.count == 1:
            return np.full(u.shape, self.first)
        inside = self._unscaled(u, self.low, self.high)
        if not self.whole:
            return np.where(u == 0.0, self.low, np.where(u == 1.0, self.high, np.clip(inside, self.low, self.high)))
        near = np.clip(np.floor(inside), self.low, self.high - 1)
        return near + (u > 0.5 * (self.encode(near) + self.encode(near + 1.0)))

    def spread(self, uniform: Floats) -> Floats:
        if not self.whole:
            return self.decode(uniform)
        u = np.asarray(uniform, dtype=np.float64)
        return np.clip(np.floor(self._unscaled(u, self.low - 0.5, self.high + 0.5) + 0.5), self.low, self.high)

    def axis(self, name: str) -> Axis:
        values: Floats | None = None
        if self.count is not None and self.count <= MOST:
            values = self.low + np.arange(self.count, dtype=np.float64)
        elif self.count is not None:
            values = np.unique(self.decode(np.linspace(0.0, 1.0, MOST)))
        return Axis(name, float(self.low), float(self.high), self.log, values)


@attrs.frozen(kw_only=True, repr=False)
class Real(Range):
    """Real number between two ends.

    Parameters
    ----------
    low, high
        Ends, both allowed. Equal ends are a parameter with one value.
    log
        Whether ratios matter, not differences: the model sees the logarithm.
    when
        Values of other parameters under which this one exists; see `Parameter`.

    Raises
    ------
    ValueError
        If an end is not finite, low is above high, or low is not positive with `log`.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> sb.Real(1e-4, 1e-1, log=True).decode([0.0, 0.5, 1.0]).round(6).tolist()
    [0.0001, 0.003162, 0.1]
    """

    noun: ClassVar[str] = "a number"
    whole: ClassVar[bool] = False

    low: float = attrs.field(kw_only=False, converter=checks.to_float, validator=checks.number)
    high: float = attrs.field(kw_only=False, converter=checks.to_float, validator=checks.number)

    def value(self, number: float) -> float:
        return float(number)


@attrs.frozen(kw_only=True, repr=False)
class Integer(Range):
    """Whole number between two ends.

    Parameters
    ----------
    low, high
        Ends, both allowed. Equal ends are a parameter with one value.
    log
        Whether ratios matter, not differences: the model sees the logarithm.
    when
        Values of other parameters under which this one exists; see `Parameter`.

    Raises
    ------
    ValueError
        If an end is not an integer below 2^53 in absolute value, low is above high, or low is not positive with
        `log`.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> sb.Integer(1, 12).decode([0.0, 0.5, 1.0]).tolist()
    [1.0, 6.0, 12.0]
    """

    noun: ClassVar[str] = "a whole number"

    low: int = attrs.field(kw_only=False, converter=_to_whole, validator=_whole)
    high: int = attrs.field(kw_only=False, converter=_to_whole, validator=_whole)

    def value(self, number: float) -> int:
        return round(number)


# ---- one of several values


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

    ranked: ClassVar[bool] = False  # whether the order of the values means something

    values: tuple[Any, ...] = attrs.field(kw_only=False, converter=_values, eq=_typed)
    _positions: dict[tuple[bool, Any], float] = attrs.field(init=False, factory=dict, eq=False)  # by `_key`
    _steps: int = attrs.field(init=False, eq=False)  # number of positions that are one unit of the coordinate

    def __attrs_post_init__(self) -> None:
        if not self.values:
            checks.refuse("values", list(self.values), "at least one value")
        for i, value in enumerate(self.values):
            if not isinstance(value, Hashable) or value != value:  # NaN is not equal to itself
                checks.refuse("values", value, "values that can be compared and hashed")
            if self._positions.setdefault(_key(value), float(i)) != i:
                checks.refuse("values", list(self.values), f"distinct values; {value!r} is there twice")
        count = len(self.values)
        steps = max(count - 1, 1) if self.ranked else 1
        self._describe(count=count, first=0.0, last=count - 1.0, ordered=self.ranked or count <= 2, _steps=steps)

    @property
    def allowed(self) -> str:
        shown = [repr(value) for value in self.values[:12]]
        return f"one of {', '.join(shown)}{', ...' if len(self.values) > len(shown) else ''}"

    def number(self, name: str, value: Any) -> float:
        """Return the position of a value; ValueError, with the parameter's name, if the value is not allowed.

        NaN, which tables have in the place of None, is None.
        """
        try:
            position = self._positions.get(_key(None if is_nothing(value) else value))
        except TypeError:  # it cannot be hashed
            position = None
        if position is None:
            checks.refuse(name, value, f"{self.allowed}{self._nearest(value)}")
        return position

    def _nearest(self, value: Any) -> str:
        """Return text that names the allowed value nearest to one that is not allowed, or an empty string."""
        close: list[Any]
        if isinstance(value, str):
            close = difflib.get_close_matches(value, [each for each in self.values if isinstance(each, str)], n=1)
        else:
            number = checks.to_float(value)
            numbers = [each for each in self.values if isinstance(each, int | float) and not isinstance(each, bool)]
            is_number = isinstance(number, float) and math.isfinite(number)
            close = sorted(numbers, key=lambda each: abs(each - number))[:1] if is_number else []
        return f"; the nearest is {close[0]!r}" if close else ""

    def value(self, number: float) -> Any:
        return self.values[round(number)]

    def encode(self, numbers: Floats) -> Floats:
        return np.asarray(numbers, dtype=np.float64) / self._steps

    def decode(self, coordinates: Floats) -> Floats:
        return np.clip(np.rint(np.asarray(coordinates) * self._steps), 0.0, self.last)

    def spread(self, uniform: Floats) -> Floats:
        return np.minimum(np.floor(np.asarray(uniform) * len(self.values)), self.last)

    def axis(self, name: str) -> Axis:
        return choice_axis(name, [str(value) for value in self.values], self.ordered and len(self.values) > 2)


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

    ranked: ClassVar[bool] = True

    def lengthscale(self, length: float) -> str:
        return f"{length * self._steps:.3g} steps"


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

    def lengthscale(self, length: float) -> str:
        return f"{length:.3g} differences"


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

    allowed: ClassVar[str] = "True or False"

    values: tuple[Any, ...] = attrs.field(init=False, default=(False, True), eq=_typed)
