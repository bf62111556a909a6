"""Axes of a study: which of its cases and policies are played at several values, and at which horizons.

An axis on which an environment depends makes a case for each of its values; any other makes a policy for each value, of
those policies that depend on it. A list of horizons makes a policy for each of those that depend on the horizon, or
whose environment does; every other policy is played once, up to the longest. What depends on what is seen from the
problems themselves, made at two values.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import attrs

from scalable_bandits import checks
from scalable_bandits.runs.thinning import Keep, Thinning, default
from scalable_bandits.spaces import Indices, Space
from scalable_bandits.specification import differences, nearest, specify
from scalable_bandits.store import ObservationStore, SpecificationDiffers, StoreError
from scalable_bandits.studies.dataset import KEEP
from scalable_bandits.studies.growth import (
    ABSENT,
    FOLDERS,
    HORIZON,
    HORIZONS,
    LISTS,
    TABLES,
    Value,
    Variant,
    shown_value,
    slugs,
    variants,
)
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
        listed = isinstance(values, list | tuple)
        if not (listed and all(isinstance(v, int | float | str) for v in values) and len(values) >= 2):
            checks.refuse(f"axes.{name}", values, "a list of at least two numbers or words")
        if len({shown_value(name, value) for value in values}) < len(values):
            checks.refuse(f"axes.{name}", values, "different values, also as twelve digits show them")
    return {name: tuple(values) for name, values in given.items()}


def wider(axes: Mapping[str, Sequence[Value]], given: Mapping[str, Sequence[Value]]) -> dict[str, tuple[Value, ...]]:
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
        if (
            not isinstance(values, list | tuple)
            or not values
            or not all(isinstance(v, int | float | str) for v in values)
        ):
            checks.refuse(f"axes.{name}", values, "a list of numbers or words")
        union = tuple(dict.fromkeys((*axes[name], *values)))
        if len(union) > len(axes[name]):
            checked_axes({name: union})
            found[name] = union if any(isinstance(value, str) for value in union) else tuple(sorted(union))
    return found


class Asked(NamedTuple):
    """Sizes that are asked of a study."""

    replicates: int
    horizon: int | Sequence[int]
    seed: int
    data: Path | None  # folder of the measured files


class LayoutChoice(NamedTuple):
    """What is to be played of a study."""

    cases: Sequence[str] | None  # names, with the value of an axis or without; all if None
    policies: Sequence[str] | None
    axes: Mapping[str, Sequence[Value]]  # values by axis; all of an axis that is not named

    def has(self, case: Variant) -> bool:
        """Whether a case is to be played."""
        named = self.cases is None or case.name in self.cases or case.label in self.cases
        return named and all(case.values.get(axis, some[0]) in some for axis, some in self.axes.items())


EVERYTHING = LayoutChoice(None, None, {})


@attrs.frozen
class Layout:
    """Cases and policies that a study plays.

    Attributes
    ----------
    cases, policies
        Those at one value of each axis that they depend on; policies at their horizons, too.
    horizons
        Horizons in ascending order.
    start
        First value of each axis, at which is played what does not depend on it.
    absent
        Label of the case and name of the policy, of each pair that is not played since the problem lacks the policy.
    """

    cases: tuple[Variant, ...]
    policies: tuple[Variant, ...]
    horizons: tuple[int, ...]
    start: Mapping[str, Value]
    absent: frozenset[tuple[str, str]] = frozenset()

    @property
    def without(self) -> dict[str, list[tuple[str, str]]]:
        """What a record has of the pairs that are not played."""
        pairs = sorted(itertools.product([one.label for one in self.cases], {one.name for one in self.policies}))
        found = [pair for pair in pairs if pair in self.absent]
        return {ABSENT: found} if found else {}

    def values(self, case: Variant, policy: Variant) -> dict[str, Value]:
        """Return the values of all axes in a run."""
        given = {**self.start, **case.values, **policy.values}
        return {name: given[name] for name in self.start}

    def rounds(self, policy: Variant) -> int:
        """Return the number of rounds that a policy plays."""
        return int(policy.values.get(HORIZON, self.horizons[-1]))

    def chosen(self, choice: LayoutChoice) -> Layout:
        """Return the layout with the cases and policies of some names and values only.

        Raises
        ------
        ValueError
            If there is no such case or policy.
        """
        cases, policies, axes = choice
        found = {
            name: tuple(v for v in each if all(v.values.get(axis, some[0]) in some for axis, some in axes.items()))
            for name, each in (("cases", self.cases), ("policies", self.policies))
        }
        return attrs.evolve(
            self,
            cases=_chosen("cases", cases, found["cases"]),
            policies=_chosen("policies", policies, found["policies"]),
        )


def _chosen(name: str, chosen: Sequence[str] | None, known: Sequence[Variant]) -> tuple[Variant, ...]:
    """Return the variants with one of the chosen names or labels, in the order of the known ones."""
    if chosen is None:
        return tuple(known)
    labels = list(dict.fromkeys([*(one.name for one in known), *(one.label for one in known)]))
    if isinstance(chosen, str) or not chosen:
        checks.refuse(name, chosen, f"a list of names out of {', '.join(labels)}")
    for given in chosen:
        if given not in labels:
            checks.refuse(name, given, nearest(given, labels))
    return tuple(one for one in known if one.label in chosen or one.name in chosen)


class _Described(NamedTuple):
    """Specifications of a problem."""

    environment: Any
    policies: dict[str, Any]


def _described(problem: Problem) -> _Described:
    """Return the specifications of a problem, and on which workers each policy has its shards."""
    parts = specify({"environment": problem.environment, **{f"policy {k}": v for k, v in problem.policies.items()}})[0]
    return _Described(
        parts["environment"],
        {label: {**parts[f"policy {label}"], "on": str(policy.on)} for label, policy in problem.policies.items()},
    )


class FirstProblems:
    """Problems of the first replicates of cases, and the spaces of those that were made; called as a `ProblemAt`.

    Parameters
    ----------
    make
        Function that makes the problem, given a case, a horizon and the values of the axes.
    """

    def __init__(self, make: ProblemAt):
        self._make = make
        self._spaces: dict[tuple[Any, ...], dict[str, Space]] = {}

    def __call__(self, case: str, horizon: int, values: Mapping[str, Value]) -> Problem:
        problem = self._make(case, horizon, values)
        self._spaces[case, horizon, *values.items()] = {name: each.space for name, each in problem.policies.items()}
        return problem

    def spaces(self, case: str, horizon: int, values: Mapping[str, Value]) -> Mapping[str, Space]:
        """Return the spaces of a problem's policies by name; the problem is made unless it was."""
        if (case, horizon, *values.items()) not in self._spaces:
            self(case, horizon, values)
        return self._spaces[case, horizon, *values.items()]


def lay_out(
    problem_at: ProblemAt, cases: Sequence[str], labels: Sequence[str] | None,
    axes: Mapping[str, Sequence[Value]], horizon: int | Sequence[int], choice: LayoutChoice = EVERYTHING,
) -> Layout:  # fmt: skip
    """Return what a study plays.

    Parameters
    ----------
    problem_at
        Function that makes the problem of a case's first replicate.
    cases, labels
        Names of the cases and of the policies; all policies of the problems if None.
    axes
        Values of each axis by its name.
    horizon
        Horizon, or a list of them: policies that depend on the horizon are played at each, under names of their own.
    choice
        What will be played. Which policies are absent is not seen of the other cases, whose problems are not made (but
        for the first values of all axes).

    Raises
    ------
    ValueError
        If nothing depends on an axis, or no problem has a policy of one of the names.
    """
    horizons, start = checked_horizons(HORIZON, horizon), {name: values[0] for name, values in axes.items()}
    if not axes and not listed(horizon):
        wanted = [case for case in cases if choice.cases is None or case in choice.cases] or cases[:1]
        made = {case: list(problem_at(case, horizons[0], start).policies) for case in reversed(wanted)}
        made = dict(reversed(made.items()))
        names = _named(labels, made)
        plain, alone = (tuple(Variant(name, name, {}) for name in known) for known in (cases, names))
        return Layout(plain, alone, horizons, start, _absent(made, names))
    first = {case: _described(problem_at(case, horizons[0], start)) for case in cases}
    of_cases: dict[str, dict[str, Sequence[Value]]] = {case: {} for case in cases}
    of_policies: dict[str, dict[str, Sequence[Value]]] = {}
    for axis, values in axes.items():
        other = {case: _described(problem_at(case, horizons[0], {**start, axis: values[1]})) for case in cases}
        differing = _differing(first, other)
        moved = any(first[case].environment != other[case].environment for case in cases)
        for case in cases if moved else ():
            if differing[case] or first[case].environment != other[case].environment:
                of_cases[case][axis] = values
        for name in () if moved else set().union(*differing.values()):
            of_policies.setdefault(name, {})[axis] = values
        if not moved and not any(differing.values()):
            checks.refuse(f"axes.{axis}", list(values), "an axis on which an environment or a policy depends")
    found = tuple(_variants(of_cases))
    wanted_ones = [one for one in found if choice.has(one)] or found[:1]
    made = {one.label: list(problem_at(one.name, horizons[0], {**start, **one.values}).policies) for one in wanted_ones}
    names = _named(labels, made)
    if listed(horizon):
        second = horizons[1] if len(horizons) > 1 else horizons[0] + 1
        other = {case: _described(problem_at(case, second, start)) for case in cases}
        differing = _differing(first, other)
        moved = any(first[case].environment != other[case].environment for case in cases)
        for name in names if moved else set().union(*differing.values()):
            of_policies.setdefault(name, {})[HORIZON] = horizons
    policies = tuple(_variants({name: of_policies.get(name, {}) for name in names}))
    return Layout(found, policies, horizons, start, _absent(made, names))


def _absent(made: Mapping[str, Sequence[str]], names: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Return the pairs of a case and a policy that the case lacks."""
    return frozenset((case, name) for case, found in made.items() for name in names if name not in found)


def _named(labels: Sequence[str] | None, made: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the policies of some names, given those of each case; in the order of the case that has the most."""
    names = list(dict.fromkeys(name for known in sorted(made.values(), key=len, reverse=True) for name in known))
    for label in labels or ():
        if label not in names:
            checks.refuse("policies", label, nearest(label, names))
    return [name for name in names if labels is None or name in labels]


def _differing(one: Mapping[str, _Described], other: Mapping[str, _Described]) -> dict[str, set[str]]:
    """Return, by case, which policies that both have differ."""
    return {
        case: {name for name, policy in described.policies.items() if one[case].policies.get(name, policy) != policy}
        for case, described in other.items()
    }


def _variants(axes_of: Mapping[str, Mapping[str, Sequence[Value]]]) -> Iterable[Variant]:
    """Return each name at all combinations of the values of its axes."""
    for name, axes in axes_of.items():
        for values in itertools.product(*axes.values()):
            at = dict(zip(axes, values, strict=True))
            yield Variant(", ".join([name, *(shown_value(axis, value) for axis, value in at.items())]), name, at)


def check_stored(
    problems: FirstProblems, stored: Mapping[str, Any], given: Mapping[str, Any], start: Mapping[str, Value], place: str
) -> None:
    """Refuse spaces that are not those of a store's runs, and what `check_longer` refuses.

    Parameters
    ----------
    problems
        Problems of the study's cases.
    stored, given, start, place
        As in `check_longer`. Of a study file, the tables are compared instead.

    Raises
    ------
    SpecificationDiffers
        If the policies of a stored run have another space; the message lists the differences.
    """
    if stored[HORIZON] < given[HORIZON]:
        check_longer(problems, stored, given, start, place)
    alike = all(stored.get(key) == given.get(key) for key in ("study", "family", "seed"))
    if TABLES in stored or TABLES in given or not alike:
        return
    folders = [stored.get(FOLDERS, {}).get(name) or slugs(stored[name]) for name in LISTS]
    for case, folder in zip(variants(stored, "cases"), folders[0], strict=True):
        known = {one.name for one in variants(given, "cases")}
        spaces = problems.spaces(case.name, given[HORIZON], {**start, **case.values}) if case.name in known else {}
        for policy, inside in zip(variants(stored, "policies"), folders[1], strict=True):
            if policy.name not in spaces:
                continue
            try:
                run = ObservationStore.open(f"{place.rstrip('/')}/{folder}/{inside}/0000").specification["policy"]
            except (StoreError, OSError, KeyError):
                continue  # not played yet, or damaged
            own = specify({"space": spaces[policy.name]})[0]
            lines = [f"{case.label}: {each}" for each in differences({"space": run["space"]}, own)]
            if lines:
                listed = "\n  ".join(lines)
                raise SpecificationDiffers(f"store {place}: its runs have another space. Differences:\n  {listed}")
            break


def check_longer(
    problem_at: ProblemAt, stored: Mapping[str, Any], given: Mapping[str, Any], start: Mapping[str, Value], place: str
) -> None:
    """Refuse a horizon longer than a store's if its runs cannot go on from where they ended.

    Parameters
    ----------
    problem_at
        Function that makes the problem of a case's first replicate.
    stored, given
        Records of the study with the shorter and with the longer horizon.
    start
        First value of each axis.
    place
        Name of the store.
    """
    of_each = {one.name for one in variants(given, "policies") if HORIZON in one.values}
    names = [one.name for one in variants(stored, "policies") if HORIZON not in one.values and one.name not in of_each]
    lines: list[str] = []
    for case in variants(stored, "cases") if names else ():
        values = {**start, **case.values}
        short, long = (_described(problem_at(case.name, record[HORIZON], values)) for record in (stored, given))
        lines += differences(short.environment, long.environment, f"{case.label}, environment")
        for name in dict.fromkeys(names):
            lines += differences(short.policies.get(name), long.policies.get(name), f"{case.label}, {name}")
    if lines:
        both = [stored[HORIZON], given[HORIZON]]
        listed = "\n  ".join([f"{both[0]:,}, as in {place}, since this depends on it:", *lines])
        checks.refuse("horizon", both[1], f"{listed}\nor the list {both}, with runs of their own for both")


def listed(horizon: Any) -> list[int] | None:
    """Return a list of horizons; None if there is one horizon, which no label names."""
    return list(checked_horizons("horizon", horizon)) if isinstance(horizon, list | tuple) else None


def keep_of(keep: Keep, horizon: int | Sequence[int], stored: Mapping[str, Any] | None) -> Keep:
    """Return which rounds a study keeps: if it does not say, those that its store does, or what `simulate` would."""
    usual = default(checked_horizons(HORIZON, horizon)[-1]) if stored is None else stored.get(KEEP, "all")
    return usual if keep is None else keep


def kept_rounds(record: Mapping[str, Any]) -> Indices:
    """Return the rounds (k,) that a study keeps."""
    last = record[HORIZON]
    return Thinning(record.get(KEEP, "all"), (*record.get(HORIZONS, ()), last)).rounds(1, last + 1)
