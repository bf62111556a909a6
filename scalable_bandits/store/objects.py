"""Runs where objects are put whole: any zarr store, an icechunk repository."""

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

from scalable_bandits.store.array_journal import SEGMENT, SEGMENTS, ArrayJournal
from scalable_bandits.store.errors import StoreDamaged, StoreLocked, named
from scalable_bandits.store.journal import Journal
from scalable_bandits.store.locations import BOOKKEEPING, METADATA, Location
from scalable_bandits.store.lock_owner import held_by, holder, may_live, whole


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

    def journal(self, name: str) -> Journal:
        return ArrayJournal(self, f"{BOOKKEEPING}/{name}")

    def journals(self) -> list[str]:
        inside = (key.split("/") for key in self.keys(f"{BOOKKEEPING}/"))
        return sorted({parts[1] for parts in inside if len(parts) > 2 and "-" in parts[1]})

    def read_earlier(self, name: str) -> bytes:
        """An array of two halves, after a segment that says which of them is the journal."""
        path = f"{BOOKKEEPING}/{name}"
        if self.document(path) is None:
            return b""
        array: Any = self.group()[path]
        first = 1 + int(array[0]) * SEGMENTS
        numbers = (int(key.rpartition("/")[2]) for key in self.keys(f"{path}/") if key.startswith(f"{path}/c/"))
        last = max((n for n in numbers if first <= n < first + SEGMENTS), default=first - 1)
        return b"".join(array[n * SEGMENT : (n + 1) * SEGMENT].tobytes() for n in range(first, last + 1))

    def remove_earlier(self, name: str) -> None:
        if self.document(f"{BOOKKEEPING}/{name}") is not None:
            self.delete(f"{BOOKKEEPING}/{name}")

    def read_record(self) -> Any:
        return self._inside().get("record")

    def write_record(self, record: Mapping[str, Any]) -> None:
        self.group("r+", BOOKKEEPING).attrs["record"] = dict(record)

    def _inside(self) -> dict[str, Any]:
        """Attributes of the group with the commit record; ValueError if they cannot be read."""
        attributes = (self.document(BOOKKEEPING) or {}).get("attributes", {})
        if not isinstance(attributes, dict):
            raise ValueError("its attributes are no JSON object")
        return attributes

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
        self._make_inside()
        data = json.dumps({**record, "token": uuid.uuid4().hex}).encode()
        buffer = default_buffer_prototype().buffer.from_bytes(data)
        sync(self.store.set_if_not_exists(self._LOCK, buffer))
        return self.get(self._LOCK) == data

    def _make_inside(self) -> zarr.Group:
        """The group with the commit record, made if there is none."""
        try:
            self._inside()
        except ValueError as error:
            text = f"store {self.name}: {BOOKKEEPING}/{METADATA}, with the commit record, cannot be read ({error})"
            raise StoreDamaged(text) from error
        return self.group("a", BOOKKEEPING)

    def _holder(self) -> dict[str, Any] | None:
        """The record of the lock."""
        found = self.get(self._LOCK)
        with suppress(ValueError):  # damaged: the next writer makes it anew
            return whole(None if found is None else json.loads(found))
        return None

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
        name = f"icechunk, branch {branch}"
        with named(name, "opening a session"):
            self._session = repository.writable_session(branch)
        super().__init__(self._session.store, name)

    def look_again(self) -> None:
        with named(self.name, "opening a session"):
            self._session = self._repository.writable_session(self._branch)
        self._store = self._session.store
        self.generation += 1

    def discard(self) -> None:
        self.look_again()

    def get(self, key: str) -> bytes | None:
        with named(self.name, f"reading {key}"):
            return super().get(key)

    def settle(self) -> None:
        if self._session.has_uncommitted_changes:
            self._session.commit("scalable_bandits")
            self.look_again()

    def keys(self, prefix: str) -> list[str]:
        with suppress(ValueError):
            if prefix and self.document(prefix.rstrip("/")) is None:
                return []  # of what is no array and no group an error is made
        with named(self.name, f"listing {prefix or 'it'}"):
            return super().keys(prefix)

    def acknowledge(self, counter: bytes) -> None:
        self.group("r+", BOOKKEEPING).attrs["acknowledged"] = counter.hex()  # one commit with what it counts

    def acknowledged(self) -> bytes | None:
        with suppress(ValueError, TypeError):
            return bytes.fromhex(self._inside()["acknowledged"]) if "acknowledged" in self._inside() else None
        return None

    # The record of the lock is an attribute, and icechunk refuses the commit of the second writer.

    def _enter(self, record: dict[str, Any]) -> bool:
        from icechunk import ConflictError

        inside = self._make_inside()
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
        with suppress(ValueError):
            return whole(self._inside().get("writer"))
        return None

    def _leave(self) -> None:
        inside = self.group("a", BOOKKEEPING)
        inside.attrs.pop("writer", None)
        self.settle()
