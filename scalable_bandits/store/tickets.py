"""The life of every evaluation of a run, in a log beside that of the rounds: one frame a change.

A frame is durable when it is written. The rounds are the truth about values: a ticket whose value was told is done,
whatever its last frame says.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from scalable_bandits.store.errors import store_errors
from scalable_bandits.store.frames import Kind
from scalable_bandits.store.log import Entry
from scalable_bandits.store.reader import StoredRun
from scalable_bandits.store.record import TICKETS
from scalable_bandits.store.writer import RunWriter


class Change(NamedTuple):
    """Something that happened to a ticket."""

    number: int
    time: float  # seconds since 1970
    fields: dict[str, Any]  # state, candidate, attempts, ...


class TicketLog:
    """The log of a run that is open for writing.

    Parameters
    ----------
    store
        The run.
    """

    def __init__(self, store: RunWriter):
        self._store = store
        self.changes = read_tickets(store)

    def write(self, number: int, **fields: Any) -> None:
        """Keep a change; it is on disk when this returns."""
        with store_errors(self._store.location.name, "writing what became of an evaluation"):
            self._store.write_frame(TICKETS, Entry(Kind.TICKET, number, json.dumps(fields).encode()))


def read_tickets(run: StoredRun) -> list[Change]:
    """What happened to the evaluations of a run, in order, as of its last `refresh`; none if it has no tickets."""
    return [Change(f.first, f.time, json.loads(f.payload)) for f in run.tickets()]
