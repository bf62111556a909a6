"""The journal: what came after the last whole chunk, in frames with checksums, appended and never changed.

A frame is ``length, checksum, kind, first round, time`` and a payload. Reading stops at the first frame that is
incomplete or whose checksum is wrong: a torn tail, left by a process that died while it wrote, is cut there.
"""

from __future__ import annotations

import errno
import os
import struct
import time
import uuid
import zlib
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

_HEAD = struct.Struct("<II")  # length of what follows, its CRC-32
_BODY = struct.Struct("<BQd")  # kind, first, time
SEGMENT = 65_536  # bytes; of the journal where files cannot be appended to
SEGMENTS = 16_384  # at the most


class Kind(IntEnum):
    """What a frame says."""

    START = 1  # the journal begins; payload as PENDING
    ROWS = 2  # rows from number `first` on
    PENDING = 3  # candidates (int64) asked and not told; `first` rows had been told
    CLOSED = 4  # closed in order; payload as PENDING
    TICKET = 5  # in the journal of tickets: what became of ticket `first`; payload JSON


class Frame(NamedTuple):
    """One entry."""

    kind: Kind
    first: int  # rounds before it; of a ticket, its number
    time: float  # seconds since 1970
    payload: bytes


def encode(kind: Kind, first: int, payload: bytes) -> bytes:
    """Bytes of a frame, with the present time."""
    body = _BODY.pack(kind, first, time.time()) + payload
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


def parse(data: bytes) -> Iterator[tuple[Frame, int]]:
    """Frames up to the first torn one, each with the number of bytes up to its end."""
    offset = 0
    while offset + _HEAD.size + _BODY.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, offset)
        start, stop = offset + _HEAD.size, offset + _HEAD.size + length
        if length < _BODY.size or stop > len(data) or zlib.crc32(memoryview(data)[start:stop]) != checksum:
            return
        kind, first, when = _BODY.unpack_from(data, start)
        yield Frame(Kind(kind), first, when, data[start + _BODY.size : stop]), stop
        offset = stop


class Journal(Protocol):
    """Where the bytes of the frames go."""

    def read(self) -> bytes:
        """All bytes, a torn tail included."""

    def cut(self, size: int) -> None:
        """Keep the first `size` bytes only."""

    def append(self, data: bytes) -> None:
        """Add bytes; they are durable when this returns, and not there if it raises."""

    def replace(self, data: bytes) -> None:
        """Put these bytes in the place of all."""

    def close(self) -> None:
        """Let go of what is held open."""


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

    def read(self) -> bytes:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""

    def cut(self, size: int) -> None:
        self._open()
        os.ftruncate(self._descriptor, size)
        os.fsync(self._descriptor)
        self._size = size

    def _open(self) -> None:
        if self._descriptor < 0:
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
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

    def replace(self, data: bytes) -> None:
        self.close()
        replace_file(self.path, data)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class ArrayJournal:
    """A zarr array of bytes, for stores that put whole objects: an append rewrites its last segment.

    The array has two halves and, before them, a segment that says which is the journal: a new one is written whole into
    the other half first. Bytes after the last frame are zero, and a frame of length zero is none.
    """

    def __init__(self, array: Any):
        self.array = array
        self._data = b""
        self._half = 0

    def take_over(self, other: ArrayJournal) -> None:
        """Know what another view of the same array knows."""
        self._data, self._half = other._data, other._half

    @staticmethod
    def layout() -> dict[str, Any]:
        """Arguments of zarr's `create_array`."""
        return {
            "shape": (SEGMENT * (1 + 2 * SEGMENTS),), "chunks": (SEGMENT,), "dtype": "uint8", "fill_value": 0,
            "compressors": None,
        }  # fmt: skip

    def read(self) -> bytes:
        data, offset = b"", 0
        while len(data) < SEGMENT * SEGMENTS and offset <= SEGMENT * SEGMENTS:
            try:
                if not data:
                    self._half = int(self.array[0])
                start = self._start + len(data)
                data += self.array[start : start + SEGMENT].tobytes()
            except Exception:  # a damaged segment: the journal ends before it
                break
            while offset + _HEAD.size <= len(data):
                length, _ = _HEAD.unpack_from(data, offset)
                if not length:
                    self._data = data[:offset]
                    return self._data
                offset += _HEAD.size + length
        self._data = data
        return data

    def cut(self, size: int) -> None:
        self.replace(self._data[:size])

    def append(self, data: bytes) -> None:
        grown = self._data + data
        self._write(grown, len(self._data) // SEGMENT)
        self._data = grown

    def replace(self, data: bytes) -> None:
        before = self._half
        self._half = 1 - before
        try:
            self._write(data, 0)
            self.array[:SEGMENT] = np.full(SEGMENT, self._half, np.uint8)
        except BaseException:
            self._half = before
            raise
        self._data = data

    @property
    def _start(self) -> int:
        """Where the half that is the journal starts."""
        return SEGMENT * (1 + self._half * SEGMENTS)

    def _write(self, data: bytes, segment: int) -> None:
        start = segment * SEGMENT
        size = -(-(len(data) - start + _HEAD.size) // SEGMENT) * SEGMENT  # zeros follow, whatever stood there before
        if start + size > SEGMENT * SEGMENTS:
            raise OSError(f"the journal holds {SEGMENT * SEGMENTS} bytes at the most")
        place = self._start + start
        self.array[place : place + size] = np.frombuffer(data[start:].ljust(size, b"\0"), np.uint8)

    def close(self) -> None:
        pass
