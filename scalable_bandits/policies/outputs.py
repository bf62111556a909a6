"""Named outputs of a function, told together: the objective, and others that have to keep a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn, cast

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies.measurements import LARGEST
from scalable_bandits.specification import Specification, nearest


@attrs.frozen
class Limit(Specification):
    """Limit of an output.

    Parameters
    ----------
    limit
        Last value that is allowed, in units of the output.

    Raises
    ------
    ValueError
        If the limit is not a finite number.
    """

    SIGN: ClassVar[float]  # by which values are multiplied, so that larger ones are better
    WORDS: ClassVar[str]

    limit: float = attrs.field(converter=checks.to_float, validator=checks.number)

    def holds(self, value: Any) -> Any:
        """Return whether a value, or values (...,), in units of the output, keep the limit; NaN does not."""
        return self.SIGN * np.asarray(value) >= self.SIGN * self.limit

    def __str__(self) -> str:
        return f"{self.WORDS} {self.limit:.6g}"


@attrs.frozen
class AtMost(Limit):
    """Constraint: the output is at most `limit`.

    Parameters
    ----------
    limit
        Largest allowed value, in units of the output.

    Raises
    ------
    ValueError
        If the limit is not a finite number.

    Examples
    --------
    >>> bool(AtMost(50.0).holds(41.0))
    True
    """

    SIGN = -1.0
    WORDS = "at most"


@attrs.frozen
class AtLeast(Limit):
    """Constraint: the output is at least `limit`.

    Parameters
    ----------
    limit
        Smallest allowed value, in units of the output.

    Raises
    ------
    ValueError
        If the limit is not a finite number.

    Examples
    --------
    >>> bool(AtLeast(0.9).holds(0.85))
    False
    """

    SIGN = 1.0
    WORDS = "at least"


Told = Mapping[str, float | None] | Sequence[Mapping[str, float | None]]  # values by output, of one point or of several
ALLOWED = 'a dict of limits by output, such as {"latency": sb.AtMost(50), "accuracy": sb.AtLeast(0.9)}'


def check_limits(given: Any) -> dict[str, Limit]:
    """Return limits by name of their output; ValueError if they are none."""
    if not isinstance(given, Mapping) or not given:
        checks.refuse("constraints", given, ALLOWED)
    for name, limit in given.items():
        if not isinstance(name, str) or not name:
            checks.refuse("constraints", name, "names of outputs, which are texts")
        if not isinstance(limit, AtMost | AtLeast):
            checks.refuse(f"constraints[{name!r}]", limit, "sb.AtMost(number) or sb.AtLeast(number)")
    return dict(given)


class NotOutputs(ValueError):
    """Values are no dict with the outputs that a policy is told."""


class Outputs(NamedTuple):
    """Names of the outputs of a function, one of which is the objective.

    The others have limits, in the order of `limits`.
    """

    objective: str | None  # None: the only output that has no limit
    limits: Mapping[str, Limit]

    def check(self) -> None:
        """Raise ValueError unless the objective is the name of an output that has no limit, or None."""
        if self.objective is not None and (not isinstance(self.objective, str) or self.objective in self.limits):
            checks.refuse("objective", self.objective, "the name of an output that has no constraint")

    def oriented(self, beside: Floats) -> Floats:
        """Return the values (J,) of the other outputs in the sign in which larger is better."""
        return beside * [limit.SIGN for limit in self.limits.values()]

    def kept(self, beside: Floats) -> Any:
        """Return whether the other outputs keep all limits by their values (J,), or a mask (k,) for values (k, J)."""
        pairs = zip(self.limits.values(), beside.T, strict=True)
        return np.all([limit.holds(values) for limit, values in pairs], axis=0)

    def recorded(self, beside: Floats) -> dict[str, Any]:
        """Return the values (J,) of the other outputs as plain data, None for NaN: `result` of a ticket."""
        values = [None if value != value else value for value in beside.tolist()]
        return {"outputs": dict(zip(self.limits, values, strict=True))}

    def split(self, given: Any, argument: str) -> tuple[Floats, Floats]:
        """Return values (k,) of the objective and (k, J) of the other outputs; NaN where one was not measured.

        Parameters
        ----------
        given
            Dict of values by output, or a sequence of k dicts. None, or NaN, is a value that was not measured.
        argument
            Name of the argument, for messages.

        Raises
        ------
        NotOutputs
            If a dict or an output is missing, or a value is not a number.
        ValueError
            If a value is infinite or too large, or a dict has no value at all.
        """
        rows = [given] if isinstance(given, Mapping) else given
        if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in rows):
            _refuse(argument, given, f"a dict of values by output ({', '.join(self._names)}), or one for each point")
        values = np.array([self._values(cast(Mapping[str, Any], row), argument) for row in rows])
        return values[:, 0], values[:, 1:]

    @property
    def _names(self) -> list[str]:
        return [*([] if self.objective is None else [self.objective]), *self.limits]

    def _values(self, row: Mapping[str, Any], argument: str) -> list[float]:
        """Return the value of the objective and those of the other outputs."""
        for name in self._names:
            if name not in row:
                again = f"outputs with {name!r}, None where it was not measured"
                _refuse(argument, f"outputs {list(row)}", f"{again}; {nearest(name, row)}" if row else again)
        names = [self._objective_in(row, argument), *self.limits]
        found = [_number(f"{argument}[{name!r}]", row[name]) for name in names]
        if np.isnan(found).all():
            checks.refuse(argument, dict(row), "at least one value that was measured; or `tell_failure`")
        return found

    def _objective_in(self, row: Mapping[str, Any], argument: str) -> str:
        """Return the name of the objective, which may be the only output without a limit."""
        if self.objective is not None:
            return self.objective
        others = [name for name in row if name not in self.limits]
        if len(others) != 1:
            known = f"one output without a limit besides {', '.join(self.limits)}; or objective=, its name"
            _refuse(argument, f"outputs {list(row)}", known)
        return str(others[0])


def _refuse(name: str, given: Any, allowed: str) -> NoReturn:
    try:
        checks.refuse(name, given, allowed)
    except ValueError as error:
        raise NotOutputs(str(error)) from None


def _number(name: str, value: Any) -> float:
    """Return a value as a number, NaN for None."""
    if value is None:
        return np.nan
    found: Any = float(value) if isinstance(value, bool | np.bool_) else checks.to_float(value)
    if not isinstance(found, float):
        _refuse(name, value, "a number, or None where it was not measured")
    if abs(found) > LARGEST:
        checks.refuse(name, value, f"numbers up to {LARGEST:.0e} in size")
    return found + 0.0
