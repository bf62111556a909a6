"""Runs in stores that replace whole objects: any zarr store. Simulations alone, whose lost rounds are played again."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import attrs
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync

from scalable_bandits.store.errors import StoreLocked
from scalable_bandits.store.layout import count_document
from scalable_bandits.store.ledger import Contents, State, is_signed, sign
from scalable_bandits.store.locations import COMMITTED, METADATA, Location
from scalable_bandits.store.lock_owner import locked_message, may_be_running, this_process, valid_owner
from scalable_bandits.tickets import Ticket

FILE = f"{COMMITTED}/{METADATA}"


def read_document(location: Location) -> Contents:
    """Read the attributes of a run, its count and its checksums from those of the array ``committed``."""
    contents = Contents()
    try:
        document = location.document(COMMITTED)
    except ValueError as error:
        contents.problems.append(f"{FILE}: it is not JSON ({error})")
        return contents
    if document is None:
        raise FileNotFoundError(FILE)
    stored = document.get("attributes")
    if not isinstance(stored, dict) or not is_signed(stored):
        contents.problems.append(f"{FILE}: its attributes do not match their digest")
        return contents
    contents.attributes, contents.state = stored["run"], State(**stored["state"])
    contents.chunks = dict(enumerate(stored["chunks"]))
    return contents


def write_document(location: Location, contents: Contents) -> None:
    """Write what `read_document` reads, as one object."""
    chunks = [contents.chunks[number] for number in sorted(contents.chunks)]
    plain = {"run": contents.attributes, "state": attrs.asdict(contents.state), "chunks": chunks}
    location.put_document(COMMITTED, count_document(sign(json.loads(json.dumps(plain)))))


class Document:
    """Ledger of a simulation in one object, which is written last.

    Parameters
    ----------
    location
        Location of the run.
    contents
        What the object has; None for a new run.
    """

    def __init__(self, location: Location, contents: Contents | None):
        self._location, self._contents = location, Contents() if contents is None else contents
        self.state = self._contents.state

    def check(self) -> None:
        """Do nothing: there is no file that is held open."""

    def commit(
        self, *, attributes: Mapping[str, Any] | None = None, chunks: Mapping[int, Sequence[int]] | None = None,
        tickets: Iterable[Ticket] = (), folded: Iterable[int] = (), rounds: int | None = None, orderly: bool = False,
    ) -> None:  # fmt: skip
        """Make one change. Parameters as in `Ledger.commit`; there are no tickets."""
        assert not list(tickets)
        before = self._contents
        state = State(self.state.change + 1, self.state.rounds if rounds is None else rounds, orderly=orderly)
        known = {**before.chunks, **{number: list(sums) for number, sums in (chunks or {}).items()}}
        now = Contents(before.attributes if attributes is None else dict(attributes), state, known)
        write_document(self._location, now)
        self._contents, self.state = now, state

    def close(self) -> None:
        """Do nothing."""


class Objects(Location):
    """Run in any zarr store. The lock is an object with the record of its owner, made only if it does not exist.

    The lock of an owner on this machine that no longer runs is replaced. Whether an owner on another machine still runs
    cannot be found out: its lock is replaced only with `takeover`.
    """

    _LOCK = f"{COMMITTED}/writer.json"

    def __init__(self, store: Store, name: str):
        self._store, self.name = store, name
        self._own_lock: dict[str, Any] | None = None

    @property
    def store(self) -> Store:
        return self._store

    def read_ledger(self, thorough: bool = False) -> Contents:
        return read_document(self)

    def open_ledger(self, contents: Contents | None) -> Document:
        return Document(self, contents)

    def lock(self, takeover: bool) -> None:
        mine = {**this_process(), "token": uuid.uuid4().hex}
        if self._put_lock(mine):
            self._own_lock = mine
            return
        record = self._lock_owner()
        if record and not takeover and may_be_running(record):
            raise StoreLocked(locked_message(self.name, record))
        if self._lock_owner() == record:
            sync(self.store.delete(self._LOCK))
        if not self._put_lock(mine):
            text = "another process opened it at the same moment; only one process can write a run"
            raise StoreLocked(f"store {self.name}: {text}")
        self._own_lock = mine

    def _put_lock(self, record: dict[str, Any]) -> bool:
        """Make the lock with this record if it is free; return whether this process has the lock."""
        data = json.dumps(record).encode()
        sync(self.store.set_if_not_exists(self._LOCK, default_buffer_prototype().buffer.from_bytes(data)))
        return self.get(self._LOCK) == data

    def _lock_owner(self) -> dict[str, Any] | None:
        """Return the record in the lock; None if it is free or damaged."""
        found = self.get(self._LOCK)
        with suppress(ValueError):  # damaged: the next writer replaces it
            return valid_owner(None if found is None else json.loads(found))
        return None

    def writer(self) -> dict[str, Any] | None:
        record = self._lock_owner()
        return record if record and may_be_running(record) else None

    def unlock(self) -> None:
        own, self._own_lock = self._own_lock, None
        if own is not None and self._lock_owner() == own:  # another process may have taken it over
            sync(self.store.delete(self._LOCK))
