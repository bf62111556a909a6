"""Tickets: one for each evaluation, so that five pulls of one arm are five measurements.

States of a ticket:

    proposed -> running -> done
                        -> lost (its worker died, or this process) -> running
                        -> failed -> running (a retry)
                        -> failed, final (its point is excluded)
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from scalable_bandits.store.tickets import Change


@attrs.define
class Ticket:
    """Evaluation of the function at one point.

    Attributes
    ----------
    number
        Position, from 0, in the order in which the points were asked for.
    candidate
        Number of the evaluated candidate.
    state
        "proposed", "running", "done", "failed" or "lost".
    final
        Whether the state is the last one; otherwise the evaluation will run (again).
    starts
        Number of calls of the function.
    failures
        Number of calls that failed.
    where
        Worker of the last call.
    error
        Error of the last failure, in one line.
    result
        What the evaluation gave besides its value, as plain data; of searches the scores and times of the folds.
    proposed, changed
        Times of the proposal and of the last change of state, in seconds since 1970.
    seconds
        Duration of the last call that ended; None if it is unknown.
    """

    number: int
    candidate: int
    state: str = "proposed"
    final: bool = False
    starts: int = 0
    failures: int = 0
    where: str = ""
    error: str = ""
    result: Any = None
    proposed: float = attrs.field(factory=time.time)
    changed: float = attrs.field(factory=time.time)
    seconds: float | None = None

    def become(self, state: str, **fields: Any) -> None:
        """Change the state and other fields."""
        self.state, self.changed = state, time.time()
        for name, value in fields.items():
            setattr(self, name, value)

    @property
    def gone(self) -> bool:
        """Whether the evaluation failed for good."""
        return self.final and self.state == "failed"


def tickets_of(changes: Iterable[Change]) -> dict[int, Ticket]:
    """Return the tickets, by number, after the changes of a log."""
    found: dict[int, Ticket] = {}
    for change in changes:
        ticket = found.setdefault(change.number, Ticket(change.number, -1, proposed=change.time))
        ticket.become(**change.fields)
        ticket.changed = change.time
    return found
