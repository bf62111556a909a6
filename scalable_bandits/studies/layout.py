"""Axes of a study: which of its cases and policies are played at several values, and at which horizons.

An axis on which an environment depends makes a case for each of its values; any other makes a policy for each value, of
those policies that depend on it. A list of horizons makes a policy for each of those that depend on the horizon, or
whose environment does; every other policy is played once, up to the longest. What depends on what is seen from the
problems themselves, made at the first value and at others until they differ.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from scalable_bandits import checks
from scalable_bandits.policies.unknown_prior import UnknownPriorPolicy
from scalable_bandits.runs.thinning import Keep, default
from scalable_bandits.specification import check_name, differences, nearest, specify
from scalable_bandits.studies import growth
from scalable_bandits.studies.growth import HORIZON, Value, Variant
from scalable_bandits.studies.runs import Problem

RESERVED = (
    HORIZON, "case", "policy", "replicate", "round", "prior", "mark", "case_name", "policy_name", "seed", "regret",
    "cumulative_regret", "candidate", "width", "information_gain", "uniform_regret", "seconds", "plays",
)  # fmt: skip

ProblemAt = Callable[[str, int, Mapping[str, Value]], Problem]  # given a case, a horizon and the values of the axes


def checked_horizons(name: str, given: Any) -> tuple[int, ...]:
    """Return horizons in ascending order, also a single one.

    Raises
    ------
    ValueError
        If they are neither a whole number nor a list of different ones, all at least 1.
    """
    if not isinstance(given, list | tuple):
        return (checks.integer(name, given, 1, checks.LARGEST_INTEGER),)
    found = [checks.integer(f"{name}[{i}]", each, 1, checks.LARGEST_INTEGER) for i, each in enumerate(given)]
    if not found or len(set(found)) < len(found):
        checks.refuse(name, given, "a number of rounds, or a list of different numbers")
    return tuple(sorted(found))


def checked_axes(given: Any) -> dict[str, tuple[Value, ...]]:
    """Return the axes of a study by name, each a tuple of its values.

    Raises
    ------
    ValueError
        If an axis has no usable name, or not at least two different values.
    """
    if not isinstance(given, Mapping):
        checks.refuse("axes", given, "the values of each axis by its name, such as {'side': [10, 20, 40]}")
    for name, values in given.items():
        if not (isinstance(name, str) and name.isidentifier() and name not in RESERVED):
            checks.refuse("key of axes", name, f"letters, digits and _; none of {', '.join(RESERVED)}")
        if not _are_values(values) or len(values) < 2:
            checks.refuse(f"axes.{name}", values, "a list of at least two numbers or words")
        if len({growth.shown_value(name, value) for value in values}) < len(values):
            checks.refuse(f"axes.{name}", values, "different values, also as twelve digits show them")
    return {name: tuple(values) for name, values in given.items()}


def _wider(axes: Mapping[str, Sequence[Value]], given: Mapping[str, Sequence[Value]]) -> dict[str, tuple[Value, ...]]:
    """Return the axes of a study with all values that are wanted, too; those that are numbers in ascending order.

    Raises
    ------
    ValueError
        If the study has no such axis, or a list of values is empty or has something else than numbers and words.
    """
    found = {name: tuple(values) for name, values in axes.items()}
    for name, values in given.items():
        if name not in axes:
            checks.refuse("axes", name, nearest(str(name), axes) if axes else "none: the study has no axes")
        if not _are_values(values) or not values:
            checks.refuse(f"axes.{name}", values, "a list of numbers or words")
        if not set(values) <= set(axes[name]):
            found |= checked_axes({name: growth.all_values(axes[name], values)})
    return found


def _are_values(given: Any) -> bool:
    return isinstance(given, list | tuple) and all(isinstance(value, int | float | str) for value in given)


class LayoutChoice(NamedTuple):
    """What is to be played of a study."""

    cases: Sequence[str] | None  # names, with the value of an axis or without; all if None
    policies: Sequence[str] | None
    axes: Mapping[str, Sequence[Value]]  # values by axis; all of an axis that is not named

    def of(self, name: str, known: Sequence[Variant]) -> tuple[Variant, ...]:
        """Return the cases or policies that are to be played, in the order of the known ones.

        Raises
        ------
        ValueError
            If nothing has a chosen name at the chosen values.
        """
        chosen = self.cases if name == "cases" else self.policies
        axes = self.axes.items()
        known = [one for one in known if all(one.values.get(axis, some[0]) in some for axis, some in axes)]
        labels = list(dict.fromkeys([*(one.name for one in known), *(one.label for one in known)]))
        if isinstance(chosen, str) or (chosen is not None and not chosen):
            checks.refuse(name, chosen, f"a list of names out of {', '.join(labels)}")
        for given in chosen or ():
            check_name(name, given, labels)
        return tuple(one for one in known if chosen is None or one.label in chosen or one.name in chosen)


@attrs.frozen
class Layout:
    """Cases and policies that a study plays.

    Attributes
    ----------
    cases, policies
        Those that are chosen, at one value of each axis that they depend on; policies at their horizons, too.
    order
        Labels of all cases and policies of the study, in their order.
    axes
        Values of each axis; at the first is played what does not depend on it.
    horizons
        Horizons in ascending order.
    several
        Whether the study has a list of horizons.
    absent
        Label of the case and name of the policy, of each pair that is not played since the problem lacks the policy.
    priors
        Names of the policies' priors, in the order of the policies.
    """

    cases: tuple[Variant, ...]
    policies: tuple[Variant, ...]
    order: Mapping[str, Sequence[str]]
    axes: Mapping[str, Sequence[Value]]
    horizons: tuple[int, ...]
    several: bool
    absent: frozenset[tuple[str, str]]
    priors: Sequence[str]

    @property
    def record(self) -> dict[str, Any]:
        """What the record of a study has of its cases, policies and horizons."""
        pairs = itertools.product([one.label for one in self.cases], {one.name for one in self.policies})
        return {
            **{name: {one.label: one[1:] for one in getattr(self, name)} for name in growth.LISTS},
            growth.ABSENT: sorted(pair for pair in pairs if pair in self.absent),
            HORIZON: max(map(self.rounds, self.policies)),
            **({growth.HORIZONS: list(self.horizons)} if self.several else {}),
        }

    def values(self, case: Variant, policy: Variant) -> dict[str, Value]:
        """Return the values of all axes in a run."""
        given = {**case.values, **policy.values}
        return {name: given.get(name, values[0]) for name, values in self.axes.items()}

    def rounds(self, policy: Variant) -> int:
        """Return the number of rounds that a policy plays."""
        return int(policy.values.get(HORIZON, self.horizons[-1]))


class _Described(NamedTuple):
    """Specifications of a problem."""

    environment: Any
    policies: dict[str, Any]


def _described(problem: Problem) -> _Described:
    """Return the specifications of a problem, and on which workers each policy has its shards."""
    parts = specify({"environment": problem.environment, "policies": problem.policies})[0]
    policies = {label: {**parts["policies"][label], "on": str(policy.on)} for label, policy in problem.policies.items()}
    return _Described(parts["environment"], policies)


def lay_out(
    problem_at: ProblemAt, cases: Sequence[str], labels: Sequence[str] | None, axes: Mapping[str, Sequence[Value]],
    horizon: int | Sequence[int], choice: LayoutChoice,
) -> Layout:  # fmt: skip
    """Return what is played of a study.

    Parameters
    ----------
    problem_at
        Function that makes the problem of a case's first replicate.
    cases, labels
        Names of the study's cases and policies; all policies of the problems if None.
    axes
        Values of each axis of the study by its name.
    horizon
        Horizon, or a list of them: policies that depend on the horizon are played at each, under names of their own.
    choice
        What is played. Which policies are absent is not seen of the other cases, whose problems are not made (but for
        the first values of all axes).

    Raises
    ------
    ValueError
        If nothing depends on an axis, no problem has a policy of one of the names, or nothing has a chosen name.
    """
    axes, horizons = _wider(axes, choice.axes), checked_horizons(HORIZON, horizon)
    several = isinstance(horizon, list | tuple)
    every = {**axes, HORIZON: horizons} if several else axes
    start: dict[str, Value] = {HORIZON: horizons[0], **{name: values[0] for name, values in axes.items()}}

    def made_at(case: str, values: Mapping[str, Value]) -> Problem:
        given = {**start, **values}
        return problem_at(case, int(given[HORIZON]), {name: given[name] for name in axes})

    first = {case: _described(made_at(case, {})) for case in cases} if every else {}
    moved: dict[str, tuple[set[str], set[str]]] = {}  # cases and policies that depend on each axis
    for axis, values in every.items():
        others = values[1:] if axis != HORIZON else (*horizons, horizons[0] + 1)[1:2]
        for value in others:  # two values may mean the same, such as two numbers of arms of one grid
            moved[axis] = _dependent(first, {case: _described(made_at(case, {axis: value})) for case in cases})
            if any(moved[axis]):
                break
        else:
            if axis != HORIZON:
                checks.refuse(f"axes.{axis}", list(values), "an axis on which an environment or a policy depends")
    known = {"cases": list(_at_all_values(cases, axes, lambda case, axis: case in moved[axis][0]))}
    wanted, made = choice.of("cases", known["cases"]), {}
    for one in reversed(wanted):  # the first last: it is played first, and is still there then
        made[one.label] = made_at(one.name, one.values).policies
    names = _named(labels, reversed(made.values()))

    def depends(name: str, axis: str) -> bool:
        return name in moved[axis][1] or (axis == HORIZON and bool(moved[axis][0]))

    known["policies"] = list(_at_all_values(names, every, depends))
    order = {name: [one.label for one in found] for name, found in known.items()}
    absent = frozenset((case, name) for case, its in made.items() for name in names if name not in its)
    learning = [its[name] for name in names for its in reversed(made.values()) if name in its]
    priors = [prior.name for one in learning if isinstance(one, UnknownPriorPolicy) for prior in one.priors]
    chosen = choice.of("policies", known["policies"])
    return Layout(wanted, chosen, order, axes, horizons, several, absent, list(dict.fromkeys(priors)))


def _dependent(one: Mapping[str, _Described], other: Mapping[str, _Described]) -> tuple[set[str], set[str]]:
    """Return the cases that differ, if an environment differs; else the policies that do, where both have them."""
    differing = {
        case: {name for name, policy in described.policies.items() if one[case].policies.get(name, policy) != policy}
        for case, described in other.items()
    }
    moved = {case for case in one if one[case].environment != other[case].environment}
    if moved:
        return moved | {case for case in differing if differing[case]}, set()
    return set(), set().union(*differing.values())


def _named(labels: Sequence[str] | None, made: Iterable[Collection[str]]) -> list[str]:
    """Return the policies of some names, given those of each case; in the order of the case that has the most."""
    names = list(dict.fromkeys(name for known in sorted(made, key=len, reverse=True) for name in known))
    for label in labels or ():
        check_name("policies", label, names)
    return [name for name in names if labels is None or name in labels]


def _at_all_values(
    names: Iterable[str], axes: Mapping[str, Sequence[Value]], depends: Callable[[str, str], bool]
) -> Iterator[Variant]:
    """Yield each name at all combinations of the values of the axes on which it depends."""
    for name in names:
        own = {axis: values for axis, values in axes.items() if depends(name, axis)}
        for values in itertools.product(*own.values()):
            yield Variant.of(name, dict(zip(own, values, strict=True)))


def check_longer(
    problem_at: ProblemAt, stored: Mapping[str, Any], given: Mapping[str, Any], axes: Mapping[str, Sequence[Value]],
    place: str,
) -> None:  # fmt: skip
    """Refuse a horizon longer than a store's if its runs cannot go on from where they ended.

    Parameters
    ----------
    problem_at
        Function that makes the problem of a case's first replicate.
    stored, given
        Records of the study with the shorter and with the longer horizon.
    axes
        Values of each axis.
    place
        Name of the store.
    """
    of_each = {one.name for one in growth.variants(given, "policies") if HORIZON in one.values}
    names = [
        one.name for one in growth.variants(stored, "policies") if HORIZON not in one.values and one.name not in of_each
    ]
    lines: list[str] = []
    for case in growth.variants(stored, "cases") if names else ():
        values = {**{name: of_axis[0] for name, of_axis in axes.items()}, **case.values}
        short, long = (_described(problem_at(case.name, record[HORIZON], values)) for record in (stored, given))
        lines += differences(short.environment, long.environment, f"{case.label}, environment")
        for name in dict.fromkeys(names):
            lines += differences(short.policies.get(name), long.policies.get(name), f"{case.label}, {name}")
    if lines:
        both = [stored[HORIZON], given[HORIZON]]
        listed = "\n  ".join([f"{both[0]:,}, as in {place}, since this depends on it:", *lines])
        checks.refuse("horizon", both[1], f"{listed}\nor the list {both}, with runs of their own for both")


def keep_of(keep: Keep, horizon: int, stored: Mapping[str, Any] | None) -> Keep:
    """Return which rounds a study keeps: if it does not say, those that its store does, or what `simulate` would."""
    usual = default(horizon) if stored is None else stored.get(growth.KEEP, "all")
    return usual if keep is None else keep
