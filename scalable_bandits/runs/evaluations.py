"""Evaluations of a policy's points: a ticket for each, from the asking to its end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies import Policy
from scalable_bandits.spaces import Indices
from scalable_bandits.tickets import BULK, Ticket


def check_fresh(policy: Policy) -> None:
    """Raise ValueError unless a policy was neither asked nor told."""
    checks.kind("policy", policy, Policy, "a policy, such as IGPUCB(space, kernel)")
    if policy.rounds or policy.pending or policy.failures:
        given = f"one that was told {policy.rounds} rounds and has {len(policy.pending)} pending"
        checks.refuse("policy", given, "a fresh one, neither asked nor told")


def check_unrecorded(policy: Policy) -> None:
    """Raise ValueError if a recording of a policy is open, since it would not record the run."""
    if policy.recorded:
        given = "a policy that an open recording records"
        checks.refuse("policy", given, "a policy without an open recording: close the recording first")


class Evaluations:
    """What was asked of a policy, and what became of it; the policy's recorder while it is open, a context manager.

    Parameters
    ----------
    policy
        Policy whose points are evaluated.

    Attributes
    ----------
    tickets : dict
        Tickets by number. Without `all_tickets` only those of evaluations that have not ended.
    """

    all_tickets = True

    def __init__(self, policy: Policy):
        self.policy = policy
        self.tickets: dict[int, Ticket] = {}
        self._open: dict[int, Ticket] = {}  # evaluations that have not ended, in the order of asking
        self._given = 0  # number of tickets so far
        self._call = 1  # number of the next `tell`
        self._learning: tuple[int, list[Ticket]] = (0, [])  # call and tickets that the policy is learning
        # Ticket of the next `tell`, and more of its fields.
        self._ending: tuple[int | None, dict[str, Any]] = (None, {})

    def __enter__(self) -> Self:
        self.policy.record_to(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(orderly=kind is None)

    def close(self, orderly: bool = True) -> None:
        """Detach from the policy, which can be used afterwards, unrecorded."""
        self.policy.record_to(None)

    # ---- for the loop that evaluates

    def waiting(self, busy: Collection[int]) -> Ticket:
        """Return the first ticket that has not ended, but for some numbers, which are being evaluated."""
        return next(ticket for number, ticket in self._open.items() if number not in busy)

    def change(self, number: int, state: str, **fields: Any) -> Ticket:
        """Change the state and other fields of a ticket; return it as it is now."""
        changed = self.tickets[number].become(state, **fields)
        self.save([changed])
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
        self._call = 0
        self.policy.tell(x, y)

    def ended(self) -> list[Ticket]:
        """Return the tickets of evaluations that have ended, in the order in which they did."""
        found = [ticket for ticket in self.tickets.values() if ticket.ended is not None]
        return sorted(found, key=lambda ticket: ticket.ended or 0)

    # ---- for the policy, which calls these before it changes

    def asked(self, pending: Sequence[int]) -> None:
        left = Counter(pending)
        abandoned: list[Ticket] = []
        fresh: list[Ticket] = []
        for ticket in self._open.values():
            left[ticket.candidate] -= 1
            if left[ticket.candidate] < 0:
                abandoned.append(ticket.become("abandoned"))
        for candidate in pending:
            if left[candidate] > 0:
                left[candidate] -= 1
                fresh.append(self._new(len(fresh), candidate, self.policy.domain.points([candidate])[0]))
        if abandoned or fresh:
            self.save([*abandoned, *fresh])
            self._take([*abandoned, *fresh])

    def tells(self, candidates: Indices, points: Floats, values: Floats, noise: Floats | None) -> None:
        told_of = set(candidates.tolist())
        asked = not told_of.isdisjoint(self.policy.pending_points.numbers)
        waiting: dict[int, list[Ticket]] = {}
        for ticket in self._open.values():
            if ticket.candidate in told_of:
                waiting.setdefault(ticket.candidate, []).append(ticket)
        bulk = len(values) >= BULK and not self.all_tickets
        rounds, failures, call = self.policy.rounds, self.policy.failures, self._call
        mine, fields = self._ending
        tickets: list[Ticket] = []
        fresh = 0
        for i, candidate in enumerate(candidates.tolist()):
            if mine is not None:
                ticket = self.tickets[mine]
            elif waiting.get(candidate):
                ticket = waiting[candidate].pop(0)
            elif bulk:
                continue
            else:
                ticket, fresh = self._new(fresh, candidate, points[i]), fresh + 1
            told = {"y": float(values[i]), "noise": None if noise is None else float(noise[i]), "round": rounds + i + 1}
            ended = {"call": call if asked else -call, "ended": rounds + failures + i + 1}
            tickets.append(ticket.become("done", **told, **ended, **fields))
        columns = {
            "call": np.full(len(values), call if asked else -call),
            "candidate": candidates,
            "x": points if self.policy.space.has_coordinates else points[:, 0].astype(np.int64),
            "y": values,
            "noise": np.full(len(values), np.nan) if noise is None else noise,
            "time": np.full(len(values), time.time()) if bulk else [ticket.changed for ticket in tickets],
        }
        self.save(tickets, columns)
        self._learning = call, tickets

    def failed(self, candidate: int, point: Floats, error: str, pending: Sequence[int]) -> None:
        mine, fields = self._ending
        waiting = (ticket for ticket in self._open.values() if ticket.candidate == candidate)
        ticket = (next(waiting, None) or self._new(0, candidate, point)) if mine is None else self.tickets[mine]
        rounds, line = self.policy.rounds, error.strip().rpartition("\n")[2]
        told = {"error": line, "trace": error, "round": rounds, "ended": rounds + self.policy.failures + 1}
        ended = ticket.become("failed", **{**told, **fields})
        self.save([ended])
        self._take([ended])

    def told(self) -> None:
        call, tickets = self._learning
        self._call = call + 1
        self._take(tickets)

    # ---- for a store

    def plan(self, rounds: int) -> None:
        """Note the number of rounds that the run will have, observations from before it included."""

    def save(self, changed: Sequence[Ticket], columns: Mapping[str, Any] | None = None) -> None:
        """Make tickets that are new or have changed durable, and columns (k, ...) of the rounds that end some of them.

        If this raises, nothing has changed.
        """

    def _new(self, place: int, candidate: int, point: Floats) -> Ticket:
        """Return a new ticket for a candidate, after `place` others that are new."""
        x = point.tolist() if self.policy.space.has_coordinates else [int(point[0])]
        return Ticket(self._given + place, candidate, x=tuple(x), setting=self.describe(point))

    def describe(self, point: Floats) -> str:
        """Return the values of the parameters at a point, as text; empty where nobody will read it."""
        return ""

    def _take(self, changed: Sequence[Ticket]) -> None:
        """Take over tickets that are new or have changed."""
        for ticket in changed:
            self._given = max(self._given, ticket.number + 1)
            if ticket.final:
                self._open.pop(ticket.number, None)
            else:
                self._open[ticket.number] = ticket
            if self.all_tickets or not ticket.final:
                self.tickets[ticket.number] = ticket
            else:
                self.tickets.pop(ticket.number, None)
