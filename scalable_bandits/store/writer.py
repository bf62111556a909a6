"""Writing of a run: whole chunks in zarr, later rounds in a journal, and a commit record that names all of it.

Files are made durable in this order:

1. rounds after the last whole chunk: frames of the journal (with durability "round" each before its call returns);
2. a chunk of every field, once all its rounds exist (it never changes afterwards), and a frame with its digests;
3. the next generation of the journal, which begins after that chunk;
4. the commit record, which names all of these; then ``committed``, the number of rounds for other zarr readers.

Closing also writes the unfinished chunk, so that plain zarr and xarray see every round, and trims the arrays; the
journal keeps these rounds until their chunk is whole. Opening for writing repairs what a killed process may leave
(`repair.py`): chunks and journals that no commit record names, a torn frame, or arrays of different lengths.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self

import attrs
import numpy as np

from scalable_bandits.store import digests, failures
from scalable_bandits.store import pending as pendings
from scalable_bandits.store.arrays import ArrayWriter
from scalable_bandits.store.errors import StoreError, store_errors
from scalable_bandits.store.failures import Failure
from scalable_bandits.store.frames import Kind
from scalable_bandits.store.layout import ROUND, WHOLE, length_of
from scalable_bandits.store.locations import COMMITTED, Location
from scalable_bandits.store.log import Entry, Log
from scalable_bandits.store.pending import Proposals
from scalable_bandits.store.reader import StoredRun
from scalable_bandits.store.record import DIGESTS, ROUNDS, TICKETS, CommitRecord, Extent, encode_counter
from scalable_bandits.store.rows import Columns, Rows
from scalable_bandits.store.scan import NOTHING, Scan, scan

BLOCK_SECONDS = 1.0  # durability "block": rows that come so long after the last write are written at once
BLOCK_BYTES = 2**25  # size of the rows written at once: writing one chunk at a time is half as fast

Durability = Literal["round", "block"]


class RunWriter(StoredRun):
    """Run that is open for writing, or for reading only; with durability "block", up to `block` rows are in memory."""

    def __init__(
        self, location: Location, attributes: Mapping[str, Any], durability: Durability, writable: bool,
        recover: bool = False,
    ):  # fmt: skip
        super().__init__(location, attributes, recover)
        self._writer, self.durability, self.block_seconds = os.getpid() * writable, durability, BLOCK_SECONDS
        chunks = BLOCK_BYTES // (self.chunk * self._rows.width) if durability == "block" else 1
        self.block = self.chunk * max(chunks, 1)  # rows held before they are written as whole chunks
        self._logged = 0  # number of rows after the whole chunks that are in the journal
        self._logged_pending: list[int] = []  # pending candidates in the journal
        self._journal_overlaps = False  # whether the journal has rounds that are in whole chunks too
        self._last_chunk_damaged = False  # whether the unfinished chunk in the arrays is damaged
        self._flushed = time.monotonic()
        self._record = CommitRecord(attributes["id"])
        self._record_uncertain = False  # whether the commit record on disk may differ
        self._broken = ""  # why nothing can be written any more
        self._old_logs: list[Log] = []  # logs to be removed
        self._public_count = -1  # value of ``committed``
        self._logs: dict[str, Log] = {}
        self._arrays = ArrayWriter(location, attributes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(orderly=kind is None)

    @property
    def durable(self) -> int:
        """Number of rounds that would survive if the process died now."""
        return self.chunks.whole + (self._logged if self.writable else len(self._rows))

    def append(self, columns: Mapping[str, Any]) -> None:
        """Add rounds at the end: an array (k, ...) of each field.

        With durability "round" they are on disk when this returns.

        Raises
        ------
        ValueError
            If a field is missing, unknown, or of another shape.
        OSError
            If the rounds cannot be written, for example because the disk is full. After any error, none of these rounds
            is in the store and all earlier ones still are.
        """
        self._check_writable()
        rows, count = self._rows.check(columns)
        late = self.durability == "block" and self._overdue()
        # Before the new rows are accepted: if it fails, nothing has changed.
        if len(self._rows) >= self.block:
            self._write_whole_chunks()
        elif late:
            self.flush()
        if self.durability == "round":
            with store_errors(self.location.name, "writing rounds"):
                self._append_frame(Entry(Kind.ROWS, len(self), self._rows.encode(rows)))
            self.take(rows, count)
            self._logged = len(self._rows)
            self._logged_pending = list(self.pending)  # the journal's rows imply it
            return
        written = self._write_whole_chunks(rows, count) if count >= self.block else 0
        self.take(rows, count, skip=written)
        if late or self._overdue():
            with suppress(OSError):  # the rows are accepted; the next call raises the error
                self.flush()

    def _overdue(self) -> bool:
        return time.monotonic() - self._flushed > self.block_seconds

    def note_pending(self, candidates: Sequence[int], proposals: Proposals = pendings.NO_PROPOSALS) -> None:
        """Record the pending candidates; with durability "round" they are on disk when this returns."""
        self._check_writable()
        if self.durability == "round" and list(candidates) != self._logged_pending:
            with store_errors(self.location.name, "writing the pending candidates"):
                payload = pendings.encode(candidates, proposals, self.dimension)
                self._append_frame(Entry(Kind.PENDING, len(self), payload))
            self._logged_pending = list(candidates)
        self.pending, self.proposals = list(candidates), proposals

    def note_failure(
        self, failure: Failure, candidates: Sequence[int], proposals: Proposals = pendings.NO_PROPOSALS
    ) -> None:
        """Record a failure, and the candidates that are pending after it; both are on disk when this returns."""
        self.flush()
        with store_errors(self.location.name, "writing a failure"):
            pending = pendings.encode(candidates, proposals, self.dimension)
            self._append_frame(Entry(Kind.FAILURE, failure.rounds, failures.encode(failure, pending)))
        self.failures.append(failure)
        self.pending, self.proposals, self._logged_pending = list(candidates), proposals, list(candidates)

    def _pending(self) -> bytes:
        """Return the pending candidates as bytes."""
        return pendings.encode(self.pending, self.proposals, self.dimension)

    def flush(self) -> None:
        """Make all rounds appended so far durable."""
        self._check_writable()
        if len(self._rows) >= self.chunk:
            self._write_whole_chunks()
        with store_errors(self.location.name, "writing rounds"):
            new_rows = self._logged < len(self._rows)
            if new_rows:
                fresh = self._rows.view(self._logged)
                first = self.chunks.whole + self._logged
                self._append_frame(Entry(Kind.ROWS, first, self._rows.encode(fresh)))
                self._logged = len(self._rows)
            # Reading rows removes their candidates from the pending ones: record those that remain.
            if self.pending != self._logged_pending or (new_rows and self.pending):
                self._append_frame(Entry(Kind.PENDING, len(self), self._pending()))
                self._logged_pending = list(self.pending)
        self._flushed = time.monotonic()

    def close(self, orderly: bool = True) -> None:
        """Make everything durable and visible to any zarr reader, and release the lock. A forked child does nothing."""
        if not self.writable:
            return
        try:
            self.flush()
            with store_errors(self.location.name, "closing it"):
                self._check_there()
                tail = self._publish()
                if orderly:
                    self._append_frame(Entry(Kind.CLOSED, len(self), self._pending()))
                self._commit_record(rounds=len(self), tail=tail)
                self.location.commit_transaction()
                self._finish_commit()
        finally:
            self._writer = 0
            for log in (*self._logs.values(), *self._old_logs):
                log.close()
            self._arrays.close()
            self.location.unlock()

    def _check_writable(self) -> None:
        """Raise StoreError unless the run can be written; first write a commit record that may be missing on disk."""
        if not self.writable:
            raise StoreError(f"store {self.location.name}: it is not open for writing in this process")
        if self._broken:
            raise StoreError(f"store {self.location.name}: {self._broken}; open it again")
        if self._record_uncertain:  # logs must not grow before a record names them
            with store_errors(self.location.name, "writing the commit record"):
                self.location.write_record(self._record.to_plain())
                self.location.commit_transaction()
            self._record_uncertain = False
            with suppress(Exception):
                self._logs[ROUNDS].next_generation().remove()

    def _check_there(self) -> None:
        """Raise FileNotFoundError if the run was moved: its open arrays would write chunks at the old place."""
        if not self.location.has_run_files():
            raise FileNotFoundError(errno.ENOENT, "it was moved or removed")

    def _create_logs(self) -> None:
        """Make the logs and the commit record of a new run."""
        self.chunks.set_record(self._record, NOTHING, "")
        self._arrays.length = length_of(self.location, ROUND.name) or 0
        for name in (ROUNDS, DIGESTS):
            self._new_log(name, self._pending() if name == ROUNDS else b"")
        self._arrays.array(COMMITTED).with_config(WHOLE)[...] = 0
        self._public_count = 0
        self._commit_record()
        self.location.commit_transaction()

    def _open_logs(self) -> Scan:
        """Scan a run whose lock was just taken, and open its logs."""
        found = scan(self.location, self.attributes)
        self._load(found)
        self._record = found.record
        self.chunks.digests()
        for name, contents in found.logs.items():
            extent = found.record.logs[name]._replace(frames=contents.frames)
            self._logs[name] = Log(self.location, self._record.run, name, extent)
        self._logged, self._logged_pending = len(self._rows), list(self.pending)
        return found

    # ---- the steps of writing

    def _new_log(self, name: str, payload: bytes = b"") -> None:
        """Make the first generation of a log, with its first frame."""
        log = Log(self.location, self._record.run, name, Extent(1))
        log.create([Entry(Kind.START, 0, payload)])
        self._logs[name] = log

    def _append_frame(self, entry: Entry, name: str = ROUNDS) -> None:
        """Add a frame to a log, durably; if this raises, the log is unchanged."""
        log = self._logs[name]
        mark = log.mark()
        try:
            log.append(entry)
            rows = len(entry.payload) // self._rows.width if entry.kind == Kind.ROWS else 0
            self._acknowledge(entry.first + rows if rows else self.chunks.whole + self._logged)
            self.location.commit_transaction()
        except BaseException:
            self._broken = "a frame was written in part and could not be removed"
            self.location.roll_back()
            log.rewind(mark)
            self._acknowledge(self.chunks.whole + self._logged)
            self._broken = ""
            raise

    def _acknowledge(self, rounds: int) -> None:
        """Record the number of frames in the logs, for a run of `rounds` rounds."""
        reached = (self._logs[name].extent(rounds) if name in self._logs else Extent(0) for name in (ROUNDS, TICKETS))
        self.location.acknowledge(encode_counter(self._record.run, *reached))

    def write_frame(self, name: str, entry: Entry) -> None:
        """Add a frame to a log, which is made if it does not exist; the frame is on disk when this returns.

        Parameters
        ----------
        name
            Name of the log.
        entry
            Content of the frame.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        self._check_writable()
        if name not in self._logs:
            self._new_log(name)
            try:
                self._commit_record()
            except BaseException:
                del self._logs[name]
                raise
        self._append_frame(entry, name)

    def _next_record(self, logs: Mapping[str, Log], in_logs: int, **changes: Any) -> CommitRecord:
        """Return the commit record with changes, with the current attributes and with logs up to round `in_logs`."""
        extents = {name: log.extent(in_logs) for name, log in logs.items()}
        return attrs.evolve(self._record, logs=extents, attributes=self.attributes["digest"], **changes)

    def _commit_record(self, **changes: Any) -> None:
        """Write the commit record, with changes to other fields than attributes and logs."""
        record = self._next_record(self._logs, self.chunks.whole + self._logged, **changes)
        if record == self._record:
            return
        self._record_uncertain = True
        self.location.write_record(record.to_plain())
        self._record, self.chunks.committed, self._record_uncertain = record, record.rounds, False

    def _finish_commit(self) -> None:
        """Update ``committed`` and remove old logs; the commit does not depend on either."""
        if self._public_count == self._record.rounds and not self._old_logs:
            return
        with suppress(Exception):  # the next call tries again
            if self._public_count != self._record.rounds:
                self._arrays.array(COMMITTED).with_config(WHOLE)[...] = self._record.rounds
                self._public_count = self._record.rounds
            while self._old_logs:
                self._old_logs[-1].remove()
                self._old_logs.pop()
            self.location.commit_transaction()

    def _first_frames(self, in_chunks: int, rows: Rows, pending: list[int], closed: bool = False) -> list[Entry]:
        """Return the first frames of a journal after `in_chunks` rounds: rows, what is pending after them, failures."""
        encoded, stop = pendings.encode(pending, self.proposals, self.dimension), in_chunks + len(rows)
        entries = [Entry(Kind.START, in_chunks, encoded)]
        if len(rows):
            entries.append(Entry(Kind.ROWS, in_chunks, rows.encode(rows.view())))
            entries.append(Entry(Kind.PENDING, stop, encoded))
        entries += [Entry(Kind.FAILURE, each.rounds, failures.encode(each, None)) for each in self.failures]
        return entries + ([Entry(Kind.CLOSED, stop, encoded)] if closed else [])

    def _replace_log(self, name: str, entries: Sequence[Entry]) -> None:
        """Replace a log by its next generation."""
        earlier, log = self._logs[name], self._logs[name].next_generation()
        log.create(entries)
        self._logs[name] = log
        self._commit_record()
        earlier.remove()
        self.location.commit_transaction()

    def _write_whole_chunks(self, fresh: Columns | None = None, count: int = 0) -> int:
        """Write the whole chunks in the held and `count` fresh rows; return the number of fresh rows written."""
        held = len(self._rows)
        whole = (held + count) // self.chunk * self.chunk
        told = [] if fresh is None or "candidate" not in fresh else fresh["candidate"][: whole - held].tolist()
        if fresh is None:
            pieces = [self._rows.view(0, whole)]
        else:
            joint = -held % self.chunk  # fresh rows that fill the last chunk of those held
            view = self._rows.view()
            pieces = [{name: np.concatenate([view[name], fresh[name][:joint]]) for name in fresh}] if held else []
            pieces.append({name: fresh[name][joint : whole - held] for name in fresh})
        with store_errors(self.location.name, "writing a chunk"):
            self._check_there()
            self._write_chunks(pieces, whole, told)
        self._finish_commit()
        self._flushed = time.monotonic()
        return max(whole - held, 0)

    def _write_chunks(self, pieces: Sequence[Columns], count: int, told: Sequence[int]) -> None:
        """Write and commit whole chunks of held rows, and of fresh ones of the candidates `told`; all or nothing."""
        tables: list[digests.Digests] = []

        def digest() -> None:
            tables.extend(digests.digest_columns([piece[f.name] for f in self.fields], self.chunk) for piece in pieces)

        self._arrays.write(self.chunks.whole, pieces, count, digest)
        table = np.concatenate(tables)
        self._logs[DIGESTS].append(Entry(Kind.DIGESTS, self.chunks.whole // self.chunk, digests.encode(table)))
        rest, pending = self._rows.after(min(count, len(self._rows))), pendings.remaining(self.pending, told)
        in_chunks, journal = self.chunks.whole + count, self._logs[ROUNDS]
        overlaps = bool(self._journal_overlaps or self._logged or self._logged_pending or self.pending)
        following = self._next_journal(journal, in_chunks, rest, pending) if overlaps else None
        logged = len(rest) if following else max(self._logged - count, 0)
        logs, chain = {**self._logs, ROUNDS: following or journal}, digests.chain(table, self._record.chain)
        record = self._next_record(logs, in_chunks + logged, rounds=in_chunks, chain=chain, tail=())
        earlier = [*self._old_logs, journal] if following else self._old_logs
        logged_pending = pending if following else self._logged_pending
        known = np.concatenate([self.chunks.digests(), table])
        self._record_uncertain = True
        try:
            self.location.write_record(record.to_plain())
            self.location.commit_transaction()
        except BaseException:
            self.location.roll_back()
            raise
        # Assignments only: without a call in between, no signal handler can interrupt them.
        self._record, self._logs, self._rows, self._logged = record, logs, rest, logged
        self.chunks.whole, self.chunks.committed, self.chunks.table = in_chunks, in_chunks, known
        self._old_logs, self._logged_pending = earlier, logged_pending
        self._journal_overlaps = overlaps and following is None
        self._record_uncertain = False
        self._acknowledge(in_chunks + logged)

    def _next_journal(self, journal: Log, in_chunks: int, rest: Rows, pending: list[int]) -> Log | None:
        """Return a journal after `in_chunks` rounds in whole chunks, with the rest; None if it cannot be made."""
        with suppress(OSError):  # the old journal remains valid, and the next chunk tries again
            following = journal.next_generation()
            following.create(self._first_frames(in_chunks, rest, pending))
            return following
        return None

    def _publish(self) -> tuple[int, ...]:
        """Write the unfinished chunk, and give the arrays the length of the run; return the digests of the chunk."""
        self._arrays.resize(len(self))  # first: zarr writes a chunk that ends with its array without reading it
        if self._record.rounds == len(self) and not self._last_chunk_damaged:
            return self._record.tail
        rows = self._rows.view()
        if len(self._rows):
            self._arrays.write(self.chunks.whole, [rows], len(self._rows))
        self._last_chunk_damaged = False
        return tuple(digests.digest(rows[f.name]) for f in self.fields) if len(self._rows) else ()
