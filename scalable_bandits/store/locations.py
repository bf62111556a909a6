"""Where a run is kept: a folder, any zarr store or URL, an icechunk repository; with its journal and its lock."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import shlex
import shutil
import socket
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import zarr
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store
from zarr.storage import FsspecStore, LocalStore, WrapperStore

from scalable_bandits import checks
from scalable_bandits.store.errors import StoreDamaged, StoreLocked
from scalable_bandits.store.journal import (
    SEGMENT,
    ArrayJournal,
    FileJournal,
    Journal,
    make_directory,
    replace_file,
    sync_directory,
)

if TYPE_CHECKING:
    from filelock import FileLock

COMMITTED = "committed"  # the array of the count; the folder of a run's journal and lock too, where zarr lists nothing
JOURNAL = "journal"
BOOKKEEPING = "bookkeeping"  # the group with the journal and the lock where a run is no folder


_CHUNK = re.compile(r"/c([./]\d+)*$")  # how the key of a chunk ends


class DurableStore(LocalStore):
    """A folder whose keys are durable when they are set: zarr's own renames without fsync."""

    async def set(self, key: str, value: Buffer) -> None:
        if not self._is_open:
            await self._open()
        self._check_writable()
        await asyncio.to_thread(replace_file, self.root / key, memoryview(value.as_buffer_like()).cast("B"))


class CompleteStore(WrapperStore[Store]):
    """For reading: a chunk that is not there is an error, not a block of fill values."""

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        found = await self._store.get(key, prototype, byte_range)
        if found is None and _CHUNK.search(key):
            raise StoreDamaged(f"the chunk {key} is missing")
        return found


class Location(ABC):
    """A place that holds one run."""

    name: str
    generation = 0  # what was opened in an earlier one has to be opened again
    separator: Literal[".", "/"] = "/"  # between the numbers in a chunk's key

    @property
    @abstractmethod
    def store(self) -> Store:
        """Zarr's view of it."""

    @abstractmethod
    def journal(self, group: zarr.Group, earlier: Journal | None = None) -> Journal:
        """The journal of the run whose group is given; goes on from the same journal as it was opened earlier."""

    @abstractmethod
    def lock(self, takeover: bool) -> None:
        """Become the only writer, at once or not at all: StoreLocked names who is."""

    @abstractmethod
    def unlock(self) -> None:
        """Stop being it."""

    def look_again(self) -> None:  # noqa: B027 - most places have nothing to do
        """See what others wrote since."""

    def settle(self) -> None:  # noqa: B027
        """Make what was written visible as one."""

    def group(self, mode: Literal["r", "r+", "a"] = "r", path: str | None = None) -> zarr.Group:
        """The run's group, or one inside it; FileNotFoundError if it is not there."""
        return zarr.open_group(self.store, mode=mode, path=path, zarr_format=3, use_consolidated=False)

    def array(self, name: str) -> zarr.Array[Any]:
        """One of the run's arrays; FileNotFoundError if it is not there."""
        return zarr.open_array(self.store, mode="r", path=name, zarr_format=3)

    def remove_metadata(self, name: str) -> bool:
        """Remove metadata that cannot be read, of an array or (no name) of the group; False if that cannot be done."""
        return False

    def complete(self) -> zarr.Group:
        """The run's group for reading, in which a missing chunk is an error."""
        store = CompleteStore(self.store.with_read_only(True))
        return zarr.open_group(store, mode="r", zarr_format=3, use_consolidated=False)

    def occupied(self) -> bool:
        """Whether anything is there."""
        try:
            self.group()
        except FileNotFoundError:
            return self._holds(COMMITTED)
        except Exception:  # something that cannot be read
            pass
        return True

    def _holds(self, name: str) -> bool:
        try:
            self.array(name)
        except Exception as error:  # metadata that cannot be read are there
            return not isinstance(error, FileNotFoundError)
        return True

    def marked(self) -> bool:
        """Whether what is there bears the marks of a run, be it a damaged one."""
        return self._holds(COMMITTED) or BOOKKEEPING in self.group()

    def unfinished(self) -> bool:
        """Whether what is there is a run whose making was interrupted."""
        try:
            inside = self.group(path=BOOKKEEPING)
        except FileNotFoundError:
            return False
        return not self._holds(COMMITTED) and JOURNAL not in inside

    def clear(self) -> None:
        """Remove what an interrupted making left."""
        if self.unfinished():
            for name in list(self.group().keys()):
                if name != BOOKKEEPING:
                    del self.group("r+")[name]

    def sweep(self) -> int:
        """Remove what a writer that died left half written; tells how many files."""
        return 0

    def size(self) -> int | None:
        """Bytes taken, where it is known."""
        return None

    def writer(self) -> dict[str, Any] | None:
        """Who is writing, as far as can be told; None if nobody is."""
        return None

    def beside(self, what: str) -> Location:
        """A place of its own next to this one."""
        checks.refuse("store", self.name, "a store in a folder: copy it to one to upgrade it")

    def move(self, place: Location) -> None:
        """Become another place."""
        raise NotImplementedError

    def set_aside(self) -> str:
        """Copy everything to a place of its own, before something is cut; tells where."""
        checks.refuse("recover", self.name, "a store in a folder, which can be copied before anything is cut")


def holder() -> dict[str, Any]:
    """Who this process is, for others to read."""
    command = shlex.join([Path(sys.argv[0] or "python").name, *sys.argv[1:]])[:200]
    return {"pid": os.getpid(), "host": socket.gethostname(), "command": command, "since": time.time()}


def may_live(record: dict[str, Any]) -> bool:
    """Whether a holder still runs, as far as can be told from here."""
    if record["host"] != socket.gethostname():
        return True
    import psutil

    try:
        created: float = psutil.Process(record["pid"]).create_time()
    except psutil.NoSuchProcess:
        return False
    return created <= record["since"] + 1.0  # clocks of both are rounded


def describe_holder(record: dict[str, Any]) -> str:
    """Name a holder in half a sentence."""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(record["since"])))
    return f"process {record['pid']} on {record['host']} ({record['command']}), since {since}"


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

    def journal(self, group: zarr.Group, earlier: Journal | None = None) -> Journal:
        return FileJournal(self.path / COMMITTED / JOURNAL)

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


class Objects(Location):
    """Any zarr store: objects that are put whole. The lock is a record that names its holder.

    A holder on this machine that no longer runs is replaced. One on another machine cannot be looked at: `takeover`
    says that it is gone.
    """

    def __init__(self, store: Store, name: str):
        self._store, self.name = store, name
        self._held: dict[str, Any] | None = None

    @property
    def store(self) -> Store:
        return self._store

    def journal(self, group: zarr.Group, earlier: Journal | None = None) -> Journal:
        if f"{BOOKKEEPING}/{JOURNAL}" not in group:
            if group.read_only:  # of a run whose making was interrupted
                return ArrayJournal(np.zeros(SEGMENT, np.uint8))
            group.require_group(BOOKKEEPING).create_array(JOURNAL, **ArrayJournal.layout())
        journal = ArrayJournal(group[f"{BOOKKEEPING}/{JOURNAL}"])
        if isinstance(earlier, ArrayJournal):
            journal.take_over(earlier)
        return journal

    def lock(self, takeover: bool) -> None:
        inside = self.group("a", BOOKKEEPING)
        record: Any = inside.attrs.get("writer")
        if record and not takeover and may_live(record):
            hint = "" if record["host"] == socket.gethostname() else "; if it is gone, open with takeover=True"
            who = describe_holder(record)
            raise StoreLocked(f"store {self.name}: it is being written by {who}; one writer a run{hint}")
        self._held = holder()
        inside.attrs["writer"] = self._held
        self.settle()

    def writer(self) -> dict[str, Any] | None:
        try:
            record: Any = self.group(path=BOOKKEEPING).attrs.get("writer")
        except FileNotFoundError:
            return None
        return record if record and may_live(record) else None

    def unlock(self) -> None:
        inside = self.group("a", BOOKKEEPING)
        if self._held is not None and inside.attrs.get("writer") == self._held:
            del inside.attrs["writer"]
            self.settle()
        self._held = None


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


def locate(place: Any, writable: bool = True) -> Location:
    """Location of a path, a URL, a zarr store or an icechunk repository.

    Raises
    ------
    ValueError
        If it is none of these.
    """
    if isinstance(place, Location):
        return place
    if isinstance(place, LocalStore):
        return Folder(place.root)
    if isinstance(place, Store):
        return Objects(place, str(place))
    if isinstance(place, str) and "://" in place:
        scheme, _, rest = place.partition("://")
        return Folder(Path(rest)) if scheme == "file" else Objects(FsspecStore.from_url(place), place)
    if isinstance(place, str | os.PathLike):
        return Folder(Path(place))
    if type(place).__module__.partition(".")[0] == "icechunk" and hasattr(place, "writable_session"):
        return Icechunk(place)
    checks.refuse("store", place, "a path, a URL, a zarr store, or an icechunk repository")
