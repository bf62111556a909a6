"""Scan of a run's files except its arrays: the commit record, the frames of its logs, and what is damaged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs

from scalable_bandits.store import digests, frames
from scalable_bandits.store.frames import Contents, Gap, Kind
from scalable_bandits.store.locations import Location
from scalable_bandits.store.record import DIGESTS, ROUNDS, TICKETS, CommitRecord, Extent, decode_counter

NOTHING = Contents([], 0, 0, 0)


class Scan(NamedTuple):
    """Content and damage of a run's files except its arrays."""

    record: CommitRecord  # rebuilt from the logs if it is damaged
    logs: Mapping[str, Contents]  # contents of the logs by name
    least: Mapping[str, Extent]  # lower bound of the extent of each log
    problems: list[str]  # damage, each beginning with the name of the file
    notes: list[str]  # leftovers of a killed process, which opening for writing repairs

    def file(self, location: Location, name: str) -> str:
        """Return the name of a log's file."""
        return f"{location.log_folder}/{self.record.file(name)}"


def read_record(location: Location, run: str) -> tuple[CommitRecord | None, str]:
    """Return the commit record, or None and what is wrong with it."""
    try:
        plain = location.read_record()
    except ValueError as error:
        return None, f"the commit record is not JSON ({error})"
    if plain is None:
        return None, "the commit record is missing"
    try:
        record = CommitRecord.from_plain(plain)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return None, f"the commit record is damaged ({error})"
    if record.run != run:
        return None, "the commit record is another run's"
    named, existing = record.file(ROUNDS), location.journals()
    later = [file for file in existing if _is_later(file, record)]
    if named not in existing and later:
        return None, f"the commit record is an earlier one: it names {named}, and there is {later[-1]}"
    unnamed = [file for file in existing if TICKETS not in record.logs and file.rpartition("-")[0] == TICKETS]
    for file in unnamed:  # the record names a log before its second frame is written
        seed = frames.seed_of(run, TICKETS, int(file.rpartition("-")[2]))
        if frames.parse(location.journal(file).read() or b"", seed).frames > 1:
            return None, f"the commit record is an earlier one: it does not name {file}"
    return record, ""


def _is_later(file: str, record: CommitRecord) -> bool:
    """Whether a file is a journal of a later generation than the commit record names."""
    name, _, number = file.rpartition("-")
    return name == ROUNDS and number.isdecimal() and int(number) > record.logs[ROUNDS].generation


def scan(location: Location, attributes: Mapping[str, Any]) -> Scan:
    """Read the commit record and the logs of a run.

    Parameters
    ----------
    location
        Location of the run.
    attributes
        Attributes of the run.
    """
    run = attributes["id"]
    problems, notes = [], []
    record, why = read_record(location, run)
    trusted = record is not None
    if record is None:
        problems.append(f"{location.record_file}: {why}")
        record = CommitRecord(run, logs=_newest(location))
    counted = decode_counter(run, location.acknowledged()) or {}
    logs, least = {}, {}
    for name, extent in record.logs.items():
        least[name] = _furthest(extent, counted.get(name))
        file = f"{location.log_folder}/{record.file(name)}"
        data = location.journal(record.file(name)).read()
        contents = NOTHING if data is None else frames.parse(data, frames.seed_of(run, name, extent.generation))
        logs[name] = contents
        wrong = _missing(record, name, data, contents)
        if name == DIGESTS and (wrong or lost_frames(contents, extent)):  # the chunks can replace it
            notes.append(f"{file} is damaged ({wrong or 'some of its frames are invalid'})")
        elif wrong:
            problems.append(f"{file}: {wrong}")
        elif contents.torn:
            notes.append(f"{file} ends in a torn tail of {contents.torn} bytes")
    if trusted and _has_later_chunks(record, logs[DIGESTS], attributes["chunk"]):
        text = "the commit record is an earlier one: there are digests of later chunks"
        problems.append(f"{location.record_file}: {text}")
        trusted = False
    if not trusted:
        record = _rebuilt(record, logs[DIGESTS], attributes)
    return Scan(record, logs, least, problems, notes)


def _has_later_chunks(record: CommitRecord, contents: Contents, chunk: int) -> bool:
    """Whether chunks were committed after this commit record was written.

    The digests of the next chunks are written before the record that commits them. Digests of later chunks prove that a
    later record existed.
    """
    return any(f.kind == Kind.DIGESTS and f.first > record.rounds // chunk for f in contents.valid())


def _rebuilt(record: CommitRecord, contents: Contents, attributes: Mapping[str, Any]) -> CommitRecord:
    """Rebuild a lost commit record from the digests of the chunks."""
    fields = len(attributes["fields"])
    known = [f.first + len(f.payload) // (4 * fields) for f in contents.valid() if f.kind == Kind.DIGESTS]
    chunks = max(known, default=0)
    table = digests.decode(contents, fields, chunks)
    return attrs.evolve(record, rounds=chunks * attributes["chunk"], chain=0 if table is None else digests.chain(table))


def _newest(location: Location) -> dict[str, Extent]:
    """Return the latest existing generation of every log."""
    found: dict[str, Extent] = {ROUNDS: Extent(1), DIGESTS: Extent(1)}
    for file in location.journals():
        name, _, number = file.rpartition("-")
        if name in (ROUNDS, TICKETS, DIGESTS) and number.isdecimal():
            found[name] = max(found.get(name, Extent(0)), Extent(int(number)))
    return found


def _furthest(recorded: Extent, counted: Extent | None) -> Extent:
    """Return the larger of two lower bounds of the extent of a log's generation."""
    same = counted is not None and counted.generation == recorded.generation
    return max(recorded, counted) if same and counted is not None else recorded


def _missing(record: CommitRecord, name: str, data: bytes | None, contents: Contents) -> str:
    """Return why a log has no frame of this run; empty if it has one."""
    if data is None:
        return "it is missing"
    if not data:
        return "it is empty"
    if not contents.frames:
        return f"it has no frame of this run's {name}, generation {record.logs[name].generation}"
    return ""


def lost_frames(contents: Contents, least: Extent) -> list[Gap]:
    """Return the gaps of a log, including frames missing at its end."""
    gaps = contents.gaps()
    if contents.frames < least.frames and not (gaps and gaps[-1].frames is None):
        gaps.append(Gap(least.frames - contents.frames, contents.good, contents.good + contents.torn))
    return gaps
