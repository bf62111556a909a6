"""Tickets: one for each evaluation, so that five pulls of one arm are five measurements.

States of a ticket:

    asked -> running -> done
                     -> measured (of a batch, whose values are told together) -> done
                     -> lost (its worker died, or this process) -> running
                     -> asked (it failed, and is tried again)
                     -> failed (its point is excluded)
          -> abandoned
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple, Self

OPEN = ("asked", "running", "lost", "measured")  # states of evaluations that have not ended
BULK = 1_000  # values told at once that get no tickets in a recording: their rounds go to the arrays


class Ticket(NamedTuple):
    """Evaluation of the function at one point; in a store one row of the table ``evaluations``.

    Attributes
    ----------
    number
        Position, from 0, in the order in which the points were asked for or, of others, told.
    state
        "asked", "running", "lost", "measured"; or for good "done", "failed", "abandoned".
    candidate
        Number of the evaluated candidate.
    x
        Coordinates (d,) of its point, of an arm its number; empty where only the policy knows them.
    y
        Value, in units of y; None before it is told.
    noise
        Standard deviation of the measurement's noise, in units of y; None if it is the policy's.
    round
        Round in which the value was told; of a failure the number of rounds before it.
    call
        Number of the `tell`, with a minus if the point was not asked for; 0 for observations from before the run.
    ended
        Position, from 1, among the evaluations that have ended.
    starts
        Number of calls of the function.
    failures
        Number of calls that failed.
    where
        Worker of the last call.
    error, trace
        Error of the last failure in one line, and the end of its traceback.
    result
        What the evaluation gave besides its value, as plain data: of searches the list of the folds' scores and times,
        of several outputs a dict with the values of the others as "outputs", and of searches with constraints the list
        as "folds".
    setting
        Values by parameter, of a space with names, as text.
    asked, changed
        Times of the proposal and of the last change of state, in seconds since 1970.
    seconds
        Duration of the last call that ended; None if it is unknown.
    """

    number: int
    candidate: int
    state: str = "asked"
    setting: str = ""
    y: float | None = None
    noise: float | None = None
    round: int | None = None
    x: tuple[float, ...] = ()
    error: str = ""
    trace: str = ""
    starts: int = 0
    failures: int = 0
    where: str = ""
    asked: float = 0.0
    changed: float = 0.0
    seconds: float | None = None
    ended: int | None = None
    call: int | None = None
    result: Any = None

    def become(self, state: str, **fields: Any) -> Self:
        """Return the ticket in another state, now, with other fields changed too."""
        return self._replace(state=state, changed=time.time(), **fields)

    @property
    def final(self) -> bool:
        """Whether the state is the last one; otherwise the evaluation will run (again)."""
        return self.state not in OPEN

    @property
    def gone(self) -> bool:
        """Whether the evaluation failed for good."""
        return self.state == "failed"
