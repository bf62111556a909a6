"""A run in a folder: keys made durable, a journal that is appended to, the operating system's lock."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zarr
from zarr.abc.buffer import Buffer
from zarr.abc.store import Store
from zarr.storage import LocalStore

from scalable_bandits.store.errors import StoreLocked
from scalable_bandits.store.holders import describe_holder, holder, may_live
from scalable_bandits.store.journal import FileJournal, Journal, make_directory, replace_file, sync_directory
from scalable_bandits.store.locations import COMMITTED, JOURNAL, Location

if TYPE_CHECKING:
    from filelock import FileLock


class DurableStore(LocalStore):
    """A folder whose keys are durable when they are set: zarr's own renames without fsync."""

    async def set(self, key: str, value: Buffer) -> None:
        if not self._is_open:
            await self._open()
        self._check_writable()
        await asyncio.to_thread(replace_file, self.root / key, memoryview(value.as_buffer_like()).cast("B"))


class Folder(Location):
    """A folder on a disk. The lock is the operating system's, which frees it when its holder dies."""

    separator = "."  # one folder an array, not one a chunk

    def __init__(self, path: Path):
        self.path = path
        self.name = str(path)
        self._store = DurableStore(path)
        self._lock: FileLock | None = None

    @property
    def store(self) -> Store:
        return self._store

    def journal(self, group: zarr.Group, earlier: Journal | None = None, name: str = JOURNAL) -> Journal:
        return FileJournal(self.path / COMMITTED / name)

    def lock(self, takeover: bool) -> None:
        from filelock import FileLock, Timeout

        place = self.path / COMMITTED / "writer.lock"
        record = place.with_suffix(".json")
        make_directory(place.parent)
        lock = FileLock(place, blocking=False, is_singleton=False)
        try:
            lock.acquire()
        except Timeout:
            try:
                who = describe_holder(json.loads(record.read_bytes()))
            except (OSError, ValueError, KeyError, TypeError):
                who = "another process"
            raise StoreLocked(f"store {self.name}: it is being written by {who}; one writer a run") from None
        try:
            replace_file(record, json.dumps(holder()).encode())
        except BaseException:
            lock.release()
            raise
        self._lock = lock

    def unlock(self) -> None:
        if self._lock is not None:
            lock, self._lock = self._lock, None
            try:
                (self.path / COMMITTED / "writer.json").unlink(missing_ok=True)
            finally:
                lock.release()

    def marked(self) -> bool:
        return (self.path / COMMITTED / "writer.lock").exists()

    def unfinished(self) -> bool:
        inside = self.path / COMMITTED
        if not inside.is_dir() or (inside / JOURNAL).exists() or (inside / "zarr.json").exists():
            return False  # the journal is made last
        if (inside / "writer.lock").exists():
            return True
        # Nothing but the beginning of a lock.
        return all(e.name.startswith("writer.") for e in inside.iterdir()) and len(list(self.path.iterdir())) == 1

    def remove_metadata(self, name: str) -> bool:
        (self.path / name / "zarr.json").unlink(missing_ok=True)
        return True

    def clear(self) -> None:
        self.sweep()
        for entry in list(self.path.iterdir()):
            if entry.is_dir() and entry.name != COMMITTED:
                shutil.rmtree(entry)
            elif entry.is_file():
                entry.unlink()

    def occupied(self) -> bool:
        return self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir()))

    def sweep(self) -> int:
        left = list(self.path.rglob("*.partial"))
        for file in left:
            file.unlink(missing_ok=True)
        return len(left)

    def size(self) -> int | None:
        return sum(f.stat().st_size for f in self.path.rglob("*") if f.is_file())

    def writer(self) -> dict[str, Any] | None:
        record = self.path / COMMITTED / "writer.json"
        try:
            held: dict[str, Any] = json.loads(record.read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return held if may_live(held) else None

    def beside(self, what: str) -> Location:
        return Folder(self.path.with_name(f"{self.path.name}.{what}"))

    def move(self, place: Location) -> None:
        assert isinstance(place, Folder)
        self.path.rename(place.path)
        sync_directory(place.path.parent)

    def set_aside(self) -> str:
        names = (f"{self.path.name}.damaged{number or ''}" for number in itertools.count())
        copy = next(place for place in map(self.path.with_name, names) if not place.exists())
        shutil.copytree(self.path, copy)
        return str(copy)
