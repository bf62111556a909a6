"""Studies that grow: cases, policies, replicates and rounds that are added to those in a store.

Cases and policies that come later are appended, so that what is stored keeps its place; `SHOWN` has the order in which
a dataset shows them, and `FOLDERS` the names of their folders, where these do not follow from the lists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from scalable_bandits.specification import differences

LISTS = ("cases", "policies")
TABLES, FOLDERS, SHOWN = "specification", "folders", "shown"  # keys of a study's record; the first: its study file
BUILD = "build"  # name of the function of a study that was made in Python
HORIZON, HORIZONS = "horizon", "horizons"  # the longest; all, in ascending order, if a study has a list of them
VARIANTS = "variants"  # names and values of the cases and policies that are played at a value of an axis, by label
ABSENT = "absent"  # label of a case and name of a policy, of each pair that is not played
AXES = "axes"  # table of a study file
# Keys that may differ.
FREE = (
    "version", "python", "data", "title", "source", "replicates", HORIZON, HORIZONS, VARIANTS, ABSENT, BUILD, FOLDERS,
    SHOWN,
)  # fmt: skip
TABLE_OF = {"cases": "environments", "policies": "policies"}  # tables of a study file by list

Value = int | float | str


class Variant(NamedTuple):
    """Case or policy of a study, at one value of each axis that it depends on."""

    label: str  # as the dataset names it
    name: str  # as the study names it
    values: Mapping[str, Value]  # by axis; of a policy `HORIZON`, too, if it is played at several


def variants(record: Mapping[str, Any], name: str) -> list[Variant]:
    """Return the cases or the policies of a study.

    Parameters
    ----------
    record
        Record of the study.
    name
        One of `LISTS`.
    """
    known = record.get(VARIANTS, {}).get(name, {})
    return [Variant(label, *known.get(label, (label, {}))) for label in record[name]]


def present(record: Mapping[str, Any]) -> list[list[bool]]:
    """Return whether each policy is played, by case.

    Parameters
    ----------
    record
        Record of the study.
    """
    absent = {tuple(pair) for pair in record.get(ABSENT, ())}
    names = [one.name for one in variants(record, "policies")]
    return [[(case, name) not in absent for name in names] for case in record["cases"]]


def described(found: Mapping[str, Sequence[Variant]], horizons: Sequence[int] | None) -> dict[str, Any]:
    """Return what a record has of the cases and policies of a study.

    Parameters
    ----------
    found
        Cases and policies, by `LISTS`.
    horizons
        Horizons, if the study has a list of them.
    """
    known = {name: {one.label: [one.name, dict(one.values)] for one in found[name] if one.values} for name in LISTS}
    return {
        **{name: [one.label for one in found[name]] for name in LISTS},
        **({VARIANTS: known} if any(known.values()) else {}),
        **({} if horizons is None else {HORIZONS: list(horizons)}),
    }


def rounds_of(record: Mapping[str, Any]) -> list[int]:
    """Return the number of rounds of each policy.

    Parameters
    ----------
    record
        Record of the study.
    """
    return [int(one.values.get(HORIZON, record[HORIZON])) for one in variants(record, "policies")]


def disagreements(stored: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return the differences of two records that no growth explains; empty if one store can have both.

    Parameters
    ----------
    stored, given
        Records of a study.
    """
    left_out = (*FREE, *LISTS, *(() if TABLES in stored else (TABLES,)))  # some were made before there were study files
    one, other = ({key: value for key, value in record.items() if key not in left_out} for record in (stored, given))
    if TABLES in one and TABLES in other:
        one[TABLES], other[TABLES] = _common(one[TABLES], other[TABLES]), _common(other[TABLES], one[TABLES])
    return [*differences(one, other), *_other_axes(stored, given)]


def _other_axes(stored: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return the differences between the axes on which cases and policies of the same names depend."""
    lines = []
    for name in LISTS:
        old, new = ({one.name: list(one.values) for one in variants(record, name)} for record in (stored, given))
        for label in (label for label in new if label in old and old[label] != new[label]):
            if new[label] == [*old[label], HORIZON]:  # one horizon has become a list, of which the store has one
                continue
            one, other = (" and ".join(map(_axis_words, axes)) or "no axis" for axes in (old[label], new[label]))
            lines.append(f"{label}: stored with {one}, given with {other}")
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


def grown(stored: Mapping[str, Any], given: Mapping[str, Any], order: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the record of a study that has what both records have.

    Parameters
    ----------
    stored, given
        Records that do not disagree.
    order
        Order of cases and policies, some of which neither record may have.
    """
    stored = _by_horizon(stored, given)
    found = {**stored, **{key: max(stored[key], given[key]) for key in ("replicates", HORIZON)}}
    if HORIZONS in stored or HORIZONS in given:
        all_of = (record.get(HORIZONS, [record[HORIZON]]) for record in (stored, given))
        found[HORIZONS] = sorted(set().union(*all_of))
    if ABSENT in stored or ABSENT in given:
        found[ABSENT] = sorted({tuple(pair) for record in (stored, given) for pair in record.get(ABSENT, ())})
    known = [record.get(VARIANTS, {}) for record in (stored, given)]
    if any(known):
        found[VARIANTS] = {name: {k: v for each in known for k, v in each.get(name, {}).items()} for name in LISTS}
    found |= {key: given[key] for key in ("title", "source", BUILD) if key in given}
    folders, shown = {}, {}
    for name in LISTS:
        found[name] = [*stored[name], *(label for label in given[name] if label not in stored[name])]
        old = stored.get(FOLDERS, {}).get(name) or slugs(stored[name])
        folders[name] = _extended(old, found[name][len(old) :])
        listed = list(order[name])
        shown[name] = sorted(found[name], key=_place_in(listed))
    for key, values, usual in ((FOLDERS, folders, {n: slugs(found[n]) for n in LISTS}), (SHOWN, shown, found)):
        found.pop(key, None)
        if any(values[name] != usual[name] for name in LISTS):
            found[key] = values
    if TABLES in stored and TABLES in given:
        names = {one.label: one.name for name in LISTS for one in variants(found, name)}
        order = {name: list(dict.fromkeys(names[label] for label in shown[name])) for name in LISTS}
        found[TABLES] = _all_tables(stored[TABLES], given[TABLES], order)
    return found


def _by_horizon(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored record whose policies have the labels that they get once one horizon has become a list."""
    axes = {one.name: list(one.values) for one in variants(given, "policies")}
    found: list[Variant] = []
    for one in variants(stored, "policies"):
        values = dict(one.values)
        if axes.get(one.name) == [*values, HORIZON]:
            values[HORIZON] = stored[HORIZON]
            one = Variant(f"{one.label}, {shown_value(HORIZON, stored[HORIZON])}", one.name, values)
        found.append(one)
    new = described({"cases": variants(stored, "cases"), "policies": found}, stored.get(HORIZONS))
    folders = {name: stored.get(FOLDERS, {}).get(name) or slugs(stored[name]) for name in LISTS}
    return dict(stored) if new["policies"] == stored["policies"] else {**stored, **new, FOLDERS: folders}


def shown_value(axis: str, value: Value) -> str:
    """Return the value of an axis as it stands in labels.

    Parameters
    ----------
    axis
        Name of the axis.
    value
        Its value.
    """
    shown = value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:.12g}"
    return f"{'T' if axis == HORIZON else axis} = {shown}"


def _all_values(stored: Sequence[Value], given: Sequence[Value]) -> list[Value]:
    """Return the values that an axis has in one of two studies, in ascending order where they have one."""
    found = [*given, *(value for value in stored if value not in given)]
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
            found[key] = {label: tables[label] for label in sorted(tables, key=_place_in(shown[name]))}
    axes = [tables.get(AXES, {}) for tables in (given, stored)]
    if any(axes):
        names = dict.fromkeys(name for each in axes for name in each)
        found[AXES] = {name: _all_values(*(each.get(name, []) for each in reversed(axes))) for name in names}
    for key in LISTS:  # lists in a study file that names a builder; a missing list means all of the builder's
        one, other = stored.get(key), given.get(key)
        if isinstance(one, list) and isinstance(other, list):
            found[key] = sorted({*one, *other}, key=_place_in(shown[key]))
        elif isinstance(found.get(key), list):
            found.pop(key)
    return found


def _place_in(order: Sequence[str]) -> Any:
    """Return the function that sorts labels by an order, unknown ones last."""
    places = {label: i for i, label in enumerate(order)}
    return lambda label: places.get(label, len(places))


def _extended(folders: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Return names of folders, with new ones for more labels."""
    found = list(folders)
    for label in labels:
        name = own = _slug(label)
        while own in found:
            own = f"{name}-{len(found)}" if own == name else f"{own}-{len(found)}"
        found.append(own)
    return found


def _slug(label: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-") or "run"


def slugs(labels: Sequence[str]) -> list[str]:
    """Return a distinct folder name of letters, digits, dots and dashes for each label."""
    found = [_slug(label) for label in labels]
    names: list[str] = []
    for i, name in enumerate(found):
        own = name if found.count(name) == 1 else f"{name}-{i}"
        while own in names:  # the labels "a", "A" and "a-1": the second is named "a-1" too
            own = f"{own}-{i}"
        names.append(own)
    return names
