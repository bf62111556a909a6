"""Stores of runs: creating them, opening them, and writing them.

A change is durable in this order: chunks of the arrays, synced; then one transaction of the ledger, which counts their
rounds and has their checksums. Rounds beyond the count are not there. Rounds that were told one by one are evaluations,
rows of the ledger, until their chunk is whole; those of a tuning run stay there for good.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self

from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.store.arrays import ArrayWriter
from scalable_bandits.store.errors import StoreDamaged, StoreError, store_errors
from scalable_bandits.store.layout import (
    CHUNK,
    ROUND,
    SCHEMA,
    attributes_of,
    describe_fields,
    group_document,
    lay_out,
    put_count,
    put_inputs,
)
from scalable_bandits.store.ledger import Contents, Ledger, checksum
from scalable_bandits.store.locations import Location
from scalable_bandits.store.objects import write_document
from scalable_bandits.store.reader import StoredRun, read_contents
from scalable_bandits.store.resolve import locate
from scalable_bandits.store.rows import Field, Rows, check_fields
from scalable_bandits.tickets import BULK, Ticket

BLOCK_SECONDS = 1.0  # durability "block": rounds that come so long after the last write are written at once
BLOCK_BYTES = 2**25  # size of the rounds written at once: writing one chunk at a time is half as fast

Durability = Literal["round", "block"]


class ObservationStore(StoredRun):
    """One run: fields over rounds 1, 2, ..., appended and never changed. It has the attributes of `StoredRun`, too.

    Created by `create`, opened by `open`. A store that is open for writing holds the run's lock until it is closed, and
    is a context manager. Leaving the context by an exception makes everything durable, but is not an orderly close.

    Attributes
    ----------
    writable : bool
        Whether the store is open for writing.
    """

    _ledger: Ledger
    _arrays: ArrayWriter

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
        given = attributes_of(
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
                length, _ = lay_out(location, given, 0)
                put_count(location, 0)
                store = cls(location, Contents(given))
                store._start(location.open_ledger(None), length, durability)
                store._ledger.commit(attributes=given)
                if location.keeps_tickets:
                    write_document(location, Contents(given))
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
            cls._finish_move(location, mode)
            contents = read_contents(location)
            if mode == "r":
                store = cls(location, contents, recover)
                if store.problems:
                    checks.warn(f"store {location.name}: {'; '.join(store.problems)}")
                return store
        with store_errors(location.name, "opening it for writing"):
            store = cls._open_to_write(location, durability, recover, takeover)
        if store.repairs:
            checks.warn(f"store {location.name}: {'; '.join(store.repairs)}")
        return store

    @classmethod
    def peek(cls, place: Any) -> dict[str, Any] | None:
        """Return the specification of the run in a place without reading the run; None if there is nothing.

        Parameters
        ----------
        place
            Folder, URL that zarr can open, or zarr store.

        Returns
        -------
        dict or None
            Specification; empty if it cannot be read: `open` says why.
        """
        location = locate(place)
        with store_errors(location.name, "reading its attributes"):
            try:
                return dict(read_contents(location).attributes or {})["specification"]
            except FileNotFoundError:
                return None
            except (FileExistsError, StoreDamaged):
                return {}

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
        from scalable_bandits.store.recovery import recovered

        location.lock(takeover)
        try:
            contents = read_contents(location, thorough=recover)  # again: another process may have changed it
            try:
                store = cls(location, contents)
                store._check_chunks(thorough=recover)
            except StoreDamaged:
                if not recover:
                    raise
                damaged = StoredRun(location, contents, recover=True)
                done = recovered(damaged, cls.create)
                location.unlock()
                store = cls.open(location, "a", durability=durability)
                store.repairs = [done, *store.repairs]
                return store
            left = location.remove_partial_files()
            length, made = lay_out(location, store.attributes, store.chunks.rounds)
            store.repairs = [f"{left} half-written file(s) were removed"] * bool(left) + made
            store._start(location.open_ledger(contents), length, durability)
            store._renumber(thorough=recover)
            return store
        except BaseException:
            location.unlock()
            raise

    def _check_chunks(self, thorough: bool) -> None:
        """Raise StoreDamaged if a chunk is missing or, with `thorough`, damaged."""
        for field in self.fields:
            if (number := self.chunks.missing(field.name)) is not None:
                why = f"the chunk {self.chunks.key(field.name, number)} is missing"
                raise StoreDamaged(self.chunks.damage_message(field.name, number, why))
        for start in range(0, self.chunks.rounds if thorough else 0, self.chunk):
            self.read(start, start + self.chunk)

    def _renumber(self, thorough: bool) -> None:
        """Write the numbers of rounds again where their chunk is missing or, with `thorough`, damaged."""
        number = 0 if thorough else self.chunks.missing(ROUND.name)
        if number is None:
            return
        bad = [n for n in range(number, -(-self.chunks.rounds // self.chunk)) if self.chunks.problem(ROUND.name, n)]
        for n in bad:
            first, last = n * self.chunk + 1, min((n + 1) * self.chunk, self.chunks.rounds)
            self._arrays.write_numbers(first, last)
            self.repairs.append(f"the numbers of rounds {first} to {last} were written again")

    def _start(self, ledger: Ledger, length: int, durability: Durability) -> None:
        """Begin to write."""
        self._ledger, self.durability, self._writer = ledger, durability, os.getpid()
        self._arrays = ArrayWriter(self.location, self.attributes, length)
        self.block_seconds = BLOCK_SECONDS
        chunks = BLOCK_BYTES // (self.chunk * self._rows.width) if durability == "block" else 1
        self.block = self.chunk * max(chunks, 1)  # rounds held before they are written as whole chunks
        self._durable = len(self)  # number of rounds that are in the ledger or counted by it
        self._unsaved: dict[int, Ticket] = {}  # evaluations to be written
        self._published = -1  # number of rounds that other zarr readers may trust
        self._flushed = time.monotonic()
        rest = self.chunks.rounds % self.chunk  # rounds of the last chunk, which will be written again
        if rest:
            start, held = self.chunks.rounds - rest, self._rows
            self._rows = Rows(self.fields)
            self._rows.extend({f.name: self.chunks.read(f.name, start, start + rest) for f in self.fields}, rest)
            self._rows.extend(held.view(), len(held))
            self._base = start

    # ---- writing

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(orderly=kind is None)

    @property
    def given(self) -> int:
        return self._ledger.state.given if self.writable else self._given

    @property
    def durable(self) -> int:
        """Number of rounds that would survive if the process died now."""
        return self._durable if self.writable else len(self)

    def append(self, columns: Mapping[str, Any], tickets: Sequence[Ticket] = ()) -> None:
        """Add rounds at the end: an array (k, ...) of each field.

        With durability "round" they are on disk when this returns.

        Parameters
        ----------
        columns
            Arrays by field.
        tickets
            Evaluations whose values these are. If there are fewer than rounds, all rounds go to the arrays.

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
        if len(self) - self.chunks.rounds >= self.block and not self.kept:
            self._count_arrays()
        elif late:
            self.flush()
        self._rows.extend(rows, count)
        before = self._hold(tickets)
        try:
            if self.durability == "round" or count >= self.block:
                self._save()
            elif late or self._overdue():
                with suppress(OSError):  # the rows are accepted; the next call raises the error
                    self.flush()
        except BaseException:
            if self._durable < len(self):  # otherwise it was an interrupt, after the transaction
                self._rows.drop(count)
                self._drop(tickets, before)
            raise

    def note(self, tickets: Sequence[Ticket]) -> None:
        """Record evaluations that are new or have changed; with durability "round" they are on disk on return."""
        self._check_writable()
        before = self._hold(tickets)
        try:
            if self.durability == "round" or self._overdue():
                self._save()
        except BaseException:
            if self._unsaved:  # otherwise it was an interrupt, after the transaction
                self._drop(tickets, before)
            raise

    def _hold(self, tickets: Sequence[Ticket]) -> dict[int, Ticket]:
        """Add evaluations to those to be written; return the earlier forms of them that were to be written."""
        before = {each.number: self._unsaved[each.number] for each in tickets if each.number in self._unsaved}
        for ticket in tickets:
            self._unsaved[ticket.number] = ticket
        return before

    def _drop(self, tickets: Sequence[Ticket], before: Mapping[int, Ticket]) -> None:
        """Undo `_hold`."""
        for ticket in tickets:
            self._unsaved.pop(ticket.number, None)
        self._unsaved.update(before)

    def _overdue(self) -> bool:
        return time.monotonic() - self._flushed > self.block_seconds

    def _save(self) -> None:
        """Make everything durable: as rows of the ledger where rounds have evaluations, else in the arrays."""
        total, unsaved, before = len(self), self._unsaved, self._ledger.state.change
        told = sum(ticket.state == "done" for ticket in unsaved.values()) if total > self._durable else 0
        # Rounds without evaluations go to the arrays, and so do many that are told at once.
        if told < total - self._durable or (told >= BULK and not self.kept):
            self._count_arrays()
        elif unsaved:
            try:
                with store_errors(self.location.name, "writing evaluations"):
                    self._ledger.commit(tickets=unsaved.values())
            finally:  # first assignments, so that no interrupt comes between the transaction and them
                if self._ledger.state.change != before:
                    self._durable, self._unsaved = total, {}
                    self.tickets.update(unsaved)
        self._flushed = time.monotonic()

    def _count_arrays(self) -> None:
        """Write the rounds after those in the arrays to these as well, and count them."""
        total, unsaved, before = len(self), self._unsaved, self._ledger.state.change
        whole = (total - self._base) // self.chunk * self.chunk
        rest, base = self._rows.after(whole), self._base + whole
        known = {**self.tickets, **unsaved}
        folded = [number for number, ticket in known.items() if ticket.state == "done"]  # their rounds go to the arrays
        others = [ticket for ticket in unsaved.values() if ticket.state != "done"]
        try:
            with store_errors(self.location.name, "writing a chunk"):
                sums = self._write_arrays()
                every = {**self.chunks.sums, **sums}
                self._ledger.commit(chunks=sums, tickets=others, folded=folded, rounds=total)
        finally:
            if self._ledger.state.change != before:
                self.chunks.rounds, self.chunks.sums = total, every
                self._rows, self._base, self._durable, self._unsaved = rest, base, total, {}
        self.chunks.take(total, every)
        self.tickets.update(unsaved)
        for number in folded:
            self.tickets.pop(number, None)
        self._flushed = time.monotonic()
        self._publish(total)

    def _write_arrays(self) -> dict[int, list[int]]:
        """Write the held rows to the arrays; return the checksums of their chunks."""
        self._ledger.check()  # before a file is made where a run was
        rows, first = self._rows.view(), self._base // self.chunk
        self._arrays.write(self._base, rows)
        return {
            first + i // self.chunk: [checksum(rows[f.name][i : i + self.chunk]) for f in self.fields]
            for i in range(0, len(self._rows), self.chunk)
        }

    def _publish(self, rounds: int) -> None:
        """Update the number of rounds for other zarr readers, on which nothing depends."""
        if self._published != rounds:
            with suppress(Exception):  # the next call tries again
                put_count(self.location, rounds)
                self._published = rounds

    def plan(self, rounds: int | None, settings: Mapping[str, Any] | None = None) -> None:
        """Change the planned number of rounds, and the settings if they are given."""
        self._check_writable()
        changed: dict[str, Any] = {"planned": rounds, **({} if settings is None else {"settings": dict(settings)})}
        if all(self.attributes.get(name) == value for name, value in changed.items()):
            return
        attributes = attributes_of({**self.attributes, **changed})
        with store_errors(self.location.name, "writing its plan"):
            self._ledger.commit(attributes=attributes)
            self.attributes, self.planned = attributes, rounds
        with suppress(OSError):  # a copy for other programs, which is made again
            self.location.put_document("", group_document(attributes))

    def flush(self) -> None:
        """Make all rounds appended so far durable."""
        self._check_writable()
        if self._unsaved or self._durable < len(self):
            self._save()
        self._flushed = time.monotonic()

    def close(self, orderly: bool = True) -> None:
        """Make everything durable and visible to any zarr reader, and release the lock. A forked child does nothing."""
        if not self.writable:
            return
        try:
            self.flush()
            with store_errors(self.location.name, "closing it"):
                self._write_copy(orderly)
        finally:
            self._writer = 0
            self._arrays.close()
            self._ledger.close()
            self.location.unlock()

    def _write_copy(self, orderly: bool) -> None:
        """Write the rounds that are evaluations to the arrays as well, trim these, and copy the ledger for readers."""
        total = len(self)
        self._ledger.check()
        self._arrays.resize(total)
        sums = {**self.chunks.sums, **(self._write_arrays() if total > self.chunks.rounds else {})}
        self._ledger.commit(orderly=orderly)
        self.orderly = orderly
        self._publish(total)
        if self.location.keeps_tickets:
            state = self._ledger.state.at(total)
            write_document(self.location, Contents(self.attributes, state, sums))

    def _check_writable(self) -> None:
        """Raise StoreError unless the run can be written."""
        if not self.writable:
            raise StoreError(f"store {self.location.name}: it is not open for writing in this process")

    @staticmethod
    def _finish_move(location: Location, mode: str) -> None:
        """Finish the recovery of a run that was interrupted at its last step."""
        sibling = location.unfinished_move()
        if sibling and mode == "r":
            text = f"its recovery was interrupted; {sibling} has all of it: open it for writing"
            raise StoreDamaged(f"store {location.name}: {text}")
        if sibling:
            location.finish_move(sibling)
            text = f"it was moved here from {sibling}, which completes an interrupted recovery"
            checks.warn(f"store {location.name}: {text}")


def _check_durability(durability: str) -> None:
    if durability not in ("round", "block"):
        checks.refuse("durability", durability, "'round' or 'block'")
