"""Named outputs of a function, told together: one or several objectives, and others that have to keep a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn, cast

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies.measurements import LARGEST
from scalable_bandits.specification import Specification, nearest


class Output(Specification):
    """What is wanted of an output besides the first objective: base class of limits and of further objectives."""

    SIGN: ClassVar[float]  # by which values are multiplied, so that larger ones are better

    def holds(self, value: Any) -> Any:
        """Return whether a value, or values (...,), in units of the output, are allowed; NaN is not."""
        return ~np.isnan(np.asarray(value, dtype=np.float64))


class Minimized(Output):
    """A further objective, which is minimised."""

    SIGN = -1.0


class Maximized(Output):
    """A further objective, which is maximised."""

    SIGN = 1.0


@attrs.frozen
class Limit(Output):
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


class Margin(NamedTuple):
    """What a policy believes of one constraint at a point."""

    output: str
    limit: Limit
    mean: float  # posterior mean of the output, in its units
    std: float  # posterior standard deviation, in its units
    probability: float  # that the output keeps its limit
    measured: bool = True  # whether the output was measured there

    @property
    def missed_by(self) -> float:
        """By how much the mean misses the limit, in units of the output; 0 where it keeps it; NaN if not measured."""
        return float(np.maximum(self.limit.SIGN * (self.limit.limit - self.mean), 0.0))


Told = Mapping[str, float | None] | Sequence[Mapping[str, float | None]]  # values by output, of one point or of several
DIRECTIONS = {"minimize": Minimized(), "maximize": Maximized()}
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


def limits_if_any(given: Any) -> dict[str, Limit]:
    """Return limits by name of their output, which may be none."""
    return {} if given is None or given == {} else check_limits(given)


def check_objectives(given: Any) -> dict[str, str] | tuple[str, ...]:
    """Return objectives: names, or directions by name; ValueError if they are not at least two."""
    allowed = (
        'names of two outputs or more, such as ["loss", "seconds"], or a dict with "minimize" or "maximize" of each'
    )
    if isinstance(given, str) or not isinstance(given, Mapping | Sequence) or len(given) < 2:
        checks.refuse("objectives", given, allowed)
    if not all(isinstance(name, str) and name for name in given) or len(set(given)) < len(given):
        checks.refuse("objectives", given, allowed)
    if isinstance(given, Mapping):
        for name, direction in given.items():
            if direction not in DIRECTIONS:
                checks.refuse(f"objectives[{name!r}]", direction, '"minimize" or "maximize"')
        return dict(given)
    return tuple(given)


def directions_of(objectives: Mapping[str, str] | Sequence[str], minimize: bool) -> dict[str, str]:
    """Return the directions of objectives by name: those given, or for names alone that of `minimize`."""
    if isinstance(objectives, Mapping):
        return dict(objectives)
    return dict.fromkeys(objectives, "minimize" if minimize else "maximize")


class NotOutputs(ValueError):
    """Values are no dict with the outputs that a policy is told."""


class Outputs(NamedTuple):
    """Names of the outputs of a function, one of which is the objective, or the first of several."""

    objective: str | None  # None: the only output that is not one of the others
    others: Mapping[str, Output]  # further objectives and limits, in the order in which values (J,) have them

    @classmethod
    def stored(cls, policy: Mapping[str, Any]) -> Outputs:
        """Return the outputs of a policy, given its specification as plain data; those of most have no others."""
        limits = {name: Limit.from_dict(each) for name, each in (policy.get("constraints") or {}).items()}
        return cls.of(policy.get("objectives") or (), limits, bool(policy.get("minimize")))

    @classmethod
    def of(cls, objectives: Mapping[str, str] | Sequence[str], limits: Mapping[str, Limit], minimize: bool) -> Outputs:
        """Return the outputs of several objectives, or of one whose name is not known, with limits of others."""
        directions = directions_of(objectives, minimize)
        first, further = next(iter(directions), None), list(directions.items())[1:]
        return cls(first, {**{name: DIRECTIONS[direction] for name, direction in further}, **limits})

    @property
    def limits(self) -> dict[str, Limit]:
        """Limits by name of their output."""
        return {name: each for name, each in self.others.items() if isinstance(each, Limit)}

    @property
    def objectives(self) -> list[str]:
        """Names of the objectives where there are several; empty for one."""
        further = [name for name, each in self.others.items() if not isinstance(each, Limit)]
        return [str(self.objective), *further] if further else []

    def check(self) -> None:
        """Raise ValueError unless the objective is the name of an output that has no limit, or None."""
        if self.objective is not None and (not isinstance(self.objective, str) or self.objective in self.others):
            checks.refuse("objective", self.objective, "the name of an output that has no constraint")

    def oriented(self, beside: Floats) -> Floats:
        """Return the values (J,) of the other outputs in the sign in which larger is better."""
        return beside * [each.SIGN for each in self.others.values()]

    def kept(self, beside: Floats) -> Any:
        """Return whether the other outputs keep all limits by their values (J,), or a mask (k,) for values (k, J)."""
        pairs = zip(self.others.values(), beside.T, strict=True)
        return np.all([each.holds(values) for each, values in pairs], axis=0)

    def recorded(self, beside: Floats) -> dict[str, Any]:
        """Return the values (J,) of the other outputs as plain data, None for NaN: `result` of a ticket."""
        values = [None if value != value else value for value in beside.tolist()]
        return {"outputs": dict(zip(self.others, values, strict=True))}

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
        return [*([] if self.objective is None else [self.objective]), *self.others]

    def _values(self, row: Mapping[str, Any], argument: str) -> list[float]:
        """Return the value of the objective and those of the other outputs."""
        for name in self._names:
            if name not in row:
                again = f"outputs with {name!r}, None where it was not measured"
                _refuse(argument, f"outputs {list(row)}", f"{again}; {nearest(name, row)}" if row else again)
        names = [self._objective_in(row, argument), *self.others]
        found = [_number(f"{argument}[{name!r}]", row[name]) for name in names]
        if np.isnan(found).all():
            checks.refuse(argument, dict(row), "at least one value that was measured; or `tell_failure`")
        return found

    def _objective_in(self, row: Mapping[str, Any], argument: str) -> str:
        """Return the name of the objective, which may be the only output without a limit."""
        if self.objective is not None:
            return self.objective
        others = [name for name in row if name not in self.others]
        if len(others) != 1:
            known = f"one output without a limit besides {', '.join(self.others)}; or objective=, its name"
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
