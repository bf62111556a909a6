"""Evaluations of a run, one or several at a time: as soon as one ends, the next point is asked for.

An evaluation that raises, takes too long, or returns no finite number has failed: it is tried again as often as the
plan says, and then the policy is told the failure. A second result for a ticket is ignored.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scalable_bandits.execution.base import Event, Execution
from scalable_bandits.policies import Policy
from scalable_bandits.policies.pending import AllFailed
from scalable_bandits.runs.interrupts import Interrupts
from scalable_bandits.runs.tickets import Ticket as Ticket
from scalable_bandits.runs.tickets import tickets_of as tickets_of
from scalable_bandits.runs.values import NotANumber, parse_value

if TYPE_CHECKING:
    from scalable_bandits.store.failures import Failure
    from scalable_bandits.store.tickets import TicketLog

SLOT_CHECK_SECONDS = 2.0  # between two checks for new slots of the executor while no evaluation ends
POLL_SECONDS = 0.2  # longest wait for an event: after it Ctrl-C is noticed
MOST_FIRST_FAILURES = 10  # failures before any value after which a run ends
TRACE_CHARACTERS = 4000  # of the end of an error's traceback that are told with a failure


class EvaluationPlan(NamedTuple):
    """Limits of an `EvaluationLoop`."""

    budget: int  # number of evaluations that end (values and final failures), those of earlier processes included
    told: int = 0  # number of values told by earlier processes
    known: int = 0  # number of values from before the run, which are not part of the budget
    parallel: int | None = None  # number of evaluations in flight; None for the executor's slots, which may change
    retries: int = 0  # number of times that a failed evaluation is tried again
    seconds: float | None = None  # time after which no evaluation begins; None for no limit
    timeout: float | None = None  # longest duration of a call, in seconds; None for no limit


class Stored(NamedTuple):
    """What a store has of the evaluations of a run."""

    log: TicketLog
    failures: Sequence[Failure] = ()
    observed: Sequence[int] | None = None  # candidates (n,) of the values; None: every ticket has its value


class Ended(NamedTuple):
    """Evaluation that has ended for good."""

    x: Any  # point (d,), arm number, or dict
    y: float | None  # value, in units of y; None if it failed
    error: str = ""  # error of a failed one, in one line


class EvaluationLoop:
    """Loop that keeps evaluations in flight until the budget or the time is used up, or it is stopped.

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
    stored
        What the run's store has of evaluations, if there is one.
    on_end
        Function that takes note of an evaluation that has ended, after the policy was told. Ctrl-C waits for it.
    after_end
        Function that is called without arguments after that.
    interrupts
        Handler of Ctrl-C. If not given, Ctrl-C is not handled.

    Attributes
    ----------
    tickets : dict
        Tickets by number, those of earlier processes included.
    ended : int
        Number of evaluations that have ended, those of earlier processes included.
    trace : str
        Traceback of the last failure.
    stopped : bool
        Whether no evaluation begins any more.
    """

    def __init__(
        self, policy: Policy, executor: Execution, name: str, plan: EvaluationPlan, *, stored: Stored | None = None,
        on_end: Callable[[Ended], None] = lambda ended: None, after_end: Callable[[], None] = lambda: None,
        interrupts: Interrupts | None = None,
    ):  # fmt: skip
        self._policy, self._executor, self._name, self._plan = policy, executor, name, plan
        self._deadline = math.inf if plan.seconds is None else time.monotonic() + plan.seconds
        self._log, self._on_end, self._after_end = None if stored is None else stored.log, on_end, after_end
        self._shield = (Interrupts() if interrupts is None else interrupts).shield
        self.tickets = {} if stored is None else tickets_of(stored.log.changes)
        self._next_number = max(self.tickets, default=-1) + 1  # numbers may be missing after a recovery
        self.trace = ""
        self.stopped = False
        self._in_flight: dict[str, Ticket] = {}  # by the key of the present task
        self._began: dict[str, float] = {}  # times at which running calls began, by key
        self._due: dict[str, float] = {}  # times at which running calls have taken too long, by key
        self._interrupted: dict[int, deque[Ticket]] = {}  # tickets of earlier processes to be run again, by candidate
        self._values = plan.told + plan.known  # number of values, earlier ones included
        if stored is not None:
            self._resume_tickets(stored.failures, None if stored.observed is None else Counter(stored.observed))
        self._failed_before = sum(ticket.gone for ticket in self.tickets.values())
        self.ended = plan.told + self._failed_before

    def _resume_tickets(self, failures: Sequence[Failure], values: Counter[int] | None) -> None:
        """Classify the tickets of earlier processes: those of pending points, and of lost values, run again."""
        pending = Counter(self._policy.pending_points.numbers)
        told: dict[int, deque[Failure]] = {}  # failures whose ticket is not final, since the process died
        for failure in failures:
            told.setdefault(failure.candidate, deque()).append(failure)
        tickets = sorted(self.tickets.values(), key=lambda ticket: ticket.number)
        for ticket in tickets:
            if ticket.gone and told.get(ticket.candidate):
                told[ticket.candidate].popleft()
            elif ticket.gone:
                self._exclude(ticket.candidate)
        for ticket in tickets:
            candidate = ticket.candidate
            if ticket.gone:
                continue
            if not ticket.final and pending[candidate]:
                pending[candidate] -= 1
                self._run_again(ticket)
            elif not ticket.final and told.get(candidate):
                error = told[candidate].popleft().error.strip().rpartition("\n")[2]
                self._change(ticket, "failed", final=True, error=error)
            elif values is not None and not values[candidate]:  # of the last second, with durability "block"
                self._run_again(ticket)
            else:
                if values is not None:
                    values[candidate] -= 1
                if not ticket.final:
                    self._change(ticket, "done", final=True)

    def _run_again(self, ticket: Ticket) -> None:
        """Keep a ticket for when its point is asked for again."""
        self._interrupted.setdefault(ticket.candidate, deque()).append(ticket)
        if ticket.state in ("running", "done"):  # when its process ended
            self._change(ticket, "lost", final=False)

    def _exclude(self, candidate: int) -> None:
        """Exclude a point whose failure is in the log of tickets alone: damage to the journal lost it there."""
        domain = self._policy.domain
        if candidate < domain.size and np.isfinite(domain.points([candidate])).all():  # of a box it may be lost
            self._policy.learn_failure(candidate)

    def run(self) -> None:
        """Evaluate until no evaluation may begin and none is in flight."""
        while True:
            with self._shield():
                self._fill()
            if not self._in_flight:
                return
            events = self._events()
            try:
                for event in events:
                    with self._shield():
                        ended = self._take(event)
                    if ended:
                        self._after_end()
            except KeyboardInterrupt:
                for event in events:  # they are here already
                    self._take(event)
                raise

    def _take(self, event: Event) -> bool:
        """Handle an event, and return whether an evaluation has ended by it."""
        ended = self._handle(event)
        if ended is not None:
            self._on_end(ended)
        return ended is not None

    @property
    def out_of_time(self) -> bool:
        """Whether the time is used up."""
        return time.monotonic() >= self._deadline

    def _events(self) -> Iterator[Event]:
        """Return the events since the last call; wait for one, but not much longer than a call may take."""
        if self._executor.in_turn:
            return iter(self._executor.events())  # calls the function, which Ctrl-C interrupts
        limit = SLOT_CHECK_SECONDS if self._plan.parallel is None else math.inf
        began, found = time.monotonic(), list[Event]()
        while not found and time.monotonic() < began + limit:
            with self._shield():
                found = self._executor.events(POLL_SECONDS)
                found += self._overdue(found)
        return iter(found)

    def _overdue(self, found: Sequence[Event]) -> list[Event]:
        """End the calls that have taken too long and did not end just now, and return their failures."""
        here = {event.key for event in found}
        late = [key for key, due in self._due.items() if time.monotonic() >= due and key not in here]
        for key in late:
            del self._due[key]
            self._executor.end(key)
        text = f"TimeoutError: it took longer than {self._plan.timeout:g} s" if late else ""
        return [Event("failed", key, error=text, trace=text) for key in late]

    def _fill(self) -> None:
        """Start evaluations until the limit of those in flight, the budget or the deadline is reached."""
        most = self._executor.slots if self._plan.parallel is None else self._plan.parallel
        while len(self._in_flight) < min(most, self._plan.budget - self.ended) and self._may_begin():
            self._start(self._propose())

    def _may_begin(self) -> bool:
        return not self.stopped and not self.out_of_time

    def _propose(self) -> Ticket:
        """Ask the policy for a point, and return its interrupted ticket or a new one."""
        try:
            x = self._policy.ask()
        except AllFailed as error:
            raise RuntimeError(f"function: it fails at every point of the space\n{self.trace}") from error
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

    def _handle(self, event: Event) -> Ended | None:
        """Update a ticket by an event of its task; return the evaluation if it has ended for good."""
        ticket = self._in_flight.get(event.key)
        if ticket is None:
            return None
        if event.kind == "started":
            self._change(ticket, "running", where=event.where, starts=ticket.starts + 1)
            if event.time is not None:
                self._began[event.key] = event.time
            if self._plan.timeout is not None and self._executor.ends_calls:
                self._due[event.key] = time.monotonic() + self._plan.timeout
            return None
        self._due.pop(event.key, None)
        if event.kind == "lost":
            self._change(ticket, "lost")
            return None
        if event.kind == "failed":
            return self._fail(ticket, event)
        x = self._policy.domain.value(ticket.candidate)
        try:
            y = parse_value(event.value)
        except ValueError as error:
            if isinstance(error, NotANumber) and not self.ended:  # not a failure, but a mistake in the function
                raise
            return self._fail(ticket, event._replace(error=str(error), trace=f"{error}\n"))
        self._policy.tell(x, y)
        del self._in_flight[event.key]
        self._change(ticket, "done", final=True, seconds=self._seconds(event))
        self.ended += 1
        self._values += 1
        return Ended(x, y)

    def _fail(self, ticket: Ticket, event: Event) -> Ended | None:
        """Try a failed evaluation again, or tell the policy the failure."""
        del self._in_flight[event.key]
        self.trace = event.trace
        final = event.final or ticket.failures >= self._plan.retries
        x = self._policy.domain.value(ticket.candidate)
        if final:
            self._policy.tell_failure(x, event.trace.strip()[-TRACE_CHARACTERS:] or event.error)
        fields = {"error": event.error, "final": final, "seconds": self._seconds(event)}
        self._change(ticket, "failed", failures=ticket.failures + 1, **fields)
        if not final:
            if self._may_begin():
                self._start(ticket)
            return None
        self.ended += 1
        if not self._values and self.ended - self._failed_before >= MOST_FIRST_FAILURES:
            text = f"function: the first {MOST_FIRST_FAILURES} evaluations failed; the last one, at {x}"
            raise RuntimeError(f"{text}:\n{self.trace}")
        return Ended(x, None, event.error)

    def _seconds(self, event: Event) -> float | None:
        """Return the duration of the call that ended with an event; None if it is unknown."""
        began = self._began.pop(event.key, None)
        return None if began is None or event.time is None else round(max(event.time - began, 0.0), 6)

    def _change(self, ticket: Ticket, state: str, **fields: Any) -> None:
        """Change a ticket, also in the log."""
        ticket.become(state, **fields)
        if self._log is not None:
            first = {"candidate": ticket.candidate} if state == "proposed" else {}
            self._log.write(ticket.number, state=state, **first, **fields)
