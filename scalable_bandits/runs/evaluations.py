"""Several evaluations at a time: as soon as one returns, the next point is asked for, with the others pending.

Every evaluation has a ticket, so that five pulls of one arm are five measurements. States of a ticket:

    proposed -> running -> done
                        -> lost (its worker died) -> running
                        -> failed -> running (a retry)
                        -> failed, final (its point is no longer pending)

A second result for a ticket is ignored.
"""

from __future__ import annotations

import math
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.execution.base import Event, Execution
from scalable_bandits.policies import Policy
from scalable_bandits.policies.measurements import LARGEST

if TYPE_CHECKING:
    from scalable_bandits.store.tickets import Change, TicketLog

SLOT_CHECK_SECONDS = 2.0  # between two checks for new slots of the executor while no evaluation ends
MOST_FAILURES = 2  # final failures of a point in succession before it is excluded


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
    started
        Time at which the last call began; None if it is unknown.
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
    started: float | None = None

    def become(self, state: str, **fields: Any) -> None:
        """Change the state and other fields."""
        self.state, self.changed = state, time.time()
        self.started = self.changed if state == "running" else self.started
        for name, value in fields.items():
            setattr(self, name, value)


def tickets_of(changes: Iterable[Change]) -> dict[int, Ticket]:
    """Return the tickets, by number, after the changes of a log."""
    found: dict[int, Ticket] = {}
    for change in changes:
        ticket = found.setdefault(change.number, Ticket(change.number, -1, proposed=change.time))
        ticket.become(**change.fields)
        ticket.changed = change.time
        ticket.started = change.time if ticket.state == "running" else ticket.started
    return found


def parse_value(result: Any, x: Any) -> float:
    """Convert a function's result at x to a number that can be told.

    Raises
    ------
    ValueError
        If the result is not a number, not finite, or too large.
    """
    y = float(result) if isinstance(result, bool | np.bool_) else checks.to_float(result)  # success is 1
    if not isinstance(y, float):
        checks.refuse("function", f"{result!r} at {x}", "a function that returns a number")
    if not math.isfinite(y) or abs(y) > LARGEST:
        checks.refuse("function", f"{y} at {x}", f"a function that returns finite numbers, up to {LARGEST:.0e} in size")
    return y


def evaluate(function: Callable[[Any], Any], x: Any, number: int) -> float:
    """Return the value of a function at x; a note with evaluation and x is added to any exception.

    Parameters
    ----------
    function
        Function from a point (d,), or an arm number, to a number, in units of y.
    x
        Point (d,) or arm number.
    number
        Number of the evaluation, from 1, for the note.
    """
    try:
        return parse_value(function(x), x)
    except Exception as error:
        error.add_note(f"(evaluation {number}, at x = {x})")
        raise


def trace_of(error: BaseException) -> str | None:
    """Return the traceback of an exception from the user's function on; None if `evaluate` did not raise it."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code is not evaluate.__code__:
        frames = frames.tb_next
    if frames is None:
        return None
    inner = frames.tb_next
    if inner is not None and inner.tb_frame.f_code is parse_value.__code__:  # the function returned an invalid value
        inner = None
    return "".join(traceback.format_exception(type(error), error, inner))


class EvaluationPlan(NamedTuple):
    """Limits of an `EvaluationLoop`."""

    budget: int  # number of evaluations that end (values and final failures), those of earlier processes included
    told: int = 0  # number of values told by earlier processes
    parallel: int | None = None  # number of evaluations in flight; None for the executor's slots, which may change
    retries: int = 1  # number of times that a failed evaluation is tried again
    seconds: float | None = None  # time after which no evaluation begins; None for no limit


class EvaluationLoop:
    """Loop that keeps evaluations in flight until the budget or the time is used up.

    Parameters
    ----------
    policy
        Policy that chooses the points. Its pending points of earlier processes are evaluated first.
    executor
        Executor that calls the function.
    name
        Name of the function, for the names of tasks.
    plan
        Limits of the loop.
    log
        Log of the tickets in the run's store, if there is one.
    on_value
        Function that is called with a point and its value after the policy was told.
    advance
        Function that is called with 1 when an evaluation has ended, for a progress bar.

    Attributes
    ----------
    tickets : dict
        Tickets by number, those of earlier processes included.
    trace : str
        Traceback of the last failure.
    """

    def __init__(
        self, policy: Policy, executor: Execution, name: str, plan: EvaluationPlan, *, log: TicketLog | None = None,
        on_value: Callable[[Any, float], None] = lambda x, y: None, advance: Callable[[int], None] = lambda count: None,
    ):  # fmt: skip
        self._policy, self._executor, self._name, self._plan = policy, executor, name, plan
        self._deadline = math.inf if plan.seconds is None else time.monotonic() + plan.seconds
        self._log, self._on_value, self._advance = log, on_value, advance
        self.tickets = {} if log is None else tickets_of(log.changes)
        self._next_number = max(self.tickets, default=-1) + 1  # numbers may be missing after a recovery
        self.trace = ""
        self._in_flight: dict[str, Ticket] = {}  # by the key of the present task
        self._interrupted: dict[int, deque[Ticket]] = {}  # tickets of earlier processes to be run again, by candidate
        self._ended = plan.told + sum(t.state == "failed" and t.final for t in self.tickets.values())
        self._final_failures: Counter[int] = Counter()  # by candidate, since its last success
        self._resume_tickets()
        self._advance(self._ended - plan.told)

    def _resume_tickets(self) -> None:
        """Classify the tickets of earlier processes: those of pending points run again, all others have a value."""
        pending = Counter(self._policy.pending_points.numbers)
        for ticket in sorted(self.tickets.values(), key=lambda t: t.number):
            candidate = ticket.candidate
            if ticket.final:
                before = self._final_failures[candidate]
                self._final_failures[candidate] = before + 1 if ticket.state == "failed" else 0
            elif pending[candidate]:
                pending[candidate] -= 1
                self._interrupted.setdefault(candidate, deque()).append(ticket)
                if ticket.state == "running":  # when its process ended
                    self._change(ticket, "lost")
            else:
                self._change(ticket, "done", final=True, started=None)

    def run(self) -> None:
        """Evaluate until the budget or the time is used up and nothing is in flight."""
        while True:
            self._fill()
            if not self._in_flight:
                return
            for event in self._executor.events(SLOT_CHECK_SECONDS if self._plan.parallel is None else None):
                ticket = self._in_flight.get(event.key)
                if ticket is not None:
                    self._handle(ticket, event)

    def _fill(self) -> None:
        """Start evaluations until the limit of those in flight, the budget or the deadline is reached."""
        most = self._executor.slots if self._plan.parallel is None else self._plan.parallel
        while len(self._in_flight) < min(most, self._plan.budget - self._ended) and not self._out_of_time():
            self._start(self._propose())

    def _out_of_time(self) -> bool:
        return time.monotonic() >= self._deadline

    def _propose(self) -> Ticket:
        """Ask the policy for a point, and return its interrupted ticket or a new one."""
        excluded = [c for c, failures in self._final_failures.items() if failures >= MOST_FAILURES]
        domain = self._policy.domain
        if domain.whole_box:  # points of an earlier process may be lost
            self._policy.pending_points.exclude(
                [c for c in excluded if c < domain.size and np.isfinite(domain.points([c])).all()]
            )
            x = self._policy.ask()
        else:
            available = None
            if excluded:
                available = np.setdiff1d(
                    np.arange(domain.size), np.concatenate([domain.finite.equal_to(c) for c in excluded])
                )
                if not len(available):
                    raise RuntimeError(f"function: it fails at every point of the space\n{self.trace}")
            x = self._policy.ask(available=available)
        candidate = int(self._policy.domain.find(self._policy.space.parse(x)[0])[0])
        if self._interrupted.get(candidate):
            return self._interrupted[candidate].popleft()
        ticket = Ticket(self._next_number, candidate)
        self._next_number += 1
        self.tickets[ticket.number] = ticket
        self._change(ticket, "proposed")
        return ticket

    def _start(self, ticket: Ticket) -> None:
        key = f"evaluate {self._name}-{ticket.number}-{ticket.failures}"
        self._in_flight[key] = ticket
        self._executor.submit(key, self._policy.domain.value(ticket.candidate))

    def _handle(self, ticket: Ticket, event: Event) -> None:
        """Update a ticket by an event of its task."""
        if event.kind == "started":
            self._change(ticket, "running", where=event.where, starts=ticket.starts + 1)
        elif event.kind == "lost":
            self._change(ticket, "lost")
        elif event.kind == "failed":
            self._fail(ticket, event)
        else:
            x = self._policy.domain.value(ticket.candidate)
            try:
                y = parse_value(event.value, x)
            except ValueError as error:
                self._fail(ticket, event._replace(error=str(error), trace=f"{error}\n"))
                return
            self._policy.tell(x, y)
            del self._in_flight[event.key]
            self._final_failures[ticket.candidate] = 0
            self._change(ticket, "done", final=True)
            self._on_value(x, y)
            self._end()

    def _fail(self, ticket: Ticket, event: Event) -> None:
        """Retry a failed evaluation, or abandon its point."""
        del self._in_flight[event.key]
        self.trace = event.trace
        final = event.final or ticket.failures >= self._plan.retries
        self._change(ticket, "failed", failures=ticket.failures + 1, error=event.error, final=final)
        if final:
            self._policy.abandon(self._policy.domain.value(ticket.candidate))
            self._final_failures[ticket.candidate] += 1
            self._end()
        elif not self._out_of_time():
            self._start(ticket)

    def _end(self) -> None:
        """Count an evaluation that has ended."""
        self._ended += 1
        self._advance(1)

    def _change(self, ticket: Ticket, state: str, **fields: Any) -> None:
        """Change a ticket, also in the log."""
        ticket.become(state, **fields)
        if self._log is not None:
            first = {"candidate": ticket.candidate} if state == "proposed" else {}
            self._log.write(ticket.number, state=state, **first, **fields)
