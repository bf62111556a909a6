"""Stores of runs: creating them, opening them, and writing them.

A change is durable in this order: chunks of the arrays, synced; then one transaction of the ledger, which counts their
rounds and has their checksums. Rounds beyond the count are not there. Rounds that were told one by one are evaluations,
rows of the ledger, until their chunk is whole; those of a tuning run stay there for good.
"""

from __future__ import annotations

import math
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self

from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.store.errors import StoreDamaged, StoreError, store_errors
from scalable_bandits.store.layout import CHUNK, SCHEMA, describe_fields, group_document, put_count, put_inputs
from scalable_bandits.store.ledger import Change, Contents, Ledger, as_json, open_ledger, write_document
from scalable_bandits.store.locations import Location, locate
from scalable_bandits.store.reader import StoredRun, read_contents
from scalable_bandits.store.recovery import finish_recovery, recovered
from scalable_bandits.store.rows import Field, Rows, check_fields
from scalable_bandits.tickets import BULK, Ticket

BLOCK_SECONDS = 1.0  # durability "block": rounds that come so long after the last write are written at once
BLOCK_BYTES = 2**23  # size of the rounds written at once: larger ones are no faster, and take ten times their size

Durability = Literal["round", "block"]


class ObservationStore(StoredRun):
    """One run: fields over rounds 1, 2, ..., appended and never changed. It has the attributes of `StoredRun`, too.

    Created by `create`, opened by `open`. A store that is open for writing holds the run's lock until it is closed, and
    is a context manager. Leaving the context by an exception makes everything durable, but is not an orderly close.
    """

    writable: bool  #: Whether the store is open for writing.

    _ledger: Ledger

    @classmethod
    def create(
        cls,
        place: Any,
        fields: Sequence[Field],
        *,
        specification: Mapping[str, Any],
        planned: int | None = None,
        durability: Durability = "block",
        chunk: int = CHUNK,
        attributes: Mapping[str, Any] | None = None,
        inputs: Mapping[str, NDArray[Any]] | None = None,
    ) -> Self:
        """Create a run and open it for writing.

        Parameters
        ----------
        place
            Folder, URL that zarr can open, or zarr store.
        fields
            Quantities recorded each round; the round itself is added.
        specification
            Specification that makes the run, as plain data.
        planned
            Planned number of rounds.
        durability
            "round": appended rounds are on disk when `append` returns. "block": they are written when some chunks are
            full, by an append a second or more after the last write, or by `flush`.
        chunk
            Number of rounds in a chunk.
        attributes
            Additional attributes of the run.
        inputs
            Arrays (...,) of any shape that the specification describes, by their digests.

        Raises
        ------
        FileExistsError
            If the place is not empty.
        StoreError
            If a run is there that has a schema which this version does not read.
        StoreLocked
            If another process is creating a run there.
        ValueError
            If two fields have the same name, or the chunk or the durability is invalid.
        """
        location = locate(place)
        _check_durability(durability)
        given = as_json(
            {
                **(attributes or {}), "schema": SCHEMA, "id": uuid.uuid4().hex[:16],
                "chunk": checks.integer("chunk", chunk, 1), "planned": planned,
                "fields": describe_fields(check_fields(fields)), "specification": dict(specification),
            }
        )  # fmt: skip
        with store_errors(location.name, "creating it"):
            cls._check_free(location)
            location.lock(takeover=False)
            try:
                cls._check_free(location)  # another process may have created one before this one had the lock
                location.clear()
                put_inputs(location, inputs or {})
                store = cls(location, Contents(given))
                store.arrays.lay_out()
                put_count(location, 0)
                store._start(durability)
                store._ledger.commit(Change(given))
                if location.keeps_tickets:
                    write_document(location, store.contents)
            except BaseException:
                location.unlock()
                raise
        return store

    @classmethod
    def open(
        cls,
        place: Any,
        mode: Literal["r", "a"] = "r",
        *,
        durability: Durability = "block",
        recover: bool = False,
        takeover: bool = False,
    ) -> Self:
        """Open a run to read it ("r", also while another process writes it) or to append to it ("a").

        Parameters
        ----------
        place
            Folder, URL that zarr can open, or zarr store.
        mode
            "r" or "a".
        durability
            "round" or "block", as explained at `create`.
        recover
            Whether to go on with all readable rounds if something is damaged. A simulation keeps the rounds before the
            first damage, because it can play the others again. The damaged files are kept in a folder beside the store.
            In mode "r" nothing on disk is changed.
        takeover
            Whether to take the lock of a writer on another machine that is known to have ended.

        Raises
        ------
        FileNotFoundError
            If there is no run.
        StoreLocked
            If another process is writing it; the message names that process.
        StoreDamaged
            If something that was committed cannot be read; the message says which rounds can be read.
        ValueError
            If the mode or the durability is invalid.
        """
        if mode not in ("r", "a"):
            checks.refuse("mode", mode, "'r' or 'a'")
        _check_durability(durability)
        location = locate(place)
        with store_errors(location.name, "opening it"):
            finish_recovery(location, mode)
            if mode == "r":
                store = cls(location, read_contents(location), recover)
                if store.problems:
                    checks.warn(f"store {location.name}: {'; '.join(store.problems)}")
                return store
            if not (location.keeps_tickets and location.has_run_files()):
                # Raises an error that says what is there, while the lock that a killed process left shows whose it is.
                read_contents(location)
        with store_errors(location.name, "opening it for writing"):
            store = cls._open_to_write(location, durability, recover, takeover)
        if store.repairs:
            checks.warn(f"store {location.name}: {'; '.join(store.repairs)}")
        return store

    # ---- opening

    @staticmethod
    def _check_free(location: Location) -> None:
        """Raise FileExistsError unless there is nothing, or what an interrupted creation left."""
        try:
            read_contents(location)
        except FileNotFoundError:
            return
        except (FileExistsError, StoreDamaged):
            pass
        raise FileExistsError(f"store: {location.name} exists already; name another place, or remove it first")

    @classmethod
    def _open_to_write(cls, location: Location, durability: Durability, recover: bool, takeover: bool) -> Self:
        """Take the lock and open a run; replace a damaged one, with `recover`, by what can be read of it."""
        location.lock(takeover)
        try:
            contents = read_contents(location, thorough=recover)
            try:
                store = cls(location, contents)
                store.arrays.check(thorough=recover)
            except StoreDamaged:
                if not recover:
                    raise
                done = recovered(StoredRun(location, contents, recover=True), cls.create)
                location.unlock()
                store = cls.open(location, "a", durability=durability)
                store.repairs = [done, *store.repairs]
                return store
            left = location.remove_partial_files()
            store.repairs = [f"{left} half-written file(s) were removed"] * bool(left)
            store.repairs += store.arrays.lay_out()
            store._start(durability)
            store.repairs += store.arrays.renumber(thorough=recover)
            return store
        except BaseException:
            location.unlock()
            raise

    def _start(self, durability: Durability) -> None:
        """Begin to write."""
        self._ledger = open_ledger(self.location, self.contents)
        self.durability, self._writer, self.block_seconds = durability, os.getpid(), BLOCK_SECONDS
        width = 8 * sum(math.prod(field.shape) for field in self.fields)  # number of bytes of a row
        chunks = BLOCK_BYTES // (self.chunk * width) if durability == "block" else 1
        self.block = self.chunk * max(chunks, 1)  # rounds held before they are written as whole chunks
        self._unsaved: list[Ticket] = []  # evaluations to be written, possibly several forms of one
        self._untold = False  # whether rounds without evaluations are to be written
        self._published = -1  # number of rounds that other zarr readers may trust
        self._flushed = time.monotonic()
        rounds, held = self.contents.state.rounds, self._buffer
        if rest := rounds % self.chunk:  # rounds of the last chunk, which will be written again
            self._buffer = Rows(self.fields, rounds - rest)
            self._buffer.extend({f.name: self.arrays.read(f.name, rounds - rest, rounds) for f in self.fields})
            self._buffer.extend(held.view())

    # ---- writing

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(orderly=kind is None)

    @property
    def durable(self) -> int:
        """Number of rounds that would survive if the process died now."""
        return self.contents.state.length if self.writable else len(self)

    def append(self, columns: Mapping[str, Any] | None = None, tickets: Sequence[Ticket] = ()) -> None:
        """Add rounds at the end, or record evaluations; with durability "round" they are on disk on return.

        Parameters
        ----------
        columns
            Array (k, ...) of each field; None: the rounds are those of the evaluations that are done.
        tickets
            Evaluations that are new or have changed. If fewer than the rounds are done, all rounds go to the arrays.

        Raises
        ------
        ValueError
            If a field is missing, unknown, or of another shape.
        OSError
            If the rounds cannot be written, for example because the disk is full. After any error, none of these rounds
            is in the store and all earlier ones still are.
        """
        self._check_writable()
        rows = None if columns is None else self._rows.check(columns)
        before, unsaved, untold = self._buffer.stop + len(self._told), len(self._unsaved), self._untold
        state = self.contents.state
        try:
            if rows is not None:
                self._rows.extend(rows)
                self._untold |= self._buffer.stop - before > sum(ticket.state == "done" for ticket in tickets)
            else:
                for ticket in tickets:
                    if ticket.state == "done":
                        self._told.append(ticket)
            self._unsaved += tickets
            full = self._buffer.stop + len(self._told) - state.rounds >= self.block and not self.kept
            if full or self.durability == "round" or time.monotonic() - self._flushed > self.block_seconds:
                self._save(full)
        except BaseException:
            if self.contents.state is state:  # otherwise it was an interrupt, after the transaction
                self._rows.stop, self._untold = before, untold
                del self._unsaved[unsaved:]
            raise

    def _save(self, full: bool = False) -> None:
        """Make everything durable: in the arrays, or as rows of the ledger where rounds have evaluations."""
        before, total = self.contents.state, self._buffer.stop + len(self._told)
        try:
            if full or self._untold or (total - before.length >= BULK and not self.kept):
                self._ledger.check()  # before a file is made where a run was
                sums = self.arrays.write(self._rows)
                self._ledger.commit(Change(chunks=sums, tickets=self._unsaved, rounds=total, length=total))
                self._buffer = self._rows.after(total // self.chunk * self.chunk)
                self._publish(total)
            elif self._unsaved:
                self._ledger.commit(Change(tickets=self._unsaved, length=total))
        except Exception:
            with store_errors(self.location.name, "writing rounds"):  # which names the store in the error
                raise
        finally:
            if self.contents.state is not before:  # an interrupt may come after the transaction
                self._unsaved, self._untold = [], False
        self._flushed = time.monotonic()

    def _publish(self, rounds: int) -> None:
        """Update the number of rounds for other zarr readers, on which nothing depends."""
        if self._published != rounds:
            with suppress(Exception):  # the next call tries again
                put_count(self.location, rounds)
                self._published = rounds

    def plan(
        self, rounds: int | None, settings: Mapping[str, Any] | None = None,
        specification: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Change the planned number of rounds and, if they are given, settings and places in the specification."""
        self._check_writable()
        given = {"settings": settings, "specification": specification}
        changed: dict[str, Any] = {"planned": rounds, **{k: dict(v) for k, v in given.items() if v is not None}}
        if all(self.attributes.get(name) == value for name, value in changed.items()):
            return
        attributes = as_json({**self.attributes, **changed})
        with store_errors(self.location.name, "writing its plan"):
            self._ledger.commit(Change(attributes))
            self.attributes, self.planned, self.specification = attributes, rounds, attributes["specification"]
        with suppress(OSError):  # a copy for other programs, which is made again
            self.location.put_document("", group_document(attributes))

    def flush(self) -> None:
        """Make all rounds appended so far durable."""
        self._check_writable()
        self._save()

    def close(self, orderly: bool = True) -> None:
        """Make everything durable, write it to the arrays for any zarr reader, trim these, and release the lock.

        A child that a process forks does nothing.
        """
        if not self.writable:
            return
        try:
            self.flush()
            with store_errors(self.location.name, "closing it"):
                total, contents = len(self), self.contents
                self._ledger.check()
                self.arrays.resize(total)
                copied = self.arrays.write(self._rows) if total > contents.state.rounds else {}
                self._ledger.commit(Change(orderly=orderly))
                self.orderly = orderly
                self._publish(total)
                if self.location.keeps_tickets:
                    state = contents.state._replace(rounds=total, length=total)
                    write_document(self.location, Contents(contents.attributes, state, contents.chunks | copied))
        finally:
            self._writer = 0
            self._ledger.close()
            self.location.unlock()

    def _check_writable(self) -> None:
        """Raise StoreError unless the run can be written."""
        if self._writer != os.getpid():
            raise StoreError(f"store {self.location.name}: it is not open for writing in this process")


def _check_durability(durability: str) -> None:
    if durability not in ("round", "block"):
        checks.refuse("durability", durability, "'round' or 'block'")
