"""The rounds of one run on disk: whole chunks in zarr, the rest in a journal, a count that says what is committed.

What stands where, in the order in which it is made durable:

1. rounds beyond the last whole chunk: frames of the journal (with durability "round" each before its call returns);
2. a chunk of every field, as soon as its rounds are there, never changed afterwards;
3. ``committed``, the count of rounds that any zarr reader may trust; then the journal begins anew.

Closing writes the unfinished chunk too, so that plain zarr and xarray see every round, and trims the arrays; the
journal keeps these rounds until their chunk is whole. A process that dies in between leaves chunks that nobody counts,
a torn frame at the end of the journal, or arrays of several lengths: opening mends all three (`repair.py`) and says so.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np

from scalable_bandits.store import journal as journals
from scalable_bandits.store import pending as pendings
from scalable_bandits.store.errors import StoreError, named
from scalable_bandits.store.journal import Kind
from scalable_bandits.store.layout import ROUND, WHOLE
from scalable_bandits.store.locations import COMMITTED, Location
from scalable_bandits.store.pending import Proposals
from scalable_bandits.store.rows import Columns
from scalable_bandits.store.stored import StoredRun

BLOCK_SECONDS = 1.0  # durability "block": the longest stretch of rounds that a crash may cost
# Of rows held back to be written at once: one chunk at a time is half as fast (benchmarks, "store").
BLOCK_BYTES = 2**25
THREADS = 4  # that write the fields of a chunk

Durability = Literal["round", "block"]


class RunWriter(StoredRun):
    """One run, open for writing (or, if `writable` is not set, for reading only)."""

    def __init__(self, location: Location, attributes: Mapping[str, Any], durability: Durability, writable: bool):
        super().__init__(location, attributes)
        self.writable, self.durability = writable, durability
        self._block = chunks_of(BLOCK_BYTES, self.chunk, self._rows.width) if durability == "block" else self.chunk
        self._logged = 0  # of the rows after the whole chunks, how many are in the journal
        self._noted: list[int] = []  # pending as the journal has it
        self._stale = False  # whether the journal has rounds of whole chunks
        self._unpublished = False  # whether the unfinished chunk, as it stands in the arrays, is damaged
        self._flushed = time.monotonic()
        self._pool: ThreadPoolExecutor | None = None
        self._jobs: list[Future[None]] = []  # of the pool, as of the last rows that were written
        self._generation = location.generation
        self._arrays: dict[str, Any] = {}  # by name, once opened
        if writable:
            self._group = location.group("r+")
            self._journal = location.journal(self._group)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(orderly=kind is None)

    @property
    def durable(self) -> int:
        """Rounds that would be there if the process died now."""
        return self._folded + (self._logged if self.writable else len(self._rows))

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
        if len(self._rows) >= self._block:
            self._fold()
        elif self.durability == "block" and self._overdue():
            self.flush()
        if self.durability == "round":
            with named(self.location.name, "writing rounds"):
                self._log(Kind.ROWS, len(self), self._rows.encode(rows))
            self._take(rows, count)
            self._logged = len(self._rows)
            self._noted = list(self.pending)  # follows from the rows
            return
        written = self._fold(rows, count) if count >= self._block else 0
        self._take(rows, count, skip=written)
        if self._overdue():
            with suppress(OSError):  # the rows are accepted; the next call will say so
                self.flush()

    def _overdue(self) -> bool:
        return time.monotonic() - self._flushed > BLOCK_SECONDS

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
            with named(self.location.name, "writing its plan"):
                attributes = {**self.attributes, "planned": rounds}
                self._array(COMMITTED).update_attributes({"run": attributes})
                self._group.update_attributes({"planned": rounds})
                self._settle()
            self.attributes, self.planned = attributes, rounds

    def flush(self) -> None:
        """Make every round appended so far durable."""
        self._check_writable()
        if len(self._rows) >= self.chunk:
            self._fold()
        with named(self.location.name, "writing rounds"):
            news = self._logged < len(self._rows)
            if news:
                fresh = self._rows.view(self._logged)
                self._log(Kind.ROWS, self._folded + self._logged, self._rows.encode(fresh))
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
                self._publish()
                if orderly:
                    self._log(Kind.CLOSED, len(self), self._pending())
        finally:
            self.writable = False
            self._journal.close()
            if self._pool is not None:
                self._pool.shutdown()
            self.location.unlock()

    def _check_writable(self) -> None:
        if not self.writable:
            raise StoreError(f"store {self.location.name}: it is not open for writing")
        self._reopen()

    # ---- the steps of writing

    def _log(self, kind: Kind, first: int, payload: bytes) -> None:
        self._journal.append(journals.encode(kind, first, payload))
        self._settle()

    def _restart_journal(self, closed: bool = False) -> None:
        """Begin the journal anew, with the rounds that are in no whole chunk."""
        data = journals.encode(Kind.START, self._folded, self._pending())
        if self._logged:
            data += journals.encode(Kind.ROWS, self._folded, self._rows.encode(self._rows.view(0, self._logged)))
            data += journals.encode(Kind.PENDING, self._folded + self._logged, self._pending())
        if closed:
            data += journals.encode(Kind.CLOSED, self._folded + self._logged, self._pending())
        self._journal.replace(data)
        self._noted, self._stale = list(self.pending), False
        self._settle()

    def _settle(self) -> None:
        self.location.settle()
        self._reopen()

    def _reopen(self) -> None:
        """Where the location works in transactions, open again what was opened in an earlier one."""
        if self._generation != self.location.generation:
            self._generation = self.location.generation
            self._group, self._arrays = self.location.group("r+"), {}
            self._journal = self.location.journal(self._group, self._journal)

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
        self._write_chunks(pieces, whole)
        self._rows.drop(min(whole, held))
        self._stale = bool(self._stale or self._logged or self._noted or self.pending)
        self._logged = max(self._logged - whole, 0)
        if self._stale:
            with suppress(OSError):  # a journal that goes back further does no harm, and the next chunk tries again
                self._restart_journal()
        return max(whole - held, 0)

    def _write_chunks(self, pieces: Sequence[Columns], count: int) -> None:
        with named(self.location.name, "writing a chunk"):
            if not self.location.marked():  # the arrays are open, and would be written where nothing else is
                raise FileNotFoundError(errno.ENOENT, "it was moved or removed")
            self._put(pieces, count)
            self._set_count(self._folded + count)
            self._settle()
        self._folded += count
        self._flushed = time.monotonic()

    def _put(self, pieces: Sequence[Columns], count: int) -> None:
        """Write rows, whole chunks but for the last piece, into the arrays, which grow by doubling."""
        names = (ROUND.name, *(field.name for field in self.fields))
        start, stop = self._folded, self._folded + count
        if any(self._array(name).shape[0] < stop for name in names):
            self._resize(-(-max(stop, 2 * start) // self.chunk) * self.chunk)
        arrays = {name: self._array(name).with_config(WHOLE) for name in names}
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="store")
        wait(self._jobs)  # of a call that was interrupted
        self._jobs = []
        for piece in pieces:
            end = start + len(next(iter(piece.values())))
            columns = {ROUND.name: np.arange(start + 1, end + 1), **piece}
            where = slice(start, end)
            for name, values in columns.items():
                self._jobs.append(self._pool.submit(arrays[name].__setitem__, where, values))
            start = end
        wait(self._jobs)  # all of them: what is still being written must not overtake what is written next
        for job in self._jobs:
            job.result()

    def _set_count(self, count: int) -> None:
        self._array(COMMITTED).with_config(WHOLE)[...] = count

    def _array(self, name: str) -> Any:
        if name not in self._arrays:
            self._arrays[name] = self._group[name]
        return self._arrays[name]

    def _resize(self, length: int) -> None:
        for field in (ROUND, *self.fields):
            array = self._array(field.name)
            if array.shape[0] != length:
                array.resize((length, *field.shape))

    def _publish(self) -> None:
        """Write the unfinished chunk as well, and make the arrays as long as the run."""
        if self._count() != len(self) or self._unpublished:
            self._resize(len(self))  # first: a chunk that ends with its array is written without being read
            if len(self._rows):
                self._put([self._rows.view()], len(self._rows))
            self._set_count(len(self))
            self._unpublished = False
        self._resize(len(self))
        self._settle()


def chunks_of(size: int, chunk: int, width: int) -> int:
    """Rows of `width` bytes in as many whole chunks as `size` bytes hold, at least one."""
    return max(size // (chunk * width), 1) * chunk
