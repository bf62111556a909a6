"""Parameters of a search space: the allowed values of one setting, in the user's units.

Inside the package a value is a number, float64: a real or whole number is itself, any other value is its position in
the list of allowed values. Models see coordinates instead, from 0 to 1 (`encode`), the logarithm taken first where the
parameter asks for it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces.axes import Axis
from scalable_bandits.specification import Specification

POSITIONAL = ("low", "high", "values")  # arguments without a name
FEW = 20  # largest number of values that are all neighbours of each other
SCALES = (-4.0, -0.7)  # decimal logarithms of the shortest and the longest random step of a continuous parameter

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

    Raises
    ------
    ValueError
        If `when` is not a dict of names and values.
    """

    by_name: ClassVar[frozenset[str]] = frozenset(["when"])
    identified: ClassVar[frozenset[str]] = frozenset(["when", "values"])

    when: Condition | None = attrs.field(default=None, converter=_condition)

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

    @property
    @abstractmethod
    def count(self) -> int | None:
        """Number of allowed values; None for a continuous parameter."""

    @property
    def first(self) -> float:
        """Number of the first value: the i-th value of a list, from 0, has the number `first` + i."""
        return 0.0

    @property
    def ordered(self) -> bool:
        """Whether values near each other in the list of allowed values are alike."""
        return True

    def lengthscale(self, length: float) -> str:
        """Return a lengthscale of the coordinate, which is from 0 to 1, in words and in the parameter's units."""
        return f"{length:.3g}"

    @property
    @abstractmethod
    def allowed(self) -> str:
        """Description of the allowed values, for messages."""

    @abstractmethod
    def number(self, name: str, value: Any) -> float:
        """Return the number of a value; ValueError, with the parameter's name, if the value is not allowed."""

    def has(self, numbers: Floats) -> NDArray[np.bool_]:
        """Return the mask (k,) of the numbers (k,) that are numbers of values."""
        assert self.count is not None
        return (numbers == np.floor(numbers)) & (numbers >= self.first) & (numbers < self.first + self.count)

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
            return np.array([value for i in range(self.count) if (value := self.first + i) != number])
        if self.count is not None and not self.ordered:
            found = self.spread(rng.random(FEW))
        else:
            u = float(self.encode(np.array([number]))[0])
            near: list[float] | Floats = []
            if self.count is not None:
                near = np.clip([number - 1.0, number + 1.0], self.first, self.first + self.count - 1.0)
            steps = 10.0 ** rng.uniform(*SCALES, size=4) * rng.standard_normal(4)
            away = self.decode(np.append(u + steps, [u - 0.1, u + 0.1]))
            found = np.concatenate([near, away, self.spread(rng.random(2))])
        return np.setdiff1d(found, [number])
