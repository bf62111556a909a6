"""Stores of runs: made, opened, and mended as they are opened."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NoReturn, Self

from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.store.errors import StoreDamaged, named
from scalable_bandits.store.layout import (
    CHUNK,
    SCHEMA,
    attributes_of,
    check_schema,
    describe_fields,
    fields_of,
    lay_out,
)
from scalable_bandits.store.locations import COMMITTED, Location
from scalable_bandits.store.places import locate
from scalable_bandits.store.repair import repair
from scalable_bandits.store.rows import Field, check_fields
from scalable_bandits.store.upgrade import Earlier, read_earlier
from scalable_bandits.store.writer import Durability, RunWriter


class ObservationStore(RunWriter):
    """One run: fields over rounds 1, 2, ..., appended and never changed.

    Made by `create` and `open`. One opened for writing holds the run's lock until it is closed, and is a context
    manager; leaving the context by an exception makes everything durable, but does not count as an orderly close.

    Attributes are those of `StoredRun`, and

    Attributes
    ----------
    writable : bool
        Whether it was opened for writing and not yet closed.
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
        """Make a new run and open it for writing.

        Parameters
        ----------
        place
            A folder, a URL that zarr knows, a zarr store, or an icechunk repository.
        fields
            Quantities a round; the round itself is added.
        specification
            What makes the run, as plain data.
        planned
            Rounds that it is to have.
        durability
            "round": what is appended is on disk when `append` returns. "block": when a chunk is full, when an append
            comes a second or more after the last write, or on `flush`.
        chunk
            Rounds a chunk.
        attributes
            More attributes of the zarr group.
        inputs
            Arrays (...,) of any shape that the specification speaks of, by their digests.

        Raises
        ------
        FileExistsError
            If something is there.
        StoreLocked
            If another process is making it.
        ValueError
            If two fields have one name, or the chunk or the durability is none.
        """
        location = locate(place)
        _check_durability(durability)
        chunk = checks.integer("chunk", chunk, 1)
        given = {
            **(attributes or {}), "schema": SCHEMA, "chunk": chunk, "fields": describe_fields(check_fields(fields)),
            "specification": dict(specification), "planned": planned,
        }  # fmt: skip
        with named(location.name, "making it"):
            if attributes_of(location) is not None or (location.occupied() and not location.unfinished()):
                raise FileExistsError(f"store: {location.name} exists already; name another place, or remove it first")
            location.lock(takeover=False)
            try:
                location.clear()
                lay_out(location, given, inputs)
                location.settle()
                store = cls(location, given, durability, writable=True)
                store._set_count(0)
                store._restart_journal()
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
        """Open a run, to read ("r", also while another process writes it) or to append to ("a").

        Parameters
        ----------
        place
            As in `create`.
        mode
            "r" or "a".
        durability
            As in `create`.
        recover
            Where committed rounds cannot be read: go on from the last one before the first damage. The files as they
            are are copied to a folder beside them first.
        takeover
            Of a store that is no folder: its writer, on another machine, is known to be gone.

        Raises
        ------
        FileNotFoundError
            If there is no run.
        StoreLocked
            If another process writes it; the message names that process.
        StoreDamaged
            If what was committed cannot be read; the message says which rounds can.
        ValueError
            If the mode or the durability is neither of the two.
        """
        if mode not in ("r", "a"):
            checks.refuse("mode", mode, "'r' or 'a'")
        _check_durability(durability)
        location = locate(place)
        attributes = attributes_of(location)
        earlier = None if attributes else read_earlier(location)
        if earlier is not None:
            if mode == "r":
                return cls._in_memory(location, earlier)
            attributes = cls._upgrade(location, earlier)
        if attributes is None:
            cls._refuse_to_open(location)
        check_schema(location.name, attributes)
        if mode == "r":
            store = cls(location, attributes, durability, writable=False)
            with named(location.name, "reading it"):
                store.refresh()
            return store
        with named(location.name, "opening it for writing"):
            location.lock(takeover)
            try:
                made = lay_out(location, attributes)
                store = cls(location, attributes, durability, writable=True)
                store.repairs += [f"{what}: the metadata was missing and made again" for what in made]
                repair(store, recover)
            except BaseException:
                location.unlock()
                raise
        if store.repairs:
            warnings.warn(f"store {location.name}: {'; '.join(store.repairs)}", stacklevel=2)
        return store

    @staticmethod
    def _refuse_to_open(location: Location) -> NoReturn:
        """Say what a place without readable attributes is."""
        if not location.occupied() or location.unfinished():
            raise FileNotFoundError(f"store: there is no run in {location.name}")
        if not location.marked():
            raise FileExistsError(f"store: {location.name} exists already and is no run; name another place")
        raise StoreDamaged(
            f"store {location.name}: it is no run, or both copies of its attributes (zarr.json and "
            f"{COMMITTED}/zarr.json) are damaged; the arrays that can be read are there for zarr.open_group"
        )

    @classmethod
    def _in_memory(cls, location: Location, earlier: Earlier) -> Self:
        """A run of an earlier schema, for reading."""
        store = cls(location, earlier.attributes, "block", writable=False)
        store.keep(earlier.columns)
        return store

    @classmethod
    def _upgrade(cls, location: Location, earlier: Earlier) -> dict[str, Any]:
        """Put a run of this schema in the place of an earlier one, which stays beside it; its attributes."""
        beside, kept = location.beside("upgrading"), location.beside("earlier")
        given = dict(earlier.attributes)
        fields, specification, planned = fields_of(given), given.pop("specification"), given.pop("planned")
        with cls.create(beside, fields, specification=specification, planned=planned, attributes=given) as store:
            store.append(earlier.columns)
        location.move(kept)
        beside.move(location)
        text = f"store {location.name}: upgraded to schema {SCHEMA}; what it was is in {kept.name}"
        warnings.warn(text, stacklevel=4)
        return attributes_of(location) or {}


def _check_durability(durability: str) -> None:
    if durability not in ("round", "block"):
        checks.refuse("durability", durability, "'round' or 'block'")
