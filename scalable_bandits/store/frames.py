"""Frames: the numbered entries of a run's logs, with checksums, so that damage is found and the rest stays readable.

A frame is a head (mark, number, length of the body, checksum of the body, checksum of the head), a body (kind, first,
time, payload) and an end mark. The checksums start from a seed made of the log's run, name and generation, so that a
frame of another log is invalid. After a damaged frame the reader searches for the mark of the next valid one.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

_MARK = b"\xf5sb\n"
_END = b"\x17"  # not zero, because bytes that were never written read as zeros
_HEAD = struct.Struct("<4sQIII")  # mark, number, length of the body, CRC-32 of the body, CRC-32 of the fields before
_CHECKED = struct.Struct("<4sQII")  # the head without its own checksum
_BODY = struct.Struct("<BQd")  # kind, first, time


class Kind(IntEnum):
    """Kind of a frame."""

    START = 1  # start of the log; in the log of rounds with the payload of PENDING
    ROWS = 2  # rows; `first` rounds come before them
    PENDING = 3  # numbers (int64) of the pending candidates after `first` rounds
    CLOSED = 4  # orderly close; with the payload of PENDING
    TICKET = 5  # in the log of tickets: a change of ticket number `first`, as JSON
    DIGESTS = 6  # in the log of digests: CRC-32 (uint32) of each field, from chunk number `first` on
    FAILURE = 7  # a failure of an evaluation after `first` rounds (`failures.py`)


class Frame(NamedTuple):
    """One entry of a log."""

    number: int  # counted from 0
    kind: Kind
    first: int  # number of rounds before it, of its ticket, or of its first chunk
    time: float  # seconds since 1970
    payload: bytes


class Gap(NamedTuple):
    """Run of bytes that is not a valid frame."""

    frames: int | None  # number of missing frames; None if unknown (at the end of the log)
    start: int  # offset of the first byte
    stop: int  # offset after the last byte


class Contents(NamedTuple):
    """Frames and gaps found in the bytes of a log."""

    items: list[Frame | Gap]  # in the order of their bytes
    frames: int  # number of the last valid frame, plus one
    good: int  # number of bytes up to the end of the last valid frame
    torn: int  # number of bytes after `good` of a frame whose writing was interrupted

    def valid(self) -> Iterator[Frame]:
        """Iterate over the valid frames."""
        return (item for item in self.items if isinstance(item, Frame))

    def gaps(self) -> list[Gap]:
        """Return the gaps in which frames are missing."""
        return [item for item in self.items if isinstance(item, Gap) and item.frames != 0]


def seed_of(run: str, name: str, generation: int) -> int:
    """Return the seed of the checksums of a log's frames."""
    return zlib.crc32(f"{run} {name} {generation}".encode())


def encode(seed: int, number: int, kind: Kind, first: int, payload: bytes, when: float | None = None) -> bytes:
    """Return the bytes of a frame; `when` defaults to the current time."""
    body = _BODY.pack(kind, first, time.time() if when is None else when) + payload
    head = _CHECKED.pack(_MARK, number, len(body), zlib.crc32(body, seed))
    return head + zlib.crc32(head, seed).to_bytes(4, "little") + body + _END


def parse(data: bytes, seed: int) -> Contents:
    """Find all valid frames of a log.

    Parameters
    ----------
    data
        All bytes of the log.
    seed
        Seed of the log's checksums, from `seed_of`.
    """
    end = len(data.rstrip(b"\0"))
    items: list[Frame | Gap] = []
    number = offset = 0
    while offset < end:
        found = _next_frame(data, offset, seed, number)
        if found is None:
            break
        start, stop, frame = found
        if start > offset or frame.number > number:
            items.append(Gap(frame.number - number, offset, start))
        items.append(frame)
        number, offset = frame.number + 1, stop
    torn = 0
    if offset < len(data):
        if offset == end or _begins_frame(data[offset:end], seed, number):
            torn = len(data) - offset
        else:
            items.append(Gap(None, offset, len(data)))
    return Contents(items, number, offset, torn)


def _next_frame(data: bytes, offset: int, seed: int, number: int) -> tuple[int, int, Frame] | None:
    """Return the start, end and content of the next valid frame from `offset` whose number is at least `number`."""
    start = offset
    while start >= 0:
        found = _frame_at(data, start, seed)
        if found is not None and found[1].number >= number:
            return start, *found
        start = data.find(_MARK, start + 1)
    return None


def _head_at(data: bytes, offset: int, seed: int) -> tuple[int, int, int] | None:
    """Return number, body length and body checksum of a valid head at `offset`; None if there is none."""
    if data[offset : offset + len(_MARK)] != _MARK or offset + _HEAD.size > len(data):
        return None
    _, number, length, body, head = _HEAD.unpack_from(data, offset)
    if zlib.crc32(memoryview(data)[offset : offset + _CHECKED.size], seed) != head:
        return None
    return number, length, body


def _frame_at(data: bytes, offset: int, seed: int) -> tuple[int, Frame] | None:
    """Return end and content of a valid frame at `offset`; None if there is none."""
    head = _head_at(data, offset, seed)
    if head is None:
        return None
    number, length, checksum = head
    start, stop = offset + _HEAD.size, offset + _HEAD.size + length
    if length < _BODY.size or data[stop : stop + 1] != _END:
        return None
    if zlib.crc32(memoryview(data)[start:stop], seed) != checksum:
        return None
    kind, first, when = _BODY.unpack_from(data, start)
    return stop + 1, Frame(number, Kind(kind), first, when, data[start + _BODY.size : stop])


def _begins_frame(rest: bytes, seed: int, number: int) -> bool:
    """Whether bytes (without trailing zeros) are an incomplete beginning of frame `number`."""
    if len(rest) < _HEAD.size:
        mark = _MARK[: len(rest)]
        return rest[: len(mark)] == mark
    head = _head_at(rest, 0, seed)
    return head is not None and head[0] == number and len(rest) < _HEAD.size + head[1] + len(_END)
