"""The rounds of one run on disk: whole chunks in zarr, the rest in a journal, a commit record of what is there.

What stands where, in the order in which it is made durable:

1. rounds beyond the last whole chunk: frames of the journal (with durability "round" each before its call returns);
2. a chunk of every field, as soon as its rounds are there, never changed afterwards, and a frame with its digests;
3. the next generation of the journal, which begins after that chunk;
4. the commit record, which names all of these; then ``committed``, the count for any zarr reader, follows.

Closing writes the unfinished chunk too, so that plain zarr and xarray see every round, and trims the arrays; the
journal keeps these rounds until their chunk is whole. A process that dies in between leaves chunks and journals that
the commit record does not name, a torn frame at the end of the journal, or arrays of several lengths: opening mends all
of it (`repair.py`) and says so.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self

import attrs
import numpy as np

from scalable_bandits.store import digests
from scalable_bandits.store import pending as pendings
from scalable_bandits.store.arrays import ArrayWriter
from scalable_bandits.store.errors import StoreError, named
from scalable_bandits.store.frames import Kind
from scalable_bandits.store.layout import ROUND, WHOLE, count_document, group_document, length_of, sign_attributes
from scalable_bandits.store.locations import COMMITTED, Location
from scalable_bandits.store.log import Entry, Log
from scalable_bandits.store.pending import Proposals
from scalable_bandits.store.reader import StoredRun
from scalable_bandits.store.record import DIGESTS, ROUNDS, TICKETS, CommitRecord, Extent, encode_counter
from scalable_bandits.store.rows import Columns, Rows
from scalable_bandits.store.scan import NOTHING, Scan

BLOCK_SECONDS = 1.0  # durability "block": the longest stretch of rounds that a crash may cost
BLOCK_BYTES = 2**25  # of rows held back to be written at once: one chunk at a time is half as fast

Durability = Literal["round", "block"]


class RunWriter(StoredRun):
    """One run, open for writing (or reading only); `block` rows are held back for `block_seconds` at the most."""

    def __init__(
        self, location: Location, attributes: Mapping[str, Any], durability: Durability, writable: bool,
        recover: bool = False,
    ):  # fmt: skip
        super().__init__(location, attributes, recover)
        self.writable, self.durability, self.block_seconds = writable, durability, BLOCK_SECONDS
        self.block = chunks_of(BLOCK_BYTES, self.chunk, self._rows.width) if durability == "block" else self.chunk
        self._logged = 0  # of the rows after the whole chunks, how many are in the journal
        self._noted: list[int] = []  # pending as the journal has it
        self._stale = False  # whether the journal has rounds of whole chunks
        self._unpublished = False  # whether the unfinished chunk, as it stands in the arrays, is damaged
        self._flushed = time.monotonic()
        self._record = CommitRecord(attributes.get("id", ""))
        self._unsure = False  # whether the commit record on disk may be another one
        self._broken = ""  # why nothing can be written any more
        self._earlier: list[Log] = []  # logs that are not needed any more
        self._counted = -1  # what the count for other readers says
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
        """Rounds that would be there if the process died now."""
        return self.chunks.whole + (self._logged if self.writable else len(self._rows))

    def append(self, columns: Mapping[str, Any]) -> None:
        """Add rounds at the end: an array (k, ...) of each field.

        With durability "round" they are on disk when this returns.

        Raises
        ------
        ValueError
            If a field is missing, unknown, or of another shape.
        OSError
            If they cannot be written (the disk is full, say). Whatever is raised, none of these rounds is in the store,
            and all that was there still is.
        """
        self._check_writable()
        rows, count = self._rows.check(columns)
        # Before anything is accepted: if it fails, nothing has changed.
        if len(self._rows) >= self.block:
            self._fold()
        elif self.durability == "block" and self._overdue():
            self.flush()
        if self.durability == "round":
            with named(self.location.name, "writing rounds"):
                self._log(Kind.ROWS, len(self), self._rows.encode(rows))
            self.take(rows, count)
            self._logged = len(self._rows)
            self._noted = list(self.pending)  # follows from the rows
            return
        written = self._fold(rows, count) if count >= self.block else 0
        self.take(rows, count, skip=written)
        if self._overdue():
            with suppress(OSError):  # the rows are accepted; the next call will say so
                self.flush()

    def _overdue(self) -> bool:
        return time.monotonic() - self._flushed > self.block_seconds

    def note_pending(self, candidates: Sequence[int], proposals: Proposals = pendings.NONE) -> None:
        """Keep which candidates are asked and not told; with durability "round" on disk when this returns."""
        self._check_writable()
        if self.durability == "round" and list(candidates) != self._noted:
            with named(self.location.name, "writing what is pending"):
                self._log(Kind.PENDING, len(self), pendings.encode(candidates, proposals, self.dimension))
            self._noted = list(candidates)
        self.pending, self.proposals = list(candidates), proposals

    def _pending(self) -> bytes:
        return pendings.encode(self.pending, self.proposals, self.dimension)

    def plan(self, rounds: int) -> None:
        """Change how many rounds the run is to have."""
        self._check_writable()
        if rounds != self.planned:
            attributes = sign_attributes({**self.attributes, "planned": rounds})
            with named(self.location.name, "writing its plan"):
                self.location.put_document(COMMITTED, count_document(attributes))
                self.location.put_document("", group_document(attributes))
                self.attributes, self.planned = attributes, rounds
                with suppress(OSError):  # it decides only where the copies differ
                    self._commit_record()
                self.location.settle()

    def flush(self) -> None:
        """Make every round appended so far durable."""
        self._check_writable()
        if len(self._rows) >= self.chunk:
            self._fold()
        with named(self.location.name, "writing rounds"):
            news = self._logged < len(self._rows)
            if news:
                fresh = self._rows.view(self._logged)
                self._log(Kind.ROWS, self.chunks.whole + self._logged, self._rows.encode(fresh))
                self._logged = len(self._rows)
            if self.pending != self._noted or (news and self.pending):  # what is told is pending no longer
                self._log(Kind.PENDING, len(self), self._pending())
                self._noted = list(self.pending)
        self._flushed = time.monotonic()

    def close(self, orderly: bool = True) -> None:
        """Make everything durable and visible to any zarr reader, and let another writer in."""
        if not self.writable:
            return
        try:
            self.flush()
            with named(self.location.name, "closing it"):
                self._check_there()
                tail = self._publish()
                if orderly:
                    self._log(Kind.CLOSED, len(self), self._pending())
                self._commit_record(len(self), tail=tail)
                self.location.settle()
                self._tidy()
        finally:
            self.writable = False
            for log in self._logs.values():
                log.close()
            self._arrays.close()
            self.location.unlock()

    def _check_writable(self) -> None:
        if not self.writable:
            raise StoreError(f"store {self.location.name}: it is not open for writing")
        if self._broken:
            raise StoreError(f"store {self.location.name}: {self._broken}; open it again")
        if self._unsure:  # nothing may be added to logs that it does not name
            with named(self.location.name, "writing the commit record"):
                self.location.write_record(self._record.to_plain())
                self.location.settle()
            self._unsure = False
            with suppress(Exception):
                self._logs[ROUNDS].next().remove()

    def _check_there(self) -> None:
        """FileNotFoundError if the run was moved: arrays that are open would be written where nothing else is."""
        if not self.location.marked():
            raise FileNotFoundError(errno.ENOENT, "it was moved or removed")

    def _begin(self) -> None:
        """Make the logs and the commit record of a new run."""
        self.chunks.look(self._record, NOTHING, "")
        self._arrays.length = length_of(self.location, ROUND.name) or 0
        for name in (ROUNDS, DIGESTS):
            log = Log(self.location, self._record.run, name, Extent(1))
            log.create([Entry(Kind.START, 0, self._pending() if name == ROUNDS else b"")])
            self._logs[name] = log
        self._arrays.array(COMMITTED).with_config(WHOLE)[...] = 0
        self._counted = 0
        self._commit_record()
        self.location.settle()

    def _open_logs(self) -> Scan:
        """Read the files of a run whose lock was just taken, and go on with its logs."""
        found = self._look()
        self._load(found)
        self._record = found.record
        self.chunks.digests()
        for name, contents in found.logs.items():
            extent = found.record.logs[name]._replace(frames=contents.frames)
            self._logs[name] = Log(self.location, self._record.run, name, extent)
        self._logged, self._noted = len(self._rows), list(self.pending)
        return found

    # ---- the steps of writing

    def _log(self, kind: Kind, first: int, payload: bytes, name: str = ROUNDS, when: float | None = None) -> None:
        """Add a frame to a log, durably; if this raises, the log is as it was."""
        log = self._logs[name]
        mark = log.mark()
        try:
            log.append(Entry(kind, first, payload, when))
            rows = len(payload) // self._rows.width if kind == Kind.ROWS else 0
            self._acknowledge(first + rows if rows else self.chunks.whole + self._logged)
            self.location.settle()
        except BaseException:
            self._broken = "a frame that could not be written could not be taken back either"
            self.location.discard()
            log.rewind(mark)
            self._acknowledge(self.chunks.whole + self._logged)
            self._broken = ""
            raise

    def _acknowledge(self, rounds: int) -> None:
        """Count the frames that are there, where the run has so many rounds."""
        reached = (self._logs[name].extent(rounds) if name in self._logs else Extent(0) for name in (ROUNDS, TICKETS))
        self.location.acknowledge(encode_counter(self._record.run, *reached))

    def write_frame(self, name: str, kind: Kind, first: int, payload: bytes, when: float | None = None) -> None:
        """Add a frame to a log of the run's, which is begun if it is not there yet; on disk when this returns.

        Parameters
        ----------
        name
            Name of the log.
        kind, first, payload
            What the frame says, as of `Frame`.
        when
            Seconds since 1970; now, if not given.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        self._check_writable()
        if name not in self._logs:
            log = Log(self.location, self._record.run, name, Extent(1))
            log.create([Entry(Kind.START, 0, b"")])
            self._logs[name] = log
            try:
                self._commit_record()
            except BaseException:
                del self._logs[name]
                raise
        self._log(kind, first, payload, name, when)

    def _commit_record(self, rounds: int | None = None, **changes: Any) -> None:
        """Write the commit record, with so many rounds in the arrays (default: as before)."""
        committed = self._record.rounds if rounds is None else rounds
        logs = {name: log.extent(self.chunks.whole + self._logged) for name, log in self._logs.items()}
        record = attrs.evolve(
            self._record, rounds=committed, **{"logs": logs, "attributes": self.attributes["digest"], **changes}
        )
        if record == self._record:
            return
        self._unsure = True
        self.location.write_record(record.to_plain())
        self._record, self.chunks.committed, self._unsure = record, committed, False

    def _tidy(self) -> None:
        """Bring the count for other readers up to date, and remove logs: what is committed does not depend on it."""
        if self._counted == self._record.rounds and not self._earlier:
            return
        with suppress(Exception):  # the next call tries again
            if self._counted != self._record.rounds:
                self._arrays.array(COMMITTED).with_config(WHOLE)[...] = self._record.rounds
                self._counted = self._record.rounds
            while self._earlier:
                self._earlier[-1].remove()
                self._earlier.pop()
            self.location.settle()

    def _beginning(self, folded: int, start: int = 0, closed: bool = False) -> list[Entry]:
        """First frames of a journal that begins after `folded` rounds: with the logged rows from `start` on."""
        entries = [Entry(Kind.START, folded, self._pending())]
        if self._logged > start:
            rows = self._rows.view(start, self._logged)
            entries.append(Entry(Kind.ROWS, folded, self._rows.encode(rows)))
            entries.append(Entry(Kind.PENDING, folded + self._logged - start, self._pending()))
        if closed:
            entries.append(Entry(Kind.CLOSED, folded + max(self._logged - start, 0), self._pending()))
        return entries

    def _renew(self, name: str, entries: Sequence[Entry]) -> None:
        """Put a new generation in the place of a log."""
        earlier, log = self._logs[name], self._logs[name].next()
        log.create(entries)
        self._logs[name] = log
        self._commit_record()
        earlier.remove()
        self.location.settle()

    def _fold(self, fresh: Columns | None = None, count: int = 0) -> int:
        """Write the whole chunks among the rows and `count` fresh ones after them; tells how many of the fresh."""
        held = len(self._rows)
        whole = (held + count) // self.chunk * self.chunk
        if fresh is None:
            pieces = [self._rows.view(0, whole)]
        else:
            joint = -held % self.chunk  # fresh rows that fill the last chunk of those held
            view = self._rows.view()
            pieces = [{name: np.concatenate([view[name], fresh[name][:joint]]) for name in fresh}] if held else []
            pieces.append({name: fresh[name][joint : whole - held] for name in fresh})
        with named(self.location.name, "writing a chunk"):
            self._check_there()
            self._write_chunks(pieces, whole, self._rows.after(min(whole, held)))
        self._tidy()
        self._flushed = time.monotonic()
        return max(whole - held, 0)

    def _write_chunks(self, pieces: Sequence[Columns], count: int, rest: Rows) -> None:
        """Write whole chunks and commit them, where `rest` comes after them; if this raises, nothing has changed."""
        tables: list[digests.Digests] = []

        def digest() -> None:
            tables.extend(digests.of_columns([piece[f.name] for f in self.fields], self.chunk) for piece in pieces)

        self._arrays.put(self.chunks.whole, pieces, count, digest)
        table = np.concatenate(tables)
        self._logs[DIGESTS].append(Entry(Kind.DIGESTS, self.chunks.whole // self.chunk, digests.encode(table)))
        folded, logged, journal = self.chunks.whole + count, max(self._logged - count, 0), self._logs[ROUNDS]
        stale = bool(self._stale or self._logged or self._noted or self.pending)
        following = self._following(journal, folded, count) if stale else None
        logs = {**self._logs, ROUNDS: following or journal}
        extents = {name: log.extent(folded + logged) for name, log in logs.items()}
        chain = digests.chain(table, self._record.chain)
        record = attrs.evolve(
            self._record, rounds=folded, chain=chain, tail=(), logs=extents, attributes=self.attributes["digest"]
        )
        earlier = [*self._earlier, journal] if following else self._earlier
        noted = list(self.pending) if following else self._noted
        known = self.chunks.after(table)
        self._unsure = True
        try:
            self.location.write_record(record.to_plain())
            self.location.settle()
        except BaseException:
            self.location.discard()
            raise
        # In one go: no call is made in between, so that no signal comes in between either.
        self._record, self._logs, self._rows, self._logged = record, logs, rest, logged
        self.chunks.whole, self.chunks.committed, self.chunks.table = folded, folded, known
        self._earlier, self._noted, self._stale = earlier, noted, stale and following is None
        self._unsure = False
        self._acknowledge(folded + logged)

    def _following(self, journal: Log, folded: int, count: int) -> Log | None:
        """The next generation of the journal, of a run with so many rounds in whole chunks, `count` of them new."""
        with suppress(OSError):  # a journal that goes back further does no harm, and the next chunk tries again
            following = journal.next()
            following.create(self._beginning(folded, count))
            return following
        return None

    def _publish(self) -> tuple[int, ...]:
        """Write the unfinished chunk as well, and make the arrays as long as the run; tells its digests."""
        self._arrays.resize(len(self))  # first: a chunk that ends with its array is written without being read
        if self._record.rounds == len(self) and not self._unpublished:
            return self._record.tail
        rows = self._rows.view()
        if len(self._rows):
            self._arrays.put(self.chunks.whole, [rows], len(self._rows))
        self._unpublished = False
        return tuple(digests.digest(rows[f.name]) for f in self.fields) if len(self._rows) else ()


def chunks_of(size: int, chunk: int, width: int) -> int:
    """Rows of `width` bytes in as many whole chunks as `size` bytes hold, at least one."""
    return max(size // (chunk * width), 1) * chunk
