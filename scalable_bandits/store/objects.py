"""Runs where objects are put whole: any zarr store, an icechunk repository."""

from __future__ import annotations

import json
import uuid
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync

from scalable_bandits.store.errors import StoreLocked
from scalable_bandits.store.holders import held_by, holder, may_live
from scalable_bandits.store.journal import SEGMENT, ArrayJournal, Journal
from scalable_bandits.store.locations import BOOKKEEPING, JOURNAL, Location


class Objects(Location):
    """Any zarr store: objects that are put whole. The lock is an object that names its holder, put if there is none.

    A holder on this machine that no longer runs is replaced. One on another machine cannot be looked at: `takeover`
    says that it is gone.
    """

    _LOCK = f"{BOOKKEEPING}/writer.json"

    def __init__(self, store: Store, name: str):
        self._store, self.name = store, name
        self._held: dict[str, Any] | None = None

    @property
    def store(self) -> Store:
        return self._store

    def journal(self, group: zarr.Group, earlier: Journal | None = None, name: str = JOURNAL) -> Journal:
        if f"{BOOKKEEPING}/{name}" not in group:
            if group.read_only:  # of a run whose making was interrupted
                return ArrayJournal(np.zeros(2 * SEGMENT, np.uint8))
            group.require_group(BOOKKEEPING).create_array(name, **ArrayJournal.layout())
        journal = ArrayJournal(group[f"{BOOKKEEPING}/{name}"])
        if isinstance(earlier, ArrayJournal):
            journal.take_over(earlier)
        return journal

    def lock(self, takeover: bool) -> None:
        mine = holder()
        if self._enter(mine):
            self._held = mine
            return
        record = self._holder()
        if record and not takeover and may_live(record):
            raise StoreLocked(held_by(self.name, record))
        self._leave()
        if not self._enter(mine):
            raise StoreLocked(f"store {self.name}: another process opened it at the same moment; one writer a run")
        self._held = mine

    def _enter(self, record: dict[str, Any]) -> bool:
        """Put the record of the lock if there is none; whether it is there now."""
        self.group("a", BOOKKEEPING)
        data = json.dumps({**record, "token": uuid.uuid4().hex}).encode()
        buffer = default_buffer_prototype().buffer.from_bytes(data)
        sync(self.store.set_if_not_exists(self._LOCK, buffer))
        found = sync(self.store.get(self._LOCK, default_buffer_prototype()))
        return found is not None and found.to_bytes() == data

    def _holder(self) -> dict[str, Any] | None:
        """The record of the lock."""
        found = sync(self.store.get(self._LOCK, default_buffer_prototype()))
        record: dict[str, Any] | None = None if found is None else json.loads(found.to_bytes())
        return record

    def _leave(self) -> None:
        """Remove the record of the lock."""
        sync(self.store.delete(self._LOCK))

    def writer(self) -> dict[str, Any] | None:
        record = self._holder()
        return record if record and may_live(record) else None

    def unlock(self) -> None:
        if self._held is not None:
            self._held = None
            self._leave()


class Icechunk(Objects):
    """An icechunk repository: every settling is a commit of all arrays at once, and readers keep their snapshot."""

    def __init__(self, repository: Any, branch: str = "main"):
        self._repository, self._branch = repository, branch
        self._session = repository.writable_session(branch)
        super().__init__(self._session.store, f"icechunk, branch {branch}")

    def look_again(self) -> None:
        self._session = self._repository.writable_session(self._branch)
        self._store = self._session.store
        self.generation += 1

    def settle(self) -> None:
        if self._session.has_uncommitted_changes:
            self._session.commit("scalable_bandits")
            self.look_again()

    # The record of the lock is an attribute, and the commit of whoever came second is refused.

    def _enter(self, record: dict[str, Any]) -> bool:
        from icechunk import ConflictError

        inside = self.group("a", BOOKKEEPING)
        if "writer" in inside.attrs:
            return False
        inside.attrs["writer"] = record
        try:
            self.settle()
        except ConflictError:
            self.look_again()
            return False
        return True

    def _holder(self) -> dict[str, Any] | None:
        try:
            record: Any = self.group(path=BOOKKEEPING).attrs.get("writer")
        except FileNotFoundError:
            return None
        return record or None

    def _leave(self) -> None:
        inside = self.group("a", BOOKKEEPING)
        inside.attrs.pop("writer", None)
        self.settle()
