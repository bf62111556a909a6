"""Runs in a folder: durable keys, journals in files, and the lock of the operating system."""

from __future__ import annotations

import asyncio
import glob
import itertools
import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zarr.abc.buffer import Buffer
from zarr.abc.store import Store
from zarr.storage import LocalStore

from scalable_bandits.store.errors import StoreLocked
from scalable_bandits.store.journal import FileJournal, Journal, make_directory, replace_file, sync_directory
from scalable_bandits.store.locations import COMMITTED, Location
from scalable_bandits.store.lock_owner import describe_owner, may_be_running, this_process, valid_owner

if TYPE_CHECKING:
    from filelock import FileLock

_JOURNAL = re.compile(r"[a-z]+-\d+")  # name of a journal
_EARLY_FILES = ("writer.lock", "writer.json", "acknowledged")  # files that exist before the run does


class DurableStore(LocalStore):
    """Zarr store in a folder that syncs every key it sets: zarr's own store renames files without fsync."""

    async def set(self, key: str, value: Buffer) -> None:
        if not self._is_open:
            await self._open()
        self._check_writable()
        await asyncio.to_thread(replace_file, self.root / key, memoryview(value.as_buffer_like()).cast("B"))


class Folder(Location):
    """Run in a folder. The lock is one of the operating system, which releases it when its owner dies."""

    separator = "."  # keeps all chunks of an array in one directory
    log_folder = COMMITTED
    record_file = f"{COMMITTED}/record.json"

    def __init__(self, path: Path):
        self.path = path.absolute()  # the user's function may change the working folder
        self.name = str(path)
        self._store = DurableStore(self.path)
        self._lock: FileLock | None = None
        self._counter = -1

    @property
    def store(self) -> Store:
        return self._store

    def free(self) -> int | None:
        there = next(folder for folder in (self.path, *self.path.parents) if folder.exists())
        return shutil.disk_usage(there).free

    def journal(self, name: str) -> Journal:
        return FileJournal(self.path / COMMITTED / name)

    def journals(self) -> list[str]:
        with suppress(FileNotFoundError):
            return sorted(e.name for e in (self.path / COMMITTED).iterdir() if _JOURNAL.fullmatch(e.name))
        return []

    def read_record(self) -> Any:
        try:
            return json.loads((self.path / self.record_file).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_record(self, record: Mapping[str, Any]) -> None:
        replace_file(self.path / self.record_file, json.dumps(record, indent=2).encode())

    def acknowledge(self, counter: bytes) -> None:
        try:
            if self._counter < 0:
                self._counter = os.open(self.path / COMMITTED / "acknowledged", os.O_RDWR | os.O_CREAT, 0o666)
            os.pwrite(self._counter, counter, 0)  # not synced: the count only detects damage
        except OSError:  # a count that is too low does no harm
            pass

    def acknowledged(self) -> bytes | None:
        with suppress(OSError):
            return (self.path / COMMITTED / "acknowledged").read_bytes()
        return None

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
                who = describe_owner(json.loads(record.read_bytes()))
            except (OSError, ValueError, KeyError, TypeError):
                who = "another process"
            text = f"it is being written by {who}; only one process can write a run"
            raise StoreLocked(f"store {self.name}: {text}") from None
        try:
            replace_file(record, json.dumps(this_process()).encode())
        except BaseException:
            lock.release()
            raise
        self._lock = lock

    def unlock(self) -> None:
        if self._counter >= 0:
            os.close(self._counter)
            self._counter = -1
        if self._lock is not None:
            lock, self._lock = self._lock, None
            try:
                (self.path / COMMITTED / "writer.json").unlink(missing_ok=True)
            finally:
                lock.release()

    # Not through zarr, which would make the folder when it reads from it.

    def get(self, key: str) -> bytes | None:
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return (self.path / key).read_bytes()
        return None

    def keys(self, prefix: str) -> list[str]:
        inside = self.path / prefix
        return [f.relative_to(self.path).as_posix() for f in inside.rglob("*") if f.is_file()]

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            super().delete(path)

    def set_aside(self, path: str) -> str:
        aside = (self.path / path).with_name(f"{Path(path).name}.damaged")
        shutil.rmtree(aside, ignore_errors=True)  # a copy made earlier
        (self.path / path).rename(aside)
        return f"kept as {aside.relative_to(self.path)}"

    def has_run_files(self) -> bool:
        return (self.path / COMMITTED / "writer.lock").exists()

    def occupied(self) -> bool:
        if not self.path.is_dir():
            return self.path.exists()
        return any(self.path.iterdir())

    def had_writer(self) -> bool:
        inside = self.path / COMMITTED
        if self.has_run_files() or not inside.is_dir():
            return self.has_run_files()
        entries = [*self.path.iterdir(), *inside.iterdir()]  # a process may have died while it made the lock
        return all(e.name == COMMITTED or e.name.startswith(_EARLY_FILES) for e in entries)

    def remove_partial_files(self) -> int:
        left = list(self.path.rglob("*.partial"))
        for file in left:
            file.unlink(missing_ok=True)
        return len(left)

    def size(self) -> int | None:
        total = 0
        for folder, _, files in os.walk(self.path):
            for name in files:
                with suppress(FileNotFoundError):  # its writer has removed it meanwhile
                    total += Path(folder, name).stat().st_size
        return total

    def writer(self) -> dict[str, Any] | None:
        record = self.path / COMMITTED / "writer.json"
        try:
            held = valid_owner(json.loads(record.read_bytes()))
        except (FileNotFoundError, ValueError):
            return None
        return held if held and may_be_running(held) else None

    def free_sibling(self, suffix: str) -> Location:
        names = (f"{self.path.name}.{suffix}{number or ''}" for number in itertools.count())
        return Folder(next(place for place in map(self.path.with_name, names) if not place.exists()))

    def unfinished_move(self) -> str:
        if self.path.exists():
            return ""
        folder, name = self.path.parent, self.path.name
        found = folder.glob(f"{glob.escape(name)}.recovering*")
        complete = sorted(p for p in found if (p / self.record_file).exists())
        return complete[-1].name if complete else ""

    def finish_move(self, name: str) -> None:
        self.path.with_name(name).rename(self.path)
        sync_directory(self.path.parent)

    def move(self, place: Location) -> None:
        assert isinstance(place, Folder)
        self.path.rename(place.path)
        sync_directory(place.path.parent)
