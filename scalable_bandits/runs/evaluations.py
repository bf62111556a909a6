"""Evaluations of a policy's points: a ticket for each, from the asking to its end; the loop that keeps some in flight.

As soon as one ends, the next point is asked for. An evaluation that raises, takes too long, or returns no finite number
has failed: it is tried again as often as the plan says, and then the policy is told the failure. A second result for a
ticket is ignored.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter, deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.commands import NO_VALUE, command_of
from scalable_bandits.execution.base import ClusterError, Event, Execution
from scalable_bandits.policies import Policy
from scalable_bandits.policies.measurements import LARGEST
from scalable_bandits.policies.outputs import NotOutputs, Outputs
from scalable_bandits.policies.pending import AllFailed
from scalable_bandits.runs.interrupts import Interrupts
from scalable_bandits.spaces import Indices
from scalable_bandits.spaces.pool import NoCandidateLeft
from scalable_bandits.tickets import BULK, OPEN, Ticket

if TYPE_CHECKING:
    from scalable_bandits.runs.checkpointing import Checkpoints
    from scalable_bandits.store import ObservationStore

SLOT_CHECK_SECONDS = 2.0  # between two checks for new slots of the executor while no evaluation ends
POLL_SECONDS = 0.2  # longest wait for an event: after it Ctrl-C is noticed
MOST_FIRST_FAILURES = 10  # failures before any value after which a run ends
TRACE_CHARACTERS = 4000  # number of last characters of an error's traceback that are told with a failure


def check_fresh(policy: Policy) -> None:
    """Raise ValueError unless a policy was neither asked nor told, and no recording of it is open."""
    checks.kind("policy", policy, Policy, "a policy, such as IGPUCB(space, kernel)")
    pending = len(policy.pending_points)
    if policy.rounds or pending or policy.failures:
        given = f"one that was told {policy.rounds} rounds and has {pending} pending"
        checks.refuse("policy", given, "a fresh one, neither asked nor told; earlier values are for warm_start=")
    check_unrecorded(policy)


def check_unrecorded(policy: Policy) -> None:
    """Raise ValueError if a recording of a policy is open, since it would not record the run."""
    if policy._recorder is not None:
        given = "a policy that an open recording records"
        checks.refuse("policy", given, "a policy without an open recording: close the recording first")


class Evaluations(AbstractContextManager["Evaluations", None]):
    """What was asked of a policy, and what became of it: the policy's recorder while it is open, a context manager.

    Parameters
    ----------
    policy
        Policy whose points are evaluated.
    store
        Store of the run, in which everything is durable before the policy changes; None without one.
    checkpoints
        Checkpoints of the policy in the store.
    calls
        Number of calls of `tell` so far, which the policy has learned from the store.

    Attributes
    ----------
    tickets : dict
        Tickets by number: all of a run that evaluates; of a recording those of evaluations that have not ended.
    open : dict
        Tickets of evaluations that have not ended, in the order of asking.
    earlier : int
        Number of observations from before the run.
    """

    def __init__(
        self,
        policy: Policy,
        store: ObservationStore | None = None,
        checkpoints: Checkpoints | None = None,
        calls: int = 0,
    ):
        self.policy, self.store, self._checkpoints = policy, store, checkpoints
        self.earlier = 0
        self.open: dict[int, Ticket] = {}
        self._all_tickets = store is None or store.kept
        self.tickets: dict[int, Ticket] = {} if self._all_tickets else self.open
        self._given = 0  # number of tickets so far
        self._call = calls + 1  # number of the next `tell`
        self._learning: list[Ticket] = []  # tickets of the `tell` that the policy is learning
        self._learns_since = 0.0
        self._unlearned_failure = False  # whether the store has a failure that the policy was not told
        # Ticket of the next `tell`, and more of its fields.
        self._ending: tuple[int | None, dict[str, Any]] = (None, {})
        if store is not None:
            self._given = store.given
            self._take([store.tickets[number] for number in sorted(store.tickets)])
            self.earlier = sum(ticket.call == 0 for ticket in store.tickets.values())
        policy._record_to(self)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(orderly=kind is None)

    def close(self, orderly: bool = True) -> None:
        """Detach from the policy, which can be used afterwards, unrecorded, and close the store."""
        self.policy._record_to(None)
        if self.store is None or self._checkpoints is None:
            return
        try:
            if self.store.writable and self._has_learned_all(self.store):  # otherwise the state is incomplete
                self._checkpoints.finish()
        finally:
            self.store.close(orderly)

    def flush(self) -> None:
        """Write all observations so far to the store."""
        if self.store is not None:
            self.store.flush()

    def plan(self, rounds: int) -> None:
        """Note the number of rounds that the run will have, observations from before it included."""
        if self.store is not None:
            self.store.plan(max(rounds, len(self.store) + len(self.store.failures)))

    # ---- for the loop that evaluates

    def change(self, number: int, state: str, **fields: Any) -> Ticket:
        """Change the state and other fields of a ticket; return it as it is now."""
        changed = self.tickets[number].become(state, **fields)
        self._save([changed])
        self._take([changed])
        return changed

    @contextmanager
    def ending(self, number: int | None = None, **fields: Any) -> Iterator[None]:
        """Let the next `tell` or `tell_failure` end a ticket, with more of its fields.

        Parameters
        ----------
        number
            Number of the ticket; if not given, the first one of its point, or a new one.
        fields
            Values of attributes of the ticket.
        """
        self._ending = number, fields
        try:
            yield
        finally:
            self._ending = None, {}

    def tell_earlier(self, x: Any, y: Any) -> None:
        """Tell the policy observations from before the run, as call number 0."""
        self._call, self.earlier = 0, len(y)
        self.policy.tell(x, y)

    def ended(self) -> list[Ticket]:
        """Return the tickets of evaluations that have ended, in the order in which they did."""
        found = [ticket for ticket in self.tickets.values() if ticket.ended is not None]
        return sorted(found, key=attrgetter("ended"))

    # ---- for the policy, which calls these before it changes

    def asked(self, pending: Sequence[int]) -> None:
        held = Counter(ticket.candidate for ticket in self.open.values())
        given_up = held - Counter(pending)
        abandoned: list[Ticket] = []
        fresh: list[Ticket] = []
        for ticket in self.open.values():  # of a candidate that is pending twice the first is given up, as in `pending`
            if given_up[ticket.candidate] > 0:
                given_up[ticket.candidate] -= 1
                abandoned.append(ticket.become("abandoned"))
        for candidate in pending:  # and the last is new
            if held[candidate] > 0:
                held[candidate] -= 1
            else:
                fresh.append(self._new(len(fresh), candidate, self.policy.domain.points([candidate])[0]))
        if abandoned or fresh:
            self._save([*abandoned, *fresh])
            self._take([*abandoned, *fresh])

    def tells(
        self, candidates: Indices, points: Floats, values: Floats, noise: Floats | None, beside: Floats | None = None
    ) -> None:  # fmt: skip
        policy, (mine, fields), numbers, y = self.policy, self._ending, candidates.tolist(), values.tolist()
        rounds, ended, now = policy.rounds, policy.rounds + policy.failures, time.time()
        waiting: dict[int, list[Ticket]] = {}
        for ticket in self.open.values():
            waiting.setdefault(ticket.candidate, []).append(ticket)
        calls = np.empty(len(y), dtype=np.int64)  # below 0 of points that were not asked for
        bulk, fresh, tickets = len(y) >= BULK and not self._all_tickets, 0, list[Ticket]()
        for i, candidate in enumerate(numbers):
            asked = waiting[candidate].pop(0) if waiting.get(candidate) else None
            calls[i] = -self._call if asked is None else self._call
            if mine is not None:
                ticket = self.tickets[mine]
            elif asked is not None:
                ticket = asked
            elif bulk:
                continue
            else:
                ticket, fresh = self._new(fresh, candidate, points[i]), fresh + 1
            own = None if noise is None else float(noise[i])
            told = {"y": y[i], "noise": own, "round": rounds + i + 1, "call": int(calls[i]), "ended": ended + i + 1}
            if beside is not None and policy.outputs is not None:
                more = fields.get("result") or {}  # of a search the folds
                told |= {"y": None if y[i] != y[i] else y[i], "result": policy.outputs.recorded(beside[i]) | more}
            tickets.append(ticket._replace(state="done", changed=now, **(fields | told)))
        columns = None
        if bulk:  # not every round has a ticket
            columns = {
                "call": calls, "candidate": candidates,
                "x": points if policy.space.has_coordinates else points[:, 0].astype(np.int64), "y": values,
                "noise": np.full(len(y), np.nan) if noise is None else noise, "time": np.full(len(y), now),
                **({} if beside is None else {"outputs": beside}),
            }  # fmt: skip
        self._save(tickets, columns)
        self._learning = tickets

    def failed(self, candidate: int, point: Floats, error: str) -> None:
        mine, fields = self._ending
        waiting = (ticket for ticket in self.open.values() if ticket.candidate == candidate)
        ticket = (next(waiting, None) or self._new(0, candidate, point)) if mine is None else self.tickets[mine]
        rounds, line = self.policy.rounds, error.strip().rpartition("\n")[2]
        told = {"error": line, "trace": error, "round": rounds, "ended": rounds + self.policy.failures + 1}
        ended = ticket.become("failed", **{**told, **fields})
        self._save([ended])
        self._take([ended])

    def no_values(self, what: str) -> RuntimeError:
        """Return the error of a run whose evaluations failed, all of them, with what a store asks for."""
        command = None if self.store is None else command_of(self.store)
        hint = "" if command is None else "\nAnother command, or another value_from, needs another store"
        return RuntimeError(f"function: {what.rstrip()}{hint}")

    def told(self) -> None:
        self._call += 1
        self._take(self._learning)
        if self._checkpoints is not None:
            self._checkpoints.add_work(time.perf_counter() - self._learns_since)

    def _save(self, changed: Sequence[Ticket], columns: Mapping[str, Any] | None = None) -> None:
        """Make tickets that are new or have changed durable, and columns (k, ...) of rounds of which some have none.

        If this raises, nothing has changed.
        """
        store = self.store
        if store is None:
            return
        if not self._has_learned_all(store):
            from scalable_bandits.store import StoreError

            raise StoreError(
                f"store {store.location.name}: it contains an observation that the policy has not learned; "
                "close this recording and record another policy of the same specification, which learns all of them"
            )
        try:
            store.append(columns, changed)
        except BaseException:  # an interrupt may come after they were stored: the store then has these very tickets
            self._unlearned_failure = any(each.gone and store.tickets.get(each.number) is each for each in changed)
            raise
        self._learns_since = time.perf_counter()

    def _has_learned_all(self, store: ObservationStore) -> bool:
        """Whether the policy has learned everything that its store has."""
        return self.policy.rounds == len(store) and not self._unlearned_failure

    def _new(self, place: int, candidate: int, point: Floats) -> Ticket:
        """Return a new ticket for a candidate, after `place` others that are new."""
        space = self.policy.space
        x = point.tolist() if space.has_coordinates else [int(point[0])]
        setting = json.dumps(space.argument(point), default=str) if self.store is not None and space.named else ""
        now = time.time()
        return Ticket(self._given + place, candidate, x=tuple(x), setting=setting, asked=now, changed=now)

    def _take(self, changed: Sequence[Ticket]) -> None:
        """Take over tickets that are new or have changed."""
        for ticket in changed:
            self._given = max(self._given, ticket.number + 1)
            self.tickets[ticket.number] = self.open[ticket.number] = ticket
            if ticket.state not in OPEN:
                del self.open[ticket.number]


@attrs.frozen
class EvaluationPlan:
    """Limits of evaluations, checked: the arguments of `minimize` with these names.

    The budget counts evaluations that end (values and final failures), those of earlier processes included. `parallel`
    is None for the executor's slots, which may change. With `batch`, so many points are asked for at once, and their
    values are told at once, in the order of asking, when the last evaluation has ended.
    """

    budget: int = attrs.field(converter=checks.to_int, validator=checks.whole(1))
    parallel: int | None = checks.optional_count()
    retries: int = attrs.field(default=0, converter=checks.to_int, validator=checks.whole(0))
    seconds: float | None = checks.optional_number(checks.positive)
    timeout: float | None = checks.optional_number(checks.positive)
    batch: int | None = checks.optional_count()


@attrs.define
class CallInFlight:
    """Call of the function that has not ended."""

    number: int  # of its ticket
    began: float | None = None  # time in seconds since 1970; None if unknown
    due: float = math.inf  # time at which it has taken too long, on the monotonic clock


class Evaluating:
    """Evaluations as they end, an iterable, which keeps others in flight until budget or time is used up.

    Those of a batch come as they are measured, with `ended` None, and again when the batch has ended.

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
        Handler of Ctrl-C, which waits until a policy has learned a value.
    context
        Fixed coordinates of all points that are asked for, as in `Policy.ask`; None if all are chosen.

    Attributes
    ----------
    trace : str
        Traceback of the last failure.
    stopped : bool
        Whether no evaluation begins any more; may be set.
    used_up : bool
        Whether it has ended since no candidate of a pool is left.
    """

    def __init__(
        self, evaluations: Evaluations, executor: Execution, name: str, plan: EvaluationPlan, interrupts: Interrupts,
        context: Mapping[Any, Any] | None = None,
    ):  # fmt: skip
        self._evaluations, self._policy = evaluations, evaluations.policy
        self._executor, self._name, self._plan, self._context = executor, name, plan, context
        self._deadline = math.inf if plan.seconds is None else time.monotonic() + plan.seconds
        self._shield = interrupts.shield
        self.trace = ""
        self.stopped = self.used_up = False
        self._in_flight: dict[str, CallInFlight] = {}  # by the key of the task
        self._events = deque[Event]()  # of the executor, not handled yet
        self._failures_before = self._policy.failures
        for ticket in list(evaluations.tickets.values()):
            if ticket.state == "running":  # when its process ended
                evaluations.change(ticket.number, "lost")

    @property
    def ended(self) -> int:
        """Number of evaluations that have ended, those of earlier processes included."""
        return self._policy.rounds + self._policy.failures - self._evaluations.earlier

    @property
    def in_flight(self) -> int:
        """Number of evaluations that have begun and not ended."""
        return len(self._in_flight)

    @property
    def measured(self) -> int:
        """Number of evaluations of the batch that are measured, and end when all of it are."""
        return len(self._measured)

    def __iter__(self) -> Generator[Ticket]:
        try:
            while True:
                with self._shield():
                    self._fill()
                if not self._in_flight:
                    if self._plan.batch is None:
                        return
                    with self._shield():
                        batch = self._end_batch()
                    yield from batch
                    if not batch:
                        return
                    continue
                self._wait()
                while self._events:
                    with self._shield():
                        known = self._handle(self._events.popleft())
                    if known is not None:
                        yield known
        except (KeyboardInterrupt, GeneratorExit):
            self.stopped = True  # nothing is tried again
            if not self._executor.in_turn:
                with suppress(ClusterError):
                    self._events.extend(self._executor.events(0.0))
            while self._events:  # what has ended counts
                self._handle(self._events.popleft())
            self._end_batch()
            raise

    def _fill(self) -> None:
        """Start evaluations until the limit of those in flight, the budget or the deadline is reached."""
        most = self._executor.slots if self._plan.parallel is None else self._plan.parallel
        if self._plan.batch is not None:
            self._fill_batch(most, self._plan.batch)
            return
        while len(self._in_flight) < min(most, self._plan.budget - self.ended) and self._may_begin():
            try:
                self._policy.ask(context=self._context)
            except AllFailed as error:
                raise RuntimeError(f"function: it fails at every point of the space\n{self.trace}") from error
            busy = {call.number for call in self._in_flight.values()}
            idle = [ticket for number, ticket in self._evaluations.open.items() if number not in busy]
            if self._context is not None:  # an earlier process may have left some in another one
                here = self._policy.in_context(np.array([ticket.x for ticket in idle]), self._context)
                idle = [ticket for ticket, asked in zip(idle, here.tolist(), strict=True) if asked]
            self._start(idle[0])

    def _fill_batch(self, most: int, batch: int) -> None:
        """Start evaluations of a batch, up to the limit of those in flight; without one, ask for it."""
        tickets = self._evaluations.open
        if not tickets and self.ended < self._plan.budget and self._may_begin():
            self._ask_batch(min(batch, self._plan.budget - self.ended))
        busy = {call.number for call in self._in_flight.values()}
        for number, ticket in list(tickets.items()):
            if len(self._in_flight) >= most or not self._may_begin():
                return
            if number not in busy and ticket.state != "measured":
                self._start(ticket)

    def _ask_batch(self, count: int) -> None:
        """Ask for a batch, or for the candidates of a pool that are left; without any, the run has ended."""
        try:
            self._policy.ask(count, context=self._context)
        except NoCandidateLeft as error:
            if error.left:
                self._policy.ask(error.left, context=self._context)
            elif self._policy.rounds:
                self.stopped = self.used_up = True
            else:
                raise

    def _end_batch(self) -> list[Ticket]:
        """Tell the policy the values of a batch, in the order of asking; return their tickets as they are then."""
        if tickets := self._measured:
            points = self._policy.domain.points([ticket.candidate for ticket in tickets])  # labels may be equal
            self._policy.tell(points, np.array([ticket.y for ticket in tickets], dtype=np.float64))
        return [self._evaluations.tickets[ticket.number] for ticket in tickets]

    @property
    def _measured(self) -> list[Ticket]:
        """Tickets of a batch that are measured and not told, in the order of asking."""
        tickets = sorted(self._evaluations.open.items())  # at once, since a progress bar reads it in its thread
        return [ticket for _, ticket in tickets if ticket.state == "measured"]

    def _may_begin(self) -> bool:
        return not self.stopped and time.monotonic() < self._deadline

    def _start(self, ticket: Ticket) -> None:
        key = f"evaluate {self._name}-{ticket.number}-{ticket.failures}"
        self._in_flight[key] = CallInFlight(ticket.number)
        self._executor.submit(key, self._policy.domain.value(ticket.candidate))

    def _wait(self) -> None:
        """Take the executor's next events; wait for one, but not much longer than a call may take."""
        if self._executor.in_turn:
            self._events.extend(self._executor.events())  # calls the function, which Ctrl-C interrupts
            return
        limit = SLOT_CHECK_SECONDS if self._plan.parallel is None else math.inf
        began = time.monotonic()
        while not self._events and time.monotonic() < began + limit:
            with self._shield():
                self._events.extend(self._executor.events(POLL_SECONDS))
                here = {event.key for event in self._events}
                for key, call in self._in_flight.items():
                    if time.monotonic() >= call.due and key not in here:
                        call.due = math.inf
                        self._executor.end(key)
                        text = f"TimeoutError: it took longer than {self._plan.timeout:g} s"
                        self._events.append(Event("failed", key, error=text, trace=text))

    def _handle(self, event: Event) -> Ticket | None:
        """Update a ticket by an event of its task; return it if it is measured or its evaluation has ended for good."""
        call = self._in_flight.get(event.key)
        if call is None:  # its evaluation has ended
            return None
        ticket = self._evaluations.tickets[call.number]
        if event.kind == "started":
            self._evaluations.change(call.number, "running", where=event.where, starts=ticket.starts + 1)
            call.began = event.time
            if self._plan.timeout is not None and self._executor.ends_calls:
                call.due = time.monotonic() + self._plan.timeout
            return None
        call.due = math.inf
        if event.kind == "lost":
            self._evaluations.change(call.number, "lost")
            return None
        seconds = None if call.began is None or event.time is None else round(max(event.time - call.began, 0.0), 6)
        if event.kind == "failed":
            return self._fail(ticket, event, seconds)
        try:
            y = parse_value(event.value, self._policy.outputs)
        except ValueError as error:
            if isinstance(error, NotANumber) and not (self.ended or self._measured):  # a mistake in the function
                raise
            return self._fail(ticket, event._replace(error=str(error), trace=f"{error}\n"), seconds)
        if self._plan.batch is not None:
            measured = self._evaluations.change(call.number, "measured", y=y, seconds=seconds)
            del self._in_flight[event.key]
            return measured
        with self._evaluations.ending(call.number, seconds=seconds):
            self._policy.tell(self._policy.domain.value(ticket.candidate), y)
        del self._in_flight[event.key]
        return self._evaluations.tickets[call.number]

    def _fail(self, ticket: Ticket, event: Event, seconds: float | None) -> Ticket | None:
        """Try a failed evaluation again, or tell the policy the failure."""
        self.trace = event.trace
        fields = {"error": event.error, "failures": ticket.failures + 1, "seconds": seconds}
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
        failures = self._policy.failures - self._failures_before
        if self._policy.rounds or self._measured:
            return self._evaluations.tickets[ticket.number]
        if failures >= MOST_FIRST_FAILURES or event.error.startswith(NO_VALUE):  # the latter is a mistake of the user
            which = "evaluation failed" if failures == 1 else f"{failures} evaluations failed; the last one"
            raise self._evaluations.no_values(f"the first {which}, at {x}:\n{self.trace}")
        return self._evaluations.tickets[ticket.number]


class NotANumber(ValueError):
    """A function returned something else than a number."""


def parse_value(result: Any, outputs: Outputs | None = None) -> Any:
    """Convert a function's result to what can be told: a number, or of a policy with several outputs their dict.

    Raises
    ------
    NotANumber
        If the result is not a number, or no dict of the outputs.
    ValueError
        If the result is not finite, or too large.
    """
    if outputs is not None:
        try:
            outputs.split(result, "function")
        except NotOutputs as error:
            raise NotANumber(str(error)) from None
        return result
    y: Any = float(result) if isinstance(result, bool | np.bool_) else checks.to_float(result)  # success is 1
    if not isinstance(y, float):
        shown = " ".join(repr(result).split())
        raise NotANumber(f"function: got {shown[:200]}; allowed: a function that returns a number")
    if not math.isfinite(y) or abs(y) > LARGEST:
        checks.refuse("function", y, f"a function that returns finite numbers, up to {LARGEST:.0e} in size")
    return float(y)
