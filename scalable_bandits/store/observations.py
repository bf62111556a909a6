"""Stores of runs: creating them, opening them, and repairing them when they are opened."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NoReturn, Self

from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.store import repair
from scalable_bandits.store.errors import StoreDamaged, store_errors
from scalable_bandits.store.layout import (
    CHUNK,
    SCHEMA,
    Copies,
    check_schema,
    count_document,
    describe_fields,
    group_document,
    lay_out,
    read_attributes,
    refuse_attributes,
    sign_attributes,
)
from scalable_bandits.store.locations import COMMITTED, Location
from scalable_bandits.store.reader import StoredRun
from scalable_bandits.store.resolve import locate
from scalable_bandits.store.rows import Field, check_fields
from scalable_bandits.store.writer import Durability, RunWriter


class ObservationStore(RunWriter):
    """One run: fields over rounds 1, 2, ..., appended and never changed. It has the attributes of `StoredRun`, too.

    Created by `create`, opened by `open`. A store that is open for writing holds the run's lock until it is closed, and
    is a context manager. Leaving the context by an exception makes everything durable, but is not an orderly close.

    Attributes
    ----------
    writable : bool
        Whether the store is open for writing.
    """

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
            Folder, URL that zarr can open, zarr store, or icechunk repository.
        fields
            Quantities recorded each round; the round itself is added.
        specification
            Specification that makes the run, as plain data.
        planned
            Planned number of rounds.
        durability
            "round": appended rounds are on disk when `append` returns. "block": they are written when a chunk is full,
            by an append a second or more after the last write, or by `flush`.
        chunk
            Number of rounds in a chunk.
        attributes
            Additional attributes of the zarr group.
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
        chunk = checks.integer("chunk", chunk, 1)
        given = sign_attributes(
            {
                **(attributes or {}), "schema": SCHEMA, "id": uuid.uuid4().hex[:16], "chunk": chunk, "planned": planned,
                "fields": describe_fields(check_fields(fields)), "specification": dict(specification),
            }
        )  # fmt: skip
        occupied = f"store: {location.name} exists already; name another place, or remove it first"
        with store_errors(location.name, "creating it"):
            cls._find_attributes(location)  # a run of another schema may look like an interrupted creation
            if location.occupied() and not location.unfinished():
                raise FileExistsError(occupied)
            location.lock(takeover=False)
            try:
                if not location.unfinished():  # another process created it before this one had the lock
                    raise FileExistsError(occupied)
                location.clear()
                lay_out(location, given, inputs)
                store = cls(location, given, durability, writable=True)
                store._create_logs()
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
            Folder, URL that zarr can open, zarr store, or icechunk repository.
        mode
            "r" or "a".
        durability
            "round" or "block", as explained at `create`.
        recover
            Whether to go on with all readable rounds if something is damaged. A simulation keeps the rounds before the
            first damage, because it can play the others again. The damaged files are kept in a folder beside the store.
            In mode "r" nothing on disk is changed.
        takeover
            Whether to take the lock of a writer on another machine that is known to have ended (not for folders).

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
            attributes, damaged = cls._find_attributes(location)
            if attributes is None:
                cls._refuse_to_open(location, damaged)
        if mode == "r":
            return cls._read(location, attributes, recover)
        with store_errors(location.name, "opening it for writing"):
            store, recovered = cls._open_to_write(location, attributes, durability, recover, takeover)
        if store is None:
            store = cls.open(place, mode, durability=durability)
        store.repairs = [*recovered, *store.repairs]
        if store.repairs:
            checks.warn(f"store {location.name}: {'; '.join(store.repairs)}")
        return store

    @classmethod
    def peek(cls, place: Any) -> dict[str, Any] | None:
        """Return the specification of the run in a place without reading the run; None if there is nothing.

        Parameters
        ----------
        place
            Folder, URL that zarr can open, zarr store, or icechunk repository.

        Returns
        -------
        dict or None
            Specification; empty if it cannot be read: `open` says why.
        """
        location = locate(place)
        with store_errors(location.name, "reading its attributes"):
            attributes = cls._find_attributes(location).attributes
            if attributes is not None:
                return dict(attributes["specification"])
            return {} if location.occupied() and not location.unfinished() else None

    def plan(self, rounds: int | None, settings: Mapping[str, Any] | None = None) -> None:
        """Change the planned number of rounds, and the settings if they are given."""
        self._check_writable()
        changed: dict[str, Any] = {"planned": rounds, **({} if settings is None else {"settings": dict(settings)})}
        if all(self.attributes.get(name) == value for name, value in changed.items()):
            return
        attributes = sign_attributes({**self.attributes, **changed})
        with store_errors(self.location.name, "writing its plan"):
            self.location.put_document(COMMITTED, count_document(attributes))
            self.location.put_document("", group_document(attributes))
            self.attributes, self.planned = attributes, rounds
            with suppress(OSError):  # the record is needed only if the copies differ
                self._commit_record()
            self.location.commit_transaction()

    @classmethod
    def _open_to_write(
        cls, location: Location, attributes: Mapping[str, Any], durability: Durability, recover: bool, takeover: bool
    ) -> tuple[Self | None, list[str]]:
        """Take the lock and open a run.

        None and what was done, if a damaged run was replaced by a recovered one.
        """
        location.lock(takeover)
        try:
            location.refresh()
            # Another process may have changed them before the lock was taken.
            attributes = cls._find_attributes(location).attributes or attributes
            store = cls(location, attributes, durability, writable=True)
            repair.repair(store, thorough=recover)
            return store, []
        except StoreDamaged:
            try:
                if not recover:
                    raise
                damaged = StoredRun(location, attributes, recover=True)
                damaged.refresh()
                return None, [repair.recover(damaged, cls.create)]
            finally:
                location.unlock()
        except BaseException:
            location.unlock()
            raise

    @classmethod
    def _read(cls, location: Location, attributes: Mapping[str, Any], recover: bool) -> Self:
        """Open a run for reading, with a warning about damage and torn logs; nothing on disk is changed."""
        store = cls(location, attributes, "block", writable=False, recover=recover)
        with store_errors(location.name, "reading it"):
            store.refresh()
        found = [*store.problems, *store.notes()]
        if found:
            checks.warn(f"store {location.name}: {'; '.join(found)}")
        return store

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

    @staticmethod
    def _find_attributes(location: Location) -> Copies:
        """Read the attributes of the run in a location; None if its creation was interrupted.

        Raises
        ------
        StoreError
            If the run has a schema that this version does not read.
        """
        copies = read_attributes(location)
        if copies.attributes is None:
            return copies
        check_schema(location.name, copies.attributes)
        return Copies(None, {}) if location.unfinished() else copies

    @staticmethod
    def _refuse_to_open(location: Location, damaged: Mapping[str, str]) -> NoReturn:
        """Raise the error that explains why a location without readable attributes cannot be opened."""
        if not location.occupied() or location.unfinished():
            raise FileNotFoundError(f"store: there is no run in {location.name}")
        if not location.has_run_files():
            raise FileExistsError(f"store: {location.name} exists already and is not a run; name another place")
        raise refuse_attributes(location, damaged)


def _check_durability(durability: str) -> None:
    if durability not in ("round", "block"):
        checks.refuse("durability", durability, "'round' or 'block'")
