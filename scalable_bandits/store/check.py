"""Checking a store: reading all of it and reporting which parts are undamaged. Nothing on disk is changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits.store import checkpoints
from scalable_bandits.store.errors import StoreDamaged, StoreError, one_line, store_errors
from scalable_bandits.store.layout import (
    ROUND,
    compare,
    count_document,
    described_arrays,
    documents,
)
from scalable_bandits.store.ledger import read_document
from scalable_bandits.store.locations import COMMITTED, METADATA, locate
from scalable_bandits.store.reader import StoredRun, read_contents


class Part(NamedTuple):
    """Part of a store: a file, or several that belong together."""

    name: str  # path of the file inside the store, or content of the files
    problem: str  # damage; empty if there is none
    mended: bool = False  # whether opening the store for writing repairs it without loss


def check_run(place: Any) -> Iterator[Part]:
    """Check every part of one run.

    Parameters
    ----------
    place
        Folder, URL that zarr can open, or zarr store.

    Raises
    ------
    FileNotFoundError
        If there is no run.
    """
    location = locate(place)
    try:
        with store_errors(location.name, "checking it"):
            run = StoredRun(location, read_contents(location, thorough=True), recover=True)
    except StoreError as error:
        yield Part(location.name, str(error))
        return
    for problem in run.problems:
        name, _, why = problem.partition(": ")
        yield Part(name, why)
    if not run.problems:
        yield Part(f"{len(run):,} rounds, {len(run.tickets):,} evaluations in {run.location.ledger_file}", "")
    yield from _metadata(run)
    yield from _arrays(run)
    yield from _inputs(run)
    yield from _checkpoints(run)


def _metadata(run: StoredRun) -> Iterator[Part]:
    """Check the metadata of groups and arrays, which other programs read."""
    location, rounds = run.location, run.contents.state.rounds
    problems = read_document(location).problems if location.keeps_tickets else []
    for path, expected in documents(location, run.attributes, rounds).items():
        if wrong := compare(location, path, expected):
            problems.append(f"{path}/{METADATA}: {wrong}".lstrip("/"))
    try:
        array = location.column(COMMITTED, count_document({}), strict=True)
        count: Any = int(np.asarray(array[()]))
        expected_count = len(run) if run.orderly else rounds
        why = "" if count == expected_count or location.writer() else f"it says {count} rounds, not {expected_count}"
    except Exception as error:  # codecs raise errors of any class
        why = f"it cannot be read ({one_line(error)})"
    problems += [f"{COMMITTED}/c: {why}"] if why else []
    for problem in problems:
        name, _, why = problem.partition(": ")
        yield Part(name, why, mended=True)
    if not problems:
        yield Part("the metadata of all arrays", "")


def _arrays(run: StoredRun) -> Iterator[Part]:
    """Check every chunk of every field."""
    bad, numbers = False, sorted(run.contents.chunks)
    for number in numbers:
        for name in (*(field.name for field in run.fields), ROUND.name):
            if why := run.arrays.problem(name, number):
                bad = True
                yield Part(run.arrays.key(name, number), why, mended=name == ROUND.name)
    if not bad:
        yield Part(f"{len(numbers)} chunk(s) of {len(run.fields)} fields", "")


def _inputs(run: StoredRun) -> Iterator[Part]:
    """Check the long arrays of the specification."""
    described = {array["array"]: array for array in described_arrays(run.specification)}
    bad = False
    for array in described.values():
        try:
            run.input(array)
        except StoreDamaged as error:
            bad = True
            yield Part(f"inputs/{array['array']}", str(error))
    if described and not bad:
        yield Part(f"{len(described)} array(s) of the specification", "")


def _checkpoints(run: StoredRun) -> Iterator[Part]:
    """Check the checkpoints."""
    for key, header in checkpoints.read_headers(run.location).items():
        why = header.problem or ("" if header.run == run.attributes["id"] else "it is another run's")
        if not why:
            try:
                checkpoints.load_arrays(run.location, key)
            except ValueError as error:
                why = str(error)
        rounds = f", after {header.rounds:,} rounds" if not why else ""
        yield Part(f"{key}{rounds}", why, mended=True)
