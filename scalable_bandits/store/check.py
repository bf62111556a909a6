"""Checking a store: reading all of it and reporting which parts are undamaged. Nothing on disk is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits.store import checkpoints
from scalable_bandits.store.errors import StoreDamaged, StoreError, one_line, store_errors
from scalable_bandits.store.layout import ROUND, count_document, described_arrays
from scalable_bandits.store.ledger import read_document
from scalable_bandits.store.locations import COMMITTED, INPUTS, METADATA, locate
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
    whole = f"{len(run):,} rounds, {len(run.tickets):,} evaluations in {location.ledger_file}"
    chunks = f"{len(run.contents.chunks)} chunk(s) of {len(run.fields)} fields"
    yield from _parts([tuple(problem.partition(": ")[::2]) for problem in run.problems], whole)
    yield from _parts(list(_metadata(run)), "the metadata of all arrays", mended=True)
    problems = [(number, run.arrays.problems(number)) for number in sorted(run.contents.chunks)]
    yield from _parts([(run.arrays.key(name, n), why) for n, found in problems for name, why in found.items()], chunks)
    inputs = {described["array"]: described for described in described_arrays(run.specification)}
    yield from _parts(list(_inputs(run, inputs)), f"{len(inputs)} array(s) of the specification" if inputs else "")
    yield from _checkpoint(run)


def _parts(problems: Sequence[Sequence[str]], whole: str, mended: bool = False) -> Iterator[Part]:
    """Yield the damaged files; or, where none is damaged, what is whole."""
    for file, why in problems:
        yield Part(file, why, mended or file.startswith(f"{ROUND.name}/"))
    if whole and not problems:
        yield Part(whole, "")


def _metadata(run: StoredRun) -> Iterator[tuple[str, str]]:
    """Check the metadata of groups and arrays, which other programs read."""
    location, rounds = run.location, run.contents.state.rounds
    for problem in read_document(location).problems if location.keeps_tickets else []:
        file, _, why = problem.partition(": ")
        yield file, why
    for path, why in run.arrays.damaged_metadata().items():
        yield f"{path}/{METADATA}".lstrip("/"), why
    try:
        array = location.column(COMMITTED, count_document({}))
        count: Any = int(np.asarray(array[()]))
        expected_count = len(run) if run.orderly else rounds
        why = "" if count == expected_count or location.writer() else f"it says {count} rounds, not {expected_count}"
    except Exception as error:  # codecs raise errors of any class
        why = f"it cannot be read ({one_line(error)})"
    if why:
        yield f"{COMMITTED}/c", why


def _inputs(run: StoredRun, inputs: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Check the long arrays of the specification."""
    for digest, described in inputs.items():
        try:
            run.input(described)
        except StoreDamaged as error:
            yield f"{INPUTS}/{digest}", str(error)


def _checkpoint(run: StoredRun) -> Iterator[Part]:
    """Check the checkpoint."""
    header = checkpoints.read_header(run.location)
    why = header.problem or ("" if header.run == run.attributes["id"] else "it is another run's")
    if why == checkpoints.MISSING:
        return
    if not why:
        try:
            checkpoints.load_arrays(run.location, checkpoints.KEY)
        except ValueError as error:
            why = str(error)
    yield Part(checkpoints.KEY + ("" if why else f", after {header.rounds:,} rounds"), why, mended=True)
