"""Repair of what a killed writer or a damaged disk left behind."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from scalable_bandits.store import digests
from scalable_bandits.store.errors import StoreDamaged
from scalable_bandits.store.frames import Gap, Kind
from scalable_bandits.store.layout import ROUND, WHOLE, described_arrays, field_document, lay_out, length_of
from scalable_bandits.store.locations import COMMITTED
from scalable_bandits.store.log import Entry
from scalable_bandits.store.reader import StoredRun
from scalable_bandits.store.record import DIGESTS, ROUNDS, TICKETS
from scalable_bandits.store.scan import Scan
from scalable_bandits.store.writer import RunWriter

# Attributes that every run has.
RUN_ATTRIBUTES = ("schema", "id", "digest", "chunk", "fields", "specification", "planned")


def repair(store: RunWriter, thorough: bool = False) -> None:
    """Repair a store whose lock was just taken, and list the repairs in its `repairs`.

    Parameters
    ----------
    store
        Store that is open for writing.
    thorough
        Whether to read every round and report unreadable ones as damage.

    Raises
    ------
    StoreDamaged
        If something that was committed cannot be read; then nothing has changed.
    """
    location = store.location
    found = store._open_logs()
    _check_chunks(store, thorough)
    left = location.remove_partial_files()
    if left:
        store.repairs.append(f"{left} half-written file(s) were removed")
    store.repairs += lay_out(location, store.attributes)
    _lengthen(store)
    _renumber(store, thorough)
    _renew_logs(store, found)
    _check_count(store)
    current = {f"{name}-{log.generation}" for name, log in store._logs.items()}
    for file in set(location.journals()) - current:  # before or after the current generation
        location.journal(file).remove()
    store._commit_record()
    location.commit_transaction()


def _renew_logs(store: RunWriter, found: Scan) -> None:
    """Replace the logs that end in a torn frame or can be rebuilt."""
    table = store.chunks.digests()
    for name, contents in found.logs.items():
        file = found.file(store.location, name)
        if name == DIGESTS:
            known = digests.decode(contents, len(store.fields), len(table))
            if known is None or not np.array_equal(known, table) or contents.torn or contents.gaps():
                store._replace_log(DIGESTS, [Entry(Kind.START, 0, b""), Entry(Kind.DIGESTS, 0, digests.encode(table))])
                store.repairs.append(f"{file}, the digests of the chunks, was made again")
        elif contents.torn or any(isinstance(item, Gap) for item in contents.items):
            text = f"a torn tail of {contents.torn} bytes was cut from {file}"
            if name == ROUNDS:
                store._replace_log(
                    name, store._first_frames(store.chunks.whole, store.rows(), store.pending, store.orderly)
                )
                store.repairs.append(f"{text}; {len(store)} rounds are there")
            else:
                store._replace_log(name, list(map(Entry.of, contents.valid())))
                store.repairs.append(text)


def _check_chunks(store: RunWriter, thorough: bool) -> None:
    """Raise StoreDamaged if a committed chunk is missing; unless `thorough`, keys are only listed."""
    for start in range(0, store.chunks.whole if thorough else 0, store.chunk):
        store.read(start, start + store.chunk)
    for field in store.fields:
        number = store.chunks.first_missing(field.name)
        if number * store.chunk < store.chunks.whole:
            start, key = number * store.chunk, store.chunks.key(field.name, number)
            raise StoreDamaged(
                store.chunks.damage_message(field.name, start, start + store.chunk, f"the chunk {key} is missing")
            )


def _lengthen(store: RunWriter) -> None:
    """Give all arrays the same length, with room for the committed rounds."""
    location, committed = store.location, store._record.rounds
    lengths = {field: length_of(location, field.name) or 0 for field in (ROUND, *store.fields)}
    store._arrays.length = max(*lengths.values(), committed)
    short = [field for field, length in lengths.items() if length < store._arrays.length]
    for field in short:
        document = field_document(field, store.chunk, store._arrays.length, location.separator)
        location.put_document(field.name, document)
    if min(lengths.values()) < committed:  # otherwise only an extension was interrupted
        store.repairs.append("arrays of different lengths were given the same length")
    if len(store._rows) and committed > store.chunks.whole:
        ends = store.chunks.whole, committed
        store._last_chunk_damaged = (
            store.chunks.published() is None or store.chunks.first_unreadable(ROUND.name, *ends) < committed
        )


def _renumber(store: RunWriter, thorough: bool) -> None:
    """Write the numbers of rounds again where their chunk is missing or, with `thorough`, damaged."""
    start = 0 if thorough else store.chunks.first_missing(ROUND.name) * store.chunk
    for first in range(start, store.chunks.whole, store.chunk):
        numbers = np.arange(first + 1, first + store.chunk + 1)
        with suppress(StoreDamaged):
            if np.array_equal(store.chunks.read_unchecked(ROUND.name, first, first + store.chunk), numbers):
                continue
        store._arrays.array(ROUND.name)[first : first + store.chunk] = numbers
        store.repairs.append(f"the numbers of rounds {first + 1} to {first + store.chunk} were written again")


def _check_count(store: RunWriter) -> None:
    """Correct ``committed`` if it differs from the number of committed rounds."""
    array = store._arrays.array(COMMITTED)
    try:
        count: Any = int(np.asarray(array[()]))
    except Exception:  # codecs raise errors of any class
        count = "damaged"
    store._public_count = store._record.rounds
    if count != store._record.rounds:
        array.with_config(WHOLE)[...] = store._record.rounds
        store.repairs.append(f"{COMMITTED}/c, the count for other readers, was {count}, and is {store._record.rounds}")


# ---- recovery of the readable rounds


def recover(run: StoredRun, create: Callable[..., RunWriter]) -> str:
    """Replace a damaged run by a new one with everything that can be read; return a description of the result.

    All damaged files are kept beside it. If the run can be simulated again, it ends before the first lost round;
    otherwise lost rounds are left out.

    Parameters
    ----------
    run
        Damaged run, opened with `recover`.
    create
        Function that creates a store, with the parameters of `ObservationStore.create`.

    Raises
    ------
    ValueError
        If the run is not in a folder, so that no copy can be kept beside it.
    """
    location = run.location
    sibling, kept = location.free_sibling("recovering"), location.free_sibling("damaged")
    given = {key: value for key, value in run.attributes.items() if key not in RUN_ATTRIBUTES}
    store = create(
        sibling, run.fields, specification=run.specification, planned=run.planned, chunk=run.chunk, attributes=given,
        inputs=_inputs(run),
    )  # fmt: skip
    try:
        _copy_rounds(run, store)
        for failure in run.failures:
            store.note_failure(failure._replace(rounds=min(failure.rounds, len(store))), [])
        store.note_pending(run.pending, run.proposals)
        for frame in run.tickets():
            store.write_frame(TICKETS, Entry.of(frame))
    except BaseException:
        store.close(orderly=False)
        raise
    store.close(orderly=run.orderly)
    location.move(kept)
    sibling.move(location)
    lost = run.known - len(store)
    fate = "will be played again" if run.deterministic else "are lost"
    result = f"{lost} round(s) {fate}" if lost else "no round is lost"
    return f"{result}, {len(store)} are there; all original files are in {kept.name}"


def _copy_rounds(run: StoredRun, store: RunWriter) -> None:
    """Append the readable rounds; of a run that can be simulated again, only those before the first unreadable one."""
    for start in range(0, run.chunks.whole, run.chunk):
        try:
            rows = run.read(start, start + run.chunk)
        except StoreDamaged as error:
            run.problems.append(str(error))
            if run.deterministic:
                return
            continue
        store.append(rows)
    store.append(run.read(run.chunks.whole))


def _inputs(run: StoredRun) -> dict[str, Any]:
    """Return the readable arrays of the specification by their digests."""
    found = {}
    for described in described_arrays(run.specification):
        with suppress(StoreDamaged):
            found[described["array"]] = run.input(described)
    return found
