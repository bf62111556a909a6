"""Where the bytes of a run's logs go: a file that is appended to, or, where only whole objects can be put, an array."""

from __future__ import annotations

import errno
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from scalable_bandits.store.locations import Location

SEGMENT = 65_536  # bytes; of a journal where files cannot be appended to
SEGMENTS = 16_384  # at the most


class Journal(Protocol):
    """Bytes that grow at the end."""

    def read(self) -> bytes | None:
        """All bytes; None if there is no such journal."""

    def create(self, data: bytes) -> None:
        """Make it, with these bytes, whatever was there; durable when this returns."""

    def append(self, data: bytes) -> None:
        """Add bytes; they are durable when this returns, and not there if it raises."""

    def remove(self) -> None:
        """Remove it, if it is there."""

    def close(self) -> None:
        """Close what is held open."""


def sync_directory(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a folder with its parents, durably."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all bytes: `os.write` may write fewer."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def replace_file(path: Path, data: bytes | memoryview) -> None:
    """Put a file in place whole, or leave the old one: written aside, made durable, then renamed."""
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
    """A file that is appended to; every append is followed by fsync."""

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
        if not self.path.exists():  # one that was removed takes bytes as long as it is open
            raise FileNotFoundError(errno.ENOENT, "it was moved or removed", str(self.path))
        try:
            write_all(self._descriptor, data)
            os.fsync(self._descriptor)
        except BaseException:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)

    def remove(self) -> None:
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class ArrayJournal:
    """A zarr array of bytes, for stores that put whole objects: an append rewrites its last segment.

    Bytes after the end are zero, and the last byte that was written is not.

    Parameters
    ----------
    location
        Location of the run.
    path
        Name of the array.
    """

    def __init__(self, location: Location, path: str):
        self._location, self._path = location, path
        self._array: Any = None
        self._generation = -1
        self._size = -1  # not known before it was read or made
        self._last = b""  # what the last segment holds

    def _open(self) -> Any:
        """The array, opened again where the location works in transactions."""
        if self._array is None or self._generation != self._location.generation:
            self._array, self._generation = (
                self._location.column(self._path, self._document()),
                self._location.generation,
            )
        return self._array

    @staticmethod
    def _document() -> dict[str, Any]:
        """Metadata of the array, as zarr keeps them."""
        return {
            "zarr_format": 3, "node_type": "array", "shape": [SEGMENT * SEGMENTS], "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [SEGMENT]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0, "codecs": [{"name": "bytes"}], "attributes": {}, "dimension_names": None,
            "storage_transformers": [],
        }  # fmt: skip

    def read(self) -> bytes | None:
        keys = self._location.keys(f"{self._path}/")  # icechunk lists whole arrays only
        numbers = [int(key.rpartition("/")[2]) for key in keys if key.startswith(f"{self._path}/c/")]
        if not numbers:
            return None
        array, pieces = self._open(), []
        for number in range(max(numbers) + 1):
            try:
                pieces.append(array[number * SEGMENT : (number + 1) * SEGMENT].tobytes())
            except Exception:  # a damaged segment: the frames in it are missing
                pieces.append(bytes(SEGMENT))
        data = b"".join(pieces).rstrip(b"\0")
        self._size, self._last = len(data), data[len(data) // SEGMENT * SEGMENT :]
        return data

    def create(self, data: bytes) -> None:
        self.remove()
        self._location.put_document(self._path, self._document())
        self._size, self._last = 0, b""
        self.append(data)

    def append(self, data: bytes) -> None:
        if self._size < 0:
            self.read()
        grown = self._last + data
        start, size = self._size - len(self._last), -(-len(grown) // SEGMENT) * SEGMENT
        if start + size > SEGMENT * SEGMENTS:
            raise OSError(f"the journal holds {SEGMENT * SEGMENTS} bytes at the most")
        self._open()[start : start + size] = np.frombuffer(grown.ljust(size, b"\0"), np.uint8)
        self._size += len(data)
        self._last = grown[len(grown) // SEGMENT * SEGMENT :]

    def remove(self) -> None:
        with suppress(FileNotFoundError):
            self._location.delete(self._path)
        self._array = None

    def close(self) -> None:
        pass
