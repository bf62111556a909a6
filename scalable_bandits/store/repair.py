"""Mending what a writer that died, or a disk, left behind."""

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
from scalable_bandits.store.upgrade import remove_schema_1_files
from scalable_bandits.store.writer import RunWriter

OWN = ("schema", "id", "digest", "chunk", "fields", "specification", "planned")  # attributes of any run


def mend(store: RunWriter, thorough: bool = False) -> None:
    """Bring a store whose lock was just taken into order; what was done is added to its `repairs`.

    Parameters
    ----------
    store
        The store.
    thorough
        Read every round, too: what cannot be read is damage.

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
    for file in set(location.journals()) - current:  # of a chunk that was not committed, or that was
        location.journal(file).remove()
    remove_schema_1_files(location)
    store._commit_record()
    location.commit_transaction()


def _renew_logs(store: RunWriter, found: Scan) -> None:
    """Begin the logs anew that end in a torn frame, or that can be made again."""
    table = store.chunks.digests()
    for name, contents in found.logs.items():
        file = found.file(store.location, name)
        if name == DIGESTS and table is not None:
            known = digests.decode(contents, len(store.fields), len(table))
            if known is None or not np.array_equal(known, table) or contents.torn or contents.gaps():
                store._replace_log(DIGESTS, [Entry(Kind.START, 0, b""), Entry(Kind.DIGESTS, 0, digests.encode(table))])
                store.repairs.append(f"{file}, the digests of the chunks, was made again")
        elif contents.torn or any(isinstance(item, Gap) for item in contents.items):
            same = (Entry(f.kind, f.first, f.payload, f.time) for f in contents.valid())
            store._replace_log(
                name, store._first_frames(store.chunks.whole, closed=store.orderly) if name == ROUNDS else list(same)
            )
            text = f"a torn tail of {contents.torn} bytes was cut from {file}"
            store.repairs.append(f"{text}; {len(store)} rounds are there" if name == ROUNDS else text)


def _check_chunks(store: RunWriter, thorough: bool) -> None:
    """StoreDamaged if a chunk of the committed rounds is not there; asks for names only, if it need not be thorough."""
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
    """Give all arrays one length, with room for the rounds that are there."""
    location, committed = store.location, store._record.rounds
    lengths = {field: length_of(location, field.name) or 0 for field in (ROUND, *store.fields)}
    store._arrays.length = max(*lengths.values(), committed)
    short = [field for field, length in lengths.items() if length < store._arrays.length]
    for field in short:
        document = field_document(field, store.chunk, store._arrays.length, location.separator)
        location.put_document(field.name, document)
    if min(lengths.values()) < committed:  # else they were just growing
        store.repairs.append("arrays of several lengths were given one")
    if len(store._rows) and committed > store.chunks.whole:
        ends = store.chunks.whole, committed
        store._unpublished = (
            store.chunks.published() is None or store.chunks.first_unreadable(ROUND.name, *ends) < committed
        )


def _renumber(store: RunWriter, thorough: bool) -> None:
    """Write the numbers of rounds again where their chunk is missing, or (thorough) damaged."""
    start = 0 if thorough else store.chunks.first_missing(ROUND.name) * store.chunk
    for first in range(start, store.chunks.whole, store.chunk):
        numbers = np.arange(first + 1, first + store.chunk + 1)
        with suppress(StoreDamaged):
            if np.array_equal(store.chunks.read_unchecked(ROUND.name, first, first + store.chunk), numbers):
                continue
        store._arrays.array(ROUND.name)[first : first + store.chunk] = numbers
        store.repairs.append(f"the numbers of rounds {first + 1} to {first + store.chunk} were written again")


def _check_count(store: RunWriter) -> None:
    """Write the count for other readers again, if it is another one than is committed."""
    array = store._arrays.array(COMMITTED)
    try:
        count: Any = int(np.asarray(array[()]))
    except Exception:  # codecs raise what they like
        count = "damaged"
    store._public_count = store._record.rounds
    if count != store._record.rounds:
        array.with_config(WHOLE)[...] = store._record.rounds
        store.repairs.append(f"{COMMITTED}/c, the count for other readers, was {count}, and is {store._record.rounds}")


# ---- going on with what is there


def recover(run: StoredRun, create: Callable[..., RunWriter]) -> str:
    """Put a new run with everything that can be read in the place of a damaged one; says what became of it.

    The damaged files are kept, all of them, beside it. Where lost rounds can be played again to the same numbers (of a
    simulation) the run ends before the first of them; else those after them close up.

    Parameters
    ----------
    run
        The damaged run, opened with `recover`.
    create
        Makes a store, as `ObservationStore.create`.

    Raises
    ------
    ValueError
        If there is no room beside it for a copy: it is in no folder.
    """
    location = run.location
    beside, kept = location.free_sibling("recovering", "recover"), location.free_sibling("damaged", "recover")
    given = {key: value for key, value in run.attributes.items() if key not in OWN}
    store = create(
        beside, run.fields, specification=run.specification, planned=run.planned, chunk=run.chunk, attributes=given,
        inputs=_inputs(run),
    )  # fmt: skip
    _copy_rounds(run, store)
    store.note_pending(run.pending, run.proposals)
    for frame in run.tickets():
        store.write_frame(TICKETS, Entry(frame.kind, frame.first, frame.payload, frame.time))
    store.close(orderly=run.orderly)
    location.move(kept)
    beside.move(location)
    lost = run.known - len(store)
    fate = "will be played again" if run.deterministic else "were given up"
    gone = f"{lost} round(s) {fate}" if lost else "no round was given up"
    return f"{gone}, {len(store)} are there; all files as they were are in {kept.name}"


def _copy_rounds(run: StoredRun, store: RunWriter) -> None:
    """Append every round that can be read; of a run that can be played again, those before the first that cannot."""
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
    """The arrays of the specification that can be read, by their digests."""
    found = {}
    for described in described_arrays(run.specification):
        with suppress(StoreDamaged):
            found[described["array"]] = run.input(described)
    return found
