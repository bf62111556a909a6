"""Log of the evaluations of a run (tickets): one frame for each change of a ticket.

A frame is durable once it is written. The rounds are authoritative: a ticket whose value is in a round is done,
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
    """Change of a ticket."""

    number: int  # number of the ticket
    time: float  # seconds since 1970
    fields: dict[str, Any]  # state, candidate, starts, failures, where, error, final


class TicketLog:
    """Log of tickets of a run that is open for writing.

    Parameters
    ----------
    store
        Run that is open for writing.
    """

    def __init__(self, store: RunWriter):
        self._store = store
        self.changes = read_tickets(store)

    def write(self, number: int, **fields: Any) -> None:
        """Record a change of ticket `number`; it is on disk when this returns."""
        with store_errors(self._store.location.name, "writing the state of an evaluation"):
            self._store.write_frame(TICKETS, Entry(Kind.TICKET, number, json.dumps(fields).encode()))


def read_tickets(run: StoredRun) -> list[Change]:
    """Return the changes of a run's tickets in order, as of its last `refresh`."""
    return [Change(f.first, f.time, json.loads(f.payload)) for f in run.tickets()]
