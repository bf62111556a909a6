"""Frames: the entries of a run's logs, each with its number and checksums, so that damage is found and read past.

A frame is a head (mark, number, length of the body, checksum of the body, checksum of the head), a body (kind, first,
time, payload) and an end mark. The checksums start from one of the log's identity (run, name and generation): a frame
of another log is invalid here. After a damaged frame the next valid one is searched by its mark.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

_MARK = b"\xf5sb\n"
_END = b"\x17"  # not zero: bytes that were never written read as zeros
_HEAD = struct.Struct("<4sQIII")  # mark, number, length of the body, CRC-32 of the body, CRC-32 of what precedes
_CHECKED = struct.Struct("<4sQII")  # the head without the last
_BODY = struct.Struct("<BQd")  # kind, first, time


class Kind(IntEnum):
    """What a frame says."""

    START = 1  # the log begins; in the log of rounds the payload is as of PENDING
    ROWS = 2  # rows from number `first` on
    PENDING = 3  # candidates (int64) asked and not told; `first` rows had been told
    CLOSED = 4  # closed in order; payload as of PENDING
    TICKET = 5  # in the log of tickets: a change of ticket `first`; payload JSON
    DIGESTS = 6  # in the log of digests: CRC-32 (uint32) of each field's chunks, from chunk `first` on


class Frame(NamedTuple):
    """One entry."""

    number: int  # from 0
    kind: Kind
    first: int  # rounds before it; of a ticket its number, of digests the number of the chunk
    time: float  # seconds since 1970
    payload: bytes


class Gap(NamedTuple):
    """Bytes that are no valid frame."""

    frames: int | None  # how many are missing; None if unknown (at the end)
    start: int  # first byte
    stop: int  # byte after the last one


class Contents(NamedTuple):
    """What the bytes of a log hold."""

    items: list[Frame | Gap]  # in the order of the bytes
    frames: int  # number of the last valid frame, plus one
    good: int  # bytes up to the end of the last valid frame
    torn: int  # bytes after that of a frame whose writing was cut short

    def valid(self) -> Iterator[Frame]:
        """The valid frames."""
        return (item for item in self.items if isinstance(item, Frame))

    def gaps(self) -> list[Gap]:
        """The damaged stretches, but for garbage between two frames that follow each other."""
        return [item for item in self.items if isinstance(item, Gap) and item.frames != 0]


def seed_of(run: str, name: str, generation: int) -> int:
    """Checksum that those of a log's frames start from."""
    return zlib.crc32(f"{run} {name} {generation}".encode())


def encode(seed: int, number: int, kind: Kind, first: int, payload: bytes, when: float | None = None) -> bytes:
    """Bytes of a frame; with the present time, if no other is given."""
    body = _BODY.pack(kind, first, time.time() if when is None else when) + payload
    head = _CHECKED.pack(_MARK, number, len(body), zlib.crc32(body, seed))
    return head + zlib.crc32(head, seed).to_bytes(4, "little") + body + _END


def parse(data: bytes, seed: int) -> Contents:
    """Find every valid frame of a log.

    Parameters
    ----------
    data
        All bytes of the log.
    seed
        `seed_of` the log.
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
    """First valid frame from `offset` on whose number is at least `number`, with its first byte and the one after."""
    start = offset
    while start >= 0:
        found = _frame_at(data, start, seed)
        if found is not None and found[1].number >= number:
            return start, *found
        start = data.find(_MARK, start + 1)
    return None


def _head_at(data: bytes, offset: int, seed: int) -> tuple[int, int, int] | None:
    """Number, length of the body and its checksum, if a valid head starts here."""
    if data[offset : offset + len(_MARK)] != _MARK or offset + _HEAD.size > len(data):
        return None
    _, number, length, body, head = _HEAD.unpack_from(data, offset)
    if zlib.crc32(memoryview(data)[offset : offset + _CHECKED.size], seed) != head:
        return None
    return number, length, body


def _frame_at(data: bytes, offset: int, seed: int) -> tuple[int, Frame] | None:
    """Byte after the frame that starts here, and the frame, if it is valid."""
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
    """Whether bytes (without the zeros at their end) are the beginning of frame `number`, and not all of it."""
    if len(rest) < _HEAD.size:
        mark = _MARK[: len(rest)]
        return rest[: len(mark)] == mark
    head = _head_at(rest, 0, seed)
    return head is not None and head[0] == number and len(rest) < _HEAD.size + head[1] + len(_END)
