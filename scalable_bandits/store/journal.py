"""Journals: files that grow at the end and hold a run's logs, and functions that make files durable."""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path
from typing import Any, Protocol


class Journal(Protocol):
    """Interface of a sequence of bytes that grows at the end."""

    def read(self) -> bytes | None:
        """Return all bytes; None if the journal does not exist."""

    def create(self, data: bytes) -> None:
        """Make or replace the journal with these bytes; durable on return."""

    def append(self, data: bytes) -> None:
        """Add bytes at the end: durable on return, absent if this raises."""

    def mark(self) -> Any:
        """Return the current end, for `rewind`."""

    def rewind(self, mark: Any) -> None:
        """Cut the journal back to an end returned by `mark`."""

    def remove(self) -> None:
        """Remove the journal if it exists."""

    def close(self) -> None:
        """Release the open file."""


def sync_directory(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a folder and its parents, durably."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all bytes: one call of `os.write` may write fewer."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def replace_file(path: Path, data: bytes | memoryview) -> None:
    """Replace a file as a whole, durably: write a new file beside it, sync it, rename it.

    If this raises, the old file is unchanged.
    """
    make_directory(path.parent)
    aside = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


class FileJournal:
    """Journal in a file; every append is followed by fsync."""

    def __init__(self, path: Path):
        self.path = path
        self._descriptor = -1
        self._size = 0

    def read(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    def create(self, data: bytes) -> None:
        self.close()
        replace_file(self.path, data)

    def _open(self) -> None:
        if self._descriptor < 0:
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
            self._size = os.fstat(self._descriptor).st_size

    def append(self, data: bytes) -> None:
        self._open()
        if not self.path.exists():  # a removed file still accepts bytes while it is open
            raise FileNotFoundError(errno.ENOENT, "it was moved or removed", str(self.path))
        try:
            write_all(self._descriptor, data)
            os.fsync(self._descriptor)
        except BaseException:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)

    def mark(self) -> Any:
        self._open()
        return self._size

    def rewind(self, mark: Any) -> None:
        os.ftruncate(self._descriptor, mark)
        self._size = mark

    def remove(self) -> None:
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
