"""Studies that grow: cases, policies, replicates and rounds that are added to those in a store.

Cases and policies that come later are appended, so that what is stored keeps its place; `SHOWN` has the order in which
a dataset shows them, and `FOLDERS` the names of their folders, where these do not follow from the lists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from scalable_bandits.specification import differences

LISTS = ("cases", "policies")
TABLES, FOLDERS, SHOWN = "specification", "folders", "shown"  # keys of a study's record; the first: its study file
BUILD = "build"  # name of the function of a study that was made in Python
# Keys that may differ.
FREE = ("version", "python", "data", "title", "source", "replicates", "horizon", BUILD, FOLDERS, SHOWN)
TABLE_OF = {"cases": "environments", "policies": "policies"}  # tables of a study file by list


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
    return differences(one, other)


def _common(tables: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a study file, of cases and policies only those that another one has too."""
    found = {key: value for key, value in tables.items() if key not in ("cases", *TABLE_OF.values())}
    for key in TABLE_OF.values():
        if isinstance(tables.get(key), Mapping) and isinstance(other.get(key), Mapping):
            found[key] = {name: table for name, table in tables[key].items() if name in other[key]}
    return found


def grown(stored: Mapping[str, Any], given: Mapping[str, Any], order: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the record of a study that has what both records have.

    Parameters
    ----------
    stored, given
        Records that do not disagree.
    order
        Order of cases and policies, some of which neither record may have.
    """
    found = {**stored, **{key: max(stored[key], given[key]) for key in ("replicates", "horizon")}}
    found |= {key: given[key] for key in ("title", "source", BUILD) if key in given}
    folders, shown = {}, {}
    for name in LISTS:
        found[name] = [*stored[name], *(label for label in given[name] if label not in stored[name])]
        old = stored.get(FOLDERS, {}).get(name) or slugs(stored[name])
        folders[name] = _extended(old, found[name][len(old) :])
        listed = list(order[name])
        shown[name] = sorted(found[name], key=lambda label: listed.index(label) if label in listed else len(listed))
    for key, values, usual in ((FOLDERS, folders, {n: slugs(found[n]) for n in LISTS}), (SHOWN, shown, found)):
        found.pop(key, None)
        if any(values[name] != usual[name] for name in LISTS):
            found[key] = values
    if TABLES in stored and TABLES in given:
        found[TABLES] = _all_tables(stored[TABLES], given[TABLES], shown)
    return found


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
    for key in LISTS:  # of a study file that names a builder: lists, all of its own if there is none
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
