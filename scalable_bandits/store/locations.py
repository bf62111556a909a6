"""Locations: the place where one run is stored, a folder or any other zarr store, and its lock."""

from __future__ import annotations

import asyncio
import atexit
import io
import json
import os
import re
import shlex
import shutil
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

import zarr
from zarr.abc.buffer import Buffer
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.core import sync as zarr_sync
from zarr.core.sync import sync
from zarr.storage import FsspecStore, LocalStore, StorePath

from scalable_bandits import checks
from scalable_bandits.store.errors import StoreLocked
from scalable_bandits.store.files import make_directory, refuse_links, replace_file

if TYPE_CHECKING:
    from filelock import FileLock


COMMITTED = "committed"  # array of the number of rounds, in whose folder the ledger and the lock are
METADATA = "zarr.json"
INPUTS = "inputs"  # group of the specification's arrays, named by their digests
DATABASE, ACKNOWLEDGED = f"{COMMITTED}/run.sqlite", f"{COMMITTED}/acknowledged"
WRITER = f"{COMMITTED}/writer"
LOCK, OWNER = f"{WRITER}.lock", f"{WRITER}.json"

_LOCAL = ("ext", "xfs", "btrfs", "zfs", "f2fs", "tmpfs", "overlay", "apfs", "hfs", "ntfs", "jfs", "bcachefs")
_CHUNK = re.compile(r"/c([./]\d+)*$")  # end of the key of a chunk


def _end_io_thread() -> None:
    """Wait for zarr's thread to end: zarr itself waits .2 s, and prints a traceback where the machine is busy."""
    loop, thread = zarr_sync.loop[0], zarr_sync.iothread[0]
    if loop is not None and thread is not None:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=5.0)


atexit.register(_end_io_thread)


# ---- zarr stores


class DurableStore(LocalStore):
    """Zarr store in a folder, which it makes when something is written; it syncs every file but metadata.

    Metadata can be made again. zarr's own store makes its folder when it is read, and renames files without fsync.
    """

    async def _open(self, *, mode: Any = None) -> None:
        self._is_open = True

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        data = memoryview(value.as_buffer_like()).cast("B")
        await asyncio.to_thread(replace_file, self.root / key, data, not key.endswith(METADATA))


async def _listed(store: Store, prefix: str) -> list[str]:
    return [key async for key in store.list_prefix(prefix)]


# ---- who writes


def is_local(path: Path) -> bool:
    """Whether a folder is on a disk of this machine, whose locks and shared memory can be trusted."""
    import psutil

    inside = Path(os.path.realpath(path))
    kinds = {part.mountpoint: part.fstype.lower() for part in psutil.disk_partitions(all=True)}
    mounted = next((str(folder) for folder in (inside, *inside.parents) if str(folder) in kinds), "")
    return kinds.get(mounted, "").startswith(_LOCAL)


_call = ContextVar("call", default="")  # name of the call whose runs are written, such as that of a study


@contextmanager
def writing_for(call: str) -> Iterator[None]:
    """Write the name of a call into the locks that are taken, so that its next try of a run knows those of the last."""
    token = _call.set(call)
    try:
        yield
    finally:
        _call.reset(token)


def this_process() -> dict[str, Any]:
    """Return the record of this process, which tells others who writes."""
    command = shlex.join([Path(sys.argv[0] or "python").name, *sys.argv[1:]])[:200]
    record = {"pid": os.getpid(), "host": socket.gethostname(), "command": command, "since": time.time()}
    return record | ({"call": _call.get()} if _call.get() else {})


def may_be_running(record: Mapping[str, Any]) -> bool:
    """Whether the process of a record still runs; True if it is on another machine, where that cannot be found out."""
    if record["host"] != socket.gethostname():
        return True
    import psutil

    try:
        process = psutil.Process(record["pid"])
        if process.status() == psutil.STATUS_ZOMBIE:  # it has ended, and its parent has not waited for it yet
            return False
        created: float = process.create_time()
    except psutil.NoSuchProcess:
        return False
    return created <= record["since"] + 1.0  # both times are rounded


class Location:
    """Place where one run is stored: any zarr store, with a name for messages.

    The lock is an object with the record of its owner, made only if it does not exist. The lock of an owner on this
    machine that no longer runs is replaced. Whether an owner on another machine still runs cannot be found out: its
    lock is replaced only with `takeover`.

    Attributes
    ----------
    keeps_tickets : bool
        Whether evaluations can be kept here, each in a transaction.
    ledger_file : str
        File of the ledger.
    separator : str
        Separator of the numbers in a chunk's key.
    """

    keeps_tickets = False
    ledger_file = f"{COMMITTED}/{METADATA}"
    separator: Literal[".", "/"] = "/"

    def __init__(self, store: Store, name: str):
        self.store, self.name = store, name
        self._own: dict[str, Any] | None = None  # record in the lock that this process has

    # ---- lock

    def lock(self, takeover: bool) -> None:
        """Become the only writer, at once; otherwise raise StoreLocked, which names the current writer."""
        mine = {**this_process(), "token": uuid.uuid4().hex}
        if not self._claim(mine):
            owner = self._owner()
            if owner and not takeover and may_be_running(owner):
                raise self._locked(owner)
            if self._owner() == owner:
                sync(self.store.delete(OWNER))
            if not self._claim(mine):
                raise self._locked(None)
        self._own = mine

    def unlock(self) -> None:
        """Release the lock, unless another process has taken it over."""
        own, self._own = self._own, None
        if own is not None and self._owner() == own:
            sync(self.store.delete(OWNER))

    def release(self, owner: Mapping[str, Any]) -> None:
        """Remove the record of a writer that has ended; StoreLocked if it runs here, or if another process writes."""
        present = self._owner()
        if present != owner or (owner["host"] == socket.gethostname() and may_be_running(owner)):
            raise self._locked(present)
        sync(self.store.delete(OWNER))

    def writer(self) -> dict[str, Any] | None:
        """Return the lock owner's record; None if no process is writing as far as can be found out."""
        owner = self._owner()
        return owner if owner and may_be_running(owner) else None

    def _claim(self, record: dict[str, Any]) -> bool:
        """Make the lock with this record if it is free; return whether this process has the lock."""
        data = json.dumps(record).encode()
        sync(self.store.set_if_not_exists(OWNER, default_buffer_prototype().buffer.from_bytes(data)))
        return self.get(OWNER) == data

    def _owner(self) -> dict[str, Any] | None:
        """Return the record of the process that has, or had, the lock; None without one, or if it is damaged."""
        types = {"pid": int, "host": str, "command": str, "since": float}
        with suppress(ValueError):
            record = json.loads(self.get(OWNER) or b"null")
            if isinstance(record, dict) and all(isinstance(record.get(key), kind) for key, kind in types.items()):
                return record
        return None

    def _locked(self, owner: Mapping[str, Any] | None) -> StoreLocked:
        """Return the error that refuses a second writer."""
        who, hint = "another process", ""
        if owner is not None:
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(owner["since"]))
            who = f"process {owner['pid']} on {owner['host']} ({owner['command']}), since {since}"
            if owner["host"] != socket.gethostname():
                hint = "; if it is gone, open with takeover=True, or `scalable-bandits resume --takeover`"
        text = f"it is being written by {who}; only one process can write a run{hint}"
        return StoreLocked(f"store {self.name}: {text}", owner)

    # ---- keys of the zarr store

    def get(self, key: str) -> bytes | None:
        """Return the bytes of a key; None if it does not exist."""
        found = sync(self.store.get(key, default_buffer_prototype()))
        return None if found is None else found.to_bytes()

    def put(self, key: str, data: bytes | Callable[[IO[bytes]], Any]) -> None:
        """Set a key to data, or to what a function writes to a file."""
        if callable(data):
            buffer = io.BytesIO()
            data(buffer)
            data = buffer.getvalue()
        sync(self.store.set(key, default_buffer_prototype().buffer.from_bytes(data)))

    def get_file(self, key: str) -> IO[bytes] | None:
        """Open a key for reading; None if it does not exist."""
        data = self.get(key)
        return None if data is None else io.BytesIO(data)

    def files(self, prefix: str = "") -> list[str]:
        """Return the keys that begin with a prefix."""
        return sync(_listed(self.store, prefix))

    def document(self, path: str) -> dict[str, Any] | None:
        """Return the stored metadata of an array or group; None if there are none.

        Raises
        ------
        ValueError
            If they are not a JSON object.
        """
        data = self.get(f"{path}/{METADATA}".lstrip("/"))
        if data is None:
            return None
        try:
            found = json.loads(data)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if not isinstance(found, dict):
            raise ValueError("it is not a JSON object")
        return found

    def put_document(self, path: str, document: Mapping[str, Any]) -> None:
        """Write the metadata of an array or group."""
        self.put(f"{path}/{METADATA}".lstrip("/"), json.dumps(document).encode())

    def column(self, path: str, document: Mapping[str, Any]) -> zarr.Array[Any]:
        """Open an array with the given metadata, whatever metadata are stored."""
        return zarr.Array.from_dict(StorePath(self.store, path), dict(document))

    # ---- content

    def occupied(self) -> bool:
        """Whether anything is stored here."""
        return bool(self.files())

    def has_run_files(self) -> bool:
        """Whether there are files that only a run has, possibly a damaged one."""
        return bool(self.files(f"{COMMITTED}/"))

    def unfinished(self) -> bool:
        """Whether the creation of a run was interrupted: there is no ledger, which is written last, and no round."""
        chunks = (key for key in self.files() if _CHUNK.search(key))
        return self.has_run_files() and all(key.startswith((f"{COMMITTED}/", f"{INPUTS}/")) for key in chunks)

    def clear(self) -> None:
        """Remove what an interrupted creation left, but for the lock."""
        for key in self.files():
            if key.endswith(".partial") or ("/" in key and key not in (LOCK, OWNER)):
                sync(self.store.delete(key))

    def remove_partial_files(self) -> int:
        """Remove half-written files of a killed writer; return their number."""
        left = [key for key in self.files() if key.endswith(".partial")]
        for key in left:
            sync(self.store.delete(key))
        return len(left)

    def set_aside(self, key: str) -> str:
        """Move a damaged key aside and say where to; a store that can only replace whole objects removes it."""
        sync(self.store.delete(key))
        return "removed"

    def free(self) -> int | None:
        """Return how many bytes can still be stored here; None if that is not known."""
        return None

    def size(self) -> int | None:
        """Return the number of bytes used; None if unknown."""
        return None


class Folder(Location):
    """Folder of a run. The lock is one of the operating system, which releases it when its owner dies."""

    keeps_tickets = True
    ledger_file = DATABASE
    separator = "."  # keeps all chunks of an array in one directory

    def __init__(self, path: Path):
        self.path = path.absolute()  # the user's function may change the working folder
        super().__init__(DurableStore(self.path), str(path))
        self._lock: FileLock | None = None

    def lock(self, takeover: bool) -> None:
        from filelock import FileLock, Timeout

        refuse_links(self.path)
        make_directory(self.path / COMMITTED)
        lock = FileLock(self.path / LOCK, blocking=False, is_singleton=False)
        try:
            lock.acquire()
        except Timeout:
            raise self._locked(self._owner()) from None
        try:
            owner, mine = self._owner(), this_process()
            if owner and owner["host"] != mine["host"] and not takeover and not is_local(self.path):
                raise self._locked(owner)  # another machine's lock may not be seen here
            self.put(OWNER, json.dumps(mine).encode())
        except BaseException:
            lock.release()
            raise
        self._lock, self._own = lock, mine

    def release(self, owner: Mapping[str, Any]) -> None:
        from filelock import FileLock, Timeout

        try:
            with FileLock(self.path / LOCK, blocking=False, is_singleton=False):
                super().release(owner)
        except Timeout:  # the operating system says that it still runs
            raise self._locked(owner) from None

    def unlock(self) -> None:
        if self._lock is not None:
            lock, self._lock = self._lock, None
            try:
                super().unlock()
            finally:
                lock.release()

    # As zarr's store does it, but without a thread for each file.

    def get(self, key: str) -> bytes | None:
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return (self.path / key).read_bytes()
        return None

    def put(self, key: str, data: bytes | Callable[[IO[bytes]], Any]) -> None:
        replace_file(self.path / key, data, not key.endswith(METADATA))

    def get_file(self, key: str) -> IO[bytes] | None:
        with suppress(FileNotFoundError, NotADirectoryError):
            return (self.path / key).open("rb")
        return None

    def occupied(self) -> bool:
        return self.path.is_file() or super().occupied()

    def has_run_files(self) -> bool:
        # After a power failure any of them may be missing, or be there by its temporary name alone.
        return any(key.startswith((WRITER, DATABASE)) for key in self.files(f"{COMMITTED}/"))

    def unfinished(self) -> bool:
        return not (self.path / ACKNOWLEDGED).exists() and super().unfinished()

    def set_aside(self, key: str) -> str:
        (self.path / key).replace(self.path / f"{key}.damaged")
        return f"kept as {key}.damaged"

    def free(self) -> int | None:
        there = next(folder for folder in (self.path, *self.path.parents) if folder.exists())
        usage = shutil.disk_usage(there)
        return usage.free if usage.total else None  # some file systems do not say

    def size(self) -> int | None:
        total = 0
        for key in self.files():
            with suppress(FileNotFoundError):  # its writer has removed it meanwhile
                total += (self.path / key).stat().st_size
        return total


def without_scheme(place: Any) -> Any:
    """Return the path of a file:// URL as a text; anything else as it is. ValueError if it is on another machine."""
    if not (isinstance(place, str) and place.startswith("file://")):
        return place
    path = place.removeprefix("file://").removeprefix("localhost")
    if not path.startswith("/"):
        checks.refuse("store", place, "file:///..., with the whole path of a folder on this machine")
    return unquote(path)


def locate(place: Any) -> Location:
    """Return the location of a user's `store`: a path, a URL or a zarr store; ValueError if it is anything else."""
    if isinstance(place, Location):
        return place
    if isinstance(place, LocalStore):
        return Folder(place.root)
    if isinstance(place, Store):
        return Location(place, str(place))
    place = without_scheme(place)
    if isinstance(place, str) and "://" in place:
        return Location(FsspecStore.from_url(place), place)
    if isinstance(place, str | os.PathLike):
        return Folder(Path(place))
    checks.refuse("store", place, "a path, a URL, or a zarr store")
