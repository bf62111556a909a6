"""Record of a study in its store, and how it grows: cases, policies, replicates and rounds are added to those there.

| word | what it is |
| --- | --- |
| record | what a store says of a study, as plain data; its keys are named below |
| variant | a case or a policy at one value of each axis on which it depends |
| label | name of a variant in the dataset, with the values: "GP-UCB, scale = 2" |
| name | name of a case or a policy in the study, without values: "GP-UCB" |
| folder | name of a variant in the store, which stays as it is when a label changes |
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from scalable_bandits.analysis.curves import ABSENT as ABSENT
from scalable_bandits.analysis.curves import HORIZON as HORIZON
from scalable_bandits.analysis.curves import HORIZONS as HORIZONS
from scalable_bandits.analysis.curves import Value as Value
from scalable_bandits.analysis.curves import shown_value as shown_value
from scalable_bandits.runs.thinning import Thinning
from scalable_bandits.spaces import Indices
from scalable_bandits.specification import differences

LISTS = ("cases", "policies")  # name, values and folder by label, in the order in which a dataset shows them
TABLES = "specification"  # study file
BUILD = "build"  # name of the function of a study that was made in Python
AXES = "axes"  # table of a study file
KEEP = "keep"  # which rounds are kept, if not all are
# Keys that may differ; earlier versions wrote "spaces", which the specifications of runs have, too.
FREE = ("version", "python", "data", "title", "source", "replicates", HORIZON, HORIZONS, ABSENT, BUILD, "spaces")
TABLE_OF = {"cases": "environments", "policies": "policies"}  # tables of a study file by list


class Variant(NamedTuple):
    """Case or policy of a study, at one value of each axis that it depends on."""

    label: str  # as the dataset names it
    name: str  # as the study names it
    values: Mapping[str, Value]  # by axis; of a policy `HORIZON`, too, if it is played at several
    folder: str = ""  # in the store; empty if it has none yet

    @classmethod
    def of(cls, name: str, values: Mapping[str, Value], folder: str = "") -> Variant:
        """Return a case or policy of a study at values of its axes."""
        label = ", ".join([name, *(shown_value(axis, value) for axis, value in values.items())])
        return cls(label, name, values, folder)


def variants(record: Mapping[str, Any], name: str) -> list[Variant]:
    """Return the cases or the policies of a study.

    Parameters
    ----------
    record
        Record of the study.
    name
        One of `LISTS`.
    """
    return [Variant(label, *each) for label, each in record[name].items()]


def kept_rounds(record: Mapping[str, Any]) -> Indices:
    """Return the rounds (k,) that a study keeps.

    Parameters
    ----------
    record
        Record of the study.
    """
    last = record[HORIZON]
    return Thinning(record.get(KEEP, "all"), (*record.get(HORIZONS, ()), last)).rounds(1, last + 1)


def runs_of(record: Mapping[str, Any]) -> dict[tuple[int, int, int], int]:
    """Return the rounds of each run that is played, by the numbers of its case, policy and replicate.

    Parameters
    ----------
    record
        Record of the study.
    """
    absent, last = {tuple(pair) for pair in record[ABSENT]}, record[HORIZON]
    return {
        (c, p, r): int(policy.values.get(HORIZON, last))
        for c, case in enumerate(record["cases"])
        for p, policy in enumerate(variants(record, "policies"))
        for r in range(record["replicates"])
        if (case, policy.name) not in absent
    }


def disagreements(stored: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return the differences of two records that no growth explains; empty if one store can have both.

    Parameters
    ----------
    stored, given
        Records of a study, the first as `by_horizon` returns it.
    """
    one, other = ({k: value for k, value in each.items() if k not in (*FREE, *LISTS)} for each in (stored, given))
    if TABLES in one and TABLES in other:
        one[TABLES], other[TABLES] = _common(one[TABLES], other[TABLES]), _common(other[TABLES], one[TABLES])
    lines = differences(one, other)
    for name in LISTS:  # the axes on which cases and policies of the same names depend
        old, new = ({one.name: list(one.values) for one in variants(record, name)} for record in (stored, given))
        for label in (label for label in new if label in old and old[label] != new[label]):
            words = (" and ".join(map(_axis_words, axes)) or "no axis" for axes in (old[label], new[label]))
            lines.append("{}: stored with {}, given with {}".format(label, *words))
    return lines


def _common(tables: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a study file, of cases and policies only those that another one has too."""
    found = {key: value for key, value in tables.items() if key not in ("cases", AXES, *TABLE_OF.values())}
    for key in TABLE_OF.values():
        if isinstance(tables.get(key), Mapping) and isinstance(other.get(key), Mapping):
            found[key] = {name: table for name, table in tables[key].items() if name in other[key]}
    return found


def _axis_words(axis: str) -> str:
    return "a list of horizons" if axis == HORIZON else f"the axis {axis}"


def grown(
    stored: Mapping[str, Any] | None, given: Mapping[str, Any], order: Mapping[str, Iterable[str]]
) -> dict[str, Any]:
    """Return the record of a study that has what both records have.

    Parameters
    ----------
    stored, given
        Records that do not disagree, the first as `by_horizon` returns it; None if nothing is stored.
    order
        Order of the labels, some of which neither record may have.
    """
    both = [given] if stored is None else [stored, given]
    found = {**both[0], **{key: max(record[key] for record in both) for key in ("replicates", HORIZON)}}
    found |= {key: given[key] for key in ("title", "source", BUILD) if key in given}
    if any(HORIZONS in record for record in both):
        found[HORIZONS] = sorted(set().union(*(record.get(HORIZONS, [record[HORIZON]]) for record in both)))
    found[ABSENT] = sorted({tuple(pair) for record in both for pair in record[ABSENT]})
    for name in LISTS:
        known = {one.label: one for record in reversed(both) for one in variants(record, name)}
        found[name], taken = {}, {one.folder for one in known.values()}
        for label in sorted(known, key=place_in(order[name])):
            folder = known[label].folder or _new_folder(label, taken)
            found[name][label] = known[label]._replace(folder=folder)[1:]
            taken.add(folder)
    if stored is not None and TABLES in stored and TABLES in given:
        shown = {name: [one.name for one in variants(found, name)] for name in LISTS}
        found[TABLES] = _all_tables(stored[TABLES], given[TABLES], shown)
    return found


def by_horizon(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored record whose policies have the labels that they get once one horizon has become a list.

    Parameters
    ----------
    stored, given
        Records of a study.
    """
    axes = {one.name: list(one.values) for one in variants(given, "policies")}
    found = [
        Variant.of(one.name, {**one.values, HORIZON: stored[HORIZON]}, one.folder)
        if axes.get(one.name) == [*one.values, HORIZON]
        else one
        for one in variants(stored, "policies")
    ]
    return {**stored, "policies": {one.label: one[1:] for one in found}}


def all_values(first: Sequence[Value], more: Sequence[Value]) -> list[Value]:
    """Return the values that an axis has in one of two studies, in ascending order where they have one.

    Parameters
    ----------
    first, more
        Values of the axis.
    """
    found = list(dict.fromkeys([*first, *more]))
    return found if any(isinstance(value, str) for value in found) else sorted(found)


def _all_tables(
    stored: Mapping[str, Any], given: Mapping[str, Any], shown: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return the tables of a study file with the cases and policies of both."""
    found = {**stored, **given}
    for name, key in TABLE_OF.items():
        one, other = stored.get(key), given.get(key)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            tables = {**one, **other}
            found[key] = {label: tables[label] for label in sorted(tables, key=place_in(shown[name]))}
    axes = [tables.get(AXES, {}) for tables in (given, stored)]
    if any(axes):
        found[AXES] = {name: all_values(*(each.get(name, []) for each in axes)) for name in {**axes[0], **axes[1]}}
    for key in LISTS:  # lists in a study file that names a builder; a missing list means all of the builder's
        one, other = stored.get(key), given.get(key)
        if isinstance(one, list) and isinstance(other, list):
            found[key] = sorted({*one, *other}, key=place_in(shown[key]))
        elif isinstance(found.get(key), list):
            found.pop(key)
    return found


def place_in(order: Iterable[str]) -> Any:
    """Return the function that sorts labels by an order, unknown ones last."""
    places = {label: i for i, label in reversed(list(enumerate(order)))}
    return lambda label: places.get(label, math.inf)


def _new_folder(label: str, taken: Collection[str]) -> str:
    """Return a folder name of letters, digits, dots and dashes for a label."""
    own = re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-") or "run"
    while own in taken:
        own = f"{own}-{len(taken)}"
    return own
