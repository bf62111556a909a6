"""Runs in a folder: synced chunks, a database, and the lock of the operating system."""

from __future__ import annotations

import asyncio
import glob
import itertools
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from zarr.abc.buffer import Buffer
from zarr.abc.store import Store
from zarr.storage import LocalStore

from scalable_bandits.store import database
from scalable_bandits.store.database import ACKNOWLEDGED, FILE, Database
from scalable_bandits.store.errors import StoreLocked
from scalable_bandits.store.files import make_directory, refuse_links, replace_file, sync_directory
from scalable_bandits.store.ledger import Contents
from scalable_bandits.store.locations import COMMITTED, METADATA, Location
from scalable_bandits.store.lock_owner import describe_owner, locked_message, may_be_running, this_process, valid_owner

if TYPE_CHECKING:
    from filelock import FileLock

_EARLY_FILES = ("writer.lock", "writer.json", FILE)  # files of a run that may exist before it does


class DurableStore(LocalStore):
    """Zarr store in a folder that syncs every chunk it writes: zarr's own store renames files without fsync.

    Metadata are not synced: those of a run can be made again.
    """

    async def set(self, key: str, value: Buffer) -> None:
        if not self._is_open:
            await self._open()
        self._check_writable()
        data = memoryview(value.as_buffer_like()).cast("B")
        await asyncio.to_thread(replace_file, self.root / key, data, not key.endswith(METADATA))


class Folder(Location):
    """Run in a folder. The lock is one of the operating system, which releases it when its owner dies."""

    separator = "."  # keeps all chunks of an array in one directory
    keeps_tickets = True
    ledger_file = f"{COMMITTED}/{FILE}"

    def __init__(self, path: Path):
        self.path = path.absolute()  # the user's function may change the working folder
        self.name = str(path)
        self._store = DurableStore(self.path)
        self._lock: FileLock | None = None

    @property
    def store(self) -> Store:
        return self._store

    def read_ledger(self, thorough: bool = False) -> Contents:
        contents = database.read(self.path / COMMITTED)
        if thorough and not contents.problems and (problem := database.structure_problem(self.path / COMMITTED)):
            contents.problems.append(problem)
        return contents

    def open_ledger(self, contents: Contents | None) -> Database:
        return Database(self.path / COMMITTED, contents)

    def lock(self, takeover: bool) -> None:
        from filelock import FileLock, Timeout

        place = self.path / COMMITTED / "writer.lock"
        record = place.with_suffix(".json")
        refuse_links(self.path)
        make_directory(place.parent)
        lock = FileLock(place, blocking=False, is_singleton=False)
        try:
            lock.acquire()
        except Timeout:
            who = self._owner()
            named = "another process" if who is None else describe_owner(who)
            text = f"it is being written by {named}; only one process can write a run"
            raise StoreLocked(f"store {self.name}: {text}") from None
        try:
            who, here = self._owner(), this_process()
            if who and who["host"] != here["host"] and not takeover and not database.is_local(self.path):
                raise StoreLocked(locked_message(self.name, who))  # another machine's lock may not be seen here
            replace_file(record, json.dumps(here).encode())
        except BaseException:
            lock.release()
            raise
        self._lock = lock

    def _owner(self) -> dict[str, Any] | None:
        """Return the record of the process that has, or had, the lock."""
        with suppress(OSError, ValueError):
            return valid_owner(json.loads((self.path / COMMITTED / "writer.json").read_bytes()))
        return None

    def unlock(self) -> None:
        if self._lock is not None:
            lock, self._lock = self._lock, None
            try:
                (self.path / COMMITTED / "writer.json").unlink(missing_ok=True)
            finally:
                lock.release()

    def writer(self) -> dict[str, Any] | None:
        held = self._owner()
        return held if held and may_be_running(held) else None

    # Not through zarr, which would make the folder when it reads from it.

    def get(self, key: str) -> bytes | None:
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return (self.path / key).read_bytes()
        return None

    def put(self, key: str, data: bytes) -> None:
        replace_file(self.path / key, data, not key.endswith(METADATA))

    def put_file(self, key: str, write: Callable[[IO[bytes]], Any]) -> None:
        replace_file(self.path / key, write)

    def get_file(self, key: str) -> IO[bytes] | None:
        with suppress(FileNotFoundError, NotADirectoryError):
            return (self.path / key).open("rb")
        return None

    def keys(self, prefix: str) -> list[str]:
        inside = self.path / prefix
        return [f.relative_to(self.path).as_posix() for f in inside.rglob("*") if f.is_file()]

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            super().delete(path)

    def set_aside(self, key: str) -> str:
        aside = (self.path / key).with_name(f"{Path(key).name}.damaged")
        (self.path / key).replace(aside)
        return f"kept as {aside.relative_to(self.path)}"

    def occupied(self) -> bool:
        if not self.path.is_dir():
            return self.path.exists()
        return any(self.path.iterdir())

    def has_run_files(self) -> bool:
        return any((self.path / COMMITTED / name).exists() for name in ("writer.lock", FILE))

    def unfinished(self) -> bool:
        inside = self.path / COMMITTED
        if not inside.is_dir() or (inside / ACKNOWLEDGED).exists():
            return False
        if not self.has_run_files():  # a process may have died while it made the lock
            entries = [*self.path.iterdir(), *inside.iterdir()]
            return all(e.name == COMMITTED or e.name.startswith(_EARLY_FILES) for e in entries)
        return super().unfinished()

    def clear(self) -> None:
        self.remove_partial_files()
        super().clear()
        for file in (self.path / COMMITTED).glob(f"{FILE}*"):
            file.unlink()

    def remove_partial_files(self) -> int:
        left = list(self.path.rglob("*.partial"))
        for file in left:
            file.unlink(missing_ok=True)
        return len(left)

    def free(self) -> int | None:
        there = next(folder for folder in (self.path, *self.path.parents) if folder.exists())
        return shutil.disk_usage(there).free

    def size(self) -> int | None:
        total = 0
        for folder, _, files in os.walk(self.path):
            for name in files:
                with suppress(FileNotFoundError):  # its writer has removed it meanwhile
                    total += Path(folder, name).stat().st_size
        return total

    def free_sibling(self, suffix: str) -> Location:
        names = (f"{self.path.name}.{suffix}{number or ''}" for number in itertools.count())
        return Folder(next(place for place in map(self.path.with_name, names) if not place.exists()))

    def unfinished_move(self) -> str:
        if self.path.exists():
            return ""
        folder, name = self.path.parent, self.path.name
        found = folder.glob(f"{glob.escape(name)}.recovering*")
        complete = sorted(p for p in found if (p / COMMITTED / ACKNOWLEDGED).exists())
        return complete[-1].name if complete else ""

    def finish_move(self, name: str) -> None:
        self.path.with_name(name).rename(self.path)
        sync_directory(self.path.parent)

    def move(self, place: Location) -> None:
        assert isinstance(place, Folder)
        self.path.rename(place.path)
        sync_directory(place.path.parent)
