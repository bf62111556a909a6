"""Reading of runs of schema 1 (version 0.1.0).

Schema 1 has one journal, whose frames have neither a number nor the name of the run, a number of committed rounds, and
no digests.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from scalable_bandits.store.errors import StoreDamaged
from scalable_bandits.store.frames import Contents, Frame, Kind
from scalable_bandits.store.layout import ROUND, count_document, field_document, fields_of
from scalable_bandits.store.locations import COMMITTED, JOURNAL_1, Location
from scalable_bandits.store.record import ROUNDS, TICKETS, CommitRecord, Extent
from scalable_bandits.store.rows import Rows
from scalable_bandits.store.scan import Scan

_HEAD_1 = struct.Struct("<II")  # length of the body, CRC-32 of the body
_BODY_1 = struct.Struct("<BQd")  # kind, first, time


def scan_schema_1(location: Location, attributes: Mapping[str, Any]) -> Scan:
    """Scan the files of a run of schema 1."""
    rounds = _count(location, attributes)
    data = location.read_schema_1(JOURNAL_1)
    in_chunks, width = rounds // attributes["chunk"] * attributes["chunk"], Rows(fields_of(attributes)).width
    contents = _in_order(data, in_chunks, width)
    file = f"{location.log_folder}/{JOURNAL_1}"
    notes = [f"{file} ends in a torn tail of {contents.torn} bytes"] if contents.torn else []
    record = CommitRecord("", rounds=rounds)
    tickets = [frame for frame, _ in _frames(location.read_schema_1(TICKETS))]
    logs = {ROUNDS: contents, TICKETS: Contents(list(tickets), len(tickets), 0, 0)}
    return Scan(record, logs, dict.fromkeys(logs, Extent(0)), [], notes)


def _in_order(data: bytes, in_chunks: int, width: int) -> Contents:
    """Return the frames of a journal of schema 1, up to the first that does not continue the one before.

    `in_chunks` is the number of rounds in whole chunks, `width` the number of bytes of a row.
    """
    items: list[Any] = []
    good = seen = 0
    for frame, stop in _frames(data):
        if frame.kind == Kind.START:
            if items:
                break
            seen = frame.first
        elif frame.first > max(seen, in_chunks) or (frame.kind == Kind.ROWS and frame.first < seen):
            break
        if frame.kind == Kind.ROWS:
            seen = frame.first + len(frame.payload) // width
        items.append(frame)
        good = stop
    torn = 0 if not data[good:].strip(b"\0") else len(data) - good
    return Contents(items, len(items), good, torn)


def _frames(data: bytes) -> Iterator[tuple[Frame, int]]:
    """Iterate over the frames up to the first torn one, each with the offset of its end."""
    offset = number = 0
    while offset + _HEAD_1.size + _BODY_1.size <= len(data):
        length, checksum = _HEAD_1.unpack_from(data, offset)
        start, stop = offset + _HEAD_1.size, offset + _HEAD_1.size + length
        if length < _BODY_1.size or stop > len(data) or zlib.crc32(memoryview(data)[start:stop]) != checksum:
            return
        kind, first, when = _BODY_1.unpack_from(data, start)
        yield Frame(number, Kind(kind), first, when, data[start + _BODY_1.size : stop]), stop
        offset, number = stop, number + 1


def _count(location: Location, attributes: Mapping[str, Any]) -> int:
    """Return the number of committed rounds, from the chunks of the arrays if it cannot be read."""
    try:
        return int(np.asarray(location.column(COMMITTED, count_document(attributes), strict=True)[()]))
    except Exception:  # it is missing, or a codec raises an error of any class
        pass
    chunk, separator = attributes["chunk"], location.separator
    try:
        counts = []
        for field in (ROUND, *fields_of(attributes)):
            keys = (key for key in location.keys(f"{field.name}/") if key.startswith(f"{field.name}/c"))
            counts.append(sum(1 for _ in keys))
        chunks = min(counts)
        document = field_document(ROUND, chunk, chunks * chunk, separator)
        last = np.asarray(location.column(ROUND.name, document, strict=True)[max(chunks - 1, 0) * chunk :])
    except Exception as error:
        text = f"store {location.name}: neither its count nor its arrays can be read ({error})"
        raise StoreDamaged(text) from error
    return max(chunks - 1, 0) * chunk + int((last > 0).sum())
