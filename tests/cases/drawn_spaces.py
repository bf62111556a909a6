"""Search spaces that are drawn: as plans, which say what decides the meaning of a stored number, and as spaces."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import math
import pathlib
from typing import Any, NamedTuple

import attrs
from hypothesis import strategies as st

import scalable_bandits as sb


class Colour(enum.Enum):
    """Values that JSON does not have."""

    RED = 1
    BLUE = 2


@attrs.frozen
class Size:
    """Value of a class of the user's."""

    height: float


def double(x: float) -> float:
    return 2.0 * x


def limited(number: int) -> Any:
    """Return a value that is a function, and differs by what it refers to."""
    return lambda x: min(x, number)


def same(value: Any) -> Any:
    return lambda: value


VALUES: dict[str, Any] = {  # functions that make each value anew
    **{repr(value): same(value) for value in ("red", "blue", "1", 1, 2, 3, 1.0, 2.0, True, False, None, 1j, b"red")},
    **{str(each): same(each) for each in Colour},
    "path": lambda: pathlib.Path("a") / "b", "other path": lambda: pathlib.Path("a/c"),
    "pure": lambda: pathlib.PurePosixPath("a/b/c"),
    "decimal": lambda: decimal.Decimal("0.1"), "other decimal": lambda: decimal.Decimal("0.2"),
    "fraction": lambda: fractions.Fraction(1, 3), "other fraction": lambda: fractions.Fraction(2, 3),
    "date": lambda: datetime.date(2024, 5, 1), "other date": lambda: datetime.date(2024, 5, 2),
    "time": lambda: datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC),
    "set": lambda: frozenset(["a", "b", "c"]), "other set": lambda: frozenset(["a", "b", "d"]),
    "pair": lambda: ("a", decimal.Decimal(1)), "other pair": lambda: ("a", decimal.Decimal(2)),
    "function": same(double), "built in": same(math.sin), "class": same(Size), "other class": same(Colour),
    "closure": lambda: limited(3), "other closure": lambda: limited(4),
    "size": lambda: Size(1.0), "other size": lambda: Size(1.5),
}  # fmt: skip
ALIKE = ({"1", "1.0", "True"}, {"2", "2.0"})  # not both in one parameter, since Python takes them for equal
NAMES = ("a", "b", "rate", "type", "function", "code", "values", "when")


class Kind(NamedTuple):
    """Plan of a parameter."""

    kind: str
    arguments: tuple[Any, ...]  # ends and whether there is a logarithm, or names of values
    when: tuple[str, int] | None = None  # of another parameter, by the number of its value

    def make(self, made: dict[str, Any], kinds: dict[str, Kind]) -> sb.Parameter:
        when = None
        if self.when is not None:
            when = {self.when[0]: [made[kinds[self.when[0]].arguments[self.when[1]]]]}
        if self.kind in ("Real", "Integer"):
            low, high, log = self.arguments
            return getattr(sb, self.kind)(low, high, log=log, when=when)
        given = [] if self.kind == "Boolean" else [[made[name] for name in self.arguments]]
        return getattr(sb, self.kind)(*given, when=when)


class Plan(NamedTuple):
    """Plan of a space; equal plans are spaces of equal meaning."""

    kinds: tuple[tuple[str, Kind], ...]
    limit: int | None = None  # of the constraint

    def make(self) -> sb.SearchSpace:
        """Make the space, with new objects."""
        limit, kinds = self.limit, dict(self.kinds)
        names = {name for kind in kinds.values() for name in kind.arguments if name in VALUES}
        made = {name: VALUES[name]() for name in names}
        where = None if limit is None else lambda setting: len(setting) < limit
        return sb.SearchSpace({name: kind.make(made, kinds) for name, kind in self.kinds}, where=where)


def values(names: Any = tuple(VALUES)) -> st.SearchStrategy[tuple[str, ...]]:
    drawn = st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True)
    return drawn.filter(lambda found: all(len(alike & set(found)) < 2 for alike in ALIKE)).map(tuple)


def kinds_with(choices: st.SearchStrategy[tuple[str, ...]]) -> st.SearchStrategy[Kind]:
    ends = st.tuples(st.integers(1, 3), st.integers(4, 6), st.booleans())
    ranges = st.tuples(st.sampled_from(["Real", "Integer"]), ends)
    return (ranges | st.tuples(st.sampled_from(["Ordinal", "Categorical"]), choices)).map(lambda found: Kind(*found))


KINDS = kinds_with(values()) | st.just(Kind("Boolean", ()))


@st.composite
def plans(draw: Any, kinds: st.SearchStrategy[Kind] = KINDS, constrained: bool = True) -> Plan:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    found = {name: draw(kinds) for name in names}
    parents = [name for name in names if found[name].kind in ("Ordinal", "Categorical")]
    parents = [name for name in parents if not {"set", "other set"} & set(found[name].arguments)]  # no condition
    if constrained and parents and len(names) > 1 and draw(st.booleans()):
        child, parent = draw(st.sampled_from([n for n in names if n != parents[0]])), parents[0]
        place = draw(st.integers(0, len(found[parent].arguments) - 1))
        found[child] = found[child]._replace(when=(parent, place))
    return Plan(tuple(found.items()), draw(st.sampled_from([None, 8, 9])) if constrained else None)


@st.composite
def changed(draw: Any, plan: Plan, kinds: st.SearchStrategy[Kind] = KINDS) -> Plan:
    """Draw a small change of a plan, or the plan itself."""
    pairs = list(plan.kinds)
    place = draw(st.integers(0, len(pairs) - 1))
    name, kind = pairs[place]
    how = draw(st.sampled_from(["same", "order", "values", "kind", "ends", "log", "when", "limit", "anew"]))
    if how == "order":
        pairs = draw(st.permutations(pairs))
    elif how == "values" and kind.kind in ("Ordinal", "Categorical") and all(k.when is None for _, k in pairs):
        pairs[place] = name, kind._replace(arguments=draw(st.permutations(kind.arguments).map(tuple) | values()))
    elif how == "kind":
        other = {"Real": "Integer", "Integer": "Real", "Ordinal": "Categorical", "Categorical": "Ordinal"}
        pairs[place] = name, kind._replace(kind=other.get(kind.kind, kind.kind))
    elif how in ("ends", "log") and kind.kind in ("Real", "Integer"):
        low, high, log = kind.arguments
        pairs[place] = name, kind._replace(arguments=(low, high + 1, log) if how == "ends" else (low, high, not log))
    elif how == "when":
        pairs[place] = name, kind._replace(when=None)
    elif how == "limit" and plan.limit is not None:
        return plan._replace(limit=draw(st.sampled_from([None, 8, 9])))
    elif how == "anew" and all(k.when is None for _, k in pairs):
        pairs[place] = name, draw(kinds)
    return plan._replace(kinds=tuple(pairs))


def described_values() -> dict[str, Any]:
    """Return the descriptions of all values, as a store has them."""
    from scalable_bandits.identity import described

    return {name: described(make()) for name, make in VALUES.items()}
