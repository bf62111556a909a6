"""Runs written by earlier versions: read as they are, and brought to this schema in place before the first write.

Schema 1 (0.1.0) had one journal, whose frames had no number and no name of the run, a count, and no digests.
Schema 0 (0.1.0 before it had stores) was the dataset of a finished simulation, written by xarray: its specification
names the environment's type, noise and seed only, so that what is left out is not compared.
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scalable_bandits.store import checkpoints, digests
from scalable_bandits.store import pending as pendings
from scalable_bandits.store.errors import StoreDamaged
from scalable_bandits.store.frames import Contents, Frame, Kind
from scalable_bandits.store.layout import (
    CHUNK,
    ROUND,
    SCHEMA,
    count_document,
    describe_fields,
    field_document,
    fields_of,
    group_document,
    sign_attributes,
)
from scalable_bandits.store.locations import COMMITTED, JOURNAL_1, Location
from scalable_bandits.store.log import Entry, Log
from scalable_bandits.store.record import DIGESTS, ROUNDS, TICKETS, CommitRecord, Extent
from scalable_bandits.store.rows import Columns, Field, Rows
from scalable_bandits.store.scan import Scan

if TYPE_CHECKING:
    from scalable_bandits.store.stored import StoredRun

_SCHEMA_0 = ("y", "value", "regret", "cumulative_regret", "width", "information_gain")
_HEAD_1 = struct.Struct("<II")  # length of what follows, its CRC-32
_BODY_1 = struct.Struct("<BQd")  # kind, first, time


# ---- schema 1


def scan_earlier(location: Location, attributes: Mapping[str, Any]) -> Scan:
    """What is in the files of a run of schema 1."""
    rounds = _count(location, attributes)
    data = location.read_earlier(JOURNAL_1)
    folded, width = rounds // attributes["chunk"] * attributes["chunk"], Rows(fields_of(attributes)).width
    contents = _in_order(data, folded, width)
    file = f"{location.inside}/{JOURNAL_1}"
    notes = [f"{file} ends in a torn tail of {contents.torn} bytes"] if contents.torn else []
    record = CommitRecord("", rounds=rounds)
    tickets = [frame for frame, _ in _frames(location.read_earlier(TICKETS))]
    logs = {ROUNDS: contents, TICKETS: Contents(list(tickets), len(tickets), 0, 0)}
    return Scan(record, logs, dict.fromkeys(logs, Extent(0)), [], notes)


def _in_order(data: bytes, folded: int, width: int) -> Contents:
    """Frames of a journal of schema 1, whose rows have `width` bytes, up to the first that does not follow on."""
    items: list[Any] = []
    good = seen = 0
    for frame, stop in _frames(data):
        if frame.kind == Kind.START:
            if items:
                break
            seen = frame.first
        elif frame.first > max(seen, folded) or (frame.kind == Kind.ROWS and frame.first < seen):
            break
        if frame.kind == Kind.ROWS:
            seen = frame.first + len(frame.payload) // width
        items.append(frame)
        good = stop
    torn = 0 if not data[good:].strip(b"\0") else len(data) - good
    return Contents(items, len(items), good, torn)


def _frames(data: bytes) -> Iterator[tuple[Frame, int]]:
    """Frames of schema 1 up to the first torn one, each with the number of bytes up to its end."""
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
    """Committed rounds of a run of schema 1; by the chunks of its arrays, if the count cannot be read."""
    try:
        return int(np.asarray(location.column(COMMITTED, count_document(attributes), complete=True)[()]))
    except Exception:  # it is gone, or a codec raises what it likes
        pass
    chunk, separator = attributes["chunk"], location.separator
    try:
        counts = []
        for field in (ROUND, *fields_of(attributes)):
            keys = (key for key in location.keys(f"{field.name}/") if key.startswith(f"{field.name}/c"))
            counts.append(sum(1 for _ in keys))
        chunks = min(counts)
        document = field_document(ROUND, chunk, chunks * chunk, separator)
        last = np.asarray(location.column(ROUND.name, document, complete=True)[max(chunks - 1, 0) * chunk :])
    except Exception as error:
        text = f"store {location.name}: neither its count nor its arrays can be read ({error})"
        raise StoreDamaged(text) from error
    return max(chunks - 1, 0) * chunk + int((last > 0).sum())


def upgrade(run: StoredRun) -> dict[str, Any]:
    """Bring a run of schema 1 to this one, in place; its attributes.

    The files of this schema are written beside those of the earlier one; then the attributes say which count.

    Parameters
    ----------
    run
        The run, just read.

    Raises
    ------
    StoreDamaged
        If a chunk cannot be read.
    """
    location, name = run.location, uuid.uuid4().hex[:16]
    attributes = sign_attributes({**run.attributes, "schema": SCHEMA, "id": name})
    table = run.compute_digests()
    folded, rows = len(table) * run.chunk, run.rows()
    pending = pendings.encode(run.pending, run.proposals, run.dimension)
    entries = [
        Entry(Kind.START, folded, pending),
        Entry(Kind.ROWS, folded, rows.encode(rows.view())),
        Entry(Kind.PENDING, len(run), pending),
    ]
    if run.orderly:
        entries.append(Entry(Kind.CLOSED, len(run), pending))
    logs = {
        ROUNDS: entries,
        DIGESTS: [Entry(Kind.START, 0, b""), Entry(Kind.DIGESTS, 0, digests.encode(table))],
    }
    if run.tickets():
        logs[TICKETS] = [Entry(Kind.START, 0, b""), *(Entry(f.kind, f.first, f.payload, f.time) for f in run.tickets())]
    checkpoints.remove(location)  # they have no digests
    extents = {}
    for log_name, made in logs.items():
        log = Log(location, name, log_name, Extent(1))
        log.create(made)
        extents[log_name] = Extent(1, log.frames, len(run) if log_name == ROUNDS else 0)
    published = run.published() if len(run) > folded else None
    committed = folded if published is None else folded + len(next(iter(published.values())))
    tail = () if published is None else tuple(map(digests.digest, published.values()))
    record = CommitRecord(name, attributes["digest"], committed, digests.chain(table), tail, extents)
    location.write_record(record.to_plain())
    location.put_document(COMMITTED, count_document(attributes))
    location.put_document("", group_document(attributes))
    location.settle()
    remove_earlier(location)
    return attributes


def remove_earlier(location: Location) -> None:
    """Remove what only schema 1 has."""
    for name in (JOURNAL_1, TICKETS):
        location.remove_earlier(name)
    location.settle()


# ---- schema 0


class Earlier(NamedTuple):
    """A run of schema 0, in this one's terms."""

    attributes: dict[str, Any]
    columns: Columns


def read_earlier(location: Location) -> Earlier | None:
    """Run of schema 0, whole; None if there is none here.

    Raises
    ------
    StoreDamaged
        If there is one and it cannot be read.
    """
    try:
        group: Any = location.group()
        if not isinstance(group.attrs.get("specification"), str) or COMMITTED in group:
            return None
        if any(name not in group for name in ("candidate", "x", *_SCHEMA_0)):
            return None
    except Exception:  # nothing there, or nothing of ours
        return None
    try:
        specification = json.loads(group.attrs["specification"])
        columns: Columns = {name: np.asarray(group[name][...]) for name in ("candidate", "x", *_SCHEMA_0)}
    except Exception as error:
        raise StoreDamaged(f"store {location.name}: a run of schema 0 that cannot be read ({error})") from error
    x = columns["x"]
    point = Field("x", "int64") if x.ndim == 1 else Field("x", shape=x.shape[1:], dimensions=("dimension",))
    fields = (Field("candidate", "int64"), point, *(Field(name) for name in _SCHEMA_0))
    attributes = {
        "kind": "simulate", "schema": SCHEMA, "upgraded_from": 0, "chunk": CHUNK, "fields": describe_fields(fields),
        "planned": specification.pop("horizon"), "specification": specification,
    }  # fmt: skip
    return Earlier(attributes, columns)
