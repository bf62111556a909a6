"""Checking a store: reading all of it and reporting which parts are undamaged. Nothing on disk is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits.store import checkpoints
from scalable_bandits.store.errors import StoreDamaged, StoreError, one_line
from scalable_bandits.store.layout import (
    ROUND,
    check_schema,
    compare,
    count_document,
    described_arrays,
    documents,
    length_of,
    read_attributes,
    refuse_attributes,
)
from scalable_bandits.store.locations import COMMITTED, METADATA, Location
from scalable_bandits.store.notes import UNIFORM, Notes
from scalable_bandits.store.reader import StoredRun
from scalable_bandits.store.record import DIGESTS
from scalable_bandits.store.resolve import locate
from scalable_bandits.store.studies import study_copies, study_record


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
        Folder, URL that zarr can open, zarr store, or icechunk repository.

    Raises
    ------
    FileNotFoundError
        If there is no run.
    """
    location = locate(place)
    copies = read_attributes(location)
    if copies.attributes is None:
        yield _without_attributes(location, copies.damaged)
        return
    attributes = copies.attributes
    for file, why in copies.damaged.items():
        yield Part(file, why, mended=True)
    try:
        check_schema(location.name, attributes)
        run = StoredRun(location, attributes, recover=True)
        run.refresh()
    except StoreError as error:
        yield Part(location.name, str(error))
        return
    yield from _logs(run)
    yield from _metadata(run, copies.damaged)
    yield from _arrays(run)
    yield from _inputs(run)
    yield from _checkpoints(run)


def _without_attributes(location: Location, damaged: Mapping[str, str]) -> Part:
    """Report on a location without readable attributes of a run."""
    if location.occupied() and not location.unfinished() and location.has_run_files():
        return Part(METADATA, str(refuse_attributes(location, damaged)))
    raise FileNotFoundError(f"store: there is no run in {location.name}")


def _logs(run: StoredRun) -> Iterator[Part]:
    """Check the commit record and the logs."""
    location, found = run.location, run.last_scan
    for problem in run.problems:
        name, _, why = problem.partition(": ")
        yield Part(name, why)
    for note in run.notes():
        yield Part(note.partition(" ")[0], note.partition(" ")[2], mended=True)
    if not run.problems:
        yield Part(f"{len(run):,} rounds", "")
        yield Part(location.record_file, "")
        for name, contents in found.logs.items():
            yield Part(f"{found.file(location, name)}, {contents.frames} frame(s)", "")


def _metadata(run: StoredRun, damaged: Mapping[str, str]) -> Iterator[Part]:
    """Check the metadata of groups and arrays, which other programs read."""
    location, bad = run.location, False
    for path, expected in documents(location, run.attributes, run.chunks.committed).items():
        file = f"{path}/{METADATA}".lstrip("/")
        wrong = compare(location, path, expected)
        if not wrong and path not in ("", COMMITTED) and (length_of(location, path) or 0) < run.chunks.committed:
            wrong = f"its length is less than the {run.chunks.committed} rounds that are there"
        if wrong and file not in damaged:
            bad = True
            yield Part(file, wrong, mended=True)
    if not bad and not damaged:
        yield Part("the metadata of all arrays", "")


def _arrays(run: StoredRun) -> Iterator[Part]:
    """Check every chunk of every field, and ``committed``."""
    yield from _count(run)
    bad = False
    for part in (*_digests(run), *_chunks(run)):
        bad = True
        yield part
    if not bad:
        chunks, rest = divmod(run.chunks.committed, run.chunk)
        yield Part(f"{chunks + bool(rest)} chunk(s) of {len(run.fields)} fields", "")


def _count(run: StoredRun) -> Iterator[Part]:
    """Check the number of rounds in ``committed``."""
    try:
        array = run.location.column(COMMITTED, count_document(run.attributes), strict=True)
        count: Any = int(np.asarray(array[()]))
        committed = run.chunks.committed
        why = "" if count == committed else f"it says {count} rounds, and {committed} are committed"
    except Exception as error:  # codecs raise errors of any class
        why = f"it cannot be read ({one_line(error)})"
    if why:
        yield Part(f"{COMMITTED}/c", why, mended=True)


def _digests(run: StoredRun) -> Iterator[Part]:
    """Check the log of digests."""
    file = run.last_scan.file(run.location, DIGESTS)
    try:
        if not run.chunks.digests_match():
            yield Part(file, "it is damaged, and at least one chunk too")
    except StoreDamaged as error:
        yield Part(file, str(error))


def _chunks(run: StoredRun) -> Iterator[Part]:
    """Check every chunk of every field."""
    for number in range(run.chunks.whole // run.chunk):
        start, stop = number * run.chunk, (number + 1) * run.chunk
        for field in run.fields:
            why = run.chunks.problem(field.name, number)
            if why:
                text = f"rounds {start + 1} to {stop} of {field.name!r} cannot be read ({why})"
                yield Part(run.chunks.key(field.name, number), text)
        why = _numbers(run, start, stop)
        if why:
            missing = run.chunks.first_missing(ROUND.name) <= number
            yield Part(run.chunks.key(ROUND.name, number), why, mended=missing)
    if run.chunks.committed > run.chunks.whole:
        yield from _last_chunk(run)


def _last_chunk(run: StoredRun) -> Iterator[Part]:
    """Check the unfinished chunk, which the last close wrote; its rounds are in the journal as well."""
    for name, found in run.chunks.last_chunk().items():
        if isinstance(found, str):
            key = run.chunks.key(name, run.chunks.whole // run.chunk)
            yield Part(key, found, mended=not run.problems)
    why = _numbers(run, run.chunks.whole, run.chunks.committed)
    if why:
        yield Part(run.chunks.key(ROUND.name, run.chunks.whole // run.chunk), why, mended=True)


def _numbers(run: StoredRun, start: int, stop: int) -> str:
    """Return what is wrong with the stored numbers of some rounds; empty if nothing is."""
    try:
        right = np.array_equal(run.chunks.read_unchecked(ROUND.name, start, stop), np.arange(start + 1, stop + 1))
    except StoreDamaged as error:
        return str(error)
    return "" if right else f"it does not contain the numbers {start + 1} to {stop}"


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
    for name, header in checkpoints.read_headers(run.location).items():
        why = header.problem
        if not why and header.attributes["run"] != run.attributes["id"]:
            why = "it is another run's"
        if not why:
            try:
                checkpoints.read(run.location, name, header.attributes)
            except ValueError as error:
                why = str(error)
        rounds = f", after {header.attributes['rounds']:,} rounds" if not why else ""
        yield Part(f"{checkpoints.GROUP}/{name}{rounds}", why, mended=True)


def check_study(place: Any) -> Iterator[Part]:
    """Check what a study records of all its runs; yields nothing if the place has no study.

    Parameters
    ----------
    place
        Folder or URL.
    """
    location = locate(place)
    try:
        record = study_record(place)
    except StoreError as error:
        yield Part(METADATA, str(error))
        return
    if record is None:
        return
    found, damaged = study_copies(location)
    for file in (METADATA, f"{UNIFORM}/{METADATA}"):
        if file not in found:
            yield Part(file, damaged.get(file, "it is missing"), mended=True)
    attributes = next(iter(found.values()))
    notes = Notes((len(record["cases"]), len(record["policies"]), record["replicates"]), record["horizon"])
    problems = notes.load(location, attributes["id"])
    for problem in problems:
        name, _, why = problem.partition(" ")
        yield Part(name, f"{why}; its numbers are computed again from the runs")
    if not damaged and not problems:
        yield Part("the study's attributes and notes", "")
