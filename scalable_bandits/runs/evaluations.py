"""Evaluations in flight: several at a time, the next one asked for as soon as any returns, the others pending.

Every evaluation has a ticket: five pulls of one arm are five tickets, five measurements. What becomes of a ticket:

    proposed -> running -> done
                        -> lost (its worker died; it runs again)
                        -> failed -> running (tried again)
                                  -> failed for good: its point is pending no longer

An answer to a ticket that has its answer changes nothing.
"""

from __future__ import annotations

import math
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.execution.base import Event, Execution
from scalable_bandits.policies import Policy
from scalable_bandits.policies.measurements import LARGEST

if TYPE_CHECKING:
    from scalable_bandits.store.tickets import Change, TicketLog

ROOM_SECONDS = 2.0  # between two looks at whether there is room for more evaluations, where none comes to its end
LEAVE = 2  # evaluations of a point that fail for good, one after the other, before the point is left out


@attrs.define
class Ticket:
    """One evaluation.

    Attributes
    ----------
    number
        From 0, in the order in which the points were asked for.
    candidate
        Number of the policy's candidate that is evaluated.
    state
        "proposed", "running", "done", "failed" or "lost".
    final
        Whether this is its last state; otherwise the evaluation is tried (again).
    starts
        How often the function was called.
    failures
        How often it failed.
    where
        Worker that it ran on last.
    error
        Of the last failure, in one line.
    proposed, changed
        When it was asked for, and when its state changed last; seconds since 1970.
    """

    number: int
    candidate: int
    state: str = "proposed"
    final: bool = False
    starts: int = 0
    failures: int = 0
    where: str = ""
    error: str = ""
    proposed: float = attrs.field(factory=time.time)
    changed: float = attrs.field(factory=time.time)

    def become(self, state: str, **fields: Any) -> None:
        """Change the state, and other fields with it."""
        self.state, self.changed = state, time.time()
        for name, value in fields.items():
            setattr(self, name, value)


def tickets_of(changes: Iterable[Change]) -> dict[int, Ticket]:
    """Tickets as their journal leaves them."""
    found: dict[int, Ticket] = {}
    for change in changes:
        ticket = found.setdefault(change.number, Ticket(change.number, -1, proposed=change.time))
        ticket.become(**change.fields)
        ticket.changed = change.time
    return found


def parse_value(result: Any, x: Any) -> float:
    """What a function returned at x, as a number that can be told.

    Raises
    ------
    ValueError
        If it is none.
    """
    y = float(result) if isinstance(result, bool | np.bool_) else checks.to_float(result)  # success counts 1
    if not isinstance(y, float):
        checks.refuse("function", f"{result!r} at {x}", "a function that returns a number")
    if not math.isfinite(y) or abs(y) > LARGEST:
        checks.refuse("function", f"{y} at {x}", f"a function that returns finite numbers, up to {LARGEST:.0e} in size")
    return y


def evaluate(function: Callable[[Any], Any], x: Any, number: int) -> float:
    """Value of a function at x, as a number that can be told; what it raises goes on, with a note where it was raised.

    Parameters
    ----------
    function
        From a point (d,), or an arm number, to a number, in units of y.
    x
        Where.
    number
        Of the evaluation, from 1: for the note.
    """
    try:
        return parse_value(function(x), x)
    except Exception as error:
        error.add_note(f"(evaluation {number}, at x = {x})")
        raise


def trace_of(error: BaseException) -> str | None:
    """Traceback of what `evaluate` let through, from the user's function on; None of any other exception."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code is not evaluate.__code__:
        frames = frames.tb_next
    if frames is None:
        return None
    inner = frames.tb_next
    if inner is not None and inner.tb_frame.f_code is parse_value.__code__:  # it returned, but no number
        inner = None
    return "".join(traceback.format_exception(type(error), error, inner))


class Flight:
    """Keeps evaluations in flight until a policy has had its budget.

    Parameters
    ----------
    policy
        Asked, told, and pending what is in flight. Points that it owes from an earlier process come first.
    execution
        Calls the function.
    name
        Of the function, for the tasks' names.
    budget
        Evaluations that come to an end, be it by failing for good; earlier ones included.
    told
        How many were told by earlier processes.
    parallel
        How many in flight; as many as the execution has slots, which may change, if not given.
    retries
        How often a failed one is tried again.
    seconds
        No evaluation begins after so long; those that run are waited for.
    log
        Where the tickets are kept.
    keep
        Called with every point and its value, when the policy has been told.
    """

    def __init__(
        self, policy: Policy, execution: Execution, name: str, *, budget: int, told: int = 0,
        parallel: int | None = None, retries: int = 1, seconds: float | None = None, log: TicketLog | None = None,
        keep: Callable[[Any, float], None] = lambda x, y: None, advance: Callable[[int], None] = lambda count: None,
    ):  # fmt: skip
        self._policy, self._execution, self._name = policy, execution, name
        self._budget, self._parallel, self._retries = budget, parallel, retries
        self._stop = math.inf if seconds is None else time.monotonic() + seconds
        self._log, self._keep, self._advance = log, keep, advance
        self.tickets = {} if log is None else tickets_of(log.changes)
        self.trace = ""  # of the last failure
        self._open: dict[str, Ticket] = {}  # by the key of its present task
        self._held: dict[int, deque[Ticket]] = {}  # of an earlier process, by candidate: to be begun again
        self._ended = told + sum(t.state == "failed" and t.final for t in self.tickets.values())
        self._in_a_row: Counter[int] = Counter()  # failures for good by candidate, since its last success
        self._take_up()

    def _take_up(self) -> None:
        """Sort out the tickets of earlier processes: those whose point is pending go on, the others were told."""
        waiting = Counter(int(self._policy.finite_space.index(x)[0]) for x in self._policy.pending)
        for ticket in sorted(self.tickets.values(), key=lambda t: t.number):
            if ticket.final:
                self._in_a_row[ticket.candidate] = (ticket.state == "failed") * (self._in_a_row[ticket.candidate] + 1)
            elif waiting[ticket.candidate]:
                waiting[ticket.candidate] -= 1
                self._held.setdefault(ticket.candidate, deque()).append(ticket)
                if ticket.state == "running":  # with the process that waited for it
                    self._change(ticket, "lost")
            else:
                self._change(ticket, "done", final=True)

    def run(self) -> None:
        """Play until the budget or the time is used up and nothing is in flight."""
        while True:
            self._fill()
            if not self._open:
                return
            for event in self._execution.events(ROOM_SECONDS if self._parallel is None else None):
                ticket = self._open.get(event.key)
                if ticket is not None:
                    self._take(ticket, event)

    def _fill(self) -> None:
        """Begin evaluations until as many are in flight as may be."""
        most = self._execution.slots if self._parallel is None else self._parallel
        while len(self._open) < most and self._ended + len(self._open) < self._budget and not self._late():
            self._begin(self._propose())

    def _late(self) -> bool:
        return time.monotonic() >= self._stop

    def _propose(self) -> Ticket:
        bad = [c for c, failures in self._in_a_row.items() if failures >= LEAVE]
        space = self._policy.finite_space
        if self._policy.domain.whole_box:  # of an earlier process the points may be known no more
            self._policy.pending_points.exclude(
                [c for c in bad if c < space.size and np.isfinite(space.points([c])).all()]
            )
            x = self._policy.ask()
        else:
            left_out = np.concatenate([space.equal_to(c) for c in bad]) if bad else None
            available = None if left_out is None else np.setdiff1d(np.arange(space.size), left_out)
            if available is not None and not len(available):
                raise RuntimeError(f"function: it fails at every point of the space\n{self.trace}")
            x = self._policy.ask(available=available)
        candidate = int(self._policy.finite_space.index(x)[0])
        if self._held.get(candidate):
            return self._held[candidate].popleft()
        ticket = Ticket(len(self.tickets), candidate)
        self.tickets[ticket.number] = ticket
        self._change(ticket, "proposed")
        return ticket

    def _begin(self, ticket: Ticket) -> None:
        key = f"evaluate {self._name}-{ticket.number}-{ticket.failures}"
        self._open[key] = ticket
        self._execution.submit(key, self._policy.finite_space.value(ticket.candidate))

    def _take(self, ticket: Ticket, event: Event) -> None:
        """What became of a ticket."""
        if event.kind == "started":
            self._change(ticket, "running", where=event.where, starts=ticket.starts + 1)
        elif event.kind == "lost":
            self._change(ticket, "lost")
        elif event.kind == "failed":
            self._fail(ticket, event)
        else:
            x = self._policy.finite_space.value(ticket.candidate)
            try:
                y = parse_value(event.value, x)
            except ValueError as error:
                self._fail(ticket, event._replace(error=str(error), trace=f"{error}\n"))
                return
            self._policy.tell(x, y)
            del self._open[event.key]
            self._in_a_row[ticket.candidate] = 0
            self._change(ticket, "done", final=True)
            self._keep(x, y)
            self._end()

    def _fail(self, ticket: Ticket, event: Event) -> None:
        del self._open[event.key]
        self.trace = event.trace
        final = event.final or ticket.failures >= self._retries
        self._change(ticket, "failed", failures=ticket.failures + 1, error=event.error, final=final)
        if final:
            self._policy.abandon(self._policy.finite_space.value(ticket.candidate))
            self._in_a_row[ticket.candidate] += 1
            self._end()
        elif not self._late():
            self._begin(ticket)

    def _end(self) -> None:
        self._ended += 1
        self._advance(1)

    def _change(self, ticket: Ticket, state: str, **fields: Any) -> None:
        ticket.become(state, **fields)
        if self._log is not None:
            first = {"candidate": ticket.candidate} if state == "proposed" else {}
            self._log.write(ticket.number, state=state, **first, **fields)
