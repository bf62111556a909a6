"""The life of every evaluation of a run, in a journal beside that of the rounds: one frame a change.

A frame is durable when it is written. The rounds are the truth about values: a ticket whose value was told is done,
whatever its last frame says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from scalable_bandits.store import journal as journals
from scalable_bandits.store.errors import named
from scalable_bandits.store.journal import ArrayJournal, Journal, Kind
from scalable_bandits.store.stored import StoredRun
from scalable_bandits.store.writer import RunWriter

TICKETS = "tickets"  # name of the journal


class Change(NamedTuple):
    """Something that happened to a ticket."""

    number: int
    time: float  # seconds since 1970
    fields: dict[str, Any]  # state, candidate, attempts, ...


class TicketLog:
    """The journal of a run that is open for writing.

    Parameters
    ----------
    store
        Of the run; its lock keeps other writers out of this journal too.
    """

    def __init__(self, store: RunWriter):
        self._store = store
        self._generation = -1
        self._journal: Journal | None = None
        data = self._open().read()
        good = max((stop for _, stop in journals.parse(data)), default=0)
        if good < len(data):
            self._open().cut(good)
        self.changes = list(_changes(data))

    def _open(self) -> Journal:
        """The journal, opened again where the location works in transactions."""
        location = self._store.location
        if self._journal is None or self._generation != location.generation:
            earlier = self._journal if isinstance(self._journal, ArrayJournal) else None
            self._journal = location.journal(location.group("r+"), earlier, TICKETS)
            self._generation = location.generation
        return self._journal

    def write(self, number: int, **fields: Any) -> None:
        """Keep a change; it is on disk when this returns."""
        with named(self._store.location.name, "writing what became of an evaluation"):
            self._open().append(journals.encode(Kind.TICKET, number, json.dumps(fields).encode()))
            self._store.location.settle()

    def close(self) -> None:
        """Let go of the journal."""
        if self._journal is not None:
            self._journal.close()


def read_tickets(run: StoredRun) -> list[Change]:
    """What happened to the evaluations of a run, in order; none if it has no tickets."""
    journal = run.location.journal(run.location.group(), name=TICKETS)
    return list(_changes(journal.read()))


def _changes(data: bytes) -> Iterator[Change]:
    for frame, _ in journals.parse(data):
        yield Change(frame.first, frame.time, json.loads(frame.payload))
