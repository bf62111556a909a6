"""Runs of earlier versions: reading them, and upgrading them in place before the first write.

`schema_1.py` reads schema 1 (version 0.1.0). Schema 0 (development versions before 0.1.0) was the dataset of a finished
simulation, written by xarray. Its specification has only the type, noise and seed of the environment; the rest is not
compared.
"""

from __future__ import annotations

import json
import uuid
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits.store import checkpoints, digests
from scalable_bandits.store import pending as pendings
from scalable_bandits.store.errors import StoreDamaged
from scalable_bandits.store.frames import Kind
from scalable_bandits.store.layout import (
    CHUNK,
    SCHEMA,
    count_document,
    describe_fields,
    group_document,
    sign_attributes,
)
from scalable_bandits.store.locations import COMMITTED, JOURNAL_1, Location
from scalable_bandits.store.log import Entry, Log
from scalable_bandits.store.reader import StoredRun
from scalable_bandits.store.record import DIGESTS, ROUNDS, TICKETS, CommitRecord, Extent
from scalable_bandits.store.rows import Columns, Field

_SCHEMA_0 = ("y", "value", "regret", "cumulative_regret", "width", "information_gain")


# ---- schema 1


def upgrade(run: StoredRun) -> dict[str, Any]:
    """Upgrade a run of schema 1 in place; return its new attributes.

    The files of this schema are written beside those of schema 1; replacing the attributes is the last step.

    Parameters
    ----------
    run
        Run of schema 1, just read.

    Raises
    ------
    StoreDamaged
        If a chunk cannot be read.
    """
    location, name = run.location, uuid.uuid4().hex[:16]
    attributes = sign_attributes({**run.attributes, "schema": SCHEMA, "id": name})
    table = run.chunks.compute_digests()
    in_chunks, rows = len(table) * run.chunk, run.rows()
    pending = pendings.encode(run.pending, run.proposals, run.dimension)
    entries = [
        Entry(Kind.START, in_chunks, pending),
        Entry(Kind.ROWS, in_chunks, rows.encode(rows.view())),
        Entry(Kind.PENDING, len(run), pending),
    ]
    if run.orderly:
        entries.append(Entry(Kind.CLOSED, len(run), pending))
    logs = {
        ROUNDS: entries,
        DIGESTS: [Entry(Kind.START, 0, b""), Entry(Kind.DIGESTS, 0, digests.encode(table))],
    }
    if run.tickets():
        logs[TICKETS] = [Entry(Kind.START, 0, b""), *map(Entry.of, run.tickets())]
    checkpoints.remove(location)  # they have no digests
    extents = {}
    for log_name, made in logs.items():
        log = Log(location, name, log_name, Extent(1))
        log.create(made)
        extents[log_name] = log.extent(len(run))
    published = run.chunks.published() if len(run) > in_chunks else None
    committed = in_chunks if published is None else in_chunks + len(next(iter(published.values())))
    tail = () if published is None else tuple(map(digests.digest, published.values()))
    record = CommitRecord(name, attributes["digest"], committed, digests.chain(table), tail, extents)
    location.write_record(record.to_plain())
    location.put_document(COMMITTED, count_document(attributes))
    location.put_document("", group_document(attributes))
    location.commit_transaction()
    remove_schema_1_files(location)
    return attributes


def remove_schema_1_files(location: Location) -> None:
    """Remove the files that only schema 1 has."""
    for name in (JOURNAL_1, TICKETS):
        location.remove_schema_1(name)
    location.commit_transaction()


# ---- schema 0


class Schema0Run(NamedTuple):
    """Run of schema 0, with the attributes of the current schema."""

    attributes: dict[str, Any]
    columns: Columns


def read_schema_0(location: Location) -> Schema0Run | None:
    """Read a run of schema 0; None if there is none.

    Raises
    ------
    StoreDamaged
        If it cannot be read.
    """
    try:
        group: Any = location.group()
        if not isinstance(group.attrs.get("specification"), str) or COMMITTED in group:
            return None
        if any(name not in group for name in ("candidate", "x", *_SCHEMA_0)):
            return None
    except Exception:  # nothing there, or not a run
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
    return Schema0Run(attributes, columns)
