"""Parameters that are numbers between two ends."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces.axes import MOST, Axis
from scalable_bandits.spaces.parameters import Parameter

LARGEST = 2**53  # larger whole numbers are not all numbers of float64


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

    low: Any = attrs.field(kw_only=False)
    high: Any = attrs.field(kw_only=False)
    log: bool = attrs.field(default=False, converter=_flag, validator=checks.instance_of(bool, "True or False"))

    def __attrs_post_init__(self) -> None:
        if not self.low <= self.high:
            checks.refuse("high", self.high, f"a number of at least low={self.low}")
        if self.log and not self.low > 0:
            checks.refuse("low", self.low, "a positive number with log=True")

    @property
    def first(self) -> float:
        return float(self.low)

    @property
    def allowed(self) -> str:
        return f"from {self.low!r} to {self.high!r}"

    def _refuse_outside(self, name: str, value: Any, number: float) -> None:
        if not self.low <= number <= self.high:
            nearest = self.value(min(max(number, self.low), self.high))
            checks.refuse(name, value, f"{self.allowed}; the nearest is {nearest!r}")

    def _scaled(self, numbers: Floats, low: float, high: float) -> Floats:
        """Return the place (k,) of numbers (k,) between two ends, on the parameter's scale."""
        if self.log:
            return np.asarray(np.log(numbers / low) / math.log(high / low))
        return (numbers - low) / (high - low)

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
        return np.clip(self._scaled(numbers, self.low, self.high), 0.0, 1.0)

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

    low: float = attrs.field(kw_only=False, converter=checks.to_float, validator=checks.number)
    high: float = attrs.field(kw_only=False, converter=checks.to_float, validator=checks.number)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not math.isfinite(self.high - self.low) or (self.log and not math.isfinite(self.high / self.low)):
            checks.refuse("high", self.high, "a range that does not overflow")

    @property
    def count(self) -> int | None:
        return 1 if self.low == self.high else None

    def number(self, name: str, value: Any) -> float:
        number = checks.to_float(value)
        if not isinstance(number, float) or not math.isfinite(number):
            checks.refuse(name, value, f"a number {self.allowed}")
        self._refuse_outside(name, value, number)
        return number

    def has(self, numbers: Floats) -> NDArray[np.bool_]:
        return (numbers >= self.low) & (numbers <= self.high)

    def value(self, number: float) -> float:
        return float(number)

    def decode(self, coordinates: Floats) -> Floats:
        u = np.clip(np.asarray(coordinates, dtype=np.float64), 0.0, 1.0)
        inside = np.clip(self._unscaled(u, self.low, self.high), self.low, self.high)
        return np.where(u == 0.0, self.low, np.where(u == 1.0, self.high, inside))

    def spread(self, uniform: Floats) -> Floats:
        return self.decode(uniform)


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

    low: int = attrs.field(kw_only=False, converter=_to_whole, validator=_whole)
    high: int = attrs.field(kw_only=False, converter=_to_whole, validator=_whole)

    @property
    def count(self) -> int:
        return self.high - self.low + 1

    @property
    def allowed(self) -> str:
        return f"a whole number {super().allowed}"

    def number(self, name: str, value: Any) -> float:
        number = checks.to_float(value)
        if not isinstance(number, float) or not math.isfinite(number):
            checks.refuse(name, value, self.allowed)
        self._refuse_outside(name, value, number)
        if number != math.floor(number):
            checks.refuse(name, value, f"{self.allowed}; the nearest is {round(number)}")
        return number

    def value(self, number: float) -> int:
        return round(number)

    def decode(self, coordinates: Floats) -> Floats:
        u = np.clip(np.asarray(coordinates, dtype=np.float64), 0.0, 1.0)
        if self.count == 1:
            return np.full(u.shape, float(self.low))
        near = np.floor(self._unscaled(u, self.low, self.high))
        near = np.clip(near, self.low, self.high - 1)
        return near + (u > 0.5 * (self.encode(near) + self.encode(near + 1.0)))

    def spread(self, uniform: Floats) -> Floats:
        u = np.asarray(uniform, dtype=np.float64)
        return np.clip(np.floor(self._unscaled(u, self.low - 0.5, self.high + 0.5) + 0.5), self.low, self.high)
