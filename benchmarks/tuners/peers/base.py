"""What a tuner is, and what several of them need: values in a parameter, and the best of what was told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from benchmarks.tuners.intervals import Interval, Parameter, Parameters, Setting, is_ordered


class NotItsKind(ValueError):
    """A tuner does not take parameters of some kind."""


class Tuner(Protocol):
    """What is asked for settings and told their values, which are minimised."""

    requirements: ClassVar[Sequence[str]]  # what pip is given for an environment of its own; the package comes first
    modules: ClassVar[Sequence[str]]  # that are imported

    def __init__(self, parameters: Parameters, seed: int, budget: int) -> None: ...
    def ask(self) -> Setting: ...
    def tell(self, x: Setting, y: float) -> None: ...
    def recommend(self) -> Setting: ...


class Remembering:
    """What recommends the best measured setting."""

    def __init__(self) -> None:
        self.told: list[tuple[float, Setting]] = []

    def tell(self, x: Setting, y: float) -> None:
        self.told.append((y, x))

    def recommend(self) -> Setting:
        return min(self.told, key=lambda each: each[0])[1]


def interval_of(each: Parameter) -> Interval | None:
    """Return the interval of a parameter, of a list of numbers that of its positions, of categories None."""
    if isinstance(each, tuple):
        return Interval(*each)
    return Interval(0, len(each) - 1, whole=True) if is_ordered(each) else None


def value_of(each: Parameter, told: Any) -> Any:
    """Return the value of a parameter from a number of its interval, or a category."""
    interval = interval_of(each)
    if interval is None:
        return str(told)
    number = int(told) if interval.whole else min(max(float(told), interval.low), interval.high)
    return number if isinstance(each, tuple) else each[number]


def setting_of(parameters: Parameters, told: dict[str, Any]) -> Setting:
    """Return the setting of numbers of the intervals, and categories."""
    return {name: value_of(each, told[name]) for name, each in parameters.items()}


def intervals_of(parameters: Parameters) -> list[Interval]:
    """Return the intervals of parameters, of a list of numbers those of its positions."""
    found = []
    for name, each in parameters.items():
        interval = interval_of(each)
        if interval is None:
            raise NotItsKind(f"{name}: got categories; allowed: intervals and lists of numbers")
        found.append(interval)
    return found


def setting_at(u: Sequence[float], parameters: Parameters, intervals: Sequence[Interval]) -> Setting:
    """Return the setting at a point of the unit cube."""
    found = {}
    for x, interval, (name, each) in zip(u, intervals, parameters.items(), strict=True):
        value = interval.at(min(max(float(x), 0.0), 1.0))
        found[name] = value if isinstance(each, tuple) else each[int(value)]
    return found
