"""A disk that becomes full or loses its power, under the files of a run and under its database."""

import contextlib
import errno
import math
import os
import shutil
import sqlite3
import threading
from pathlib import Path
from urllib.parse import quote

import apsw

from scalable_bandits.store import files, ledger

SECTOR = 512  # bytes that a disk writes as a whole
_CODES = {errno.ENOSPC: apsw.FullError, errno.EIO: apsw.IOError}


class Disk:
    """`os` as the module of durable files sees it, with room for so many calls; SQLite's calls count too.

    Attributes
    ----------
    room : float
        Number of calls that still succeed.
    calls : tuple of str
        Names of the calls that are counted: of `os`, and "write" and "sync" of SQLite.
    number : int
        Number of the error.
    """

    def __init__(self):
        self.room, self.calls, self.number = math.inf, ("fsync", "replace", "write", "sync"), errno.ENOSPC

    def __getattr__(self, name):
        return getattr(os, name)

    def fsync(self, descriptor):
        self.count("fsync")

    def replace(self, source, target):
        self.count("replace")
        os.replace(source, target)

    def count(self, name):
        """Count a call; raise the error if there is no room for it."""
        if name in self.calls:
            self.room -= 1
            if self.room < 0:
                raise OSError(self.number, os.strerror(self.number))

    def synced(self, path, folder_too):
        """Note that SQLite has synced a file, and the name of it if `folder_too`."""

    def removed(self, path, synced):
        """Note that SQLite has removed a file."""


class Power(Disk):
    """Disk of which one knows what is left if the power fails.

    Sure to be left are the contents of files and the names in folders as they were when each was last synced.

    Parameters
    ----------
    root
        Folder on the disk, with nothing in it yet.
    """

    def __init__(self, root):
        super().__init__()
        self.root, self.acknowledged = root, None
        self.moments = []  # at each sync, before it: what is sure, what there is, what was acknowledged
        self._held = {}  # descriptors by inode, so that no later file gets the number of one that is gone
        self._guard = threading.Lock()  # chunks are written by several threads
        self._sure = self._look()

    def _look(self):
        """Return contents of files and names in folders, by inode; folders are dictionaries."""
        found = {}
        for path in [self.root, *self.root.rglob("*")]:
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(path, os.O_RDONLY)
                number = os.fstat(descriptor).st_ino
                if path.is_dir():
                    with os.scandir(path) as inside:
                        found[number] = {entry.name: entry.inode() for entry in inside}
                else:
                    found[number] = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
                if number in self._held:
                    os.close(descriptor)
                self._held.setdefault(number, descriptor)
        return found

    def _sync(self, number):
        with self._guard:
            there = self._look()
            self.moments.append((dict(self._sure), there, self.acknowledged))
            if number in there:
                self._sure[number] = there[number]

    def fsync(self, descriptor):
        self._sync(os.fstat(descriptor).st_ino)

    def synced(self, path, folder_too):
        number = path.stat().st_ino
        self._sync(number)
        if folder_too:
            names = self._sure.get(path.parent.stat().st_ino, {})
            self._sure[path.parent.stat().st_ino] = {**names, path.name: number}

    def removed(self, path, synced):
        if synced:
            self._sync(path.parent.stat().st_ino)

    def release(self):
        """Release the inodes."""
        for descriptor in self._held.values():
            os.close(descriptor)

    def lay_out(self, moment, target, rng=None):
        """Write what is left at a moment: what is sure; or, by chance, also some of the names and sectors since."""
        sure, there, _ = moment
        shutil.rmtree(target, ignore_errors=True)

        def names(inode):
            old, new = sure.get(inode, {}), there.get(inode, {})
            chosen = {n: new.get(n) if rng is not None and rng.random() < 0.5 else old.get(n) for n in {*old, *new}}
            return {name: child for name, child in chosen.items() if child is not None and not name.endswith("-shm")}

        def content(inode):
            old = sure.get(inode, b"")
            new = there.get(inode, old)  # of a file that was replaced nothing else is known
            if rng is None or old == new:
                return old
            size = (len(old), len(new), int(rng.integers(min(len(old), len(new)), max(len(old), len(new)) + 1)))
            old, new = (each.ljust(max(size), b"\0") for each in (old, new))
            sectors = range(0, max(size), SECTOR)
            return b"".join((old, new)[rng.random() < 0.5][i : i + SECTOR] for i in sectors)[: size[rng.integers(3)]]

        def lay(inode, path):
            if isinstance(there.get(inode, sure.get(inode)), dict):
                path.mkdir()
                for name, child in names(inode).items():
                    lay(child, path / name)
            else:
                path.write_bytes(content(inode))

        lay(self.root.stat().st_ino, target)


# ---- SQLite on such a disk


class _File(apsw.VFSFile):
    def __init__(self, files_of, name, flags):
        super().__init__("", name, flags)
        self._on = files_of
        self._path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name)
        self._new = not flags[0] & apsw.SQLITE_OPEN_MAIN_DB  # SQLite syncs the names of its logs

    def excepthook(self, *_):
        """Say nothing of an error that SQLite does not pass on."""

    def xWrite(self, data, offset):
        with self._on.errors():
            try:
                self._on.disk.count("write")
            except OSError:
                super().xWrite(data[: len(data) // 2], offset)
                raise
        super().xWrite(data, offset)

    def xSync(self, flags):
        with self._on.errors():
            self._on.disk.count("sync")
        self._on.disk.synced(self._path, self._new)
        self._new = False


class _Files(apsw.VFS):
    """SQLite's file system, on a disk."""

    def __init__(self):
        super().__init__("disk", "")
        self.disk = Disk()

    def xOpen(self, name, flags):
        return _File(self, name, flags)

    def xDelete(self, name, synced):
        super().xDelete(name, synced)
        self.disk.removed(Path(name), synced)

    @contextlib.contextmanager
    def errors(self):
        try:
            yield
        except OSError as error:
            raise _CODES[error.errno](str(error)) from None


class _Connection:
    """Connection of apsw with the interface of the standard library's, as far as a run needs it."""

    def __init__(self, path, mode):
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        self._own = apsw.Connection(f"file:{quote(str(path))}?mode={mode}", flags=flags, vfs="disk")
        self._own.set_busy_timeout(10_000)

    def execute(self, *given):
        return self._call(self._own.execute, *given)

    def executemany(self, *given):
        return self._call(self._own.executemany, *given)

    @staticmethod
    def _call(function, *given):
        try:
            return _Rows(function(*given).fetchall())
        except apsw.Error as error:
            raised = sqlite3.OperationalError(str(error))
            raised.sqlite_errorname = f"SQLITE_{type(error).__name__.removesuffix('Error').upper()}"
            if isinstance(error, apsw.IOError):
                raised.sqlite_errorname = "SQLITE_IOERR"
            raise raised from None

    @property
    def in_transaction(self):
        return self._own.in_transaction

    def close(self):
        with contextlib.suppress(apsw.IOError):  # of the lock that a reader has no right to, for a checkpoint
            self._own.close()


class _Rows(list):
    """Rows of a statement."""

    def fetchall(self):
        return self

    def fetchone(self):
        return self[0] if self else None


FILES = _Files()


def install(patch, disk):
    """Let the files and databases of all runs be on a disk."""
    patch.setattr(files, "os", disk)
    patch.setattr(ledger, "_connect", _Connection)
    patch.setattr(FILES, "disk", disk)
    return disk
