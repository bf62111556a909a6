"""Runs in stores that replace whole objects: any zarr store, or an icechunk repository."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import zarr
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync

from scalable_bandits.store.array_journal import ArrayJournal
from scalable_bandits.store.errors import StoreDamaged, StoreLocked, store_errors
from scalable_bandits.store.journal import Journal
from scalable_bandits.store.locations import BOOKKEEPING, METADATA, Location
from scalable_bandits.store.lock_owner import locked_message, may_be_running, this_process, valid_owner


class Objects(Location):
    """Run in any zarr store. The lock is an object with the record of its owner, made only if it does not exist.

    The lock of an owner on this machine that no longer runs is replaced. Whether an owner on another machine still runs
    cannot be found out: its lock is replaced only with `takeover`.
    """

    _LOCK = f"{BOOKKEEPING}/writer.json"

    def __init__(self, store: Store, name: str):
        self._store, self.name = store, name
        self._own_lock: dict[str, Any] | None = None

    @property
    def store(self) -> Store:
        return self._store

    def journal(self, name: str) -> Journal:
        return ArrayJournal(self, f"{BOOKKEEPING}/{name}")

    def journals(self) -> list[str]:
        paths = (key.split("/") for key in self.keys(f"{BOOKKEEPING}/"))
        return sorted({parts[1] for parts in paths if len(parts) > 2 and "-" in parts[1]})

    def read_record(self) -> Any:
        return self._bookkeeping_attributes().get("record")

    def write_record(self, record: Mapping[str, Any]) -> None:
        self.group("r+", BOOKKEEPING).attrs["record"] = dict(record)

    def _bookkeeping_attributes(self) -> dict[str, Any]:
        """Return the attributes of the group with the commit record.

        Raises
        ------
        ValueError
            If they cannot be read.
        """
        attributes = (self.document(BOOKKEEPING) or {}).get("attributes", {})
        if not isinstance(attributes, dict):
            raise ValueError("its attributes are not a JSON object")
        return attributes

    def lock(self, takeover: bool) -> None:
        mine = {**this_process(), "token": uuid.uuid4().hex}
        if self._put_lock(mine):
            self._own_lock = mine
            return
        record = self._lock_owner()
        if record and not takeover and may_be_running(record):
            raise StoreLocked(locked_message(self.name, record))
        if self._lock_owner() == record:
            self._remove_lock()
        if not self._put_lock(mine):
            text = "another process opened it at the same moment; only one process can write a run"
            raise StoreLocked(f"store {self.name}: {text}")
        self._own_lock = mine

    def _put_lock(self, record: dict[str, Any]) -> bool:
        """Make the lock with this record if it is free; return whether this process has the lock."""
        self._open_bookkeeping()
        data = json.dumps(record).encode()
        buffer = default_buffer_prototype().buffer.from_bytes(data)
        sync(self.store.set_if_not_exists(self._LOCK, buffer))
        return self.get(self._LOCK) == data

    def _open_bookkeeping(self) -> zarr.Group:
        """Open the group with the commit record; make it if it does not exist."""
        try:
            self._bookkeeping_attributes()
        except ValueError as error:
            text = f"store {self.name}: {BOOKKEEPING}/{METADATA}, with the commit record, cannot be read ({error})"
            raise StoreDamaged(text) from error
        return self.group("a", BOOKKEEPING)

    def _lock_owner(self) -> dict[str, Any] | None:
        """Return the record in the lock; None if it is free or damaged."""
        found = self.get(self._LOCK)
        with suppress(ValueError):  # damaged: the next writer replaces it
            return valid_owner(None if found is None else json.loads(found))
        return None

    def _remove_lock(self) -> None:
        """Remove the lock."""
        sync(self.store.delete(self._LOCK))

    def writer(self) -> dict[str, Any] | None:
        record = self._lock_owner()
        return record if record and may_be_running(record) else None

    def unlock(self) -> None:
        own, self._own_lock = self._own_lock, None
        if own is not None and self._lock_owner() == own:  # another process may have taken it over
            self._remove_lock()


class Icechunk(Objects):
    """Run in an icechunk repository: a transaction commits all arrays at once, and readers keep their snapshot."""

    def __init__(self, repository: Any, branch: str = "main"):
        self._repository, self._branch = repository, branch
        name = f"icechunk, branch {branch}"
        with store_errors(name, "opening a session"):
            self._session = repository.writable_session(branch)
        super().__init__(self._session.store, name)

    def refresh(self) -> None:
        with store_errors(self.name, "opening a session"):
            self._session = self._repository.writable_session(self._branch)
        self._store = self._session.store
        self.generation += 1

    def roll_back(self) -> None:
        self.refresh()

    def get(self, key: str) -> bytes | None:
        with store_errors(self.name, f"reading {key}"):
            return super().get(key)

    def commit_transaction(self) -> None:
        if self._session.has_uncommitted_changes:
            self._session.commit("scalable_bandits")
            self.refresh()

    def keys(self, prefix: str) -> list[str]:
        with suppress(ValueError):
            if prefix and self.document(prefix.rstrip("/")) is None:
                return []  # icechunk raises an error for a path without array or group
        with store_errors(self.name, f"listing {prefix or 'its keys'}"):
            return super().keys(prefix)

    def acknowledge(self, counter: bytes) -> None:
        self.group("r+", BOOKKEEPING).attrs["acknowledged"] = counter.hex()  # committed with the frames that it counts

    def acknowledged(self) -> bytes | None:
        with suppress(ValueError, TypeError):
            counter = self._bookkeeping_attributes().get("acknowledged")
            return None if counter is None else bytes.fromhex(counter)
        return None

    # The lock is an attribute of the group: icechunk refuses the commit of a second writer.

    def _put_lock(self, record: dict[str, Any]) -> bool:
        from icechunk import ConflictError

        group = self._open_bookkeeping()
        if "writer" in group.attrs:
            return False
        group.attrs["writer"] = record
        try:
            self.commit_transaction()
        except ConflictError:
            self.refresh()
            return False
        return True

    def _lock_owner(self) -> dict[str, Any] | None:
        with suppress(ValueError):
            return valid_owner(self._bookkeeping_attributes().get("writer"))
        return None

    def _remove_lock(self) -> None:
        self.group("a", BOOKKEEPING).attrs.pop("writer", None)
        self.commit_transaction()
