"""Evaluations of a run as rows: those with a value and those that failed, in the order in which they ended."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.policies import Policy
from scalable_bandits.runs.tickets import Ticket


class Evaluation(NamedTuple):
    """One evaluation of a tuning run."""

    x: Any  # point (d,), arm number, or setting (a dict); None if a store does not have it
    value: float  # in units of y; NaN if the evaluation failed
    error: str  # of a failed evaluation; else empty
    seconds: float  # duration; NaN if unknown


def evaluation_rows(policy: Policy, x: Any, y: Floats, tickets: Sequence[Ticket], earlier: int) -> list[Evaluation]:
    """Return the evaluations of a run in the order in which they ended.

    Parameters
    ----------
    policy
        Policy after the run.
    x
        Points (n, d), arm numbers (n,), or a list of n settings.
    y
        Values (n,), in units of y.
    tickets
        Tickets of the evaluations.
    earlier
        Number of the first values that have no tickets.
    """
    waiting = _by_candidate(tickets)
    failed = deque(sorted((t for t in tickets if t.final and t.state == "failed"), key=lambda ticket: ticket.changed))
    rows: list[Evaluation] = []
    numbers = policy.domain.find(policy.space.parse(x)[0]).tolist() if len(x) else []
    for i, (number, value) in enumerate(zip(numbers, y.tolist(), strict=True)):
        ticket = waiting[number].popleft() if i >= earlier and waiting.get(number) else None
        while ticket is not None and failed and failed[0].changed <= ticket.changed:
            rows.append(_failure(policy, failed.popleft()))
        rows.append(Evaluation(x[i], value, "", _seconds(ticket)))
    return rows + [_failure(policy, ticket) for ticket in failed]


def _by_candidate(tickets: Iterable[Ticket]) -> dict[int, deque[Ticket]]:
    """Return the tickets with a value in the order in which they ended, by candidate."""
    found: dict[int, deque[Ticket]] = {}
    for ticket in sorted((each for each in tickets if each.state == "done"), key=lambda ticket: ticket.changed):
        found.setdefault(ticket.candidate, deque()).append(ticket)
    return found


def _failure(policy: Policy, ticket: Ticket) -> Evaluation:
    candidate, domain = ticket.candidate, policy.domain
    lost = not 0 <= candidate < domain.size or bool(np.isnan(domain.points([candidate])).any())
    return Evaluation(None if lost else domain.value(candidate), math.nan, ticket.error, _seconds(ticket))


def _seconds(ticket: Ticket | None) -> float:
    """Return the duration of the last call of an evaluation that has ended; NaN if unknown."""
    return math.nan if ticket is None or ticket.seconds is None else ticket.seconds
