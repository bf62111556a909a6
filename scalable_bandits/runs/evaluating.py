"""Evaluations in flight, one or several at a time: as soon as one ends, the next point is asked for.

An evaluation that raises, takes too long, or returns no finite number has failed: it is tried again as often as the
plan says, and then the policy is told the failure. A second result for a ticket is ignored.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from scalable_bandits.execution.base import Event, Execution
from scalable_bandits.policies.pending import AllFailed
from scalable_bandits.runs.evaluations import Evaluations
from scalable_bandits.runs.interrupts import Interrupts
from scalable_bandits.runs.values import NotANumber, parse_value
from scalable_bandits.tickets import Ticket

SLOT_CHECK_SECONDS = 2.0  # between two checks for new slots of the executor while no evaluation ends
POLL_SECONDS = 0.2  # longest wait for an event: after it Ctrl-C is noticed
MOST_FIRST_FAILURES = 10  # failures before any value after which a run ends
TRACE_CHARACTERS = 4000  # number of last characters of an error's traceback that are told with a failure


class EvaluationPlan(NamedTuple):
    """Limits of evaluations."""

    budget: int  # number of evaluations that end (values and final failures), those of earlier processes included
    parallel: int | None = None  # number of evaluations in flight; None for the executor's slots, which may change
    retries: int = 0  # number of times that a failed evaluation is tried again
    seconds: float | None = None  # time after which no evaluation begins; None for no limit
    timeout: float | None = None  # longest duration of a call, in seconds; None for no limit


class Evaluating:
    """Evaluations as they end, an iterable, which keeps others in flight until budget or time is used up.

    Parameters
    ----------
    evaluations
        Evaluations of the policy. Those of earlier processes that have not ended come first.
    executor
        Executor that calls the function.
    name
        Name of the function, for the names of tasks.
    plan
        Limits.
    interrupts
        Handler of Ctrl-C, which waits until a policy has learned a value. If not given, Ctrl-C is not handled.

    Attributes
    ----------
    ended : int
        Number of evaluations that have ended, those of earlier processes included.
    trace : str
        Traceback of the last failure.
    stopped : bool
        Whether no evaluation begins any more; may be set.
    """

    def __init__(
        self, evaluations: Evaluations, executor: Execution, name: str, plan: EvaluationPlan,
        interrupts: Interrupts | None = None,
    ):  # fmt: skip
        self._evaluations, self._policy = evaluations, evaluations.policy
        self._executor, self._name, self._plan = executor, name, plan
        self._deadline = math.inf if plan.seconds is None else time.monotonic() + plan.seconds
        self._shield = (Interrupts() if interrupts is None else interrupts).shield
        self.trace = ""
        self.stopped = False
        self._in_flight: dict[str, int] = {}  # number of the ticket by the key of the present task
        self._due: dict[str, float] = {}  # times at which running calls have taken too long, by key
        self._began: dict[str, float] = {}  # times at which running calls began, by key
        before = [ticket for ticket in evaluations.ended() if ticket.call != 0]
        self.ended, self._failed_before = len(before), sum(ticket.gone for ticket in before)
        for ticket in list(evaluations.tickets.values()):
            if ticket.state == "running":  # when its process ended
                evaluations.change(ticket.number, "lost")

    def __iter__(self) -> Generator[Ticket]:
        while True:
            with self._shield():
                self._fill()
            if not self._in_flight:
                return
            events = self._events()
            try:
                for event in events:
                    with self._shield():
                        ended = self._handle(event)
                    if ended is not None:
                        yield ended
            except (KeyboardInterrupt, GeneratorExit):
                for event in events:  # what has ended counts
                    self._handle(event)
                raise

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
        """Ask the policy for a point, and return its ticket."""
        try:
            x = self._policy.ask()
        except AllFailed as error:
            raise RuntimeError(f"function: it fails at every point of the space\n{self.trace}") from error
        candidate = int(self._policy.domain.find(self._policy.space.parse(x)[0])[0])
        return self._evaluations.waiting(candidate, self._in_flight.values())

    def _start(self, ticket: Ticket) -> None:
        key = f"evaluate {self._name}-{ticket.number}-{ticket.failures}"
        self._in_flight[key] = ticket.number
        self._executor.submit(key, self._policy.domain.value(ticket.candidate))

    def _handle(self, event: Event) -> Ticket | None:
        """Update a ticket by an event of its task; return it if its evaluation has ended for good."""
        if event.key not in self._in_flight:
            return None
        number = self._in_flight[event.key]
        ticket = self._evaluations.tickets[number]
        if event.kind == "started":
            self._evaluations.change(number, "running", where=event.where, starts=ticket.starts + 1)
            if event.time is not None:
                self._began[event.key] = event.time
            if self._plan.timeout is not None and self._executor.ends_calls:
                self._due[event.key] = time.monotonic() + self._plan.timeout
            return None
        self._due.pop(event.key, None)
        if event.kind == "lost":
            self._evaluations.change(number, "lost")
            return None
        if event.kind == "failed":
            return self._fail(ticket, event)
        try:
            y = parse_value(event.value)
        except ValueError as error:
            if isinstance(error, NotANumber) and not self.ended:  # not a failure, but a mistake in the function
                raise
            return self._fail(ticket, event._replace(error=str(error), trace=f"{error}\n"))
        with self._evaluations.ending(number, seconds=self._seconds(event)):
            self._policy.tell(self._policy.domain.value(ticket.candidate), y)
        del self._in_flight[event.key]
        self.ended += 1
        return self._evaluations.tickets[number]

    def _fail(self, ticket: Ticket, event: Event) -> Ticket | None:
        """Try a failed evaluation again, or tell the policy the failure."""
        self.trace = event.trace
        fields = {"error": event.error, "failures": ticket.failures + 1, "seconds": self._seconds(event)}
        if not event.final and ticket.failures < self._plan.retries:
            del self._in_flight[event.key]
            again = self._evaluations.change(ticket.number, "asked", **fields)
            if self._may_begin():
                self._start(again)
            return None
        x = self._policy.domain.value(ticket.candidate)
        with self._evaluations.ending(ticket.number, **fields):
            self._policy.tell_failure(x, event.trace.strip()[-TRACE_CHARACTERS:] or event.error)
        del self._in_flight[event.key]
        self.ended += 1
        if not self._policy.rounds and self.ended - self._failed_before >= MOST_FIRST_FAILURES:
            text = f"function: the first {MOST_FIRST_FAILURES} evaluations failed; the last one, at {x}"
            raise RuntimeError(f"{text}:\n{self.trace}")
        return self._evaluations.tickets[ticket.number]

    def _seconds(self, event: Event) -> float | None:
        """Return the duration of a call that has ended; None if it is unknown."""
        began = self._began.pop(event.key, None)
        return None if began is None or event.time is None else round(max(event.time - began, 0.0), 6)
